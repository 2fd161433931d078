"""The system's daemon as a service of a real systemd: started by its socket, watched, restarted, told its settings anew."""
import re
import signal
import time

import pytest

from jobs import captured, follow, wait_recording


def drop_in(machine, text):
    machine.write("/run/systemd/system/profd.service.d/test.conf", text)
    machine.run("systemctl daemon-reload")


def slow_job(machine):
    """One that records for 15 s and more: what comes while it does comes in time, and then it hurries."""
    return machine.job(machine.workload("steps"), "--step-ms=150", user="alice")


def hurry(machine, jobs):
    """The jobs are known to the daemon that is there now, and do what is left quickly."""
    for job in jobs:
        machine.wait(lambda: machine.process(job.pid), 20, "the job to register again")
        job.hurry()


def wait_restarted(machine, before, seconds=20):
    """Waits for another daemon than the one with this pid."""
    def look():
        unit = machine.unit("MainPID", "SubState")
        return unit["SubState"] == "running" and unit["MainPID"] not in ("0", before)
    machine.wait(look, seconds, "another daemon")


def test_the_first_client_starts_the_daemon(machine):
    assert machine.unit("ActiveState") == "inactive"
    assert machine.processes(user="alice") == []
    assert machine.unit("ActiveState", "SubState", "NRestarts") == {"ActiveState": "active", "SubState": "running",
                                                                     "NRestarts": "0"}
    job = machine.job(machine.workload("steps"), user="alice")
    # Told within a second or two, not at each change.
    machine.wait(lambda: machine.unit("StatusText").startswith("1 process, 0 captures under way, 0 stored"), 10, "the status")
    client = follow(machine, job, "--steps", "3", user="alice")
    captured(client)
    machine.wait(lambda: "1 stored" in machine.unit("StatusText"), 10, "the status")


def test_the_first_agent_starts_the_daemon(machine):
    job = machine.popen(["profd", "run", "--", machine.workload("steps")], user="bob")
    machine.wait(lambda: machine.unit("SubState") == "running", 10, "the daemon")
    machine.wait(lambda: machine.process(job.pid), 10, "the job to register")


def test_units_are_in_order(machine):
    """systemd has nothing to say of them, and what the sandbox leaves open stands in the unit with its reason."""
    folder = "/usr/lib/systemd/system"
    for unit in ("profd.service", "profd.socket"):
        done = machine.run(f"systemd-analyze verify --man=no {folder}/{unit}")
        assert done.stdout + done.stderr == "", unit
    user = {"XDG_RUNTIME_DIR": "/tmp"}
    for unit in ("profd.service", "profd.socket"):
        done = machine.run(f"systemd-analyze verify --user --man=no /usr/lib/systemd/user/{unit}", user="alice", env=user)
        assert done.stdout + done.stderr == "", unit
    # The threshold is ten times the exposure that is shown.
    shown = machine.run(f"systemd-analyze security --offline=true --no-pager --threshold=10 {folder}/profd.service").stdout
    exposure = float(re.search(r"Overall exposure level for profd.service: ([0-9.]+)", shown).group(1))
    assert exposure <= 1.0
    comments = "\n".join(line for line in machine.run(f"cat {folder}/profd.service").stdout.splitlines()
                         if line.startswith("#"))
    words = {"RestrictAddressFamilies=~AF_UNIX": "AF_UNIX", "SystemCallFilter=~@resources": "@resources",
             "RootDirectory=/RootImage=": "RootDirectory="}
    for line in shown.splitlines():
        if line.startswith("✗"):
            name = line.split()[1]
            assert words.get(name, name) in comments, f"{name} is left out, and nothing says why"
    assert machine.unit("PrivateUsers") == "no"


def test_owners_and_modes(machine):
    """Whose the socket and the store are, and who can read them."""
    job = machine.job(machine.workload("steps"), user="alice")
    captured(follow(machine, job, "--steps", "3", user="alice"))
    listed = machine.run("stat -c '%A %U %G %n' /run/profd /run/profd/profd.sock /var/lib/profd /var/lib/profd/lock "
                         "/var/lib/profd/catalogue.db /var/lib/profd/captures /var/lib/profd/captures/*").stdout.splitlines()
    assert listed[:6] == ["drwxr-xr-x root root /run/profd", "srw-rw-rw- profd profd /run/profd/profd.sock",
                          "drwxr-x--- profd profd /var/lib/profd", "-rw------- profd profd /var/lib/profd/lock",
                          "-rw-r----- profd profd /var/lib/profd/catalogue.db",
                          "drwxr-x--- profd profd /var/lib/profd/captures"]
    assert listed[6:] and all(line.startswith("-rw-r----- profd profd ") for line in listed[6:])
    for user in ("alice", "bob"):
        assert machine.run("ls /var/lib/profd", user=user, check=False).returncode != 0
        assert machine.run("touch /run/profd/x", user=user, check=False).returncode != 0
    assert machine.run("ls /var/lib/profd/captures", user="carol").stdout
    assert machine.run("touch /var/lib/profd/x", user="carol", check=False).returncode != 0
    # Root's folder, the service's own user: not root, no login, no capabilities.
    assert machine.run("getent passwd profd").stdout.strip().endswith(("/nologin", "/false"))
    status = machine.run(["cat", f"/proc/{machine.unit('MainPID')}/status"]).stdout
    uid = machine.run("id -u profd").stdout.strip()
    assert f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}" in status and "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status


def test_real_uids_arrive(machine):
    """What a user sees rests on the uid that the kernel tells the daemon."""
    jobs = {name: machine.job(machine.workload("steps"), user=name) for name in ("alice", "bob")}
    def seen(user):
        return {(row["pid"], row["uid"], row["user"]) for row in machine.processes(user)}
    of_alice, of_bob = (jobs["alice"].pid, 7001, "alice"), (jobs["bob"].pid, 7002, "bob")
    assert seen("alice") == {of_alice} and seen("bob") == {of_bob}
    assert seen("carol") == seen("root") == {of_alice, of_bob}
    refused = machine.run(["profd", "trigger", "--pid", str(jobs["alice"].pid)], user="bob", check=False)
    assert refused.returncode == 6, refused.stderr
    (capture,), _ = captured(follow(machine, jobs["alice"], "--steps", "3", user="carol"))
    assert machine.json("show", capture["capture_id"], user="alice")["capture"]["uid"] == 7001
    assert machine.run(["profd", "show", capture["capture_id"]], user="bob", check=False).returncode == 6


@pytest.mark.core
def test_a_daemon_that_hangs_is_started_anew(machine):
    # It says that it works at half that time: on a full machine it may come to its turn seconds late.
    drop_in(machine, "[Service]\nWatchdogSec=10s\n")
    job = machine.job(machine.workload("steps"), user="alice")
    before = machine.unit("MainPID")
    time.sleep(12)
    assert machine.unit("MainPID") == before, "a daemon that works was taken for one that hangs"
    machine.run(["kill", "-STOP", before])
    wait_restarted(machine, before)
    assert "watchdog timeout" in machine.run("journalctl --quiet --output=cat -b _PID=1 --unit=profd.service").stdout.lower()
    machine.wait(lambda: machine.process(job.pid), 20, "the job to register again")
    captured(follow(machine, job, "--steps", "3", user="alice"))


def test_a_daemon_that_is_killed_is_started_anew(machine):
    job = slow_job(machine)
    client = follow(machine, job, "--steps", "200", user="alice")
    wait_recording(machine, [job])
    time.sleep(0.5)
    before = machine.unit("MainPID")
    machine.run(["kill", "-KILL", before])
    wait_restarted(machine, before)
    hurry(machine, [job])
    (capture,), err = captured(client)
    assert (capture["status"], capture["steps_recorded"], capture["lost"]) == ("complete", 200, 0)
    assert "waiting for it to come back" in err
    assert machine.unit("NRestarts") == "1"


def test_settings_are_read_anew(machine):
    machine.write("/etc/profd/profd.conf", "store_age = 30d\n")
    machine.processes()
    machine.write("/etc/profd/conf.d/10-more.conf", "verbose = yes\nmetrics_port = 9123\n")
    machine.run("systemctl reload profd.service")
    machine.wait(lambda: "settings read anew; what takes a restart: metrics_port" in machine.journal(), 10, "the reload")
    assert machine.unit("ActiveState") == "active"
    # It is in force: a daemon that says more tells of each process.
    job = machine.job(machine.workload("steps"), user="alice")
    machine.wait(lambda: f"pid {job.pid} (steps)" in machine.journal(), 10, "the daemon to say more")
    pid = machine.unit("MainPID")

    machine.write("/etc/profd/conf.d/20-wrong.conf", "# one line\nverbose = no\nstore_bytes = 20 gigs\n")
    refused = machine.run("systemctl reload profd.service", check=False)
    assert refused.returncode != 0
    where = "/etc/profd/conf.d/20-wrong.conf:3:15: store_bytes:"
    machine.wait(lambda: where in machine.unit("StatusText"), 10, "the refusal in the status")
    assert "the settings are refused, the old ones hold: " + where in machine.journal()
    assert machine.unit("MainPID", "ActiveState") == {"MainPID": pid, "ActiveState": "active"}
    other = machine.job(machine.workload("steps"), user="bob")
    machine.wait(lambda: f"pid {other.pid} (steps)" in machine.journal(), 10, "the old settings to hold")

    machine.run("rm /etc/profd/conf.d/20-wrong.conf")
    machine.run("systemctl reload profd.service")
    machine.wait(lambda: "refused" not in machine.unit("StatusText"), 10, "the refusal to be forgotten")


def test_restart_while_recording(machine):
    """Who follows a capture sees it through, whichever daemon finishes it, and whatever it was at."""
    jobs = [slow_job(machine) for _ in range(4)]
    # One that records, one that waits, one that warms up for long, one with more cycles to come.
    wanted = [["--steps", "200"], ["--steps", "20", "--skip-first", "150"], ["--steps", "20", "--warmup", "150"],
              ["--steps", "40", "--repeat", "3", "--wait-steps", "5"]]
    clients = [follow(machine, job, *words, user="alice") for job, words in zip(jobs, wanted)]
    wait_recording(machine, [jobs[0], jobs[3]])
    states = {job.pid: machine.process(job.pid)["state"] for job in jobs}
    assert states[jobs[1].pid] == "armed" and states[jobs[2].pid] == "warmup"
    before = machine.unit("MainPID")
    machine.run("systemctl restart profd.service")
    assert machine.unit("MainPID") != before
    hurry(machine, jobs)
    for client, job, steps, cycles in zip(clients, jobs, (200, 20, 20, 40), (1, 1, 1, 3)):
        captures, err = captured(client)
        assert "waiting for it to come back" in err
        assert len(captures) == cycles
        for capture in captures:
            assert (capture["status"], capture["steps_recorded"], capture["lost"]) == ("complete", steps, 0), capture
            shown = machine.json("show", capture["capture_id"], user="alice")
            calls = {row["name"]: row["calls"] for row in shown["ranges"]}
            assert calls == {"step": steps, **{f"work {i}": steps for i in range(4)}}
            assert {row["collector"] for row in shown["collectors"] if row["on"]} == {"steps", "nvtx"}


def record_all(machine, jobs, steps=150):
    """The jobs hurry, and have done so many steps and what comes after them, whether or not there is a daemon."""
    for job in jobs:
        job.hurry()
        before = job.naps()
        machine.wait(lambda: job.naps() > before + 2 * steps, 20, "the recorded steps")
    time.sleep(1)


def leave(machine, job, kill):
    """A job is recorded while the daemon is stopped, and ends; then the daemon is killed. Returns the capture as the next daemon
    has it. `kill`: in mid-capture, else it has recorded all its steps."""
    before = machine.unit("MainPID")
    machine.run(["kill", "-STOP", before])
    if not kill:
        record_all(machine, [job])
    job.kill()
    machine.run(["kill", "-KILL", before])
    wait_restarted(machine, before)

    def row():
        (capture,) = machine.json("captures", user="alice")["captures"]
        return capture if capture["status"] in ("complete", "incomplete") else None

    return machine.wait(row, 20, "the capture to be taken in")


def test_a_job_that_ends_while_no_daemon_runs(machine):
    """The service manager keeps the segments: what lies there is nobody's loss."""
    job = slow_job(machine)
    machine.run(["profd", "trigger", "--pid", str(job.pid), "--steps", "150", "--no-wait"], user="alice")
    wait_recording(machine, [job])
    machine.wait(lambda: machine.unit("NFileDescriptorStore") == "1", 10, "the segment to be kept")
    capture = leave(machine, job, kill=False)
    assert (capture["status"], capture["steps_recorded"], capture["lost"]) == ("complete", 150, 0), capture
    shown = machine.json("show", capture["capture_id"], user="alice")
    assert {row["name"]: row["calls"] for row in shown["ranges"]} == {"step": 150, **{f"work {i}": 150 for i in range(4)}}
    machine.wait(lambda: machine.unit("NFileDescriptorStore") == "0", 10, "the segment to be given back")


def test_a_job_that_is_killed_while_no_daemon_runs(machine):
    job = machine.job(machine.workload("steps"), "--step-ms=10", user="alice")
    machine.run(["profd", "trigger", "--pid", str(job.pid), "--steps", "10000", "--no-wait"], user="alice")
    wait_recording(machine, [job])
    machine.wait(lambda: machine.unit("NFileDescriptorStore") == "1", 10, "the segment to be kept")
    before = job.naps()
    machine.wait(lambda: job.naps() > before + 50, 20, "recorded steps")
    capture = leave(machine, job, kill=True)
    assert capture["status"] == "incomplete" and capture["reason_code"] == "died", capture
    assert f"after {capture['steps_recorded']} of 10000 steps" in capture["reason"]
    shown = machine.json("show", capture["capture_id"], user="alice")
    calls = {row["name"]: row["calls"] for row in shown["ranges"]}
    assert capture["steps_recorded"] > 20 and calls["step"] >= capture["steps_recorded"]


def test_stop_with_captures_under_way(machine):
    """They are left to their agents; the daemon that somebody starts later takes them in."""
    jobs = [machine.job(machine.workload("steps"), "--step-ms=1000", user="alice") for _ in range(3)]
    for job in jobs:
        machine.run(["profd", "trigger", "--pid", str(job.pid), "--steps", "150", "--no-wait"], user="alice")
    wait_recording(machine, jobs)
    began = time.monotonic()
    machine.run("systemctl stop profd.socket profd.service")
    # It does not wait for them: they would take two minutes and more.
    assert time.monotonic() - began < 60
    assert machine.unit("Result", "ActiveState") == {"Result": "success", "ActiveState": "inactive"}
    assert machine.run("test -e /run/profd/profd.sock", check=False).returncode != 0
    assert machine.run(["profd", "ps"], check=False).returncode == 7
    record_all(machine, jobs)
    machine.run("systemctl start profd.socket")
    def finished():
        rows = machine.json("captures")["captures"]
        return rows if len(rows) == 3 and all(row["status"] == "complete" for row in rows) else None
    rows = machine.wait(finished, 30, "the captures to be taken in")
    assert {(row["steps_recorded"], row["lost"]) for row in rows} == {(150, 0)}
    for job in jobs:
        assert job.running()


def test_a_daemon_of_ones_own(machine):
    """Without root: units of the user's own manager; the system's daemon does not come into it."""
    folder = "/run/user/7001"
    machine.run("systemctl stop profd.socket profd.service")
    machine.run(f"install -d -o alice -g alice -m 700 {folder}")
    machine.run(["systemd-run", "--quiet", "--unit=alice", "--uid=alice", "--gid=alice", "--property=Delegate=yes",
                 "--property=Type=notify", f"--setenv=XDG_RUNTIME_DIR={folder}", "--setenv=HOME=/home/alice",
                 "/lib/systemd/systemd", "--user"])
    env = {"XDG_RUNTIME_DIR": folder}
    try:
        machine.run("systemctl --user enable --now profd.socket", user="alice", env=env)
        assert machine.json("ps", user="alice", env=env, codes=(0, 3))["processes"] == []
        job = machine.popen(["profd", "run", "--", machine.workload("steps"), "--step-ms=150"], user="alice", env=env)

        def row():
            rows = machine.json("ps", user="alice", env=env, codes=(0, 3))["processes"]
            return rows and rows[0]["step"] >= 2 and rows[0]

        assert machine.wait(row, 20, "the job to register")["pid"] == job.pid
        listed = machine.run(f"stat -c '%A %U %n' {folder}/profd {folder}/profd/profd.sock /home/alice/.local/state/profd")
        assert listed.stdout.splitlines() == [f"drwx------ alice {folder}/profd", f"srw------- alice {folder}/profd/profd.sock",
                                              "drwx------ alice /home/alice/.local/state/profd"]
        client = machine.popen(["profd", "trigger", "--pid", str(job.pid), "--steps", "150", "--format", "json"], user="alice",
                               env=env)
        machine.wait(lambda: row()["state"] == "recording", 20, "the recording")
        machine.wait(lambda: "=1" in machine.run("systemctl --user show profd.service --property NFileDescriptorStore",
                                                 user="alice", env=env).stdout, 10, "the segment to be kept")
        machine.run("systemctl --user restart profd.service", user="alice", env=env)
        machine.wait(row, 20, "the job to register again")
        job.hurry()
        (capture,), _ = captured(client)
        assert (capture["status"], capture["steps_recorded"], capture["lost"]) == ("complete", 150, 0)
        # Nobody else, root left aside, is served, or even let through the door.
        other = machine.run(["profd", "ps"], user="bob", env={"PROFD_SOCKET": f"{folder}/profd/profd.sock"}, check=False)
        assert other.returncode == 7, other.stderr
    finally:
        machine.run("systemctl stop alice.service; rm -rf /home/alice/.config/systemd /home/alice/.local", check=False)
