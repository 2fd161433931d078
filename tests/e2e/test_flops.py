"""`profd show --by flops`: equal to torch.profiler's figures (with_flops) for what it has formulas for, and to torch's flop counter in
all, on the same trace and the same calls."""
import csv
import io
import json
import os
import subprocess

import pytest
from test_import import imported, run

PYTHON = os.environ.get("PROFD_TORCH_NEWEST")
WORK = """
import json, sys, torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode
torch.manual_seed(7)
conv, line = torch.nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=2), torch.nn.Conv1d(3, 4, 3)
up, head = torch.nn.ConvTranspose2d(16, 4, 2, stride=2), torch.nn.Linear(8, 5)
def step():
    x = torch.randn(4, 8, 16, 16, requires_grad=True)
    loss = conv(x).sum() + up(torch.randn(2, 16, 4, 4)).sum() + head(torch.randn(3, 8)).sum()
    loss = loss + line(torch.randn(2, 3, 10)).sum() + torch.nn.functional.conv2d(torch.randn(1, 2, 9, 9), torch.randn(3, 2, 3, 3, requires_grad=True)).sum()
    torch.ops.aten._convolution(torch.randn(1, 3, 12), torch.randn(4, 3, 3), None, [2], [1], [1], False, [0], 1, False, False, False, False)
    q = torch.randn(2, 4, 5, 8, requires_grad=True)
    loss = loss + torch.nn.functional.scaled_dot_product_attention(q, q, q).sum()
    loss = loss + torch.bmm(torch.randn(3, 5, 6), torch.randn(3, 6, 7)).sum() + torch.mm(torch.randn(5, 6), torch.randn(6, 7)).sum()
    loss = loss + torch.baddbmm(torch.randn(3, 5, 7), torch.randn(3, 5, 6), torch.randn(3, 6, 7)).sum()
    torch.add(torch.randn(5, 7), torch.randn(5, 7)); torch.randn(5, 7) * 2
    loss = loss + torch.randn(3, 4, requires_grad=True).square().mean()  # its backward has a product that calls itself: one call
    # One sample of many, of which the caller sees no more: its product is that of the product that it calls. One of a sparse matrix calls another.
    weight = torch.randn(6, 5)
    torch.func.vmap(torch.func.grad(lambda w, x: (x @ w).square().sum()), in_dims=(None, 0))(weight, torch.randn(9, 2, 6))
    torch.func.vmap(lambda x: torch.addmm(torch.randn(5), x, weight), randomness="same")(torch.randn(9, 2, 6))
    torch.mm(torch.eye(6).to_sparse(), torch.randn(6, 7))
    # Products of the same shapes with other strides, of which the profiler makes one row.
    loss = loss + torch.nn.MultiheadAttention(8, 2)(*[torch.randn(5, 3, 8, requires_grad=True)] * 3)[0].sum()
    loss.backward()
step()
with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_flops=True) as p:
    step()
p.export_chrome_trace(sys.argv[1])
with FlopCounterMode(display=False) as counter:
    step()
print(json.dumps({"profiler": [[e.key, str(e.input_shapes), e.count, e.flops] for e in p.key_averages(group_by_input_shape=True) if e.flops],
                  "counter": {str(op): flops for op, flops in counter.get_flop_counts()["Global"].items()}}))
"""


@pytest.mark.skipif(not PYTHON, reason="PROFD_TORCH_NEWEST is not set; ./dev test sets it")
def test_torch(tmp_path):
    trace = tmp_path / "t.json"
    done = subprocess.run([PYTHON, "-c", WORK, trace], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    truth = json.loads(done.stdout.splitlines()[-1])
    rows = list(csv.DictReader(io.StringIO(run("show", imported(trace, tmp_path), "--by", "flops", "--format", "csv", "--limit", 0).stdout)))
    ours = {(row["name"], row["input_shapes"]): row for row in rows}
    assert truth["profiler"]
    for name, shapes, calls, flops in truth["profiler"]:
        row = ours[name, shapes]
        assert (int(row["calls"]), int(row["total_flops"])) == (calls, flops), (name, shapes)
    ungrouped = 2 * 4 * 16 * 8 * 9 * 64  # what the counter makes of the weight's gradient of the grouped convolution
    counted = [row for row in rows if row["percent"]]
    sparse = 2 * 6 * 6 * 7
    truth["counter"]["aten.mm"] -= sparse
    truth["counter"]["aten.addmm"] += sparse
    for name, flops in truth["counter"].items():
        total = sum(int(row["total_flops"]) for row in counted if row["name"] == name.replace(".", "::"))
        if name == "aten.convolution_backward":
            # The counter does not divide the gradient of a grouped convolution's weight by the groups (2).
            flops -= ungrouped // 2
        assert total == flops, name
    # Called by the convolution it is counted there.
    assert "aten._convolution" in truth["counter"]
    assert sum(float(row["percent"]) for row in rows if row["percent"]) == pytest.approx(100, abs=0.01)
    assert not next(row for row in rows if row["name"] == "aten::conv2d")["percent"]
    for key, figure in (("flops", "total_flops"), ("count", "calls")):
        done = run("show", tmp_path / "capture.db", "--by", "flops", "--sort-by", key, "--format", "csv", "--limit", 0)
        assert done.returncode == 0, done.stderr
        figures = [int(row[figure]) for row in csv.DictReader(io.StringIO(done.stdout))]
        assert figures == sorted(figures, reverse=True) and len(figures) == len(rows), key
    assert all(float(row["gflop_per_s"]) > 0 for row in rows)


def test_device(tmp_path):
    """Where the device's time is known the speed is by that, and for a step also over the time in which the device was busy."""
    def event(name, cat, ts, dur, tid=1, pid=9, **args):
        return {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur, "pid": pid, "tid": tid, "args": args}

    shapes = {"Input Dims": [[50, 60], [60, 70]], "Input type": ["float", "float"], "Concrete Inputs": ["", ""]}
    step = [event("ProfilerStep#1", "user_annotation", 0, 100), event("aten::mm", "cpu_op", 10, 30, **{"External id": 1}, **shapes),
            event("cudaLaunchKernel", "cuda_runtime", 20, 5, correlation=7, **{"External id": 1}),
            event("gemm", "kernel", 40, 20, tid=7, pid=0, device=0, stream=7, correlation=7, **{"External id": 1})]
    trace = tmp_path / "t.json"
    trace.write_text(json.dumps({"schemaVersion": 1, "record_shapes": 1, "deviceProperties": [{"id": 0, "name": "a device"}], "traceEvents": step}))
    capture = imported(trace, tmp_path)
    row, = csv.DictReader(io.StringIO(run("show", capture, "--by", "flops", "--format", "csv").stdout))
    assert (row["flops"], row["device_ns"]) == ("420000", "20000") and float(row["gflop_per_s"]) == 21
    text = run("show", capture, "--by", "flops").stdout
    for note in ("0.00042 GFLOP a step", "4.2 GFLOP/s over the steps' time", "21 GFLOP/s of each device while it was busy"):
        assert note in text, text
