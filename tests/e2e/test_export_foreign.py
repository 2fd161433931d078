"""What a job has that readers of traces would take for something else: steps of its own torch.profiler, several API calls of
one correlation id, no step at all. HolisticTraceAnalysis and TensorBoard say of such a trace what they say without."""

import json
import shutil
import sqlite3

import pytest

from conftest import choices
from gpu_capture import MAIN, gpu_loop
from readers import trace
from readers.tensorboard import TensorBoard
from test_export_gpu_readers import export, hta, python_of  # noqa: F401 (a fixture)

ALIEN = ["ProfilerStep#7", "ProfilerStep#8", "ProfilerStep#102", "ProfilerStep#bad", "ProfilerStep", "ProfilerStep* 3"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    gpu_loop(folder / "plain.db", steps=4, layers=3, rank=0, world_size=1)
    return folder / "plain.db"


def changed(plain, path, *changes):
    shutil.copy(plain, path)
    with sqlite3.connect(path) as db:
        for change in changes:
            change(db)
    db.close()
    return path


def own_steps(db):
    """As a torch.profiler in its schedule's wait leaves them: around each step, and around launches."""
    identity = db.execute("SELECT max(id) FROM (SELECT id FROM ranges UNION SELECT id FROM operators)").fetchone()[0]
    name = db.execute("SELECT max(id) FROM strings").fetchone()[0]
    steps = db.execute("SELECT step, start, duration FROM steps").fetchall()
    for number, text in enumerate(ALIEN):
        step, start, duration = steps[number % len(steps)]
        name, identity = name + 1, identity + 1
        db.execute("INSERT INTO strings VALUES (?, ?)", (name, text))
        db.execute("INSERT INTO ranges (step, flags, start, duration, self, id, name, thread, depth, source) VALUES "
                   "(?, 0, ?, ?, 0, ?, ?, ?, 0, 4)", (step, start + 10, duration - 20, identity, name, MAIN))
        db.execute("INSERT INTO range_devices SELECT ?, 0, total, operations, first, last FROM range_devices LIMIT 1", (identity,))
        db.execute("INSERT INTO marks (step, flags, time, name, thread, source) VALUES (?, 0, ?, ?, ?, 1)", (step, start + 20, name, MAIN))


def driver_calls(db):
    """Each call of the runtime that launches has one of the driver in it, of the same id."""
    name = db.execute("SELECT max(id) FROM strings").fetchone()[0] + 1
    db.execute("INSERT INTO strings VALUES (?, 'cuLaunchKernelEx')", (name,))
    db.execute("INSERT INTO api_calls (step, flags, start, duration, correlation, name, thread, cbid, result, domain) SELECT step, 0, "
               f"start + 10, duration - 20, correlation, {name}, thread, 307, 0, 1 FROM api_calls WHERE domain = 2")


def no_steps(db):
    """Nor operators, from which TensorBoard would reckon one."""
    for table in ("steps", "operators", "ranges", "launches"):
        db.execute(f"DELETE FROM {table}")


def test_names(plain, tmp_path):
    for shape in set(choices("export", "format")) - {"sqlite", "folded", "memory_viz"}:
        path = export(changed(plain, tmp_path / "own.db", own_steps), tmp_path / f"{shape}.json", "--format", shape)
        exported = trace.load(path)
        steps = [e for e in exported["traceEvents"] if "ProfilerStep" in e["name"] and e["cat"] == "user_annotation"]
        assert [e["name"] for e in steps] == [f"ProfilerStep#{n}" for n in (101, 102, 103, 104)]
        for phase in "Xi":
            found = {e["name"]: e["args"]["Name"] for e in trace.events(exported, phase) if "Name" in e.get("args", {})}
            assert found == {text.replace("ProfilerStep", "Profiler step"): text for text in ALIEN}, phase


def test_hta_takes_our_steps(hta, plain, tmp_path):  # noqa: F811
    found = [hta(export(path, tmp_path / f"{path.stem}.json"), 0, "ProfilerStep")
             for path in (plain, changed(plain, tmp_path / "own.db", own_steps))]
    for what in found[0]:
        if what != "critical":
            assert found[0][what] == found[1][what], what
    assert found[1]["critical"]["found"]


def test_hta_joins_a_launch_once(hta, plain, tmp_path):  # noqa: F811
    path = changed(plain, tmp_path / "calls.db", driver_calls)
    exported = trace.load(export(path, tmp_path / "calls.json"))
    calls = [e for category in ("cuda_runtime", "cuda_driver") for e in trace.events(exported, "X", category)]
    with sqlite3.connect(path) as db:
        launches = {row[0] for row in db.execute("SELECT correlation FROM launches WHERE api IS NOT NULL")}
        assert len(calls) == db.execute("SELECT count(*) FROM api_calls").fetchone()[0]
    at = [e["args"]["correlation"] for e in calls if e["args"].get("correlation") in launches]
    assert sorted(at) == sorted(launches)
    found = [hta(tmp_path / "calls.json", 0), hta(export(plain, tmp_path / "plain.json"), 0)]
    assert found[0]["launches"] == found[1]["launches"] and found[0]["queue"] == found[1]["queue"]


def board(path, folder):
    python = python_of("PROFD_TENSORBOARD", "torch-tb-profiler")
    (folder / "run").mkdir(parents=True)
    name = export(path, folder / "run", "--format", "tensorboard").name.split(".")[0]
    with TensorBoard(python, folder) as asked:
        assert asked.wait_for_run() == ["run"]
        where = dict(run="run", worker=name, span="1")
        return asked.ask("overview", **where), asked.ask("operation/table", group_by="Operation", **where)["data"]


def test_tensorboard_takes_our_steps(plain, tmp_path):
    overview, operators = board(changed(plain, tmp_path / "own.db", own_steps), tmp_path / "logs")
    assert [row[0] for row in overview["steps"]["rows"]] == ["101", "102", "103", "104"]
    without = board(plain, tmp_path / "plain")
    assert overview["steps"] == without[0]["steps"]
    assert operators == without[1]


def test_tensorboard_without_steps(plain, tmp_path):
    """One step: all that was recorded."""
    path = changed(plain, tmp_path / "none.db", no_steps)
    overview, _ = board(path, tmp_path / "logs")
    with sqlite3.connect(path) as db:
        start, end = (db.execute("SELECT value FROM meta WHERE key = ?", [k]).fetchone()[0] for k in ("record_start", "record_end"))
    row, = overview["steps"]["rows"]
    assert row[0] == "0"
    times = [v for v in row[1:] if isinstance(v, (int, float))]
    assert all(0 <= t <= (end - start) / 1000 + 1000 for t in times) and max(times) > 0, json.dumps(overview["steps"])
    # Other readers have a word for no step.
    assert not any(trace.is_step(e) for e in trace.events(trace.load(export(path, tmp_path / "none.json")), "X"))
