"""`profd stack --native`: what stands below the lines of Python, of threads that wait, and of programs that mean harm."""
import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

import pytest

from cli import *  # noqa: F401,F403 (fixtures)
from conftest import BUILD, wait_for
from proc import of_threads, opened, second
from pythons import PYTHONS
from test_stack import HERE, process, stack

LIBRARY = BUILD / "workloads" / "libnative.so"
pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls are x86-64's")

# CALL is what the thread does; `native` is the library, `wait` has something to read once the job's input has ended.
JOB = """
import ctypes, os, sys, threading
native = ctypes.CDLL(sys.argv[1])
wait, end = os.pipe()
lock = threading.Lock(); lock.acquire()
stop = ctypes.c_int(0)
results = []
def below():
    results.append(CALL)
def line():
    below()
thread = threading.Thread(target=line)
thread.start()
print("ready", flush=True)
sys.stdin.read()
os.write(end, b"x"); stop.value = 1; lock.release()
thread.join()
print(results[0])
"""
SLEEPS = "native.native_wait(wait)"


def job(call, library=LIBRARY, python="/usr/bin/python3", prefix=()):
    return process(*prefix, python, "-c", JOB.replace("CALL", call), library)


def waits_in(pid, number):
    """Its second thread waits in this system call."""
    calls = [*of_threads(pid, "syscall").values()]
    return len(calls) == 2 and calls[1].startswith(number)


def native(client, pid):
    """The second thread."""
    done = client.run("stack", "--pid", pid, "--native", "--format", "json", timeout=60)
    assert done.returncode == 0, done
    return second(json.loads(done.stdout)["processes"][0]["threads"], pid)


def names(thread):
    return [frame["name"] for frame in thread["frames"]]


def in_order(found, *wanted):
    rest = iter(found)
    return all(any(name is not None and name.split(".")[-1] == one for name in rest) for one in wanted)


def ended(program, printed):
    """It goes on as if nobody had looked."""
    out, _ = program.communicate("", timeout=60)
    assert program.returncode == 0 and out == f"{printed}\n", (program.returncode, out)


@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_below_the_line_that_waits(lonely, version):
    back = "native.native_call(ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(lambda n: native.native_wait(wait)), 7)"
    with job(back, python=PYTHONS[version]) as program:
        assert program.stdout.readline() == "ready\n"
        wait_for(lambda: waits_in(program.pid, "7 "), what="its poll()")
        plain = second(stack(lonely, program.pid)["threads"], program.pid)
        text = lonely.run("stack", "--pid", program.pid, "--native").stdout
        assert " waits in poll\n" in text and "    native_wait (libnative.so)\n" in text and "<lambda> (<string>:9)\n" in text, text
        thread = native(lonely, program.pid)
        found = names(thread)
        assert in_order(found, "native_wait", "<lambda>", "below", "line", "run", "_bootstrap"), found
        assert not any(name and name.startswith("_PyEval_EvalFrameDefault") for name in found), found
        assert [f for f in thread["frames"] if not f["native"]] == plain["frames"]
        # libffi, by which ctypes calls, keeps its place in a register.
        assert not thread["native_whole"] and "registers" in thread["native_why"] and thread["call"] == "poll", thread
        assert plain["native_whole"] is None and plain["native_why"] is None and plain["call"] is None, plain
        below = next(f for f in thread["frames"] if f["name"] == "native_wait")
        said = subprocess.run(["addr2line", "-f", "-e", below["file"], hex(below["address"])], capture_output=True, text=True)
        assert below["file"] == str(LIBRARY) and said.stdout.startswith("native_wait\n"), (below, said)
        ended(program, 2)


def test_nothing_is_stopped(lonely):
    with job("lock.acquire()") as program:
        program.stdout.readline()
        wait_for(lambda: waits_in(program.pid, "202 ") and pathlib.Path(f"/proc/{program.pid}/syscall").read_text().startswith("0 "),
                 what="its futex(), and the main thread's read()")
        tids = os.listdir(f"/proc/{program.pid}/task")

        def status():
            return [[line for line in pathlib.Path(f"/proc/{program.pid}/task/{tid}/status").read_text().splitlines()
                     if "ctxt_switches" in line or "TracerPid" in line] for tid in tids]
        before = status()
        thread = native(lonely, program.pid)
        assert thread["native_whole"] and thread["native_why"] is None and thread["call"] == "futex", thread
        assert in_order(names(thread), "PyThread_acquire_lock_timed", "below", "line", "_bootstrap"), thread
        assert status() == before and "TracerPid:\t0" in before[0]
        ended(program, True)


def test_what_needs_registers_says_so(lonely):
    """Without a stop what stands further out is not guessed; the frames of Python are all there."""
    with job("native.native_needs_registers(wait)") as program:
        program.stdout.readline()
        wait_for(lambda: waits_in(program.pid, "7 "), what="its poll()")
        thread = native(lonely, program.pid)
        assert not thread["native_whole"] and "only a stopped thread shows" in thread["native_why"], thread
        assert names(thread)[0] == "native_needs_registers" and in_order(names(thread), "below", "line", "_bootstrap")
        assert "(no more native frames: that takes registers" in lonely.run("stack", "--pid", program.pid, "--native").stdout
        ended(program, 2)


def test_one_that_runs_is_left_alone(lonely):
    with job("native.native_spin(ctypes.byref(stop)) > 0") as program:
        program.stdout.readline()
        # Once the main thread has let go of the GIL for good it is on its way there, or there.
        wait_for(lambda: waits_in(program.pid, "running") and pathlib.Path(f"/proc/{program.pid}/syscall").read_text().startswith("0 "), what="its loop")
        thread = wait_for(lambda: [one for one in [native(lonely, program.pid)] if "below" in names(one)], what="its line")[0]
        assert thread["native_why"] == "it runs, and only a stop would tell where" and not any(f["native"] for f in thread["frames"])
        assert in_order(names(thread), "below", "line", "_bootstrap")
        ended(program, True)


DEEP = """
import ctypes, os, sys, threading
native = ctypes.CDLL(sys.argv[1])
wait, _ = os.pipe()
def below():
    native.native_deep(wait, int(sys.argv[3]))
for _ in range(int(sys.argv[2])):
    threading.Thread(target=below, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("threads,depth,reason", [(1, 5000, "only the innermost are shown"), (20, 4000, "of all threads no more than 65536 are read")])
def test_stacks_that_are_too_much(lonely, threads, depth, reason):
    """What is not there says so; the lines of Python are there in any case."""
    with process("/usr/bin/python3", "-c", DEEP, LIBRARY, threads, depth) as program:
        assert program.stdout.readline() == "ready\n"
        wait_for(lambda: sum(call.startswith("7 ") for call in of_threads(program.pid, "syscall").values()) == threads, what="their poll()")
        done = lonely.run("stack", "--pid", program.pid, "--native", "--format", "json", timeout=60)
        found = json.loads(done.stdout)["processes"][0]["threads"][1:]
        assert len(found) == threads and all("below" in names(thread) for thread in found)
        counts = [sum(frame["native"] for frame in thread["frames"]) for thread in found]
        assert max(counts) <= 4096 and 4000 < sum(counts) <= 65536
        assert reason in {thread["native_why"] for thread in found} and not any(thread["native_whole"] for thread in found), found[0]["native_why"]


@pytest.mark.parametrize("how", ["frames", "threads"])
def test_a_fake_python(lonely, how):
    """Eight thousand threads that are one for the kernel, or frames without an end: neither a crash, nor a loop."""
    with process(BUILD / "workloads" / "fake_python", how) as program:
        assert program.stdout.readline() == "ready\n"
        done = lonely.run("stack", "--pid", program.pid, "--native", "--format", "json", timeout=150)
        assert done.returncode == 0 and json.loads(done.stdout)["processes"][0]["threads"], done


@pytest.fixture
def copied(tmp_path):
    return pathlib.Path(shutil.copy(LIBRARY, tmp_path / "libcopied.so"))


def waiting(lonely, program):
    wait_for(lambda: waits_in(program.pid, "7 "), what="its poll()")
    thread = native(lonely, program.pid)
    assert in_order(names(thread), "below", "line", "_bootstrap"), thread
    return thread


def test_a_library_that_was_replaced(lonely, copied):
    """An update while the job runs: another file has the name, with other tables. They are not taken for those of the code that runs."""
    with job(SLEEPS, copied) as program:
        program.stdout.readline()
        other = copied.with_name("other")
        shutil.copy(BUILD / "workloads" / "libhold.so", other)
        os.rename(other, copied)
        thread = waiting(lonely, program)
        assert "has been replaced" in thread["native_why"] and "native_wait" not in names(thread), thread
        ended(program, 1)


def test_a_library_that_was_cut(lonely, copied):
    """What reads it may die of that: the answer has the frames of Python, and says so."""
    with job(SLEEPS, copied) as program:
        program.stdout.readline()
        wait_for(lambda: waits_in(program.pid, "7 "), what="its poll()")
        os.truncate(copied, 4096)
        thread = waiting(lonely, program)
        assert not thread["native_whole"] and thread["native_why"], thread


@pytest.mark.parametrize("seed", range(6))
def test_a_library_whose_tables_are_nonsense(lonely, copied, seed):
    """Neither a crash, nor a loop; it ends in time."""
    with job(SLEEPS, copied) as program:
        program.stdout.readline()
        wait_for(lambda: waits_in(program.pid, "7 "), what="its poll()")
        chance = random.Random(seed)
        with copied.open("r+b") as file:
            size = copied.stat().st_size
            for _ in range(4000):
                file.seek(chance.randrange(4096, size))
                file.write(chance.randbytes(chance.choice((1, 1, 8))))
        waiting(lonely, program)


def test_a_name_that_is_no_file(lonely, copied):
    """A pipe in the library's place would keep a reader for ever."""
    with job(SLEEPS, copied) as program:
        program.stdout.readline()
        copied.unlink()
        os.mkfifo(copied)
        assert "has been replaced" in waiting(lonely, program)["native_why"]
        ended(program, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="changes a root")
def test_in_another_root(lonely, tmp_path):
    """The kernel tells the names of its files as they are seen from outside."""
    root = tmp_path / "root"
    for folder in ("usr", "lib", "lib64", "place"):
        (root / folder).mkdir(parents=True)
    shutil.copy(LIBRARY, root / "place")
    with contextlib.ExitStack() as stack:
        for folder in ("usr", "lib", "lib64"):
            subprocess.run(["mount", "--bind", f"/{folder}", root / folder], check=True)
            stack.callback(subprocess.run, ["umount", "-l", root / folder], check=True)
        program = stack.enter_context(job(SLEEPS, f"/place/{LIBRARY.name}", prefix=("chroot", root)))
        assert program.stdout.readline() == "ready\n"
        assert "native_wait" in names(waiting(lonely, program))
        ended(program, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a mount namespace")
def test_in_another_mount_namespace(lonely, tmp_path):
    """Its library lies where only the job sees it."""
    place = tmp_path / "place"
    place.mkdir()
    hide = f"mount -t tmpfs none {place} && cp {LIBRARY} {place}/libhidden.so && exec \"$@\""
    with job(SLEEPS, place / "libhidden.so", prefix=("unshare", "--mount", "sh", "-c", hide, "sh")) as program:
        program.stdout.readline()
        thread = waiting(lonely, program)
        assert not (place / "libhidden.so").exists() and "native_wait" in names(thread), thread
        ended(program, 1)


def test_without_libdw(lonely, tmp_path):
    """The sentence says what to install."""
    (tmp_path / "libdw.so.1").write_bytes(b"no library")
    with job(SLEEPS) as program:
        program.stdout.readline()
        done = lonely.run("stack", "--pid", program.pid, "--native", LD_LIBRARY_PATH=str(tmp_path))
        assert done.returncode == 1 and "libdw1" in done.stderr, done
        ended(program, 1)


@contextlib.contextmanager
def slow_files(folder, file):
    """A copy of the file in a file system whose server can be told to be away."""
    with process(sys.executable, HERE / "slow_files.py", folder, file, stderr=subprocess.PIPE) as server:
        if server.stdout.readline() != "ready\n":
            said = server.stderr.read()
            assert said.startswith("no FUSE here"), said
            pytest.skip(said)
        try:
            yield server
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


def held_reader(pid):
    """{number: name} of the descriptors of the confined process that the client has forked, once it waits in an openat()."""
    with contextlib.suppress(OSError):
        for children in of_threads(pid, "children").values():
            for child in children.split():
                place = pathlib.Path("/proc") / child
                if "Seccomp:\t2\n" in (place / "status").read_text() and (place / "syscall").read_text().startswith("257 "):
                    return opened(place / "fd")
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_file_that_is_not_answered_for(lonely, tmp_path):
    """Who reads it cannot be killed. The client leaves that one behind in time, and has given it nothing."""
    folder, inherited = tmp_path / "slow", tmp_path / "inherited"
    folder.mkdir()
    inherited.write_text("")
    with slow_files(folder, LIBRARY) as server, job(SLEEPS, folder / LIBRARY.name) as program:
        assert program.stdout.readline() == "ready\n"
        wait_for(lambda: waits_in(program.pid, "7 "), what="its poll()")
        print(file=server.stdin, flush=True)
        assert server.stdout.readline() == "away\n"
        with inherited.open("w") as file:
            client = subprocess.Popen([lonely.executable, "stack", "--pid", str(program.pid), "--native", "--format", "json"], env=lonely.environment,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, pass_fds=(file.fileno(),))
        has = wait_for(lambda: held_reader(client.pid), what="who reads the file")
        assert has.pop(0).startswith("pipe:") and has.pop(1) == f"/proc/{program.pid}/mem", has
        assert all(name.startswith(("/usr/", "/lib")) or name == str(lonely.executable) for name in has.values()), has
        out, _ = client.communicate(timeout=120)
        thread = second(json.loads(out)["processes"][0]["threads"], program.pid)
        assert in_order(names(thread), "below", "line", "_bootstrap"), thread
        assert not thread["native_whole"] and "kept waiting by a file" in thread["native_why"], thread
        server.kill()
        server.wait()
        ended(program, 1)


@pytest.mark.parametrize("call,sentence", [("pipe2", "no pipe for what reads them: "), ("clone", "no process for what reads them: ")])
def test_a_machine_that_is_full(lonely, call, sentence):
    """Its threads are made by clone3()."""
    if not shutil.which("strace"):
        pytest.skip("strace lets a call fail; it is not installed")
    with job(SLEEPS) as program:
        program.stdout.readline()
        wait_for(lambda: waits_in(program.pid, "7 "), what="its poll()")
        done = subprocess.run(["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={call}:error=ENOMEM", lonely.executable, "stack",
                               "--pid", str(program.pid), "--native"], env=lonely.environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and f"(no native frames: {sentence}" in done.stdout and "    below (<string>:9)\n" in done.stdout, done
        ended(program, 1)


def test_ranks_side_by_side(lonely):
    """Those that stand at one line are in one place, wherever their native code is."""
    code = JOB.replace("thread.start()", "thread.start(); native.native_wait(wait)").replace("CALL", SLEEPS)
    name = "profd-native"
    with process("bash", "-c", f"exec -a {name} /usr/bin/python3 -c \"$0\" \"$1\"", code, LIBRARY) as one, \
            process("bash", "-c", f"exec -a {name} /usr/bin/python3 -c \"$0\" \"$1\"", code, LIBRARY) as other:
        for program in (one, other):
            wait_for(lambda: waits_in(program.pid, "7 ") and pathlib.Path(f"/proc/{program.pid}/syscall").read_text().startswith("7 "),
                     what="their poll()")
        done = lonely.run("stack", "--name", name, "--native", timeout=60)
        assert done.returncode == 0 and "2 processes, whose main threads stand in 1 place\n" in done.stdout, done
        assert "    native_wait (libnative.so)\n" in done.stdout and "    <module> (<string>:13)\n" in done.stdout, done.stdout
