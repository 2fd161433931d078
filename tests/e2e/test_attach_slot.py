"""`profd attach` by CPython 3.14's own slot (PEP 768): when it is taken, when not, and that it leaves nothing. In a container with such a Python, of
those that PROFD_PYTHON_ROOTS names."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from conftest import wait_for
from test_attach_interrupted import interrupted
from test_attach import LIVES_ON, PAUSE, held, process
from test_attach_containers import JOB, contained, pythons
from test_disk_full import LOOK

FOUND = [how for name, how in sorted(pythons().items()) if "3.14" in name]
pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone"),
              pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces"),
              pytest.mark.skipif(not FOUND, reason="no CPython 3.14 here: PROFD_PYTHON_ROOTS names root file systems")]


def job(profd, tmp_path, code=JOB, env=None):
    return contained(profd, tmp_path, *FOUND[0], "", code, env)


def attached(pid):
    return "libprofd_agent" in pathlib.Path(f"/proc/{pid}/maps").read_text()


def attach(profd, pid, *more):
    """(the way, what doctor has said of it beforehand)"""
    said = [row["sentence"] for row in profd.json("doctor", "--pid", pid, codes=range(10))["checks"] if row["check"] == "attach"][0]
    done = profd.run("attach", "--pid", pid, "--format", "json", *more, check=False)
    left = [path.name for path in pathlib.Path(f"/proc/{pid}/root/tmp").iterdir() if re.fullmatch("profd-[0-9a-f]{16}", path.name)]
    assert not left, left
    return json.loads(done.stdout)["way"] if done.returncode == 0 else done, said


def ends_well(running, end, text="as ever\n"):
    end.write_text("")
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (7, text, "")


def test_nothing_is_stopped(profd, tmp_path):
    with job(profd, tmp_path) as (running, pid, end):
        for _ in range(3):
            way, said = attach(profd, pid)
            assert way == "slot" and "PEP 768), which stops nothing" in said, (way, said)
            assert profd.process(pid)["pid"] == pid
            profd.run("detach", "--pid", pid)
        ends_well(running, end)


@pytest.mark.parametrize("code, env, why", [(JOB, {"PYTHON_DISABLE_REMOTE_DEBUG": ""}, "PYTHON_DISABLE_REMOTE_DEBUG"),
                                            (JOB.replace("import ctypes, ", "import "), {}, "has not imported ctypes"),
                                            (JOB.replace("print(", "import signal\nsignal.signal(signal.SIGUSR1, print)\nprint(", 1), {}, "it handles signals")],
                         ids=["switched off", "no ctypes", "handlers"])
def test_where_it_is_not_used(profd, tmp_path, code, env, why):
    with job(profd, tmp_path, code, env) as (running, pid, end):
        way, said = attach(profd, pid)
        assert way == "pending call" and why in said, (way, said)
        ends_well(running, end)


def test_a_folder_where_others_could_put_a_script(profd, tmp_path):
    with job(profd, tmp_path) as (running, pid, end):
        os.chmod(f"/proc/{pid}/root/tmp", 0o777)
        assert attach(profd, pid)[0] == "pending call"
        ends_well(running, end)


# Another user's, who has a mount namespace of his own, as everybody may who lives in no chroot(). His Python comes with its own loader.
ANOTHER_USERS = """
set -e
mount --make-rprivate /
mount --bind "$1" /mnt
cd /mnt
export PYTHONHOME=/mnt/usr
exec setpriv --reuid=65534 --regid=65534 --clear-groups unshare --user --map-root-user --mount lib64/ld-linux-x86-64.so.2 \
    --library-path usr/lib/x86_64-linux-gnu ".$2" -c "$3" "$4"
"""


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_another_users_process(profd, tmp_path):
    """Nothing is made in a folder of his, whatever that is by now."""
    trace = tmp_path / "trace"
    with process("unshare", "--mount", "bash", "-c", ANOTHER_USERS, "bash", *FOUND[0], JOB, "/tmp/nowhere") as running:
        assert pathlib.Path(f"/proc/{running.pid}").stat().st_uid == 65534
        said = [row["sentence"] for row in profd.json("doctor", "--pid", running.pid, codes=range(10))["checks"] if row["check"] == "attach"][0]
        assert "it is another user's" in said, said
        subprocess.run(["strace", "-f", "-qq", "-e", "trace=mkdirat,ptrace,unlinkat,fchmod", "-o", trace, profd.client, "attach", "--pid", str(running.pid)],
                       env=profd.env, capture_output=True, timeout=60)
        assert "ptrace(" in trace.read_text() and not re.search("mkdirat|unlinkat|fchmod", trace.read_text()), trace.read_text()
        assert attached(running.pid) and running.poll() is None


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_another_folder_in_the_place_of_the_one_that_was_made(profd, tmp_path):
    """Mounted there just after it was made: it is neither opened to others, nor is what lies in it taken for what was made."""
    victim = tmp_path / "job" / "victim"
    with job(profd, tmp_path) as (running, pid, end):
        victim.mkdir(mode=0o700)
        for name in ("state", "agent", "attach.py"):
            (victim / name).write_text("precious")
        before = victim.stat()
        command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=mkdirat", "-e", "inject=mkdirat:delay_exit=2000000:when=1",
                   profd.client, "attach", "--pid", str(pid), "--format", "json"]
        with subprocess.Popen(command, env=profd.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
            made = wait_for(lambda: list(pathlib.Path(f"/proc/{pid}/root/tmp").glob("profd-" + 16 * "?")), what="the folder")[0]
            subprocess.run(["nsenter", "--target", str(pid), "--mount", "--root", "mount", "--bind", "/tmp/job/victim", f"/tmp/{made.name}"], check=True)
            out, err = client.communicate(timeout=60)
        assert client.returncode == 0 and json.loads(out)["way"] != "slot", (out, err)
        assert sorted(path.name for path in victim.iterdir()) == ["agent", "attach.py", "state"]
        assert (victim.stat().st_mode, victim.stat().st_ctime_ns) == (before.st_mode, before.st_ctime_ns)
        # What was made is gone, and with it what was mounted there.
        assert not made.exists()
        ends_well(running, end)


SLEEPS = JOB.replace('print("ready", flush=True)', '''print("ready", flush=True)
import select
while not os.path.exists(sys.argv[1]):
    select.select([], [], [], 4)
''').replace("print(work(sys.argv[1])", "print(work(sys.argv[1]), 'libprofd_agent' in open('/proc/self/maps').read()")


def test_a_main_thread_that_does_not_come_back_in_time(profd, tmp_path):
    """The slot is emptied, and another way taken: later it runs no script."""
    with job(profd, tmp_path, SLEEPS) as (running, pid, end):
        way, _ = attach(profd, pid, "--timeout", "800ms")
        assert way in ("pending call", "thread"), way
        ends_well(running, end, "as ever True\n")


def test_a_client_that_is_interrupted(profd, tmp_path):
    """What it has made is removed, and the script is never run."""
    with job(profd, tmp_path, SLEEPS) as (running, pid, end):
        tmp = pathlib.Path(f"/proc/{pid}/root/tmp")
        with interrupted(profd, pid, signal.SIGINT, lambda: list(tmp.glob("profd-*/attach.py"))):
            assert not [path for path in tmp.iterdir() if re.fullmatch("profd-[0-9a-f]{16}", path.name)]
        ends_well(running, end, "as ever False\n")


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_it_ends_meanwhile(profd, tmp_path):
    """Nothing is written where its main thread's state was, and nothing else is tried."""
    with job(profd, tmp_path, JOB.replace("sys.exit(7)", LIVES_ON)) as (running, pid, end):
        trace = tmp_path / "trace"
        with held(profd, pid, "root", LOOK, ["strace", "-f", "-qq", "-s", "100", "-e", "trace=pwrite64", "-o", trace]) as client:
            end.write_text("")
            wait_for(lambda: pathlib.Path(f"/proc/{pid}/syscall").read_text().split()[0] == str(PAUSE), what="its pause")
        out, err = client.communicate(timeout=60)
        assert client.returncode == 3 and f"the Python of process {pid} has ended" in err, (out, err)
        assert "attach.py" not in trace.read_text() and running.poll() is None


# What runs in the script's own frame is interrupted, as by the handler of Ctrl-C.
INTERRUPTED = JOB.replace('print("ready", flush=True)', """
import posix
def interrupted(*_):
    raise KeyboardInterrupt("meant for the program")
posix.sendfile = interrupted
print("ready", flush=True)
try:
    while True:
        inner()
except KeyboardInterrupt as interrupt:
    print(interrupt, flush=True)
""")


def test_a_ctrl_c_meanwhile_comes_through(profd, tmp_path):
    """The program gets it, and the other way is taken."""
    with job(profd, tmp_path, INTERRUPTED) as (running, pid, end):
        assert attach(profd, pid)[0] == "pending call"
        ends_well(running, end, "meant for the program\nas ever\n")
