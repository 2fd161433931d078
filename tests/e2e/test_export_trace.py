"""`profd trigger --output` and `profd export` on live jobs: the trace holds what the program did, in Kineto's shape."""
import collections
import json
import os
import re
import signal
import subprocess
import time

import pytest

from conftest import BUILD, WORKLOADS, wait_for
from readers import trace
from test_export_gpu_readers import export
from test_round_trip import ask

MIX = BUILD / "workloads" / "nvtx_mix"
needs_nvtx = pytest.mark.skipif(not MIX.exists(), reason="workloads with NVTX were not built (PROFD_NVTX_INCLUDE)")
STEPS = BUILD / "workloads" / "steps"


def finish(job, how=signal.SIGTERM):
    job.send_signal(how)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 0, (job.returncode, err)
    return out


def check_steps(profd, capture, exported):
    """ProfilerStep#N around each step; what starts in a step is where the capture has it."""
    shown = profd.show(capture["capture_id"])["steps"]
    steps = [e for e in trace.events(exported, "X", "user_annotation") if trace.is_step(e)]
    assert [e["name"] for e in steps] == [f"ProfilerStep#{s['number']}" for s in shown]
    assert [trace.nanoseconds(e["dur"]) for e in steps] == [s["wall_ns"] for s in shown]
    assert len({(e["pid"], e["tid"]) for e in steps}) == 1
    for before, after in zip(steps, steps[1:]):
        assert trace.interval(before)[1] == trace.interval(after)[0]
    first, last = trace.interval(steps[0])[0], trace.interval(steps[-1])[1]
    begun = [e for e in exported["traceEvents"] if e["ph"] in "Xbi" and e.get("cat") != "profd"]
    assert all(first <= trace.nanoseconds(e["ts"]) < last for e in begun)
    return steps


def check_tracks(exported):
    """Every event lies on a track that has a name; the steps' track is the process's main thread."""
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace.events(exported, "M") if e["name"] == "thread_name"}
    used = {(e["pid"], e["tid"]) for e in exported["traceEvents"] if e["ph"] not in "MC" and e.get("s") != "g"}
    assert used <= set(named)
    for (pid, tid), name in named.items():
        assert pid == trace.TRACKS or re.match(r"thread %d\b" % (tid % 10000000), name)
    return named


def shape_of(value):
    """The type of a JSON value, all the way down."""
    if isinstance(value, list):
        return ["list", *sorted({json.dumps(shape_of(v)) for v in value})]
    return type(value).__name__


def arguments_of(found):
    """For each name the sets of keys and types that its events' args have."""
    by_name = collections.defaultdict(set)
    for event in found:
        # torch numbers the calls that its execution trace observer has seen; we write none.
        args = {k: v for k, v in event["args"].items() if k != "Record function id"}
        by_name[event["name"]].add(json.dumps({k: shape_of(v) for k, v in args.items()}, sort_keys=True))
    return dict(by_name)


def inputs_of(found):
    """All calls with their inputs; "Concrete Inputs" are left out, for they name places in memory."""
    keys = ("Input Dims", "Input type", "Input Strides")
    return collections.Counter(json.dumps([e["name"], *(e["args"].get(k) for k in keys)]) for e in found)


def keys_of(found):
    """The sets of members, with their types, that events have."""
    return {tuple(sorted((k, type(v).__name__) for k, v in e.items())) for e in found}


def flow_names(exported):
    """(name of the forward operator, name of the backward one) of each flow, by the slices that they bind to."""
    slices = {(e["tid"], e["ts"]): e["name"] for e in trace.events(exported, "X", "cpu_op")}
    ends = collections.defaultdict(dict)
    for phase in "sf":
        for event in trace.events(exported, phase, "fwdbwd"):
            assert phase not in ends[event["id"]], "an id stands for one flow"
            ends[event["id"]][phase] = slices[event["tid"], event["ts"]]
    assert all(set(pair) == {"s", "f"} for pair in ends.values())
    return collections.Counter((pair["s"], pair["f"]) for pair in ends.values())


@pytest.mark.parametrize("model", [pytest.param("cnn", marks=pytest.mark.core), pytest.param("lstm", marks=pytest.mark.wide)])
def test_torch_job(profd, torch, tmp_path, model):
    """Name by name, argument by argument what torch.profiler's own trace of the same model has."""
    workload = [torch, WORKLOADS / "train.py", "--model", model, "--ranges", "--quiet"]
    own = subprocess.run([*map(str, workload), "--steps", "6", "--profile", "3", "--shapes", "--trace", str(tmp_path)],
                         env=profd.env, capture_output=True, text=True, timeout=600)
    assert own.returncode == 0, own.stderr
    kineto = trace.load(tmp_path / "window-1.json")

    job = profd.job(*workload, "--steps", 0, "--pad-ms", 2)
    profd.wait_steps(job.pid, 3)
    path = tmp_path / "ours.json.gz"
    capture = profd.trigger(job.pid, "--steps", 3, "--shapes", "--output", path)
    finish(job)
    assert capture["status"] == "complete" and capture["lost"] == 0
    ours = trace.load(path)

    operators, theirs = trace.events(ours, "X", "cpu_op"), trace.events(kineto, "X", "cpu_op")
    assert trace.count(operators) == trace.count(theirs)
    assert trace.count(trace.ranges(ours)) == trace.count(trace.ranges(kineto))
    assert arguments_of(operators) == arguments_of(theirs)
    assert inputs_of(operators) == inputs_of(theirs)
    assert flow_names(ours) == flow_names(kineto)
    assert ours["record_shapes"] == 1

    steps = check_steps(profd, capture, ours)
    assert {e["tid"] for e in steps} == {job.pid}
    assert trace.crossings(ours) == []
    names = check_tracks(ours)
    assert names[job.pid, job.pid] != f"thread {job.pid}", "the main thread's name is known"
    # All of an event's own keys, and the head's.
    for ph, cat in (("X", "cpu_op"), ("X", "user_annotation"), ("s", "fwdbwd"), ("f", "fwdbwd")):
        assert keys_of(trace.events(ours, ph, cat)) == keys_of(trace.events(kineto, ph, cat))
    for key in ("schemaVersion", "deviceProperties", "displayTimeUnit", "record_shapes"):
        assert ours[key] == kineto[key]
    # Where it has something to complain of, Kineto puts its own log there, under the severity's name.
    log = {"ERROR", "WARNING", "INFO", "STAGE"}
    assert set(kineto) - log <= set(ours) | {"with_modules", "with_flops", "profile_memory"}
    identities = [e["args"]["External id"] for e in operators + trace.ranges(ours)]
    assert len(set(identities)) == len(identities)
    indices = [e["args"]["Ev Idx"] for e in trace.events(ours, "X") + trace.events(ours, "i", "user_annotation") if not trace.is_track(e)]
    assert sorted(indices) == list(range(len(indices)))


@needs_nvtx
def test_nvtx_job(profd, tmp_path):
    """Every range and mark by its name, as often as the program says."""
    job = profd.job(MIX, "--step-ms=5")
    profd.wait_steps(job.pid)
    path = tmp_path / "mix.json"
    capture = profd.trigger(job.pid, "--steps", 3, "--output", path)
    facts = json.loads(finish(job))
    exported = trace.load(path)
    assert trace.count(trace.ranges(exported)) == {name: 3 * n for name, n in facts["per_step"]["ranges"].items()}
    marks = trace.events(exported, "i", "user_annotation")
    assert trace.count(marks) == {name: 3 * n for name, n in facts["per_step"]["marks"].items()}
    assert trace.events(exported, "X", "cpu_op") == []
    check_steps(profd, capture, exported)
    assert trace.crossings(exported) == []
    names = check_tracks(exported)
    assert names[job.pid, job.pid] == f"thread {job.pid} (the mixer)"

    found = {e["name"]: e for e in trace.ranges(exported)}
    values = {name: found[name]["args"]["payload"] for name in ("u64", "i64", "f64", "u32", "i32", "f32")}
    assert values == {"u64": 2**64 - 2, "i64": -2, "f64": 0.5, "u32": 4000000000, "i32": -3, "f32": 0.25}
    assert found["coloured"]["args"]["color"] == "#FF76B900"
    assert found["coloured"]["args"]["category"] == "green"
    assert found["registered"]["args"]["domain"] == "library"
    assert found["registered"]["args"]["category"] == "c\u00f6pies"
    # What crosses another domain's range stands on a track of its own beside its thread's.
    crossing = [e for e in trace.events(exported, "X") if e["name"] == "registered w\u00efde"]
    assert {e["tid"] for e in crossing} == {10000000 + job.pid}
    # A start/end range is a pair with one id.
    ends = {e["id2"]["local"]: e for e in trace.events(exported, "e")}
    for begin in trace.events(exported, "b"):
        end = ends.pop(begin["id2"]["local"])
        assert all(end[key] == begin[key] for key in ("name", "cat", "pid", "tid"))
        assert end["ts"] >= begin["ts"]
    assert ends == {}
    assert found["started elsewhere"]["args"]["End thread"] != job.pid


@needs_nvtx
def test_a_window_of_time_has_no_steps(profd, tmp_path):
    """--duration: what was recorded, and no ProfilerStep that nobody stepped."""
    job = profd.job(MIX, "--step-ms=5")
    profd.wait_steps(job.pid)
    path = tmp_path / "window.json"
    # Longer than the job may get no processor.
    profd.trigger(job.pid, "--duration", "3s", "--output", path)
    finish(job)
    exported = trace.load(path)
    counts = trace.count(trace.ranges(exported))
    assert counts["step"] >= 2 and abs(counts["coloured"] - counts["step"]) <= 1
    assert not any(trace.is_step(e) for e in trace.events(exported, "X"))
    assert trace.crossings(exported) == []
    check_tracks(exported)


AROUND = """
import time, torch
from torch.profiler import record_function
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    with record_function("iteration"):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        time.sleep(2)
"""


def test_torch_range_around_the_step(profd, torch_newest, tmp_path):
    """A step ends within the program's own range: that range stands beside the steps, and the last one, which ends long
    after them, says that it was clipped."""
    job = profd.job(torch_newest, "-c", AROUND)
    profd.wait_steps(job.pid, 1)
    path = tmp_path / "around.json"
    profd.trigger(job.pid, "--steps", 2, "--output", path)
    exported = trace.load(path)
    first, last = (e for e in trace.ranges(exported) if e["name"] == "iteration")
    assert first["tid"] == 10000000 + job.pid and "Clipped" not in first["args"]
    assert last["tid"] == job.pid and last["args"]["Clipped"] is True
    steps = [trace.interval(e) for e in trace.events(exported, "X") if trace.is_step(e)]
    assert steps[0][0] < trace.interval(first)[0] < steps[0][1] < trace.interval(first)[1] < steps[1][1]
    assert trace.interval(last)[1] <= steps[1][1]
    losses = [(row["kind"], row["loss"], row["count"]) for row in exported["profd"]["losses"]]
    assert losses == [("range", "clipped", 1)]
    assert trace.crossings(exported) == []
    check_tracks(exported)


def steps_job(profd, *arguments, **more):
    job = profd.job(STEPS, "--step-ms=5", *arguments, **more)
    profd.wait_steps(job.pid, 1)
    return job


def test_rank_stands_where_readers_look(profd, tmp_path):
    job = steps_job(profd, env={"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"})
    path = tmp_path / "rank.json"
    profd.trigger(job.pid, "--steps", 2, "--output", path)
    exported = trace.load(path)
    assert exported["distributedInfo"] == {"rank": 3, "world_size": 8}
    lines = path.read_text().splitlines()
    # HolisticTraceAnalysis looks line by line, with this expression.
    first = next(i for i, line in enumerate(lines) if re.search(r'"rank":\s+(\d+)', line))
    assert first < next(i for i, line in enumerate(lines) if "traceEvents" in line)


GLOO = """
import os, sys, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
weight = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(weight.parameters(), lr=1e-9)
while True:
    optimizer.zero_grad()
    weight(torch.ones(2, 4)).sum().backward()
    for parameter in weight.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    done = torch.tensor([float(os.path.exists(sys.argv[2]))])
    dist.broadcast(done, 0)
    if done.item():
        break
dist.destroy_process_group()
"""


@pytest.mark.wide
def test_a_job_of_several_ranks(profd, torch_newest, tmp_path):
    """Rank, world size and backend stand where HTA and TensorBoard's plugin look; the plugin has its Distributed view, with the bytes of each
    operation where shapes were recorded."""
    jobs = [profd.job(torch_newest, "-c", GLOO, tmp_path / "store", tmp_path / "stop", env={"RANK": str(rank), "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"})
            for rank in range(2)]
    folder = tmp_path / "run"
    folder.mkdir()
    for job in jobs:
        profd.wait_steps(job.pid, 2)
    paths = [folder / f"rank{rank}.1.pt.trace.json" for rank in range(2)]
    for job, path in zip(jobs, paths):
        capture = profd.trigger(job.pid, "--steps", 3, "--shapes")
        export(profd.file(capture["capture_id"]), path, "--format", "tensorboard")
    (tmp_path / "stop").touch()
    assert [job.wait(60) for job in jobs] == [0, 0]
    for rank, path in enumerate(paths):
        assert trace.load(path)["distributedInfo"] == {"backend": "gloo", "rank": rank, "world_size": 2}
    python = os.environ.get("PROFD_TENSORBOARD") or pytest.skip("no TensorBoard here (PROFD_TENSORBOARD)")
    shown = ask(python, "tensorboard_distributed.py", folder)
    # Each step: gradients of 4 x 4 weights and 4 biases, and one word.
    expected = {"gloo:all_reduce": [6, 3 * 4 * (16 + 4)], "gloo:broadcast": [3, 3 * 4]}
    assert {worker: {row[0]: row[1:3] for row in table["rows"]} for worker, table in shown["operations"]["data"].items()} == {
        "rank0": expected, "rank1": expected}


def test_base_time_is_when_it_happened(profd, tmp_path):
    job = steps_job(profd)
    path = tmp_path / "time.json"
    before = time.time_ns()
    profd.trigger(job.pid, "--steps", 2, "--output", path)
    after = time.time_ns()
    exported = trace.load(path)
    assert "distributedInfo" not in exported
    assert before < exported["baseTimeNanoseconds"] < after


def test_compressed_is_the_same_text(profd, tmp_path):
    job = steps_job(profd)
    capture = profd.trigger(job.pid, "--steps", 2)["capture_id"]
    plain, packed = tmp_path / "a.json", tmp_path / "a.json.gz"
    profd.run("export", capture, "--output", plain)
    profd.run("export", capture, "--output", packed)
    assert subprocess.run(["gzip", "-dc", packed], capture_output=True, check=True).stdout == plain.read_bytes()
    piped = subprocess.run([profd.client, "export", capture, "--output", "-"], env=profd.env, capture_output=True,
                           check=True)
    assert piped.stdout == plain.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "a.json.gz"]
    # From a file that was copied away, too.
    copied = tmp_path / "copied.json"
    profd.run("export", profd.file(capture), "--output", copied)
    assert copied.read_bytes() == plain.read_bytes()


def test_a_file_that_is_there_stays(profd, tmp_path):
    job = steps_job(profd)
    path = tmp_path / "mine.json"
    path.write_text("mine")
    refused = profd.run("trigger", "--pid", job.pid, "--steps", 2, "--output", path, check=False)
    assert refused.returncode == 2 and str(path) in refused.stderr
    assert captures(profd) == [], "refused before it recorded"
    capture = profd.trigger(job.pid, "--steps", 2)["capture_id"]
    refused = profd.run("export", capture, "--output", path, check=False)
    assert refused.returncode == 2 and str(path) in refused.stderr
    assert path.read_text() == "mine"
    profd.run("export", capture, "--output", path, "--force")
    assert trace.load(path)["profd"]["capture_id"] == capture


@pytest.mark.parametrize("name", ["trace.xml", "trace", "json", "trace.gz"])
def test_a_suffix_that_no_format_has(profd, tmp_path, name):
    job = steps_job(profd)
    for line in (["trigger", "--pid", job.pid, "--steps", 2], ["export", "u1"]):
        refused = profd.run(*line, "--output", tmp_path / name, check=False)
        assert refused.returncode == 2, (line, refused.stderr)
        assert ".json" in refused.stderr
    assert list(tmp_path.iterdir()) == []
    assert captures(profd) == []


def test_nowhere_to_write(profd, tmp_path):
    job = steps_job(profd)
    capture = profd.trigger(job.pid, "--steps", 2)["capture_id"]
    failed = profd.run("export", capture, "--output", tmp_path / "missing" / "a.json", check=False)
    assert failed.returncode in (1, 2) and "missing" in failed.stderr
    with open("/dev/full", "w") as full:
        failed = subprocess.run([profd.client, "export", capture, "--output", "-"], env=profd.env, stdout=full,
                                stderr=subprocess.PIPE, text=True)
    assert failed.returncode == 1 and "No space left" in failed.stderr


def test_incomplete_capture_says_so(profd, tmp_path):
    """The job dies in mid-capture: what there is, and that it is not all."""
    job = steps_job(profd)
    path = tmp_path / "part.json"
    client = profd.follow("--pid", job.pid, "--steps", 100000, "--output", path)
    wait_for(lambda: any(row["steps_recorded"] >= 20 for row in captures(profd)), 20, "20 recorded steps")
    job.kill()
    out, err = client.communicate(timeout=60)
    assert client.returncode == 5, err
    capture = json.loads(out)["captures"][0]
    assert capture["status"] == "incomplete"
    exported = trace.load(path)
    assert exported["profd"]["status"] == "incomplete" and exported["profd"]["reason"]
    notes = [e["name"] for e in trace.events(exported, "i", "profd")]
    assert notes == [f"profd: the capture is incomplete: {exported['profd']['reason']}"]
    assert len(trace.ranges(exported)) >= 20 * 5
    assert trace.crossings(exported) == []


def captures(profd):
    return profd.json("captures")["captures"]


@needs_nvtx
def test_losses_are_told(profd, tmp_path):
    job = profd.job(BUILD / "workloads" / "nvtx_threads", "--threads=8", "--pairs=20000", "--pause-us=1000")
    profd.wait_steps(job.pid)
    path = tmp_path / "lost.json"
    capture = profd.trigger(job.pid, "--steps", 2, "--max-bytes", 1 << 20, "--output", path, codes=(0, 5))
    facts = json.loads(finish(job))
    exported = trace.load(path)
    lost = sum(row["count"] for row in exported["profd"]["losses"] if row["is_loss"])
    assert lost == capture["lost"] > 0
    recorded = len(trace.ranges(exported))
    ranges_lost = sum(row["count"] for row in exported["profd"]["losses"] if row["is_loss"] and row["kind"] == "range")
    assert recorded + ranges_lost == 2 * facts["ranges_per_step"]
    notes = [e["name"] for e in trace.events(exported, "i", "profd")]
    assert f"profd: {lost} events were dropped; see \"profd\" in the metadata" in notes


def test_without_operators_it_says_why(profd, tmp_path):
    """Not recorded is not the same as nothing there."""
    job = steps_job(profd)
    path = tmp_path / "no-torch.json"
    profd.trigger(job.pid, "--steps", 2, "--output", path)
    torch_row = next(row for row in trace.load(path)["profd"]["collectors"] if row["collector"] == "torch")
    assert torch_row["ran"] == 0 and torch_row["sentence"]
