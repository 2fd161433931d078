"""Where the records do not suffice to say why a device was idle, each place says so, by the reason, and no cause is told; and what the
profiler itself cost the job is a row and a finding of its own."""
import contextlib
import re
import shutil
import sqlite3

import planted_traces
import pytest
from gpu_capture import gpu_loop
from test_absent import answer_of
from test_import import TRACES, imported, run
from test_report import data_of, page_of

RECORDED = next(trace for trace in TRACES if trace.name.startswith("a100_alexnet"))
CAUSES = ("the host launches", "the host waits for the device", "the host allocates", "the host is outside of operators", "on the way to the device")


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    """Three steps, in each a CUDA graph of three kernels; nothing is lost."""
    path = tmp_path_factory.mktemp("loop") / "loop.db"
    gpu_loop(path, steps=3, layers=4)
    return path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return imported(RECORDED, tmp_path_factory.mktemp("recorded"))


def changed(source, path, changes):
    """A copy in which other records stand, and nothing that was found out of the old ones."""
    shutil.copy(source, path)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        for change in changes.split("; "):
            assert db.execute(change).rowcount > 0, change
        for table in ("breakdown", "findings", "finding_intervals", "meta"):
            db.execute(f"DELETE FROM {table}" + (" WHERE key GLOB 'verdict*' OR key = 'breakdown_doubt'" if table == "meta" else ""))
    return path


def screen(path):
    return re.sub(r"\s+", " ", run("show", path).stdout)


LAST = "(SELECT max(correlation) FROM kernel_records WHERE graph <> 0)"
MIDDLE = f"(SELECT max(correlation) FROM kernel_records WHERE graph <> 0 AND correlation < {LAST})"
# Kernels of plain launches are gone, and what was found out of them.
WITHOUT = ("DELETE FROM launches WHERE correlation IN (SELECT correlation FROM kernel_records WHERE graph = 0 AND %s); "
           "DELETE FROM kernel_records WHERE graph = 0 AND NOT EXISTS (SELECT 1 FROM launches l WHERE l.correlation = kernel_records.correlation)")
# name: (the change, the sentence), of the loop, whose numbers are known.
DOUBTS = {
    "timeless": ("UPDATE kernel_records SET start = NULL, duration = NULL WHERE rowid IN (SELECT rowid FROM kernel_records LIMIT 2)",
                 "2 operations came without times"),
    "missing": (WITHOUT % "correlation > 0", "24 calls launched kernels that were not recorded"),
    "dropped": ("INSERT INTO losses VALUES ('kernel', 'driver', 12, 1, 'x'), ('api_call', 'no_space', 3, 1, 'x'), ('operator', 'limit', 99, 1, 'x'), "
                "('kernel', 'clipped', 50, 0, 'x')", "15 events of the devices, or calls, were dropped"),
    "head": ("UPDATE sessions SET missing_from = 4500000", "4500 us after the beginning records of the devices become incomplete"),
    "clock jumped": ("UPDATE sessions SET options = options | 64, clock_error = 2000000000",
                     "2000000 us is how far times of the devices may be off, since CUPTI's clock jumped or changed its rate"),
    "clock silent": ("UPDATE sessions SET options = options | 1024, clock_error = 90000",
                     "90 us is how far times of the devices may be off, since CUPTI's clock ceased to answer"),
    # All that were launched in the recording, the graphs' too.
    "clocks disagree": ("UPDATE kernel_records SET start = start - 30000; UPDATE copy_records SET start = start - 30000; "
                        "UPDATE set_records SET start = start - 30000",
                        "39 operations began before the calls that launched them: the clocks of devices and host disagree"),
    "graph": (f"DELETE FROM kernel_records WHERE rowid = (SELECT max(rowid) FROM kernel_records WHERE correlation = {MIDDLE})",
              "1 CUDA graphs have launches with fewer operations than others of the same graph"),
}


def check_doubt(path, page_folder, sentence):
    answer = answer_of(path)
    assert answer["breakdown"]["doubt"] == sentence
    idle = [device for step in answer["breakdown"]["steps"] for device in step["devices"]]
    assert idle and any(device["rows"]["idle"] for device in idle)
    for device in idle:
        assert device["idle"] == {"unknown": device["rows"]["idle"]} and device["after_sync_ns"] is None and device["after_sync"] is None
    # No finding lives of a cause; the verdict says what it does not know.
    assert not [one for one in answer["findings"] if one["finding"] in ("launch_bound", "sync", "input", "stall", "setup", "allocation")]
    assert sentence in answer["verdict"]["abstains"]
    text = screen(path)
    assert f"is not known: {sentence}." in text and not [cause for cause in CAUSES if cause in text], text
    table = re.sub(r"\s+", " ", run("show", path, "--by", "breakdown").stdout)
    assert f"why the devices were idle is not known: {sentence}" in table
    assert data_of(page_of(path, page_folder))["doubt"] == sentence


@pytest.mark.parametrize("doubt", DOUBTS)
def test_the_reason_is_told(loop, tmp_path, doubt):
    change, sentence = DOUBTS[doubt]
    check_doubt(changed(loop, tmp_path / "doubted.db", change), tmp_path, sentence)


def test_the_clocks_of_a_trace_disagree(tmp_path):
    """A real one whose device is told of 300 us too early."""
    trace = planted_traces.Trace(planted_traces.GP100)
    for event in trace.events:
        if planted_traces.category(event) in planted_traces.DEVICE:
            event["ts"] -= 300
    (tmp_path / "trace.json").write_text(trace.text())
    launched = sum(event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") for event in trace.events)
    check_doubt(imported(tmp_path / "trace.json", tmp_path), tmp_path,
                f"{launched} operations began before the calls that launched them: the clocks of devices and host disagree")


@pytest.mark.parametrize("doubt", ["timeless", "dropped"])
def test_of_a_real_device(recorded, tmp_path, doubt):
    change, sentence = DOUBTS[doubt]
    check_doubt(changed(recorded, tmp_path / "doubted.db", change), tmp_path, sentence)


# What is no reason to doubt: (the change, what it is).
NO_DOUBTS = {
    "nothing": "UPDATE kernel_records SET flags = flags",
    "other losses": "INSERT INTO losses VALUES ('operator', 'limit', 99, 1, 'x'), ('kernel', 'clipped', 50, 0, 'x')",
    "a clock that jumped by less than it takes to the device": "UPDATE sessions SET options = options | 64, clock_error = 10000",
    "a reading of the clock that took long": "UPDATE sessions SET clock_error = 400000",
    "a time that is wrong": "UPDATE kernel_records SET start = start - 300000 WHERE rowid = 9",
    # It had not ended when the recording did.
    "the last launch of a graph": f"DELETE FROM kernel_records WHERE rowid = (SELECT max(rowid) FROM kernel_records WHERE correlation = {LAST})",
    # The device had not begun the last ones.
    "some without kernels": WITHOUT % "correlation > 1030",
    "sessions of an older file": "UPDATE sessions SET missing_from = NULL",
}


@pytest.mark.parametrize("case", NO_DOUBTS)
def test_no_doubt(loop, tmp_path, case):
    path = changed(loop, tmp_path / "sure.db", NO_DOUBTS[case])
    answer = answer_of(path)
    assert answer["breakdown"]["doubt"] is None
    assert any("launch" in device["idle"] for step in answer["breakdown"]["steps"] for device in step["devices"])
    assert all("unknown" not in device["idle"] for step in answer["breakdown"]["steps"] for device in step["devices"])
    assert "is not known" not in screen(path) and CAUSES[0] in screen(path)
    assert data_of(page_of(path, tmp_path))["doubt"] is None


CUPTI_OVERHEAD, DRIVER_COMPILER, COMMAND_BUFFER_FULL = 1 << 16, 1, 6 << 16


def with_overhead(loop, path, kind):
    """7 us near the end of each step, on its thread, where the device has nothing to do."""
    return changed(loop, path, "INSERT INTO overheads (step, flags, start, duration, thread, kind, correlation) SELECT step, 0, start + duration - 8000, "
                               f"7000, thread, {kind}, 0 FROM steps")


def test_what_the_profiler_itself_costs(loop, tmp_path):
    """A row of the host, a cause of idle time, and a finding, which says that it is there only while profd records."""
    answer = answer_of(with_overhead(loop, tmp_path / "cost.db", CUPTI_OVERHEAD))
    plain = answer_of(loop)
    for step, before in zip(answer["breakdown"]["steps"], plain["breakdown"]["steps"]):
        rows = step["host"]["rows"]
        assert rows["capture"] == 7000 and "capture" not in before["host"]["rows"]
        assert sum(rows.values()) == sum(before["host"]["rows"].values()) == step["wall_ns"]
        device, = step["devices"]
        assert device["idle"]["capture"] == 7000 and sum(device["idle"].values()) == device["rows"]["idle"]
    finding, = (one for one in answer["findings"] if one["finding"] == "capture")
    assert finding["share"] == pytest.approx(7 / 34) and "only while profd records" in finding["try"]
    assert not [one for one in plain["findings"] if one["finding"] == "capture"]
    text = screen(tmp_path / "cost.db")
    assert text.count("the profiler itself 7.000 us 21 %") == 2 and "The profiler itself takes time of the step: 21 % of a step." in text
    number = 1 + answer["findings"].index(finding)
    assert finding["what"] in re.sub(r"\s+", " ", run("show", tmp_path / "cost.db", "--finding", number).stdout)
    with contextlib.closing(sqlite3.connect(tmp_path / "cost.db")) as db:
        assert len(db.execute(finding["sql"]).fetchall()) == 3


@pytest.mark.parametrize("kind", [DRIVER_COMPILER, COMMAND_BUFFER_FULL])
def test_what_is_not_the_profilers(loop, tmp_path, kind):
    """What CUPTI calls an overhead, and the job has without it: the driver compiles; a launch waits for the device."""
    answer = answer_of(with_overhead(loop, tmp_path / "cost.db", kind))
    for step in answer["breakdown"]["steps"]:
        assert "capture" not in step["host"]["rows"] and "capture" not in step["devices"][0]["idle"]
        assert ("compile" in step["host"]["rows"]) == (kind == DRIVER_COMPILER)
    assert not [one for one in answer["findings"] if one["finding"] == "capture"]
