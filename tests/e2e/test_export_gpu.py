"""The device side of an exported trace: every operation where it was and with what Kineto tells of it."""
import collections
import contextlib
import json
import sqlite3
import subprocess

import pytest

import test_device_store as device_store
from conftest import BUILD
from gpu_capture import (CONTEXT_SYNC, DEVICE, DOUBTFUL, DRIVER, ENGINE, EVENT_SYNC, GRAPH, HTOD, MAIN, PAGEABLE, PTOP,
                         STREAM_SYNC, STREAM_WAIT, TIMELESS, UNFINISHED, contexts, gpu_loop, threads)
from make_capture import Capture
from readers import trace
from readers.perfetto import check, query, web  # noqa: F401 (fixtures)

LANE = 10000000
DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
# What Kineto writes of each category, by its traces of A100s and an H100 (torch 2.1 to 2.7).
OPERATION = {"External id": int, "device": int, "context": int, "stream": int, "correlation": int}
KINETO = {
    "kernel": {**OPERATION, "queued": int, "registers per thread": int, "shared memory": int, "blocks per SM": float,
               "warps per SM": float, "grid": list, "block": list, "est. achieved occupancy %": int},
    "gpu_memcpy": {**OPERATION, "bytes": int, "memory bandwidth (GB/s)": float},
    "gpu_memset": {**OPERATION, "bytes": int, "memory bandwidth (GB/s)": float},
    "cuda_runtime": {"External id": int, "cbid": int, "correlation": int},
    "cuda_driver": {"External id": int, "cbid": int, "correlation": int},
    "cuda_sync": {"cuda_sync_kind": str, "stream": int, "correlation": int, "device": int, "context": int},
    "gpu_user_annotation": {"External id": int},
}


@pytest.fixture
def export(tmp_path):
    """export(CAPTURE, ARGUMENT...): the trace, as a file and read."""
    def run(capture, *arguments, name="trace.json"):
        path = tmp_path / name
        done = subprocess.run([BUILD / "bin" / "profd", "export", capture, "--output", path, "--force",
                               *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return trace.load(path)
    return run


def place(event):
    return event["pid"], event["tid"], *trace.interval(event)


def flows(exported):
    """{correlation or other id: (start, finish)} of ac2g, each a pair."""
    ends = {phase: {e["id"]: e for e in trace.events(exported, phase, "ac2g")} for phase in "sf"}
    assert all(len(ends[phase]) == len(trace.events(exported, phase, "ac2g")) for phase in "sf"), "an id is one flow"
    assert set(ends["s"]) == set(ends["f"])
    assert all(e["bp"] == "e" for e in ends["f"].values())
    return {own: (ends["s"][own], ends["f"][own]) for own in ends["s"]}


def kernel_events(exported):
    return [e for category in DEVICE_CATEGORIES for e in trace.events(exported, "X", category)]


@pytest.fixture
def loop(tmp_path):
    return gpu_loop(tmp_path / "loop.db", devices=2, simulated=1)


def test_every_operation_is_where_it_was(export, loop, tmp_path):
    exported = export(tmp_path / "loop.db")
    wanted = collections.Counter((o["kind"], o["name"], o["device"], o["stream"], o["start"], o["end"])
                                 for o in loop.device)
    assert collections.Counter((e["cat"], e["name"], *place(e)) for e in kernel_events(exported)) == wanted
    assert trace.crossings(exported) == []
    calls = trace.events(exported, "X", "cuda_runtime") + trace.events(exported, "X", "cuda_driver")
    assert len(calls) == loop.calls
    by_call = {e["args"]["correlation"]: e for e in calls}
    for o in loop.device:
        assert trace.interval(by_call[o["correlation"]]) == o["launch"]
        assert by_call[o["correlation"]]["cat"] == ("cuda_driver" if "backward" in o["name"] else "cuda_runtime")
    assert {e["tid"] for e in trace.events(exported, "X", "cuda_driver")} == {ENGINE}


def test_arguments_are_kinetos(export, loop, tmp_path):
    exported = export(tmp_path / "loop.db")
    for category, wanted in KINETO.items():
        found = trace.events(exported, "X", category)
        assert found, category
        for key, kind in wanted.items():
            values = [e["args"][key] for e in found if key in e["args"]]
            assert values or (category, key) in {("gpu_memcpy", "External id"), ("gpu_memset", "External id")}
            assert {type(v) for v in values} <= {kind, int}, (category, key)
    kernel = next(e for e in trace.events(exported, "X", "kernel") if e["name"] == "_Z6layer0Pf")
    operators = {e["args"]["External id"]: e for e in trace.events(exported, "X", "cpu_op")}
    # 108 multiprocessors, 216 blocks of 8 warps: of 2048 threads 512.
    assert kernel["args"] == {
        "External id": kernel["args"]["External id"], "device": 0, "context": 1, "stream": 7, "correlation": 1003,
        "queued": 0, "registers per thread": 40, "shared memory": 0, "blocks per SM": 2, "warps per SM": 16,
        "est. achieved occupancy %": 25, "grid": [216, 1, 1], "block": [256, 1, 1], "priority": 0}
    assert operators[kernel["args"]["External id"]]["name"] == "aten::addmm"
    copy = trace.events(exported, "X", "gpu_memcpy")[0]
    assert copy["args"] == {"device": 0, "context": 1, "stream": 20, "correlation": 1001, "bytes": 65536,
                            "memory bandwidth (GB/s)": 65536 / 5000}
    node = next(e for e in trace.events(exported, "X", "kernel") if e["name"] == "_Z4node1v")
    assert (node["args"]["graph id"], node["args"]["graph node id"]) == (GRAPH, (GRAPH << 32) + 1)


def test_external_ids_name_the_operator(export, loop, tmp_path):
    """An operation, and its call, carry the id of the operator that the call lies in; none where it lies in none."""
    exported = export(tmp_path / "loop.db")
    operators = trace.events(exported, "X", "cpu_op")
    for call in trace.events(exported, "X", "cuda_runtime") + trace.events(exported, "X", "cuda_driver"):
        start, end = trace.interval(call)
        around = [o for o in operators if o["tid"] == call["tid"] and trace.interval(o)[0] <= start
                  and end <= trace.interval(o)[1]]
        assert [o["args"]["External id"] for o in around] == [call["args"].get("External id")] * len(around), call
        assert around or "External id" not in call["args"]
        for event in kernel_events(exported):
            if event["args"]["correlation"] == call["args"]["correlation"]:
                assert event["args"].get("External id") == call["args"].get("External id")


def test_external_ids_of_calls_that_launch_nothing(export, tmp_path):
    def body(c):
        for own, name, start, length, parent in ((1, "aten::outer", 0, 1000, None), (2, "aten::inner", 100, 300, 1)):
            c.add("operators", start=start, duration=length, self=0, id=own, parent=parent, name=c.string(name),
                  thread=MAIN, depth=own - 1, scope=0, sequence=-1)
        c.add("ranges", start=150, duration=100, self=0, id=3, parent=2, name=c.string("range"), thread=MAIN, depth=2,
              source=1)
        for correlation, start, length, thread in ((1, 160, 10, MAIN), (2, 300, 10, MAIN), (3, 500, 10, MAIN),
                                                   (4, 2000, 10, MAIN), (5, 160, 10, ENGINE), (6, 990, 20, MAIN)):
            c.call("cudaStreamSynchronize", start, length, correlation, thread=thread)
        c.call("cudaLaunchKernel", 170, 10, 7)
        c.kernel("_Z1kv", 200, 10, 7)
    exported = export(capture(tmp_path / "calls.db", body))
    found = {e["args"]["correlation"]: e["args"].get("External id") for e in trace.events(exported, "X", "cuda_runtime")}
    # In a range of an operator; beside it; in the outer one; in none; on another thread; over its end; a launch.
    assert found == {1: 2, 2: 2, 3: 1, 4: None, 5: None, 6: None, 7: 2}


def test_flows_join_calls_and_operations(export, loop, tmp_path):
    exported = export(tmp_path / "loop.db")
    pairs = flows(exported)
    assert len(pairs) == len(loop.device) and exported["profdFlowsLeftOut"] == 0
    nodes = collections.Counter(o["correlation"] for o in loop.device)
    wanted = collections.Counter(
        ((4242, ENGINE if "backward" in o["name"] else MAIN, o["launch"][0]), (o["device"], o["stream"], o["start"]))
        for o in loop.device)
    found = collections.Counter(tuple((e["pid"], e["tid"], trace.nanoseconds(e["ts"])) for e in pair)
                                for pair in pairs.values())
    assert found == wanted
    # Kineto's id is the correlation id; the kernels of a graph share theirs, so each has one of its own.
    assert {o["correlation"] for o in loop.device if nodes[o["correlation"]] == 1} <= set(pairs)
    assert not {correlation for correlation, n in nodes.items() if n > 1} & set(pairs)


def test_projections(export, loop, tmp_path):
    """From the first to the last operation that a range, or a step, launched, on each stream."""
    exported = export(tmp_path / "loop.db")
    forward = {e["args"]["External id"]: trace.interval(e) for e in trace.ranges(exported)}
    extents = {}
    for o in loop.device:
        holders = [("ProfilerStep#%d" % (100 + o["step"]), None)]
        holders += [("forward", own) for own, (start, end) in forward.items()
                    if start <= o["launch"][0] < end and "backward" not in o["name"]]
        for name, own in holders:
            first, last = extents.get((name, own, o["device"], o["stream"]), (o["start"], o["end"]))
            extents[name, own, o["device"], o["stream"]] = min(first, o["start"]), max(last, o["end"])
    found = {(e["name"], e["args"].get("External id"), e["pid"], e["tid"]): trace.interval(e)
             for e in trace.events(exported, "X", "gpu_user_annotation")}
    assert found == extents


def test_metadata(export, loop, tmp_path):
    exported = export(tmp_path / "loop.db")
    assert (exported["cupti_version"], exported["cuda_runtime_version"]) == (24, 12040)
    assert exported["cuda_driver_version"] == 12040
    assert exported["profd"]["simulated"] is True and exported["profd_timeless"] == 0
    first = exported["deviceProperties"][0]
    assert first == {"id": 0, "name": "Simulated A100", "totalGlobalMem": 40 << 30, "computeMajor": 8,
                     "computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
                     "regsPerBlock": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": 108,
                     "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 166912,
                     "sharedMemPerMultiprocessor": 167936}
    assert [d["id"] for d in exported["deviceProperties"]] == [0, 1]
    records = {(e["pid"], e["tid"], e["name"]): e["args"] for e in trace.events(exported, "M")}
    assert records[0, 0, "process_labels"] == {"labels": "GPU 0 (simulated)"}
    assert records[1, 0, "process_sort_index"] == {"sort_index": 5000001}
    assert records[0, 7, "thread_name"] == {"name": "stream 7 "}
    assert records[0, 7, "thread_sort_index"] == {"sort_index": 7}
    waits = next(key for key, args in records.items() if args == {"name": "Device 0 waits"})
    assert records[0, waits[1], "thread_sort_index"] == {"sort_index": -1}
    # What is not simulated does not say so.
    gpu_loop(tmp_path / "real.db")
    real = export(tmp_path / "real.db")
    assert "simulated" not in real["profd"] and "simulated" not in json.dumps(trace.events(real, "M"))


def test_a_capture_of_the_host_alone_has_no_device(export, tmp_path):
    with Capture(tmp_path / "host.db") as c:
        threads(c)
        c.add("operators", start=0, duration=10, id=1, name=c.string("aten::mm"), thread=MAIN, depth=0, scope=0,
              sequence=-1)
    exported = export(tmp_path / "host.db")
    assert exported["deviceProperties"] == [] and "cupti_version" not in exported
    assert {e["pid"] for e in exported["traceEvents"]} == {4242}


def capture(path, body, **meta):
    """A capture in which body(c) puts what it wants; then the device's tables are derived."""
    with Capture(path, **meta) as c:
        threads(c)
        contexts(c, 2)
        c.add("steps", step=1, start=0, duration=1000000, number=1, thread=MAIN, source=2, collectors=0x17)
        body(c)
        c.derive_device()
    return path


def test_waits(export, tmp_path):
    def body(c):
        c.add("cuda_events", correlation=10, context=1, stream=7, event=3, event_sync=0, device=0)
        c.add("cuda_events", correlation=20, context=1, stream=13, event=3, event_sync=0, device=0)
        c.add("cuda_events", correlation=15, context=2, stream=9, event=3, event_sync=0, device=1)
        for correlation, kind, context, stream, event in (
                (12, EVENT_SYNC, 1, 0xFFFFFFFF, 3), (22, STREAM_WAIT, 1, 20, 3), (16, STREAM_WAIT, 2, 21, 3),
                (9, EVENT_SYNC, 1, 0xFFFFFFFF, 3), (30, STREAM_SYNC, 2, 7, 0), (31, CONTEXT_SYNC, 2, 0xFFFFFFFF, 0)):
            c.add("syncs", start=100 * correlation, duration=50, correlation=correlation, context=context,
                  stream=stream, event=event, event_sync=0, kind=kind, result=0)
        c.kernel("_Z1kv", 2980, 40, 29, device=1, context=2, stream=7)  # the stream sync waits for it
    path = capture(tmp_path / "waits.db", body)
    exported = export(path)
    waits = {e["args"]["correlation"]: e for e in trace.events(exported, "X", "cuda_sync")}

    def on(correlation):
        args = waits[correlation]["args"]
        return tuple(args.get(f"wait_on_{key}") for key in ("stream", "cuda_event_record_corr_id", "cuda_event_id"))
    assert on(12) == (7, 10, 3) and on(22) == (13, 20, 3) and on(16) == (9, 15, 3)
    assert on(9) == (-1, -1, 3), "recorded before the capture"
    assert waits[12]["name"] == waits[12]["args"]["cuda_sync_kind"] == "Event Sync"
    assert waits[31]["name"] == "Context Sync" and waits[30]["name"] == "Stream Sync"
    assert [(waits[n]["pid"], waits[n]["args"]["device"]) for n in (12, 16, 31)] == [(0, 0), (1, 1), (1, 1)]
    assert waits[12]["tid"] == waits[31]["tid"] != waits[30]["tid"]
    # Beside what the stream does, and with no stream of its own: HTA would take it for work.
    assert waits[30]["tid"] % LANE == 7 and waits[30]["tid"] != 7
    assert {e["args"]["stream"] for e in waits.values()} == {-1}
    assert waits[30]["args"]["wait_on_stream"] == 7 and waits[22]["args"]["waiting_stream"] == 20
    for_hta = {e["args"]["correlation"]: e["args"] for e in trace.events(export(path, "--format", "critical-path"), "X",
                                                                        "cuda_sync")}
    assert [for_hta[n]["stream"] for n in (12, 22, 30, 31)] == [-1, 20, 7, -1]
    assert trace.crossings(exported) == []


def test_what_overlaps_goes_to_sibling_tracks(export, tmp_path):
    """Kernels of one stream that ran side by side; more of them than there are tracks are asynchronous."""
    def body(c):
        for i in range(20):
            c.call("cudaLaunchKernel", 10 * i, 5, 100 + i, step=1)
            c.kernel("_Z3runi", 1000 + 10 * i, 500, 100 + i)
        c.kernel("_Z4insidev", 1200, 300, 200)
    exported = export(capture(tmp_path / "overlap.db", body))
    assert trace.crossings(exported) == []
    kernels = [e for phase in "Xb" for e in trace.events(exported, phase, "kernel")]
    assert len(kernels) == 21
    assert {e["tid"] for e in trace.events(exported, "X", "kernel")} == {7 + lane * LANE for lane in range(16)}
    ends = {e["id2"]["local"]: trace.nanoseconds(e["ts"]) for e in trace.events(exported, "e", "kernel")}
    begins = {e["id2"]["local"]: trace.nanoseconds(e["ts"]) for e in trace.events(exported, "b", "kernel")}
    assert len(begins) == 4 and {own: ends[own] - begins[own] for own in ends} == dict.fromkeys(begins, 500)
    assert len(flows(exported)) == 16 and exported["profdFlowsLeftOut"] == 4
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace.events(exported, "M") if e["name"] == "thread_name"}
    assert names[0, 7 + LANE] == "stream 7 , overlapping 1"


def test_what_has_no_time_is_counted(export, tmp_path):
    with Capture(tmp_path / "late.db") as c:
        contexts(c, 1)
        c.call("cudaLaunchKernel", 10, 5, 1)
        c.kernel("_Z4donev", 100, 10, 1)
        c.kernel("_Z7doubtedv", 200, 10, 5, flags=DOUBTFUL)
        c.kernel("_Z7runningv", 120, 10, 2, flags=UNFINISHED)
        c.derive_device()
        c.kernel("_Z4lostv", None, 0, 3, flags=TIMELESS)
        c.copy(HTOD, PAGEABLE, DEVICE, 10, None, 0, 4, flags=TIMELESS)
        c.add("syncs", start=None, duration=0, correlation=9, context=1, stream=7, event=0, event_sync=0,
              kind=STREAM_SYNC, result=0, flags=TIMELESS)
    exported = export(tmp_path / "late.db")
    kernels = {e["name"]: e["args"] for e in trace.events(exported, "X", "kernel")}
    assert set(kernels) == {"_Z4donev", "_Z7runningv", "_Z7doubtedv"}
    assert kernels["_Z7runningv"]["Unfinished"] is True and "Unfinished" not in kernels["_Z4donev"]
    assert kernels["_Z7doubtedv"]["Doubtful"] is True
    assert exported["profd_timeless"] == 3
    assert list(flows(exported)) == [1], "a launch that was not recorded has no flow"


def test_no_flow_backwards(export, tmp_path):
    """An operation that seems to begin before its call, for the clocks' error, is there, but is the end of no flow."""
    def body(c):
        for correlation, start, length in ((1, 90, 20), (2, 150, 20), (3, 160, 0)):
            c.call("cudaLaunchKernel", 50 * correlation + 50, 5, correlation, step=1)
            c.kernel("_Z1kv", start, length, correlation)
    exported = export(capture(tmp_path / "early.db", body))
    assert len(trace.events(exported, "X", "kernel")) == 3
    assert list(flows(exported)) == [2] and exported["profdFlowsLeftOut"] == 2


def test_kinds_of_copies(export, tmp_path):
    def body(c):
        c.copy(PTOP, DEVICE, DEVICE, 1000, 10, 100, 1, source_device=0, source_context=1, target_device=1,
               target_context=2)
        for kind, source, target in ((1, 1, 3), (2, 3, 2), (8, 3, 3), (9, 1, 2), (3, 2, 4), (99, 99, 7), (8, 5, 6)):
            c.copy(kind, source, target, 0, 1000 + 10 * kind + source, 0, 10 + kind + source)
        c.set(5, 64, 5000, 10, 99)
    exported = export(capture(tmp_path / "copies.db", body))
    copies = {e["name"]: e["args"] for e in trace.events(exported, "X", "gpu_memcpy")}
    assert set(copies) == {
        "Memcpy PtoP (Device -> Device)", "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)",
        "Memcpy DtoD (Device -> Device)", "Memcpy HtoH (Pageable -> Pinned)", "Memcpy HtoA (Pinned -> Array)",
        "Memcpy Unknown (Unknown -> Managed Static)", "Memcpy DtoD (Managed -> Device Static)"}
    peer = copies["Memcpy PtoP (Device -> Device)"]
    assert [peer[key] for key in ("fromDevice", "inDevice", "toDevice", "fromContext", "inContext", "toContext")] == [
        0, 0, 1, 1, 1, 2]
    assert peer["memory bandwidth (GB/s)"] == 10
    assert "memory bandwidth (GB/s)" not in copies["Memcpy HtoD (Pageable -> Device)"], "no time, no bandwidth"
    assert [e["name"] for e in trace.events(exported, "X", "gpu_memset")] == ["Memset (Managed)"]


def test_graphs_as_a_whole(export, tmp_path):
    def body(c):
        c.call("cudaGraphLaunch", 10, 5, 1, step=1)
        c.graph_launch(12, 100, 50, 1)
    exported = export(capture(tmp_path / "graph.db", body))
    graph, = trace.events(exported, "X", "kernel")
    assert graph["name"] == "CUDA graph 12" and graph["args"]["graph id"] == 12 and place(graph) == (0, 7, 100, 150)
    assert list(flows(exported)) == [1]


def test_overheads(export, tmp_path):
    def body(c):
        for i, kind in enumerate((1, 1 << 16, 7 << 16, 99 << 16)):
            c.add("overheads", start=100 * i, duration=150, thread=MAIN, kind=kind, correlation=0)
    exported = export(capture(tmp_path / "own.db", body))
    found = trace.events(exported, "X", "overhead")
    assert [e["name"] for e in found] == ["Driver Compiler", "Buffer Flush", "Activity Buffer Request", "Unknown"]
    # A track of the process that no thread has. Kineto's process -1 is device 0 to Perfetto.
    assert {e["pid"] for e in found} == {4242} and trace.crossings(exported) == []
    assert {e["tid"] for e in found} == {LANE - 1, 2 * LANE - 1}


def test_a_device_that_nobody_described(export, tmp_path):
    """No figures of how a kernel fills it."""
    with Capture(tmp_path / "bare.db") as c:
        c.kernel("_Z1kv", 10, 5, 1, device=3)
        c.derive_device()
    kernel, = trace.events(export(tmp_path / "bare.db"), "X", "kernel")
    assert kernel["pid"] == 3
    assert not {"blocks per SM", "warps per SM", "est. achieved occupancy %"} & set(kernel["args"])


def test_a_process_whose_pid_is_a_devices_number(export, tmp_path):
    """In a container a job may be number 1, and a thread 7: they stay apart from device 1 and its stream 7."""
    with Capture(tmp_path / "one.db", pid=1) as c:
        contexts(c, 2)
        c.add("operators", start=0, duration=50, self=50, id=1, name=c.string("aten::mm"), thread=7, depth=0, scope=0,
              sequence=-1)
        c.kernel("_Z1kv", 10, 100, 1, device=1, context=2)
        c.derive_device()
    exported = export(tmp_path / "one.db")
    kernel, = trace.events(exported, "X", "kernel")
    operator, = trace.events(exported, "X", "cpu_op")
    assert kernel["pid"] == 1 and operator["pid"] != 1
    assert exported["profd"]["pid"] == 1
    assert trace.crossings(exported) == []


def test_readable_names(export, tmp_path):
    """Of kernels that were demangled: the whole name, with whatever is in it."""
    mangled = "_ZN2at6native3addIfEEvPT_"
    whole = 'void at::native::add<float>("\\ \u20ac", {lambda()#1})'
    with Capture(tmp_path / "names.db") as c:
        c.kernel(mangled, 10, 5, 1)
        c.kernel("sgemm_128x64", 20, 5, 2)
        c.add("stream_records", id=7, context=1, priority=-1, kind=1, name=c.string("the \"copy\" stream"))
        contexts(c, 1)
        c.derive_device({mangled: (whole, "add")})
    exported = export(tmp_path / "names.db")
    assert [e["name"] for e in trace.events(exported, "X", "kernel")] == [whole, "sgemm_128x64"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace.events(exported, "M") if e["name"] == "thread_name"}
    assert names[0, 7] == "stream 7 (the \"copy\" stream)"


def test_for_tensorboard(loop, tmp_path):
    """Another category of API calls, a file name of its own, no projections."""
    folder = tmp_path / "logs"
    folder.mkdir()
    done = subprocess.run([BUILD / "bin" / "profd", "export", tmp_path / "loop.db", "--format", "tensorboard", "--output",
                           folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(folder / "node-1_4242.1767225600123.pt.trace.json.gz")
    exported = trace.load(done.stdout.strip())
    assert len(trace.events(exported, "X", "Runtime")) == loop.calls
    assert not any(trace.events(exported, "X", category)
                   for category in ("cuda_runtime", "cuda_driver", "gpu_user_annotation"))
    assert len(kernel_events(exported)) == len(loop.device)
    assert all("External id" in e["args"] for e in kernel_events(exported))


def test_a_file_of_the_first_release(export, tmp_path):
    """Schema 1 had no device side: what it has is exported as ever."""
    with Capture(tmp_path / "old.db") as c:
        threads(c)
        c.add("operators", start=0, duration=10, id=1, name=c.string("aten::mm"), thread=MAIN, depth=0, scope=0,
              sequence=-1)
        c.meta["schema"] = 1
    with sqlite3.connect(tmp_path / "old.db") as db:
        for kind, name in db.execute("SELECT type, name FROM sqlite_master").fetchall():
            if kind == "view" and name not in ("StringIds", "META_DATA_EXPORT", "NVTX_EVENTS"):
                db.execute(f"DROP VIEW {name}")
        for name in ("kernel_records", "api_calls", "launches", "range_devices", "step_devices", "device_records",
                     "sessions", "cuda_events", "syncs", "overheads"):
            db.execute(f"DROP TABLE {name}")
        db.execute("PRAGMA user_version = 1")
    exported = export(tmp_path / "old.db")
    assert [e["name"] for e in trace.events(exported, "X")] == ["aten::mm"]
    assert exported["deviceProperties"] == [] and exported["profd_timeless"] == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_what_the_daemon_derives(profd, export, query, tmp_path, seed):
    """A random capture, with everything that is awkward, through the daemon, the export and Perfetto's trace processor."""
    made = device_store.Random(seed)
    captured = device_store.record(profd, made)
    with contextlib.closing(device_store.open_capture(profd, captured)) as db:
        stored = collections.Counter(row[0] for view, cat in (("kernels", "kernel"), ("graph_launches", "kernel"),
                                                              ("copies", "gpu_memcpy"), ("sets", "gpu_memset"))
                                     for row in db.execute(f"SELECT '{cat}' FROM {view} WHERE start IS NOT NULL"))
        calls = [db.execute(f"SELECT count(*) FROM api_calls WHERE domain = {domain}").fetchone()[0] for domain in (2, 1)]
        timeless, = db.execute("SELECT (SELECT count(*) FROM kernels WHERE start IS NULL) + (SELECT count(*) FROM copies "
                               "WHERE start IS NULL) + (SELECT count(*) FROM sets WHERE start IS NULL) + (SELECT count(*) "
                               "FROM graph_launches WHERE start IS NULL) + (SELECT count(*) FROM syncs WHERE start IS NULL)"
                               ).fetchone()
        drawn, = db.execute("SELECT count(*) FROM launches l JOIN (SELECT correlation FROM kernels WHERE start IS NOT NULL "
                            "UNION ALL SELECT correlation FROM copies WHERE start IS NOT NULL UNION ALL SELECT correlation "
                            "FROM sets WHERE start IS NOT NULL UNION ALL SELECT correlation FROM graph_launches WHERE "
                            "start IS NOT NULL) o ON o.correlation = l.correlation WHERE l.api IS NOT NULL").fetchone()
    exported = export(profd.file(captured["capture_id"]))
    for category, n in stored.items():
        assert sum(len(trace.events(exported, phase, category)) for phase in "Xb") == n, category
    assert [sum(len(trace.events(exported, phase, category)) for phase in "Xb")
            for category in ("cuda_runtime", "cuda_driver")] == calls
    assert exported["profd_timeless"] == timeless
    assert len(flows(exported)) + exported["profdFlowsLeftOut"] == drawn
    assert trace.crossings(exported) == []
    known = {e["args"]["External id"] for phase in "Xb" for e in trace.events(exported, phase, "cpu_op")}
    assert {e["args"]["External id"] for e in kernel_events(exported) if "External id" in e["args"]} <= known
    check(query, tmp_path / "trace.json")


MANY = """WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {last}) """


def many(path, launches):
    """So many launches of a kernel each, in operators, on two threads and three streams."""
    with Capture(path) as c:
        contexts(c, 1)
        threads(c)
        name, call, kernel = c.string("aten::mm"), c.string("cudaLaunchKernel"), c.string("_Z4gemmPf")
        numbers = MANY.format(last=launches - 1)
        c.db.execute(numbers + f"INSERT INTO operators (flags, start, duration, self, id, name, thread, depth, scope, "
                     f"sequence) SELECT 0, i * 1000, 900, 900, i + 1, {name}, {MAIN} + i % 2, 0, 0, -1 FROM n")
        c.db.execute(numbers + f"INSERT INTO api_calls (flags, start, duration, correlation, name, thread, cbid, result, "
                     f"domain) SELECT 0, i * 1000 + 100, 500, i + 1, {call}, {MAIN} + i % 2, 211, 0, 2 FROM n")
        c.db.execute(numbers + f"INSERT INTO kernel_records (flags, start, duration, correlation, device, context, stream, "
                     f"name, grid_x, grid_y, grid_z, block_x, block_y, block_z, registers, static_shared, dynamic_shared) "
                     f"SELECT 0, i * 1000 + 5000, 2500, i + 1, 0, 1, 7 + i % 3, {kernel}, 216, 1, 1, 256, 1, 1, 40, 0, 0 "
                     f"FROM n")
        c.db.execute(numbers + f"INSERT INTO launches SELECT i + 1, i + 1, NULL, {MAIN} + i % 2, i + 1, i * 1000 + 100, "
                     f"500, 2500, 1 FROM n")
        c.db.execute("INSERT INTO range_devices SELECT range, device_time, device_time, 1, start, start FROM launches")
    return path


def client_memory(*command):
    """Most bytes that the client held, run by a child of its own: the counter is of all children."""
    code = "import resource, subprocess, sys\nsubprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n" \
           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run(["/usr/bin/python3", "-c", code, *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout) * 1024


def test_memory_is_bounded(tmp_path):
    """Nearly a million events."""
    path, launches = tmp_path / "many.json", 300000
    capture = many(tmp_path / "many.db", launches)
    assert client_memory(BUILD / "bin" / "profd", "export", capture, "--output", path, "--force") < 60e6
    with open(path) as file:
        counts = collections.Counter(line[line.find('"cat"'):][7:13] for line in file if line.startswith('{"ph":"'))
    assert counts == {"kernel": launches, "cuda_r": launches, "cpu_op": launches, 'ac2g",': 2 * launches}
