"""`profd import`: what torch.profiler wrote is what the capture file holds; what is no trace is refused, and leaves nothing behind."""
import bz2
import collections
import contextlib
import csv
import gzip
import io
import json
import lzma
import os
import pathlib
import pickle
import pty
import resource
import shutil
import sqlite3
import subprocess
import zlib

import pytest

import sums

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD", ROOT / "build"))
PROFD = BUILD / "bin" / "profd"
TRACES = sorted((ROOT / "tests" / "data" / "traces").glob("*.json.gz"))
TRACES += sorted(pathlib.Path(os.environ["PROFD_TRACES"]).glob("*.json.gz")) if os.environ.get("PROFD_TRACES") else []
HOST = {"cpu_op", "Operator", "user_annotation"}
CALLS = {"cuda_runtime", "cuda_driver", "Runtime"}
DEVICE = {"kernel": "kernel_records", "Kernel": "kernel_records", "gpu_memcpy": "copy_records", "Memcpy": "copy_records",
          "gpu_memset": "set_records", "Memset": "set_records"}


def can_mount():
    return os.geteuid() == 0 and shutil.which("unshare") and subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def run(*words, code=0, **more):
    done = subprocess.run([PROFD, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
                          env={**os.environ, "NO_COLOR": "1"}, **more)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    if words[0] == "import" and code == 0 and "--output" in words:
        sums.added_up(more.get("cwd", pathlib.Path()).absolute() / words[words.index("--output") + 1])
    return done


def show(capture, view, *more):
    text = run("show", capture, "--by", view, "--format", "csv", "--limit", 0, *more).stdout
    return list(csv.DictReader(io.StringIO(text)))


def events(trace):
    with gzip.open(trace, "rt") as file:
        data = json.load(file)
    return data if isinstance(data, list) else data["traceEvents"]


def imported(trace, folder):
    capture = folder / "capture.db"
    run("import", trace, "--output", capture)
    return capture


def total(rows, key="calls"):
    return sum(int(row[key]) for row in rows)


def sums_hold(capture):
    """Both sides of the breakdown add up to the steps, and idle to its causes, to the nanosecond."""
    for step in [None, *(row["step"] for row in show(capture, "steps"))]:
        chosen = ["--step", step] if step else []
        wall = total(show(capture, "steps", *chosen), "wall_ns")
        sides = collections.defaultdict(int)
        causes, idle = collections.Counter(), collections.Counter()
        for row in show(capture, "breakdown", *chosen):
            if row["parent"]:
                causes[row["side"]] += int(row["total_ns"])
            else:
                sides[row["side"]] += int(row["total_ns"])
                idle[row["side"]] += int(row["total_ns"]) if row["row"] == "idle" else 0
        assert "host" in sides and set(sides.values()) == {wall}, (capture, step, sides, wall)
        assert +causes == +idle, (capture, step)


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name.split(".")[0])
def test_a_recorded_trace(trace, tmp_path):
    capture = imported(trace, tmp_path)
    found = [e for e in events(trace) if e.get("ph") == "X"]
    of = collections.Counter(e.get("cat") for e in found)
    steps = [(e["ts"], e["ts"] + e["dur"]) for e in found if e["name"].startswith("ProfilerStep#") and e["cat"] in HOST]
    begin, end = min([s[0] for s in steps], default=0), max([s[1] for s in steps], default=1e300)
    with contextlib.closing(sqlite3.connect(capture)) as file:
        rows = {table: file.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table in ("operators", "ranges", "api_calls", *DEVICE.values())}
        # Added up while the rows went by, they stand as SQL would have them.
        groups = [file.execute(f"SELECT name, coalesce(step, 0) FROM {table} ORDER BY rowid").fetchall() for table in ("operator_totals", "range_totals")]
        calls = file.execute("SELECT total(calls), total(self) FROM operator_totals").fetchone()
        assert calls[0] <= rows["operators"] and calls[1] == file.execute("SELECT total(self) FROM operators").fetchone()[0]
    assert groups == [sorted(one) for one in groups]
    assert rows["operators"] + rows["ranges"] == sum(of[c] for c in HOST)
    # Calls outside of all steps are not kept.
    assert rows["api_calls"] == sum(begin <= e["ts"] < end for e in found if e["cat"] in CALLS)
    for category, table in DEVICE.items():
        assert rows[table] == of[category] or not of[category]
    sums_hold(capture)


def test_a_nanosecond_too_many_is_seen(tmp_path):
    """What looks at every capture that a test leaves (sums.py) sees each row that is off by one, and a step without a side."""
    capture = imported(TRACES[1], tmp_path)
    assert sums.added_up(capture)[0] == 3
    for side in ("host", "device", "idle"):
        for change in ("UPDATE breakdown SET ns = ns + 1 WHERE rowid = (SELECT max(rowid) FROM breakdown WHERE side = ?)",
                       "DELETE FROM breakdown WHERE side = ? AND step = 2"):
            spoilt = tmp_path / "spoilt.db"
            shutil.copy(capture, spoilt)
            with contextlib.closing(sqlite3.connect(spoilt)) as db, db:
                assert db.execute(change, (side,)).rowcount > 0
            with pytest.raises(AssertionError):
                sums.added_up(spoilt)


def decimal_ns(text):
    whole, _, part = str(text).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def union(intervals):
    """Sorted and disjoint."""
    joined = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return joined


def overlap(one, other):
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in one for b in other)


# Those without communication and steps.
@pytest.mark.parametrize("trace", [t for t in TRACES[:4] if "nccl" not in t.name], ids=lambda path: path.name.split(".")[0])
def test_the_devices_side_by_intervals(trace, tmp_path):
    """Compute, copies and idle from the trace itself, read as decimals, without a line of ours."""
    capture = imported(trace, tmp_path)
    with gzip.open(trace, "rt") as file:
        found = json.load(file, parse_float=str)["traceEvents"]
    spans = [(e["cat"], decimal_ns(e["ts"]), decimal_ns(e["ts"]) + decimal_ns(e["dur"])) for e in found
             if e.get("ph") == "X" and e.get("cat") in {*HOST, *CALLS, *DEVICE, "cuda_sync", "overhead"}]
    window = [[min(s[1] for s in spans), max(s[2] for s in spans)]]
    compute = union(s[1:] for s in spans if s[0] == "kernel")
    copies = union(s[1:] for s in spans if s[0] in ("gpu_memcpy", "gpu_memset"))
    both = union([tuple(i) for i in compute + copies])
    rows = {row["row"]: int(row["total_ns"]) for row in show(capture, "breakdown") if row["device"] == "0" and not row["parent"]}
    assert rows["compute"] == overlap(compute, window)
    assert rows.get("copies", 0) == overlap(both, window) - overlap(compute, window)
    assert rows["idle"] == window[0][1] - window[0][0] - overlap(both, window)


@pytest.mark.parametrize("which", ["NEWEST", "OTHER"])
def test_torchs_own_trace(which, tmp_path):
    python = os.environ.get(f"PROFD_TORCH_{which}")
    if not python:
        pytest.skip(f"no torch here (PROFD_TORCH_{which})")
    trace = tmp_path / "trace.json.gz"
    done = subprocess.run([python, ROOT / "tests" / "workloads" / "profile_torch.py", trace], capture_output=True, text=True,
                          timeout=300, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    averages = json.loads(done.stdout)
    capture = imported(trace, tmp_path)
    steps = show(capture, "steps")
    assert [int(row["number"]) for row in steps] == [2, 3, 4]
    ours = {row["name"]: row for row in show(capture, "operators") + show(capture, "ranges")}
    for name, row in averages.items():
        if name == "ProfilerStep*":
            continue
        assert int(ours[name]["calls"]) == row["count"], name
        time = int(ours[name].get("cpu_ns") or ours[name]["total_ns"])
        assert time == pytest.approx(row["total_us"] * 1000, rel=0.001, abs=1000 * row["count"]), name
    rows = {row["row"]: int(row["total_ns"]) for row in show(capture, "breakdown")}
    assert all(rows[name] > 0 for name in ("input", "forward", "backward", "optimizer")), rows
    sums_hold(capture)


# Those without communication and steps.
@pytest.mark.parametrize("trace", [t for t in TRACES[:4] if "nccl" not in t.name], ids=lambda path: path.name.split(".")[0])
def test_there_and_back(trace, tmp_path):
    """Exported and imported again, each table is what it was."""
    capture, again = imported(trace, tmp_path), tmp_path / "again.db"
    run("export", capture, "--output", tmp_path / "back.json")
    run("import", tmp_path / "back.json", "--output", again)
    for view in ("kernels", "copies", "memsets", "api"):
        assert show(capture, view) == show(again, view), view
    # In whole microseconds two operators may begin and end together: which lies in which is told by the order in the file alone.
    one, other = ({row["name"]: (row["calls"], row["cpu_ns"], row["device_ns"]) for row in show(file, "operators")}
                  for file in (capture, again))
    assert one == other


def test_idle_after_which_waits(tmp_path):
    """Idle time that came after a wait is told by the wait and its operator, and adds up; once from the file, once of one step."""
    events = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 5, "tid": 5, "ts": n * 1000, "dur": 1000} for n in (3, 4)]
    number = 0

    def launch(start, length, at, takes):
        nonlocal number
        number += 1
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5, "ts": start, "dur": length,
                       "args": {"correlation": number}})
        events.append({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at, "dur": takes,
                       "args": {"device": 0, "stream": 7, "correlation": number}})

    launch(3000, 10, 3020, 280)
    events += [{"ph": "X", "cat": "cpu_op", "name": name, "pid": 5, "tid": 5, "ts": 3100, "dur": length} for name, length in (
        ("aten::item", 210), ("aten::_local_scalar_dense", 205))]
    events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 5, "tid": 5, "ts": 3102, "dur": 201})
    launch(3400, 10, 3420, 280)
    # In no operator; what was idle after it reaches into the next step.
    events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 5, "tid": 5, "ts": 3500, "dur": 205})
    launch(4100, 10, 4120, 780)
    trace = tmp_path / "waits.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    run("import", trace, "--output", tmp_path / "waits.db")
    item = {"call": "cudaStreamSynchronize", "operator": "aten::_local_scalar_dense", "ns": 120000}
    device = {"call": "cudaDeviceSynchronize", "operator": None}
    wanted = [(420000, [{**device, "ns": 300000}, item]), (120000, [{**device, "ns": 120000}])]
    for words, expected in (([], wanted), (["--step", "2"], wanted[1:])):
        steps = json.loads(run("show", tmp_path / "waits.db", "--format", "json", *words).stdout)["breakdown"]["steps"]
        assert [(d["after_sync_ns"], d["after_sync"]) for s in steps for d in s["devices"]] == expected


def test_modules_are_forward(tmp_path):
    """Calls of modules are Python frames; the outermost are kept, as ranges that mark forward. Without them nothing says what was forward here."""
    def frame(name, start, length, thread=5):
        return {"ph": "X", "cat": "python_function", "name": name, "pid": 5, "tid": thread, "ts": start, "dur": length, "args": {"Python id": start}}

    events = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 5, "tid": 5, "ts": n * 1000, "dur": 1000} for n in (3, 4)]
    events += [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "tid": 5, "ts": n * 1000 + at, "dur": 50} for n in (3, 4) for at in (150, 600, 800)]
    modules = [frame("nn.Module: Linear_0", 4120, 100), frame("nn.Module: Net_0", 4100, 300), frame("train.py(7): step", 4000, 900),
               frame("nn.Module: Relu_0", 4250, 50), frame("nn.Module: Net_0", 4700, 200), frame("nn.Module: Early_0", 2000, 1100),
               frame("nn.Module: Elsewhere_0", 4100, 100, 6)]

    def rows(events, left_out):
        trace = tmp_path / "modules.json"
        trace.write_text(json.dumps({"traceEvents": events}))
        answer = json.loads(run("import", trace, "--output", tmp_path / "modules.db", "--force", "--format", "json").stdout)["files"][0]
        assert answer["python_frames_left_out"] == (left_out or 0)
        capture = json.loads(run("show", tmp_path / "modules.db", "--format", "json").stdout)
        assert [s["wall_ns"] for s in capture["steps"]] == [1000000, 1000000]
        assert [note for note in capture["notes"] if "with_stack" in note] == capture["notes"] and len(capture["notes"]) == (left_out is not None)
        return [step["host"]["rows"] for step in capture["breakdown"]["steps"]], {r["name"]: r["total_ns"] for r in capture["ranges"]}

    without, ranges = rows(events, None)
    assert without == [{"operators": 150000, "outside": 850000}] * 2 and not any(name.startswith("nn.Module") for name in ranges)
    found, ranges = rows(modules + events + [frame("<built-in method mm of type object at 0x7f>", 4140, 90)], 1)
    # Early_0 began before anything else that was recorded: what lies before that is no part of a step.
    assert found == [{"forward": 100000, "operators": 150000, "outside": 750000}, {"forward": 500000, "operators": 50000, "outside": 450000}]
    assert {n: t for n, t in ranges.items() if n.startswith("nn.Module")} == {
        "nn.Module: Net_0": 500000, "nn.Module: Early_0": 100000, "nn.Module: Elsewhere_0": 100000}


def written(path, events, **more):
    path.write_text(json.dumps({"traceEvents": events, **more}))
    return path


def event(category, name, start, length, thread=5, **arguments):
    return {"ph": "X", "cat": category, "name": name, "pid": 5, "tid": thread, "ts": start, "dur": length, "args": arguments}


def test_without_steps_it_is_a_window_to_every_verb(tmp_path):
    trace = written(tmp_path / "window.json", [event("cpu_op", "aten::mm", start, 9) for start in range(0, 1000, 10)])
    capture = tmp_path / "window.db"
    run("import", trace, "--output", capture)
    for earlier in (False, True):
        answer = run("show", capture).stdout
        assert "a window of time" in answer.splitlines()[0] and "\na window of 999.0 us" in answer and "the step" not in answer
        assert "a window of time" in run("show", capture, "--by", "all").stdout
        assert json.loads(run("show", capture, "--format", "json").stdout)["capture"]["step_source"] == "duration"
        # Files that were imported by releases which did not write it.
        with contextlib.closing(sqlite3.connect(capture)) as file, file:
            assert file.execute("DELETE FROM meta WHERE key = 'step_source'").rowcount == (not earlier)


def test_a_step_of_number_0_is_one(tmp_path):
    """torch.profiler counts from 0: the first step is told, exported and drawn like the others; a step that is the only one, too."""
    for count, text in ((3, "3 of 3 steps (0 to 2)"), (1, "1 of 1 steps (0)")):
        trace = written(tmp_path / "steps.json", [item for n in range(count) for item in (
            event("user_annotation", f"ProfilerStep#{n}", n * 1000, 1000), event("cpu_op", "aten::mm", n * 1000 + 10, 900))])
        capture, back, page = tmp_path / "steps.db", tmp_path / "back.json", tmp_path / "page.html"
        run("import", trace, "--output", capture, "--force")
        assert text in run("show", capture).stdout.splitlines()[0]
        run("export", capture, "--output", back, "--force")
        names = [e["name"] for e in json.loads(back.read_text())["traceEvents"] if e["name"].startswith("ProfilerStep#")]
        assert names == [f"ProfilerStep#{n}" for n in range(count)]
        run("report", capture, "--output", page, "--force")
        assert f'"number":{count - 1},' in page.read_text() and '"number":0,' in page.read_text()


def test_one_count_of_events(tmp_path):
    """Calls outside of all steps are not in the file, and nobody counts them."""
    events = [event("user_annotation", f"ProfilerStep#{n}", n * 1000, 1000) for n in (1, 2)]
    events += [event("cuda_runtime", "cudaLaunchKernel", start, 5, correlation=start) for start in range(100, 5000, 100)]
    events += [event("kernel", "gemm", start + 10, 5, 7, device=0, stream=7, correlation=start) for start in range(100, 5000, 100)]
    trace, capture = written(tmp_path / "calls.json", events), tmp_path / "calls.db"
    told = json.loads(run("import", trace, "--output", capture, "--format", "json").stdout)["files"][0]["events"]
    assert f": 2 steps, {told} events" in run("import", trace, "--output", capture, "--force").stdout
    assert f"the recording: {told} events, none dropped" in run("show", capture).stdout
    with contextlib.closing(sqlite3.connect(capture)) as file:
        held = sum(file.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("steps", "ranges", "api_calls", "kernel_records", "threads"))
    assert told in (held, held - 1) and json.loads(run("show", capture, "--format", "json").stdout)["capture"]["events"] == told


def test_the_profilers_own_ranges_of_steps_are_no_first_screen(tmp_path):
    """Each has a name of its own: among a user's ranges they would be all that is seen."""
    events = [event("user_annotation", f"ProfilerStep#{n}", n * 1000, 1000) for n in range(8)]
    alone, both = tmp_path / "alone.db", tmp_path / "both.db"
    run("import", written(tmp_path / "steps.json", events), "--output", alone)
    assert "ProfilerStep" not in run("show", alone).stdout
    run("import", written(tmp_path / "both.json", events + [event("user_annotation", "my loss", n * 1000 + 5, 9) for n in range(8)]), "--output", both)
    answer = run("show", both).stdout
    assert "my loss" in answer and "ProfilerStep" not in answer
    assert len(show(both, "ranges")) == 9 and len(json.loads(run("show", both, "--format", "json").stdout)["ranges"]) == 9


DEVICE_A100 = {"id": 0, "name": "A100", "totalGlobalMem": 1 << 35, "computeMajor": 8, "computeMinor": 0, "maxThreadsPerBlock": 1024,
               "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "regsPerMultiprocessor": 65536, "warpSize": 32, "sharedMemPerBlock": 49152,
               "sharedMemPerMultiprocessor": 167936, "numSms": 108}


def test_how_kernels_were_launched(tmp_path):
    """The configuration that took most of the time, means by time, and what differs between calls; of one step; null where it is not known."""
    def kernel(name, start, length, grid, block, device=0, **more):
        return [event("cuda_runtime", "cudaLaunchKernel", start, 1, correlation=start),
                event("kernel", name, start + 1, length, 7, device=device, stream=7, correlation=start, grid=grid, block=block,
                      **{"registers per thread": 32, "shared memory": 1024, **more})]

    events = [event("user_annotation", f"ProfilerStep#{n}", n * 1000, 1000) for n in (1, 2)]
    events += kernel("ampere_sgemm_128x64", 1010, 30, [216, 1, 1], [256, 1, 1])
    events += kernel("ampere_sgemm_128x64", 1110, 10, [27, 2, 2], [1024, 1, 1], **{"registers per thread": 16})
    events += kernel("ampere_sgemm_128x64", 2010, 20, [27, 2, 2], [1024, 1, 1], **{"registers per thread": 16})
    events += kernel("ampere_s16816gemm", 2110, 20, [0, 1, 1], [256, 1, 1])
    events += kernel("add", 2210, 20, [108, 1, 1], [256, 1, 1], device=1)
    capture = tmp_path / "kernels.db"
    run("import", written(tmp_path / "kernels.json", events, deviceProperties=[DEVICE_A100]), "--output", capture)

    def rows(*words):
        return {row["name"]: row for row in json.loads(run("show", capture, "--format", "json", *words).stdout)["kernels"]}

    def figures(row, *keys):
        return [row[key] for key in keys]

    # Of 2,048 threads 512 and 1,024 are there: 25 % for 30 us, 50 % for 30 us; 2 blocks and 1.
    gemm = rows()["ampere_sgemm_128x64"]
    assert figures(gemm, "blocks_per_sm", "occupancy_percent", "configurations", "tensor_cores") == [1.5, 37.5, 2, False]
    assert figures(gemm, "median_ns", "stddev_ns", "shared_memory_bytes") == [20000, 10000, 1024]
    assert (gemm["grid"], gemm["block"], gemm["registers_per_thread"]) in (([216, 1, 1], [256, 1, 1], 32), ([27, 2, 2], [1024, 1, 1], 16))
    gemm = rows("--step", "2")["ampere_sgemm_128x64"]
    assert figures(gemm, "blocks_per_sm", "occupancy_percent", "configurations", "median_ns", "stddev_ns") == [1, 50, 1, 20000, None]
    assert (gemm["grid"], gemm["block"], gemm["registers_per_thread"]) == ([27, 2, 2], [1024, 1, 1], 16)
    # A grid that cannot be, and a device that nobody described.
    unknown = [None, None]
    assert figures(rows()["ampere_s16816gemm"], "blocks_per_sm", "occupancy_percent", "tensor_cores") == [*unknown, True]
    assert figures(rows()["add"], "blocks_per_sm", "occupancy_percent", "tensor_cores", "grid") == [*unknown, None, [108, 1, 1]]
    assert set(rows("--device", "1")) == {"add"} and rows("--device", "0")["ampere_sgemm_128x64"]["configurations"] == 2
    table = run("show", capture, "--by", "kernels", "--format", "csv").stdout
    assert '"27,2,2","1024,1,1"' in table or '"216,1,1","256,1,1"' in table


def test_an_event_of_every_kind(tmp_path):
    """The words of 2021 and those of today; times with fractions, texts for numbers."""
    trace = tmp_path / "old.json"
    trace.write_text(json.dumps({"traceEvents": [
        {"ph": "X", "cat": "Operator", "name": "ProfilerStep#7", "pid": 5, "tid": "5", "ts": 1000, "dur": 100},
        {"ph": "X", "cat": "Operator", "name": "ProfilerStep#8", "pid": 5, "tid": "5", "ts": 1100.25, "dur": 50.5},
        {"ph": "X", "cat": "Operator", "name": "aten::mm", "pid": 5, "tid": "5", "ts": 1010, "dur": 20,
         "args": {"Input Dims": [[2, 3], []], "Input type": ["float", "\"odd\""]}},
        {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel_v7000", "pid": 5, "tid": "5", "ts": 1012, "dur": 3,
         "args": {"correlation": 9, "cbid": 211}},
        {"ph": "X", "cat": "Runtime", "name": "cudaMemcpyAsync", "pid": 5, "tid": "5", "ts": 1016, "dur": 3,
         "args": {"correlation": 11, "cbid": 41}},
        {"ph": "X", "cat": "Kernel", "name": "gemm", "pid": 0, "tid": "stream 7", "ts": 1.02e3, "dur": 30,
         "args": {"device": 0, "context": 1, "stream": 7, "correlation": 9, "grid": [4, 1, 1], "block": [32, 2, 1]}},
        {"ph": "X", "cat": "Memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": "stream 7", "ts": 1060, "dur": 5,
         "args": {"device": 0, "stream": 7, "bytes": 64, "correlation": 11}},
        {"ph": "i", "s": "t", "name": "[memory]", "pid": 5, "tid": 5, "ts": 1011, "args": {"Device Type": 0, "Device Id": -1, "Bytes": 4096}},
        {"ph": "i", "s": "t", "name": "[memory]", "pid": 5, "tid": 5, "ts": 1013, "args": {"Device Type": 0, "Device Id": -1, "Bytes": 256}},
        {"ph": "X", "cat": "python_function", "name": "f", "pid": 5, "tid": 5, "ts": 1000, "dur": 5},
        {"ph": "X", "cat": "from the future", "name": "f", "pid": 5, "tid": 5, "ts": 1000, "dur": 5},
        {"ph": "X", "cat": "cpu_op", "name": "never", "pid": 5, "tid": 5, "ts": 1e300, "dur": 5},
        {"ph": "M", "name": "process_name", "pid": 5, "args": {"name": "python"}},
    ], "distributedInfo": {"rank": 3, "world_size": 8}}))
    answer = json.loads(run("import", trace, "--output", tmp_path / "old.db", "--format", "json").stdout)["files"][0]
    assert answer["steps"] == 2 and answer["python_frames_left_out"] == 1 and answer["unknown_left_out"] == 1
    assert answer["untimed_left_out"] == 1
    capture = json.loads(run("show", tmp_path / "old.db", "--format", "json", "--group-by-shapes").stdout)
    assert capture["capture"]["rank"] == 3 and capture["capture"]["world_size"] == 8
    assert [(s["number"], s["wall_ns"]) for s in capture["steps"]] == [(7, 100250), (8, 50500)]
    assert [(o["name"], o["cpu_ns"], o["input_shapes"]) for o in capture["operators"]] == [("aten::mm", 20000, "[[2, 3], []]")]
    assert [(k["name"], k["total_ns"]) for k in capture["kernels"]] == [("gemm", 30000)]
    assert [(c["name"], c["bytes"]) for c in capture["copies"]] == [("Memcpy HtoD (Pageable -> Device)", 64)]
    assert {a["name"] for a in capture["api"]} == {"cudaLaunchKernel", "cudaMemcpyAsync"}
    devices = [device for step in capture["breakdown"]["steps"] for device in step["devices"]]
    assert sum(d["rows"].get("compute", 0) for d in devices) == 30000 and sum(d["rows"].get("copies", 0) for d in devices) == 5000
    # torch before 1.10 tells no addresses: what was taken is known, who held it is not.
    assert [(row["name"], row["self_cpu_bytes"]) for row in capture["operator_memory"]] == [("aten::mm", 4352)]
    assert capture["memory_peak"] is None and capture["memory_use"] is None and capture["memory_leaks"] is None
    for view in ("peak", "memory_use", "leaks"):
        assert "does not tell one block from another" in run("show", tmp_path / "old.db", "--by", view).stdout, view


COLLECTIVE = {"Collective name": "name", "In msg nelems": "in_elements", "Out msg nelems": "out_elements", "Group size": "group_size", "dtype": "dtype",
              "In split size": "in_split", "Out split size": "out_split", "Process Group Name": "group_name", "Process Group ID": "group_name",
              "Process Group Description": "group_description", "Process Group Ranks": "group_ranks", "Rank": "rank", "Seq": "sequence"}
TEXTS = ("name", "dtype", "in_split", "out_split", "group_name", "group_description", "group_ranks")


def collectives(capture):
    """What the capture holds of them, in their order; texts for the numbers of texts; and the thread of the operator that each was in."""
    columns = [f"(SELECT text FROM strings WHERE id = c.{name}) AS {name}" if name in TEXTS else f"c.{name}" for name in COLLECTIVE.values()]
    with contextlib.closing(sqlite3.connect(capture)) as file:
        file.row_factory = sqlite3.Row
        return [dict(row) for row in file.execute(
            f"SELECT {', '.join(dict.fromkeys(columns))}, c.point_to_point, c.asynchronous, c.unknown, c.step, c.time, o.start, o.thread, "
            "(SELECT text FROM strings WHERE id = o.name) AS operator FROM collective_records c LEFT JOIN operators o ON o.id = c.operator ORDER BY c.time")]


@pytest.mark.parametrize("trace", [trace for trace in TRACES if trace.name.startswith(("a100_ddp", "v100_rank0"))], ids=lambda path: path.name.split(".")[0])
def test_what_torch_says_of_collectives(trace, tmp_path):
    """Key by key; an event that waits for an earlier operation is none. The words of torch 2.3 (Process Group ID) are those of later ones here."""
    capture = imported(trace, tmp_path)
    told = sorted((e for e in events(trace) if e["name"] == "record_param_comms" and e["args"]["Collective name"] != "wait"), key=lambda e: e["ts"])
    found = collectives(capture)
    assert len(found) == len(told) > 20
    for row, event in zip(found, told):
        assert row["operator"] == "record_param_comms" and row["thread"] == event["tid"] and row["start"] == row["time"]
        expected = {COLLECTIVE[key]: value for key, value in event["args"].items() if key in COLLECTIVE}
        assert {key: row[key] for key in expected} == {**expected, "group_name": str(expected["group_name"])}
        # What is not told is not known; neither trace has these.
        assert row["sequence"] == -1 and row["unknown"] == 4 and not row["asynchronous"] and not row["point_to_point"]
    with gzip.open(trace, "rt") as file:
        about = json.load(file)["distributedInfo"]
    with contextlib.closing(sqlite3.connect(capture)) as file:
        assert json.loads(file.execute("SELECT value FROM meta WHERE key = 'distributed_info'").fetchone()[0]) == about


def test_collectives_of_strange_traces(tmp_path):
    """Later keys, lists that are cut or no texts, values that nobody expects: what cannot be is not known, and nothing is made up."""
    def comm(at, **args):
        return {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 5, "tid": 5, "ts": at, "dur": 5,
                "args": {name.replace("_", " "): value for name, value in args.items()}}

    ranks = "[" + ", ".join(map(str, range(30)))
    rows = {
        "newest": comm(10, **{"Collective name": "send", "Seq": 4242424242, "Rank": 3, "Dst Rank": 3, "Is asynchronized op": 1, "In msg nelems": 7,
                              "Out msg nelems": 0, "Process Group Ranks": ranks + ", ...]", "Group size": 64}),
        "empty": comm(20, **{"Collective name": "barrier"}),
        "lists": comm(30, **{"Collective name": "a", "Process Group Ranks": [2, 5], "In split size": "[ 1,2 ]", "Out split size": "[1, [2]]", "Rank": 0,
                             "Process Group ID": 12, "Is asynchronized op": 0}),
        "wrong": comm(40, **{"Collective name": "b", "Process Group Ranks": "]; DROP", "In split size": "[1", "Out split size": {"a": [1]}, "Rank": -4,
                             "Seq": -9, "In msg nelems": -5, "Out msg nelems": 1e300, "Group size": "many", "dtype": 8, "Process Group Name": None}),
        "huge": comm(50, **{"Collective name": "c" * (1 << 20), "Seq": 1 << 61, "Rank": 1 << 40, "Group size": 1 << 40, "In msg nelems": 1 << 60,
                            "Process Group Ranks": "[" + "1, " * (1 << 18) + "1]", "In split size": "[" + "9" * 60 + "]", "dtype": "\u0000\u001b[31m"}),
        "wait": comm(60, **{"Collective name": "wait"}),
        "nameless": comm(70, **{"In msg nelems": 8}),
        "no text": comm(80, **{"Collective name": ["allreduce"]}),
    }
    trace = tmp_path / "strange.json"
    trace.write_text(json.dumps({"traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 5, "tid": 5, "ts": 0, "dur": 100}, *rows.values(),
        {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 5, "tid": 5, "ts": 11, "dur": 2,
         "args": {"Input Dims": [[16]], "Input type": ["float"], "Input Strides": [[1]], "Concrete Inputs": [""]}},
    ], "distributedInfo": {"rank": 3, "world_size": 1e99, "odd": [{"\u0001": None}]}}))
    capture = imported(trace, tmp_path)
    found = dict(zip(rows, collectives(capture)))
    assert len(found) == 5
    newest = found["newest"]
    assert (newest["sequence"], newest["rank"], newest["asynchronous"], newest["point_to_point"], newest["unknown"]) == (4242424242, 3, 2, 1, 0)
    assert newest["group_ranks"] == ranks + "]" and newest["group_size"] == 64 and newest["out_elements"] == 0
    empty = {key: value for key, value in found["empty"].items() if key in (*COLLECTIVE.values(), "unknown", "asynchronous") and key != "name"}
    assert {key: value for key, value in empty.items() if value} == {"sequence": -1, "unknown": 7}
    lists = found["lists"]
    assert (lists["group_ranks"], lists["in_split"], lists["out_split"], lists["group_name"]) == ("[2, 5]", "[1, 2]", None, "12")
    assert (lists["rank"], lists["unknown"], lists["asynchronous"]) == (0, 3, 1)
    wrong = {key: value for key, value in found["wrong"].items() if key in (*COLLECTIVE.values(), "unknown", "asynchronous") and key != "name"}
    assert {key: value for key, value in wrong.items() if value} == {"sequence": -1, "unknown": 7}
    huge = found["huge"]
    assert len(huge["name"]) == 1 << 20 and huge["sequence"] == 1 << 61 and huge["in_elements"] == 1 << 60 and huge["unknown"] == 6
    assert huge["rank"] == huge["group_size"] == 0 and json.loads(huge["group_ranks"]) == [1] * 30 and huge["in_split"] is None and huge["dtype"] == "??[31m"
    # Beside the events: rank is taken, a world of 1e99 is none; all is kept.
    capture_json = json.loads(run("show", capture, "--format", "json").stdout)["capture"]
    assert capture_json["rank"] == 3 and capture_json["world_size"] is None
    with contextlib.closing(sqlite3.connect(capture)) as file:
        assert json.loads(file.execute("SELECT value FROM meta WHERE key = 'distributed_info'").fetchone()[0])["odd"] == [{"\u0001": None}]
        dims = "SELECT i.dims, i.types FROM ranges r JOIN inputs i ON i.id = r.inputs JOIN strings s ON s.id = r.name WHERE s.text = 'gloo:all_reduce'"
        assert file.execute(dims).fetchall() == [("[[16]]", '["float"]')]


SPACES = b'{"traceEvents": []}' + b" " * 100000
BAD = {
    "empty": (b"", "it is empty"),
    "no JSON": (b"hello", "at byte 1 of its JSON"),
    "cut off": (b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a', "at byte"),
    "no events": (b'{"traceEvents": []}', "holds no events of torch.profiler"),
    "other JSON": (b'{"a": [1, 2, {"b": null}]}', "holds no events of torch.profiler"),
    "two values": (b'{"traceEvents": []} {}', "at byte"),
    "cut off, compressed": (gzip.compress(SPACES)[:-12], "ends too early, at its byte"),
    "without an end, compressed": (gzip.compress(SPACES)[:-4], f"at its byte {len(gzip.compress(SPACES)) - 4}, behind byte {len(SPACES)} of its JSON"),
    "deep": (b"[" * 100000, "at byte"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_trace_is_refused(name, tmp_path):
    data, sentence = BAD[name]
    (tmp_path / "bad.json").write_bytes(data)
    done = run("import", "bad.json", code=1, cwd=tmp_path)
    assert sentence in done.stderr and "bad.json" in done.stderr and not done.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["bad.json"]


def test_where_a_packed_trace_ends_too_early(tmp_path):
    """A file says at which of its own bytes, and behind which one of its text; of a pipe nobody knows the former."""
    part = TRACES[0].read_bytes()
    part = part[:len(part) // 2]
    text = len(zlib.decompressobj(31).decompress(part))
    (tmp_path / "part.json.gz").write_bytes(part)
    said = f"the compressed file ends too early, at its byte {len(part)}, behind byte {text} of its JSON"
    assert said in run("import", "part.json.gz", code=1, cwd=tmp_path).stderr
    done = subprocess.run([PROFD, "import", "-", "--output", "x.db"], input=part, capture_output=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 1 and f"the compressed file ends too early, behind byte {text} of its JSON" in done.stderr.decode()
    assert [p.name for p in tmp_path.iterdir()] == ["part.json.gz"]


def test_files_of_odd_kinds(tmp_path):
    os.mkfifo(tmp_path / "fifo.json")
    for name, sentence in (("fifo.json", "no regular file"), (".", "no regular file"), ("absent.json", "cannot be opened")):
        assert sentence in run("import", name, "--output", "x.db", code=1, cwd=tmp_path).stderr
    trace = TRACES[0]
    (tmp_path / "there.db").write_text("mine")
    assert "there.db is there already" in run("import", trace, "--output", "there.db", code=2, cwd=tmp_path).stderr
    assert (tmp_path / "there.db").read_text() == "mine"
    run("import", trace, "--output", "there.db", "--force", cwd=tmp_path)
    run("show", "./there.db", cwd=tmp_path)
    assert "cannot be written" in run("import", trace, "--output", "none/x.db", code=1, cwd=tmp_path).stderr
    assert "--output names one file" in run("import", trace, trace, "--output", "x.db", code=2, cwd=tmp_path).stderr


FOREIGN = {
    "trace.json.zst": (b"\x28\xb5\x2f\xfd\x24\x00", "compressed by zstd; unpack it on the way: `zstd -dc trace.json.zst | profd import - --output"),
    "trace.json.xz": (lzma.compress(b"{}"), "compressed by xz; unpack it on the way: `xz -dc trace.json.xz | profd import -"),
    "trace.json.bz2": (bz2.compress(b"{}"), "compressed by bzip2"),
    "trace.zip": (b"PK\x03\x04\x14\x00", "`unzip -p trace.zip | profd import -"),
    "nsys.sqlite": (b"SQLite format 3\x00\x10\x00", "it is an SQLite database"),
    "x.nsys-rep": (b"\x4e\x07\x01", "it is a report of nsys"),
    "perfetto": (b"\x0a\x1f\x0a\x08\x12\x0c", "it is a trace in Perfetto's own format"),
    "snapshot.pickle": (pickle.dumps({"segments": []}), "it is a Python pickle"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_others_write_is_named(name, tmp_path):
    data, sentence = FOREIGN[name]
    (tmp_path / name).write_bytes(data)
    done = run("import", name, code=1, cwd=tmp_path)
    assert sentence in done.stderr and "of its JSON" not in done.stderr and [p.name for p in tmp_path.iterdir()] == [name]


def test_pipes(tmp_path):
    """Plain and compressed from a pipe, as from the file; JSON that begins with a line feed is no foreign file."""
    events = [event("cpu_op", "aten::mm", start, 9) for start in range(0, 20000, 10)]
    text = b"\n" + json.dumps({"traceEvents": events}).encode()
    (tmp_path / "file.json").write_bytes(text)
    run("import", "file.json", cwd=tmp_path)
    for name, data in (("plain", text), ("packed", gzip.compress(text))):
        done = subprocess.run([PROFD, "import", "-", "--output", f"{name}.db"], input=data, capture_output=True, cwd=tmp_path, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"") and b"2,002 events" in done.stdout
        assert show(tmp_path / f"{name}.db", "operators") == show(tmp_path / "file.db", "operators")
    files = sorted(p.name for p in tmp_path.iterdir())
    assert "standard input, which has no name" in run("import", "-", code=2, cwd=tmp_path).stderr
    assert "--output names a file" in run("import", "file.json", "--output", "-", code=2, cwd=tmp_path).stderr
    assert "it is empty" in run("import", "-", "--output", "x.db", code=1, cwd=tmp_path).stderr
    master, slave = pty.openpty()
    done = subprocess.run([PROFD, "import", "-", "--output", "x.db"], stdin=slave, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 1 and "it is a terminal" in done.stderr
    os.close(master)
    os.close(slave)
    assert sorted(p.name for p in tmp_path.iterdir()) == files


def test_versions_of_cuda_are_told(tmp_path):
    """Another driver may be all that is different; it comes back in an export, too. What is no number is none."""
    kernel = [event("kernel", "gemm", 10, 5, 7, device=0, stream=7)]
    for name, driver, runtime in (("a", 12090, 12040), ("b", 12080, "12.8")):
        trace = written(tmp_path / f"{name}.json", kernel, cuda_driver_version=driver, cuda_runtime_version=runtime, cupti_version=22)
        run("import", trace, "--output", tmp_path / f"{name}.db")
    answer = json.loads(run("diff", tmp_path / "a.db", tmp_path / "b.db", "--format", "json").stdout)
    assert [(d["what"], d["a"], d["b"]) for d in answer["differences"] if d["what"].endswith("version")] == [("driver_version", "12090", "12080")]
    assert [answer[side][key] for side in "ab" for key in ("cupti_version", "runtime_version")] == ["22", "12040", "22", None]
    run("export", tmp_path / "a.db", "--output", tmp_path / "back.json")
    back = json.loads((tmp_path / "back.json").read_text())
    assert [back[key] for key in ("cuda_driver_version", "cuda_runtime_version", "cupti_version")] == [12090, 12040, 22]


def test_one_bad_file_among_good_ones(tmp_path):
    (tmp_path / "bad.json").write_text("{")
    done = run("import", TRACES[0], "bad.json", TRACES[1], code=1, cwd=tmp_path)
    assert done.stdout.count(".db: ") == 2 and "bad.json" in done.stderr
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".db", ".db", ".json"]


def test_memory_does_not_grow_with_the_trace(tmp_path):
    """300,000 operators, each with a name and shapes of its own now and then: far below what the events would take."""
    trace = tmp_path / "large.json.gz"
    with gzip.open(trace, "wt", compresslevel=1) as file:
        file.write('{"traceEvents": [')
        for i in range(300000):
            file.write('%s{"ph": "X", "cat": "cpu_op", "name": "aten::op%d", "pid": 1, "tid": 1, "ts": %d.5, "dur": 0.25, '
                       '"args": {"Input Dims": [[%d, 64]]}}' % ("," if i else "", i % 5000, 1000000 + i, i % 1000))
        file.write("]}")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    run("import", trace, "--output", tmp_path / "large.db")
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert total(show(tmp_path / "large.db", "operators")) == 300000
    assert after <= max(before, 200 << 10), after  # KiB


def write_long(path, steps=1400):
    """A trace of 300 operators, launches and kernels a step, one after the other."""
    with open(path, "w") as file:
        file.write('{"deviceProperties": [{"id": 0, "name": "A GPU"}], "traceEvents": [\n')
        for step in range(steps):
            at = 1000000 + step * 1000
            lines = [f'{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{step}","pid":7,"tid":7,"ts":{at},"dur":950}}']
            for i in range(100):
                now, correlation = at + i * 9, step * 100 + i + 1
                lines += [f'{{"ph":"X","cat":"cpu_op","name":"aten::op{i}","pid":7,"tid":7,"ts":{now},"dur":6}}',
                          f'{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":7,"ts":{now + 1},"dur":3,'
                          f'"args":{{"correlation":{correlation}}}}}',
                          f'{{"ph":"X","cat":"kernel","name":"kernel{i}","pid":0,"tid":7,"ts":{now + 5},"dur":2,'
                          f'"args":{{"device":0,"stream":7,"correlation":{correlation},"grid":[1,1,1],"block":[32,1,1]}}}}']
            file.write(("," if step else "") + ",\n".join(lines) + "\n")
        file.write("]}\n")


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("long") / "long.json"
    write_long(path)
    return path


@pytest.mark.skipif("-" in BUILD.name, reason="a sanitizer takes memory of its own")
def test_what_grows_with_the_trace_lies_in_files(long_trace, tmp_path):
    """Memory of its own is limited to what suffices for no array that is as long as the trace: each lies in a file, which is no such memory. The
    verdict, which needs them, is made, and nothing is left in the folder. What is allowed is counted by the kernel, whatever the machine does."""
    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (104 << 20, 104 << 20))
    run("import", long_trace, "--output", tmp_path / "long.db", preexec_fn=limit)
    assert [p.name for p in tmp_path.iterdir()] == ["long.db"]
    with sqlite3.connect(tmp_path / "long.db") as db:
        assert db.execute("SELECT value FROM meta WHERE key = 'verdict_abstains'").fetchall() == [("",)]
        assert db.execute("SELECT count(*) FROM breakdown").fetchone()[0] > 1400


@pytest.mark.skipif(not can_mount(), reason="needs root that may mount")
@pytest.mark.parametrize("mib", [4, 24, 46, 80, 110])
def test_a_full_disk_ends_an_import_with_a_sentence(mib, long_trace, tmp_path):
    """On a small file system: it says so and removes what it made, or the capture is whole. Where it is full depends on what is written when."""
    folder = tmp_path / "disk"
    folder.mkdir()
    script = f'mount -t tmpfs -o size={mib}m none "$1" && cd "$1" && "$2" import "$3" --output here.db; echo "code $?"; ls -A'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", folder, PROFD, long_trace], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=600, check=False)
    if mib > 46 and "code 0" in done.stdout:
        assert done.stdout.splitlines()[1:] == ["code 0", "here.db"] and not done.stderr
    else:
        assert done.stdout == "code 1\n" and done.stderr.startswith("profd: ") and done.stderr.count("\n") == 1, (done.stdout, done.stderr)
