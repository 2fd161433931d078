"""Jobs that change what is read of Python besides stacks while it is read: torch's list of compilations, and the counts of collected garbage. The
list is one of this module's own, under torch's name, so that it can be filled, broken and taken away at will."""
import sqlite3
import sys

import pytest

from conftest import same_job, wait_for

FIRST, STEPS = 20, 5
HEAD = """
import collections, ctypes, gc, os, sys, threading, time, types
step = getattr(ctypes.CDLL(None), "profd_step", lambda: None)
class CompilationMetrics:
    end_time_us = None
    def __init__(self, **fields):
        self.__dict__.update(fields) if fields.get("is_forward") else [setattr(self, *field) for field in fields.items()]
utils = types.ModuleType("torch._dynamo.utils")
utils.CompilationMetrics, utils._compilation_metrics = CompilationMetrics, collections.deque(maxlen=64)
sys.modules["torch._dynamo.utils"] = utils
listed = utils._compilation_metrics
now = lambda: time.time_ns() // 1000
def entry(i, **more):
    end = now()
    return CompilationMetrics(**{**dict(compile_id=f"{i}/0", co_name="forward", co_filename="net.py", co_firstlineno=7, start_time_us=end - 1,
                                        end_time_us=end, is_forward=i % 2 == 0), **more})
recorded = range(FIRST, FIRST + STEPS)
def between(): pass
def ends(): pass
for _ in range(3):
    step()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
""".replace("FIRST", str(FIRST)).replace("STEPS", str(STEPS))
TAIL = """
for i in range(4, 60):
    time.sleep(0.002)
    work(i)
    step()
while os.path.exists(os.environ.get("STAY", "")):
    time.sleep(0.01)
ends()
print("done", len(listed))
"""
CHILD = """
    if i in recorded:
        child = os.fork()
        if not child:
            listed.clear()
            gc.collect()
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
"""
BESIDE = """
going = True
def run():
    while going:
        beside()
thread = threading.Thread(target=run)
thread.start()
def ends():
    global going
    going = False
    thread.join()
    listed.clear()
"""

# {name: (what the job does, its work in step i, compilations that are (recorded, lost): None where nobody can know)}
JOBS = {
    "few": ("lists some compilations in each step", """
def work(i):
    if i in recorded:
        listed.extend(entry(i) for _ in range(3))
""", (15, 0)),
    "many": ("lists more than the list holds", """
def work(i):
    if i in recorded:
        listed.extend(entry(i) for _ in range(40))
""", (64, 136)),
    "forks": ("lists some, and forks children that change the list and collect garbage", """
def work(i):
    if i in recorded:
        listed.append(entry(i))
""" + CHILD, (5, 0)),
    "broken": ("lists what is none among them", """
broken = [object(), None, entry(1, end_time_us=1), entry(1, start_time_us=-5), entry(1, end_time_us=2**80), entry(1, start_time_us="now")]
def work(i):
    if i in recorded:
        listed.extend([entry(i), broken[i % len(broken)]])
""", (0, 10)),
    "odd": ("lists some whose texts and numbers are none, or long", """
odd = [dict(co_name=7, co_filename=None), dict(co_name="x" * 100000, co_filename="\\u00fc" * 5000), dict(co_firstlineno="7", is_forward=None),
       dict(recompile_reason=[1], fail_type=b"x"), dict(compile_id=None, **{f"a{i}": i for i in range(3000)})]
def work(i):
    if i in recorded:
        listed.append(entry(i, **odd[i % 5]))
""", (5, 0)),
    "elsewhere": ("puts other lists, and what is none, in the list's place, and takes it away", """
places = [collections.deque(maxlen=64), [], None, 7, types.SimpleNamespace(), "text", collections.deque([None] * 5000)]
def work(i):
    utils._compilation_metrics = places[i % 7]
    if i % 3 == 0:
        sys.modules["torch._dynamo.utils"] = [None, utils, types.ModuleType("other"), "text"][i // 3 % 4]
    if i % 11 == 0:
        del sys.modules["torch._dynamo.utils"]
        sys.modules["torch._dynamo.utils"] = utils
""", None),
    "beside": ("has a thread that fills and empties the list all the time, and moves sys.modules", """
def beside():
    for i in range(100):
        listed.append(entry(i))
        sys.modules[f"made_{i}"] = utils
    for i in range(100):
        del sys.modules[f"made_{i}"]
    for _ in range(30):
        listed.pop()
    listed.clear()
def work(i): pass
""" + BESIDE, None),
    "exits": ("exits in the midst of the recording", """
def work(i):
    listed.append(entry(i))
    if i == recorded[2]:
        sys.exit(3)
""", None),
    "dies": ("is killed in the midst of the recording", """
def work(i):
    listed.append(entry(i))
    if i == recorded[2]:
        os.kill(os.getpid(), 9)
""", None),
    "interpreters": ("makes and ends other interpreters, each of which collects garbage", """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
def work(i):
    one = interpreters.create()
    interpreters.run_string(one, "import gc; gc.collect()")
    interpreters.destroy(one)
    gc.collect()
""", None),
    "collects": ("collects garbage on several threads at a time", """
def collect():
    for _ in range(10):
        cycle = []
        cycle.append(cycle)
        gc.collect(0)
gc.disable()
def work(i):
    threads = [threading.Thread(target=collect) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
""", (0, 0)),
}

ENDS = "exits", "dies"


def told(profd, capture):
    with sqlite3.connect(f"file:{profd.file(capture)}?mode=ro", uri=True) as db:
        compiled = [row[0] for row in db.execute("SELECT s.number FROM compile_events c JOIN steps s ON s.step = c.step")]
        lost, = db.execute("SELECT coalesce(sum(count), 0) FROM losses WHERE loss = 'unlisted'").fetchone()
        collections = [counts if known else (None,) * 3 for known, *counts in db.execute(
            "SELECT collections_known, collections_0, collections_1, collections_2 FROM steps ORDER BY start")]
    return compiled, lost, collections


@pytest.mark.parametrize("name", JOBS)
def test_interpreter(row, profd, tmp_path, name):
    what, text, wanted = JOBS[name]
    row.does(what)
    go = tmp_path / "go"
    go.touch()

    def during(job):
        profd.wait_steps(job.pid, 2)
        client = profd.follow("--pid", job.pid, "--at-step", FIRST, "--steps", STEPS, "--timeout", "60s")
        wait_for(lambda: profd.process(job.pid)["state"] == "warmup" or client.poll() is not None, 60, "what records to be on")
        go.touch()
        out, err = client.communicate(timeout=90)
        assert client.returncode == (5 if name in ENDS else 0), (out, err)

    row.twice(profd, [sys.executable, "-c", HEAD + text + TAIL, go], during, same_job, before=go.unlink)
    capture = profd.json("captures")["captures"][0]["capture_id"]
    compiled, lost, collections = told(profd, capture)
    assert len(collections) == STEPS or name in ENDS
    if wanted is None:
        row.nothing_recorded("what was there, nobody knows")
    else:
        row.counts(len(compiled), lost, sum(wanted))
        assert (len(compiled), lost) == wanted and set(compiled) <= set(range(FIRST, FIRST + STEPS)), (compiled, lost)
    if name in ENDS:
        said = profd.run("show", capture, "--by", "compiles")
        assert not compiled and "not recorded: the process ended before torch's list" in " ".join((said.stdout + said.stderr).split()), said
    if name == "collects":
        assert collections == [[40, 0, 0]] * STEPS
    if name == "interpreters":
        assert all(counts[2] is None or counts[2] >= 1 for counts in collections), collections
