"""Snapshots by a timer and by cron, in a real systemd: three of two live jobs each, of which retention keeps the newest two."""
import pathlib
import re
import time

import pytest

CRONTAB = pathlib.Path(__file__).resolve().parents[2] / "systemd" / "cron" / "profd-snapshot"


@pytest.fixture
def jobs(machine):
    """Two live jobs of two users, one with two ranks."""
    pids = {"alice": [], "bob": []}
    for user, rank in (("alice", "0"), ("alice", "1"), ("bob", None)):
        env = {"RANK": rank, "WORLD_SIZE": "2", "PROFD_JOB": "77"} if rank else {}
        pids[user].append(machine.job(machine.workload("steps"), "--step-ms=30", user=user, env=env).pid)
    return pids


def timer(machine, name, options, every):
    """A timer of the template, as an administrator sets one up; `every` is a calendar's expression."""
    machine.write(f"/etc/profd/snapshot/{name}.conf", f"PROFD_SNAPSHOT_OPTIONS={options}\n")
    machine.write(f"/etc/systemd/system/profd-snapshot@{name}.timer.d/test.conf",
                  f"[Timer]\nOnCalendar=\nOnCalendar={every}\nRandomizedDelaySec=0\n")
    machine.run(f"systemctl daemon-reload && systemctl start profd-snapshot@{name}.timer")


def drop_timer(machine, name):
    machine.run(f"systemctl stop profd-snapshot@{name}.timer profd-snapshot@{name}.service;"
                f"rm -r /etc/profd/snapshot/{name}.conf /etc/systemd/system/profd-snapshot@{name}.timer.d;"
                "systemctl daemon-reload")


def captures(machine, label, user="root"):
    return machine.json("captures", "--label", label, "--limit", 1000, user=user, codes=(0, 3))["captures"]


def triggers(machine, label):
    return {c["trigger_id"] for c in captures(machine, label)}


def seen(machine, label, known):
    """Adds the triggers that are there now to `known`: retention takes the older ones away."""
    known |= triggers(machine, label)
    return known


def check_two_of_each(machine, label, jobs, all_triggers):
    """Two jobs, three runs: six triggers were seen, and of each process the newest two captures are there."""
    kept = captures(machine, label)
    everybody = sorted(jobs["alice"] + jobs["bob"])
    assert sorted(c["pid"] for c in kept) == sorted(everybody * 2), kept
    assert all(c["status"] == "complete" and c["label"] == label for c in kept)
    newest = sorted(all_triggers, key=lambda trigger: int(trigger.lstrip("ut")))[-4:]
    assert {c["trigger_id"] for c in kept} == set(newest), (kept, all_triggers)
    # The ranks of a job were recorded together.
    for trigger in newest:
        pids = sorted(c["pid"] for c in kept if c["trigger_id"] == trigger)
        assert pids in (sorted(jobs["alice"]), sorted(jobs["bob"]))
    # History shows them: to an administrator all, to a user their own.
    for user, wanted in (("root", 3), ("carol", 3), ("alice", 2), ("bob", 1)):
        series = machine.json("history", "--label", label, user=user)["series"]
        assert len(series) == wanted and all(len(s["snapshots"]) == 2 for s in series), (user, series)
        shown = {r["capture_id"] for s in series for r in s["snapshots"]}
        assert shown <= {c["capture_id"] for c in kept}
    assert "2 snapshots" in machine.run(["profd", "history", "--label", label], user="bob").stdout


@pytest.mark.core
def test_timer(machine, jobs):
    """Three runs, and what the unit says is in the journal."""
    timer(machine, "quick", "--all --steps 2 --label quick --keep 2", "*:*:0/5")
    known = set()
    try:
        machine.wait(lambda: len(seen(machine, "quick", known)) >= 6, 60, "three runs of the timer")
        machine.run("systemctl stop profd-snapshot@quick.timer")
        machine.wait(lambda: "inactive" in machine.run("systemctl is-active profd-snapshot@quick.service",
                                                       check=False).stdout, 20, "the last run's end")
        check_two_of_each(machine, "quick", jobs, seen(machine, "quick", known))
        journal = machine.run("journalctl --no-pager --output cat --unit profd-snapshot@quick.service").stdout
        assert re.search(r"steps of alice \(job 77, 2 ranks\): recorded, captures \d+ and \d+(, from step \d+ on)?: step ", journal), journal
        assert re.search(rf"steps of bob \(pid {jobs['bob'][0]}\): recorded, capture \d+: step .*; 1 older deleted", journal)
        assert machine.run("systemctl show --value --property Result profd-snapshot@quick.service").stdout == "success\n"
    finally:
        drop_timer(machine, "quick")


def test_unit(machine, jobs):
    """Without its file it does not start; options may be quoted; the sandbox is tight; a stop ends what is recorded."""
    done = machine.run("systemctl start profd-snapshot@none.service", check=False)
    assert done.returncode != 0
    machine.run("systemctl reset-failed 'profd-snapshot@*'", check=False)
    machine.write("/etc/profd/snapshot/one.conf", "PROFD_SNAPSHOT_OPTIONS=--name 'st*s' --user bob --label 'two words'\n")
    machine.run("systemctl start profd-snapshot@one.service")
    assert [c["pid"] for c in captures(machine, "two words")] == jobs["bob"]
    lines = machine.run("systemd-analyze verify profd-snapshot@one.service profd-snapshot@one.timer", check=False)
    assert not [line for line in lines.stderr.splitlines() if "profd" in line], lines.stderr
    security = machine.run("systemd-analyze security --no-pager profd-snapshot@one.service").stdout
    assert float(re.search(r"exposure level for profd-snapshot@one.service: ([\d.]+)", security).group(1)) <= 1.0, security
    machine.write("/etc/profd/snapshot/one.conf", "PROFD_SNAPSHOT_OPTIONS=--user bob --steps 1000 --label stopped\n")
    machine.run("systemctl start --no-block profd-snapshot@one.service")
    machine.wait(lambda: machine.process(jobs["bob"][0])["state"] == "recording", 20, "the recording")
    machine.run("systemctl stop profd-snapshot@one.service")
    [capture] = captures(machine, "stopped")
    assert (capture["status"], capture["reason_code"]) == ("incomplete", "cancelled")
    machine.wait(lambda: machine.process(jobs["bob"][0])["state"] == "idle", 10, "the agent to be idle")
    machine.run("rm /etc/profd/snapshot/one.conf")


@pytest.mark.long
def test_cron(machine, jobs):
    """Debian's cron, every minute: the administrator's line in /etc/cron.d, and a user's own crontab beside it."""
    assert machine.run("test -x /usr/sbin/cron", check=False).returncode == 0, "the package cron is missing"
    # The example as it lies there, but for the times, which are the administrator's.
    lines = [line for line in CRONTAB.read_text().splitlines() if not line.startswith("#")]
    command = lines.pop()
    assert command.split()[:6] == ["*/10", "*", "*", "*", "*", "profd"] and "profd snapshot --all" in command
    command = re.sub(r"^\*/10", "* ", command).replace("--keep 50", "--keep 2").replace("--stagger 2m", "--stagger 2s")
    machine.write("/etc/cron.d/profd-snapshot", "\n".join([*lines, command + " --label cron", ""]))
    own = "* * * * * profd snapshot --all --keep 2 --label own --steps 2 >>$HOME/cron.log 2>&1\n"
    machine.run("crontab -", user="bob", input=own)
    known = set()
    try:
        machine.run("systemctl start cron.service")
        machine.wait(lambda: len(seen(machine, "cron", known)) >= 6, 240, "three runs of cron")
        machine.wait(lambda: machine.run("cat ~bob/cron.log", check=False).stdout.count("\n") >= 3, 60, "bob's third run")
        machine.run("systemctl stop cron.service")
        machine.wait(lambda: machine.run("pgrep -f 'profd snapsho[t]'", check=False).returncode != 0, 30, "their ends")
        time.sleep(0.5)
        check_two_of_each(machine, "cron", jobs, seen(machine, "cron", known))
        # Bob's own sees his own alone.
        assert [c["pid"] for c in captures(machine, "own")] == jobs["bob"] * 2
        log = machine.run("cat ~bob/cron.log").stdout.splitlines()
        assert len(log) == 3 and all(re.match(rf"steps \(pid {jobs['bob'][0]}\): recorded, capture \d+: ", line)
                                     for line in log), log
    finally:
        machine.run("systemctl stop cron.service; rm -f /etc/cron.d/profd-snapshot; crontab -u bob -r", check=False)
