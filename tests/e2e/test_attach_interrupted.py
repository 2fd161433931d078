"""`profd attach` that is interrupted: whoever ends it wants nothing to be done. What was asked of the process is taken back, and it says so."""
import contextlib
import os
import pathlib
import signal
import subprocess

import pytest

from conftest import line_of, wait_for
from proc import opened
from pythons import PYTHONS
from test_attach import held, process
from test_disk_full import LOOK

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone")

# Reads, then runs Python for long enough to come to what was asked of it.
READS = """
import sys
print("ready", flush=True)
sys.stdin.readline()
for i in range(200000):
    pass
print("libprofd_agent" in open("/proc/self/maps").read(), flush=True)
"""


@contextlib.contextmanager
def interrupted(profd, pid, number, begun):
    """A client that gets this signal once the process has been asked, and has ended by then."""
    with subprocess.Popen([profd.client, "attach", "--pid", str(pid), "--timeout", "60s"], env=profd.env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as client:
        wait_for(begun, what="the question")
        client.send_signal(number)
        out, err = client.communicate(timeout=30)
    assert client.returncode == 130 and not out, (client.returncode, out, err)
    assert err.splitlines()[-1] == (f"profd: interrupted: process {pid} does not get the agent; what it was asked to do is taken back, "
                                    "and it goes on as before")
    yield


def asked(pid):
    """The library lies there, and the client has let the thread go."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return "TracerPid:\t0\n" in status and any("profd/libprofd_agent" in name for name in opened(f"/proc/{pid}/fd").values())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_nothing_is_loaded(profd, version, number):
    with process(PYTHONS[version], "-c", READS) as job:
        with interrupted(profd, job.pid, number, lambda: asked(job.pid)):
            job.stdin.write(b"\n")
            job.stdin.flush()
        assert job.stdout.readline() == b"False\n" and job.wait(20) == 0


def test_a_file_system_that_does_not_answer(profd):
    """Where the process would see the daemon's socket: the client stands there, as if the process had mounted such a thing, and ends in time."""
    with process("/usr/bin/python3", "-c", READS) as job:
        with held(profd, job.pid, "root", LOOK) as client:
            out, err = client.communicate(timeout=60)
            assert client.returncode == 4 and f"process {job.pid} sees a file system that does not answer" in err, (out, err)
        assert "libprofd_agent" not in pathlib.Path(f"/proc/{job.pid}/maps").read_text()


def test_one_that_is_to_go_on(profd):
    """nohup, and a shell's background without job control. What it waits for is told."""
    with process("/usr/bin/python3", "-c", READS) as job:
        with subprocess.Popen(["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh", profd.client, "attach", "--pid", str(job.pid), "--timeout", "60s"],
                              env=profd.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
            wait_for(lambda: asked(job.pid), what="the question")
            client.send_signal(signal.SIGINT)
            client.send_signal(signal.SIGHUP)
            said = line_of(client.stderr)
            assert said.startswith(f"profd: process {job.pid} gets the agent: waiting for ") and "; Ctrl-C takes back what was begun" in said, said
            job.stdin.write(b"\n")
            job.stdin.flush()
            assert job.stdout.readline() == b"True\n" and job.wait(20) == 0
            client.communicate(timeout=30)


def test_while_the_first_step_is_waited_for(profd):
    """The agent is in by then, and in vain: it is taken out again."""
    with process("/usr/bin/python3", "-c", "import sys\nprint('ready', flush=True)\nsys.stdin.readline()\nprint('done', flush=True)") as job:
        with subprocess.Popen([profd.client, "trigger", "--pid", str(job.pid), "--steps", "2", "--attach"], env=profd.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as client:
            said = []
            while not any("waiting for the first step" in line for line in said):
                said.append(line_of(client.stderr))
                assert said[-1], said
            assert f"process {job.pid}, a minute at most; Ctrl-C takes the agent out again" in said[-1]
            assert profd.process(job.pid)["pid"] == job.pid
            client.send_signal(signal.SIGINT)
            out, err = client.communicate(timeout=120)
        assert client.returncode == 130 and not out, (client.returncode, out, err)
        assert "interrupted" in err and f"process {job.pid} had been given the agent before that; it was taken out of it again" in err, err
        names = [pathlib.Path(f"/proc/{job.pid}/task/{task}/comm").read_text() for task in os.listdir(f"/proc/{job.pid}/task")]
        assert "profd\n" not in names, names
        job.stdin.write(b"\n")
        job.stdin.flush()
        assert job.stdout.readline() == b"done\n" and job.wait(60) == 0
