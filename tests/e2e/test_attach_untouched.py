"""`profd attach` and processes that would notice a stop, or that a call in the wrong thread would end (tests/workloads/touchy.c)."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

import proc
from conftest import BUILD, wait_for
from pythons import PYTHONS
from test_attach import process

TOUCHY = BUILD / "workloads" / "touchy"
STOPS_MOST = 8  # client/attach/choose.c
pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone")


def sleeps_in(pid, number):
    return lambda: pathlib.Path(f"/proc/{pid}/syscall").read_text().split()[0] == str(number)


def attach(profd, pid, code):
    # What can be attached to is waited for as long as it takes.
    done = profd.run("attach", "--pid", pid, "--timeout", "5s" if code else "60s", check=False)
    assert done.returncode == code, done
    return done


def foreseen(profd, pid):
    return [(row["result"], row["sentence"]) for row in profd.json("doctor", "--pid", pid, codes=range(10))["checks"] if row["check"] == "attach"][0]


def ends_untouched(job):
    job.stdin.close()
    assert (job.stdout.read(), job.wait(60)) == (b"the end\n", 0)


def has_agent(pid):
    return "libprofd_agent" in pathlib.Path(f"/proc/{pid}/maps").read_text()


def test_a_filter_of_one_thread(profd):
    """The filter kills for what the attachment calls: its thread is not chosen, another one is."""
    with process(TOUCHY, "box") as job:
        wait_for(lambda: all("\nState:\tS" in status for status in proc.of_threads(job.pid, "status").values()), what="their sleep")
        attach(profd, job.pid, 0)
        assert has_agent(job.pid)
        ends_untouched(job)


# As Docker's profile: in place before the program starts, it answers EPERM to what a container is not to do.
PROFILE = """
import ctypes, os, sys
class F(ctypes.Structure): _fields_ = [("c", ctypes.c_ushort), ("t", ctypes.c_ubyte), ("f", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class P(ctypes.Structure): _fields_ = [("n", ctypes.c_ushort), ("f", ctypes.POINTER(F))]
# ptrace, mount, umount2, kexec_load, keyctl, unshare, perf_event_open, setns, process_vm_readv, process_vm_writev, bpf, userfaultfd
denied = [101, 165, 166, 246, 250, 272, 298, 308, 310, 311, 321, 323]
rows = [F(0x20, 0, 0, 0)]
for number in denied:
    rows += [F(0x15, 0, 1, number), F(6, 0, 0, 0x50000 + 1)]
rows.append(F(6, 0, 0, 0x7fff0000))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(P(len(rows), (F * len(rows))(*rows)))) == 0
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""
CONFINED = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(310, 1, 0, 0, 0, 0, 0), ctypes.get_errno(), flush=True)
sys.stdin.read()
print("the end", flush=True)
"""


def test_a_filter_from_before_the_program(profd):
    """What it forbids cannot be seen from outside, and some of them kill: refused beforehand. Where it stands can be read all the same."""
    with process("/usr/bin/python3", "-c", PROFILE, CONFINED, ready=False) as job:
        assert job.stdout.readline() == b"-1 1\n"
        result, said = foreseen(profd, job.pid)
        assert result == "failed" and "has a filter of system calls (seccomp)" in said and "profd run" in said, said
        assert said in attach(profd, job.pid, 1).stderr
        assert "<module> (<string>:" in profd.run("stack", "--pid", job.pid).stdout
        assert not has_agent(job.pid)
        ends_untouched(job)


@pytest.mark.parametrize("how, number", [("epoll", 232), ("sigwait", 128), ("semop", 220), ("recv", 45), ("read", 0), ("all", 45), ("lowat", 45), ("constant", 271)])
def test_a_call_that_would_end_is_left_alone(profd, how, number):
    """signal(7): these give EINTR after a stop, or less than was asked for."""
    with process(TOUCHY, how) as job:
        wait_for(sleeps_in(job.pid, number), what="its sleep")
        result, said = foreseen(profd, job.pid)
        assert result == "warning" and "a stop would end with EINTR" in said, said
        done = attach(profd, job.pid, 8)
        assert "nothing was changed" in done.stderr and not has_agent(job.pid), done
        ends_untouched(job)


RESTART = 219  # restart_syscall: in that a thread sleeps on after a stop


def test_a_socket_that_waits_for_ever(profd):
    with process(TOUCHY, "plain") as job:
        wait_for(sleeps_in(job.pid, 45), what="its sleep")
        attach(profd, job.pid, 0)
        assert has_agent(job.pid)
        ends_untouched(job)


@pytest.mark.parametrize("how, number, after", [("poll", 7, RESTART), ("cond", 202, RESTART), ("select", 270, 270),
                                                pytest.param("nap", 230, RESTART, marks=pytest.mark.wide)])
def test_a_sleep_that_goes_on(profd, how, number, after):
    """What a thread sleeps in has another number after a stop, and can be stopped again, by a signal or by us: it ends as if nothing had been."""
    with process(TOUCHY, how) as job:
        wait_for(sleeps_in(job.pid, number), what="its sleep")
        job.send_signal(signal.SIGSTOP)
        wait_for(lambda: ") T " in pathlib.Path(f"/proc/{job.pid}/stat").read_text(), what="the stop")
        job.send_signal(signal.SIGCONT)
        for _ in range(2):
            wait_for(sleeps_in(job.pid, after), what="its sleep")
            assert profd.json("attach", "--pid", job.pid)["tid"] == job.pid
            assert has_agent(job.pid)
            profd.run("detach", "--pid", job.pid)
        wait_for(sleeps_in(job.pid, after), what="its sleep")
        ends_untouched(job)


@pytest.mark.wide
def test_a_sleep_that_goes_on_without_the_attacher(profd):
    """The client is killed meanwhile: the thread comes back by itself, into what it slept in."""
    if not shutil.which("strace"):
        pytest.skip("strace counts the system calls; it is not installed")
    with process(TOUCHY, "poll") as job:
        wait_for(sleeps_in(job.pid, 7), what="its sleep")
        for number in range(3, 60, 2):
            job.send_signal(signal.SIGSTOP)
            wait_for(lambda: ") T " in pathlib.Path(f"/proc/{job.pid}/stat").read_text(), what="the stop")
            job.send_signal(signal.SIGCONT)
            wait_for(sleeps_in(job.pid, RESTART), what="its sleep")
            subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=ptrace", "-e", f"inject=ptrace:signal=SIGKILL:when={number}",
                            profd.client, "attach", "--pid", str(job.pid)], env=profd.env, capture_output=True, timeout=60, check=False)
            if has_agent(job.pid):
                break
            wait_for(lambda: pathlib.Path(f"/proc/{job.pid}/syscall").read_text().split()[0] in ("7", "219"), what="its sleep")
        assert has_agent(job.pid) and number > 10
        ends_untouched(job)


def test_a_stack_that_grows(profd):
    """The main thread stands where its stack has not been used below yet: it grows, and the thread is made to call."""
    with process(TOUCHY, "deep") as job:
        wait_for(sleeps_in(job.pid, 7), what="its sleep")
        assert foreseen(profd, job.pid)[0] == "ok"
        assert profd.json("attach", "--pid", job.pid)["tid"] == job.pid
        ends_untouched(job)


def test_a_stack_that_may_not_grow(profd):
    """By its own limit, which the kernel would not ask for: it would be ours."""
    with process(TOUCHY, "tight") as job:
        wait_for(sleeps_in(job.pid, 7), what="its sleep")
        result, said = foreseen(profd, job.pid)
        assert result == "warning" and "has no stack left" in said, said
        attach(profd, job.pid, 8)
        assert not has_agent(job.pid)
        ends_untouched(job)


def words(path):
    return path.read_text().split() if path.exists() else []


@contextlib.contextmanager
def little_time(pid):
    """It gets the processor for 10 ms a second, in one piece."""
    folder = next((path for path in (pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup"))
                   if (path / "cpu.cfs_quota_us").exists() or "cpu" in words(path / "cgroup.subtree_control")), None)
    if not folder:
        pytest.skip("no control group of processors here")
    group = folder / f"profd-test-{os.getpid()}-{pid}"
    group.mkdir()
    limits = ({"cpu.cfs_period_us": "1000000", "cpu.cfs_quota_us": "10000"}, {"cpu.cfs_quota_us": "-1"}) if (group / "cpu.cfs_quota_us").exists() else (
        {"cpu.max": "10000 1000000"}, {"cpu.max": "max"})

    def write(limit):
        for name, value in limit.items():
            (group / name).write_text(value)
    write(limits[0])
    (group / "cgroup.procs").write_text(str(pid))
    wait_for(lambda: int(re.search(r"nr_throttled (\d+)", (group / "cpu.stat").read_text())[1]) > 1, what="the limit")
    yield
    write(limits[1])
    (folder / "cgroup.procs").write_text(str(pid))
    wait_for(lambda: not (group / "cgroup.procs").read_text(), what="an empty group")
    group.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="root makes control groups")
def test_a_job_that_hardly_gets_the_processor(profd):
    """A call is not torn out of its middle for that: it is waited for, and where that takes too long, it ends by itself (docs/attach.md)."""
    with process(TOUCHY, "full") as job:
        wait_for(sleeps_in(job.pid, 7), what="its sleep")
        with little_time(job.pid):
            done = profd.run("attach", "--pid", job.pid, "--timeout", "60s", check=False)
        assert done.returncode == 0 or "has not registered" in done.stderr or "it goes on where it was" in done.stderr, done
        ends_untouched(job)


def mapped(pid):
    """The places of its mappings that are its own."""
    return [line.split()[0] for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if "[stack]" not in line]


def test_a_job_that_can_start_no_thread(profd):
    """What was made for it is taken back, and it is said what failed."""
    with process(TOUCHY, "nomem") as job:
        wait_for(sleeps_in(job.pid, 7), what="its sleep")
        result, said = foreseen(profd, job.pid)
        assert result == "warning" and "no room for a thread" in said, said
        before = mapped(job.pid), proc.opened(f"/proc/{job.pid}/fd")
        done = attach(profd, job.pid, 1)
        assert "can start no thread" in done.stderr and "nothing of it is left there" in done.stderr, done
        assert (mapped(job.pid), proc.opened(f"/proc/{job.pid}/fd")) == before
        ends_untouched(job)


# Its main thread waits until its input ends, and does not come to bytecode before.
WAITS = {
    "join": "threading.Thread(target=sys.stdin.read).start(); print(flush=True)",  # at the end of the program
    "lock": "lock = threading.Lock(); lock.acquire(); threading.Thread(target=lambda: (sys.stdin.read(), lock.release())).start(); "
            "print(flush=True); lock.acquire()",
    "read": "print(flush=True); sys.stdin.read()",
    "pause": "import ctypes, os, signal; signal.signal(signal.SIGUSR1, lambda *_: None)\n"
             "threading.Thread(target=lambda: (sys.stdin.read(), os.kill(os.getpid(), signal.SIGUSR1))).start(); print(flush=True)\n"
             "ctypes.CDLL(None).pause()",
}


@pytest.mark.parametrize("version", sorted(PYTHONS))
@pytest.mark.parametrize("how", sorted(WAITS))
def test_a_main_thread_that_waits(profd, version, how):
    """It is told not to load the agent, and a new thread does; once it comes back, the agent is there once. A second attachment likewise."""
    code = f"import sys, threading\n{WAITS[how]}\nprint('the end')"
    with process(PYTHONS[version], "-c", code) as job:
        for _ in range(2):
            done = profd.json("attach", "--pid", job.pid)
            assert done["way"] == "thread" and done["tid"], done
            assert len([path for path in proc.opened(f"/proc/{job.pid}/fd").values() if "libprofd_agent" in path]) == 0
            profd.process(job.pid)
            profd.run("detach", "--pid", job.pid)
        ends_untouched(job)


@pytest.mark.skipif(os.geteuid() != 0, reason="root makes control groups")
def test_a_job_that_may_have_no_more_threads(profd):
    folder = next((path for path in (pathlib.Path("/sys/fs/cgroup/pids"), pathlib.Path("/sys/fs/cgroup"))
                   if path.name == "pids" and path.exists() or "pids" in words(path / "cgroup.subtree_control")), None)
    if not folder:
        pytest.skip("no control group of processes here")
    group = folder / f"profd-test-{os.getpid()}"
    group.mkdir()
    try:
        with process(TOUCHY, "poll") as job:
            wait_for(sleeps_in(job.pid, 7), what="its sleep")
            (group / "cgroup.procs").write_text(str(job.pid))
            (group / "pids.max").write_text("1")
            result, said = foreseen(profd, job.pid)
            assert result == "warning" and "pids.max" in said, said
            before = proc.opened(f"/proc/{job.pid}/fd")
            done = attach(profd, job.pid, 1)
            assert "can start no thread" in done.stderr and "nothing of it is left there" in done.stderr, done
            assert proc.opened(f"/proc/{job.pid}/fd") == before and not has_agent(job.pid)
            (group / "pids.max").write_text("max")
            attach(profd, job.pid, 0)
            ends_untouched(job)
    finally:
        wait_for(lambda: not words(group / "cgroup.procs"), what="an empty group")
        group.rmdir()
