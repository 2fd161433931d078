"""Traces with a device side in the programs that people read them with: Perfetto's trace processor and user interface,
HolisticTraceAnalysis, TensorBoard's torch_tb_profiler. What they say is compared with what the capture was made of.

PROFD_HTA and PROFD_TENSORBOARD name the pythons that have the latter two; ./dev test sets them.
"""
import collections
import json
import os
import pathlib
import subprocess

import pytest

from conftest import BUILD
from gpu_capture import DEVICE, MAIN, STREAM_SYNC, contexts, gpu_loop, threads
from make_capture import Capture
from readers import trace
from readers.perfetto import check, chromium, query, see, web  # noqa: F401 (fixtures)
from readers.tensorboard import TensorBoard

HERE = pathlib.Path(__file__).parent


def python_of(variable, package):
    """A python of ./dev's; CI must have it."""
    python = os.environ.get(variable)
    if not python:
        if os.environ.get("CI"):
            pytest.fail(f"{variable} is not set")
        pytest.skip(f"{variable} is not set (a python with {package}); ./dev test sets it")
    return python


def export(capture, path, *arguments):
    done = subprocess.run([BUILD / "bin" / "profd", "export", capture, "--output", path, *arguments], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    return pathlib.Path(done.stdout.strip())


# ---- Perfetto


@pytest.fixture
def two_devices(tmp_path):
    """(loop, path of its trace)"""
    loop = gpu_loop(tmp_path / "loop.db", steps=3, layers=6, devices=2, simulated=1)
    return loop, export(tmp_path / "loop.db", tmp_path / "loop.json.gz")


def test_trace_processor_takes_devices(query, two_devices):
    loop, path = two_devices
    check(query, path)
    categories, times, launched = query(
        path, "select category, count(*) from slice group by category",
        """select process.pid, thread.tid, slice.name, sum(slice.dur), count(*) from slice
           join thread_track on thread_track.id = slice.track_id join thread using (utid) join process using (upid)
           where slice.category in ('kernel', 'gpu_memcpy', 'gpu_memset') group by 1, 2, 3""",
        """select call.name, operation.name, count(*) from flow join slice as call on call.id = flow.slice_out
           join slice as operation on operation.id = flow.slice_in group by 1, 2""")
    kinds = collections.Counter(o["kind"] for o in loop.device)
    assert {category: n for category, n in categories if category in kinds} == kinds
    assert sum(n for category, n in categories if category in ("cuda_runtime", "cuda_driver")) == loop.calls
    sums = collections.defaultdict(lambda: [0, 0])
    for o in loop.device:
        one = sums[o["device"], o["stream"], o["name"]]
        one[0] += o["end"] - o["start"]
        one[1] += 1
    assert {(pid, tid, name): [total, n] for pid, tid, name, total, n in times} == sums
    api = {"gpu_memcpy": "cudaMemcpyAsync", "gpu_memset": "cudaMemsetAsync"}
    assert {(call, name): n for call, name, n in launched} == collections.Counter(
        (api.get(o["kind"]) or ("cuLaunchKernel" if "backward" in o["name"] else "cudaGraphLaunch" if "node" in o["name"]
                                else "cudaLaunchKernel"), o["name"]) for o in loop.device)


def awkward(path):
    """What is rare, all in one: overlaps of all kinds, more waits than one, what is clipped, what has no length."""
    with Capture(path, pid=1) as c:
        contexts(c, 2)
        threads(c)
        c.add("steps", step=1, start=0, duration=100000, number=1, thread=MAIN, source=2, collectors=0x17)
        for i in range(40):
            c.call("cudaLaunchKernel", 100 * i, 80, i + 1, step=1, thread=1 + i % 3)
            c.kernel("_Z%ddk\"\\v" % i, 1000 + 90 * i, 100 + 50 * (i % 7), i + 1, device=i % 2, context=1 + i % 2,
                     stream=(7, 1, 0)[i % 3])
            c.add("syncs", start=1000 + 60 * i, duration=300, correlation=500 + i, context=1 + i % 2,
                  stream=(7, 0xFFFFFFFF)[i % 2], event=0, event_sync=0, kind=STREAM_SYNC, result=0)
            c.add("overheads", start=500 * i, duration=700, thread=MAIN, kind=1 << 16, correlation=0)
        c.call("cudaMemsetAsync", 50000, 0, 600, step=1)
        c.set(DEVICE, 10, 50000, 0, 600)
        c.call("cudaLaunchKernel", 51000, 10, 601, step=1)
        c.kernel("_Z5earlyv", 50900, 10, 601)
        for i in range(30):  # more side by side than there are tracks
            c.call("cudaGraphLaunch", 60000 + i, 20, 700 + i, step=1)
            c.graph_launch(3, 61000 + 10 * i, 1000, 700 + i)
        c.derive_device()
    return path


def test_trace_processor_takes_what_is_rare(query, tmp_path):
    path = export(awkward(tmp_path / "awkward.db"), tmp_path / "awkward.json")
    ours, _ = check(query, path)
    assert trace.crossings(ours) == []
    assert ours["profdFlowsLeftOut"] > 0


def test_perfetto_shows_devices(web, chromium, two_devices):
    _, path = two_devices
    titles = see(web, chromium, path, "gpu.png")
    shown = "\n".join(titles)
    assert "stream 7" in shown and "stream 20" in shown


# ---- HolisticTraceAnalysis


@pytest.fixture(scope="module")
def hta():
    python = python_of("PROFD_HTA", "HolisticTraceAnalysis")

    def ask(path, rank, *more):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PROFD_")}
        environment.update(MPLCONFIGDIR=str(path.parent), HOME=str(path.parent))
        done = subprocess.run([python, HERE / "readers" / "hta_answers.py", path, str(rank), *more], capture_output=True,
                              text=True, timeout=600, env=environment)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])
    return ask


def union(intervals):
    total, reached = 0, None
    for start, end in sorted(intervals):
        if reached is None or start > reached:
            total += end - start
            reached = end
        elif end > reached:
            total += end - reached
            reached = end
    return total


def close(found, nanoseconds):
    """A sum of microseconds in doubles."""
    return found == pytest.approx(nanoseconds / 1000, abs=1e-3)


def spans(operations):
    return [(o["start"], o["end"]) for o in operations]


def test_hta_finds_every_kernel(hta, tmp_path):
    loop = gpu_loop(tmp_path / "loop.db", steps=5, layers=6, rank=3, world_size=8)
    answers = hta(export(tmp_path / "loop.db", tmp_path / "loop.json.gz"), 3)
    by_name = collections.defaultdict(list)
    for o in loop.device:
        by_name[o["name"]].append(o["end"] - o["start"])
    assert {row["name"] for row in answers["kernels"]} == set(by_name)
    for row in answers["kernels"]:
        times = by_name[row["name"]]
        assert close(row["sum (us)"], sum(times)) and close(row["max (us)"], max(times))
        assert close(row["min (us)"], min(times)) and close(row["mean (us)"], sum(times) / len(times))
        assert row["rank"] == 3


def test_hta_tells_busy_from_idle(hta, tmp_path):
    """Idle, computing and copying time of the device are the union's, waits left out."""
    loop = gpu_loop(tmp_path / "loop.db", steps=5, layers=6, rank=0, world_size=1)
    answers = hta(export(tmp_path / "loop.db", tmp_path / "loop.json"), 0)
    kernels = spans(o for o in loop.device if o["kind"] == "kernel")
    everything = spans(loop.device)
    total = max(end for _, end in everything) - min(start for start, _ in everything)
    temporal, = answers["temporal"]
    assert close(temporal["kernel_time(us)"], total)
    assert close(temporal["idle_time(us)"], total - union(everything))
    assert close(temporal["compute_time(us)"], union(kernels))
    assert close(temporal["non_compute_time(us)"], union(everything) - union(kernels))

    streams = collections.defaultdict(float)
    for row in answers["idle"]:
        streams[row["stream"]] += row["idle_time"]
    for stream in (7, 20):
        own = sorted(spans(o for o in loop.device if o["stream"] == stream))
        gaps = sum(max(0, after[0] - before[1]) for before, after in zip(own, own[1:]))
        assert close(streams[stream], gaps), stream


def test_hta_correlates_launches(hta, tmp_path):
    loop = gpu_loop(tmp_path / "loop.db", steps=5, layers=6, rank=0, world_size=1)
    answers = hta(export(tmp_path / "loop.db", tmp_path / "loop.json"), 0)
    # It knows these calls; a call of a graph, which launches several, is none of them.
    known = {o["correlation"]: o for o in loop.device if "node" not in o["name"] and "backward" not in o["name"]}
    launches = {row["correlation"]: row for row in answers["launches"]}
    assert set(launches) == set(known)
    for correlation, row in launches.items():
        o = known[correlation]
        assert close(row["cpu_duration"], o["launch"][1] - o["launch"][0])
        assert close(row["gpu_duration"], o["end"] - o["start"])
        assert close(row["launch_delay"], max(0, o["start"] - o["launch"][1]))
    # Outstanding operations of each stream: up at a call, down when it begins.
    lengths = {row["stream"]: row for row in answers["queue"]}
    for stream in (7, 20):
        own = [o for o in loop.device if o["stream"] == stream and "node" not in o["name"]]
        events = sorted([(o["launch"][0], 1) for o in own] + [(o["start"], -1) for o in own])
        length, most = 0, 0
        for _, change in events:
            length += change
            most = max(most, length)
        assert lengths[stream]["count"] == len(events) and lengths[stream]["max"] == most, (stream, lengths)


def test_hta_finds_the_critical_path(hta, tmp_path):
    """With the waits' streams in the trace it goes through what a stream's wait waited for, too."""
    gpu_loop(tmp_path / "loop.db", steps=3, layers=6, rank=0, world_size=1)
    found = {}
    for shape in ("chrome", "critical-path"):
        path = export(tmp_path / "loop.db", tmp_path / f"{shape}.json", "--format", shape)
        found[shape] = hta(path, 0, "ProfilerStep")["critical"]
        assert found[shape]["found"] and found[shape]["edges"]["KERNEL_LAUNCH_DELAY"] >= 1
    waits = {shape: answer["edges"]["SYNC_DEPENDENCY"] for shape, answer in found.items()}
    assert waits["critical-path"] == waits["chrome"] + 1, waits


# ---- TensorBoard


def test_tensorboard_reads_devices(tmp_path):
    python = python_of("PROFD_TENSORBOARD", "torch-tb-profiler")
    loop = gpu_loop(tmp_path / "loop.db", steps=4, layers=5)
    folder = tmp_path / "logs" / "run"
    folder.mkdir(parents=True)
    path = export(tmp_path / "loop.db", folder, "--format", "tensorboard")
    worker = path.name.split(".")[0]
    with TensorBoard(python, folder.parent) as board:
        assert board.wait_for_run() == ["run"]
        assert board.ask("workers", run="run", view="Overview") == [worker]
        assert {"Overview", "Operator", "Kernel", "Trace"} <= set(board.ask("views", run="run"))
        where = dict(run="run", worker=worker, span="1")
        overview = board.ask("overview", **where)
        kernels = board.ask("kernel/table", group_by="Kernel", **where)["data"]
        operators = board.ask("operation/table", group_by="Operation", **where)["data"]
    steps = [row[0] for row in overview["steps"]["rows"]]
    assert steps == ["101", "102", "103", "104"]
    by_name = collections.defaultdict(list)
    for o in loop.device:
        if o["kind"] == "kernel":
            by_name[o["name"]].append(o["end"] - o["start"])
    columns = [column["name"] for column in kernels["columns"]]
    rows = [dict(zip(columns, row)) for row in kernels["rows"]]
    assert {row["Name"]: row["Calls"] for row in rows} == {name: len(times) for name, times in by_name.items()}
    for row in rows:
        # The plugin rounds up to whole microseconds.
        assert row["Total Duration (us)"] == pytest.approx(sum(by_name[row["Name"]]) / 1000, abs=1)
    # By attribution: the launches of an operator are its own; 216 blocks on 108 multiprocessors.
    launched = {"aten::addmm": "layer", "AddmmBackward0": "backward"}
    assert {row["name"] for row in operators} == set(launched)
    for row in operators:
        times = sum(sum(times) for name, times in by_name.items() if launched[row["name"]] in name)
        assert row["device_self_duration"] == pytest.approx(times / 1000, abs=1)
    layer = next(row for row in rows if "layer0" in row["Name"])
    assert layer["Mean Blocks Per SM"] == 2 and layer["Mean Est. Achieved Occupancy (%)"] == 25
