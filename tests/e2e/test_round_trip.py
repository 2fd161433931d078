"""Recorded traces of real GPUs, imported and exported again: HolisticTraceAnalysis and TensorBoard's plugin say of what comes out what they
say of what went in, and the breakdown has their numbers where the definitions meet. Traces beside those of tests/data/traces:
PROFD_TRACES, a folder.

What does not come back, and so is taken from the original before it is asked about:
- calls outside of all steps, where a trace has steps: a capture holds its steps; so the plugin's rows Runtime and Other of the last step;
- waits (cuda_sync): HTA takes whatever has a stream for work of it, so ours have none but in the format critical-path;
- the digits that a double has not: Kineto's times since 1970, read as doubles, are off by up to 0.25 us; ours count from the first event;
- which operator the plugin gives a kernel's time to, where the original's "External id" names none, or another than the one around the
  launch: ours is the one around it (LINKS).
- operators of one thread that cross: the plugin drops one of them; ours stand on tracks of their own, so it sees both.
Python frames are left out by the import, and counted. Traces without steps get one around all."""
import bisect
import collections
import decimal
import gzip
import itertools
import json
import os
import pathlib
import resource
import sqlite3
import subprocess

import pytest

import sums
from conftest import BUILD
from test_export_gpu_readers import export, python_of, union

HERE = pathlib.Path(__file__).parent
TRACES = sorted((HERE.parents[0] / "data" / "traces").glob("*.json.gz"))
TRACES += sorted(pathlib.Path(os.environ["PROFD_TRACES"]).glob("*.json.gz")) if os.environ.get("PROFD_TRACES") else []
TRACES = list({path.name: path for path in TRACES}.values())
# Traces of which each kernel's "External id" is that of the operator around its launch.
LINKS = ("v100_rank0", "a100_event_sync")
# Of which the kernels of collectives do not name their operator, so that the plugin has most of them in Kernel: ours do, and they are in
# Communication. What the device did in all is the same, up to where the plugin lets a step end: with the last that it can link to it.
COLLECTIVES = ("a100_ddp", "a100_rank3of8")
WORK = ("Kernel", "Memcpy", "Memset", "Communication")
MEMORY = 6 << 30  # a wrong trace makes a reader take all that there is
DEVICE = {"kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset"}


def ask(python, program, *words):
    done = subprocess.run([python, HERE / "readers" / program, *map(str, words)], capture_output=True, text=True, timeout=300,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)),
                          env={**{k: v for k, v in os.environ.items() if not k.startswith("PROFD_")},
                               "MPLCONFIGDIR": str(pathlib.Path(words[0]).parent), "HOME": str(pathlib.Path(words[0]).parent)})
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def read(path):
    with gzip.open(path, "rt", errors="replace") as file:
        found = json.load(file, parse_float=decimal.Decimal)
    return {"schemaVersion": 1, "traceEvents": found} if isinstance(found, list) else found


def readable(original, path):
    """The original for HTA: times that a double holds, and no waits."""
    found = read(original)
    events = [e for e in found["traceEvents"] if e.get("cat") != "cuda_sync"]
    first = min(decimal.Decimal(e["ts"]) for e in events if e.get("ph") == "X" and e.get("cat") not in (None, "Trace"))
    for event in events:
        if "ts" in event:
            event["ts"] = float(decimal.Decimal(event["ts"]) - first)
    found["traceEvents"] = events
    with gzip.open(path, "wt", compresslevel=1) as file:
        json.dump(found, file, default=float)
    return path


@pytest.fixture(scope="module", params=TRACES, ids=lambda path: path.name.split(".")[0])
def imported(request, tmp_path_factory):
    """(the trace, its capture file)"""
    capture = tmp_path_factory.mktemp("imported") / "capture.db"
    subprocess.run([BUILD / "bin" / "profd", "import", request.param, "--output", capture], check=True, stdout=subprocess.DEVNULL)
    assert sums.added_up(capture)[0]
    return request.param, capture


def rounded(value):
    """Comparable: lists without an order, sums of microseconds in doubles."""
    if isinstance(value, list):
        return sorted((rounded(v) for v in value), key=json.dumps)
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items() if k not in ("index", "level_0")}
    return round(value, 2) + 0.0 if isinstance(value, float) else float(value) if isinstance(value, int) else value


def same(found, expected, what):
    found, expected = rounded(found), rounded(expected)
    if found == expected:
        return
    # The last digit may go either way.
    assert len(found) == len(expected), what
    for a, b in zip(found, expected):
        assert a.keys() == b.keys() and all(a[k] == (pytest.approx(b[k], abs=0.021) if isinstance(b[k], float) else b[k]) for k in a), (what, a, b)


def show(capture, view):
    return json.loads(subprocess.run([BUILD / "bin" / "profd", "show", capture, "--by", view, "--format", "json"], capture_output=True, text=True,
                                     check=True).stdout)[view]


def breakdown(capture):
    """{row: ns} of the device side over all steps, None where there are several devices."""
    lines = subprocess.run([BUILD / "bin" / "profd", "show", capture, "--by", "breakdown", "--format", "csv"], capture_output=True,
                           text=True, check=True).stdout.splitlines()
    head = lines[0].split(",")
    rows = [dict(zip(head, line.split(","))) for line in lines[1:]]
    rows = [r for r in rows if r["side"] != "host" and not r["parent"]]
    return {r["row"]: int(r["total_ns"]) for r in rows} if len({r["side"] for r in rows}) == 1 else None


def is_compute(event):
    return event["cat"] in ("kernel", "Kernel") and "nccl" not in event["name"].lower()


def outside_of_steps(original, capture, chosen=lambda event: event["cat"] in DEVICE):
    """ns in which the device worked (on what is chosen) before the first step and behind the last one: HTA adds them, the steps do not have them."""
    steps = show(capture, "steps")
    events = [e for e in read(original)["traceEvents"] if e.get("ph") == "X"]
    marked = [int(decimal.Decimal(e["ts"]) * 1000) for e in events if e["name"].startswith("ProfilerStep#") and e["cat"] in
              ("cpu_op", "Operator", "user_annotation")]
    if not marked:
        return 0
    begin = min(marked)
    end = begin + sum(s["wall_ns"] for s in steps)
    spans = [(int(decimal.Decimal(e["ts"]) * 1000), int((decimal.Decimal(e["ts"]) + decimal.Decimal(e["dur"])) * 1000))
             for e in events if chosen(e)]
    return union((a, min(b, begin)) for a, b in spans if a < begin) + union((max(a, end), b) for a, b in spans if b > end)


def test_hta(imported, tmp_path):
    original, capture = imported
    python = python_of("PROFD_HTA", "HolisticTraceAnalysis")
    expected = ask(python, "hta_answers.py", readable(original, tmp_path / "original.json.gz"), 0)
    found = ask(python, "hta_answers.py", export(capture, tmp_path / "again.json.gz"), 0)
    assert found.pop("collectives") == expected.pop("collectives")
    for what in expected:
        same(found[what], expected[what], what)
    # Its temporal breakdown is that of the steps, with what the device did outside of them.
    own, temporal = breakdown(capture), expected["temporal"][0]
    if own:
        busy = sum(own.get(row, 0) for row in ("compute", "communication", "copies"))
        told = (temporal["compute_time(us)"] + temporal["non_compute_time(us)"]) * 1000
        assert busy + outside_of_steps(original, capture) == pytest.approx(told, abs=2000)
        compute = own.get("compute", 0) + outside_of_steps(original, capture, is_compute)
        assert compute == pytest.approx(temporal["compute_time(us)"] * 1000, abs=2000)
    # Of communication, what is under compute: in percent, to two digits. Where it happens outside of the steps too, that is not ours.
    shown = [row for row in show(capture, "overlap") if row["what"] == "communication"]
    assert bool(shown) == bool(expected["overlap"])
    for row, told in zip(shown, expected["overlap"], strict=True):
        outside = outside_of_steps(original, capture, lambda event: event["cat"] in ("kernel", "Kernel") and not is_compute(event))
        assert not outside or not original.name.startswith("a100_ddp")
        if not outside:
            assert row["overlapped_percent"] == pytest.approx(told["comp_comm_overlap_pctg"], abs=0.011)


# Each operation in the order of its stream, and the call that launched it.
OPERATIONS = """SELECT o.device, o.stream, o.start, o.start + o.duration, a.start, a.start + a.duration FROM (
    SELECT device, stream, start, duration, api FROM kernels UNION ALL SELECT device, stream, start, duration, api FROM copies
    UNION ALL SELECT device, stream, start, duration, api FROM sets) o LEFT JOIN api_calls a ON a.rowid = o.api ORDER BY o.start"""
# Rows of idle time in which the call that ended it had not begun; and that in which it had returned.
NOT_BEGUN, QUEUED = {"input", "op", "outside", "call"}, {"gap"}
KERNEL_WAIT = 30000  # ns; HTA's consecutive_kernel_delay


def idle_by_hta(operations):
    """{stream: {category: ns}} by HTA's rule: a stream's gap is a host wait if the call that ended it began after the work before it."""
    found, reached = collections.defaultdict(collections.Counter), {}
    for _, stream, start, end, call, _ in operations:
        if stream in reached:
            gap = start - reached[stream]
            late = call is not None and call > reached[stream]
            found[stream]["host_wait" if late else "kernel_wait" if gap < KERNEL_WAIT else "other"] += gap
        reached[stream] = end
    return found


def test_idle_time_beside_hta(imported, tmp_path):
    """HTA divides the idle time of each stream into host wait, kernel wait, and other. Its rule, applied to what the capture holds, gives what it says
    of the export. profd's idle time is that of the device: a gap of one stream under which another one works is none. It is divided
    further: of a host wait, the time before the call is that of what the host did (NOT_BEGUN), then come launch, arrival, and what is longer.
    Of a kernel wait and of other, the work was queued (gap, device_wait), or the call was under way (launch, arrival)."""
    _, capture = imported
    python = python_of("PROFD_HTA", "HolisticTraceAnalysis")
    told = collections.defaultdict(dict)
    for row in ask(python, "hta_answers.py", export(capture, tmp_path / "trace.json.gz"), 0)["idle"]:
        told[row["stream"]][row["idle_category"]] = 1000 * row["idle_time"]
    with sqlite3.connect(capture) as db:
        operations = list(db.execute(OPERATIONS))
    reckoned = idle_by_hta(operations)
    assert told.keys() <= reckoned.keys() and told
    for stream, categories in told.items():
        for category, ns in categories.items():
            assert reckoned[stream][category] == pytest.approx(ns, abs=1000), (stream, category)
    shown = show(capture, "idle")
    starts, reached = [row[2] for row in operations], list(itertools.accumulate((row[3] for row in operations), max))
    looked = collections.Counter()
    for row in shown:
        after = bisect.bisect_left(starts, row["end_ns"])
        if not 0 < after < len(operations) or operations[after][4] is None:
            continue
        # Of what begins at one instant, the first: nobody knows which one ended the gap.
        calls = [call for _, _, start, _, *call in operations[after:after + 2] if start == starts[after]]
        began, returned = min(call[0] for call in calls), min(call[1] for call in calls)
        if row["row"] in NOT_BEGUN:
            assert max(call[0] for call in calls) > reached[after - 1], row
        if row["row"] in QUEUED:
            assert returned <= reached[after - 1] or began <= reached[after - 1], row
        looked[row["row"]] += row["duration_ns"]
    assert looked["op"] + looked["outside"] > 0


def plugin_bounds(db):
    """[(begin, end)] of the steps as the plugin has them: one ends with the last operation that it launched, if that is later, and the next begins then."""
    found, reached = [], 0
    for step, start, end in db.execute("SELECT step, start, start + duration FROM steps ORDER BY start").fetchall():
        launched = [db.execute(f"SELECT max(start + duration) FROM {table} WHERE step = ?", (step,)).fetchone()[0] for table in ("kernels", "copies", "sets")]
        begin, reached = max(start, reached), max(end, *(last or 0 for last in launched))
        found.append((begin, reached))
    return found


def kernels_ran(db, begin, end):
    """ns between the two in which a kernel ran."""
    total, reached = 0, begin
    for start, stop in db.execute("SELECT start, start + duration FROM kernels WHERE start < ? AND start + duration > ? ORDER BY start", (end, begin)):
        total += max(min(stop, end) - max(start, reached), 0)
        reached = max(reached, stop)
    return total


def test_step_times_beside_tensorboard(imported, tmp_path):
    """The plugin divides a step as profd divides the device's side: Kernel is compute, to the microsecond; Memcpy and Memset are copies; what is
    left is idle, which profd divides by what the host did for the next operation, and the plugin by what any thread did. Where there are collectives
    it takes copies before communication, and has the host's ranges of them (nccl:all_reduce) in Communication, also while the device is idle. Where
    a step's last kernels run in the next one, the plugin's steps are others than the annotations: of those the time of kernels is compared alone."""
    _, capture = imported
    python = python_of("PROFD_TENSORBOARD", "torch-tb-profiler")
    answer, = ask(python, "tensorboard_answers.py", export(capture, tmp_path / "trace.json.gz", "--format", "tensorboard"))
    with sqlite3.connect(capture) as db:
        steps = db.execute("SELECT start, start + duration FROM steps ORDER BY start").fetchall()
        bounds = plugin_bounds(db)
        ran = [kernels_ran(db, *bound) for bound in bounds]
        rows = collections.defaultdict(collections.Counter)
        for step, row, ns in db.execute("SELECT step, row, ns FROM breakdown WHERE side = 'device'"):
            rows[step][row] += ns
    assert len(answer["steps"]) == len(steps) > 0
    for ours, step, bound, kernels, roles in zip((rows[at] for at in sorted(rows)), steps, bounds, ran, answer["steps"].values()):
        wall = bound[1] - bound[0]
        theirs = collections.Counter({role: 1000 * us for role, us in roles.items()})
        host = sum(theirs[role] for role in ("Runtime", "DataLoader", "CpuOp", "Other"))
        assert theirs["Total"] == pytest.approx(wall, abs=1000)
        if bound != step:
            assert theirs["Kernel"] == pytest.approx(kernels, abs=1000)
            continue
        assert theirs["Kernel"] == pytest.approx(ours["compute"], abs=1000)
        if not theirs["Communication"]:
            assert theirs["Memcpy"] + theirs["Memset"] == pytest.approx(ours["copies"], abs=1000)
            assert host == pytest.approx(ours["idle"], abs=1000) and not ours["communication"]
        else:
            assert ours["communication"] <= theirs["Communication"] and host <= ours["idle"]
            assert ours["idle"] - host < 0.01 * wall


def test_tensorboard(imported, tmp_path):
    original, capture = imported
    python = python_of("PROFD_TENSORBOARD", "torch-tb-profiler")
    path = export(capture, tmp_path / "again.json.gz", "--format", "tensorboard")
    expected, found = ask(python, "tensorboard_answers.py", original, path)
    assert list(found["steps"]) == list(expected["steps"]) and found["devices"] == expected["devices"]
    last = list(expected["steps"])[-1]
    together = original.name.startswith(COLLECTIVES)
    for step, roles in expected["steps"].items():
        for one in (found["steps"][step], roles) if together else ():
            one["Kernel"] = sum(one.pop(role) for role in WORK)
            del one["Total"], one["Other"]
        for role, time in roles.items():
            if step != last or role not in ("Runtime", "Other", "Total"):
                assert found["steps"][step][role] == pytest.approx(time, abs=0.1, rel=2e-3 if together else 0), (step, role)
    assert found["kernels"].keys() == expected["kernels"].keys()
    for name, (count, time) in expected["kernels"].items():
        assert found["kernels"][name] == [count, pytest.approx(time, abs=1)], name
    assert found["operators"].keys() == expected["operators"].keys()
    linked = original.name.startswith(LINKS)
    for name, (count, host, device) in expected["operators"].items():
        assert count <= found["operators"][name][0] <= count + together, name
        assert found["operators"][name][1] == pytest.approx(host, abs=0.1, rel=2e-3 if together else 0), name
        assert not linked or found["operators"][name][2] == pytest.approx(device, abs=0.1), name


def test_kernels_beside_tensorboard(imported):
    """Blocks of a multiprocessor and occupancy, means by time. Kineto says an occupancy of 0 of a kernel whose blocks have more shared memory than
    they get without asking (48 KiB), although it ran; and in whole percents. The plugin's list of names with tensor cores ends with those of 2021."""
    original, capture = imported
    python = python_of("PROFD_TENSORBOARD", "torch-tb-profiler")
    theirs = ask(python, "tensorboard_answers.py", original)[0]["launches"]
    shown = subprocess.run([BUILD / "bin" / "profd", "show", capture, "--format", "json"], capture_output=True, check=True).stdout
    ours = {row["name"]: row for row in json.loads(shown)["kernels"]}
    with sqlite3.connect(capture) as db:
        asking = {name for name, in db.execute("SELECT DISTINCT s.text FROM kernels k JOIN strings s ON s.id = k.name WHERE k.static_shared + "
                                               "k.dynamic_shared > 48 << 10")}
        described = db.execute("SELECT count(*) FROM devices").fetchone()[0] > 0
    assert ours.keys() == theirs.keys() and (ours or "event_sync" in original.name)
    for name, (blocks, occupancy, cores) in theirs.items() if described else ():
        assert ours[name]["blocks_per_sm"] == pytest.approx(blocks, abs=0.001, rel=1e-4), name
        if name in asking:
            assert ours[name]["occupancy_percent"] > occupancy, name
        else:
            assert ours[name]["occupancy_percent"] == pytest.approx(occupancy, abs=0.51), name
        assert bool(ours[name]["tensor_cores"]) == cores or "tensor16x8x8" in name or "wmma_tensorop" in name, name


# What torch says of an operation of several processes, at its record_param_comms and at the kernels of it.
COLLECTIVE = ("Collective name", "dtype", "In msg nelems", "Out msg nelems", "In split size", "Out split size", "Global rank start", "Global rank stride",
              "Group size", "Process Group Name", "Process Group Description", "Process Group Ranks", "Rank", "Seq")


def of_collectives(trace, category):
    """[(ns since the first event, what is said)], by time. One that waits for an earlier operation says nothing that a capture holds. The number of
    a group (torch 2.3) is its name."""
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") == category and "Collective name" in e["args"]]
    found = []
    for event in sorted(events, key=lambda e: e["ts"]):
        said = dict(event["args"])
        if "Process Group ID" in said:
            said["Process Group Name"] = str(said["Process Group ID"])
        if said["Collective name"] != "wait":
            found.append((event["name"], {key: said[key] for key in COLLECTIVE if key in said}))
    return found


def test_collectives(imported, tmp_path):
    """Key by key, of record_param_comms and of kernels; and what stands beside the events of the process groups."""
    original, capture = imported
    told, found = read(original), read(export(capture, tmp_path / "again.json.gz"))
    for category in ("cpu_op", "kernel"):
        assert of_collectives(found, category) == of_collectives(told, category), category
    assert found.get("distributedInfo") == told.get("distributedInfo")
    if original.name.startswith("a100_ddp"):
        assert len(of_collectives(found, "cpu_op")) == len(of_collectives(found, "kernel")) == 21


@pytest.mark.wide
def test_tensorboards_distributed_view(tmp_path):
    """Two workers' traces in one folder, made of one of a DDP job whose collectives have shapes: the plugin tells calls and bytes of each."""
    python = python_of("PROFD_TENSORBOARD", "torch-tb-profiler")
    path, = (path for path in TRACES if path.name.startswith("a100_ddp"))
    trace, folder = read(path), tmp_path / "run"
    folder.mkdir()
    calls, sizes = collections.Counter(), collections.Counter()
    around = [e for e in trace["traceEvents"] if e["name"] == "record_param_comms"]
    for event in trace["traceEvents"]:
        if event.get("cat") == "user_annotation" and event["name"].startswith("nccl:"):
            said, = (e["args"] for e in around if e["tid"] == event["tid"] and e["ts"] <= event["ts"] < e["ts"] + e["dur"])
            event["args"].update({"Input Dims": [[said["In msg nelems"]]], "Input type": ["float"], "Input Strides": [[1]], "Concrete Inputs": [""]})
            calls[event["name"]] += 1
            sizes[event["name"]] += 4 * said["In msg nelems"]
    for rank in range(2):
        trace["distributedInfo"]["rank"] = rank
        (tmp_path / "trace.json").write_text(json.dumps(trace, default=float))
        capture = tmp_path / f"rank{rank}.db"
        subprocess.run([BUILD / "bin" / "profd", "import", tmp_path / "trace.json", "--output", capture], check=True, stdout=subprocess.DEVNULL)
        export(capture, folder / f"rank{rank}.1.pt.trace.json", "--format", "tensorboard")
    shown = ask(python, "tensorboard_distributed.py", folder)
    assert shown and "Distributed" in shown["views"]
    assert {worker: {row[0]: row[1:3] for row in table["rows"]} for worker, table in shown["operations"]["data"].items()} == {
        f"rank{rank}": {name: [calls[name], sizes[name]] for name in calls} for rank in range(2)} and sum(calls.values()) == 21
