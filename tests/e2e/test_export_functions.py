"""python_function events of the chrome export: calls of Python as the stacks of operators show them, and with --modules those of nn.Modules;
against the capture's own rows, torch.profiler's events of the same steps, and what TensorBoard's plugin makes of both."""
import collections
import json
import os
import re
import sqlite3

import gpu
import pytest

from conftest import wait_for
from test_export_gpu_readers import export
from test_modules import DEVICE, counts_calls, record
from test_operator_stacks import stacks
from test_round_trip import ask

PACKAGES = re.compile(r".*/(site-packages|dist-packages|lib/python3\.\d+)/")
HOST = ("python_function", "cpu_op", "user_annotation")
# torch's clock, and the end of an event that is rounded.
CLOCK_US, DIGIT_US = 50, 0.002

# Every module once, so that each has one path and one number; a line that calls twice; a thread; ranges that functions hold and are held by.
TWICE = """
import os, sys, threading, time, torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function
torch.set_num_threads(1)
folder = sys.argv[1]

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.body = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
    def forward(self, x):
        return x + self.body(self.norm(x))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(8, 4)
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)

net = Net()
again = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)

def helper(x):
    with record_function("within"):
        return torch.sin(x)

def step():
    optimizer.zero_grad()
    with record_function("around"):
        x = helper(net(torch.ones(4, 8)))
    loss = again(again(x)).sum() + helper(x).sum()
    loss.backward()
    optimizer.step()

def main():
    profiler = None
    while True:
        step()
        if profiler is None and os.path.exists(folder + "/begin"):
            profiler = profile(activities=[ProfilerActivity.CPU], with_stack=True, with_modules=True)
            profiler.start()
            open(folder + "/begun", "w").close()
        if profiler and os.path.exists(folder + "/end"):
            profiler.stop()
            profiler.export_chrome_trace(folder + "/theirs.json")
            os.rename(folder + "/theirs.json", folder + "/torch.json")
            return time.sleep(1000)

main()
"""


def read(path):
    with open(path) as file:
        return json.load(file)


def calls_of(trace):
    """{Python id: event} of a trace; each has its `end`."""
    events = [e for e in trace["traceEvents"] if e.get("cat") == "python_function"]
    for event in events:
        event["end"] = event["ts"] + event["dur"]
    found = {event["args"]["Python id"]: event for event in events}
    assert len(found) == len(events)
    return found


def above(calls, event):
    """Names of the calls around, the innermost, itself, first."""
    names = []
    while event:
        names.append(event["name"])
        event = calls.get(event["args"].get("Python parent id"))
    return names


def nested(trace):
    """[(event, the call of Python around it)], where all nest; what does not is an error."""
    found = []
    tracks = collections.defaultdict(list)
    for order, event in enumerate(e for e in trace["traceEvents"] if e.get("ph") == "X" and e["cat"] in HOST):
        tracks[event["tid"]].append((event["ts"], -event["dur"], order, event))
    for events in tracks.values():
        opened = []
        for start, length, _, event in sorted(events):
            while opened and opened[-1]["ts"] + opened[-1]["dur"] <= start + DIGIT_US / 2:
                opened.pop()
            around = opened[-1] if opened else None
            assert not around or start - length <= around["ts"] + around["dur"] + DIGIT_US, (event, around)
            found.append((event, next((e for e in reversed(opened) if e["cat"] == "python_function"), None)))
            opened.append(event)
    return found


def test_tree(profd, torch, tmp_path):
    capture = record(profd, torch, tmp_path)
    trace = read(export(profd.file(capture), tmp_path / "trace.json"))
    assert trace["with_stack"] == 1 and trace["profdFunctionsLeftOut"] == 0
    calls = calls_of(trace)
    # A call lies in the one that made it, and says where that was.
    for event in calls.values():
        caller = calls.get(event["args"].get("Python parent id"))
        assert bool(caller) == ("CallFrom" in event["args"]) == (not event["name"].endswith(": <module>")), event
        assert not caller or caller["ts"] <= event["ts"] and event["end"] <= caller["end"] + DIGIT_US, (event, caller)
    # Each operator lies in the calls that its stack has, and in no others.
    known, expected, checked = stacks(profd, capture), {}, 0
    with sqlite3.connect(f"file:{profd.file(capture)}?mode=ro", uri=True) as db:
        for number, stack, backward in db.execute("SELECT id, stack, backward FROM operators"):
            expected[number] = None if backward else [
                f"{PACKAGES.sub('', file)}({line}): {function.rsplit('.', 1)[-1]}" for function, file, _, line in known.get(stack, [])]
    for event, around in nested(trace):
        names = expected.get(event["args"].get("External id")) if event["cat"] == "cpu_op" else None
        if names:
            found = above(calls, around)
            assert len(found) == len(names), (event, found, names)
            assert all(a == b or a.startswith("nn.Module: ") and b.endswith("_wrapped_call_impl") for a, b in zip(found, names)), (found, names)
            checked += 1
    assert checked > 100, checked
    # Modules: as often as `show --by modules` says, on the same paths, in each step anew.
    rows = {row["path"]: row for row in profd.show(capture)["modules"]}
    assert collections.Counter(e["args"]["Module"] for e in calls.values() if "Module" in e["args"]) == {
        path: row["calls"] if counts_calls(torch) else 4 for path, row in rows.items()}
    for event in calls.values():
        if "Module" in event["args"]:
            number = event["args"]["Python module id"]
            assert event["name"] == f"nn.Module: {rows[event['args']['Module']]['class']}_{number}", event


def plain(name):
    """A name as both have it: torch writes paths from the folders of sys.path on. Of calls that stood when it began it has another line."""
    name = name.rsplit("/", 1)[-1]
    return name if not name.endswith((": <module>", ": main")) else name[name.index(")"):]


def absolute(trace):
    """The trace's calls, in us of the wall clock since a common time."""
    calls = calls_of(trace)
    base = trace["baseTimeNanoseconds"] / 1000
    for event in calls.values():
        event["ts"] = (base + event["ts"]) % 10**12
        event["end"] = (base + event["end"]) % 10**12
    return calls


@pytest.fixture
def both(profd, torch_newest, tmp_path):
    """(capture, torch's trace, ours) of the same steps, and whether calls of modules are told apart."""
    script = tmp_path / "twice.py"
    script.write_text(TWICE)
    job = profd.job(torch_newest, script, tmp_path)
    profd.wait_steps(job.pid, 5)
    (tmp_path / "begin").touch()
    wait_for((tmp_path / "begun").exists, 60, "torch.profiler's beginning")
    capture = profd.trigger(job.pid, "--steps", 3, "--modules")["capture_id"]
    (tmp_path / "end").touch()
    wait_for((tmp_path / "torch.json").exists, 120, "torch.profiler's trace")
    return capture, tmp_path / "torch.json", export(profd.file(capture), tmp_path / "ours.json"), counts_calls(torch_newest)


def test_against_torch(profd, both, tmp_path):
    capture, *paths, counted = both
    theirs, ours = (absolute(read(path)) for path in paths)
    by_name = collections.defaultdict(list)
    for event in theirs.values():
        by_name[plain(event["name"])].append(event)
    modules = collections.Counter()
    for event in ours.values():
        module = event["name"].startswith("nn.Module")
        around = [e for e in by_name[plain(event["name"])] if e["ts"] <= event["ts"] + CLOCK_US and event["end"] <= e["end"] + CLOCK_US]
        modules[event["name"]] += module
        # Whatever we call one call lies in one call of torch's, of the same name and number, and with the same callers.
        own = list(map(plain, above(ours, event)))
        # That is called twice by one line.
        if not counted and "nn.Module: Linear_7" in own:
            continue
        assert around, (event, [(e["ts"], e["end"]) for e in by_name[plain(event["name"])]])
        # torch 2.8 with CPython 3.9 has a function of Python besides as if it were one of C.
        chains = [[plain(name) for name in above(theirs, e) if not name.startswith("<function ")] for e in around]
        assert own in chains, (own, chains)
    rows = {row["path"]: row for row in profd.show(capture)["modules"]}
    assert not counted or sum(modules.values()) == sum(row["calls"] for row in rows.values())
    assert {name: n for name, n in modules.items() if n} == {
        "nn.Module: Net_0": 3, "nn.Module: Linear_7": 6 if counted else 3, "nn.Module: Linear_6": 3,
        **{f"nn.Module: {name}_{i}": 3 for name in ("Block", "LayerNorm", "Sequential", "GELU") for i in range(3)},
        **{f"nn.Module: Linear_{i}": 3 for i in range(6)}}, modules


def flat(rows, path=()):
    for row in rows:
        yield (*path, row["name"]), row
        yield from flat(row["children"], (*path, row["name"]))


def test_tensorboard(profd, both, tmp_path):
    capture, torchs, _, counted = both
    tensorboard = os.environ.get("PROFD_TENSORBOARD") or pytest.skip("no TensorBoard here (PROFD_TENSORBOARD)")
    path = export(profd.file(capture), tmp_path / "again.json.gz", "--format", "tensorboard")
    theirs, ours = (dict(flat(answer["modules"])) for answer in ask(tensorboard, "tensorboard_answers.py", torchs, path))
    steps = 3
    assert ours and list(ours) == list(theirs), (list(ours), list(theirs))
    shown = {row["path"]: row for row in profd.show(capture)["modules"]}
    for names, row in ours.items():
        # torch recorded some more steps; the same calls in each.
        if names == ("Linear_7",):
            assert row["calls"] == (6 if counted else 3), row
            continue
        assert row["calls"] == steps, row
        assert theirs[names]["calls"] * steps == row["calls"] * theirs["Net_0",]["calls"], (names, row)
        assert theirs[names]["operators"] * steps == row["operators"] * theirs["Net_0",]["calls"], (names, row, theirs[names])
    net, own = shown["Net"], ours["Net_0",]
    # From its first to its last operator: not less than these took, and not more than the steps, of which it is a part. Torch's calls
    # say nothing of how long: most of them were in steps that profd did not record.
    walls = profd.show(capture)["totals"]["wall_ns"]
    assert net["forward_ns"] / 1000 <= own["host_us"] + 1 and own["host_us"] * 1000 < walls, (own, walls)
    for path, row in shown.items():
        if path.startswith("blocks.") and path.count(".") == 1:
            one = ours["Net_0", f"Block_{path[-1]}"]
            assert row["forward_ns"] / 1000 <= one["host_us"] + 1 and row["calls"] in (one["calls"], None), (path, row, one)


@pytest.mark.wide
def test_tensorboard_device(profd, torch_newest, tmp_path):
    """The Module view has the device's time that a module's forward launched."""
    tensorboard = os.environ.get("PROFD_TENSORBOARD") or pytest.skip("no TensorBoard here (PROFD_TENSORBOARD)")
    capture = record(profd, torch_newest, tmp_path, DEVICE, env=gpu.environment(gpu.NEWEST))
    path = export(profd.file(capture), tmp_path / "trace.json.gz", "--format", "tensorboard")
    rows = dict(flat(ask(tensorboard, "tensorboard_answers.py", path)[0]["modules"]))
    shown = {row["path"]: row for row in profd.show(capture)["modules"]}
    expected = {("Net_0",): "Net", ("Net_0", "Leaf_0"): "first", ("Net_0", "Leaf_1"): "second", ("Net_0", "ReLU_0"): "idle"}
    assert {names: (row["calls"], round(row["device_us"] * 1000)) for names, row in rows.items()} == {
        names: (4, shown[path]["device_forward_ns"]) for names, path in expected.items()}
