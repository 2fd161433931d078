"""`profd stack`: Python stacks read from outside, of every CPython that this machine has; processes that are none, are not ours, or
are hostile."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from cli import *  # noqa: F401,F403 (fixtures)
from conftest import BUILD, wait_for
from proc import second
from pythons import PYTHONS

HERE = pathlib.Path(__file__).parent
NAME_BYTES = 511  # what the reader keeps of a name


@contextlib.contextmanager
def process(*command, **more):
    started = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def stack(client, pid, code=0, timeout=60):
    done = client.run("stack", "--pid", pid, "--format", "json", timeout=timeout)
    assert done.returncode == code, (done.returncode, done.stderr)
    answer = json.loads(done.stdout)
    assert answer["schema"] == "profd.stack/1"
    return answer["processes"][0]


@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_stacks_are_those_that_python_tells(lonely, version):
    with process(PYTHONS[version], HERE / "python_stacks.py") as job:
        told = {int(tid): rows for tid, rows in json.loads(job.stdout.readline()).items()}
        read = stack(lonely, job.pid)
        assert read["python"] == version
        threads = {thread["tid"]: thread for thread in read["threads"]}
        assert set(threads) == set(told) | {job.pid}
        for tid, rows in told.items():
            thread = threads[tid]
            assert [[frame["name"], frame["line"]] for frame in thread["frames"]] == [[name[:NAME_BYTES], line] for name, line in rows]
            assert thread["reading"] == "whole" and thread["idle"] and not thread["holds_gil"] and not thread["more_frames"]
        assert threads[job.pid]["frames"][-1]["name"] == "<module>"
        assert all(frame["file"] == str(HERE / "python_stacks.py") for frame in threads[job.pid]["frames"])
        text = lonely.run("stack", "--pid", job.pid).stdout
        assert f"Python {version}\n" in text and f"rest (python_stacks.py:{told.popitem()[1][0][1]})" in text


CALLS = """
import sys, threading
def a(n):
    return b(n - 1) if n else 0
def b(n):
    return a(n - 1) if n > 0 else c(n)
def c(n):
    return sum(d(i) for i in range(3))
def d(i):
    return i
def busy():
    while True:
        a(7)
        a(12)
threading.Thread(target=busy, daemon=True).start()
print(flush=True)
sys.stdin.read()
"""
CALLER = {"a": {"b", "busy"}, "b": {"a"}, "c": {"b"}, "d": {"c.<locals>.<genexpr>", "<genexpr>"}, "c.<locals>.<genexpr>": {"c"},
          "<genexpr>": {"c"}}


@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_what_runs_is_read_whole_or_says_that_it_is_not(lonely, version):
    """A thread that does nothing but call: what is called whole is a chain that the program can have."""
    with process(PYTHONS[version], "-c", CALLS) as job:
        job.stdout.readline()
        whole = 0
        for _ in range(30):
            thread = second(stack(lonely, job.pid)["threads"], job.pid)
            if thread["reading"] != "whole" or not thread["frames"]:
                continue
            whole += 1
            names = [frame["name"] for frame in thread["frames"]]
            assert names[-1].endswith("_bootstrap"), names
            for inner, outer in zip(names, names[1:]):
                assert outer in CALLER.get(inner, {outer}), names
        assert whole


def test_nothing_is_stopped(lonely):
    """No tracer, and no stop that the kernel would have counted or the process could see."""
    with process("/usr/bin/python3", "-c", "import sys, time; print(flush=True); sys.stdin.read()") as job:
        job.stdout.readline()
        wait_for(lambda: pathlib.Path(f"/proc/{job.pid}/syscall").read_text().startswith("0 "), what="the job's read()")
        before = pathlib.Path(f"/proc/{job.pid}/status").read_text()
        stack(lonely, job.pid)
        after = pathlib.Path(f"/proc/{job.pid}/status").read_text()
        switches = re.compile(r"^\w*voluntary_ctxt_switches:\s*(\d+)", re.M)
        assert len(switches.findall(before)) == 2 and switches.findall(after) == switches.findall(before)
        assert "TracerPid:\t0\n" in after


def test_a_stopped_process_is_read(lonely):
    with process("/usr/bin/python3", "-c", "import sys; print(flush=True); sys.stdin.read()") as job:
        job.stdout.readline()
        job.send_signal(signal.SIGSTOP)
        assert stack(lonely, job.pid)["threads"][0]["frames"][-1]["name"] == "<module>"


def test_refusals_say_why(lonely, tmp_path):
    with process("sleep", "1000") as job:
        done = lonely.run("stack", "--pid", job.pid)
        assert done.returncode == 3 and "runs no Python" in done.stderr
    done = lonely.run("stack", "--pid", 4194303)
    assert done.returncode == 3 and "there is no process 4194303" in done.stderr
    done = lonely.run("stack", "--pid", 2)  # a thread of the kernel's, where that can be seen
    assert done.returncode in (3, 6), done
    done = lonely.run("stack")
    assert done.returncode == 2 and "--pid PID" in done.stderr
    with process("/usr/bin/python3", "-c", "import sys; print(flush=True); sys.stdin.read()") as job:
        job.stdout.readline()
        answer = json.loads(lonely.run("stack", "--pid", f"{job.pid},4194303", "--format", "json").stdout)["processes"]
        assert answer[0]["error"] is None and "no process" in answer[1]["error"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_another_users_process_is_refused(lonely):
    with process("/usr/bin/python3", "-c", "import sys; print(flush=True); sys.stdin.read()") as job:
        job.stdout.readline()
        binary = pathlib.Path("/tmp") / f"profd-stack-{os.getpid()}"
        binary.write_bytes((BUILD / "bin" / "profd").read_bytes())
        binary.chmod(0o755)
        try:
            done = subprocess.run([binary, "stack", "--pid", str(job.pid)], user=65534, group=65534, extra_groups=[],
                                  capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, cwd="/")
        finally:
            binary.unlink()
        assert done.returncode == 6 and "another user's" in done.stderr, done


@pytest.mark.parametrize("how", ["frames", "threads", "marks", "huge", "nowhere", "negative", "random", "offsets", "names"])
def test_a_fake_python_costs_little(lonely, how):
    """It is read, or refused, in bounded time and memory; the reader neither crashes nor loops."""
    with process(BUILD / "workloads" / "fake_python", how) as job:
        assert job.stdout.readline() == "ready\n"
        before = os.times()
        done = lonely.run("stack", "--pid", job.pid, "--format", "json", timeout=150)
        after = os.times()
        assert done.returncode in (0, 1), done
        assert after.children_user + after.children_system - before.children_user - before.children_system < 15
        # At most 16 MiB of names are kept; a byte below 32 takes six in JSON.
        assert len(done.stdout) < 150 << 20
        threads = json.loads(done.stdout)["processes"][0]["threads"]
        assert all(len(thread["frames"]) <= 2048 for thread in threads)
        if how == "frames":
            assert threads[0]["more_frames"] and threads[0]["frames"][0]["name"] == "honest"


def test_a_process_that_keeps_its_readers_waiting(lonely):
    with process(BUILD / "workloads" / "fake_python", "held") as job:
        if job.stdout.readline() != "ready\n":
            assert job.wait(10) == 77
            pytest.skip("this kernel gives no userfaultfd to programs")
        began = time.monotonic()
        done = lonely.run("stack", "--pid", job.pid, timeout=60)
        # Some kernels refuse such a read at once, on others it waits.
        assert "keeps whoever reads its memory waiting" in done.stderr if done.returncode == 4 else "could not be read" in done.stdout, done
        assert time.monotonic() - began < 45
