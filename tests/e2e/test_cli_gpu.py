"""What the client shows of a GPU: `profd show` of captures whose figures were computed by hand, `trigger`'s answer, `doctor`.

make_capture.gpu_capture writes two steps of 10 ms and 12 ms. Step 1: gemm 3 ms from 0.4 ms, relu 0.6 ms from 3.4, a copy of
1 ms from 4.0 on another stream, gemm 2 ms from 4.2, a set of 2 us at 7.0: busy 3.0 + 0.6 + 2.2 + 0.002 ms, nothing from 6.2
to 7.0. Step 2: relu 0.6 ms from 11.5, a copy of 0.5 ms from 12.1. All operations together: 7.702 ms.
"""

import csv
import io
import json
import pathlib
import re
import sqlite3
import subprocess

import pytest

import fake_agent
import terminal
import test_device_store
from cli import *  # noqa: F401,F403 (fixtures)
from cli import PROFD, ROOT
from fake_daemon import END, CaptureFile, capture_row, process_row, summary_row
from make_capture import GEMM_NAME, gpu_capture
from test_absent import VIEWS
from test_cli_trigger import play

MS, US = 1_000_000, 1_000


@pytest.fixture
def shown(lonely, folder):
    """show(words..., **what gpu_capture takes): the JSON."""
    def show(*words, **made):
        gpu_capture(folder / "g.db", **made)
        done = lonely.run("show", folder / "g.db", "--format", "json", *words)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        return json.loads(done.stdout)
    return show


def pick(rows, *keys):
    return [tuple(row[key] for key in keys) for row in rows]


def test_steps_and_totals(shown):
    answer = shown()
    assert pick(answer["steps"], "device_busy_ns", "device_busy_percent", "kernels", "copies", "sets", "graphs", "largest_gap_ns") == [
        (5_802_000, 58.02, 3, 1, 1, None, 800_000), (1_100_000, 9.167, 1, 1, 0, None, 0)]
    totals = answer["totals"]
    assert (totals["device_busy_ns"], totals["device_busy_percent"], totals["device_ns"]) == (6_902_000, 31.373, 7_702_000)
    assert (totals["kernels"], totals["copies"], totals["sets"], totals["graphs"]) == (4, 2, 1, None)
    alone = shown("--step", "102")
    assert pick(alone["steps"], "step", "kernels") == [(2, 1)]
    assert (alone["totals"]["device_busy_ns"], alone["totals"]["device_ns"], alone["totals"]["kernels"]) == (1_100_000, 1_100_000, 1)


def test_kernels(shown):
    assert shown()["kernels"] == [
        {"name": GEMM_NAME, "calls": 2, "total_ns": 5 * MS, "percent": 64.918, "average_ns": 2_500_000, "min_ns": 2 * MS,
         "max_ns": 3 * MS, "devices": [0], "streams": [7], "short_name": "Kernel", "occupancy_percent": 12.5, "tensor_cores": True,
         "blocks_per_sm": 1, "grid": [108, 1, 1], "block": [256, 1, 1], "registers_per_thread": 32, "shared_memory_bytes": 0,
         "configurations": 1, "median_ns": 2_500_000, "stddev_ns": 707_107},
        {"name": "relu(float*, int)", "calls": 2, "total_ns": 1_200_000, "percent": 15.58, "average_ns": 600_000,
         "min_ns": 600_000, "max_ns": 600_000, "devices": [0], "streams": [7], "short_name": "relu", "occupancy_percent": 12.5,
         "tensor_cores": None, "blocks_per_sm": 1, "grid": [108, 1, 1], "block": [256, 1, 1], "registers_per_thread": 32,
         "shared_memory_bytes": 0, "configurations": 1, "median_ns": 600_000, "stddev_ns": 0}]
    assert pick(shown("--step", "2")["kernels"], "name", "calls", "percent") == [("relu(float*, int)", 1, 54.545)]


def test_copies_and_sets(shown):
    answer = shown()
    assert pick(answer["copies"], "name", "kind", "source", "target", "calls", "bytes", "total_ns", "bandwidth_gb_s", "streams") == [
        ("Memcpy HtoD (Pinned -> Device)", "HtoD", "Pinned", "Device", 1, 12_000_000, MS, 12, [20]),
        ("Memcpy DtoH (Device -> Pageable)", "DtoH", "Device", "Pageable", 1, 1_000_000, 500_000, 2, [7])]
    assert pick(answer["sets"], "name", "memory", "calls", "bytes", "total_ns", "bandwidth_gb_s") == [
        ("Memset (Device)", "Device", 1, 4096, 2000, 2.048)]
    alone = shown("--step", "1")
    assert [c["kind"] for c in alone["copies"]] == ["HtoD"] and [s["calls"] for s in alone["sets"]] == [1]


def test_api_and_syncs(shown):
    answer = shown()
    assert pick(answer["api"], "name", "api", "calls", "total_ns", "average_ns", "min_ns", "max_ns", "failed") == [
        ("cudaStreamSynchronize", "runtime", 1, 900 * US, 900 * US, 900 * US, 900 * US, 0),
        ("cudaMalloc", "runtime", 1, 100 * US, 100 * US, 100 * US, 100 * US, 1),
        ("cudaMemcpyAsync", "runtime", 2, 50 * US, 25 * US, 20 * US, 30 * US, 0),
        ("cudaLaunchKernel", "runtime", 3, 24 * US, 8 * US, 6 * US, 10 * US, 0),
        ("cuLaunchKernel", "driver", 1, 10 * US, 10 * US, 10 * US, 10 * US, 0),
        ("cudaMemsetAsync", "runtime", 1, 4 * US, 4 * US, 4 * US, 4 * US, 0)]
    assert pick(answer["syncs"], "kind", "calls", "total_ns", "percent", "failed") == [
        ("Stream Sync", 1, 900 * US, 90, 0), ("Context Sync", 1, 100 * US, 10, 0)]
    assert pick(shown("--step", "1")["syncs"], "kind", "calls") == [("Context Sync", 1)]
    assert pick(shown("--step", "2")["syncs"], "kind", "calls") == [("Stream Sync", 1)]


def test_streams_and_devices(shown):
    answer = shown()
    assert pick(answer["streams"], "device", "stream", "name", "priority", "busy_ns", "busy_percent", "kernels", "copies", "sets") == [
        (0, 7, None, 0, 6_702_000, 30.464, 4, 1, 1), (0, 20, "loader", -5, MS, 4.545, 0, 1, 0)]
    assert answer["devices"] == [
        {"device": 0, "name": "NVIDIA A100-SXM4-40GB", "uuid": "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", "busy_ns": 6_902_000,
         "busy_percent": 31.373, "kernel_busy_ns": 6_200_000, "kernels": 4, "copies": 2, "sets": 1, "graphs": None,
         "largest_gap_ns": 800_000, "memory_bytes": 40 << 30, "multiprocessors": 108, "capability": "8.0"}]


def test_attribution(shown):
    answer = shown()
    found = {o["name"]: (o["self_device_ns"], o["self_device_percent"], o["device_ns"], o["device_average_ns"]) for o in answer["operators"]}
    backward = "autograd::engine::evaluate_function: AddmmBackward0"
    assert found == {"aten::addmm": (3 * MS, 38.951, 3 * MS, 3 * MS), "aten::linear": (0, 0, 3 * MS, 3 * MS),
                     "aten::relu": (1_200_000, 15.58, 1_200_000, 600_000), backward: (2_002_000, 25.993, 2_002_000, 2_002_000),
                     "aten::empty": (0, 0, 0, 0)}
    # By default by what they did on the device themselves.
    assert [o["name"] for o in answer["operators"]] == ["aten::addmm", backward, "aten::relu", "aten::linear", "aten::empty"]
    assert pick(answer["ranges"], "name", "self_device_ns", "device_ns", "device_span_ns") == [("forward", MS, 4_600_000, 4_600_000)]
    assert pick(answer["threads"], "thread", "launches", "device_ns") == [(4242, 5, 5_700_000), (4250, 2, 2_002_000)]
    assert {o["name"]: o["device_ns"] for o in shown("--step", "2")["operators"]} == {"aten::relu": 600_000, "aten::empty": 0}


@pytest.mark.parametrize("key, first", [
    ("self_device_time_total", "aten::addmm"), ("device_time_total", "aten::linear"), ("device_time", "aten::linear"),
    ("self_cpu_time_total", "autograd::engine::evaluate_function: AddmmBackward0"), ("count", "aten::relu"), ("name", "aten::addmm")])
def test_sort_keys(lonely, folder, key, first):
    """torch.profiler's, under its newer names and its older ones."""
    gpu_capture(folder / "g.db")
    answers = []
    for word in {key, key.replace("device", "cuda")}:
        done = lonely.run("show", folder / "g.db", "--by", "operators", "--format", "csv", "--sort-by", word)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        answers.append(done.stdout)
    assert len(set(answers)) == 1
    assert next(csv.DictReader(io.StringIO(answers[0])))["name"] == first


@pytest.mark.parametrize("by, key, order", [
    ("kernels", "cuda_time", [GEMM_NAME, "relu(float*, int)"]), ("kernels", "name", ["relu(float*, int)", GEMM_NAME]),
    ("copies", "name", ["Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pageable)"]),
    ("api", "count", ["cudaLaunchKernel", "cudaMemcpyAsync", "cuLaunchKernel"]),
    ("ranges", "cuda_time_total", ["forward"])])
def test_sort_of_other_tables(lonely, folder, by, key, order):
    gpu_capture(folder / "g.db")
    done = lonely.run("show", folder / "g.db", "--by", by, "--format", "csv", "--sort-by", key)
    assert [row["name"] for row in csv.DictReader(io.StringIO(done.stdout))][:len(order)] == order


def test_shapes_with_a_device(lonely, folder):
    """An operator that comes back to itself is one call, of the outer one's shapes, with what both launched."""
    gpu_capture(folder / "g.db")
    with sqlite3.connect(folder / "g.db") as db:
        db.execute("UPDATE collectors SET ran = 1 WHERE collector = 'shapes'")
        db.execute("INSERT INTO inputs VALUES (1, '[[8, 8]]', '[]', '[]', '[]')")
        db.execute("UPDATE operators SET inputs = 1, name = (SELECT name FROM operators WHERE id = 1) WHERE id IN (1, 2)")
    done = lonely.run("show", folder / "g.db", "--group-by-shapes", "--format", "json")
    rows = [o for o in json.loads(done.stdout)["operators"] if o["input_shapes"]]
    assert pick(rows, "name", "calls", "self_cpu_ns", "cpu_ns", "self_device_ns", "device_ns") == [
        ("aten::linear", 1, 900_000, 900_000, 3 * MS, 3 * MS)]


def test_graphs(shown, lonely, folder):
    """By node: their kernels are among the kernels. As a whole: only how long the graph took."""
    answer = shown(graphs="nodes")
    assert pick(answer["graphs"], "graph", "calls", "operations", "total_ns", "streams") == [(3, 1, 3, 5 * MS, [7])]
    assert "of these calls were nodes of CUDA graphs, in 1 launch (--by graphs)" in lonely.run("show", folder / "g.db", "--by", "kernels").stdout
    assert pick(answer["kernels"], "calls", "total_ns") == [(4, 9 * MS), (3, 2_200_000)]
    answer = shown(graphs="whole")
    assert pick(answer["graphs"], "graph", "calls", "operations", "total_ns", "average_ns") == [(3, 1, None, 5 * MS, 5 * MS)]
    assert pick(answer["steps"], "kernels", "graphs", "device_busy_ns") == [(3, 0, 5_802_000), (1, 1, 6_100_000)]
    assert answer["totals"]["graphs"] == 1 and answer["totals"]["device_ns"] == 12_702_000
    assert "recorded as a whole" in lonely.run("show", folder / "g.db", "--by", "kernels").stdout
    assert "it is not known how many operations a launch had" in lonely.run("show", folder / "g.db", "--by", "graphs").stdout
    assert shown()["graphs"] == []


def test_memory(shown):
    assert shown()["memory"] is None
    assert shown(memory=True)["memory"] == [
        {"device": 0, "source": "cuda", "memory": "Device", "taken": 3, "taken_bytes": 4500, "given_back": 1,
         "given_back_bytes": 1000, "peak_bytes": 4000, "kept_bytes": 3500}]
    alone = shown("--step", "2", memory=True)["memory"][0]
    assert (alone["taken"], alone["given_back"], alone["peak_bytes"]) == (1, 0, 500)


def test_sessions(shown):
    """How far the times can be trusted is said with them."""
    assert shown(graphs="whole")["sessions"] == [
        {"cupti_version": 24, "driver_version": 12040, "runtime_version": 12040, "clock_error_ns": 800, "records": 0,
         "buffer_bytes": 4 << 20, "foreign_buffers": None, "astray_buffers": None, "early": 0, "enable_ns": 1000, "drain_ns": 1000,
         "library": "/usr/lib/libcupti.so.12", "notes": "CUDA graphs as a whole"}]


def keys(value):
    """Every key of a JSON value."""
    if isinstance(value, list):
        return set().union(*map(keys, value)) if value else set()
    return set(value) | keys(list(value.values())) if isinstance(value, dict) else set()


def test_json_is_documented(shown, lonely):
    documented = set(re.findall(r"\w+", lonely.run("help", "json").stdout))
    assert keys(shown(graphs="whole", memory=True)) - documented == set()


def test_tables(lonely, folder):
    gpu_capture(folder / "g.db", memory=True)
    done = lonely.run("show", folder / "g.db", "--by", "all", "--full-names")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    for text in ("Devices\n", "Kernels\n", "Copies\n", "Memsets\n", "Streams\n", "CUDA API calls\n", "Waits for a device\n",
                 "Memory of the devices\n", "58.0%", "12.00 GB/s", "Self CPU time total: 2.704 ms", "Self CUDA time total: 7.702 ms",
                 "launches, copies, waits, memory and the loading of code only", GEMM_NAME):
        assert text in done.stdout, text
    assert "CUDA graphs" not in done.stdout and "simulated" not in done.stdout.lower()
    only = lonely.run("show", folder / "g.db", "--by", "graphs").stdout
    assert "CUDA graphs\n  none" in only and "Kernels\n" not in only


def test_simulated_is_said_wherever_it_is_shown(lonely, folder):
    gpu_capture(folder / "g.db", device="Simulated A100")
    assert "SIMULATED GPU" in lonely.run("show", folder / "g.db").stdout
    out = lonely.run("show", folder / "g.db", "--by", "all").stdout
    assert "SIMULATED GPU" in out
    for heading in ("Devices", "Kernels", "Copies", "Memsets", "Streams", "CUDA API calls", "Waits for a device"):
        assert heading + " (simulated GPU)\n" in out, heading
    for by in ("kernels", "copies", "operators"):
        assert "SIMULATED GPU" in lonely.run("show", folder / "g.db", "--by", by).stdout
    assert json.loads(lonely.run("show", folder / "g.db", "--format", "json").stdout)["capture"]["simulated"] is True


def test_two_devices(lonely, folder):
    """How busy they were is a share of what both had."""
    gpu_capture(folder / "g.db")
    with sqlite3.connect(folder / "g.db") as db:
        for stream in (7, -1):
            db.execute("INSERT INTO step_devices VALUES (1, 1, ?, 2, 4000000, 4000000, 900000, 0, 0, 9000000, 2, 0, 0, 0)", (stream,))
        db.execute("INSERT INTO kernel_totals SELECT name, 1, 13, 1, 2, 4000000, 1000000, 3000000 FROM kernel_totals LIMIT 1")
    answer = json.loads(lonely.run("show", folder / "g.db", "--format", "json").stdout)
    assert pick(answer["steps"], "device_busy_ns", "device_busy_percent", "kernels", "largest_gap_ns") == [
        (9_802_000, 49.01, 5, 900_000), (1_100_000, 4.583, 1, 0)]
    assert answer["totals"]["device_busy_percent"] == 24.777
    assert [(k["devices"], k["streams"]) for k in answer["kernels"]] == [([0, 1], [7, 13]), ([0], [7])]
    assert pick(answer["devices"], "device", "name", "busy_ns", "busy_percent") == [
        (0, "NVIDIA A100-SXM4-40GB", 6_902_000, 31.373), (1, None, 4_000_000, 18.182)]


def not_recorded(run, sentence):
    answer = json.loads(run("--format", "json").stdout)
    for key in ("devices", "kernels", "copies", "sets", "graphs", "streams", "api", "syncs", "memory", "sessions"):
        assert answer[key] is None, key
    for row in [answer["totals"]] + answer["steps"]:
        assert row["kernels"] is None and row["copies"] is None and row["device_busy_ns"] is None
    assert answer["operators"] and all(o["self_device_ns"] is None and o["device_ns"] is None for o in answer["operators"])
    assert "kernels: not recorded: " + sentence in run().stdout and "device not recorded" in run().stdout
    table = run("--by", "all").stdout
    assert "Kernels\n  not recorded: " + sentence in table
    # Once among all tables; where it is asked for, again.
    assert table.count(sentence + "\n\n") == 1 and "Copies" not in table and "DEVICE" not in table
    for by in ("copies", "api", "streams", "graphs", "syncs", "devices"):
        assert "not recorded: " + sentence in run("--by", by).stdout
    done = run("--by", "kernels", "--format", "csv")
    assert done.returncode == 0 and done.stdout.count("\n") == 1 and "not recorded: " + sentence in done.stderr
    done = run("--sort-by", "cuda_time_total")
    assert done.returncode == 0 and "were not recorded" in done.stderr


def test_without_a_gpu(lonely, folder):
    file = CaptureFile(folder / "cpu.db")
    file.collector("steps")
    file.collector("torch")
    file.collector("cupti", ran=False, sentence="no CUDA driver is up in the process")
    file.step(1, 101, 0, 10_000_000)
    file.operator("aten::mm", 0, 1000, 1000)
    path = file.finish()
    not_recorded(lambda *words: lonely.run("show", path, *words), "no CUDA driver is up in the process")


def test_a_file_of_the_first_release(lonely, folder):
    """Schema 1 has none of the device's tables, and other columns in those of totals."""
    path = folder / "old.db"
    with sqlite3.connect(path) as db:
        db.executescript((ROOT / "tests/compat/0.1.0/capture.sql").read_text())
    not_recorded(lambda *words: lonely.run("show", path, *words), "the release of profd that wrote the capture knew no CUDA activity")
    answer = json.loads(lonely.run("show", path, "--group-by-shapes", "--format", "json").stdout)
    assert pick(answer["operators"], "name", "calls", "self_cpu_ns", "cpu_ns") == [("aten::addmm", 1, 700, 700), ("aten::linear", 1, 200, 900)]
    assert answer["steps"][0]["operators"] == 2 and answer["ranges"][0]["name"] == "forward" and len(answer["threads"]) == 1
    for view in VIEWS:
        done = lonely.run("show", path, "--by", view)
        assert done.returncode == 0 and "no such" not in done.stdout + done.stderr, (view, done)


def test_a_step_in_which_it_was_off(lonely, folder):
    gpu_capture(folder / "g.db")
    with sqlite3.connect(folder / "g.db") as db:
        db.execute("UPDATE steps SET collectors = 7 WHERE step = 2")
    answer = json.loads(lonely.run("show", folder / "g.db", "--format", "json").stdout)
    assert pick(answer["steps"], "kernels", "device_busy_ns") == [(3, 5_802_000), (None, None)]
    assert "not recorded" in lonely.run("show", folder / "g.db", "--by", "steps").stdout


def on_terminal(client, width, *words):
    """The lines that a terminal of this width gets."""
    return terminal.on_terminal([PROFD, *words], width, {**client.environment, "NO_COLOR": "1"}).splitlines()


@pytest.mark.parametrize("width", [100, 80, 200, 320])
def test_tables_fit_the_terminal(lonely, folder, width):
    gpu_capture(folder / "g.db", graphs="whole", memory=True)
    for line in on_terminal(lonely, width, "show", folder / "g.db"):
        assert len(line) <= width or "/g.db" in line, line
    lines = on_terminal(lonely, width, "show", folder / "g.db", "--by", "all")
    assert max(map(len, lines)) <= width, max(lines, key=len)
    heads = {line.split()[0]: line.split() for line in reversed(lines) if re.match(r"[A-Z]+ ", line)}
    name = next(line for line in lines if re.match(r"(void cutlass::)?Kernel\b", line))
    if width == 100:
        assert name.startswith("Kernel<cutlass_80") and "STREAMS" not in heads["KERNEL"]
        assert {"SELF", "DEVICE", "CALLS"} <= set(heads["OPERATOR"])
    if width >= 200:
        assert {"STREAMS", "OCCUPANCY", "GRID"} <= set(heads["KERNEL"]), heads["KERNEL"]
    if width == 320:
        assert GEMM_NAME in name


GPU_SUMMARY = dict(
    devices=1, steps=[{"step": 1, "number": 101, "wall_ns": 10 * MS, "device_busy_ns": 8 * MS, "kernels": 300, "copies": 2, "largest_gap_ns": 700_000},
                      {"step": 2, "number": 102, "wall_ns": 10 * MS, "device_busy_ns": 9 * MS, "kernels": 301, "copies": 2, "largest_gap_ns": 90_000}],
    steps_total=2, kernels=[{"name": "gemm", "calls": 600, "total_ns": 15 * MS, "average_ns": 25_000, "min_ns": 20_000, "max_ns": 90_000}],
    kernels_total=7, copies=[{"kind": "HtoD", "calls": 4, "bytes": 8_000_000, "total_ns": MS}],
    sets={"calls": 3, "bytes": 4096, "total_ns": 6000}, gpu={"cupti_version": 24, "driver_version": 12040, "clock_error_ns": 800},
    operators=[{"name": "aten::addmm", "calls": 30, "self_cpu_ns": 9 * MS, "cpu_ns": 9 * MS, "self_device_ns": 14 * MS, "device_ns": 15 * MS}],
    ranges=[{"name": "forward", "calls": 2, "total_ns": 12 * MS, "self_ns": 2 * MS, "self_device_ns": 0, "device_ns": 14 * MS}],
    collectors=[{"collector": word, "on": True, "sentence": "", "enable_ns": 1000} for word in ("torch", "cupti")])


def test_trigger(client, fake):
    fake.answers.update(trigger=play(capture_row()), summary=[summary_row(**GPU_SUMMARY), END])
    out = client.run("trigger", "--pid", 4242).stdout
    for text in ("device busy 85.0%", "Kernels by total time\n", "... and 6 more", "Copies and memsets\n", "8.00 GB/s", "Memset",
                 "Operators by self device time", "14.00 ms", "LARGEST GAP", "80.0%", "90.0%", "kernels, copies"):
        assert text in out, text
    assert out.index("Kernels") < out.index("Operators by") and "simulated" not in out.lower()
    fake.answers.update(trigger=play(capture_row(simulated=True)))
    out = client.run("trigger", "--pid", 4242).stdout
    assert "SIMULATED GPU" in out and "Kernels by total time (simulated GPU)" in out and "Copies and memsets (simulated GPU)" in out
    assert "Operators by self device time (simulated GPU)" in out


def test_trigger_of_several_ranks(client, fake):
    rows = [capture_row(str(20 + r), pid=100 + r, rank=r) for r in range(2)]

    def summaries(connection, request):
        busy = dict(GPU_SUMMARY, steps=[dict(step, device_busy_ns=5 * MS) for step in GPU_SUMMARY["steps"]])
        connection.send(summary_row(**(busy if request["capture_id"] == "21" else GPU_SUMMARY)))
        connection.send(END)
    fake.answers.update(trigger=play(*rows), summary=summaries)
    lines = client.run("trigger", "--all").stdout.splitlines()
    assert "BUSY %" in lines[0] and "85.0%" in lines[1] and "50.0%" in lines[2]


def test_trigger_without_a_gpu(client, fake):
    """Also of a daemon that is older than the client, which tells nothing of a GPU."""
    told = [{"collector": "torch", "on": True, "sentence": ""}, {"collector": "cupti", "on": False, "sentence": "no CUDA driver"}]
    fake.answers.update(trigger=play(capture_row()), summary=[summary_row(
        collectors=told, kernels=None, copies=None, sets=None, gpu=None), END])
    out = client.run("trigger", "--pid", 4242).stdout
    assert "Kernels by total time\n  not recorded: no CUDA driver\n" in out and "DEVICE" not in out and "device busy" not in out
    fake.answers.update(summary=[summary_row(), END])
    out = client.run("trigger", "--pid", 4242).stdout
    assert "Kernels by total time\n  not recorded\n" in out and "DEVICE" not in out


def checks(run, **environment):
    answer = json.loads(run("doctor", "--format", "json", **environment).stdout)
    return {row["check"]: (row["result"], row["sentence"]) for row in answer["checks"]}


def test_doctor_of_the_environment(lonely, folder):
    library = folder / "lib"
    library.mkdir()
    (library / "libcuda.so.1").write_bytes(b"no library; it is only looked for")
    found = checks(lonely.run, LD_LIBRARY_PATH="/none:" + str(library))
    assert found["cuda driver"] == ("ok", str(library / "libcuda.so.1"))
    assert "injection" not in found and "hardware trace" not in found
    found = checks(lonely.run, CUDA_INJECTION64_PATH="/opt/nsight/libToolsInjection64.so", CUPTI_ENABLE_HW_TRACE="1")
    assert found["injection"][0] == "warning" and "/opt/nsight/libToolsInjection64.so" in found["injection"][1]
    assert found["hardware trace"][0] == "warning"
    found = checks(lonely.run, CUDA_INJECTION64_PATH="/usr/lib/profd/libprofd_agent.so", CUPTI_ENABLE_HW_TRACE="0")
    assert "injection" not in found and "hardware trace" not in found


@pytest.fixture
def machine(lonely, folder):
    """doctor on a machine with other /dev and /proc/driver: a mount namespace."""
    def run(devices, version=None, params=""):
        made = "".join("touch /dev/nvidia%d && " % n for n in range(devices))
        if version is not None:
            (folder / "version").write_text(version)
            (folder / "params").write_text(params)
            made += ("mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia && cp {0}/version {0}/params "
                     "/proc/driver/nvidia && ").format(folder)
        stage = "mount -t tmpfs none /dev && " + made + 'exec "$@"'
        namespace = ["unshare", "-r", "-m", "sh", "-c", stage, "sh"]
        if subprocess.run(namespace + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
            pytest.skip("this machine allows no user and mount namespaces")
        return checks(lambda *words, **e: subprocess.run(namespace + [str(PROFD), *words], env={**lonely.environment, **e}, text=True,
                                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=120))
    return run


def test_doctor_of_machines(machine):
    if pathlib.Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a driver of its own")
    assert not {"kernel driver", "gpus"} & set(machine(0))
    found = machine(2, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version: 12\n")
    assert found["kernel driver"] == ("ok", "NVIDIA's kernel driver is 535.104.05") and found["gpus"] == ("ok", "2 GPUs at /dev/nvidia*")
    found = machine(0, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n", "RmProfilingAdminOnly: 1\n")
    assert "570.86.15" in found["kernel driver"][1] and "does not concern" in found["kernel driver"][1]
    assert found["gpus"][0] == "warning" and "container" in found["gpus"][1]


def test_doctor_of_a_process(client, fake):
    """The agent's sentences as they come; an agent of before says nothing of CUDA."""
    rows = [process_row(), {"row": "collector", "collector": "cupti", "available": True, "sentence": "CUPTI 12.4 at /x, driver 12.4"}]
    fake.answers["doctor"] = [*rows, END]
    answer = json.loads(client.run("doctor", "--pid", "4242", "--format", "json").stdout)
    assert pick(answer["collectors"], "collector", "available", "sentence") == [("cupti", True, "CUPTI 12.4 at /x, driver 12.4")]
    fake.answers["doctor"] = [rows[0], dict(rows[1], collector="torch"), END]
    answer = json.loads(client.run("doctor", "--pid", "4242", "--format", "json").stdout)
    assert answer["collectors"][1]["available"] is False and "start it again" in answer["collectors"][1]["sentence"]


def test_captures_say_simulated(client, fake):
    fake.answers["captures"] = [capture_row("2"), END]
    assert "GPU" not in client.run("captures").stdout
    fake.answers["captures"] = [capture_row("2"), capture_row("1", simulated=True), END]
    lines = client.run("captures").stdout.splitlines()
    assert "GPU" in lines[0] and "simulated" in lines[2] and "simulated" not in lines[1]
    assert [c["simulated"] for c in json.loads(client.run("captures", "--format", "json").stdout)["captures"]] == [False, True]


def test_operations_without_times(lonely, folder):
    """They are calls, and take part in no time: neither in totals nor in averages; what has no time at all has none of 0."""
    gpu_capture(folder / "g.db")
    with sqlite3.connect(folder / "g.db") as db:
        relu = db.execute("SELECT id FROM strings WHERE text = 'relu(float*, int)'").fetchone()[0]
        db.execute("INSERT INTO kernel_totals VALUES (?, 0, 9, 1, 5, 0, NULL, NULL)", (relu,))
        db.execute("INSERT INTO strings VALUES (900, 'never timed')")
        db.execute("INSERT INTO kernel_totals VALUES (900, 0, 9, 1, 3, 0, NULL, NULL)")
        db.execute("INSERT INTO copy_totals VALUES (8, 3, 3, 0, 9, 1, 2, 64, 0, NULL, NULL)")
    answer = json.loads(lonely.run("show", folder / "g.db", "--format", "json").stdout)
    assert pick(answer["kernels"], "calls", "total_ns", "average_ns", "min_ns", "streams")[1:] == [
        (7, 1_200_000, 600_000, 600_000, [7, 9]), (3, None, None, None, [9])]
    assert pick(answer["copies"], "kind", "calls", "total_ns", "bandwidth_gb_s", "average_ns")[-1] == ("DtoD", 2, None, None, None)


@pytest.mark.parametrize("seed", [11, 12, 13, 14])
def test_what_the_daemon_derived(profd, seed):
    """The client's tables, the summary that `trigger` prints, and the records themselves tell one story."""
    captured = test_device_store.record(profd, test_device_store.Random(seed))
    shown = profd.show(captured["capture_id"])
    socket = fake_agent.connect(profd.socket, 60)
    fake_agent.send(socket, "summary", capture_id=captured["capture_id"])
    summary = next(row for row in fake_agent.rows(socket) if row.get("row") == "summary")
    socket.close()
    timed = [kernel for kernel in shown["kernels"] if kernel["total_ns"] is not None]
    figures = ("name", "calls", "total_ns", "average_ns", "min_ns", "max_ns")
    assert len(timed) > 3 and pick(timed, *figures) == pick([k for k in summary["kernels"] if k["max_ns"] is not None], *figures)
    for key in ("device_busy_ns", "kernels", "copies", "largest_gap_ns", "wall_ns"):
        assert [step[key] for step in shown["steps"]] == [step[key] for step in summary["steps"]], key
    for name, key in (("operators", "self_device_ns"), ("operators", "device_ns"), ("ranges", "self_device_ns"), ("ranges", "device_ns")):
        listed = {row["name"]: row[key] for row in shown[name]}
        assert all(listed[row["name"]] == row[key] for row in summary[name]) and (name == "ranges" or any(listed.values())), (name, key)
    with test_device_store.open_capture(profd, captured) as db:
        def single(sql):
            return db.execute(sql).fetchone()[0]
        for table in ("kernels", "copies", "sets"):
            assert shown["totals"][table] == sum(row["calls"] for row in shown[table]) == single("SELECT count(*) FROM " + table)
        assert sum(row["calls"] for row in shown["api"]) == single("SELECT count(*) FROM api_calls")
        assert sum(row["failed"] for row in shown["api"]) == single("SELECT count(*) FROM api_calls WHERE result <> 0") > 0
        assert sum(row["calls"] for row in shown["syncs"]) == single("SELECT count(*) FROM syncs")
        assert sum(row["launches"] for row in shown["threads"]) == single("SELECT count(*) FROM launches WHERE thread IS NOT NULL")
        whole = sum(single("SELECT coalesce(sum(duration), 0) FROM " + view) for view in ("kernels", "copies", "sets", "graph_launches"))
        assert shown["totals"]["device_ns"] == whole
        assert len(shown["devices"]) == single("SELECT count(DISTINCT device) FROM step_devices")
        by_step = [profd.show(captured["capture_id"], "--step", n) for n in (1, 2, 3)]
        # What was launched before the recording is of no step.
        earlier = {table: single(f"SELECT count(*) FROM {table} WHERE step IS NULL") for table in ("kernels", "copies", "sets")}
        earlier["device_ns"] = sum(single(f"SELECT coalesce(sum(duration), 0) FROM {view} WHERE step IS NULL")
                                   for view in ("kernels", "copies", "sets", "graph_launches"))
        for key in ("kernels", "copies", "sets", "device_ns"):
            assert sum(one["totals"][key] for one in by_step) + earlier[key] == shown["totals"][key], key
        # Folded from the operators here, and in the daemon for its totals.
        assert {o["name"]: (o["calls"], o["self_cpu_ns"], o["self_device_ns"], o["device_ns"]) for o in
                profd.show(captured["capture_id"], "--group-by-shapes")["operators"]} == {
            o["name"]: (o["calls"], o["self_cpu_ns"], o["self_device_ns"], o["device_ns"]) for o in shown["operators"]}
    assert profd.run("show", captured["capture_id"]).stdout.count("Kernels") == 1
