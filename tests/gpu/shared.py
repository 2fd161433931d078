"""shared.py - fixtures and helpers of the test files here: those of tests/e2e, and the GPU.

The same test functions run on a GPU and, with PROFD_SIM=12.4, on the simulated one. Without either they are skipped; a GPU
that is there and cannot be used fails them.
"""
import json
import os
import subprocess
import sys

import pytest

import machine as machines

sys.path.insert(0, str(machines.ROOT / "tests" / "e2e"))

import house as e2e  # noqa: E402
import gpu as counting  # noqa: E402

profd, empty_profd = e2e.profd, e2e.empty_profd
wait_for = e2e.wait_for
WORKLOADS = e2e.BUILD / "workloads"
_looked = []


def looked():
    """The Machine, asked for once in a run."""
    if not _looked:
        _looked.append(machines.look())
    return _looked[0]


def usable():
    found = looked()
    if found.state == machines.NONE:
        pytest.skip(f"{found.reason}; PROFD_SIM=12.4 uses a simulated one")
    if found.state == machines.UNUSABLE:
        pytest.fail(f"there is a GPU, and it cannot be used: {found.reason}")
    return found


class Gpu:
    """Jobs on the GPU, and what their captures hold."""

    def __init__(self, profd, machine):
        self.profd, self.machine = profd, machine

    def job(self, program, *options, **more):
        """A program of build/workloads under the agent (agent=False: bare)."""
        env = {**self.machine.env, **more.pop("env", {})}
        return self.profd.job(WORKLOADS / program, *options, env=env, **more)

    def steps(self, *options, rate=200, **more):
        """cuda_steps, registered and stepping."""
        job = self.job("cuda_steps", f"--rate={rate}", *options, **more)
        wait_for(lambda: ((row := self.profd.process(job.pid)) and row["step"] >= 3) or job.poll() is not None, 60, "steps of cuda_steps")
        if job.poll() is not None:
            error = job.communicate()[1].strip()
            (pytest.skip if job.returncode == 77 else pytest.fail)(f"cuda_steps ended with {job.returncode}: {error}")
        return job

    def run_python(self, script, *arguments, agent=True, timeout=120, env=None, python=sys.executable):
        """Runs a script of this folder to its end; what it printed last, as JSON."""
        job = self.profd.job(python, machines.HERE / script, *arguments, agent=agent,
                             env={**self.machine.env, "PYTHONWARNINGS": "ignore", **(env or {})})
        try:
            out, err = job.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            job.kill()
            pytest.fail(f"{script} {arguments} did not end within {timeout} s: {job.communicate()[1][-2000:]}")
        assert job.returncode == 0, f"{script} {arguments}: {job.returncode}\n{out[-2000:]}\n{err[-4000:]}"
        return json.loads(out.strip().splitlines()[-1])

    def database(self, capture):
        return counting.open_file(self.profd.file(capture["capture_id"]))

    def incomplete(self, capture):
        """It ends before all of its steps are recorded, and with some."""
        def ended():
            rows = self.profd.json("captures")["captures"]
            row = next(row for row in rows if row["capture_id"] == capture["capture_id"])
            return row if row["status"] in ("complete", "incomplete", "failed") else None
        row = wait_for(ended, 30, "the capture to end")
        assert row["status"] == "incomplete" and row["steps_recorded"] > 0, row

    def lost(self, capture):
        with self.database(capture) as db:
            return counting.rows(db, "SELECT kind, loss, count FROM losses WHERE is_loss AND count > 0")

    def check_label(self, db):
        """What was simulated says so, and nothing else does."""
        said = counting.rows(db, "SELECT value FROM meta WHERE key = 'simulated'")
        assert bool(said and int(said[0][0])) == (self.machine.state == machines.SIMULATED)


def recorded_on_a_gpu(db):
    """As counting.recorded(), where the driver is a real one: it puts nodes of a graph that do not depend on each other on streams of their
    own, and for a copy on the device in a graph it launches a kernel of its own (both seen on an H200 with CUDA 13.0)."""
    stream = "CASE WHEN k.graph <> 0 THEN (SELECT min(o.stream) FROM kernels o WHERE o.correlation = k.correlation AND o.graph <> 0) ELSE k.stream END"
    return _recorded(db, stream, f"NOT (k.graph <> 0 AND s.text = '{OF_THE_DRIVER}')")


OF_THE_DRIVER = "memcpy32_post"
_recorded, _launched_copies = counting.recorded, counting.launched_copies


def copies_on_a_gpu(said):
    """In place of a copy on the device in a graph there is that kernel."""
    copies = _launched_copies(said)
    kind, graphs = counting.COPY_KINDS["DtoD"], said["graphs"]
    if graphs:
        count, size = copies.pop(kind)
        if count > graphs:
            copies[kind] = (count - graphs, size - size // count * graphs)
    return copies


@pytest.fixture
def gpu(profd, monkeypatch):
    found = usable()
    if found.state == machines.REAL:
        monkeypatch.setattr(counting, "recorded", recorded_on_a_gpu)
        monkeypatch.setattr(counting, "launched_copies", copies_on_a_gpu)
    return Gpu(profd, found)


def python_with_cuda():
    """The python whose torch uses CUDA. On a GPU, a torch without CUDA is a failure."""
    python = os.environ.get("PROFD_GPU_PYTHON", sys.executable)
    ask = "import json, torch; print(json.dumps([torch.__version__, torch.version.cuda, torch.cuda.is_available()]))"
    done = subprocess.run([python, "-c", ask], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.fail(f"{python} cannot import torch: {done.stderr.strip().splitlines()[-1]}")
    version, cuda, available = json.loads(done.stdout.splitlines()[-1])
    if not available:
        pytest.fail(f"torch {version} ({'CUDA ' + cuda if cuda else 'without CUDA'}) does not find the GPU: "
                    f"{done.stderr.strip()[-500:]}")
    return python
