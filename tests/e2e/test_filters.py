"""Every table of `profd show` with every option that shows a part: it is cut, and is then what Python makes of the capture's rows, or it is
refused with a sentence. Which it is stands in one place, client/report/views.def, and is read here from `profd help filters`.

One capture has rows of every table. Of each row it is known in which step, thread, range, device and stream it is."""
import collections
import csv
import io
import json
import os
import pathlib
import re
import sqlite3
import subprocess

import pytest

from gpu_capture import ENGINE, MAIN, gpu_loop

BUILD = pathlib.Path(os.environ.get("PROFD_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
# What is asked for. Phase and range are the same time here; ranges are those of an operator, so that both are tried.
OPTIONS = {"--step": 2, "--range": "aten::addmm", "--phase": "forward", "--thread": ENGINE, "--device": 1, "--stream": 7}
OF_THE_RECORDING = {"sessions", "dropped", "cost"}


def run(*words, code=0):
    done = subprocess.run([BUILD / "bin" / "profd", *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
                          env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == code, (words, done)
    return done


def filters():
    """{view: {option: can it be cut by it}}"""
    listed = re.findall(r"^- (\w+): (.*)$", run("help", "filters").stdout, re.M)
    return {view: {option: option in re.findall(r"--\w+", takes) for option in OPTIONS} for view, takes in listed}


FILTERS = filters()


def insert(db, table, **columns):
    db.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", tuple(columns.values()))


def string(db, text):
    (last,), = db.execute("SELECT max(id) FROM strings").fetchall()
    insert(db, "strings", id=last + 1, text=text)
    return last + 1


def add_memory(db, name):
    for step in (1, 2, 3):
        for number, (kind, device) in enumerate(((0, 0), (1, 0), (1, 1))):
            size = 100 * step + 10 * number
            insert(db, "memory_steps", step=step, device_type=kind, device=device, absolute=0, taken=step + number, taken_bytes=size, given_back=1,
                   given_back_bytes=7, unknown=0, level=size, peak=2 * size, peak_time=step)
            insert(db, "allocations", step=step, flags=0, time=1000 * step + number, address=1, bytes=size, device=device, context=1, stream=7,
                   thread=MAIN, source=1, operation=1 + (number == 1), memory_kind=3, asynchronous=0)
        insert(db, "memory_totals", name=name, step=step, taken=step, taken_bytes=50 * step, given_back=1, unknown=0, self_cpu=step, cpu=step,
               self_device=3 * step, device=3 * step)
    for kind, device, size in ((0, 0, 11), (1, 0, 23), (1, 1, 47)):
        insert(db, "memory_holders", device_type=kind, device=device, name=name, phase="forward", step=2, blocks=1, bytes=size, use="gradients")
        insert(db, "memory_leaks", device_type=kind, device=device, name=name, phase="forward", blocks=1, bytes=size, steps=1)


def add_python(db, name):
    insert(db, "nn_modules", id=1, parent=0, name=0, **{"class": name})
    for step in (1, 2, 3):
        insert(db, "module_totals", module=1, step=step, calls=step, forward=10 * step, backward=step)
        for thread in (MAIN, ENGINE):
            own = step * 1000 + thread
            insert(db, "line_totals", file=name, line=step, step=step, thread=thread, samples=2, host=own, waiting=5)
            insert(db, "function_totals", file=name, line=1, function=name, step=step, thread=thread, samples=2, self=own, host=own, waiting=5)
            insert(db, "samples", step=step, flags=0, time=1000 * step, thread=thread, stack=0, duration=5, state=0)
        insert(db, "compile_events", step=step, flags=0, start=step, duration=step, whole=step, line=0, operators=1, part=0)


def add_calls(db):
    """Of memory, and operations of several processes: in a call of the operator, and outside of one."""
    malloc = string(db, "cudaMalloc")
    for number, (step, thread, start, duration) in enumerate(db.execute("SELECT step, thread, start, duration FROM operators ORDER BY id").fetchall()):
        for late in (1, duration + 1):
            insert(db, "collectives", id=10000 + 2 * number + (late > 1), step=step, thread=thread, start=start + late, duration=3, operation="all_reduce",
                   bytes=1024, group_size=2, begun=start, ended=start + 9)
            call = dict(step=step, domain=2, name=malloc)
            insert(db, "api_calls", flags=0, thread=thread, start=start + late, duration=2 + number, correlation=0, cbid=20, result=number % 2, **call)
            insert(db, "api_totals", calls=1, total=2 + number, min=2 + number, max=2 + number, failed=number % 2, **call)


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = tmp_path_factory.mktemp("filters") / "capture.db"
    gpu_loop(path, devices=2)
    with sqlite3.connect(path) as db:
        for word in ("shapes", "memory", "allocations", "python", "modules", "compile"):
            insert(db, "collectors", collector=word, wanted=1, ran=1, sentence="")
        insert(db, "inputs", id=1, dims="[[2],[3,4],[4,2]]", types='["float","float","float"]', strides="[[1],[4,1],[2,1]]", concrete='["","",""]')
        db.execute("UPDATE operators SET inputs = 1 WHERE name = (SELECT id FROM strings WHERE text = 'aten::addmm')")
        name = string(db, "train.py")
        add_memory(db, name)
        add_python(db, name)
        add_calls(db)
    db.close()
    return path


def show(capture, view, *more):
    return list(csv.DictReader(io.StringIO(run("show", capture, "--by", view, "--format", "csv", "--limit", 0, *more).stdout)))


def sums(rows, *keys):
    return {key: sum(int(row[key] or 0) for row in rows) for key in keys}


class Rows:
    """The capture's rows, each with what tells whether it is of the part."""

    def __init__(self, path):
        self.db = sqlite3.connect(path)
        self.db.row_factory = sqlite3.Row
        named = "SELECT thread, start, start + duration FROM {} WHERE name = (SELECT id FROM strings WHERE text = ?)"
        self.spans = {"--range": self.db.execute(named.format("operators"), ("aten::addmm",)).fetchall(),
                      "--phase": self.db.execute(named.format("ranges"), ("forward",)).fetchall()}

    def has(self, option, row):
        value = OPTIONS[option]
        if option in self.spans:
            return any(row["thread"] == thread and first <= row["start"] < last for thread, first, last in self.spans[option])
        if option == "--device" and "device_type" in row.keys() and not row["device_type"]:
            return False
        return row[option[2:]] == value

    def of(self, option, sql):
        return [dict(row) for row in self.db.execute(sql) if self.has(option, row)]

    def done(self, option, *kinds):
        """Operations of the devices, with what launched them."""
        tables = {"kernels": "name", "copies": "bytes", "sets": "bytes"}
        return [dict(row, kind=kind) for kind in kinds or tables for row in self.of(
            option, f"SELECT r.step, r.device, r.stream, r.start AS begin, r.duration, r.{tables[kind]}, r.correlation, r.{'graph'}, l.thread, l.start "
                    f"FROM {kind} r JOIN launches l USING (correlation)")]


def count(rows, **keys):
    return {"calls": len(rows), **{key: sum(row[column] for row in rows) for key, column in keys.items()}}


def device_rows(*kinds):
    def check(shown, rows, option):
        assert sums(shown, "calls", "total_ns") == count(rows.done(option, *kinds), total_ns="duration")
    return check


def check_graphs(shown, rows, option):
    nodes = [row for row in rows.done(option, "kernels") if row["graph"]]
    assert sums(shown, "calls", "operations", "total_ns") == {"calls": len({row["correlation"] for row in nodes}), "operations": len(nodes),
                                                              "total_ns": sum(row["duration"] for row in nodes)}


def check_busy(shown, rows, option, key=None):
    """Streams and devices: of step_devices, whose rows are of them."""
    wanted = [row for row in rows.of(option, "SELECT * FROM step_devices") if (row["stream"] >= 0) == (key == "stream")]
    keys = ("kernels", "copies", "sets")
    assert sums(shown, "busy_ns", *keys) == {"busy_ns": sum(row["busy"] for row in wanted), **{k: sum(row[k] for row in wanted) for k in keys}}
    assert {tuple(row[k] for k in ("device", key) if k) for row in shown} == {tuple(str(row[k]) for k in ("device", key) if k) for row in wanted}


def check_totals(shown, rows, option):
    row, = shown
    done, busy = rows.done(option), [one for one in rows.of(option, "SELECT * FROM step_devices") if one["stream"] < 0]
    steps = rows.of(option, "SELECT * FROM steps") if option == "--step" else rows.db.execute("SELECT * FROM steps").fetchall()
    assert int(row["wall_ns"]) == sum(step["duration"] for step in steps) and int(row["steps"]) == len(steps)
    assert int(row["device_ns"]) == sum(one["duration"] for one in done) and int(row["device_busy_ns"]) == sum(one["busy"] for one in busy)
    assert [int(row[kind]) for kind in ("kernels", "copies", "sets")] == [sum(one["kind"] == kind for one in done) for kind in ("kernels", "copies", "sets")]
    operators = len(rows.of(option, "SELECT * FROM operators")) if option == "--step" else None
    assert row["operators"] == (str(operators) if operators else "") and row["threads"] == ""


def check_steps(shown, rows, option):
    wanted = [row for row in rows.of(option, "SELECT * FROM step_devices") if row["stream"] < 0]
    assert sums(shown, "device_busy_ns", "kernels") == {"device_busy_ns": sum(row["busy"] for row in wanted), "kernels": sum(row["kernels"] for row in wanted)}
    assert [row["step"] for row in shown] == (["2"] if option == "--step" else ["1", "2", "3"])
    host = len(rows.of(option, "SELECT * FROM operators")) if option == "--step" else ""
    assert {row["operators"] for row in shown} == {str(host)}


def check_breakdown(shown, rows, option):
    """By the whole capture's JSON, whose steps and devices are apart. Rows of the host are no device's: they stay."""
    steps = json.loads(run("show", rows.path, "--format", "json").stdout)["breakdown"]["steps"]
    wanted = collections.Counter()
    for step in steps:
        if option == "--step" and step["step"] != OPTIONS[option]:
            continue
        wanted.update({("host", "", row): ns for row, ns in step["host"]["rows"].items()})
        for device in step["devices"]:
            if option == "--step" or device["device"] == OPTIONS[option]:
                wanted.update({(f"device {device['device']}", "", row): ns for row, ns in device["rows"].items()})
                wanted.update({(f"device {device['device']}", "idle", row): ns for row, ns in device["idle"].items()})
    assert {(row["side"], row["parent"], row["row"]): int(row["total_ns"]) for row in shown} == wanted
    part = json.loads(run("show", rows.path, "--format", "json", option, OPTIONS[option]).stdout)["breakdown"]["steps"]
    assert [one["step"] for one in part] == ([2] if option == "--step" else [1, 2, 3])
    assert {d["device"] for one in part for d in one["devices"]} == ({0, 1} if option == "--step" else {1})


def check_idle(shown, rows, option):
    """The rows tell of what they are."""
    whole = show(rows.path, "idle")
    assert shown == [row for row in whole if row[option[2:]] == str(OPTIONS[option])] and 0 < len(shown) < len(whole)


def check_phases(shown, rows, option):
    operators = rows.of(option, "SELECT * FROM operators")
    assert sums(shown, "operators", "self_cpu_ns") == {"operators": len(operators), "self_cpu_ns": sum(row["self"] for row in operators)}
    assert sums(shown, "device_ns") == {"device_ns": sum(row["duration"] for row in rows.done(option))}
    if option == "--step":
        assert sums(shown, "time_ns")["time_ns"] == sum(row["duration"] for row in rows.of(option, "SELECT * FROM steps"))
    else:
        assert [row["phase"] for row in shown] == ["forward"]
        assert sums(shown, "time_ns")["time_ns"] == sum(last - first for _, first, last in rows.spans["--phase"])


def check_operators(shown, rows, option):
    wanted = rows.of(option, "SELECT * FROM operators")
    assert sums(shown, "calls", "self_cpu_ns", "cpu_ns") == count(wanted, self_cpu_ns="self", cpu_ns="duration")
    device = rows.of(option, "SELECT o.*, d.self AS ns FROM operators o JOIN range_devices d USING (id)")
    assert sums(shown, "self_device_ns")["self_device_ns"] == sum(row["ns"] for row in device)


def check_ranges(shown, rows, option):
    assert sums(shown, "calls", "total_ns") == count(rows.of(option, "SELECT * FROM ranges"), total_ns="duration")


def check_api(shown, rows, option):
    wanted = [dict(row, failed=row["result"] != 0) for row in rows.of(option, "SELECT * FROM api_calls")]
    assert sums(shown, "calls", "total_ns", "failed") == count(wanted, total_ns="duration", failed="failed")


def check_syncs(shown, rows, option):
    wanted = rows.of(option, "SELECT s.step, s.duration, a.thread, a.start FROM syncs s JOIN api_calls a USING (correlation)")
    assert sums(shown, "calls", "total_ns") == count(wanted, total_ns="duration")


def check_launches(shown, rows, option):
    wanted = rows.done(option)
    assert sums(shown, "calls", "total_ns") == count(wanted, total_ns="duration")
    longest = max((row["begin"] - row["start"] for row in wanted), default=None)
    assert max((int(row["delay_max_ns"]) for row in shown), default=None) == longest


def check_overlap(shown, rows, option):
    """Streams: no two operations of one stream overlap here."""
    steps = [row for row in rows.db.execute("SELECT * FROM steps") if option != "--step" or row["step"] == OPTIONS[option]]
    wanted = collections.Counter()
    for one in rows.db.execute("SELECT device, stream, start, duration FROM kernels UNION ALL SELECT device, stream, start, duration FROM copies "
                               "UNION ALL SELECT device, stream, start, duration FROM sets"):
        if option == "--step" or one["device"] == OPTIONS[option]:
            for step in steps:
                wanted[one["device"], one["stream"]] += max(0, min(one["start"] + one["duration"], step["start"] + step["duration"]) - max(one["start"], step["start"]))
    assert {(int(row["device"]), int(row["stream"])): int(row["busy_ns"]) for row in shown if row["stream"]} == {k: ns for k, ns in wanted.items() if ns}
    assert {int(row["device"]) for row in shown} == ({0, 1} if option == "--step" else {1})


def check_collectives(shown, rows, option):
    assert sums(shown, "calls", "host_ns") == count(rows.of(option, "SELECT * FROM collectives"), host_ns="duration")


def check_memory_calls(shown, rows, option):
    wanted = rows.of(option, "SELECT a.* FROM api_calls a JOIN strings s ON s.id = a.name WHERE s.text = 'cudaMalloc'")
    assert sums(shown, "calls", "total_ns", "failed") == count(wanted, total_ns="duration", failed="result")
    # Each but the last of a thread's in a step comes again, be that in the part or not.
    last = {row[0] for row in rows.db.execute("SELECT max(a.start) FROM api_calls a JOIN strings s ON s.id = a.name WHERE s.text = 'cudaMalloc' GROUP BY a.step, a.thread")}
    assert sums(shown, "retried")["retried"] == sum(row["result"] and row["start"] not in last for row in wanted)


def check_flops(shown, rows, option):
    wanted = rows.of(option, "SELECT * FROM operators WHERE inputs IS NOT NULL")
    assert sums(shown, "calls", "cpu_ns", "total_flops") == {**count(wanted, cpu_ns="duration"), "total_flops": 2 * 3 * 4 * 2 * len(wanted)}


def check_tree(shown, rows, option):
    wanted = rows.of(option, "SELECT step, thread, start, duration, self FROM operators UNION ALL SELECT step, thread, start, duration, self FROM ranges")
    assert sums(shown, "calls", "self_ns") == count(wanted, self_ns="self")


def check_threads(shown, rows, option):
    operators, ranges = rows.of(option, "SELECT * FROM operators"), rows.of(option, "SELECT * FROM ranges")
    launches = rows.of(option, "SELECT * FROM launches")
    assert sums(shown, "operators", "self_cpu_ns", "ranges", "launches", "device_ns") == {
        "operators": len(operators), "self_cpu_ns": sum(row["self"] for row in operators), "ranges": len(ranges), "launches": len(launches),
        "device_ns": sum(row["device_time"] for row in launches)}
    assert {int(row["thread"]) for row in shown} == {row["thread"] for row in operators + ranges + launches}


def of_table(table, where="1", **keys):
    """Sums of a table: key of the view -> expression of the table."""
    def check(shown, rows, option):
        columns = ", ".join(f"{expression} AS {key}" for key, expression in keys.items())
        wanted = rows.of(option, f"SELECT *, {columns} FROM {table} WHERE {where}")
        assert wanted and sums(shown, *keys) == {key: sum(row[key] for row in wanted) for key in keys}
    return check


def check_findings(shown, rows, option):
    """A finding of one step is at most that step."""
    wall, = (row["duration"] for row in rows.of(option, "SELECT * FROM steps"))
    assert all(int(row["ns"]) <= wall and row["min_percent"] == row["max_percent"] for row in shown)
    verdict = json.loads(run("show", rows.path, "--format", "json", option, OPTIONS[option]).stdout)["verdict"]
    assert (verdict["steps"], verdict["first_step"], verdict["last_step"]) == (1, 2, 2) and verdict["step_ns"] == wall


CHECKS = {
    "totals": check_totals, "findings": check_findings, "breakdown": check_breakdown, "idle": check_idle, "phases": check_phases, "steps": check_steps,
    "devices": check_busy, "streams": lambda *given: check_busy(*given, key="stream"), "kernels": device_rows("kernels"), "copies": device_rows("copies"),
    "memsets": device_rows("sets"), "graphs": check_graphs, "operators": check_operators, "ranges": check_ranges, "api": check_api, "syncs": check_syncs,
    "launches": check_launches, "overlap": check_overlap, "collectives": check_collectives, "memory_calls": check_memory_calls, "flops": check_flops,
    "tree": check_tree, "threads": check_threads,
    "memory": of_table("memory_totals", taken="taken", taken_bytes="taken_bytes", self_device_bytes="self_device"),
    "memory_steps": of_table("memory_steps", taken="taken", taken_bytes="taken_bytes", peak_bytes="peak", end_bytes="level"),
    "peak": of_table("memory_holders", bytes="bytes", blocks="blocks"), "memory_use": of_table("memory_holders", bytes="bytes", blocks="blocks"),
    "leaks": of_table("memory_leaks", bytes="bytes", blocks="blocks"),
    "device_memory": of_table("allocations", taken="operation = 1", taken_bytes="(operation = 1) * bytes", given_back="operation = 2"),
    "modules": of_table("module_totals", operators="calls", forward_ns="forward", backward_ns="backward"),
    "lines": of_table("line_totals", samples="samples", host_ns="host"), "functions": of_table("function_totals", samples="samples", self_ns="self"),
    "compiles": of_table("compile_events", duration_ns="duration", operators="operators"),
}


@pytest.fixture(scope="module")
def rows(capture):
    made = Rows(capture)
    made.path = capture
    yield made
    made.db.close()


@pytest.mark.parametrize("view", FILTERS)
def test_it_is_cut_or_refused(capture, rows, view):
    for option, value in OPTIONS.items():
        if FILTERS[view][option]:
            CHECKS[view](show(capture, view, option, value), rows, option)
            continue
        said = run("show", capture, "--by", view, option, value, "--format", "csv", code=2)
        takes = [other for other in OPTIONS if FILTERS[view][other]]
        listed = ", ".join(takes[:-1]) + " and " * (len(takes) > 1) + takes[-1] if takes else "none of these options"
        cut = [other for other in FILTERS if FILTERS[other][option]]
        assert f"{option} cannot cut the table {view}, which takes {listed}; tables that take {option}: {', '.join(cut)}\n" in said.stderr
        assert not said.stdout


@pytest.mark.parametrize("option", OPTIONS)
def test_several_tables(capture, option):
    """What cannot be cut is left out, and named; what is of the recording itself stays."""
    value = OPTIONS[option]
    whole, part = (json.loads(run("show", capture, "--format", "json", *more).stdout) for more in ([], [option, value]))
    assert whole["uncut"] is None and set(whole) == set(part)
    names = {"memsets": "sets", "memory": "operator_memory", "peak": "memory_peak", "leaks": "memory_leaks", "device_memory": "memory", "dropped": "losses"}
    refused = {view for view in FILTERS if not FILTERS[view][option]} - OF_THE_RECORDING
    assert set(part["uncut"]) == {names.get(view, view) for view in refused}
    for view in FILTERS:
        key = names.get(view, view)
        assert (part[key] is None) == (view in refused or whole[key] is None), view
    said = " ".join(run("show", capture, "--by", "all", option, value).stdout.split())
    assert f"left out {', '.join(view for view in FILTERS if view in refused)}: {option} cannot cut them (profd help filters)" in said


def test_how_it_is_refused(capture):
    """By any format, of several options those that do not fit, of several tables any; a condition where JSON has no rows."""
    for how in ([], ["--format", "json"], ["--format", "csv"]):
        said = run("show", capture, "--by", "steps", "--thread", ENGINE, "--step", 2, "--stream", 7, *how, code=2)
        assert "--thread and --stream cannot cut the table steps, which takes --step and --device; tables that take --step, --thread and --stream: " \
            "kernels, copies, memsets, graphs, launches\n" in said.stderr and not said.stdout
    assert "the table cost" in run("show", capture, "--by", "kernels", "--by", "cost", "--format", "json", "--step", 1, code=2).stderr
    assert "the table findings" in run("show", capture, "--finding", 1, "--device", 1, code=2).stderr
    # Also of a table that cuts itself nothing is shown where nothing is in the phase.
    for view in ("phases", "idle", "kernels"):
        assert "nothing in the phase optimizer" in run("show", capture, "--by", view, "--phase", "optimizer", code=3).stderr
    for view in ("findings", "breakdown"):
        assert "--format csv" in run("show", capture, "--by", view, "--where", "device=1", "--format", "json", code=2).stderr
    assert {row["device"] for row in show(capture, "breakdown", "--where", "device=1")} == {"1"}
