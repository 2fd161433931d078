"""`profd attach` (stack, doctor) and those who would use it against whoever calls it, perhaps root: processes of others, processes that change
under the client's hands, and some that answer with something else than what they are asked."""
import contextlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile
import time

import pytest

from conftest import BUILD, wait_for
from test_attach import IDLE, process

NOBODY = 65534
ATTACHED = "libprofd_agent"
SECRET = b"what only root may write\n" * 400
ROOT = os.geteuid() == 0
pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone"),
              pytest.mark.skipif(not ROOT, reason="needs other users")]


@pytest.fixture
def place():
    """A folder that every user can enter, in memory: of all files those in memory are most like what the client makes."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="profd-hostile-", dir="/dev/shm"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def nobody(profd, place):
    """profd as another user has it, with a daemon of that user's own."""
    folder = profd.for_all_users(profd.client, profd.agent, BUILD / "bin" / "profd-daemon")
    os.chown(place, NOBODY, NOBODY)
    ids = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"}
    env = {**profd.env, "PROFD_SOCKET": str(place / "s"), "HOME": str(place)}
    daemon = subprocess.Popen([folder / "profd-daemon", "--user", "--dir", place / "store", "--socket", place / "s"], env=env, **ids)
    wait_for((place / "s").exists, what="nobody's daemon")

    def run(*arguments):
        return subprocess.run([folder / "profd", *map(str, arguments)], capture_output=True, text=True, env=env, timeout=60, **ids)
    yield run
    daemon.terminate()
    daemon.wait(20)


def maps(pid):
    return pathlib.Path(f"/proc/{pid}/maps").read_text()


def not_for(nobody, job):
    for verb in (["attach"], ["stack"], ["stack", "--native"]):
        done = nobody(*verb, "--pid", job.pid)
        assert done.returncode == 6 and f"process {job.pid}" in done.stderr, done
    seen = nobody("doctor", "--pid", job.pid, "--format", "json")
    assert "ok" not in [row["result"] for row in json.loads(seen.stdout)["checks"] if row["check"] == "attach"], seen
    assert ATTACHED not in maps(job.pid)


def test_another_users_process(nobody):
    with process("/usr/bin/python3", "-c", IDLE) as job:
        not_for(nobody, job)


def test_a_program_that_has_taken_rights(profd, nobody):
    """Started by the caller, but setuid root."""
    sleep = profd.for_all_users("/bin/sleep") / "sleep"
    sleep.chmod(0o4755)
    with process(sleep, "100", ready=False, user=NOBODY, group=NOBODY, extra_groups=[]) as job:
        wait_for(lambda: "Uid:\t65534\t0\t" in pathlib.Path(f"/proc/{job.pid}/status").read_text(), what="the rights")
        not_for(nobody, job)


def test_one_that_does_not_want_to_be_looked_into(nobody):
    """PR_SET_DUMPABLE 0, and the caller's own."""
    shut = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"
    with process("/usr/bin/python3", "-c", shut + IDLE, user=NOBODY, group=NOBODY, extra_groups=[]) as job:
        not_for(nobody, job)


def test_another_process_has_the_number_by_now(profd, tmp_path):
    """What was looked at has ended when the client wants to stop it, and its number is another process's."""
    if not shutil.which("strace"):
        pytest.skip("strace holds the client up; it is not installed")
    inside = """
import os, subprocess, sys, time
profd, steady = sys.argv[1:]
first = subprocess.Popen([steady, "mixed", "60"], stdout=subprocess.PIPE)
first.stdout.readline()
client = subprocess.Popen(["strace", "-f", "-qq", "-o", sys.argv[1] + ".trace", "-e", "trace=ptrace", "-e", "inject=ptrace:delay_enter=2000000:when=1",
                           profd, "attach", "--pid", str(first.pid)], stderr=subprocess.PIPE, text=True)
def held(pid):
    try:
        return open(f"/proc/{pid}/comm").read() == "profd\\n" and any(
            open(f"/proc/{pid}/task/{tid}/syscall").read().startswith("101 ") for tid in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return False
end = time.monotonic() + 20
while not any(held(pid) for pid in os.listdir("/proc") if pid.isdigit()):
    assert time.monotonic() < end
    time.sleep(0.01)
first.kill(); first.wait()
open("/proc/sys/kernel/ns_last_pid", "w").write(str(first.pid - 1))
second = subprocess.Popen([steady, "mixed", "60"], stdout=subprocess.PIPE)
assert second.pid == first.pid, (second.pid, first.pid)
second.stdout.readline()
error = client.communicate(timeout=60)[1]
maps = open(f"/proc/{second.pid}/maps").read()
print("RESULT", client.returncode, "libprofd_agent" in maps, second.poll(), error)
second.kill()
"""
    client = tmp_path / "profd"
    shutil.copy(profd.client, client)
    env = {**profd.env, "PROFD_AGENT": str(profd.agent)}
    done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "/usr/bin/python3", "-c", inside, client, BUILD / "workloads" / "steady"],
                          env=env, capture_output=True, text=True, timeout=120)
    assert "RESULT" in done.stdout, done
    words = done.stdout.split("RESULT ")[1].split(maxsplit=3)
    assert int(words[0]) in (3, 8) and words[1:3] == ["False", "None"], done


def test_a_proc_that_counts_otherwise(profd):
    """In /proc a number is one process, for ptrace(2) it is another."""
    with process("/usr/bin/python3", "-c", IDLE) as job:
        done = subprocess.run(["unshare", "--pid", "--fork", profd.client, "attach", "--pid", str(job.pid)], env=profd.env,
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "of another pid namespace" in done.stderr, done
        assert ATTACHED not in maps(job.pid)


@contextlib.contextmanager
def fake_libc(place, *how, **more):
    program = place / "libc.so.6-fake"
    if not program.exists():
        shutil.copy(BUILD / "workloads" / "fake_libc", program)
        program.chmod(0o755)
    with process(program, *how, user=NOBODY, group=NOBODY, extra_groups=[], **more) as job:
        yield job


# A thread that waits for a processor is given 6 s in what it is made to call, and 10 s to come back.
HELD_UP = 16


def attach_as_root(profd, job, seconds=160):
    """It ends in time, with a sentence, and has taken little memory. A client that works, however slowly, gives up after two minutes."""
    began = time.monotonic()
    done = subprocess.run([profd.client, "attach", "--pid", str(job.pid), "--timeout", "1s"], env=profd.env, capture_output=True, text=True,
                          timeout=seconds, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)))
    assert done.returncode in (1, 3, 4, 6, 8) and done.stderr.startswith("profd: "), done
    return done, time.monotonic() - began


def test_pages_of_a_file_that_is_not_its_own(profd, place):
    secret = place / "secret"
    secret.write_bytes(SECRET)
    with fake_libc(place, "shared", secret) as job:
        done, _ = attach_as_root(profd, job)
        assert secret.read_bytes() == SECRET, done


def test_another_file_in_the_library_s_place(profd, place):
    secret = place / "secret"
    secret.write_bytes(SECRET)
    with fake_libc(place, "swap", secret) as job:
        for _ in range(5):
            done, _ = attach_as_root(profd, job)
            assert secret.read_bytes() == SECRET, done


@pytest.mark.wide
def test_a_file_without_a_name_in_the_library_s_place(profd, place):
    secret = place / "secret"
    secret.write_bytes(b"")
    with secret.open("rb") as kept:
        secret.unlink()
        with fake_libc(place, "swap", f"/proc/self/fd/{kept.fileno()}", pass_fds=(kept.fileno(),)) as job:
            for _ in range(5):
                done, _ = attach_as_root(profd, job)
                assert os.fstat(kept.fileno()).st_size == 0, done


@pytest.mark.parametrize("how", ["mmap", "mprotect", "syscall", "slow", "naps", "spin", "stop", "signals"])
def test_calls_that_do_not_come_back(profd, place, how):
    """The thread is put back in the end, and the process goes on with its wait; one that stops itself stays stopped, as it wanted."""
    with fake_libc(place, how) as job:
        done, seconds = attach_as_root(profd, job)
        assert seconds < 15 + HELD_UP, done
        if how not in ("stop", "signals"):
            assert done.returncode == 4 and "it was put back" in done.stderr, done
        if how != "stop":
            job.stdin.close()
            assert job.wait(20) == 0, done
        status = pathlib.Path(f"/proc/{job.pid}/status")
        assert not status.exists() or "TracerPid:\t0\n" in status.read_text()


def test_a_call_that_only_says_that_it_came_back(profd, place):
    """It is where it wants to be, and nobody waits for it."""
    with fake_libc(place, "early") as job:
        done, seconds = attach_as_root(profd, job)
        assert seconds < 15 + HELD_UP and "TracerPid:\t0\n" in pathlib.Path(f"/proc/{job.pid}/status").read_text(), done


def test_it_ends_meanwhile(profd, place):
    with fake_libc(place, "exit") as job:
        done, _ = attach_as_root(profd, job)
        assert job.wait(20) == 0 and "has ended" in done.stderr, done


def test_another_program_in_its_place(profd, place):
    """Nothing is written into that one."""
    with fake_libc(place, "exec") as job:
        done, _ = attach_as_root(profd, job)
        wait_for(lambda: pathlib.Path(f"/proc/{job.pid}/comm").read_text() == "sleep\n", what="the exec")
        assert ATTACHED not in maps(job.pid) and "TracerPid:\t0\n" in pathlib.Path(f"/proc/{job.pid}/status").read_text(), done


def test_what_it_says_of_itself_is_not_believed(profd, place):
    with fake_libc(place, "says") as job:
        done, _ = attach_as_root(profd, job)
        assert "has not registered" in done.stderr, done


MAPS = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
file = os.open(sys.argv[1], os.O_RDONLY)
for i in range(60000):
    if libc.mmap(None, ctypes.c_size_t(4096), 5 if i % 2 else 1, 2, file, ctypes.c_size_t(4096 * (i % 300))) == 2**64 - 1:
        break
print(flush=True)
sys.stdin.read()
"""


def test_as_many_mappings_as_can_be(profd):
    """Pieces of libc, ten thousand times."""
    libc = next(line.split(maxsplit=5)[5] for line in maps(os.getpid()).splitlines() if "/libc.so.6" in line)
    with process("/usr/bin/python3", "-c", MAPS, libc, user=NOBODY, group=NOBODY, extra_groups=[]) as job:
        assert len(maps(job.pid).splitlines()) > 30000
        for verb in (["stack"], ["stack", "--native"]):
            done = profd.run(*verb, "--pid", job.pid)
            assert "    <module> (<string>:" in done.stdout, done
        attach_as_root(profd, job)
        job.stdin.close()
        assert job.wait(20) == 0


@pytest.mark.parametrize("how", ["honest", "slow"])
def test_doctor_and_stack_only_look(profd, place, how):
    with fake_libc(place, how) as job:
        before = maps(job.pid)
        assert profd.run("doctor", "--pid", job.pid, check=False).returncode in range(10)
        assert profd.run("stack", "--pid", job.pid, check=False).returncode == 3
        assert maps(job.pid) == before
