"""`profd show --by memory_calls`: calls of CUDA that take memory or give it back, in each step: of real traces, of a capture whose figures are
written here, and of a job on a simulated device."""
import collections
import json
import sqlite3

import gpu
import pytest
from cli import *  # noqa: F401,F403 (fixtures)
from make_capture import gpu_capture
from test_import import TRACES, events, imported, run, show

MS, US = 1_000_000, 1_000


@pytest.mark.parametrize("name", ["a100_alexnet_critical_path", "a100_event_sync_multi_stream", "gp100_gpu_user_annotation"])
def test_calls_of_a_trace(tmp_path, name):
    """As often, and as long, as the trace itself has them. Of one without any there are none."""
    trace = next(trace for trace in TRACES if trace.name.startswith(name))
    expected = collections.defaultdict(list)
    for event in events(trace):
        if event.get("cat") == "cuda_runtime" and event["name"] in ("cudaMalloc", "cudaFree", "cudaHostAlloc"):
            expected[event["name"]].append(event["dur"] * 1000)
    capture = imported(trace, tmp_path)
    rows = show(capture, "memory_calls")
    assert {row["call"]: int(row["calls"]) for row in rows} == {call: len(times) for call, times in expected.items()}
    for row in rows:
        times = expected[row["call"]]
        assert (int(row["total_ns"]), int(row["max_ns"])) == (pytest.approx(sum(times), abs=len(times)), pytest.approx(max(times), abs=1)), row
        assert (row["api"], row["step"], row["failed"], row["retried"]) == ("runtime", "1", "", "")
    text = run("show", capture, "--by", "memory_calls").stdout
    assert "not recorded" not in text and ("none" in text.split("Dropped or")[0]) == (not rows), text


def test_retries(lonely, folder):
    """torch's allocator gives back its cache where cudaMalloc fails, and tries again. A driver's call within one of the runtime is the same call."""
    path, names = folder / "g.db", {"cudaMalloc": None, "cudaFree": 90_001, "cuMemAlloc_v2": 90_002, "cuMemAllocAsync": 90_003}
    gpu_capture(path)
    # Its own cudaMalloc, which fails at 13 ms, is the first try.
    with sqlite3.connect(path) as db:
        names["cudaMalloc"], = db.execute("SELECT id FROM strings WHERE text = 'cudaMalloc'").fetchone()
        db.executemany("INSERT INTO strings VALUES (?, ?)", [(id, name) for name, id in names.items() if name != "cudaMalloc"])
        for step, name, start, duration, domain, thread, result in (
                (1, "cudaMalloc", 5 * MS, 300 * US, 2, 4242, 0), (1, "cuMemAlloc_v2", 5 * MS + 10 * US, 200 * US, 1, 4242, 0),
                (1, "cuMemAllocAsync", 6 * MS, 20 * US, 1, 4242, 0), (2, "cudaFree", 13_200 * US, 100 * US, 2, 4242, 0),
                (2, "cudaFree", 13_400 * US, 100 * US, 2, 4242, 0), (2, "cudaMalloc", 13_600 * US, 100 * US, 2, 4242, 0),
                (2, "cudaMalloc", 13_800 * US, 100 * US, 2, 4250, 2)):
            db.execute("INSERT INTO api_calls (step, flags, start, duration, correlation, name, thread, cbid, result, domain) VALUES "
                       "(?, 0, ?, ?, NULL, ?, ?, 1, ?, ?)", (step, start, duration, names[name], thread, result, domain))
    answer = json.loads(lonely.run("show", path, "--by", "memory_calls", "--format", "json").stdout)["memory_calls"]
    assert [tuple(row.values()) for row in answer] == [
        (1, "cudaMalloc", "runtime", 1, 0, 0, 300 * US, 3, 300 * US, 300 * US),
        (1, "cuMemAllocAsync", "driver", 1, 0, 0, 20 * US, 0.2, 20 * US, 20 * US),
        (2, "cudaMalloc", "runtime", 3, 2, 1, 300 * US, 2.5, 100 * US, 100 * US),
        (2, "cudaFree", "runtime", 2, 0, 0, 200 * US, 1.667, 100 * US, 100 * US)], answer
    one = json.loads(lonely.run("show", path, "--by", "memory_calls", "--step", 2, "--format", "json").stdout)["memory_calls"]
    assert one == answer[2:]
    # Of an agent that did not record them.
    assert "without calls that map memory" in lonely.run("show", path, "--by", "memory_calls").stdout
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM api_calls")
    assert json.loads(lonely.run("show", path, "--by", "memory_calls", "--format", "json").stdout)["memory_calls"] == []
    with sqlite3.connect(path) as db:
        db.execute("UPDATE sessions SET refused = ?", (1 << 4 | 1 << 5,))
    assert "not recorded" in lonely.run("show", path, "--by", "memory_calls").stdout
    assert json.loads(lonely.run("show", path, "--by", "memory_calls", "--format", "json").stdout)["memory_calls"] is None


def test_a_job(profd):
    """Each step of a job that takes and gives back twice a step, with and without all calls."""
    job = gpu.start(profd, gpu.NEWEST, "", "--async-alloc=2", "--threads=2")
    for more in ((), ("--api", "all")):
        capture = profd.trigger(job.pid, "--steps", 5, *more)["capture_id"]
        assert "map memory" not in profd.run("show", capture, "--by", "memory_calls").stdout
        rows = profd.show(capture, "--by", "memory_calls")["memory_calls"]
        assert [(row["step"], row["call"], row["api"], row["calls"], row["failed"], row["retried"]) for row in sorted(rows, key=lambda r: (r["step"], r["call"]))] == [
            (step, call, "driver", 4, 0, 0) for step in range(1, 6) for call in ("cuMemAllocAsync", "cuMemFreeAsync")], rows
    gpu.finish(job)
