"""The converters: what a timeline says is what truth.py finds in the recording, for the timelines in tests/data and
for small recordings made here, which have what those lack: graphs, peer copies, operations without their call,
ranges that cross."""
import collections
import gzip
import json
import pathlib
import sqlite3
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import timeline  # noqa: E402

DATA = HERE.parent / "data"
KINDS = {"k": "kernel", "m": "copy", "z": "set"}


def told(path):
    """What a timeline says, by a stack of open ranges: counts of operations by kind, device and stream, ranges in order, and
    operations by step."""
    line = timeline.Timeline(path)
    groups, threads, steps = collections.Counter(), {}, collections.defaultdict(collections.Counter)
    for thread in line.threads.values():
        stack, ranges, step, launched = [], [], 0, 0
        for item in thread.items:
            if item["kind"] in "+o":
                ranges.append([item["name"], 0, 0, 0])
                stack.append(ranges[-1])
            elif item["kind"] == "-":
                stack.pop()
            elif item["kind"] == "=":
                assert item["step"] == step + 1
                step = item["step"]
            for o in item.get("operations", []):
                launched += 1
                groups[(KINDS[o["kind"]], o["device"], o["stream"])] += 1
                steps[step][KINDS[o["kind"]]] += 1
                if stack:
                    stack[-1][1] += 1
                    stack[-1][2] += o["duration"]
                for entry in stack:
                    entry[3] += o["duration"]
        assert not stack and step == len(line.steps)
        if thread.tid:
            threads[thread.tid] = (ranges, launched)
    return line, groups, threads, steps


def check(path, truth):
    line, groups, threads, steps = told(path)
    wanted = collections.Counter()
    for kind, device, stream, _, n, _, _ in truth["operations"]:
        wanted[(kind, device, stream)] += n
    assert groups == wanted
    assert truth["doubtful"] == 0
    for thread in truth["threads"]:
        ranges, launched = threads[thread["tid"]]
        assert launched == thread["launched"]
        assert ranges == [list(r) for r in thread["ranges"]]
    assert [s[1] for s in line.steps] == [s["number"] for s in truth["steps"]]
    if line.steps:
        assert [dict(steps[i]) for i in range(len(line.steps))] == \
            [{k: s[k] for k in KINDS.values() if s[k]} for s in truth["steps"]]
    return line


@pytest.mark.parametrize("path", sorted(DATA.glob("*.timeline.gz")), ids=lambda p: p.name)
def test_timelines_in_the_repository(path):
    truth = json.loads(gzip.decompress(path.with_name(path.name.replace(".timeline.gz", ".truth.json.gz")).read_bytes()))
    check(path, truth)


def convert(folder, recording, converter):
    """Converts, and checks against truth.py; the timeline."""
    subprocess.run([sys.executable, HERE / converter, recording, folder / "t"], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([sys.executable, HERE / "truth.py", recording], check=True, capture_output=True, text=True)
    return check(folder / "t", json.loads(done.stdout))


def event(category, name, start, duration, thread=11, **arguments):
    return {"ph": "X", "cat": category, "name": name, "pid": 10, "tid": thread, "ts": start, "dur": duration, "args": arguments}


def kernel(name, start, duration, correlation, stream=7, **more):
    return event("kernel", name, start, duration, stream, device=0, context=1, stream=stream, correlation=correlation,
                 grid=[2, 1, 1], block=[64, 1, 1], **{"registers per thread": 16, "shared memory": 0}, **more)


GRAPH = {"graph id": 5}


def kineto_events():
    return [
        event("user_annotation", "ProfilerStep#3", 100, 50), event("user_annotation", "ProfilerStep#4", 151.5, 60.25),
        event("cpu_op", "aten::add \\ \u20ac\nx", 105, 10), event("cpu_op", "aten::empty", 106, 1),
        event("cuda_runtime", "cudaLaunchKernel", 107.125, 3, correlation=1), kernel("add", 112.001, 1.5, 1),
        event("cuda_runtime", "cudaGraphLaunch", 120, 9, correlation=2),
        *[kernel(f"node {i}", 130 + i, 0.75, 2, **GRAPH, **{"graph node id": 40 + i}) for i in range(3)],
        event("gpu_memset", "Memset (Device)", 134, 1, device=0, context=1, stream=7, correlation=2, bytes=8, **GRAPH,
              **{"graph node id": 43}),
        # A second thread, which launches in the second step what the first step's operator began.
        event("cpu_op", "backward", 140, 40, 12), event("cuda_runtime", "cudaLaunchKernel", 160, 2, 12, correlation=3),
        kernel("late", 170, 5, 3, 20),
        event("cuda_driver", "cuLaunchKernel", 165, 2, correlation=4), kernel("triton", 172, 1, 4),
        event("cuda_driver", "cuLaunchKernel", 107.5, 1, correlation=1),
        event("cuda_driver", "cuStreamSynchronize", 180, 1, correlation=5),
        event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 190, 2, device=0, context=1, stream=7, correlation=6, bytes=64,
              fromDevice=0, inDevice=0, toDevice=1),
        event("cuda_runtime", "cudaMemcpyPeerAsync", 188, 3, correlation=6),
        kernel("its call is missing", 200, 2, 99),
        event("cuda_runtime", "cudaDeviceSynchronize", 215, 3, correlation=7),
    ]


def test_kineto(tmp_path):
    events = kineto_events()
    # The driver's call inside of the runtime's has its correlation id and is left out: truth.py knows one call each.
    recording = tmp_path / "t.json"
    recording.write_text(json.dumps({"deviceProperties": [{"id": 0, "name": "GPU"}],
                                     "traceEvents": [e for e in events if (e["name"], e["ts"]) != ("cuLaunchKernel", 107.5)]}))
    line = convert(tmp_path, recording, "from_kineto.py")
    assert [s[1:] for s in line.steps] == [(3, "ProfilerStep#3"), (4, "ProfilerStep#4"), (timeline.AFTER, "after the last step")]
    assert [s[0] for s in line.steps][:2] == [50000, 111750]
    items = line.threads[1].items
    calls = {i["name"]: i for i in items if i["kind"] in "cd"}
    assert "aten::add \\ \u20ac\nx" in [i.get("name") for i in items]
    assert [o["graph"] for o in calls["cudaGraphLaunch"]["operations"]] == [(5, 40), (5, 41), (5, 42), (5, 43)]
    assert calls["cudaMemcpyPeerAsync"]["operations"][0]["copy_kind"] == 10
    assert calls["cudaLaunchKernel"]["operations"][0]["duration"] == 1500
    assert "cuStreamSynchronize" not in calls and calls["cuLaunchKernel"]["kind"] == "d"
    missing = [t for t in line.threads.values() if not t.tid]
    assert [o["name"] for t in missing for i in t.items for o in i.get("operations", [])] == ["its call is missing"]
    assert line.left["driver calls that launch nothing: cuStreamSynchronize"] == 1


def test_kineto_calls_in_calls(tmp_path):
    recording = tmp_path / "t.json"
    recording.write_text(json.dumps({"traceEvents": kineto_events()}))
    subprocess.run([sys.executable, HERE / "from_kineto.py", recording, tmp_path / "t.gz"], check=True)
    line = timeline.Timeline(tmp_path / "t.gz")
    assert line.left["calls inside of others: cuLaunchKernel"] == 1
    names = [i["name"] for i in line.threads[1].items if i["kind"] in "cd" and i["operations"]]
    assert names.count("cudaLaunchKernel") == 1 and names.count("cuLaunchKernel") == 1


def test_kineto_of_2021(tmp_path):
    """Other names of categories, threads as text, streams as `stream 7`."""
    events = []
    for e in kineto_events():
        if e["cat"] in ("cuda_driver", "user_annotation") or "graph node id" in e["args"]:
            continue
        e["cat"] = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel", "gpu_memcpy": "Memcpy",
                    "gpu_memset": "Memset"}[e["cat"]]
        e["tid"] = f"stream {e['tid']}" if e["cat"] in ("Kernel", "Memcpy", "Memset") else str(e["tid"])
        events.append(e)
    recording = tmp_path / "t.json.gz"
    recording.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    line = convert(tmp_path, recording, "from_kineto.py")
    assert not line.steps and {t.tid for t in line.threads.values()} == {11, 12, 0}


def test_crossing_ranges_are_closed_and_counted(tmp_path):
    recording = tmp_path / "t.json"
    recording.write_text(json.dumps({"traceEvents": [
        event("cpu_op", "outer", 0, 10), event("cpu_op", "crosses", 5, 8), event("cpu_op", "next", 20, 1)]}))
    subprocess.run([sys.executable, HERE / "from_kineto.py", recording, tmp_path / "t"], check=True)
    line = timeline.Timeline(tmp_path / "t")
    assert [i["kind"] for i in line.threads[1].items] == ["o", "o", "-", "-", "o", "-"]
    assert line.left["ns at the ends of ranges that cross those around them"] == 3000


def test_nsys(tmp_path):
    """An export without TARGET_INFO_GPU, with ranges and marks, two processes, and a column less than today's."""
    recording = tmp_path / "t.sqlite"
    db = sqlite3.connect(recording)
    db.executescript("""
        create table StringIds (id integer, value text);
        insert into StringIds values (1, 'cudaLaunchKernel_v7000'), (2, 'k<int>'), (3, '_Zk'), (4, 'cudaMemcpyAsync_v3020'),
            (5, 'registered'), (6, 'python3'), (7, 'cuCtxGetCurrent');
        create table ThreadNames (nameId integer, priority integer, globalTid integer);
        insert into ThreadNames values (6, 20, (77 << 24) | 78);
        create table CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, globalTid, correlationId, nameId, returnValue);
        insert into CUPTI_ACTIVITY_KIND_RUNTIME values (1000, 1010, 0, (77 << 24) | 78, 1, 1, 0),
            (1020, 1030, 0, (77 << 24) | 78, 2, 4, 2), (1000, 1015, 0, (79 << 24) | 79, 1, 1, 0),
            (1040, 1041, 1, (77 << 24) | 78, 3, 7, 0);
        create table CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, globalPid,
            demangledName, shortName, mangledName, gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread,
            staticSharedMemory, dynamicSharedMemory);
        insert into CUPTI_ACTIVITY_KIND_KERNEL values (1100, 1200, 0, 1, 7, 1, 77 << 24, 2, 2, 3, 1,1,1,1,1,1,8,16,0),
            (1100, 1300, 1, 2, 7, 1, 79 << 24, 2, 2, null, 1,1,1,1,1,1,8,16,0);
        create table CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, contextId, streamId, correlationId, globalPid, bytes,
            copyKind, srcKind, dstKind);
        insert into CUPTI_ACTIVITY_KIND_MEMCPY values (1210, 1250, 0, 1, 7, 2, 77 << 24, 4096, 1, 0, 2);
        create table NVTX_EVENTS (start, end, eventType, text, globalTid, textId, domainId);
        insert into NVTX_EVENTS values (990, 1015, 59, 'plain', (77 << 24) | 78, null, 0),
            (1016, 1050, 59, null, (77 << 24) | 78, 5, 1), (1018, null, 34, 'mark', (77 << 24) | 78, null, 0),
            (1018, 1019, 60, 'start/end', (77 << 24) | 78, null, 0);
        """)
    db.commit()
    db.close()
    line = convert(tmp_path, recording, "from_nsys.py")
    calls = [(i["name"], i["result"], [(o["duration"], o.get("name")) for o in i["operations"]])
             for t in line.threads.values() for i in t.items if i["kind"] == "c"]
    assert sorted(calls) == [("cudaLaunchKernel", 0, [(100, "_Zk")]), ("cudaLaunchKernel", 0, [(200, "k<int>")]),
                             ("cudaMemcpyAsync", 2, [(40, None)])]
    copy = [o for t in line.threads.values() for i in t.items for o in i.get("operations", []) if o["kind"] == "m"][0]
    assert (copy["source_kind"], copy["target_kind"], copy["copy_kind"]) == (1, 3, 1)
    assert [i["name"] for i in line.threads[1].items if i["kind"] in "+i"] == ["plain", "registered", "mark"]
    assert line.threads[1].name == "python3"
    assert line.left == {"NVTX events of type 60": 1, "domains of NVTX ranges and marks": 1,
                         "driver calls that launch nothing: cuCtxGetCurrent": 1}
