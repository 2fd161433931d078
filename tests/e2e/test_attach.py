"""`profd attach`: processes that were started without anything. Each is compared with the same one that nobody touched: output, standard
error, exit code. PROFD_ATTACHMENTS says how many attachments the table has."""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import time

import pytest

from conftest import BUILD, WORKLOADS, wait_for
from test_stack import PYTHONS

ATTACHMENTS = int(os.environ.get("PROFD_ATTACHMENTS", "23"))
STEADY = BUILD / "workloads" / "steady"
pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone")

WORK = """
import sys, hashlib, threading, time
def work(n):
    h, x = hashlib.sha256(), 0
    for i in range(n):
        texts = []
        for j in range(2000):
            x = (x * 31 + j) % 1000003
            texts.append(str(x))
        h.update("".join(texts).encode())
    return h.hexdigest()
print("ready", flush=True)
how = sys.argv[1]
if how == "busy":
    r = work(700)
elif how == "threads":
    r = []
    threads = [threading.Thread(target=lambda: r.append(work(250))) for _ in range(3)]
    for t in threads:
        t.start()
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    for t in threads:
        while t.is_alive():
            t.join(0.05)
elif how == "fork":
    import multiprocessing
    with multiprocessing.get_context("fork").Pool(2) as pool:
        r = pool.map(work, [150] * 6)
elif how == "sleepy":
    for i in range(100):
        time.sleep(0.02)
    r = work(20)
print(r, flush=True)
sys.exit(7)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attach")
    (folder / "work.py").write_text(WORK)
    return folder


def targets(place):
    found = {f"C, {how}": [STEADY, how, "2"] for how in ("mixed", "crowd", "sleep")}
    for version, path in PYTHONS.items():
        for how in ("busy", "threads", "fork", "sleepy"):
            found[f"Python {version}, {how}"] = [path, place / "work.py", how]
    return found


def bare(profd):
    return {k: v for k, v in profd.env.items() if not k.startswith("PROFD_")}


def begin(profd, command):
    job = subprocess.Popen(list(map(str, command)), env=bare(profd), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    profd.jobs.append(job)
    assert job.stdout.readline() == "ready\n"
    return job


def result(job):
    out, err = job.communicate(timeout=120)
    return job.returncode, out, err


@pytest.fixture(scope="module")
def untouched(place):
    known = {}

    def get(profd, name, command):
        if name not in known:
            known[name] = result(begin(profd, command))
        return known[name]
    return get


def test_no_job_is_harmed(profd, place, untouched, request):
    """The table: target, way, how long the thread stood, whether its end was the same."""
    rows, rng = [], random.Random(13)
    names = targets(place)
    for number in range(ATTACHMENTS):
        name = list(names)[number % len(names)]
        wanted = untouched(profd, name, names[name])
        job = begin(profd, names[name])
        time.sleep(rng.random() * 0.3)  # where in its life it is met
        done = profd.run("attach", "--pid", job.pid, "--format", "json", check=False)
        same = result(job) == wanted
        told = json.loads(done.stdout) if done.returncode == 0 else {}
        rows.append((name, told.get("way", f"refused ({done.returncode})"), told.get("stood_ns"), same, done.stderr.strip()))
        # Nothing but a job that ended first, or is under a tracer, is a reason not to be attached to.
        assert done.returncode in (0, 3, 4, 8) or "has not registered" in done.stderr, done
    print(f"\n{'TARGET':24} {'WAY':14} {'STOOD FOR (us)':>15}  IDENTICAL")
    for name, way, stood, same, error in rows:
        print(f"{name:24} {way:14} {'-' if stood is None else f'{stood / 1e3:.0f}':>15}  {'yes' if same else 'NO'} {error}")
    stood = sorted(row[2] for row in rows if row[2] is not None)
    print(f"{len(rows)} attachments, {len(stood)} done, {sum(not r[3] for r in rows)} harmed; stood: median "
          f"{statistics.median(stood) / 1e3:.0f} us, worst {stood[-1] / 1e3:.0f} us")
    assert all(row[3] for row in rows), [row for row in rows if not row[3]]
    assert len(stood) > len(rows) // 2


def test_the_attacher_is_killed(profd, place, untouched):
    """kill -9 at any moment of the way: the job goes on, and ends as ever. Half-way means after any number of its system calls."""
    names = targets(place)
    some = [name for name in names if name in ("C, mixed", "C, crowd", f"Python {min(PYTHONS)}, busy", "Python 3.11, threads",
                                               f"Python {max(PYTHONS)}, sleepy")]
    if not shutil.which("strace"):
        pytest.skip("strace counts the system calls; it is not installed")
    ptrace_calls = range(1, 32, 2)
    for number, call in enumerate(ptrace_calls):
        name = some[number % len(some)]
        wanted = untouched(profd, name, names[name])
        job = begin(profd, names[name])
        subprocess.run(["strace", "-qq", "-o", "/dev/null", "-e", "trace=ptrace", "-e", f"inject=ptrace:signal=SIGKILL:when={call}",
                        profd.client, "attach", "--pid", str(job.pid)], env=profd.env, capture_output=True, timeout=60)
        assert result(job) == wanted, (name, call)


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


def test_refusals(profd, tmp_path):
    refused(profd, 4194303, 3, "there is no process")
    with process("/usr/bin/python3", "-c", IDLE) as job:
        job.send_signal(signal.SIGSTOP)
        wait_for(lambda: ") T " in pathlib.Path(f"/proc/{job.pid}/stat").read_text(), what="the stop")
        refused(profd, job.pid, 8, "is stopped")
        job.send_signal(signal.SIGCONT)
        # Its main thread sits in read(): it is told not to load the agent any more, and lives.
        done = profd.run("attach", "--pid", job.pid, "--timeout", "300ms", check=False)
        assert done.returncode == 4 and "did not come back to Python in time" in done.stderr, done
        job.stdin.close()
        assert job.wait(20) == 0
        assert "libprofd_agent" not in done.stdout
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


def test_a_second_attachment_is_refused(profd, place):
    job = begin(profd, [PYTHONS["3.11"], place / "work.py", "busy"])
    profd.run("attach", "--pid", job.pid)
    refused(profd, job.pid, 8, "has the agent already")
    assert "counted from its attachment on" in profd.process(job.pid)["step_note"]


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
        assert profd.json("attach", "--pid", job.pid)["way"] == "pending call"
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


@pytest.mark.skipif("PROFD_TORCH_NEWEST" not in os.environ, reason="no torch")
def test_torch_is_recorded_as_with_the_agent_from_the_start(profd, place):
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
