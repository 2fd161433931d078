"""Blocks of GPUs (trigger --memory) without one: a stand-in for libc10_cuda (tests/workloads/libc10_cuda.c) tells the real libc10 of its
blocks, on two devices and three streams, inside operators of a real torch. What GPUs do is not seen here. And what is recorded as a memory
snapshot of torch's (export --format memory_viz), read by torch's own programs."""
import collections
import json
import pathlib
import pickle
import pickletools
import re
import sqlite3
import subprocess

import pytest

from conftest import BUILD
from make_capture import Capture

SCRIPT = """
import ctypes, json, os, sys, time
import torch
from torch import library

cuda = ctypes.CDLL(sys.argv[1])
cuda.cuda_take.restype = ctypes.c_void_p
cuda.cuda_take.argtypes = [ctypes.c_uint64, ctypes.c_int, ctypes.c_int]
cuda.cuda_give_back.argtypes = [ctypes.c_void_p]
for name in ("cuda_allocated", "cuda_reserved"):
    getattr(cuda, name).restype = ctypes.c_uint64
log = open(sys.argv[2], "w")
made = 0

def tell(action, device, bytes, address):
    print(json.dumps([action, device, bytes, address, cuda.cuda_allocated(device), cuda.cuda_reserved(device)]), file=log, flush=True)

def take(device):
    global made
    made += 1
    address = cuda.cuda_take(512 * made - 100, device, made % 3)
    tell(1, device, 512 * made, address)
    return [address, device, 512 * made]

def give_back(block):
    address, device, bytes = block
    cuda.cuda_give_back(address)
    tell(2, device, bytes, address)

def work(x):
    held = [take(number % 2) for number in range(6)]
    for block in held[::-1]:
        give_back(block)
    return x.clone()

library.define("profd::work", "(Tensor x) -> Tensor")
library.impl("profd::work", "CPU", work)
torch.set_num_threads(1)
older = [take(0), take(1), take(1)]
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
kept = []

def leaky():
    kept.append(take(1))

while True:
    optimizer.zero_grad()
    model(torch.ops.profd.work(torch.ones(2, 4))).sum().backward()
    leaky()
    if os.path.exists(sys.argv[3]) and len(older) > 1:
        give_back(older.pop())
    optimizer.step()
    time.sleep(0.005 if os.path.exists(sys.argv[3]) else 0.2)  # who has to come before the end of the recording has the time for it
"""
# The opcodes that the page for memory snapshots knows.
KNOWN = set("PROTO STOP APPEND APPENDS BINGET LONG_BINGET BINPUT LONG_BINPUT BININT BININT1 BININT2 LONG1 EMPTY_DICT EMPTY_LIST MARK "
            "SETITEM SETITEMS BINUNICODE NEWFALSE NEWTRUE NONE BINFLOAT".split())


@pytest.fixture
def recorded(profd, torch_newest):
    """A capture, and what the stand-in told of in its steps."""
    script, log, go = (profd.folder / name for name in ("script.py", "log", "go"))
    script.write_text(SCRIPT)
    job = profd.job(torch_newest, script, BUILD / "workloads" / "libc10_cuda.so", log, go)
    profd.wait_torch(job.pid)
    profd.wait_steps(job.pid, 3)
    client = profd.follow("--pid", job.pid, "--memory", "--stacks=operators", "--stacks-rate", 1, "--steps", 40)
    profd.wait_recorded(job.pid, 2)
    go.touch()
    out, err = client.communicate(timeout=90)
    capture = json.loads(out)["captures"][0]
    assert capture["status"] == "complete" and capture["lost"] == 0 and job.poll() is None, (capture, err)
    with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
        events = db.execute("SELECT operation, device, bytes, address, total, reserved, known FROM framework_allocations WHERE "
                            "device_type = 1 ORDER BY time, rowid").fetchall()
    told = [tuple(json.loads(line)) for line in log.read_text().splitlines() if line.endswith("]")]
    first = next(i for i, event in enumerate(told) if event[:4] == events[0][:4])
    return profd, capture["capture_id"], events, told[first:first + len(events)]


def read(path):
    """The snapshot, with opcodes alone that the page knows."""
    content = path.read_bytes()
    opcodes = {opcode.name for opcode, _, _ in pickletools.genops(content)}
    assert content[:2] == b"\x80\x02" and opcodes <= KNOWN, opcodes - KNOWN
    return pickle.loads(content)


def check_accounting(snapshot):
    """As torch's own reader adds it up: the blocks of a segment fill it."""
    for segment in snapshot["segments"]:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
        assert sum(block["requested_size"] for block in segment["blocks"]) == segment["allocated_size"]
    ranges = sorted((segment["device"], segment["address"], segment["address"] + segment["total_size"]) for segment in snapshot["segments"])
    assert all(a[0] != b[0] or a[2] <= b[1] for a, b in zip(ranges, ranges[1:]))
    for device, trace in enumerate(snapshot["device_traces"]):
        for event in trace:
            assert any(d == device and low <= event["addr"] < high for d, low, high in ranges), event


@pytest.mark.wide
def test_two_devices(recorded):
    profd, capture, events, told = recorded
    # Each block, in order, with what the allocator had given out and held then.
    assert [event[:6] for event in events] == told and all(event[6] & 3 == 3 for event in events)
    assert {event[1] for event in events} == {0, 1} and len(events) > 40 * 12
    shown = profd.show(capture)
    steps = [row for row in shown["memory_steps"] if row["device"] != "cpu"]
    assert {row["device"] for row in steps} == {"cuda:0", "cuda:1"} and all(row["absolute"] for row in steps)
    peak = collections.Counter()
    for operation, device, bytes_, _, total, _ in told:
        peak[device] = max(peak[device], total if operation == 1 else total + bytes_)
    assert {row["device"]: max(r["peak_bytes"] for r in steps if r["device"] == row["device"]) for row in steps} == {
        f"cuda:{device}": bytes_ for device, bytes_ in peak.items()}
    assert max(row["reserved_bytes"] for row in steps) == max(event[5] for event in told)
    # CUPTI saw no device here: how large it is is not known.
    assert {row["capacity_bytes"] for row in steps} == {row["unused_bytes"] for row in steps} == {None}
    assert "cuda:1: it is not known how much memory it has" in profd.run("show", capture, "--by", "peak").stdout
    leak = next(row for row in shown["memory_leaks"] if row["device"] == "cuda:1")
    assert leak["operator"] is None or leak["operator"] == "(outside of operators)"
    assert leak["steps"] == leak["of_steps"] == leak["blocks"], leak
    # In the operator that took them all are given back.
    work = next(row for row in shown["operator_memory"] if row["name"] == "profd::work")
    assert work["self_device_bytes"] == work["device_bytes"] == 0 and work["taken"] >= 40 * 6, work
    held = [row for row in shown["memory_peak"] if row["device"] == "cuda:0" and row["operator"] == "(held from before)"]
    assert [row["bytes"] for row in held] == [512], held


def test_memory_viz(recorded, torch_newest, tmp_path):
    profd, capture, events, told = recorded
    file = tmp_path / "memory.pickle"
    profd.run("export", capture, "--output", file)
    snapshot = read(file)
    assert snapshot["profd"]["devices"] == {0: "cuda:0", 1: "cuda:1", 2: "cpu"} and not snapshot["profd"]["records_left_out"]
    check_accounting(snapshot)
    for device in (0, 1):
        trace = snapshot["device_traces"][device]
        expected = []
        for operation, at, bytes_, address, *_ in told:
            if at == device:
                expected += [("alloc", address, bytes_)] if operation == 1 else [("free_requested", address, bytes_),
                                                                                 ("free_completed", address, bytes_)]
        assert [(event["action"], event["addr"], event["size"]) for event in trace] == expected
        # All that is held at the end: what was taken here, and what was held from before.
        held = sum(segment["allocated_size"] for segment in snapshot["segments"] if segment["device"] == device)
        assert held == [event for event in told if event[1] == device][-1][4]
    older = [event for event in snapshot["device_traces"][1] if event["frames"][0]["name"] == "(taken before the recording began)"]
    assert [event["action"] for event in older] == ["free_requested", "free_completed"] * 2, older
    taken = [event for event in snapshot["device_traces"][0] if event["action"] == "alloc"]
    # The operator's own stack: it was called by torch's Python, and that by the script.
    for event in taken:
        names = [(frame["name"], frame["filename"].rsplit("/", 1)[-1]) for frame in event["frames"]]
        assert names[0] == ("profd::work", "operator") and names[-1] == ("<module>", "script.py") and event["frames"][-1]["line"] > 0, names
    # torch's own reader. It needs nothing of torch, which `-m` would import.
    reader, = pathlib.Path(torch_newest).parents[1].glob("lib/python3.*/site-packages/torch/cuda/_memory_viz.py")
    def viz(*words):
        return subprocess.run([torch_newest, reader, *words], capture_output=True, text=True, check=True).stdout
    lines = viz("trace", file)
    first = lines.split("Device 1 ---")[0]
    assert f"Device 0 ----------------\n{len(snapshot['device_traces'][0])} entries" in first
    assert len(re.findall(r"^\w+ = \w+\[", first, re.M)) == len(taken)
    stats = viz("stats", file)
    assert f"segments: {len(snapshot['segments'])}\n" in stats and "total_allocated" in stats
    for plot in ("trace_plot", "segment_plot"):
        viz(plot, file, "-o", tmp_path / "plot.html")
        assert "snapshot.pickle" in (tmp_path / "plot.html").read_text()


def allocation(c, time, operation, address, bytes_, device=0, type_=1, total=None, **more):
    known = 1 if bytes_ else 0
    c.add("framework_allocations", **{**dict(
        time=time, operation=operation, address=address, bytes=bytes_, device_type=type_, device=device, total=total or 0, reserved=0,
        known=known | (2 if total is not None else 0), thread=1, step=1), **more})


def exported(profd, path):
    out = path.with_suffix(".pickle")
    profd.run("export", path, "--output", out, "--force")
    return read(out)


def test_what_is_lost_is_said(empty_profd, tmp_path):
    """A block whose end was lost, one whose beginning was, one of unknown size, one that overlaps a stale one; devices with gaps."""
    path = tmp_path / "c.db"
    with Capture(path) as c:
        c.db.execute("INSERT INTO collectors VALUES ('allocations', 1, 1, 0, '')")
        allocation(c, 1000, 1, 0x10000, 512, device=3, total=10512)
        allocation(c, 2000, 1, 0x10000, 1024, device=3, total=11024)  # the end of the first was lost
        allocation(c, 3000, 2, 0x10000, 1024, device=3, total=10000)
        allocation(c, 4000, 2, 0x10000, 2048, device=3, total=7952)  # the beginning of this one was
        allocation(c, 5000, 1, 0x40000, 4096, device=3, total=12048)  # stale
        allocation(c, 6000, 1, 0x40800, 4096, device=3, total=16144)
        allocation(c, 1500, 2, 0x7000, 0, type_=0, device=255)
        allocation(c, 2500, 1, 1 << 62, 1 << 62, type_=0, device=255)
        allocation(c, 2600, 1, -5, 77, type_=0, device=255)
        allocation(c, 2700, 1, 0x7000, 64, type_=0, device=255)
    snapshot = exported(empty_profd, path)
    check = [(event["action"], event["size"], event["frames"][0]["name"]) for event in snapshot["device_traces"][3]]
    assert check == [("alloc", 512, "(outside of operators)"), ("free_requested", 512, "(when it was given back is lost)"),
                     ("free_completed", 512, "(when it was given back is lost)"), ("alloc", 1024, "(outside of operators)"),
                     ("free_requested", 1024, "(outside of operators)"), ("free_completed", 1024, "(outside of operators)"),
                     ("free_requested", 2048, "(when it was taken is lost)"), ("free_completed", 2048, "(when it was taken is lost)"),
                     ("alloc", 4096, "(outside of operators)"), ("alloc", 4096, "(outside of operators)")], check
    assert snapshot["profd"]["devices"] == {3: "cuda:3", 4: "cpu"} and not any(snapshot["device_traces"][:3])
    assert snapshot["device_traces"][4][0]["size"] == 0
    held = [(block["size"], block["frames"][0]["name"]) for segment in snapshot["segments"] if segment["device"] == 3
            for block in segment["blocks"] if block["state"] == "active_allocated"]
    assert held == [(4096, "(outside of operators)"),
                    (16144 - 4096, "(all that was taken before the recording began and is held at its end)")], held
    for segment in snapshot["segments"]:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    with Capture(path) as c:
        c.db.execute("INSERT INTO collectors VALUES ('allocations', 1, 1, 0, '')")
        for number in range(100):
            allocation(c, number, 1, 4096, 512, device=number, type_=number % 7)
    snapshot = exported(empty_profd, path)
    assert len(snapshot["profd"]["devices"]) == 64 and snapshot["profd"]["devices_left_out"] == 36
    with Capture(path):
        pass
    done = empty_profd.run("export", path, "--output", tmp_path / "none.pickle", check=False)
    assert done.returncode == 1 and "profd trigger --memory" in done.stderr and not (tmp_path / "none.pickle").exists()


@pytest.mark.wide
def test_a_snapshot_has_a_bound(empty_profd, tmp_path):
    """Of more than 500,000 records the last are there, and what is held at the end all the same."""
    path, most, more = tmp_path / "c.db", 500_000, 30_000
    with Capture(path) as c:
        c.db.execute("INSERT INTO collectors VALUES ('allocations', 1, 1, 0, '')")
        allocation(c, 1, 1, 1 << 30, 512, type_=0, device=255)
        allocation(c, 2, 1, 64, 512, type_=0, device=255)
        c.db.executemany("INSERT INTO framework_allocations (time, operation, address, bytes, device_type, device, known, thread, flags) "
                         "VALUES (?, ?, 4096, 512, 0, 255, 1, 1, 0)", ((3 + i, 1 + i % 2) for i in range(most + more - 4)))
        allocation(c, 10**7, 2, 64, 512, type_=0, device=255)
        allocation(c, 10**7 + 1, 1, 1 << 20, 512, type_=0, device=255)
    told = empty_profd.run("export", path, "--output", tmp_path / "c.pickle", "--dry-run").stdout
    snapshot = exported(empty_profd, path)
    assert snapshot["profd"]["records"] == most + more and snapshot["profd"]["records_left_out"] == more
    trace = snapshot["device_traces"][0]
    assert sum(event["action"] != "free_completed" for event in trace) == most
    assert trace[-2]["frames"][0]["name"] == "(taken before the part of the recording that this file has)"
    held = [block for segment in snapshot["segments"] for block in segment["blocks"] if block["state"] == "active_allocated"]
    assert [block["size"] for block in held] == [512, 512]
    size = (tmp_path / "c.pickle").stat().st_size
    assert "500,000 events" in told and size < 60_000_000, (told, size)
    said = float(re.search(r"about ([0-9.]+) Mi", told)[1]) * 2**20
    assert said / 2 < size < said * 2, (said, size)
