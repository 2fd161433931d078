"""What torch's allocators gave out and took back (trigger --memory), beside torch's own profiler over the very same steps, and beside
sums that are made another way; that the job does not notice."""
import collections
import json
import os
import sqlite3

import pytest

from test_round_trip import ask, export
from test_torch_capture import ACTIVE, CYCLE, database, window_starts
from training import Training

MODELS = ["lstm", pytest.param("cnn", marks=pytest.mark.wide), pytest.param("transformer", marks=pytest.mark.wide)]
WINDOW = 6


def told(lines, window):
    """The workload's `memory` line: {name: (self, total)}."""
    words = next(line for line in lines if line.startswith(f"memory {window} ")).split()[2:]
    rows = (word.rsplit("=", 1) for word in words)
    return {name: tuple(map(int, figures.split(":"))) for name, figures in rows}


def of_window(lines, window):
    """torch 2.4 adds window to window, and its counts show it."""
    now, before = told(lines, window), told(lines, window - 1)
    counts = next(line for line in lines if line.startswith(f"window {window} ")).split()
    if f"Optimizer.step#AdamW.step={ACTIVE}" in counts:
        return now
    return {name: tuple(a - b for a, b in zip(now[name], before.get(name, (0, 0)))) for name in now}


def in_trace(file):
    """The [memory] events of a trace of torch's: (bytes with their sign, address)."""
    events = [event for event in json.loads(file.read_text())["traceEvents"] if event.get("name") == "[memory]"]
    return [(event["args"]["Bytes"], event["args"]["Addr"]) for event in sorted(events, key=lambda event: event["ts"])]


class Recorded:
    """The records of a capture, and what they come to when nothing of profd adds them up."""

    def __init__(self, profd, capture):
        with database(profd, capture) as db:
            self.events = [(bytes_ if operation == 1 else -bytes_, address, parent) for operation, bytes_, address, parent, known
                           in db.execute("SELECT operation, bytes, address, parent, known FROM framework_allocations "
                                         "ORDER BY time, rowid") if known & 1]
            self.unknown = db.execute("SELECT count(*) FROM framework_allocations WHERE NOT known & 1").fetchone()[0]
            self.operators = {id: (parent, name) for id, parent, name in db.execute(
                "SELECT o.id, o.parent, s.text FROM operators o JOIN strings s ON s.id = o.name")}
            self.ranges = dict(db.execute("SELECT id, parent FROM ranges"))
        self.children = collections.Counter(parent for parent, _ in self.operators.values())
        self.children.update(self.ranges.values())

    def is_folded(self, id):
        """Is it one call with its parent, as torch's tables have it?"""
        parent, name = self.operators[id]
        return parent in self.operators and self.operators[parent][1] == name and self.children[parent] == 1

    def sums(self, events):
        """{name: [self, total]} of operators."""
        found = collections.defaultdict(lambda: [0, 0])
        for bytes_, _, at in events:
            innermost = True
            while at:
                if at in self.operators:
                    name = self.operators[at][1].replace(" ", "_")
                    found[name][0] += bytes_ * innermost
                    found[name][1] += bytes_ * (not self.is_folded(at))
                    innermost = False
                at = self.operators[at][0] if at in self.operators else self.ranges.get(at)
        return {name: tuple(sums) for name, sums in found.items()}


def returned_unseen(events):
    """Blocks given back that had not been taken before: (bytes, address)."""
    held, found = set(), set()
    for bytes_, address in events:
        if bytes_ > 0:
            held.add(address)
        elif address in held:
            held.discard(address)
        else:
            found.add((bytes_, address))
    return found


def common(ours, theirs):
    """Those of our events that torch's trace has too. It begins and ends a little later than our steps do, and knows of few blocks that
    were taken before."""
    taken = [i for i, event in enumerate(ours) if event[0] > 0]
    expected = [event for event in theirs if event[0] > 0]
    start = next((k for k in range(60) if [ours[i][:2] for i in taken[k:]] == expected[:len(taken) - k]), None)
    if start is None:
        first = next((i for i, (at, theirs_at) in enumerate(zip(taken, expected)) if ours[at][:2] != theirs_at), "none")
        pytest.fail(f"{len(taken)} blocks of ours, {len(expected)} of torch's; the first that differs: {first}\n"
                    f"{[ours[i][:2] for i in taken[:80]]}\n{expected[:80]}")
    assert len(expected) - (len(taken) - start) < 50, "there is not more behind the last step"
    older, found, held = returned_unseen(theirs), [], set()
    for i, event in enumerate(ours):
        bytes_, address, _ = event
        if bytes_ > 0 and i >= taken[start]:
            held.add(address)
            found.append(event)
        elif bytes_ < 0 and address in held:
            held.discard(address)
            found.append(event)
        elif event[:2] in older:
            older.discard(event[:2])
            found.append(event)
    return found


def capture_window(profd, python, model):
    """Trains with windows of the job's own profiler; what a capture of the steps of one of them has, its trace, and what the job said."""
    first = window_starts(WINDOW)
    job = Training(profd, python, "--model", model, "--steps", first + 3 * CYCLE, "--pad-ms", 10, "--profile", ACTIVE, "--memory",
                   "--trace", profd.folder, "--trace-windows", WINDOW, "--hold-after", 3).go()
    profd.wait_steps(job.pid, 3)
    capture = job.capture_held("--at-step", first, "--warmup", first - 8, "--steps", ACTIVE, "--memory")
    assert capture["status"] == "complete" and capture["lost"] == 0, capture
    _, lines = job.finish()
    recorded = Recorded(profd, capture)
    assert recorded.unknown == 0 and len(recorded.events) > 500
    return capture, recorded, in_trace(profd.folder / f"window-{WINDOW}.json"), lines


@pytest.mark.parametrize("model", MODELS)
def test_bytes_are_those_of_torchs_profiler(profd, torch_newest, model):
    """In a capture, and in the profiler's own trace, imported."""
    capture, recorded, trace, lines = capture_window(profd, torch_newest, model)
    check_bytes(profd, capture, recorded, trace, lines)
    check_imported(profd, trace, lines)


def check_bytes(profd, capture, recorded, trace, lines):
    """Per operator, self and total; each single block with its address; forward, backward and AdamW."""
    same = common(recorded.events, trace)
    assert len(same) > len(recorded.events) * 0.9
    expected = {name: sums for name, sums in of_window(lines, WINDOW).items() if any(sums)}
    ours = {name: sums for name, sums in recorded.sums(same).items() if any(sums)}
    assert ours == {name: sums for name, sums in expected.items() if name in ours}
    assert {name for name in expected if name not in ours and not name.startswith(("ProfilerStep", "Optimizer."))} <= {"[memory]"}
    rows = {row["name"].replace(" ", "_"): (row["self_cpu_bytes"], row["cpu_bytes"])
            for row in profd.show(capture["capture_id"])["operator_memory"] if row["name"][0] != "("}
    whole = recorded.sums(recorded.events)
    assert {name: sums for name, sums in rows.items() if any(sums)} == {name: sums for name, sums in whole.items() if any(sums)}


def check_imported(profd, trace, lines):
    """What torch.profiler says of its own trace: bytes by operator, self and total."""
    file = profd.folder / f"window-{WINDOW}.db"
    profd.run("import", profd.folder / f"window-{WINDOW}.json", "--output", file)
    shown = profd.json("show", file)
    expected = {name: sums for name, sums in of_window(lines, WINDOW).items() if any(sums)}
    ours = {row["name"].replace(" ", "_"): (row["self_cpu_bytes"], row["cpu_bytes"]) for row in shown["operator_memory"] if row["name"]}
    assert {name: sums for name, sums in ours.items() if any(sums) and name[0] != "("} == {
        name: sums for name, sums in expected.items() if name != "[memory]" and not name.startswith(("ProfilerStep", "Optimizer.", "iteration"))}
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as db:
        blocks = list(db.execute("SELECT iif(operation = 1, bytes, -bytes), address FROM framework_allocations ORDER BY time, rowid"))
    assert blocks == trace and len(blocks) > 500
    # And back: TensorBoard's plugin finds in the export what it finds in torch's own trace.
    tensorboard = os.environ.get("PROFD_TENSORBOARD") or pytest.skip("no TensorBoard here (PROFD_TENSORBOARD)")
    theirs, again = ask(tensorboard, "tensorboard_answers.py", profd.folder / f"window-{WINDOW}.json",
                        export(file, profd.folder / "again.json.gz", "--format", "tensorboard"))
    assert again["memory"] == theirs["memory"] and len(theirs["memory"]["CPU"]) > 10
    assert in_trace(export(file, profd.folder / "again.json")) == trace


@pytest.mark.wide
def test_blocks_are_those_of_an_older_torch(profd, torch):
    """torch 2.4 gives blocks to operators by microseconds, so a block may stand with the caller there: its blocks are compared."""
    _, recorded, trace, _ = capture_window(profd, torch, "transformer")
    ours = collections.Counter(bytes_ for bytes_, _, _ in recorded.events if bytes_ > 0)
    theirs = collections.Counter(bytes_ for bytes_, _ in trace if bytes_ > 0)
    # Their window ends behind our last step.
    assert not ours - theirs and (theirs - ours).total() < 50 < ours.total()


PLANTED = """
import os, sys, threading, time, torch

kept = []

def leaky():
    kept.append(torch.ones(5000))

def greedy():
    return (torch.zeros(1000, 1000) + 1).sum()

def churn():
    for i in range(20):
        torch.ones(i + 1) * 2

torch.set_num_threads(1)
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
while not os.path.exists(sys.argv[1]):
    step += 1
    optimizer.zero_grad()
    model(torch.ones(4, 16)).sum().backward()
    leaky()
    greedy()
    threads = [threading.Thread(target=churn) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if step % 4 == 0:
        child = os.fork()
        if not child:
            churn()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    optimizer.step()
    time.sleep(0.01)
"""


def planted(profd, python):
    """It steps until there is the file profd.folder / "over"."""
    script = profd.folder / "planted.py"
    script.write_text(PLANTED)
    job = profd.job(python, script, profd.folder / "over")
    profd.wait_torch(job.pid)
    profd.wait_steps(job.pid, 3)
    return job


def test_planted_peak_and_leak_are_named(profd, torch):
    """By operator and line; of a job whose threads come and go, and that forks children which allocate."""
    job = planted(profd, torch)
    # One sample a second: on a full machine those of threads that come and go are torn, and count as lost.
    capture = profd.trigger(job.pid, "--steps", 8, "--memory", "--stacks=operators", "--stacks-rate", 1)
    assert capture["status"] == "complete" and capture["lost"] == 0, capture
    shown = profd.show(capture["capture_id"])
    leak = shown["memory_leaks"][0]
    assert (leak["function"], leak["steps"], leak["of_steps"], leak["blocks"], leak["step_bytes"]) == ("leaky", 6, 6, 6, 20000), leak
    assert leak["device"] == "cpu" and leak["file"].endswith("planted.py") and leak["line"] == PLANTED.split("\n").index(
        "    kept.append(torch.ones(5000))") + 1
    peak = shown["memory_peak"]
    greedy = [row for row in peak if row["function"] == "greedy"]
    assert peak[0] in greedy and sum(row["bytes"] for row in greedy) >= 8_000_000, peak
    steps = shown["memory_steps"]
    assert [row["step"] for row in steps] == list(range(1, 9)) and not any(row["absolute"] for row in steps)
    # What leaks is what the level grows by, from step to step.
    assert {b["end_bytes"] - a["end_bytes"] for a, b in zip(steps, steps[1:])} == {20000}
    assert all(row["peak_bytes"] >= 8_000_000 for row in steps)
    again = profd.show(profd.trigger(job.pid, "--steps", 2)["capture_id"])
    assert again["memory_steps"] is None and again["operator_memory"] is None
    assert job.poll() is None


def test_a_job_ends_while_its_memory_is_recorded(profd, torch):
    job = planted(profd, torch)
    client = profd.follow("--pid", job.pid, "--steps", 100000, "--memory")
    profd.wait_recorded(job.pid, 5)
    (profd.folder / "over").touch()
    out, err = client.communicate(timeout=120)
    assert client.returncode == 5, err
    capture, = json.loads(out)["captures"]
    assert job.wait(60) == 0, job.stderr.read()
    assert capture["status"] == "incomplete" and capture["steps_recorded"] > 3
    assert profd.show(capture["capture_id"])["memory_steps"]


@pytest.mark.core
def test_the_job_computes_the_same(profd, torch):
    """Losses, weights and the random state, to the last bit, under captures."""
    job = Training(profd, torch, "--model", "transformer", "--steps", 0, "--pad-ms", 20).go()
    profd.wait_steps(job.pid, 2)
    for _ in range(3):
        assert profd.trigger(job.pid, "--steps", 2, "--memory")["status"] == "complete"
    job.job.terminate()
    _, watched = job.finish()
    # The captures take as many steps as they do; then come as many without the agent.
    steps = len(watched) - 2
    _, bare = Training(profd, torch, "--model", "transformer", "--steps", steps, agent=False).go(watched=False).finish()
    assert watched == bare and steps >= 8
