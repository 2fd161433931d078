"""`profd attach` and processes that would notice a stop, or that a call in the wrong thread would end (tests/workloads/touchy.c)."""
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

import proc
from conftest import BUILD, wait_for
from test_attach import process

TOUCHY = BUILD / "workloads" / "touchy"
STOPS_MOST = 8  # client/attach/choose.c
pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone")


def sleeps_in(pid, number):
    return lambda: pathlib.Path(f"/proc/{pid}/syscall").read_text().split()[0] == str(number)


def attach(profd, pid, code):
    done = profd.run("attach", "--pid", pid, "--timeout", "5s", check=False)
    assert done.returncode == code, done
    return done


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


@pytest.mark.parametrize("how, number", [("epoll", 232), ("sigwait", 128), ("semop", 220), ("recv", 45), ("read", 0), ("all", 45), ("lowat", 45), ("constant", 271)])
def test_a_call_that_would_end_is_left_alone(profd, how, number):
    """signal(7): these give EINTR after a stop, or less than was asked for."""
    with process(TOUCHY, how) as job:
        wait_for(sleeps_in(job.pid, number), what="its sleep")
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
