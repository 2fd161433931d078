"""LARGEST GAP is the longest time of a step in which a device did nothing, as the breakdown has it: its beginning and its end count too."""
import contextlib
import csv
import io
import json
import sqlite3

import pytest
from test_import import TRACES, imported, run

US = 1000
STEPS = [(0, 10_000), (10_000, 20_000), (20_000, 30_000), (30_000, 40_000)]
# (stream, start, end, launched at), us: step 1 is idle longest at its beginning, step 2 at its end, step 3 as a whole, step 4 between two.
# What step 2 launches last on stream 8 runs in step 4.
KERNELS = [(7, 4_000, 6_000, 3_990), (8, 7_000, 9_000, 6_990), (7, 9_500, 11_000, 9_400), (7, 11_500, 12_000, 11_400),
           (8, 30_500, 31_000, 11_900), (7, 37_000, 39_000, 36_900)]
GAPS = {1: (4_000, 0), 2: (8_000, 12_000), 3: (10_000, 20_000), 4: (6_000, 31_000)}
STREAMS = {(1, 7): 4_000, (1, 8): 7_000, (2, 7): 8_000, (2, 8): 10_000, (4, 7): 7_000, (4, 8): 9_000}


def planted():
    events = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 1, "tid": 1, "ts": start, "dur": end - start}
              for n, (start, end) in enumerate(STEPS)]
    for number, (stream, start, end, launched) in enumerate(KERNELS, 1):
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": launched, "dur": 5,
                       "args": {"correlation": number, "cbid": 211}})
        events.append({"ph": "X", "cat": "kernel", "name": "work", "pid": 0, "tid": stream, "ts": start, "dur": end - start,
                       "args": {"device": 0, "context": 1, "stream": stream, "correlation": number, "grid": [999, 1, 1], "block": [256, 1, 1]}})
    return json.dumps({"traceEvents": events})


def rows(capture, view, *more):
    return list(csv.DictReader(io.StringIO(run("show", capture, "--by", view, "--format", "csv", *more).stdout)))


def test_planted(tmp_path):
    (tmp_path / "planted.json").write_text(planted())
    capture = imported(tmp_path / "planted.json", tmp_path)
    with contextlib.closing(sqlite3.connect(capture)) as db:
        base = db.execute("SELECT min(start) FROM steps").fetchone()[0]
        found = {step: (gap, start - base) for step, gap, start in
                 db.execute("SELECT step, gap, gap_start FROM step_devices WHERE stream = -1")}
        streams = {(step, stream): gap for step, stream, gap in
                   db.execute("SELECT step, stream, gap FROM step_devices WHERE stream >= 0")}
    assert found == {step: (gap * US, start * US) for step, (gap, start) in GAPS.items()}
    assert streams == {key: gap * US for key, gap in STREAMS.items()}
    # The same in the tables, in JSON and in the summary.
    assert {int(row["step"]): int(row["largest_gap_ns"]) for row in rows(capture, "steps")} == {step: gap * US for step, (gap, _) in GAPS.items()}
    answer = json.loads(run("show", capture, "--by", "all", "--format", "json").stdout)
    assert [row["largest_gap_ns"] for row in answer["steps"]] == [gap * US for gap, _ in GAPS.values()]
    assert [row["largest_gap_ns"] for row in answer["devices"]] == [10_000 * US]
    assert {row["stream"]: row["largest_gap_ns"] for row in answer["streams"]} == {7: 8_000 * US, 8: 10_000 * US}
    # What is busy and what is idle make the step.
    idle = {}
    for row in rows(capture, "idle"):
        idle[int(row["step"])] = idle.get(int(row["step"]), 0) + int(row["duration_ns"])
    for row in answer["breakdown"]["steps"]:
        device = row["devices"][0]["rows"]
        assert device["idle"] == row["wall_ns"] - answer["steps"][row["step"] - 1]["device_busy_ns"]
    assert sum(idle.values()) == sum(row["devices"][0]["rows"]["idle"] for row in answer["breakdown"]["steps"])


@pytest.mark.parametrize("trace", TRACES, ids=[trace.name for trace in TRACES])
def test_real_traces(trace, tmp_path):
    """By the records themselves, instant by instant."""
    capture = imported(trace, tmp_path)
    with contextlib.closing(sqlite3.connect(capture)) as db:
        steps = db.execute("SELECT step, start, start + duration FROM steps ORDER BY step").fetchall()
        work = db.execute(" UNION ALL ".join(f"SELECT device, start, start + duration FROM {table}_records WHERE start IS NOT NULL"
                                             for table in ("kernel", "copy", "set")) + " ORDER BY 1, 2").fetchall()
        found = {(step, device): (gap, busy) for step, device, gap, busy in
                 db.execute("SELECT step, device, gap, busy FROM step_devices WHERE stream = -1")}
        told = {(step, device): ns for step, device, ns in
                db.execute("SELECT step, device, ns FROM breakdown WHERE side = 'device' AND row = 'idle'")}
    expected = {}
    for device in {row[0] for row in work}:
        for step, start, end in steps:
            at, gap, busy = start, 0, 0
            for _, begun, ended in (row for row in work if row[0] == device and row[1] < end and row[2] > start):
                gap = max(gap, begun - at)
                busy += max(0, min(ended, end) - max(begun, at))
                at = max(at, min(ended, end))
            expected[step, device] = (max(gap, end - at), busy)
            assert told.get((step, device), 0) == end - start - busy
    assert found == expected
