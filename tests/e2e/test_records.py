"""What the rows of events.def and collectors.def say, as the daemon does it: into which step a record belongs, and what a report
of a collector tells."""
import struct

import pytest

import device_records as d
import fake_agent as fake
import test_device_store as store


@pytest.mark.parametrize("told", [
    pytest.param([(2, 1, "operators"), (4, 0, "no driver")], id="once a collector"),
    pytest.param([(2, 1, "operators"), (3, 1, "operators"), (4, 0, "no driver"), (5, 0, "no driver")], id="once a bit, as agents did before")])
def test_collectors_report_for_their_parts(profd, told):
    """What a collector says of itself holds for what it records besides, where that was asked for."""
    recorder = store.Recorder(profd, collectors=["steps", "torch", "shapes", "cupti", "memory"])
    recorder.begin()
    base = struct.unpack_from("<Q", recorder.agent.map, fake.BASE)[0]
    for bit, ran, sentence in told:
        recorder.tell_collector(bit, ran, sentence)
    recorder.write(b"".join(d.step_of(i, base + 1000 * i, 1000, 0b1101) for i in (1, 2, 3)), 42)
    db = store.open_capture(profd, recorder.end())
    said = {row["collector"]: (row["wanted"], row["ran"], row["enable"], row["sentence"]) for row in db.execute("SELECT * FROM collectors")}
    assert said == {
        "steps": (1, 0, None, "the agent did not say whether it ran"), "nvtx": (0, 0, None, "not asked for"),
        "torch": (1, 1, 1000, "operators"), "shapes": (1, 1, 1000 if len(told) > 2 else None, "operators"), "cupti": (1, 0, None, "no driver"),
        "memory": (1, 0, None, "no driver"), "python": (0, 0, None, "not asked for (--stacks)"), "allocations": (0, 0, None, "not asked for (--memory)"),
        "compile": (0, 0, None, "not asked for"), "operator_stacks": (0, 0, None, "not asked for (--stacks=operators)"), "modules": (0, 0, None, "not asked for (--modules)")}


def test_what_was_not_asked_for(profd):
    """A collector that was left out says by which option it is asked for, or not; what is no part of it is not told by it."""
    recorder = store.Recorder(profd, collectors=["steps", "torch"])
    recorder.begin()
    base = struct.unpack_from("<Q", recorder.agent.map, fake.BASE)[0]
    recorder.tell_collector(2, 1, "")
    recorder.write(b"".join(d.step_of(i, base + 1000 * i, 1000, 0b101) for i in (1, 2, 3)), 42)
    db = store.open_capture(profd, recorder.end())
    said = {row["collector"]: row["sentence"] for row in db.execute("SELECT * FROM collectors")}
    assert said["torch"] == "operators, user annotations and steps of torch"
    assert said["shapes"] == "not asked for (--shapes)" and said["cupti"] == "not asked for (--no-gpu)"
    assert said["memory"] == "not asked for (--memory)" and said["nvtx"] == "not asked for"


@pytest.mark.parametrize("cupti", [False, True])
def test_placed_by_time(profd, cupti):
    """Records that have no call are of the step in which they begin, whether or not a GPU was recorded; only the profiler's own
    time stays where it is outside of every step."""
    recorder = store.Recorder(profd, told=cupti, collectors=["steps", "torch"] + ["cupti"] * cupti)
    recorder.begin()
    base = struct.unpack_from("<Q", recorder.agent.map, fake.BASE)[0] + 1000
    collectors = 0b10101 if cupti else 0b00101
    recorder.write(b"".join([
        *[d.step_of(i, base + 1000 * i, 1000, collectors) for i in (1, 2, 3)],
        *[d.allocation(base + at, at) for at in (999, 1000, 1999, 2000, 3999, 4000)],
        *[d.overhead(base + at, 10) for at in (999, 3500)], *[d.counter(base + at, at / 10, 0) for at in (500, 2500)],
        fake.operator(1, base + 2500, 1, 1, 1, 0, 0)]), 42)
    captured = recorder.end()
    assert captured["status"] == "complete", captured
    db = store.open_capture(profd, captured)
    placed = lambda table, value: [tuple(row) for row in db.execute(f"SELECT step, {value} FROM {table} ORDER BY rowid")]
    assert placed("allocations", "bytes") == [(1, 1000), (1, 1999), (2, 2000), (3, 3999)]
    assert placed("overheads", "duration") == [(None, 10), (3, 10)]
    assert placed("counters", "value") == [(2, 250.0)]
    # Its writer stated a step that the boundaries contradict.
    assert placed("operators", "id") == [(2, 1)]
    assert captured["events"] == store.count_rows(db)
