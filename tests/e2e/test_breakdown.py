"""A step's breakdown beside a slow reference, row by row, and sums to the nanosecond: random timelines, and recorded traces as a whole."""
import contextlib
import json
import os
import pathlib
import random
import sqlite3
import subprocess

import pytest

import breakdown_reference as reference
import sums
from test_import import TRACES, imported

UNIT = 1000  # ns: of it many things end and begin together
ROWS = pathlib.Path(os.environ["PROFD_BUILD"]) / "tests" / "breakdown_rows"


def ours(timelines):
    text = "".join(map(reference.text, timelines))
    result = subprocess.run([ROWS], input=text, capture_output=True, text=True, check=True, timeout=120)
    return [json.loads(line) for line in result.stdout.splitlines()]


def interval(draw, end, longest):
    start = draw.randrange(0, end, UNIT)
    return start, min(end, start + draw.randrange(0, longest, UNIT))


def timeline(seed):
    """Anything goes: nothing nests, threads launch for each other, operations begin before their call."""
    draw = random.Random(seed)
    end = draw.choice((20, 60, 120)) * UNIT
    threads = list(range(1, draw.randint(2, 4)))
    cuts = sorted({draw.randrange(0, end, UNIT) for _ in range(draw.randint(2, 5))})
    steps = []
    for start, stop in zip(cuts, cuts[1:]):
        stop = stop if draw.random() < 0.7 else max(start + UNIT, stop - 2 * UNIT)
        annotated = stop if draw.random() < 0.7 else draw.randrange(start, stop + 1, UNIT)
        steps.append((start, stop, annotated))
    calls = []
    for _ in range(draw.randint(0, 8)):
        calls.append((*interval(draw, end, 8000), draw.choice(threads), draw.random() < 0.15))
    spans = [(draw.choice(threads), *interval(draw, end, draw.choice((4000, 30000))), draw.randrange(10))
             for _ in range(draw.randint(0, 14))]
    spans += [(c[2], c[0], c[1], reference.DOING.index("launch")) for c in calls if draw.random() < 0.9]
    marks = [(draw.choice(threads), *interval(draw, end, 30000), draw.randint(1, len(reference.PHASE) - 1)) for _ in range(draw.randint(0, 6))]
    ops = []
    for _ in range(draw.randint(0, 10)):
        call = draw.randrange(-1, len(calls)) if calls else -1
        if call >= 0 and draw.random() < 0.7:  # as a device would: some time after the call began
            start = calls[call][0] + draw.randrange(0, 25000, UNIT)
            ops.append((start, start + draw.randrange(0, 12000, UNIT), draw.randrange(2), draw.randrange(3), 0, call))
        else:
            ops.append((*interval(draw, end, 12000), draw.randrange(2), draw.randrange(3), draw.random() < 0.2, call))
    return {"thread": draw.choice(threads), "operators": draw.random() < 0.8, "steps": steps, "spans": spans, "marks": marks,
            "calls": calls, "ops": ops}


@pytest.mark.parametrize("part", range(10))
def test_random_timelines_equal_the_reference(part):
    seeds = range(part * 100, part * 100 + 100)
    timelines = [timeline(seed) for seed in seeds]
    for seed, given, got in zip(seeds, timelines, ours(timelines), strict=True):
        assert got == reference.breakdown(given), (seed, given)
        for step, bounds in zip(got, given["steps"]):
            wall = bounds[1] - bounds[0]
            assert sum(step["host"].values()) == wall
            for device in step["devices"]:
                assert sum(device["rows"].values()) == wall
                assert sum(device["idle"].values()) == device["rows"].get("idle", 0)


@pytest.mark.wide
@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name.split(".")[0])
def test_a_recorded_trace_equals_the_reference(trace, tmp_path):
    """As a whole; of what tests record, small captures are judged where they are left (sums.py)."""
    steps, judged = sums.added_up(imported(trace, tmp_path), 10**9)
    assert judged == steps > 0


def test_a_row_that_is_another_one_is_seen(tmp_path):
    """Where records change, the reference does not say what profd's word for them says."""
    capture = imported(next(trace for trace in TRACES if trace.name.startswith("gp100")), tmp_path)
    with contextlib.closing(sqlite3.connect(capture)) as db:
        walls = sums.walls(db)
        assert reference.judge(ROWS, capture, db, walls, 10**9) == 1
        for change in ("UPDATE launches SET api = NULL, step = NULL WHERE api = (SELECT max(api) FROM launches)", "UPDATE kernel_records SET duration = duration + 1"):
            with pytest.raises(AssertionError):
                reference.judge(ROWS, capture, Changed(db, change), walls, 10**9)
        for row in ("compute", "launch", "outside"):
            other = tmp_path / "other"
            other.write_text(f"#!/bin/sh\n'{ROWS}' \"$@\" | sed 's/\"{row}\": /&1/'\n")
            other.chmod(0o755)
            with pytest.raises(AssertionError, match=row):
                reference.judge(other, capture, db, walls, 10**9)


class Changed:
    """The file's rows as they would be after this change."""

    def __init__(self, db, change):
        self.db = sqlite3.connect(":memory:")
        db.backup(self.db)
        self.db.execute(change)
        self.execute = self.db.execute
