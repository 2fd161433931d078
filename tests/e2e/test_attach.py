"""`profd attach`: what is refused, and what is recorded afterwards. test_attach_table.py has what it does to jobs."""
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import struct
import resource
import subprocess
import time

import pytest

import proc
from conftest import BUILD, WORKLOADS, wait_for
from pythons import PYTHONS
from test_disk_full import LOOK, WRITE, Disk

PAUSE, SCHED_GETATTR = 34, 315  # of x86-64's system calls
pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone")

def bare(profd):
    return {k: v for k, v in profd.env.items() if not k.startswith("PROFD_")}


def begin(profd, command, env=None):
    job = subprocess.Popen(list(map(str, command)), env={**bare(profd), **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    profd.jobs.append(job)
    assert job.stdout.readline() == "ready\n"
    return job


def result(job):
    out, err = job.communicate(timeout=120)
    return job.returncode, out, err


@contextlib.contextmanager
def process(*command, ready=True, **more):
    started = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more)
    try:
        if ready:
            started.stdout.readline()
        yield started
    finally:
        started.kill()
        started.wait()
        started.stdin.close()
        started.stdout.close()


def refused(profd, pid, code, words):
    done = profd.run("attach", "--pid", pid, check=False)
    assert done.returncode == code and words in done.stderr, done
    # The doctor says so beforehand, with the same words.
    if "has the agent already" not in words and "there is no process" not in words:
        seen = profd.json("doctor", "--pid", pid, codes=range(10))["checks"]
        assert [row["result"] for row in seen if row["check"] == "attach" and words in row["sentence"]] == ["failed"], seen


IDLE = "import sys; print(flush=True); sys.stdin.read()"


@contextlib.contextmanager
def held(profd, pid, part, kinds, prefix=()):
    """A client (under the program `prefix`) that attaches to it and that stands before it touches that part of its /proc; it goes on where the block ends."""
    disk = Disk(profd.folder / "control")
    env = {**profd.env, "LD_PRELOAD": str(BUILD / "workloads" / "libfailing.so"), "FAILING_CONTROL": str(profd.folder / "control"),
           "FAILING_FOLDER": f"/proc/{pid}/{part}"}
    disk.fail(1, 2**32 - 1, errno.EAGAIN, kinds)
    client = subprocess.Popen([*prefix, profd.client, "attach", "--pid", str(pid)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: disk.failed, what="the client")
    yield client
    disk.heal()


@pytest.mark.parametrize("part, kinds", [("root", LOOK), ("mem", WRITE)])
def test_a_process_that_ends_meanwhile(profd, part, kinds):
    """It is told to have ended, not what failed therefore: without a root it sees no socket of the daemon's, and without memory nothing can be
    put there. The client stands before it opens the one, or writes to the other."""
    with process("/usr/bin/python3", "-c", IDLE) as job:
        with held(profd, job.pid, part, kinds) as client:
            job.kill()
            wait_for(lambda: pathlib.Path(f"/proc/{job.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", what="its end")
        out, err = client.communicate(timeout=60)
        assert client.returncode == 3 and f"process {job.pid} has ended" in err, (out, err)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone may open what another process has mapped")
@pytest.mark.parametrize("apart", [False, True])
def test_whose_file_it_is(profd, apart):
    """The client's, which nobody can change any more, so that nothing stands while it is written; one that has files of its own could not open it, and makes
    one."""
    command = ["unshare", "--mount"] * apart + ["/usr/bin/python3", "-c", "import time\nprint(flush=True)\nwhile True:\n    time.sleep(0.01)"]
    with process(*command) as job:
        profd.run("attach", "--pid", job.pid)
        mapped = [line.split() for line in pathlib.Path(f"/proc/{job.pid}/maps").read_text().splitlines() if "libprofd_agent" in line]
        assert {row[5] for row in mapped} == {"/memfd:profd/libprofd_agent.so"}, mapped
        try:
            file = open(f"/proc/{job.pid}/map_files/{mapped[0][0]}", "rb")
        except PermissionError:
            pytest.skip("root of a container may not")
        with file:
            sealed = bool(fcntl.fcntl(file, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE)
        assert sealed == (not apart)
        # The loader's descriptor is closed again.
        assert not any("libprofd_agent" in path for path in proc.opened(f"/proc/{job.pid}/fd").values())


def scheduling(tid):
    """(niceness, ns of its slice of time) of a thread."""
    attributes = ctypes.create_string_buffer(48)
    assert ctypes.CDLL(None).syscall(SCHED_GETATTR, tid, attributes, len(attributes), 0) == 0
    _, _, _, nice, _, runtime, _, _ = struct.unpack("IIQiIQQQ", attributes)
    return nice, runtime


@pytest.mark.parametrize("may", [True, False])
def test_who_keeps_a_thread_standing_goes_first(profd, may):
    """The client's thread has the highest niceness where it may, and for anybody the shortest slice where the kernel has such, as long as the job's
    thread stands; and what it had before it, afterwards."""
    if may and os.geteuid() != 0:
        pytest.skip("needs the right to be less nice")
    ours = scheduling(0)
    lesser = [] if may else ["setpriv", "--bounding-set=-sys_nice"] if os.geteuid() == 0 else ["env"]
    first = -20 if may else ours[0], 100000 if ours[1] else 0
    with process("/usr/bin/python3", "-c", IDLE) as job:
        with held(profd, job.pid, "mem", WRITE, lesser) as client:
            assert "\nState:\tt" in pathlib.Path(f"/proc/{job.pid}/status").read_text()
            threads = list(proc.of_threads(client.pid, "comm"))
            assert sorted(map(scheduling, threads)) == sorted([first] + [ours] * (len(threads) - 1)), threads
        # It reads, and does not come to the call: the client has a new thread started, and nothing stands.
        wait_for(lambda: "\nState:\tS" in pathlib.Path(f"/proc/{job.pid}/status").read_text(), what="its sleep")
        wait_for(lambda: {scheduling(tid) for tid in proc.of_threads(client.pid, "comm")} == {ours}, what="the client's own niceness")
        job.stdin.close()
        client.communicate(timeout=60)
        assert job.wait(20) == 0


# exit() calls what a C library wants to be called, after Python has ended.
LIVES_ON = "import ctypes; ctypes.CDLL(None).on_exit(ctypes.CDLL(None).pause, None)"


@pytest.mark.parametrize("version", PYTHONS)
def test_a_python_that_ends_meanwhile(profd, version):
    """What asks it for a call works in memory that it has freed: a fault, which would end the job if the client ended just then."""
    with process(PYTHONS[version], "-c", f"{IDLE}; {LIVES_ON}") as job:
        with held(profd, job.pid, "root", LOOK) as client:
            job.stdin.close()
            wait_for(lambda: pathlib.Path(f"/proc/{job.pid}/syscall").read_text().split()[0] == str(PAUSE), what="its pause")
        out, err = client.communicate(timeout=60)
        assert client.returncode == 3 and f"the Python of process {job.pid} has ended" in err, (out, err)
        assert job.poll() is None


def test_refusals(profd, tmp_path):
    refused(profd, 4194303, 3, "there is no process")
    with process("/usr/bin/python3", "-c", IDLE) as job:
        job.send_signal(signal.SIGSTOP)
        wait_for(lambda: ") T " in pathlib.Path(f"/proc/{job.pid}/stat").read_text(), what="the stop")
        refused(profd, job.pid, 8, "is stopped")
        job.send_signal(signal.SIGCONT)
        job.stdin.close()
        assert job.wait(20) == 0
    # Its main thread stays in one call, and it has no other: it is told not to load the agent any more, and lives.
    with process("/usr/bin/python3", "-c", "print(flush=True); sum(range(10**15))") as job:
        done = profd.run("attach", "--pid", job.pid, "--timeout", "2s", check=False)  # it may have to wait for a processor before it stops
        assert done.returncode == 4 and "did not come back to Python in time" in done.stderr, done
        assert job.poll() is None and "libprofd_agent" not in pathlib.Path(f"/proc/{job.pid}/maps").read_text()
    if shutil.which("strace"):
        with process("/usr/bin/python3", "-c", IDLE) as job:
            with process("strace", "-qq", "-o", "/dev/null", "-p", job.pid, ready=False) as tracer:
                wait_for(lambda: f"TracerPid:\t{tracer.pid}" in pathlib.Path(f"/proc/{job.pid}/status").read_text(), what="strace")
                refused(profd, job.pid, 8, "is traced by process")
    source = tmp_path / "static.c"
    source.write_text("#include <stdio.h>\nint main(void) { puts(\"\"); fflush(stdout); return getchar(); }\n")
    subprocess.run(["cc", "-static", source, "-o", tmp_path / "static"], check=True)
    with process(tmp_path / "static") as job:
        refused(profd, job.pid, 1, "profd run")
    filtered = ("import ctypes, sys; libc = ctypes.CDLL(None)\n"
                "class F(ctypes.Structure): _fields_ = [('c', ctypes.c_ushort), ('t', ctypes.c_ubyte), ('f', ctypes.c_ubyte), ('k', ctypes.c_uint)]\n"
                "class P(ctypes.Structure): _fields_ = [('n', ctypes.c_ushort), ('f', ctypes.POINTER(F))]\n"
                "allow = F(6, 0, 0, 0x7fff0000)\n"
                "assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(P(1, ctypes.pointer(allow)))) == 0\n")
    with process("/usr/bin/python3", "-c", filtered + IDLE) as job:
        refused(profd, job.pid, 1, "seccomp")
    # Its modules are being taken apart.
    ends = ("import os, time\nclass Late:\n    def __del__(self, write=os.write, sleep=time.sleep):\n"
            "        write(1, b'\\n')\n        sleep(60)\nlate = Late()\n")
    with process("/usr/bin/python3", "-c", ends) as job:
        refused(profd, job.pid, 3, "is ending")
    with process("/usr/bin/python3", "-c", "import time; print(flush=True); time.sleep(60)") as job:
        seen = profd.json("doctor", "--pid", job.pid, codes=range(10))["checks"]
        assert [row["result"] for row in seen if row["check"] == "attach"] == ["ok"], seen


@pytest.mark.parametrize("how", ["frames", "threads", "huge", "nowhere", "negative", "random", "offsets", "names", "honest"])
def test_a_fake_python(profd, how):
    """It has no Py_AddPendingCall, or none that the client would call anywhere but in the process itself."""
    with process(BUILD / "workloads" / "fake_python", how) as job:
        done = profd.run("attach", "--pid", job.pid, "--timeout", "300ms", check=False)
        assert done.returncode in (1, 3) and done.stderr, done
        job.stdin.close()
        assert job.wait(20) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_another_users_process(profd):
    """With the caller's rights alone, also where the daemon would let them."""
    folder = profd.for_all_users(profd.client, profd.agent)
    with process("/usr/bin/python3", "-c", IDLE) as job:
        done = subprocess.run([folder / "profd", "attach", "--pid", str(job.pid)], user=65534, group=65534, extra_groups=[],
                              capture_output=True, text=True, env=profd.env, cwd="/")
        assert done.returncode in (6, 7), done
        assert "libprofd" not in pathlib.Path(f"/proc/{job.pid}/maps").read_text()


@pytest.mark.parametrize("limit, why", [(resource.RLIMIT_DATA, "Cannot allocate memory"), (resource.RLIMIT_NOFILE, "Too many open files")],
                         ids=["data", "files"])
def test_a_limit_that_is_reached_in_the_middle(profd, limit, why):
    """The thread cannot make its page one for data, or open the file: what was made until then is taken back, and later it is attached to."""
    job = begin(profd, [PYTHONS["3.11"], "-c", "import time\nprint('ready', flush=True)\nwhile True:\n    time.sleep(0.01)"])
    _, most = resource.prlimit(job.pid, limit)
    # Its heap may change: the pages are the only ones of no file that are code.
    def left():
        code = [line for line in pathlib.Path(f"/proc/{job.pid}/maps").read_text().splitlines() if "x" in line.split()[1] and line.endswith(" 0 ")]
        return code, len(os.listdir(f"/proc/{job.pid}/fd"))
    before = left()
    resource.prlimit(job.pid, limit, (1, most))
    done = profd.run("attach", "--pid", job.pid, check=False)
    assert done.returncode == 1 and f"could not be prepared: {why}; it goes on as before, nothing of it is left there" in done.stderr, done
    assert left() == before
    resource.prlimit(job.pid, limit, (most, most))
    profd.run("attach", "--pid", job.pid)
    assert len(left()[0]) == len(before[0]) + 1
    job.kill()


def test_a_kernel_that_lets_nobody_write_code(profd):
    """proc_mem.force_override=never (Linux 6.12): the pages are data, then, until what is in them has been written."""
    if not shutil.which("strace"):
        pytest.skip("strace has the kernel say so; it is not installed")
    job = begin(profd, [PYTHONS["3.11"], "-c", "import time\nprint('ready', flush=True)\nwhile True:\n    time.sleep(0.01)"])
    done = subprocess.run(["strace", "-f", "-qq", "-o", profd.folder / "calls", "-e", "trace=pwrite64", "-e", "inject=pwrite64:error=EIO:when=2", profd.client,
                           "attach", "--pid", str(job.pid)], env=profd.env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "INJECTED" in (profd.folder / "calls").read_text() and profd.process(job.pid)["pid"] == job.pid, done
    job.kill()


def test_a_second_attachment_is_refused(profd):
    job = begin(profd, [PYTHONS["3.11"], "-c", BUSY])
    profd.run("attach", "--pid", job.pid)
    refused(profd, job.pid, 8, "has the agent already")
    assert "counted from its attachment on" in profd.process(job.pid)["step_note"]
    job.kill()


BUSY = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
x = 0
while True:
    for i in range(1000):
        x = (x * 31 + i) % 1000003
"""


@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_a_main_thread_that_nobody_interrupts(profd, version):
    """The thread that waits is the one to be stopped, and what it queues is not looked at by the one that computes."""
    for _ in range(3):
        job = begin(profd, [PYTHONS[version], "-c", BUSY])
        # As long as a thread that computes waits for a processor: after a third of this time another way is taken.
        assert profd.json("attach", "--pid", job.pid, "--timeout", "60s")["way"] == "pending call"
        job.kill()


def test_a_stack_whose_end_is_near(profd):
    """With neither environment nor arguments the main thread's stack begins where it stands."""
    for _ in range(12):
        job = subprocess.Popen(["/usr/bin/python3", "-c", "import time\nprint('ready', flush=True)\nwhile True:\n    time.sleep(0.01)"], env={},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        profd.jobs.append(job)
        assert job.stdout.readline() == "ready\n"
        profd.run("attach", "--pid", job.pid)
        job.kill()


# Trains for as many steps, or for as long as there is a file of this name; prints the steps, and a hash of their losses.
TRAIN = """
import hashlib, itertools, os, sys, time, torch
os.environ["RANK"] = "5"  # too late: the launcher said 3
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
losses = []
print("ready", flush=True)
stay = sys.argv[1]
for step in itertools.count():
    if step == int(stay) if stay.isdigit() else not os.path.exists(stay):
        break
    x = torch.randn(8, 16)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    time.sleep(0.002)
print(len(losses), hashlib.sha256(repr(losses).encode()).hexdigest(), flush=True)
"""


def trains(job, stay, again):
    """The job, which trains while there is the file `stay`, ends like one that was left alone: again(steps) starts that."""
    stay.unlink()
    code, out, err = result(job)
    assert (code, err) == (0, ""), err
    assert result(again(out.splitlines()[-1].split()[0])) == (code, out, err)


def counted(profd, capture):
    shown = profd.show(capture["capture_id"], "--by", "operators", "--group-by-shapes", "--limit", "0")
    return sorted((row["name"], str(row.get("input_shapes")), row["calls"]) for row in shown["operators"])


@pytest.mark.core
@pytest.mark.skipif("PROFD_TORCH_NEWEST" not in os.environ, reason="no torch")
def test_torch_is_recorded_as_with_the_agent_from_the_start(profd, tmp_path):
    place = tmp_path
    torch = os.environ["PROFD_TORCH_NEWEST"]
    (place / "train.py").write_text(TRAIN)
    stay = place / "stay"
    stay.touch()
    command = [torch, place / "train.py", stay]
    from_start = profd.job(*command, env={"RANK": "3", "WORLD_SIZE": "8", "SLURM_JOB_ID": "77"})
    profd.wait_steps(from_start.pid, 20)
    first = counted(profd, profd.trigger(from_start.pid, "--steps", "3", "--shapes"))
    late = subprocess.Popen(list(map(str, command)), env={**bare(profd), "RANK": "3", "WORLD_SIZE": "8", "SLURM_JOB_ID": "77"},
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    profd.jobs.append(late)
    assert late.stdout.readline() == "ready\n"
    profd.run("attach", "--pid", late.pid)
    row = profd.wait_steps(late.pid, 5)
    assert (row["rank"], row["world_size"], row["job"]) == (3, 8, "77")
    second = counted(profd, profd.trigger(late.pid, "--steps", "3", "--shapes"))
    assert first == second and first
    trains(late, stay, lambda steps: begin(profd, [torch, place / "train.py", steps]))
