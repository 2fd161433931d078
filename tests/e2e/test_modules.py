"""`profd trigger --modules` and `show --by modules`: in which nn.Module each operator was called, against counts that the script makes
certain; modules that change their names, share an address, hang nowhere, or pretend; and the time of a simulated device that was launched in each."""
import json
import re
import sqlite3

import gpu
import pytest
from conftest import minor_of, wait_for
from test_operator_stacks import DRIVER

# Each module calls operators of its own name, so that what it must have is known.
SCRIPT = """
import torch
from torch import nn
torch.set_num_threads(1)

class Leaf(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(8))
    def forward(self, x):
        return torch.cosh(x * self.w)

class Block(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.one = Leaf()
        self.shared = shared
    def forward(self, x):
        return torch.sin(self.shared(self.one(x)))

class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        object.__setattr__(self, "inner", nn.Tanh())
        self.__dict__["_modules"] = [1, 2]
    def forward(self, x):
        return self.inner(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        shared = Leaf()
        self.blocks = nn.ModuleList([Block(shared), Block(shared)])
        self.tail = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.add_module("gr\\u00fc\\u00df", Leaf())
        self.hidden = [Leaf()]
    def forward(self, x):
        self.fresh = nn.ModuleList(nn.Sigmoid() for _ in range(2))
        for block in self.blocks:
            x = block(x)
        x = self.hidden[0](self.tail(x))
        x = getattr(self, "gr\\u00fc\\u00df")(x)
        for module in self.fresh:
            x = module(x)
        return x

class Critic(nn.Module):
    def forward(self, x):
        return torch.tan(x)

net, critic, odd = Net(), Critic(), Odd()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)
while True:
    optimizer.zero_grad()
    loss = critic(net(torch.ones(4, 8))).sum()
    odd(torch.ones(2))
    loss.backward()
    optimizer.step()
"""


def counts_calls(python):
    """Does this Python tell one call of a module from another?"""
    return minor_of(python) <= 13


def record(profd, torch, folder, text=SCRIPT, options=(), **more):
    """Id of a capture of four steps."""
    script = folder / "script.py"
    script.write_text(text)
    job = profd.job(torch, script, **more)
    profd.wait_steps(job.pid, 5)
    return profd.trigger(job.pid, "--steps", 4, "--modules", *options)["capture_id"]


@pytest.mark.core
def test_paths(profd, torch, tmp_path):
    capture = record(profd, torch, tmp_path)
    shown = profd.show(capture)
    rows = {row["path"]: row for row in shown["modules"]}
    print(profd.run("show", capture, "--by", "modules").stdout)
    assert {path: row["class"] for path, row in rows.items()} == {
        "Net": "Net", "blocks.0": "Block", "blocks.0.one": "Leaf", "blocks.0.shared": "Leaf", "blocks.1": "Block", "blocks.1.one": "Leaf",
        "blocks.1.shared": "Leaf", "tail": "Sequential", "tail.0": "Linear", "tail.1": "ReLU", "(Leaf)": "Leaf", "gr\u00fc\u00df": "Leaf",
        "fresh.0": "Sigmoid", "fresh.1": "Sigmoid", "Critic": "Critic", "Odd": "Odd", "(Tanh)": "Tanh"}, rows
    # Four steps; forward and backward of what each calls, on the thread that steps and on autograd's.
    assert rows["Critic"]["operators"] >= 4 and rows["fresh.0"]["operators"] == rows["fresh.1"]["operators"], rows
    assert rows["blocks.0.one"]["operators"] >= 8 and rows["blocks.0.shared"]["operators"] == rows["blocks.1.shared"]["operators"], rows
    for path in ("blocks.0.one", "tail.0", "tail.1", "fresh.1", "Critic", "(Leaf)"):
        assert rows[path]["forward_ns"] > 0 and rows[path]["backward_ns"] > 0, (path, rows[path])
    assert rows["Odd"]["backward_ns"] == 0 and rows["Odd"]["host_ns"] > 0
    # Each ran once a step, whatever hangs or is called how often elsewhere.
    assert {row["calls"] for row in rows.values()} == {4 if counts_calls(torch) else None}, rows
    # A module has what it calls.
    children = sum(rows[path]["host_ns"] for path in ("blocks.0.one", "blocks.0.shared"))
    assert rows["blocks.0"]["host_ns"] == rows["blocks.0"]["self_ns"] + children
    for row in rows.values():
        assert row["host_ns"] == row["forward_ns"] + row["backward_ns"] and row["device_ns"] is None and row["self_device_ns"] is None, row
    assert not [loss for loss in shown["losses"] if loss["is_loss"]], shown["losses"]
    check_not_asked(profd, shown["capture"]["pid"])


def check_not_asked(profd, pid):
    capture = profd.trigger(pid, "--steps", 2)["capture_id"]
    assert not profd.show(capture).get("modules")
    said = profd.run("show", capture, "--by", "modules")
    assert "not recorded" in said.stdout + said.stderr, said


ELSEWHERE = """
import sys, torch
from torch import nn
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)
sys.hexversion ^= 1 << 16
while True:
    net(torch.ones(4)).sum().backward()
    optimizer.step()
"""


def test_a_python_that_is_not_what_it_seems(profd, torch_newest, tmp_path):
    """Objects are not read where they do not lie as this release has them: the capture says so, and the rest is recorded."""
    capture = record(profd, torch_newest, tmp_path, ELSEWHERE)
    shown = profd.show(capture)
    reason = f"this process does not have sys.hexversion where CPython 3.{minor_of(torch_newest)} has it, so that Python's objects are not read"
    said = {row["collector"]: (row["on"], row["sentence"]) for row in shown["collectors"]}
    assert said["compile"] == (False, reason), said
    assert not said["operator_stacks"][0] and said["operator_stacks"][1].startswith(reason), said
    assert {step["collections_2"] for step in shown["steps"]} == {None}
    assert said["torch"][0] and shown["operators"] and not shown.get("modules"), shown
    said = profd.run("show", capture, "--by", "modules")
    assert "not recorded: " + reason in " ".join((said.stdout + said.stderr).split()), said
    without = profd.trigger(shown["capture"]["pid"], "--steps", 2, "--stacks=operators")["capture_id"]
    assert any(row["calls"] for row in profd.show(without)["lines"])


# What launches has a size of its own, so that the device's records tell it apart.
DEVICE = DRIVER + """
from torch import nn
library.define("sized::clear", "(Tensor x, int bytes, int times) -> Tensor")
def clear(x, bytes, times):
    for _ in range(times):
        call("cuMemsetD8Async", memory, ctypes.c_ubyte(0), ctypes.c_size_t(bytes), None)
    return x.clone()
library.impl("sized::clear", "CPU", clear)
sized = torch.ops.sized.clear

class Launch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, forward, backward):
        ctx.backward_bytes = backward
        return sized(x, forward, 2)
    @staticmethod
    def backward(ctx, gradient):
        return sized(gradient, ctx.backward_bytes, 3), None, None

class Leaf(nn.Module):
    def __init__(self, forward, backward):
        super().__init__()
        self.sizes = forward, backward
    def forward(self, x):
        torch.mm(square, square)  # of the host: whose time it takes is not what speed is reckoned by
        return Launch.apply(x, *self.sizes)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.idle = Leaf(1001, 1002), Leaf(1003, 1004), nn.ReLU()
    def forward(self, x):
        return self.idle(self.second(self.first(sized(x, 1005, 1))))

net = Net()
weight, square = torch.ones(4, requires_grad=True), torch.ones(50, 50)
optimizer = torch.optim.SGD([weight], lr=1e-9)
while True:
    x = sized(weight, 1006, 4)  # in no module
    net(weight).sum().backward()
    optimizer.step()
    call("cuCtxSynchronize")
"""


def test_device(profd, torch_newest, tmp_path):
    capture = record(profd, torch_newest, tmp_path, DEVICE, ["--shapes"], env=gpu.environment(gpu.NEWEST))
    with sqlite3.connect(f"file:{profd.file(capture)}?mode=ro", uri=True) as db:
        launched = {size: (n, time) for size, n, time in db.execute("SELECT bytes, count(*), sum(duration) FROM set_records GROUP BY 1")}
    assert {size: n for size, (n, _) in launched.items()} == {1001: 8, 1002: 12, 1003: 8, 1004: 12, 1005: 4, 1006: 16}
    time = {size: time for size, (_, time) in launched.items()}
    shown = profd.show(capture)
    rows = {row["path"]: (row["device_forward_ns"], row["device_backward_ns"]) for row in shown["modules"]}
    print(profd.run("show", capture, "--by", "modules").stdout)
    assert rows == {"first": (time[1001], time[1002]), "second": (time[1003], time[1004]), "idle": (0, 0),
                    "Net": (time[1001] + time[1003] + time[1005], time[1002] + time[1004])}
    assert all(row["device_ns"] == row["device_forward_ns"] + row["device_backward_ns"] for row in shown["modules"]), shown["modules"]
    assert {row["path"]: row["self_device_ns"] for row in shown["modules"]} == {
        "first": time[1001] + time[1002], "second": time[1003] + time[1004], "idle": 0, "Net": time[1005]}
    # What no module launched is on the device all the same.
    assert sum(time.values()) == rows["Net"][0] + rows["Net"][1] + time[1006]
    # Floating point operations over the device's time, where there is any.
    flops = {row["path"]: row["flops"] for row in shown["modules"]}
    assert flops == {"first": 4 * 250_000, "second": 4 * 250_000, "Net": 8 * 250_000, "idle": 0}
    speeds = {row["path"]: row["gflop_per_s"] for row in shown["modules"]}
    assert speeds.pop("idle") is None
    assert speeds == {path: pytest.approx(flops[path] / sum(rows[path]), rel=0.001) for path in speeds}, speeds
    assert " SPEED" in profd.run("show", capture, "--by", "modules").stdout


HELD = """
import pathlib, sys, time
import torch
from torch import nn
held, go = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])

class Block(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number, self.inner = number, nn.Linear(8, 8)
    def forward(self, x):
        if self.number == 2 and steps == 5:
            held.touch()
            while not go.exists():
                time.sleep(0.01)
        return torch.relu(self.inner(x))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 8)
        self.blocks = nn.ModuleList(Block(i) for i in range(4))
        self.emb = nn.Linear(8, 8)
    def forward(self, x):
        x = self.emb(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

net, steps = Net(), 0
optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)
while True:
    optimizer.zero_grad()
    net(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    steps += 1
"""


def test_the_order_is_the_models(profd, torch, tmp_path):
    """A recording that is prepared in the midst of a forward sees the inner blocks first."""
    script, held, go = tmp_path / "script.py", tmp_path / "held", tmp_path / "go"
    script.write_text(HELD)
    job = profd.job(torch, script, held, go)
    wait_for(held.exists, 60, "the job to stand in a forward")
    follower = profd.follow("--pid", job.pid, "--steps", 3, "--modules")
    wait_for(lambda: profd.process(job.pid)["state"] != "idle" or follower.poll() is not None, 30, "the recording to be prepared")
    go.touch()
    out, error = follower.communicate(timeout=60)
    assert follower.returncode == 0, error
    rows = profd.show(json.loads(out)["captures"][0]["capture_id"], "--by", "modules")["modules"]
    blocks = [path for i in range(4) for path in (f"blocks.{i}", f"blocks.{i}.inner")]
    assert [row["path"] for row in rows] == ["Net", "emb", *blocks, "head"]


HOLDS = """
import torch
from torch import nn
torch.set_num_threads(1)

class Holder(nn.Module):
    def __init__(self, floats, kept):
        super().__init__()
        self.floats, self.kept = floats, kept
    def forward(self, x):
        self.kept.append(torch.ones(self.floats))
        return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a_step, self.for_ever = [], []
        self.layers = nn.ModuleList([Holder(400_000, self.a_step), Holder(100_000, self.a_step)])
        self.leaky = Holder(1_000, self.for_ever)
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.leaky(x) * 1

net, weight = Net(), torch.ones(4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=1e-9)
while True:
    net(weight).sum().backward()
    net.a_step.clear()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_memory(profd, torch, tmp_path):
    """What was taken in each module, what of it was held at the peak, and whose leak it is."""
    script = tmp_path / "script.py"
    script.write_text(HOLDS)
    job = profd.job(torch, script)
    profd.wait_steps(job.pid, 5)
    shown = profd.show(profd.trigger(job.pid, "--steps", 6, "--modules", "--memory")["capture_id"])
    rows = {row["path"]: row for row in shown["modules"]}
    hints = profd.run("show", shown["capture"]["capture_id"]).stdout.split("\nnext:\n")[1]
    assert [hints.count(f" --by {view} ") for view in ("lines", "modules", "peak")] == [1, 1, 1] and not re.search(r"show \S+ --by \S+ +--by", hints), hints
    # Held since the first step's begin: in the last one, when the peak is highest.
    for path, floats, held in (("layers.0", 400_000, 1), ("layers.1", 100_000, 1), ("leaky", 1_000, 6)):
        assert (rows[path]["cpu_taken_bytes"], rows[path]["cpu_peak_bytes"]) == (6 * 4 * floats, held * 4 * floats), rows[path]
        assert rows[path]["device_taken_bytes"] is None and rows[path]["device_peak_bytes"] is None
    parts = sum(rows[path]["cpu_taken_bytes"] for path in ("layers.0", "layers.1", "leaky"))
    assert parts <= rows["Net"]["cpu_taken_bytes"] < parts + 10_000
    one = profd.show(shown["capture"]["capture_id"], "--by", "modules", "--step", 2)["modules"]
    assert {row["path"]: row["cpu_taken_bytes"] for row in one}["layers.1"] == 400_000
    assert [row["module"] for row in shown["memory_peak"][:2]] == ["layers.0", "layers.1"]
    leak = shown["memory_leaks"][0]
    assert (leak["module"], leak["step_bytes"]) == ("leaky", 4_000), leak
    without = profd.show(profd.trigger(job.pid, "--steps", 2, "--modules")["capture_id"], "--by", "modules")["modules"]
    assert {row["cpu_taken_bytes"] for row in without} == {row["cpu_peak_bytes"] for row in without} == {None}


FLOPS = """
import json, sys, torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
torch.manual_seed(7)
torch.set_num_threads(1)

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
    def forward(self, x):
        q, k, v = (t.reshape(2, 10, 4, 8).transpose(1, 2) for t in self.qkv(x).split(32, dim=2))
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 10, 32))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.mlp = Attention(), nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
    def forward(self, x):
        return torch.bmm(self.mlp(self.attention(x)), torch.ones(2, 32, 32))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(3, 32, 3, padding=1), nn.ReLU())
        self.blocks = nn.ModuleList([Block(), Block()])
        self.grouped = nn.Conv1d(32, 16, 3, groups=4)
        self.scale, self.head = nn.Parameter(torch.ones(2, 10, 32)), nn.Linear(16, 5)
    def forward(self, x):
        x = self.stem(x).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        x = torch.mul(x, self.scale)
        return self.head(self.grouped(x.transpose(1, 2)).mean(2))

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-9, foreach=True)
def step():
    optimizer.zero_grad()
    net(torch.ones(2, 3, 10, requires_grad=True)).sum().backward()
    optimizer.step()
step()
with FlopCounterMode(display=False) as counter:
    step()
with open(sys.argv[1], "w") as file:
    json.dump({module: {str(op): flops for op, flops in counts.items()} for module, counts in counter.get_flop_counts().items()}, file)
while True:
    step()
"""


def test_flops(profd, torch, tmp_path):
    """Floating point operations of each module, forward and backward, beside torch's own counter by module."""
    script, counts = tmp_path / "script.py", tmp_path / "counts"
    script.write_text(FLOPS)
    job = profd.job(torch, script, counts)
    profd.wait_steps(job.pid, 5)
    shown = profd.show(profd.trigger(job.pid, "--steps", 4, "--modules", "--shapes")["capture_id"])
    rows = {row["path"]: row for row in shown["modules"]}
    counter = json.loads(counts.read_text())
    truth = {path.partition(".")[2] or path: sum(counts.values()) for path, counts in counter.items() if path != "Global"}
    # The counter does not divide the gradient of a grouped convolution's weight by its groups, 4: flops.h.
    for path in ("grouped", "Net"):
        truth[path] -= 3 * counter["Net.grouped"]["aten.convolution"]
    # It does not count products by element, of which there are one and the two of its backward.
    truth["Net"] += 3 * 2 * 10 * 32
    # The CPU's attention: those of older torches (2.8) do not count it. Two products of matrices, and five backward.
    if not any("flash_attention_for_cpu" in op for op in counter["Net.blocks.0.attention"]):
        for i in (0, 1):
            for path in (f"blocks.{i}.attention", f"blocks.{i}", "blocks", "Net"):
                if path in truth:
                    truth[path] += (2 + 5) * 2 * (2 * 4 * 10 * 10 * 8)
    assert set(truth) < set(rows) and len(truth) == 19, (sorted(truth), sorted(rows))
    assert {path: row["flops"] for path, row in rows.items()} == {path: 4 * truth.get(path, 0) for path in rows}
    assert {path: rows[path]["flops"] for path in ("stem.1", "blocks.1.mlp.1")} == {"stem.1": 0, "blocks.1.mlp.1": 0}
    forward = {path: rows[path]["forward_flops"] for path in ("stem", "blocks.1.mlp")}
    assert forward == {path: 4 * sum(counter["Net." + path][f"aten.{name}"] for name in ("convolution", "addmm") if f"aten.{name}" in counter["Net." + path])
                       for path in forward}
    assert all(row["flops"] == row["forward_flops"] + row["backward_flops"] and row["gflop_per_s"] is None for row in rows.values()), rows
    # All is in the one network, and so the same as without modules. A step has its part.
    counted = [row["total_flops"] for row in shown["flops"] if row["percent"] is not None]
    assert rows["Net"]["flops"] == sum(counted) > 0
    one = profd.show(shown["capture"]["capture_id"], "--by", "modules", "--step", 3)["modules"]
    assert {row["path"]: row["flops"] for row in one} == {path: row["flops"] // 4 for path, row in rows.items()}
    text = profd.run("show", shown["capture"]["capture_id"], "--by", "modules").stdout
    print(text)
    assert " FLOP " in text and " SPEED" not in text, text
    # Shapes were not asked for: what is not known is not 0.
    without = profd.show(profd.trigger(job.pid, "--steps", 2, "--modules")["capture_id"], "--by", "modules")["modules"]
    assert {row[key] for row in without for key in ("flops", "forward_flops", "backward_flops", "gflop_per_s")} == {None}
