"""Training programs as people run them (jobs.py), captured on a GPU: each goes on, ends as it would, and what it did is there.

PROFD_GPU_PYTHON names the python (else it is the one that runs pytest). PROFD_GPU_TORCH_DEVICE=cpu rehearses them without a GPU.
"""
import json
import os
import signal
import statistics
import subprocess

import pytest

import machine
from shared import counting, empty_profd, profd, wait_for  # noqa: F401 (fixtures)
from test_gpu_torch import DEVICE, torch_gpu  # noqa: F401 (fixtures)

CUDA = DEVICE != "cpu"
needs_cuda = pytest.mark.skipif(not CUDA, reason="a rehearsal without a GPU")


class Job:
    """One of jobs.py, past its first steps."""

    def __init__(self, gpu, name, agent=True):
        self.gpu, self.profd, self.name = gpu, gpu.profd, name
        self.folder = gpu.profd.folder / f"{name}-{len(gpu.profd.jobs)}"
        self.folder.mkdir()
        with open(self.folder / "out", "w") as out, open(self.folder / "err", "w") as err:
            self.job = gpu.profd.job(gpu.python, machine.HERE / "jobs.py", name, self.folder, agent=agent, stdout=out, stderr=err,
                                     env={"PYTHONWARNINGS": "ignore", "PROFD_GPU_TORCH_DEVICE": DEVICE})
        self.pid = self.job.pid

    def text(self, name):
        return (self.folder / name).read_text(errors="replace")

    def started(self, steps=5):
        """Registered, and so many steps further."""
        wait_for(lambda: "ready" in self.text("out") or self.job.poll() is not None, 150, f"{self.name} to be ready")
        if "No module named" in self.text("err"):
            pytest.skip(self.text("err").splitlines()[-1])
        assert self.job.poll() is None, self.text("err")[-3000:]
        if steps:
            row = self.profd.wait_registered(self.pid)
            self.profd.wait_steps(self.pid, row["step"] + steps)
        return self

    def trigger(self, *options, steps=3):
        capture = self.profd.trigger(self.pid, *(("--steps", steps) if steps else ()), *options)
        assert capture["status"] == "complete" and capture["lost"] == 0, (capture, self.text("err")[-2000:])
        return capture

    def query(self, capture, sql):
        with self.gpu.database(capture) as db:
            return counting.rows(db, sql)

    def shown(self, capture, *options):
        """With CUPTI on, where there is a GPU."""
        shown = self.profd.show(capture["capture_id"], *options)
        on, sentence = next((row["on"], row["sentence"]) for row in shown["collectors"] if row["collector"] == "cupti")
        assert on or not CUDA, sentence
        return shown

    def stop(self, seconds=60):
        """What it said last, after an end without fault."""
        (self.folder / "stop").touch()
        assert self.job.wait(seconds) == 0, self.text("err")[-3000:]
        return json.loads(self.text("out").splitlines()[-1])

    def log(self):
        return [json.loads(line) for line in self.text("log").splitlines(True) if line.endswith("\n")]


@pytest.mark.parametrize("name", ["plain", "recapture", "oom", "ddp", "workers", "compiled", "reduced", "hf", "lightning", "graphed"])
def test_training_goes_on(torch_gpu, name):
    """Three captures of all that there is, and three of the default, in turns."""
    if name in ("recapture", "graphed") and not CUDA:
        pytest.skip("a rehearsal without a GPU")
    job = Job(torch_gpu, name).started()
    captures = [job.trigger(*(["--preset", "full"] if turn % 2 else [])) for turn in range(6)]
    kernels = []
    for capture in captures:
        job.shown(capture)
        kernels.append(job.query(capture, "SELECT count(*) FROM kernels WHERE step IS NOT NULL")[0][0])
        ((early, error),) = job.query(capture, "SELECT coalesce(sum(early), 0), max(clock_error) FROM sessions")
        assert early == 0, (early, error)
    said = job.stop()
    print(name, kernels, said)
    if not CUDA:
        return
    assert min(kernels) > 0
    if name not in ("hf", "lightning", "workers"):  # whose steps are not all alike
        assert len(set(kernels)) == 1, kernels
    for capture in captures if name in ("recapture", "graphed") else []:
        launches = job.query(capture, "SELECT count(*) FROM kernels WHERE graph <> 0 AND step IS NOT NULL GROUP BY correlation")
        assert set(launches) == {(said["nodes"],)}, launches


@needs_cuda
@pytest.mark.parametrize("name", ["plain", "graphed"])
def test_attached(torch_gpu, name):
    """A job that nobody prepared. What CUPTI tells of a graph that was made before is written down in RESULTS.md."""
    job = Job(torch_gpu, name, agent=False).started(0)
    wait_for(lambda: job.text("out"), 60, "its output")
    job.profd.run("attach", "--pid", job.pid)
    job.profd.wait_steps(job.pid, 5)
    captures = [job.trigger("--preset", "full"), job.trigger()]
    for capture in captures:
        shown = job.shown(capture)
        assert shown["devices"], shown["collectors"]
        kernels = job.query(capture, "SELECT step, count(*) FROM kernels WHERE step IS NOT NULL GROUP BY 1")
        assert len({count for _, count in kernels}) == 1 and len(kernels) == 3, kernels
        if name == "graphed":
            launches = job.query(capture, "SELECT count(*) FROM kernels WHERE graph <> 0 AND step IS NOT NULL GROUP BY correlation")
            assert launches == [(25,)] * 3, (launches, kernels, shown["notes"])
    job.stop()


def union(spans):
    total, end = 0, 0
    for start, stop in sorted(spans):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def test_the_rows_add_up(torch_gpu):
    """Each step's rows add up to its time, the device's busy time is the union of its operations, and modules and memory are there."""
    job = Job(torch_gpu, "plain").started()
    capture = job.trigger("--preset", "full", steps=5)
    shown = job.shown(capture)
    assert len(shown["breakdown"]["steps"]) == 5
    for step in shown["breakdown"]["steps"]:
        assert sum(step["host"]["rows"].values()) == step["wall_ns"], step
        for device in step["devices"] or []:
            assert sum(device["rows"].values()) == step["wall_ns"], step
    if CUDA:
        work = " UNION ALL ".join(f"SELECT start, start + duration FROM {table} WHERE start IS NOT NULL" for table in ("kernels", "copies", "sets"))
        spans = job.query(capture, work)
        for (begin, end), step in zip(job.query(capture, "SELECT start, start + duration FROM steps ORDER BY step"), shown["breakdown"]["steps"]):
            busy = union((max(a, begin), min(b, end)) for a, b in spans if b > begin and a < end)
            told = sum(ns for row, ns in step["devices"][0]["rows"].items() if row in ("compute", "communication", "copies"))
            assert abs(busy - told) <= 1000, (busy, told, step)
        modules = shown["modules"]
        root = next(row for row in modules if row["path"] == "Sequential")
        ((total,),) = job.query(capture, "SELECT sum(duration) FROM kernels WHERE step IS NOT NULL")
        assert 0 < root["device_ns"] <= total, (root, total)
        assert root["device_forward_ns"] > 0 and root["device_backward_ns"] > 0, root
        assert {"0", "2", "4", "6"} <= {row["path"] for row in modules}
    numbers = {row["number"] for row in shown["steps"]}
    wait_for(lambda: job.log()[-1]["step"] >= max(numbers), 30, "the steps to be written")
    if CUDA:
        rows = job.log()
        steady = statistics.mode((row["allocated"], row["bytes"]) for row in rows)
        taken = job.query(capture, "SELECT step, count(*), sum(bytes) FROM framework_allocations WHERE operation = 1 AND device_type = 1 "
                                   "AND step IS NOT NULL GROUP BY 1 ORDER BY 1")
        assert [tuple(row[1:]) for row in taken[1:-1]] == [steady] * (len(taken) - 2) and len(taken) == 5, (taken, steady)
        held = {row["held"] for row in rows}
        most = job.query(capture, "SELECT max(total) FROM framework_allocations WHERE device_type = 1 AND known & 2")[0][0]
        assert most >= min(held), (most, held)
    job.stop()


CAUSES = {"item": "sync", "pageable": "pageable_copy", "loader": "input", "launch": "launch_bound", "well": None}


@needs_cuda
@pytest.mark.parametrize("name", CAUSES)
def test_a_planted_cause(torch_gpu, name):
    """The verdict's first finding is what was planted; its size about what the job measured; a loop that is well has none."""
    job = Job(torch_gpu, name).started(20)
    capture = job.trigger(steps=7)
    found = job.shown(capture, "--by", "findings")["findings"]
    words = [(one["finding"], one["win_ns"], one["what"], one["evidence"]) for one in found]
    table = job.profd.run("show", capture["capture_id"]).stdout
    lost = [row["lost"] for row in job.log()] if name in ("item", "pageable", "loader") else []
    job.stop()
    print(table, words, lost and statistics.median(lost))
    if CAUSES[name] is None:
        assert not found, words
        return
    assert found and found[0]["finding"] == CAUSES[name], (words, table)
    if lost:
        assert 0.6 * statistics.median(lost) <= found[0]["win_ns"] <= 1.2 * statistics.median(lost), (statistics.median(lost), words)


ENDS = ["return", "exit", "_exit", "raise", "assert", "kill", "term"]


@pytest.mark.parametrize("mode", ENDS)
def test_torch_ends_as_it_would(torch_gpu, mode):
    """In mid-capture: the same exit code, and the same last word."""
    if mode == "assert" and not CUDA:
        pytest.skip("a rehearsal without a GPU")
    bare, job = Job(torch_gpu, f"ends-{mode}", agent=False), Job(torch_gpu, f"ends-{mode}")
    job.started()
    capture = job.profd.trigger(job.pid, "--steps", 100000, "--no-wait")
    job.profd.wait_recorded(job.pid, 2)
    wait_for(lambda: "ready" in bare.text("out"), 90, "the bare job")
    for each in (bare, job):
        (each.folder / "stop").touch()
    codes = [each.job.wait(60) for each in (bare, job)]
    assert codes[0] == codes[1], (codes, job.text("err")[-2000:])
    last = [[line for line in each.text("err").splitlines() if "Error" in line and "[W" not in line][-1:] for each in (bare, job)]
    assert last[0] == last[1]
    torch_gpu.incomplete(capture)


@needs_cuda
@pytest.mark.parametrize("name", ["jax", "cupy"])
def test_other_libraries(torch_gpu, name):
    """Not PyTorch: steps by profd_step, CUPTI of whichever copy is there."""
    job = Job(torch_gpu, name).started()
    for _ in range(3):
        capture = job.trigger()
        job.shown(capture)
        kernels = job.query(capture, "SELECT step, count(*) FROM kernels WHERE step IS NOT NULL GROUP BY 1")
        assert len(kernels) == 3 and len({count for _, count in kernels}) == 1, kernels
    job.stop()


@needs_cuda
def test_stopped_by_a_signal_and_resumed(torch_gpu):
    """A capture over a time in which the whole job stood still."""
    job = Job(torch_gpu, "plain").started()
    client = job.profd.follow("--pid", job.pid, "--steps", 30)
    job.profd.wait_recorded(job.pid, 2)
    os.kill(job.pid, signal.SIGSTOP)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(0.5)
    finally:
        os.kill(job.pid, signal.SIGCONT)
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    (capture,) = json.loads(out)["captures"]
    assert capture["status"] == "complete" and capture["steps_recorded"] == 30 and capture["lost"] == 0, capture
    job.stop()
