"""A step's thread that is outside of operators while a collective operation is in flight may wait for other ranks: the verdict says so."""
import gzip
import json

import pytest

from test_import import run

STEPS, STEP, MAIN, GLOO = 6, 100_000, 100, 101  # us, threads


def trace(path, in_flight):
    """Steps of 100 ms: an operator, c10d::allreduce_ at 10 ms, and nothing from 11 to 95 ms. The operation is in flight for `in_flight` us of these."""
    events = []

    def add(category, name, thread, start, duration):
        events.append(dict(ph="X", cat=category, name=name, pid=7, tid=thread, ts=1_000_000 + start, dur=duration, args={}))
    for step in range(STEPS):
        at = step * STEP
        add("user_annotation", f"ProfilerStep#{step + 10}", MAIN, at, STEP)
        add("cpu_op", "aten::mm", MAIN, at, 10_000)
        add("cpu_op", "c10d::allreduce_", MAIN, at + 10_000, 1_000)
        if in_flight:
            add("user_annotation", "gloo:all_reduce", GLOO, at + 11_000, in_flight)
        add("cpu_op", "aten::add", MAIN, at + 95_000, 5_000)
    with gzip.open(path, "wt") as file:
        json.dump({"traceEvents": events, "distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 2}}, file)
    run("import", path, "--output", path.with_suffix(".db"))
    return path.with_suffix(".db")


def finding_of(capture):
    findings = json.loads(run("show", capture, "--by", "findings", "--format", "json").stdout)["findings"]
    [finding] = [finding for finding in findings if finding["finding"] in ("stall", "outside")]
    return finding


@pytest.mark.parametrize("in_flight, percent, advised", [(75_600, 90, "It may wait for other ranks"), (42_000, 50, "A part of it may be"),
                                                         (16_800, None, None), (0, None, None)])
def test_told(tmp_path, in_flight, percent, advised):
    finding = finding_of(trace(tmp_path / "trace.json.gz", in_flight))
    # From the end of the call, which the step's thread is in, to the next operator: 84 ms.
    assert finding["ns"] == 84_000_000, finding
    assert ("profd ranks" in finding["try"]) == bool(advised), finding
    if not percent:
        assert "collective" not in finding["evidence"], finding
        return
    assert f"For {percent} % of it collective operations were in flight." in finding["evidence"], finding
    assert advised in finding["try"], finding
