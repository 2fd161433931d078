"""`profd trigger --stacks=operators`: the exact Python stack of each operator, and what comes of it: `show --by lines` and `functions`
with the device's time, `--group-by-stack`."""
import collections
import json
import re
import sqlite3
import sys

import pytest

import gpu
from conftest import WORKLOADS, minor_of, wait_for
from torch_profiler import LAST
from torch_profiler import stacks as stacks_of_both

# Each operator at a line of its own, marked with its name.
EXACT = """
import threading, torch
torch.set_num_threads(1)
weight = torch.ones(4, 4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=1e-9)

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.cosh(x)  # aten::cosh
    @staticmethod
    def backward(ctx, gradient):
        return torch.sinh(gradient)

def produce():
    yield torch.sin(weight.detach())  # aten::sin

def down(n):
    return torch.tan(weight.detach()) if not n else down(n - 1)  # aten::tan

def aside():
    torch.log1p(weight.detach())  # aten::log1p
    exec(compile("torch.expm1(weight.detach())", "<made>", "exec"), globals())

while True:
    list(produce())
    down(700)
    thread = threading.Thread(target=aside)
    thread.start()
    thread.join()
    loss = Twice.apply(weight).sum()  # aten::sum
    (torch.relu(weight)  # aten::relu
        .sigmoid()  # aten::sigmoid
        .prod() + loss).backward()
    optimizer.step()
"""


def rows(profd, capture, sql):
    with sqlite3.connect(f"file:{profd.file(capture)}?mode=ro", uri=True) as db:
        return db.execute(sql).fetchall()


def stacks(profd, capture):
    """{stack: [(function, file, line, first line)]}, the innermost first."""
    frames = {row[0]: row[1:] for row in rows(profd, capture, "SELECT k.id, k.parent, n.text, f.text, k.line, k.first_line FROM stacks k "
                                              "JOIN strings n ON n.id = k.function JOIN strings f ON f.id = k.file")}
    found = {}
    for stack in frames:
        found[stack], at = [], stack
        while at:
            at, *frame = frames[at]
            found[stack].append(tuple(frame))
    return found


def stackless(shown):
    return sum(loss["count"] for loss in shown["losses"] if loss["loss"] == "stackless")


@pytest.mark.core
def test_exact(profd, torch, tmp_path):
    script = tmp_path / "exact.py"
    script.write_text(EXACT)
    marks = {match[1]: number for number, line in enumerate(EXACT.splitlines(), 1) if (match := re.search(r"# (aten::\w+)$", line))}
    chained = minor_of(torch) == 9  # it has a call of a method at the line where its expression begins
    if chained:
        marks["aten::sigmoid"] = marks["aten::relu"]
    job = profd.job(torch, script)
    profd.wait_steps(job.pid, 5)
    capture = profd.trigger(job.pid, "--steps", 5, "--stacks=operators")["capture_id"]
    known = stacks(profd, capture)
    seen = collections.Counter()

    def own(stack):
        """The innermost line of the script; torch 2.4 has Function.apply in Python."""
        return next(line for _, file, line, _ in stack if file == str(script))

    for name, stack in rows(profd, capture, "SELECT s.text, o.stack FROM operators o JOIN strings s ON s.id = o.name"):
        if name in marks:
            assert own(known[stack]) == marks[name], (name, known[stack][:3])
            seen[name] += 1
        if name == "aten::expm1":
            assert [frame[1] for frame in known[stack][:2]] == ["<made>", str(script)], known[stack]
            seen[name] += 1
        # In the backward of an operator: where the operator was called.
        if name in ("aten::sigmoid_backward", "aten::threshold_backward", "aten::sinh"):
            line = marks[{"aten::sigmoid_backward": "aten::sigmoid", "aten::threshold_backward": "aten::relu"}.get(name, "aten::sum")]
            assert own(known[stack]) == line, (name, known[stack][:3])
            seen[name] += 1
    assert set(seen) == set(marks) | {"aten::expm1", "aten::sigmoid_backward", "aten::threshold_backward", "aten::sinh"}, seen
    assert min(seen.values()) >= 5, seen
    # A recursion of 700 is cut at 512.
    assert max(len(stack) for stack in known.values()) == 512
    shown = profd.show(capture)
    assert stackless(shown) == 0 and all(loss["kind"] == "sample" for loss in shown["losses"]), shown["losses"]
    by_line = {row["line"]: row for row in shown["lines"] if row["file"] == str(script)}
    # relu and the sum of the whole expression; sin and detach.
    assert (chained or by_line[marks["aten::relu"]]["calls"] == 10) and by_line[marks["aten::sin"]]["calls"] == 10, by_line
    assert all(row["device_ns"] is None for row in shown["lines"])
    functions = {row["function"]: row for row in shown["functions"]}
    assert functions["down"]["calls"] == 10 and functions["aside"]["calls"] == 20, functions
    text = profd.run("show", capture, "--by", "lines").stdout
    assert "CALLS" in text and "exact.py:" in text


# The simulated CUPTI has to be there first: torch brings a real one, which a simulated driver is not enough for.
DRIVER = """
import ctypes
ctypes.CDLL("libcupti.so.13")
import torch
torch.set_num_threads(1)
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
def call(name, *arguments):
    assert getattr(cuda, name)(*arguments) == 0, name
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1 << 20))
from torch import library
"""
# An operator that clears memory of the device so often.
CLEAR = DRIVER + """
library.define("stacked::clear", "(Tensor x, int n) -> Tensor")
def clear(x, n):
    for _ in range(n):
        call("cuMemsetD8Async", memory, ctypes.c_ubyte(0), ctypes.c_size_t(1 << 20), None)
    return x
library.impl("stacked::clear", "CPU", clear)
"""
DEVICE = CLEAR + """
weight = torch.ones(4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=1e-9)
one = torch.ones(1)
def often():
    torch.ops.stacked.clear(one, 9)  # often
while True:
    often()
    torch.ops.stacked.clear(one, 1)  # once
    torch.add(one, one)  # nothing
    clear(one, 1)  # outside of operators
    weight.sum().backward()
    optimizer.step()
    call("cuCtxSynchronize")
"""


def estimates(profd, capture):
    """{(line, function): ns} of the samples that met an operator called by no other one, or a call in none, while it launched."""
    operators = set(one for one, in rows(profd, capture, "SELECT id FROM operators"))
    launching = [row[1:] for row in rows(profd, capture, "SELECT o.parent, o.thread, o.start, o.duration, d.total FROM operators o JOIN range_devices d ON d.id = o.id "
                                         "UNION ALL SELECT range, thread, start, duration, device_time FROM launches WHERE device_time > 0")
                 if row[0] not in operators]
    sums = collections.Counter()
    for thread, time, duration, line, function in rows(
            profd, capture, "SELECT s.thread, s.time, s.duration, k.line, n.text FROM samples s JOIN stack_lines l ON l.stack = s.stack "
                            "JOIN stacks k ON k.id = l.frame JOIN strings n ON n.id = k.function"):
        met = [ns * duration // lasts for of, start, lasts, ns in launching if of == thread and start <= time < start + lasts]
        assert len(met) <= 1, met
        sums[line, function] += sum(met)
    return {place: ns for place, ns in sums.items() if ns}


def test_device(profd, torch_newest, tmp_path):
    """What a line has launched: operator, call, and what the device did."""
    script = tmp_path / "device.py"
    script.write_text(DEVICE)
    line = {match[1]: number for number, text in enumerate(DEVICE.splitlines(), 1) if (match := re.search(r"# (\w+)", text))}
    job = profd.job(torch_newest, script, env=gpu.environment(gpu.NEWEST))
    profd.wait_steps(job.pid, 5)
    capture = profd.trigger(job.pid, "--steps", 4, "--stacks=operators")["capture_id"]
    sums = dict(rows(profd, capture, "SELECT s.text, sum(d.self) FROM range_devices d JOIN operators o ON o.id = d.id JOIN strings s "
                                     "ON s.id = o.name GROUP BY 1"))
    assert set(sums) == {"stacked::clear"}
    shown = profd.show(capture)
    by_line = {row["line"]: row for row in shown["lines"] if row["file"] == str(script)}
    assert by_line[line["often"]]["calls"] == by_line[line["once"]]["calls"] == 4
    assert by_line[line["nothing"]]["device_ns"] == 0
    assert by_line[line["often"]]["device_ns"] + by_line[line["once"]]["device_ns"] == sums["stacked::clear"]
    assert by_line[line["often"]]["device_ns"] > 5 * by_line[line["once"]]["device_ns"] > 0
    # Self and total: of the line that calls the function, of each function, and of none twice.
    caller = by_line[1 + DEVICE.splitlines().index("    often()")]
    assert (caller["device_ns"], caller["device_total_ns"]) == (0, by_line[line["often"]]["device_ns"]), caller
    assert all(row["device_total_ns"] == row["device_ns"] for row in by_line.values() if row is not caller), by_line
    assert sum(row["self_device_ns"] for row in shown["functions"]) == sums["stacked::clear"]
    functions = {row["function"]: row for row in shown["functions"]}
    assert functions["often"]["self_device_ns"] == functions["<module>"]["self_device_ns"] == 0, functions
    assert functions["often"]["device_ns"] == by_line[line["often"]]["device_ns"]
    assert functions["<module>"]["device_ns"] == sums["stacked::clear"]
    # Folded, a line a stack.
    path = tmp_path / "device.folded"
    profd.run("export", capture, "--output", path, "--metric", "self_device_time_total")
    folded = dict(text.rsplit(" ", 1) for text in path.read_text().splitlines())
    assert abs(sum(map(int, folded.values())) * 1000 - sums["stacked::clear"]) <= 500 * len(folded), folded
    for place in ("often", "once"):
        of_line = sum(int(us) for stack, us in folded.items() if f"(device.py:{line[place]})" in stack)
        assert abs(of_line * 1000 - by_line[line[place]]["device_ns"]) <= 500 * len(folded), (place, folded)
    older = profd.run("export", capture, "--format", "folded", "--output", "-", "--metric", "self_cuda_time_total").stdout
    assert older == path.read_text()
    # With samples alone it is estimated.
    capture = profd.trigger(job.pid, "--steps", 40, "--stacks", "--stacks-rate", 1000)["capture_id"]
    shown = profd.show(capture)
    assert all(row["device_ns"] is None and row["calls"] is None for row in shown["lines"] + shown["functions"])
    assert all(row["device_total_ns"] is None for row in shown["lines"]) and all(row["self_device_ns"] is None for row in shown["functions"])
    expected = estimates(profd, capture)
    assert {(row["line"], row["function"]): row["device_estimate_ns"] for row in shown["lines"] if row["device_estimate_ns"] is not None} == expected
    module = next(row for row in shown["functions"] if row["function"] == "<module>")
    assert (module["device_estimate_ns"] or 0) == sum(expected.values())
    text = profd.run("show", capture, "--by", "lines").stdout
    titles = next(row for row in text.splitlines() if row.startswith("WHERE"))
    assert ("DEVICE (ESTIMATED)" in titles) == bool(expected), text
    lacks = profd.run("export", capture, "--output", tmp_path / "none.folded", "--metric", "self_device_time_total", check=False)
    assert lacks.returncode == 1 and "--stacks=operators" in lacks.stderr and not (tmp_path / "none.folded").exists(), lacks
    # Stacks of operators, and no device.
    capture = profd.trigger(job.pid, "--steps", 4, "--stacks=operators", "--no-gpu")["capture_id"]
    lacks = profd.run("export", capture, "--output", tmp_path / "none.folded", "--metric", "self_device_time_total", check=False)
    assert lacks.returncode == 1 and "what devices did was not recorded" in lacks.stderr and not (tmp_path / "none.folded").exists(), lacks
    wrong = profd.run("export", capture, "--output", tmp_path / "none.json", "--metric", "self_device_time_total", check=False)
    assert wrong.returncode == 2 and "--metric is of the format folded" in wrong.stderr, wrong


KEYS = """
import collections, json, pathlib, sys, torch
torch.set_num_threads(1)
model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2, enable_nested_tensor=False)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
def loss_of(x):
    return model(x).square().mean()
def iterate():
    loss_of(torch.ones(2, 4, 16)).backward()
    optimizer.step()
    optimizer.zero_grad()
for _ in range(3):
    iterate()
verbose = torch._C._profiler._ExperimentalConfig(verbose=True)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True, experimental_config=verbose) as profiler:
    for _ in range(2):
        iterate()
def group(n):
    return [[row.key, row.count, row.stack] for row in profiler.key_averages(group_by_stack_n=n) if row.key[:4] in ("aten", "auto") or "Back" in row.key]
path = pathlib.Path(sys.argv[1])
path.with_suffix(".new").write_text(json.dumps(group(100)))
path.with_suffix(".new").rename(path)
while True:
    iterate()
"""


def test_group_by_stack(profd, torch_newest, tmp_path):
    """Groups and their calls beside key_averages(group_by_stack_n) of the same steps."""
    told = tmp_path / "keys.json"
    script = tmp_path / "keys.py"
    script.write_text(KEYS)
    job = profd.job(torch_newest, script, told)
    wait_for(told.exists, 120)
    capture = profd.trigger(job.pid, "--steps", 2, "--stacks=operators")["capture_id"]
    shown = json.loads(profd.run("show", capture, "--by", "operators", "--group-by-stack", 100, "--format", "json").stdout)
    ours, theirs = stacks_of_both(profd, capture, json.loads(told.read_text()), shown["operators"], [(script.name, "<module>")])
    assert sum(theirs.values()) > 300
    moved = sum(calls for (_, stack), calls in ours.items() if stack == LAST)
    assert ours - theirs == {key: calls for key, calls in ours.items() if key[1] == LAST} and moved < 0.05 * sum(theirs.values()), ours - theirs
    # One frame of each: fewer groups, as many calls.
    one = json.loads(profd.run("show", capture, "--by", "operators", "--group-by-stack", 1, "--format", "json").stdout)["operators"]
    assert len(one) < len(shown["operators"])
    assert sum(row["calls"] for row in one) == sum(row["calls"] for row in shown["operators"])
    assert all(";" not in row["stack"] for row in one)
    # Without the stacks of operators they are said to lack.
    capture = profd.trigger(job.pid, "--steps", 2)["capture_id"]
    rows_without = json.loads(profd.run("show", capture, "--by", "operators", "--group-by-stack", 3, "--format", "json").stdout)["operators"]
    assert rows_without and all(row["stack"] is None for row in rows_without)
    refused = profd.run("show", capture, "--by", "operators", "--group-by-stack", 3, "--group-by-shapes", check=False)
    assert refused.returncode == 2 and "--group-by-shapes" in refused.stderr


def test_refused(profd, tmp_path):
    job = profd.job(sys.executable, WORKLOADS / "shares.py", tmp_path / "taken.json")
    profd.wait_steps(job.pid, 2)
    capture = profd.trigger(job.pid, "--steps", 3, "--stacks=operators")["capture_id"]
    on = {row["collector"]: row for row in profd.show(capture)["collectors"]}
    assert on["python"]["on"] and not on["operator_stacks"]["on"]
    assert on["operator_stacks"]["sentence"] == "operators are not recorded"
    assert all(row["calls"] is None for row in profd.show(capture)["lines"])
    wrong = profd.run("trigger", "--pid", job.pid, "--stacks=all", check=False)
    assert wrong.returncode == 2 and "--stacks alone is wanted, or with =operators" in wrong.stderr, wrong
