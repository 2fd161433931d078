"""The .deb of ./dev package in a bare root file system under a real systemd: installed, used, upgraded in the middle of a capture,
removed, purged."""
import json
import re
import subprocess

import pytest

from conftest import OUTSIDE, wanted

# What installing anything at all changes.
APT = re.compile(r"/var/(lib/(dpkg|apt)|cache|log)/|/etc/(ld\.so\.cache|(passwd|group|shadow|gshadow|subuid|subgid)-)$|/var/lib/systemd/"
                 r"(random-seed|catalog|timesync|timers/$|timers/stamp-(?!profd))|/etc/\.(pwd\.lock|updated)|/root/|/home/|/var/tmp/systemd-private|/tmp/")


@pytest.fixture(scope="module")
def deb():
    return wanted("PROFD_DEB")


@pytest.fixture(scope="module")
def members(deb):
    """Each file's mode, owner and path."""
    lines = subprocess.run(["dpkg-deb", "--contents", deb], check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split(None, 5)[5].split(" -> ")[0].removeprefix("."): line.split()[:2] for line in lines}


def apt(machine, *words, check=True):
    done = machine.run(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "--yes", "-o", "APT::Sandbox::User=root", *words], timeout=180, check=False)
    assert not check or done.returncode == 0, f"apt-get {words}: {done.stdout}{done.stderr}"
    assert "warning" not in done.stderr.lower() and "W:" not in done.stderr, done.stderr
    return done


def files(machine):
    found = machine.run("find / /run -xdev -printf '%y %p\\n' | grep -vE '^. /(proc|sys|run/systemd|run/user|run/mount|run/lock|run/log)/'").stdout
    return {line for line in found.splitlines() if line and not APT.search(line + ("/" if line.startswith("d") else ""))}


def users(machine):
    return machine.run("cut -d: -f1 /etc/passwd /etc/group | sort").stdout


def test_what_is_in_it(deb, members):
    def field(name):
        return subprocess.run(["dpkg-deb", "-f", deb, name], check=True, capture_output=True, text=True).stdout.strip()

    assert field("Package") == "profd" and field("Section") == "devel" and "<" in field("Maintainer")
    depends = field("Depends")
    for library in ("libc6 (>=", "libuv1", "libsqlite3-0", "libcjson1", "zlib1g", "libyajl2"):
        assert library in depends, depends
    assert "libdw1" in field("Recommends") and "libdw" not in depends
    for path in ("/usr/bin/profd", "/usr/bin/profd-daemon", "/usr/lib/profd/libprofd_agent.so", "/usr/include/profd.h", "/etc/profd/profd.conf",
                 "/etc/profd/conf.d/", "/usr/share/doc/profd/copyright", "/usr/share/doc/profd/docs/containers.md",
                 "/usr/share/doc/profd/changelog.Debian.gz", "/usr/share/man/man1/profd.1.gz",
                 "/usr/share/man/man8/profd-daemon.8.gz", "/usr/share/man/man5/profd.conf.5.gz", "/usr/lib/sysusers.d/profd.conf",
                 "/usr/lib/tmpfiles.d/profd.conf", "/usr/share/bash-completion/completions/profd"):
        assert path in members, f"{path} is missing"
    assert any(path.endswith("/systemd/system/profd.socket") for path in members)
    for path, (mode, owner) in members.items():
        assert owner == "root/root" and mode[0] in "d-l", path
        assert mode in ("drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx"), f"{path}: {mode}"
    assert members["/usr/lib/profd/libprofd_agent.so"][0] == "-rw-r--r--"
    conffiles = subprocess.run(["dpkg-deb", "-I", deb, "conffiles"], check=True, capture_output=True, text=True).stdout
    assert conffiles == "/etc/profd/profd.conf\n"


def test_installed_used_upgraded_removed_purged(deb, bare):
    next_deb = wanted("PROFD_DEB_NEXT")
    machine = bare(deb, next_deb, wanted("PROFD_STEPS"))
    steps = f"{OUTSIDE}/steps"
    assert machine.run("command -v gcc make python3 profd", check=False).stdout == "", "the root is not bare"
    files_before, users_before = files(machine), users(machine)

    # Installed: what it needs comes along, the user and the socket are there, the daemon waits for the first question.
    apt(machine, "install", f"{OUTSIDE}/{deb.name}")
    assert {"f /etc/profd/profd.conf", "d /run/profd", "d /var/lib/profd"} <= files(machine) - files_before
    assert machine.run("profd version").stdout.startswith("profd ")
    assert machine.unit("ActiveState", name="profd.socket") == "active"
    assert machine.run("systemctl is-enabled profd.socket").stdout.strip() == "enabled"
    assert machine.unit("ActiveState") == "inactive"
    assert machine.run("stat -c '%U:%G %a' /run/profd /run/profd/profd.sock").stdout.split("\n")[:2] == ["root:root 755", "profd:profd 666"]
    machine.run("profd-daemon --check-config")
    settings = machine.run("grep -vE '^(#|$)' /etc/profd/profd.conf", check=False).stdout
    assert settings == "", f"not all settings are commented: {settings}"

    # Used, by users who see only what is theirs.
    job = machine.job(steps, "--seconds=300", user="alice")
    assert machine.unit("ActiveState") == "active" and machine.unit("User") == "profd"
    assert machine.run("stat -c '%U:%G %a' /var/lib/profd").stdout.strip() == "profd:profd 750"
    assert machine.process(job.pid, user="bob") is None
    (first,) = machine.json("trigger", "--pid", str(job.pid), "--steps", "3", user="alice")["captures"]
    assert (first["status"], first["steps_recorded"], first["lost"]) == ("complete", 3, 0)
    assert len(machine.json("show", first["capture_id"], user="alice")["steps"]) == 3

    # Upgraded in the middle of a capture.
    before = machine.unit("MainPID")
    machine.write("/etc/profd/conf.d/50-site.conf", "audit_lines = 5000\n")
    triggered = machine.json("trigger", "--pid", str(job.pid), "--steps", "3000", "--no-wait", user="alice")
    (running,) = triggered["captures"]
    machine.wait(lambda: machine.process(job.pid, user="alice")["state"] == "recording", 20, "the capture to record")
    began = machine.run("date -u +%FT%TZ").stdout.strip()
    apt(machine, "install", f"{OUTSIDE}/{next_deb.name}")
    assert machine.run("dpkg-query -W -f '${Version}' profd").stdout.endswith("-2")
    assert machine.unit("ActiveState") == "active" and machine.unit("MainPID") != before, "the daemon was not restarted"
    assert job.running()

    def captures():
        return {row["capture_id"]: row for row in machine.json("captures", user="alice")["captures"]}

    held = machine.wait(lambda: (c := captures()).get(running["capture_id"], {}).get("finished_at") and c, 90, "the capture to be finished")
    assert {key: held[first["capture_id"]][key] for key in ("status", "steps_recorded", "events")} == \
        {key: first[key] for key in ("status", "steps_recorded", "events")}, "a finished capture has changed"
    interrupted = held[running["capture_id"]]
    assert interrupted["finished_at"] > began, "it was over before the upgrade"
    assert interrupted["steps_recorded"] > 0, interrupted
    if interrupted["status"] == "complete":
        assert interrupted["steps_recorded"] == 3000
    else:
        assert interrupted["reason"], "an incomplete capture says why"
    shown = machine.json("show", first["capture_id"], user="alice")
    assert len(shown["steps"]) == 3
    (second,) = machine.json("trigger", "--pid", str(job.pid), "--steps", "2", user="alice")["captures"]
    assert second["status"] == "complete"

    # As an administrator sets it up beside the package's own files.
    machine.write("/etc/profd/snapshot/jobs.conf", "PROFD_SNAPSHOT_OPTIONS=--all\n")
    machine.run("systemctl enable --now profd-snapshot@jobs.timer")

    # Removed: no daemon, no socket; settings and captures stay, and are found again; the job does not notice.
    apt(machine, "remove", "profd")
    assert machine.run("command -v profd profd-daemon", check=False).stdout == "" and job.running()
    assert machine.run("ls /run/profd/profd.sock; grep -lx profd-daemon /proc/[0-9]*/comm", check=False).stdout == ""
    assert machine.run("systemctl is-active profd.service profd.socket profd-snapshot@jobs.timer",
                       check=False).stdout.split() == ["inactive", "inactive", "inactive"]
    assert machine.run("ls /etc/profd/profd.conf /etc/profd/conf.d/50-site.conf /var/lib/profd/catalogue.db").stdout
    apt(machine, "install", f"{OUTSIDE}/{next_deb.name}")
    assert {first["capture_id"], second["capture_id"]} <= set(captures())

    # Through all of it the job has done what it does without.
    job.signal()
    status, out, error = job.finish()
    assert status == 0, error
    done = json.loads(out)
    assert done["agent"] and done["checksum"] == \
        json.loads(machine.run([steps, f"--steps={done['steps']}", "--step-ms=0"]).stdout)["checksum"]

    # Purged: everything is as before.
    apt(machine, "purge", "profd")
    apt(machine, "autoremove", "--purge")
    left = files(machine) - files_before
    assert not left, f"left behind: {sorted(left)}"
    assert not files_before - files(machine)
    assert users(machine) == users_before
    assert "profd" not in machine.run("systemctl list-units --all --no-legend --plain; systemctl list-unit-files --no-legend").stdout
    failed = machine.run("systemctl --failed --no-legend").stdout
    assert failed == "", failed


def test_installed_without_an_init(deb, bare):
    """As in an image of a container: the package is set up, nothing is started, and a daemon of one's own works at once."""
    machine = bare(deb, wanted("PROFD_STEPS"))
    # To the package's scripts systemd does not run where this folder is not.
    machine.run("mkdir -p /srv/hide && mount --bind /srv/hide /run/systemd")
    apt(machine, "install", f"{OUTSIDE}/{deb.name}")
    assert machine.run("id -un profd").stdout.strip() == "profd"
    assert not machine.run("ls /run/profd/profd.sock", check=False).stdout
    daemon = machine.popen(["profd", "daemon", "--user"], user="bob")
    machine.wait(lambda: machine.run("profd status", user="bob", check=False).returncode == 0, 20, "the daemon")
    job = machine.popen(["profd", "run", "--", f"{OUTSIDE}/steps", "--seconds=60"], user="bob")
    machine.wait(lambda: machine.process(job.pid, user="bob"), 20, "the job")
    (capture,) = machine.json("trigger", "--pid", str(job.pid), "--steps", "2", user="bob")["captures"]
    assert capture["status"] == "complete"
    daemon.signal()
    assert daemon.finish()[0] == 0
    job.signal()
    assert job.finish()[0] == 0
