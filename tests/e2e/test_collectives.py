"""`profd show --by collectives`: each function of torch.distributed, called by two gloo ranks a known number of times with known sizes, and the
operations of a real trace of NCCL's beside that trace's own events. What nobody told is null."""
import collections
import contextlib
import json
import sqlite3

import pytest

from conftest import wait_for
from test_import import TRACES, events, imported, run

STEPS = 2
# What rank 0 calls and what it comes to: operation, type, bytes. Sizes differ, so that each is known by its own.
CALLS = [
    ("dist.all_reduce(t(101))", ("all_reduce", "float32", 404)),
    ("dist.all_reduce(t((3, 5), torch.bfloat16))", ("all_reduce", "bfloat16", 30)),
    ("[w.wait() for w in [dist.all_reduce(t(n, torch.int64), async_op=True) for n in (1001, 1002, 1003)]]",
     ("all_reduce", "int64", 8008), ("all_reduce", "int64", 8016), ("all_reduce", "int64", 8024)),
    ("dist.all_reduce(t(7, torch.float64), group=group)", ("all_reduce", "float64", 56)),
    # How many are in the group nobody tells: in how many tensors it comes is not known.
    ("dist.all_gather([t(11), t(11)], t(11))", ("all_gather", "float32", None)),
    ("dist.all_gather_into_tensor(t(26), t(13))", ("all_gather", "float32", 104)),
    ("dist.reduce_scatter_tensor(t(19), t(38))", ("reduce_scatter", "float32", 152)),
    ("dist.broadcast(t(23, torch.uint8), 0)", ("broadcast", "uint8", 23)),
    ("dist.reduce(t(29), 0)", ("reduce", "float32", 116)),
    ("dist.gather(t(31), [t(31), t(31)] if rank == 0 else None, 0)", ("gather", "float32", None)),
    ("dist.scatter(t(37), [t(37), t(37)] if rank == 0 else None, 0)", ("scatter", "float32", 296)),
    ("dist.all_to_all_single(t(82), t(82))", ("all_to_all", "float32", 328)),
    ("dist.barrier()", ("barrier", None, None)),
    ("dist.monitored_barrier()", ("barrier", None, None)),
    ("dist.send(t(43), 1) if rank == 0 else dist.recv(t(43), 0)", ("send", "float32", 172)),
    ("dist.recv(t(47), 1) if rank == 0 else dist.send(t(47), 0)", ("recv", "float32", 188)),
    ("dist.recv(t(49)) if rank == 0 else dist.send(t(49), 0)", ("recv", "float32", 196)),
    ("[w.wait() for w in [dist.isend(t(n), 1) if rank == 0 else dist.irecv(t(n), 0) for n in (53, 54)]]",
     ("send", "float32", 212), ("send", "float32", 216)),
    ("functional.wait_tensor(functional.all_reduce(t(61), 'sum', world))", ("all_reduce", "float32", 244)),
    ("functional.wait_tensor(functional.all_gather_tensor(t(67), 0, world))", ("all_gather", "float32", 536)),
    ("functional.wait_tensor(functional.reduce_scatter_tensor(t(142), 'sum', 0, world))", ("reduce_scatter", "float32", 568)),
    ("[functional.wait_tensor(x) for x in functional.all_reduce_coalesced([t(73), t(74)], 'sum', world)]", ("all_reduce", "float32", 588)),
    ("[functional.wait_tensor(x) for x in functional.reduce_scatter_tensor_coalesced([t(166), t(168)], 'sum', [0, 0], world)]",
     ("reduce_scatter", "float32", 1336)),
    ("dist.all_reduce(t(89).to_sparse())", ("all_reduce", "float32", None)),
]

SCRIPT = """
import os, sys, time, torch, torch.distributed as dist
import torch.distributed._functional_collectives as functional
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
group, world = dist.new_group([0, 1]), dist.group.WORLD
def t(size, dtype=torch.float32):
    return torch.ones(size, dtype=dtype)
class Counts(torch.optim.SGD):
    pass
weight = torch.nn.Parameter(torch.zeros(1))
optimizer = Counts([weight], lr=0.1)
step = 0
while True:
    step += 1
CALLS
    weight.grad = torch.zeros(1)
    optimizer.step()
"""

WAITS = """
    work = dist.all_reduce(t(5003), async_op=True) if rank == 0 else None
    asked = sys.argv[1] + f".asked{step}"
    if rank == 0:
        open(asked, "w").close()
    else:
        while not os.path.exists(asked):
            time.sleep(0.001)
        time.sleep(0.03)
        work = dist.all_reduce(t(5003), async_op=True)
    work.wait()
"""

DDP = """
import os, sys, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(os.environ["RANK"]), world_size=2)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
while True:
    optimizer.zero_grad()
    model(torch.ones(4, 64)).sum().backward()
    optimizer.step()
"""


def record(profd, torch, folder, script, *options):
    """Id of a capture of rank 0's."""
    (folder / "rank.py").write_text(script)
    jobs = []
    for rank in range(2):
        with open(folder / f"out-{rank}", "w") as out:
            jobs.append(profd.job(torch, folder / "rank.py", folder / "ranks", stdout=out, stderr=out, env={"RANK": str(rank), "WORLD_SIZE": "2"}))
    wait_for(lambda: (profd.process(jobs[0].pid) or {}).get("step", 0) >= 3 or any(job.poll() is not None for job in jobs), 90, "three steps")
    assert all(job.poll() is None for job in jobs), [(folder / f"out-{rank}").read_text()[-2000:] for rank in range(2)]
    return profd.trigger(jobs[0].pid, "--steps", STEPS, *options)["capture_id"]


def every_call(more=""):
    return SCRIPT.replace("CALLS\n", "".join(f"    {call}\n" for call, *_ in CALLS) + more)


def rows(file, sql):
    with contextlib.closing(sqlite3.connect(file)) as capture:
        capture.row_factory = sqlite3.Row
        return [dict(row) for row in capture.execute(sql)]


def test_every_call(profd, torch, tmp_path):
    capture = record(profd, torch, tmp_path, every_call(WAITS), "--shapes")
    expected = collections.Counter(one for _, *ones in CALLS for one in ones) + collections.Counter([("all_reduce", "float32", 20012)])
    shown = profd.show(capture, "--by", "collectives")["collectives"]
    assert {(row["operation"], row["dtype"], row["bytes"]): row["calls"] for row in shown} == {key: STEPS * n for key, n in expected.items()}
    for row in shown:
        assert row["group"] is row["group_size"] is row["group_ranks"] is row["bus_gb_s"] is None
        assert row["unknown"] == 0 and 0 < row["min_ns"] <= row["average_ns"] <= row["max_ns"] <= row["total_ns"]
        assert (row["bandwidth_gb_s"] is None) == (row["bytes"] is None)
        if row["bytes"]:
            assert row["bandwidth_gb_s"] == pytest.approx(row["bytes"] / row["average_ns"], abs=1e-3)
    # Each range of gloo's tells its size, by which it is known whose it is.
    found = rows(profd.file(capture), "SELECT c.*, s.text AS asked FROM collectives c JOIN operators o ON o.id = c.id JOIN strings s ON s.id = o.name")
    gloo = collections.defaultdict(list)
    for row in rows(profd.file(capture), "SELECT r.*, i.dims, s.text FROM ranges r JOIN strings s ON s.id = r.name LEFT JOIN inputs i ON i.id = r.inputs "
                                         "WHERE s.text LIKE 'gloo:%' ORDER BY r.start"):
        gloo[(row["step"], row["text"], row["dims"])].append((row["start"], row["start"] + row["duration"]))
    for elements, size, name in ((101, 404, "all_reduce"), (1001, 8008, "all_reduce"), (1002, 8016, "all_reduce"), (1003, 8024, "all_reduce"),
                                 (38, 152, "all_reduce"), (142, 568, "all_reduce"), (23, 23, "broadcast"), (82, 328, "all_to_all"),
                                 (43, 172, "send"), (47, 188, "recv")):
        calls = [row for row in found if row["bytes"] == size]
        assert len(calls) == STEPS
        for row in calls:
            assert gloo[(row["step"], f"gloo:{name}", f"[[{elements}]]")] == [(row["begun"], row["ended"])], (name, elements)
    assert all(row["start"] <= row["begun"] <= row["ended"] and row["device"] == 0 for row in found)
    # The other rank came 30 ms after this one had asked.
    assert [row["ended"] - row["start"] > 30e6 for row in found if row["bytes"] == 20012] == [True] * STEPS


@pytest.mark.wide
def test_without_shapes(profd, torch, tmp_path):
    capture = record(profd, torch, tmp_path, every_call())
    expected = collections.Counter(one[0] for _, *ones in CALLS for one in ones)
    answer = profd.show(capture, "--by", "collectives")["collectives"]
    assert {row["operation"]: row["calls"] for row in answer} == {key: STEPS * n for key, n in expected.items()}
    assert all(row["dtype"] is row["bytes"] is row["bandwidth_gb_s"] is None for row in answer)
    assert sum(row["unknown"] for row in answer) == 0
    text = profd.run("show", capture, "--by", "collectives").stdout
    assert "SIZE" not in text and "profd trigger --shapes" in text and "RAN: from when" in text


@pytest.mark.core
def test_ddp(profd, torch, tmp_path):
    """One all_reduce of all gradients in each step, from autograd's thread."""
    capture = record(profd, torch, tmp_path, DDP, "--shapes")
    shown = profd.show(capture, "--by", "collectives")["collectives"]
    assert [(row["operation"], row["dtype"], row["bytes"], row["calls"], row["unknown"]) for row in shown] == [
        ("all_reduce", "float32", (64 * 32 + 32) * 4, STEPS, 0)]


# ---- imported

TYPES = {"Float": ("float32", 4), "Long": ("int64", 8)}
WORDS = {"allreduce": "all_reduce", "broadcast": "broadcast"}


def test_nccl_of_a_real_trace(tmp_path):
    trace = next(trace for trace in TRACES if trace.name.startswith("a100_ddp"))
    found = events(trace)
    told = {e["args"]["External id"]: e["args"] for e in found if e["name"] == "record_param_comms" and e["args"]["Collective name"] != "wait"}
    kernels = {e["args"]["External id"]: e for e in found if e.get("cat") == "kernel" and e["name"].startswith("ncclKernel")}
    assert sorted(told) == sorted(kernels) and len(told) == 21
    expected = collections.defaultdict(list)
    for number, args in told.items():
        dtype, size = TYPES[args["dtype"]]
        expected[(WORDS[args["Collective name"]], dtype, args["In msg nelems"] * size)].append(kernels[number]["dur"] * 1000)
    capture = imported(trace, tmp_path)
    shown = json.loads(run("show", capture, "--by", "collectives", "--format", "json").stdout)["collectives"]
    assert {(row["operation"], row["dtype"], row["bytes"]) for row in shown} == set(expected)
    assert collections.Counter({word: sum(row["calls"] for row in shown if row["operation"] == word) for word in WORDS.values()}) == {
        "all_reduce": 15, "broadcast": 6}
    for row in shown:
        times = expected[(row["operation"], row["dtype"], row["bytes"])]
        assert row["calls"] == len(times) and row["unknown"] == 0
        assert (row["group"], row["group_size"], json.loads(row["group_ranks"])) == ("default_pg", 2, [0, 1])
        for key, value in (("total_ns", sum(times)), ("min_ns", min(times)), ("max_ns", max(times))):
            assert row[key] == pytest.approx(value, abs=len(times) + 1), key
        assert row["bandwidth_gb_s"] == pytest.approx(row["bytes"] / (sum(times) / len(times)), abs=1e-3)
        assert row["bus_gb_s"] == pytest.approx(row["bandwidth_gb_s"] * {"all_reduce": 2 * 1 / 2, "broadcast": 1}[row["operation"]], abs=2e-3)


def test_a_file_that_lies(tmp_path):
    """A capture is a file that anybody may have written: no figure is beyond what a table can hold, and nothing is made of what is no time."""
    trace = next(trace for trace in TRACES if trace.name.startswith("a100_ddp"))
    capture = imported(trace, tmp_path)
    lies = [("begun = -9223372036854775807, ended = 9223372036854775807", 1), ("begun = 5, ended = -9e18", 0), ("begun = 'a', ended = 'b'", None),
            ("begun = -9e999, ended = 9e999", None), ("bytes = 9223372036854775807, ended = begun", None), ("bytes = -5", None),
            ("bytes = x'00ff', dtype = x'00', operation = x'ff'", None), ("group_size = -5, duration = -9223372036854775807", None),
            ("group_size = 'many', duration = 9e999", None)]
    for lie, known in lies:
        with contextlib.closing(sqlite3.connect(capture)) as file, file:
            file.execute(f"UPDATE collectives SET {lie}")
        for form in ("table", "json", "csv"):
            text = run("show", capture, "--by", "collectives", "--format", form).stdout
            assert "nan" not in text and "-9223372036854775808" not in text, (lie, text)
        shown = json.loads(run("show", capture, "--by", "collectives", "--format", "json").stdout)["collectives"]
        assert sum(row["calls"] for row in shown) == 21, lie
        if known is not None:
            assert all((row["total_ns"] is not None) == bool(known) and (known or row["unknown"] == row["calls"]) for row in shown), lie
            assert all(row["max_ns"] is None or 0 <= row["max_ns"] <= 9e18 for row in shown), lie
