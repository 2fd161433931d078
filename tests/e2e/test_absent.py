"""A capture that lacks a collector, or a kind of its records: every view of `profd show` and the page of `profd report` say what is not known,
and no 0 stands where nothing was recorded. The captures are one recorded trace of a GPU, each time without something."""
import gzip
import json
import re
import sqlite3
import subprocess

import pytest
from test_import import PROFD, TRACES, run
from test_report import data_of, page_of

TRACE = next(trace for trace in TRACES if trace.name.startswith("a100_alexnet"))
CALLS = ("cuda_runtime", "cuda_driver")
DEVICE = (*CALLS, "kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "gpu_user_annotation", "ac2g")
VIEWS = re.findall(r"^  ([a-z_]+) ", subprocess.run([PROFD, "show", "--help"], capture_output=True, text=True, check=True)
                   .stdout.split("\n--by takes:\n")[1].split("\n\n")[0], re.M)
# proto/events.h
ACTIVITY = {"RUNTIME": 5, "DRIVER": 4}
NO_OPERATORS = "the trace holds no operators"
NO_GPU = "the trace holds nothing of a GPU"
NONE = "the trace holds none of it"
NO_STACKS = dict.fromkeys(("lines", "functions"), "a trace holds stacks of Python only if it was recorded with_stack")
NO_MODULES = {"modules": "the trace holds no calls of modules"}
NO_BLOCKS = dict.fromkeys(("memory", "memory_steps", "peak", "memory_use", "leaks"), "the trace holds no allocations (profile_memory)")

# What is left out: (categories of events, or how their names begin; their arguments), then the views that say so, and how. Every other view has rows, or says nothing.
VARIANTS = {
    "torch": (("cpu_op",), (), {"operators": NO_OPERATORS, "collectives": NO_OPERATORS, "modules": NO_OPERATORS, **NO_STACKS, "flops": "the trace holds no shapes (record_shapes)"}),
    "ranges": (("user_annotation", "nn.Module: "), (), NO_MODULES),
    "stacks": (("python_function",), (), {**NO_STACKS, **NO_MODULES}),
    "modules": (("nn.Module: ",), (), NO_MODULES),
    "shapes": ((), ("Input Dims", "Input type"), {"flops": "the trace holds no shapes (record_shapes)"}),
    "cupti": ((*DEVICE, "cpu_instant_event"), (), {**{view: NO_GPU for view in ("idle", "devices", "kernels", "copies", "memsets", "graphs", "streams", "api", "memory_calls", "syncs", "launches",
                                                         "overlap", "sessions")}, **NO_BLOCKS}),
    "memory": (("cpu_instant_event",), (), NO_BLOCKS),
    "calls": (CALLS, (), {"api": NONE, "memory_calls": NONE}),
    "syncs": (("cuda_sync",), (), {}),
    "waits": (("cuda_sync", *CALLS), (), {"syncs": NONE, "api": NONE, "memory_calls": NONE}),
    "host": (("cpu_op", "user_annotation", "cpu_instant_event", "python_function", *CALLS), (),
             {"modules": NO_OPERATORS, **NO_STACKS, "operators": NO_OPERATORS, "collectives": NO_OPERATORS, "ranges": "the trace holds no annotations", "tree": "the trace holds no annotations", "api": NONE, "memory_calls": NONE,
              "flops": "the trace holds no shapes", **NO_BLOCKS}),
}
# Never in an imported trace.
ALWAYS = {"workers": "nobody looked at the processes", "sessions": "the trace does not say how CUPTI was used",
          "compiles": "a trace does not list the compilations",
          "device_memory": "a trace holds no allocations by CUDA itself", "leaks": None, "graphs": None, "dropped": None, "collectives": None}


def whole_trace():
    """With shapes, allocations and calls of Python, which the recorded one has not."""
    with gzip.open(TRACE, "rt") as file:
        data = json.load(file)
    events = data["traceEvents"]
    for event in events:
        if event.get("name") == "aten::addmm":
            event["args"].update({"Input Dims": [[64], [32, 128], [128, 64], [], []], "Input type": ["float", "float", "float", "Scalar", "Scalar"]})
    operator = next(event for event in events if event.get("cat") == "cpu_op")
    for number in range(4):
        events.append(dict(ph="i", s="t", cat="cpu_instant_event", name="[memory]", pid=operator["pid"], tid=operator["tid"], ts=operator["ts"] + number,
                           args={"Device Type": 1, "Device Id": 0, "Addr": 4096 * (number + 1), "Bytes": 512, "Total Allocated": 512 * (number + 1),
                                 "Total Reserved": 1 << 20}))
    on_thread = [event for event in events if event.get("cat") == "cpu_op" and event["tid"] == operator["tid"]]
    start, end = min(float(event["ts"]) for event in on_thread), max(float(event["ts"]) + float(event["dur"]) for event in on_thread)
    for depth, name in enumerate(("train.py(3): <module>", "train.py(12): train", "nn.Module: Net_0", "net.py(7): forward")):
        events.append(dict(ph="X", cat="python_function", name=name, pid=operator["pid"], tid=operator["tid"], ts=start - 4 + depth, dur=end - start + 8 - 2 * depth,
                           args={"Python id": depth + 1}))
    return data


def left_out(event, categories):
    return event.get("cat") in categories or any(event.get("name", "").startswith(word) for word in categories)


def capture(folder, name, categories=(), arguments=()):
    data = whole_trace()
    data["traceEvents"] = [event for event in data["traceEvents"] if not left_out(event, categories)]
    for event in data["traceEvents"]:
        for argument in arguments:
            event.get("args", {}).pop(argument, None)
    (folder / f"{name}.json").write_text(json.dumps(data))
    run("import", folder / f"{name}.json", "--output", folder / f"{name}.db", "--force")
    return folder / f"{name}.db"


def leaves(value, path=()):
    """(path, number) of each number; rows of a list are known by what they are named by."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            named = [str(part[key]) for key in ("name", "operator", "call", "step", "device", "row", "phase", "thread", "stream", "depth") if key in part] \
                if isinstance(part, dict) else []
            yield from leaves(part, (*path, "/".join(named) or index))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return capture(tmp_path_factory.mktemp("whole"), "whole")


def answer_of(path):
    return json.loads(run("show", path, "--by", "totals", "--format", "json").stdout)


def test_whole(whole):
    """What the others are compared with has everything that a trace can have."""
    for view in VIEWS:
        text = run("show", whole, "--by", view).stdout
        assert view in ALWAYS or ("  not recorded: " not in text and "none" not in text.split("Dropped or")[0]), (view, text)


@pytest.mark.parametrize("lacks", VARIANTS)
def test_views(whole, tmp_path, lacks):
    categories, arguments, said = VARIANTS[lacks]
    path = capture(tmp_path, lacks, categories, arguments)
    for view in VIEWS:
        if view == "all":
            continue
        text = run("show", path, "--by", view).stdout
        table = text.split("\n\n")[1]
        if view in said:
            assert f"not recorded: {said[view]}" in table, (view, table)
        elif view not in ALWAYS:
            assert "\n  not recorded: " not in table, (view, table)
        elif ALWAYS[view]:
            assert f"not recorded: {ALWAYS[view]}" in table, (view, table)
    known, wrong = dict(leaves(answer_of(whole))), []
    for at, value in leaves(answer_of(path)):
        # Where an interval begins may be at 0.
        # Without calls of modules another row of the tree stands at a place of it.
        elsewhere = at[0] == "tree" and lacks in ("stacks", "modules", "ranges")
        # Where operators were recorded, ranges would have been.
        elsewhere |= at[-1] == "ranges" and lacks == "ranges"
        if value == 0 and known.get(at) and at[-1] != "start_ns" and not elsewhere:
            wrong.append((at, known[at]))
    # A process that launched nothing that is known of has no number.
    assert [one for one in wrong if one[0] != ("capture", "pid")] == []


@pytest.mark.parametrize("lacks", VARIANTS)
def test_page(whole, tmp_path, lacks):
    """The page says it too, and its tables have no 0 where the whole capture has a figure."""
    categories, arguments, said = VARIANTS[lacks]
    data = data_of(page_of(capture(tmp_path, lacks, categories, arguments), tmp_path))
    grids = {grid["heading"]: grid for grid in data["tables"]}
    heads = {"operators": "Operators", "kernels": "Kernels", "ranges": "Ranges", "api": "CUDA API calls"}
    for view, head in heads.items():
        if view in said and (lacks != "cupti" or view == "kernels"):
            assert said[view] in grids[head]["absence"], (view, grids.get(head))
        elif head in grids:
            assert "absence" not in grids[head], (view, grids[head])
    assert data["tree"]["device"] == (lacks not in ("cupti", "calls", "waits", "host"))


def test_what_launched_it(tmp_path):
    """Work of a device whose calls are missing belongs to no operator, and no operator is said to have had none."""
    path = capture(tmp_path, "calls", CALLS)
    answer = answer_of(path)
    assert all(row["device_ns"] is None for key in ("operators", "ranges", "tree", "threads") for row in answer[key])
    assert all(row["operator"] in (None, "(not recorded)") and row["delay_average_ns"] is None for row in answer["launches"])
    text = run("show", path, "--by", "operators").stdout
    assert "What launched the work of the devices was not recorded" in text and "DEVICE TOTAL" not in text
    assert all(device["after_sync_ns"] is None for step in answer["breakdown"]["steps"] for device in step["devices"])


def test_outside_of_operators(tmp_path):
    """Without operators nobody knows whether the host was outside of them."""
    answer = answer_of(capture(tmp_path, "torch", ("cpu_op",)))
    for step in answer["breakdown"]["steps"]:
        assert "outside" not in step["host"]["rows"]
        assert all("outside" not in device["idle"] for device in step["devices"])


def test_kernels_that_are_missing(tmp_path):
    """Calls launched kernels, and there are none: why the device was idle is not known."""
    path = capture(tmp_path, "kernels", ("kernel",))
    answer = answer_of(path)
    assert "calls launched kernels that were not recorded" in answer["breakdown"]["doubt"]
    assert "calls launched kernels that were not recorded" in re.sub(r"\s+", " ", run("show", path).stdout)


def test_looks_that_are_missing(whole, tmp_path):
    """How much the step's thread ran, of a file that has no looks at it, or no table of them."""
    for number, change in enumerate(("DELETE FROM thread_times", "DROP TABLE thread_times", "DROP TABLE workers")):
        path = tmp_path / f"{number}.db"
        path.write_bytes(whole.read_bytes())
        with sqlite3.connect(path) as db:
            db.execute(change)
        answer = answer_of(path)
        assert all(row["thread_cpu_ns"] is None and row["voluntary_switches"] is None for row in answer["steps"])
        assert "not recorded: nobody looked at" in run("show", path, "--by", "workers").stdout
        assert "how much the step's thread ran, and workers of a loader, was not recorded" in run("show", path, "--by", "breakdown").stdout


def test_calls_stand_in_for_waits(whole, tmp_path):
    """Without records of synchronisations the calls that wait are shown, which is said; what is idle, and why, does not depend on them."""
    path = capture(tmp_path, "syncs", ("cuda_sync",))
    with_them, without = answer_of(whole), answer_of(path)
    waits = {row["name"]: (row["calls"], row["total_ns"]) for row in without["api"]
             if re.search("Synchronize|Memcpy(?!.*Async)", row["name"])}
    found = {}
    for row in without["syncs"]:
        calls, total = found.get(row["call"], (0, 0))
        found[row["call"]] = calls + row["calls"], total + row["total_ns"]
    assert found == waits and waits
    # Of what was waited for by a call in both: the same operators, as often.
    ours = {(row["operator"], row["call"]): row["calls"] for row in without["syncs"]}
    for row in with_them["syncs"]:
        if row["call"] in waits:
            assert ours[row["operator"], row["call"]] >= row["calls"], row
    assert {row["kind"] for row in without["syncs"]} <= {"Stream Sync", "Event Sync", "Context Sync", "Blocking copy", "Unknown"}
    assert "waits were not recorded: these are the calls that wait" in run("show", path, "--by", "syncs").stdout
    assert "waits were not recorded" not in run("show", whole, "--by", "syncs").stdout
    for key in ("breakdown", "findings", "verdict"):
        assert without[key] == with_them[key], key


def test_one_of_the_two_apis(whole, tmp_path):
    """Of calls of one API alone nobody takes the other for unused."""
    for kind, said in ((ACTIVITY["RUNTIME"], "runtime"), (ACTIVITY["DRIVER"], "driver")):
        path = tmp_path / f"{said}.db"
        path.write_bytes(whole.read_bytes())
        with sqlite3.connect(path) as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES ('absent_kinds', ?)", (1 << kind,))
        assert f"calls of the {said} API were not recorded" in run("show", path, "--by", "api").stdout
    assert "API were not recorded" not in run("show", whole, "--by", "api").stdout
