"""The breakdown as tracks of an exported trace: the same stretches as `profd show --by breakdown` adds up, counters that follow from
what the devices did, and no reader that takes them for anybody's work. Several ranks in one trace."""
import collections
import contextlib
import json
import pathlib
import shutil
import sqlite3
import subprocess

import pytest

from conftest import BUILD
from gpu_capture import gpu_loop
from make_capture import Capture
from readers import trace
from readers.perfetto import check, query, web  # noqa: F401 (fixtures)
from test_export_foreign import board
from test_export_gpu_readers import export, hta  # noqa: F401 (a fixture)

TRACES = sorted((pathlib.Path(__file__).parents[1] / "data" / "traces").glob("*.json.gz"))
PROFD = BUILD / "bin" / "profd"


def sums(exported, name, start, end):
    """ns of each title on the track whose name begins so, from start to end."""
    track = next((e["pid"], e["tid"]) for e in exported["traceEvents"]
                 if e["ph"] == "M" and e["name"] == "thread_name" and trace.is_track(e) and e["args"]["name"].startswith(name))
    found = collections.Counter()
    for event in trace.events(exported, "X", "Trace"):
        if (event["pid"], event["tid"]) == track:
            begin, stop = trace.interval(event)
            found[event["name"]] += max(0, min(stop, end) - max(begin, start))
    return +found


def table(capture, step):
    """Rows of the breakdown of one step."""
    csv = subprocess.run([PROFD, "show", capture, "--by", "breakdown", "--format", "csv", "--step", str(step)], capture_output=True,
                         text=True, check=True).stdout.splitlines()
    head = csv[0].split(",")
    return [dict(zip(head, line.split(","))) for line in csv[1:]]


def words():
    """{(kind of row, word): title} from the header that has both."""
    text = (pathlib.Path(__file__).parents[2] / "store" / "breakdown" / "breakdown.h").read_text()
    found = {}
    for kind in ("HOST", "IDLE"):
        part = text.split(f"#define BREAKDOWN_{kind}_ROWS")[1].split("\n\n")[0]
        for line in part.split("ROW(")[1:]:
            pieces = line.split('"')
            found[kind, pieces[1]] = pieces[3]
    return found


def check_sums(capture, path):
    exported, known = trace.load(path), words()
    with contextlib.closing(sqlite3.connect(capture)) as db:
        steps = db.execute("SELECT step, start, duration FROM steps").fetchall()
        base = int(db.execute("SELECT value FROM meta WHERE key = 'base_realtime'").fetchone()[0])
    shift = base - exported["baseTimeNanoseconds"]
    checked = 0
    for step, start, duration in steps:
        rows = table(capture, step)
        begin = start + shift
        host = {known["HOST", r["row"]]: int(r["total_ns"]) for r in rows if r["side"] == "host"}
        assert sums(exported, "step thread", begin, begin + duration) == +collections.Counter(host)
        for side in {r["side"] for r in rows} - {"host"}:
            idle = {known["IDLE", r["row"]]: int(r["total_ns"]) for r in rows if r["side"] == side and r["parent"]}
            assert sums(exported, f"{side} idle", begin, begin + duration) == +collections.Counter(idle), (step, side)
            checked += 1
    return exported, checked


@pytest.mark.parametrize("recorded", TRACES, ids=lambda path: path.name.split(".")[0])
def test_sums_of_a_recorded_trace(recorded, tmp_path):
    subprocess.run([PROFD, "import", recorded, "--output", tmp_path / "recorded.db"], check=True, stdout=subprocess.DEVNULL)
    exported, checked = check_sums(tmp_path / "recorded.db", export(tmp_path / "recorded.db", tmp_path / "again.json.gz"))
    assert checked
    # The verdict stands in the metadata, as `show` has it.
    shown = json.loads(subprocess.run([PROFD, "show", tmp_path / "recorded.db", "--by", "findings", "--format", "json"],
                                      capture_output=True, text=True, check=True).stdout)["findings"]
    told = exported["profd"]["verdict"]
    assert told["verdict"] and [f["what"] for f in told["findings"]] == [f["what"] for f in shown]


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tracks")
    return gpu_loop(folder / "loop.db", steps=3, layers=4, devices=2, rank=0, world_size=2), folder / "loop.db"


def counters(exported, name, value):
    return [(trace.nanoseconds(e["ts"]), e["args"][value]) for e in trace.events(exported, "C") if e["name"] == name]


def test_counters(loop, tmp_path):
    """Of intervals of a microsecond, in which this capture is: what each says follows from the device's operations."""
    made, capture = loop
    exported, checked = check_sums(capture, export(capture, tmp_path / "loop.json"))
    assert checked == 6
    begin, end = 1000, max(o["end"] for o in made.device)
    for device in (0, 1):
        operations = [o for o in made.device if o["device"] == device]
        busy, queue = counters(exported, f"device {device} busy", "percent"), counters(exported, f"device {device} queue", "operations")
        assert len(busy) == len(queue) > 10 and busy[0][0] == begin

        def at(values, time):
            return next(value for start, value in reversed(values) if start <= time)
        for start in range(begin, end - 1000, 1000):
            inside = {ns for o in operations for ns in range(max(o["start"], start), min(o["end"], start + 1000))}
            assert abs(at(busy, start) - len(inside) / 10) < 0.11, start
            edges = sorted([(o["launch"][0], 1) for o in operations] + [(o["start"], -1) for o in operations])
            waiting = most = sum(edge for time, edge in edges if time < start)
            for _, edge in (e for e in edges if start <= e[0] < start + 1000):
                waiting += edge
                most = max(most, waiting)
            assert at(queue, start) == most, start


def without_tracks(path, to):
    exported = trace.load(path)
    exported["traceEvents"] = [e for e in exported["traceEvents"] if not trace.is_track(e)]
    to.write_text(json.dumps(exported))
    return to


def test_hta_sees_the_same(hta, loop, tmp_path):  # noqa: F811
    path = export(loop[1], tmp_path / "with.json")
    assert any(map(trace.is_track, trace.load(path)["traceEvents"]))
    assert hta(path, 0, "ProfilerStep") == hta(without_tracks(path, tmp_path / "without.json"), 0, "ProfilerStep")


def test_tensorboard_has_none(loop, tmp_path):
    """Its plugin's trace is as it was, and it reads one of the other format without harm: what is there is no operator."""
    path = export(loop[1], tmp_path / "plain.json", "--format", "tensorboard")
    assert not any(map(trace.is_track, trace.load(path)["traceEvents"]))
    overview, operators = board(loop[1], tmp_path / "logs")
    assert len(overview["steps"]["rows"]) == 3 and {row["name"] for row in operators} == {"aten::addmm", "AddmmBackward0"}


def test_perfetto_shows_them(query, loop, tmp_path):  # noqa: F811
    path = export(loop[1], tmp_path / "loop.json.gz")
    exported, _ = check(query, path)
    threads, values = query(path, f"""select thread.name, count(*) from slice join thread_track on thread_track.id = slice.track_id
                                      join thread using (utid) join process using (upid) where process.pid = {trace.TRACKS} group by 1""",
                            """select counter_track.name, count(*) from counter join counter_track on counter_track.id = counter.track_id
                               group by 1""")
    assert [name for name, _ in threads] == ["device 0 idle, by cause", "device 1 idle, by cause", "step thread 4242, by phase"]
    assert sum(n for _, n in values) == len(trace.events(exported, "C")) and len(values) == 4


def test_many_stretches_are_joined(tmp_path):
    """A hundred and fifty thousand operators with nothing between them: two slices each would make the trace twice as large."""
    with Capture(tmp_path / "many.db", record_end=45_000_000) as c:
        c.collector("torch")
        name = c.string("aten::addmm")
        c.add("steps", step=1, start=0, duration=45_000_000, number=1, thread=4242, source=2, collectors=7)
        c.add_operators([(1, 0, n * 300, 200, 200, n + 1, None, name, 4242, 0, 0, None, -1, 0, 0) for n in range(150_000)])
    exported = trace.load(export(tmp_path / "many.db", tmp_path / "many.json"))
    slices = trace.events(exported, "X", "Trace")
    assert 0 < len(slices) <= 200_000
    assert sum(trace.nanoseconds(e["dur"]) for e in slices) == 45_000_000
    label, = [e["args"]["labels"] for e in trace.events(exported, "M") if e["name"] == "process_labels" and trace.is_track(e)]
    assert "joined" in label


# ---- parts and several in one trace


def test_a_part(loop, tmp_path):
    made, capture = loop
    whole = trace.load(export(capture, tmp_path / "whole.json"))
    part = trace.load(export(capture, tmp_path / "part.json", "--step", "2", "--device", "1"))
    step, = [e for e in trace.events(whole, "X", "user_annotation") if e["name"] == "ProfilerStep#102"]
    begin, end = trace.interval(step)

    def key(event):
        return json.dumps({k: v for k, v in event.items() if k != "args"}, sort_keys=True)

    def belongs(event):
        start, stop = trace.interval(event)
        return start < end and max(stop, start + 1) > begin
    for phase, category in (("X", "cpu_op"), ("X", "cuda_runtime"), ("X", "cuda_driver"), ("X", "user_annotation")):
        assert [key(e) for e in trace.events(part, phase, category)] == \
            [key(e) for e in trace.events(whole, phase, category) if belongs(e)], category
    launched = {(o["start"], o["name"]) for o in made.device if o["device"] == 1 and (o["step"] == 2 or (o["start"] < end and o["end"] > begin))}
    of = [e for c in ("kernel", "gpu_memcpy", "gpu_memset") for e in trace.events(part, "X", c)]
    assert {(trace.interval(e)[0], e["name"]) for e in of} == launched and len(of) == len(launched) > 5
    assert {e["pid"] for e in of} == {1} == {e["pid"] for e in trace.events(part, "M") if e["pid"] < 100}
    # Each flow has both ends.
    assert len(trace.events(part, "s")) == len(trace.events(part, "f")) > 5
    assert {e["name"] for e in trace.events(part, "X", "user_annotation") if trace.is_step(e)} == {"ProfilerStep#102"}


def test_several_ranks(query, loop, tmp_path):  # noqa: F811
    """Side by side on one clock, each with processes of its own, whatever their pids and devices are called."""
    _, capture = loop
    other = shutil.copy(capture, tmp_path / "other.db")
    with contextlib.closing(sqlite3.connect(other)) as db, db:
        base = int(db.execute("SELECT value FROM meta WHERE key = 'base_realtime'").fetchone()[0])
        db.execute("UPDATE meta SET value = ? WHERE key = 'base_realtime'", (base - 7000,))
        db.execute("UPDATE meta SET value = 1 WHERE key = 'rank'")
    path = tmp_path / "ranks.json.gz"
    subprocess.run([PROFD, "export", capture, other, "--output", path], check=True, stdout=subprocess.DEVNULL)
    check(query, path)
    both, one = trace.load(path), trace.load(export(capture, tmp_path / "one.json"))
    kernels = collections.defaultdict(list)
    for event in trace.events(both, "X", "kernel"):
        kernels[event["pid"]].append((trace.nanoseconds(event["ts"]), event["name"]))
    assert len(kernels) == 4
    for device in (0, 1):
        own = [(trace.nanoseconds(e["ts"]), e["name"]) for e in trace.events(one, "X", "kernel") if e["pid"] == device]
        second, = [pid for pid in kernels if pid > 100 and pid % 1000 == device]
        assert kernels[device] == [(time + 7000, name) for time, name in own] and kernels[second] == own
    processes = {e["pid"] for e in both["traceEvents"] if e.get("cat") == "cpu_op"}
    assert len(processes) == 2
    labels = {e["pid"]: e["args"]["labels"] for e in trace.events(both, "M") if e["name"] == "process_labels"}
    assert [labels[pid] for pid in sorted(processes)] == ["CPU, rank 0", "CPU, rank 1"]
    ids = collections.Counter((e["cat"], e["id"]) for e in trace.events(both, "s"))
    assert len(ids) == 2 * len(trace.events(one, "s")) and set(ids.values()) == {1}
    assert len(both["profd_others"]) == 1
