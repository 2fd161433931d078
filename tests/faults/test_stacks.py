"""Jobs whose Python stacks are sampled 997 times a second while they do what makes frames come and go."""
import os
import shutil
import sqlite3
import sys
import time

import pytest

from conftest import same_job
from house import WORKLOADS

# {name: (what the job does, Python)}; each calls step() now and then and prints what it computed.
JOBS = {
    "threads": ("starts and ends threads that call it", """
import threading
def work(n):
    got.append(sum(deep(i % 30) for i in range(n)))
def deep(n):
    step()
    return n and deep(n - 1) + 1
got = []
for i in range(150):
    threads = [threading.Thread(target=work, args=(20,)) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
print(sum(got))
"""),
    "generators": ("runs generators, coroutines and exceptions", """
import asyncio
def tree(n):
    if n:
        yield from tree(n - 1)
        yield n
        yield from tree(n - 1)
async def one(i):
    await asyncio.sleep(0)
    try:
        raise ValueError(i)
    except ValueError as e:
        return e.args[0]
async def many():
    return sum(await asyncio.gather(*[one(i) for i in range(200)]))
total = 0
for i in range(100):
    total += sum(tree(9)) + asyncio.run(many())
    step()
print(total)
"""),
    "code": ("makes and drops functions all the time", """
import gc
total = 0
for i in range(3000):
    space = {}
    exec(compile(f"def made_{i % 7}(x):\\n" + "\\n" * (i % 300) + f"    return x + {i}", f"<made {i}>", "exec"), space)
    total += space[f"made_{i % 7}"](1)
    if i % 20 == 0:
        gc.collect()
        step()
print(total)
"""),
    "fork": ("forks children that go on in Python", """
import os
total = 0
for i in range(60):
    child = os.fork()
    if not child:
        sum(range(20000))
        step()
        os._exit(i % 7)
    total += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for _ in range(5):
        sum(range(20000))
        step()
print(total)
"""),
    "exec": ("becomes another program", """
import os, sys
for i in range(200):
    sum(range(20000))
    step()
sys.stdout.flush()
os.execv(sys.executable, [sys.executable, "-c", "print(sum(range(1000)))"])
"""),
    "shutdown": ("ends its interpreter while a daemon thread runs on", """
import threading, atexit
def forever():
    while True:
        sum(range(100))
threading.Thread(target=forever, daemon=True).start()
for i in range(200):
    sum(range(20000))
    step()
atexit.register(lambda: [sum(range(20000)) for _ in range(200)])
print("ends")
"""),
    "recursion": ("goes as deep as it can", """
import sys
sys.setrecursionlimit(6000)
def down(n):
    return 1 + down(n + 1)
hits = 0
for i in range(100):
    try:
        down(0)
    except RecursionError:
        hits += 1
    step()
print(hits)
"""),
    "drops": ("runs C that lets the GIL go, and signals", """
import hashlib, signal, threading
ticks = []
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
total = 0
for i in range(300):
    total ^= hashlib.sha256(b"x" * 300000).digest()[i % 32]
    step()
signal.setitimer(signal.ITIMER_REAL, 0)
print(total)
"""),
}
# The share of samples that may be torn. One that goes up and down thousands of frames is hardly ever the same twice.
TORN = {"recursion": 0.25}
# Some jobs are done in a tenth of a second: they begin when they are sampled.
HEAD = """
import ctypes, os, time
step = getattr(ctypes.CDLL(None), "profd_step", lambda: None)
while os.path.exists(os.environ.get("STAY", "")):
    time.sleep(0.01)
    step()
"""
# Each test does its job again and again for so long; ./dev test long stacks asks for it.
SECONDS = float(os.environ.get("PROFD_STACK_SECONDS", "0"))


def again_and_again(row, does, once):
    until, times = time.monotonic() + SECONDS, 0
    while not times or time.monotonic() < until:
        once()
        times += 1
    row.does(does + (f", {times} times" if times > 1 else ""))


@pytest.mark.parametrize("name", JOBS)
def test_sampled(row, profd, name):
    again_and_again(row, f"{JOBS[name][0]}, and is sampled", lambda: sampled(row, profd, name))


def sampled(row, profd, name):
    text = JOBS[name][1]

    def during(job):
        profd.wait_steps(job.pid, 2)
        client = profd.follow("--pid", job.pid, "--steps", 90000, "--timeout", "200s", "--stacks", "--stacks-rate", 997)
        profd.wait_recorded(job.pid, 50)
        return client

    client = row.twice(profd, [sys.executable, "-c", HEAD + text], during, same_job)
    out, err = client.communicate(timeout=90)
    assert client.returncode in (0, 5), (client.returncode, out, err)
    capture = profd.json("captures")["captures"][0]["capture_id"]
    shown = profd.show(capture)
    recorded = sum(line["samples"] for line in shown["lines"])
    torn = sum(loss["count"] for loss in shown["losses"] if loss["kind"] == "sample")
    assert recorded > 20, (recorded, torn)
    # Each sample that arrived stands in one line.
    copy = shutil.copy(profd.file(capture), profd.folder / "counted.db")
    with sqlite3.connect(copy) as db:
        row.counts(recorded, 0, db.execute("SELECT count(*) FROM samples").fetchone()[0])
    assert torn <= TORN.get(name, 0.05) * recorded + 3, (recorded, torn)


# What makes a thread's frames, states and functions go away, in operators.
OPERATORS = """
import ctypes, gc, os, sys, threading, time, torch, warnings, without_compiler
warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on Python warns of forks, with the pid
torch.set_num_threads(1)
torch.manual_seed(1)
step = getattr(ctypes.CDLL(None), "profd_step", lambda: None)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
class Held:
    def __del__(self):
        torch.ones(1).add(1)
def each(n):
    for i in range(n):
        held = Held()
        yield torch.randn(4, 8)
def ones(n):
    for i in range(n):
        held = Held()
        yield torch.ones(2)
def deep(n, x):
    return deep(n - 1, x) if n else model(x)
def unwound(n):
    held = Held()
    if not n:
        raise ValueError
    return unwound(n - 1), held
def traced(frame, event, argument):
    torch.ones(1).add(1)
    return traced
def left():
    try:
        unwound(50)
    except ValueError:
        torch.ones(1).add(1)
    generator = ones(3)
    next(generator)
    try:
        generator.throw(KeyError())
    except KeyError:
        sys.settrace(traced)
        list(ones(1))
        sys.settrace(None)
    deep(300, torch.ones(1, 8))
def work():
    for _ in range(30):
        torch.ones(64).exp().sum()
    left()
def forever():
    while True:
        torch.ones(100000).exp().sum()
while os.path.exists(os.environ.get("STAY", "")):  # without gradients: it stays as it is until it is recorded
    time.sleep(0.01)
    optimizer.zero_grad()
    optimizer.step()
if sys.version_info >= (3, 11):  # before, torch aborts where an operator ends behind the interpreter's end
    threading.Thread(target=forever, daemon=True).start()
losses = []
for i in range(120):
    threads = [threading.Thread(target=work) for _ in range(3)]
    [t.start() for t in threads]
    for x in each(3):
        space = {"deep": deep}
        exec(compile(f"def made_{i % 5}(x):\\n" + "\\n" * (i % 200) + "    return deep(9, x)", f"<made {i}>", "exec"), space)
        loss = space[f"made_{i % 5}"](x).square().mean()
        loss.backward()
        losses.append(loss.item())
    optimizer.step()
    optimizer.zero_grad()
    [t.join() for t in threads]
    left()
    if i % 20 == 0:
        child = os.fork()
        if not child:
            torch.ones(2).add(1)
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        gc.collect()
print(" ".join(loss.hex() for loss in losses))
print(torch.initial_seed(), torch.rand(1).item().hex(), flush=True)
"""


def test_operators(row, profd, torch_newest):
    again_and_again(row, "makes operators' frames go away, with the stack of each operator recorded", lambda: operators(row, profd, torch_newest))


def operators(row, profd, torch_newest):
    def during(job):
        profd.wait_steps(job.pid, 2, 240)
        client = profd.follow("--pid", job.pid, "--steps", 90000, "--timeout", "400s", "--stacks=operators", "--stacks-rate", 997)
        profd.wait_recorded(job.pid, 2, 240)
        return client

    client = row.twice(profd, [torch_newest, "-c", OPERATORS], during, same_job, timeout=300, env={"PYTHONPATH": str(WORKLOADS)})
    out, err = client.communicate(timeout=90)
    assert client.returncode in (0, 5), (client.returncode, out, err)
    capture = profd.json("captures")["captures"][0]["capture_id"]
    copy = shutil.copy(profd.file(capture), profd.folder / "counted.db")
    with sqlite3.connect(copy) as db:
        told, unknown = db.execute("SELECT count(stack), count(*) FROM operators WHERE stack IS NOT NULL AND stack NOT IN "
                                   "(SELECT id FROM stacks)").fetchone()
        whole, = db.execute("SELECT count(stack) FROM operators").fetchone()
        without, = db.execute("SELECT coalesce(sum(count), 0) FROM losses WHERE loss = 'stackless'").fetchone()
    row.counts(whole, 0, whole)
    assert whole > 1000 and told == unknown == 0, (whole, told)
    assert without <= 0.01 * whole, (without, whole)
