"""`profd attach` and `stack` from the machine into jobs in containers: mount, pid and user namespaces of their own, a root that is read-only, a /tmp
from which nothing is executed, no_new_privs. PROFD_PYTHON_ROOTS names folders with root file systems that have other Pythons."""
import contextlib
import json
import os
import pathlib
import subprocess

import pytest

from conftest import wait_for
from proc import agent_threads

pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone"),
              pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces")]
ROOTS = [pathlib.Path(root) for root in os.environ.get("PROFD_PYTHON_ROOTS", "").split(":") if root]

JOB = """
import ctypes, os, sys, threading, time
threading.Thread(target=threading.Event().wait, daemon=True).start()
def inner():
    end = time.monotonic() + 0.005
    while time.monotonic() < end:
        pass
    time.sleep(0.001)
def work(until):
    x = 0
    while not os.path.exists(until):
        inner()
        for i in range(1000):
            x = (x * 31 + i) % 1000003
        x %= 7
    return "as ever"
print("ready", flush=True)
print(work(sys.argv[1]), flush=True)
sys.exit(7)
"""
# The same in Perl: of all programs in C the one with libdl and libpthread that each root has.
PERL = r"""
$| = 1;
print "ready\n";
while (not -e $ARGV[0]) {
    my %held = map { $_ => "$_" x 40 } 1 .. 200;
    select(undef, undef, undef, 0.001);
}
print "as ever\n";
exit 7;
"""
# The root is this machine's or another one's, read-only, with a /tmp of its own in which the daemon's folder is seen, and nothing else.
ENTER = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mkdir -p "$3"
mount -t tmpfs -o noexec,mode=1777 none "$1/tmp"
mkdir -p "$1$2" "$1/tmp/job"
mount --bind "$2" "$1$2"
mount --bind "$3" "$1/tmp/job"
mount -o remount,bind,ro "$1"
cd "$1"
exec unshare $4 --mount --pid --fork --kill-child --root "$1" --mount-proc setpriv --no-new-privs "$5" /tmp/job/work.py /tmp/job/end
"""
USER = "--user --map-root-user"


def pythons():
    found = {"this machine's": ("/", "/usr/bin/python3")}
    for root in ROOTS:
        for path in sorted((root / "usr/bin").glob("python3.*[0-9]")):
            found[f"{path.name} of {root.name}"] = (str(root), "/" + str(path.relative_to(root)))
    return found


def perls():
    """Of other roots, as pythons() has them."""
    return {f"perl of {root.name}": (str(root), "/usr/bin/perl") for root in ROOTS if (root / "usr/bin/perl").exists()}


@contextlib.contextmanager
def contained(profd, tmp_path, root, python, users, code=JOB, env=None):
    """Yields (the launcher, the job's pid as we see it, what ends it)."""
    place = tmp_path / "job"
    place.mkdir()
    place.chmod(0o777)
    tmp_path.chmod(0o755)
    (place / "work.py").write_text(code)
    inner = tmp_path / "root"
    if root == "/":
        inner.mkdir()
        root = str(inner)
        bind = f'mount --rbind / "{root}"\n'
    else:
        bind = ""
    command = ["unshare", "--mount", "bash", "-c", bind + ENTER, "bash", root, str(profd.folder), str(place),
               users, python]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                           env={**os.environ, **(env or {})})
    try:
        assert job.stdout.readline() == "ready\n", job.communicate(timeout=10)
        pids = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True).stdout.split()
        yield job, int(pids[0]), place / "end"
    finally:
        job.kill()
        job.communicate()


@pytest.mark.parametrize("users", ["", USER], ids=["root", "a user namespace"])
@pytest.mark.parametrize("which", sorted(pythons()))
def test_from_the_machine_into_a_container(profd, tmp_path, which, users):
    root, python = pythons()[which]
    with contained(profd, tmp_path, root, python, users) as (job, pid, end):
        threads = profd.json("stack", "--pid", pid)["processes"][0]["threads"]
        assert threads[0]["tid"] == pid and {"work", "<module>"} <= {frame["name"] for frame in threads[0]["frames"]}
        assert len(threads) == 2 and threads[1]["tid"] != pid
        waits = profd.json("stack", "--pid", pid, "--native")["processes"][0]["threads"][1]
        assert waits["call"] == "futex" and waits["frames"][0]["native"], waits
        # Debian's 3.14 does not show where its loop is.
        assert waits["native_whole"] or "3.14" in which and "where its loop is" in waits["native_why"], waits
        checks = {row["check"]: row for row in profd.json("doctor", "--pid", pid, codes=range(10))["checks"]}
        assert checks["attach"]["result"] == "ok", checks
        done = profd.run("attach", "--pid", pid, "--timeout", "60s", "--format", "json", check=False)
        assert done.returncode == 0, done
        assert json.loads(done.stdout)["way"] == ("slot" if "3.14" in which else "pending call")
        assert "libprofd_agent" in pathlib.Path(f"/proc/{pid}/maps").read_text()
        assert profd.process(pid)["pid"] == pid
        profd.run("detach", "--pid", pid)
        wait_for(lambda: not agent_threads(pid), what="its end")
        end.write_text("")
        out, err = job.communicate(timeout=30)
        assert (job.returncode, out, err) == (7, "as ever\n", "")


@pytest.mark.parametrize("which", sorted(perls()))
def test_a_program_in_c_with_another_glibc(profd, tmp_path, which):
    """It has neither our loader nor our libraries; where they are of before 2.34, it finds dlopen and pthread_create in libraries of their own."""
    root, perl = perls()[which]
    with contained(profd, tmp_path, root, perl, "", code=PERL) as (job, pid, end):
        for _ in range(2):
            assert json.loads(profd.run("attach", "--pid", pid, "--timeout", "60s", "--format", "json").stdout)["way"] == "thread"
            assert profd.trigger(pid, "--duration", "50ms")["status"] == "complete"
            profd.run("detach", "--pid", pid)
            wait_for(lambda: not agent_threads(pid), what="its end")
        end.write_text("")
        out, err = job.communicate(timeout=30)
        assert (job.returncode, out, err) == (7, "as ever\n", "")


def test_without_the_daemons_socket(profd, tmp_path):
    """It is refused beforehand, with the place where the socket is wanted."""
    with contained(profd, tmp_path, "/", "/usr/bin/python3", "") as (job, pid, end):
        subprocess.run(["nsenter", "--target", str(pid), "--mount", "--root", "umount", str(profd.folder)], check=True)
        done = profd.run("attach", "--pid", pid, check=False)
        assert done.returncode == 7 and "does not see the daemon's socket" in done.stderr and "mount it there" in done.stderr, done
        assert "libprofd_agent" not in pathlib.Path(f"/proc/{pid}/maps").read_text()
