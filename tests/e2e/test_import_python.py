"""`profd import` of traces with calls of Python: each operator has the stack and the module that it was called in, as the trace has them, read here without
a line of profd's; and modules are those of TensorBoard's view."""
import collections
import contextlib
import itertools
import json
import os
import re
import sqlite3
import subprocess

import pytest

import test_row_lines
from test_import import decimal_ns, run, show
from test_round_trip import ask

TRAIN = """
import sys
import torch
from torch.profiler import ProfilerActivity, profile, schedule


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mlp = torch.nn.LayerNorm(8), torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8))

    def forward(self, x):
        return helper(x) + self.mlp(self.norm(x))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.out = torch.nn.ModuleList(Block() for _ in range(3)), torch.nn.Linear(8, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.out(self.out(x).expand(-1, 8))


def helper(x):
    return torch.relu(
        torch.neg(x))


def train(net, optimizer, profiler):
    for _ in range(5):
        net(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        profiler.step()


net = Net()
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=3), with_stack=True, with_modules=True) as profiler:
    train(net, torch.optim.SGD(net.parameters(), lr=0.1), profiler)
profiler.export_chrome_trace(sys.argv[1])
"""
NODE_AROUND = "autograd::engine::evaluate_function: "


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """(the trace's events, its path, the capture)"""
    python = os.environ.get("PROFD_TORCH_NEWEST") or pytest.skip("no torch here (PROFD_TORCH_NEWEST)")
    folder = tmp_path_factory.mktemp("traced")
    (folder / "train.py").write_text(TRAIN)
    subprocess.run([python, folder / "train.py", folder / "trace.json"], timeout=300, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    run("import", folder / "trace.json", "--output", folder / "trace.db")
    events = json.loads((folder / "trace.json").read_text(), parse_float=str)["traceEvents"]
    return [e for e in events if e["ph"] == "X"], folder / "trace.json", folder / "trace.db"


def show_json(path):
    return json.loads(run("show", path, "--by", "breakdown", "--format", "json").stdout)


def stacks_of(events):
    """Of each operator: (name, start, chain); chain: (name of the call, line at which it called the next one), the outermost first."""
    spans = []
    for order, event in enumerate(events):
        if event["cat"] in ("python_function", "cpu_op"):
            start = decimal_ns(event["ts"])
            spans.append((event["tid"], start, event["cat"] == "cpu_op", -decimal_ns(event["dur"]), order, event))
    open_calls, thread = [], None
    for tid, start, is_operator, length, _, event in sorted(spans, key=lambda span: span[:5]):
        open_calls = [call for call in open_calls if call[0] > start] if tid == thread else []
        thread = tid
        if not is_operator:
            open_calls.append((start - length, event))
            continue
        chain = []
        for (_, call), below in itertools.zip_longest(open_calls, open_calls[1:]):
            file, _, line = (below[1]["args"].get("CallFrom", "") if below else "").rpartition(":")
            of_it = call["name"].startswith("nn.Module: ") or call["name"].startswith(file + "(")
            if not call["name"].startswith("<built-in "):
                chain.append((call["name"], int(line) if line and of_it else 0))
        yield event, start, tuple(chain)


def of_capture(path):
    """By the operator's name and start in ns of the capture: (chain as above, id, row)."""
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.row_factory = sqlite3.Row
        text = dict(file.execute("SELECT id, text FROM strings").fetchall())
        stacks = {row["id"]: row for row in file.execute("SELECT * FROM stacks")}
        found = []
        for row in file.execute("SELECT * FROM operators ORDER BY start"):
            chain, at = [], row["stack"]
            while at:
                frame = stacks[at]
                name = text[frame["function"]]
                chain.append((name if frame["class"] else f"{text[frame['file']]}({frame['first_line']}): {name}", frame["line"]))
                at = frame["parent"]
            found.append((text[row["name"]], dict(row), tuple(reversed(chain))))
        return found


def test_each_operators_stack(traced):
    """Forward: exactly what the trace has around it. Backward: what the forward of its node has."""
    events, _, path = traced
    theirs = sorted(stacks_of(events), key=lambda entry: entry[1])
    ours = of_capture(path)
    assert len(ours) == len(theirs) > 1000
    first = theirs[0][1] - min(row["start"] for _, row, _ in ours)
    by_place = {(name, row["start"] + first): (row, chain) for name, row, chain in ours}
    forward, nodes, checked = {}, {}, collections.Counter()
    for event, start, chain in theirs:
        row, own = by_place[event["name"], start]
        is_node = event["args"].get("Fwd thread id", 0) and not event["name"].startswith(NODE_AROUND)
        assert (row["backward"] == row["id"]) == bool(is_node), event
        if row["backward"] is None:
            assert own == chain, (event, own, chain)
            checked["forward"] += 1
            checked["line"] += bool(chain and chain[-1][1])
            if event["args"].get("Fwd thread id") == 0 and int(event["args"].get("Sequence number", -1)) >= 0:
                forward[event["args"]["Sequence number"]] = own
        elif is_node:
            nodes[row["id"]] = own = forward.get(event["args"]["Sequence number"], ())
            assert by_place[event["name"], start][1] == own, event
            checked["backward"] += bool(own)
        else:
            assert own == nodes[row["backward"]], event
    assert min(checked[kind] for kind in ("forward", "line", "backward")) > 50, checked


def flat(rows, path=()):
    for row in rows:
        yield (*path, row["name"]), row
        yield from flat(row["children"], (*path, row["name"]))


@pytest.mark.wide
def test_modules_are_tensorboards(traced):
    tensorboard = os.environ.get("PROFD_TENSORBOARD") or pytest.skip("no TensorBoard here (PROFD_TENSORBOARD)")
    _, trace, path = traced
    theirs = dict(flat(ask(tensorboard, "tensorboard_answers.py", trace)[0]["modules"]))
    rows = {("Net_0", *row["path"].split(".")) if row["depth"] != "0" else (row["path"] + "_0",): row for row in show(path, "modules")}
    assert list(rows) == list(theirs) and len(rows) == 20, (list(rows), list(theirs))
    for names, row in rows.items():
        assert int(row["calls"]) == theirs[names]["calls"], names
        # TensorBoard counts those of the module alone.
        assert int(row["operators"]) == sum(of["operators"] for other, of in theirs.items() if other[:len(names)] == names), names
        assert row["class"] == re.sub(r"_\d+$", "", names[-1])
        assert 0 < int(row["forward_ns"]) <= theirs[names]["host_us"] * 1000, names
        assert int(row["backward_ns"]) > 0, names
    assert rows["Net_0", "Linear_6"]["calls"] == "6"


def test_lines_and_functions(traced):
    """The script's own lines are told from torch's, and from the standard library's, though all stand there without a folder."""
    lines = {(row["file"], row["line"], row["function"]): row for row in show(traced[2], "lines")}
    source = TRAIN.splitlines()
    at = {word: source.index(next(line for line in source if word in line)) + 1 for word in ("torch.relu(", "torch.neg(x)", "torch.ones(4", "optimizer.step()")}
    assert all(file == "train.py" for file, _, _ in lines), list(lines)
    assert int(lines["train.py", str(at["torch.neg(x)"]), "helper"]["calls"]) == 9
    assert int(lines["train.py", str(at["torch.relu("]), "helper"]["calls"]) == 9
    assert all(("train.py", str(at[word]), "train") in lines for word in ("torch.ones(4", "optimizer.step()")), list(lines)
    assert lines["train.py", "", "forward"]["calls"], "x + y makes no call that would tell the line"
    functions = {row["function"]: row for row in show(traced[2], "functions")}
    assert int(functions["nn.Module: Block_1"]["calls"]) * 3 == sum(int(row["calls"]) for name, row in functions.items() if "Module: Block_" in name)
    table = run("show", traced[2], "--by", "lines").stdout
    assert ":0" not in table and "train.py " in table


def test_rows_of_the_breakdown_name_their_line(traced):
    found = test_row_lines.compare(show_json(traced[2])["breakdown"], test_row_lines.Truth(traced[2]))
    assert any(line and line["file"].endswith("train.py") for line in found.values()), found


@pytest.mark.parametrize("threads, known", [(3, True), (2500, False)])
def test_lines_of_many_threads_beside_a_device_that_is_often_idle(tmp_path, threads, known):
    """What takes each thread for each piece of the device's time ends, and says that it does not know."""
    end = 40000
    events = [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 5, "tid": 5, "ts": 0, "dur": end}]
    for tid in range(5, 5 + threads):
        events.append({"ph": "X", "cat": "python_function", "name": f"/home/a/train.py({tid}): f", "pid": 5, "tid": tid, "ts": 1, "dur": end - 2,
                       "args": {"Python id": tid, "Python parent id": None}})
        events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "tid": tid, "ts": 2, "dur": end - 4})
    for at in range(3, end - 3, 2):
        events.append({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": at, "dur": 1, "args": {"device": 0, "stream": 7}})
    trace = tmp_path / "many.json"
    trace.write_text(json.dumps({"deviceProperties": [{"id": 0, "name": "a device"}], "traceEvents": events}))
    run("import", trace, "--output", tmp_path / "many.db")
    lines = show_json(tmp_path / "many.db")["breakdown"]["lines"]
    assert any(lines["host"].values()) == known, lines


def test_without_stacks(tmp_path):
    """Why, and what to do."""
    trace = tmp_path / "plain.json"
    trace.write_text(json.dumps({"traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "tid": 5, "ts": 10, "dur": 50}]}))
    run("import", trace, "--output", tmp_path / "plain.db")
    assert "with_modules" in run("show", tmp_path / "plain.db", "--by", "modules").stdout
    assert "with_stack" in run("show", tmp_path / "plain.db", "--by", "lines").stdout


def test_more_stacks_than_a_capture_holds(tmp_path):
    """Operators beyond have none, and that is counted."""
    more, events = 66000, []
    for i in range(more):
        events.append({"ph": "X", "cat": "python_function", "name": f"a.py({i + 1}): f", "pid": 5, "tid": 5, "ts": 10 * i, "dur": 8})
        events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "tid": 5, "ts": 10 * i + 1, "dur": 5})
    trace = tmp_path / "many.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    run("import", trace, "--output", tmp_path / "many.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "many.db")) as file:
        assert file.execute("SELECT count(*), count(stack) FROM operators").fetchone() == (more, 65535)
    assert "without its Python stack" in run("show", tmp_path / "many.db").stdout
