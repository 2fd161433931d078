"""`profd attach` by CPython 3.14's own slot (PEP 768): when it is taken, when not, and that it leaves nothing. In a container with such a Python, of
those that PROFD_PYTHON_ROOTS names."""
import json
import os
import pathlib
import re
import shutil

import pytest

from conftest import wait_for
from test_attach import LIVES_ON, PAUSE, held
from test_attach_containers import JOB, contained, pythons
from test_disk_full import LOOK

FOUND = [how for name, how in sorted(pythons().items()) if "3.14" in name]
pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone"),
              pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces"),
              pytest.mark.skipif(not FOUND, reason="no CPython 3.14 here: PROFD_PYTHON_ROOTS names root file systems")]


def job(profd, tmp_path, code=JOB, env=None):
    return contained(profd, tmp_path, *FOUND[0], "", code, env)


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


SLEEPS = JOB.replace('print("ready", flush=True)', '''print("ready", flush=True)
import select
while not os.path.exists(sys.argv[1]):
    select.select([], [], [], 4)
''')


def test_a_main_thread_that_does_not_come_back_in_time(profd, tmp_path):
    """Both ways are tried, and both undone: later it runs no script."""
    with job(profd, tmp_path, SLEEPS) as (running, pid, end):
        done, _ = attach(profd, pid, "--timeout", "800ms")
        assert done.returncode == 4 and "did not come back to Python in time" in done.stderr, done
        ends_well(running, end)
        assert "libprofd_agent" not in done.stdout


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
