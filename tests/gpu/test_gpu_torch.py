"""PyTorch on CUDA, captured, beside torch.profiler over windows of the same loop in turns; and that neither the job nor
torch.profiler notices. On a GPU alone.

PROFD_GPU_PYTHON names the python (else it is the one that runs pytest). PROFD_GPU_TORCH_DEVICE=cpu rehearses the tests without a
GPU: all that is left of them then is that operators and calls agree and the job comes to no harm.
"""
import os

import pytest

import machine
from shared import Gpu, looked, profd, empty_profd, python_with_cuda, usable, wait_for  # noqa: F401 (fixtures)
from training import Training

DEVICE = os.environ.get("PROFD_GPU_TORCH_DEVICE", "cuda")
MODELS = ["transformer", "cnn", "lstm", "streams", "graph", "compiled"]
# Calls that torch.profiler makes itself, or that depend on what its memory allocator has left over.
OWN_CALLS = {"cudaDeviceSynchronize", "cudaMalloc", "cudaFree", "cudaStreamIsCapturing", "cudaGetDriverEntryPoint"}


@pytest.fixture
def torch_gpu(profd):
    """Gpu for PyTorch's own CUDA: a simulated driver has none (reference: its runtime checks the driver)."""
    if DEVICE == "cpu":
        gpu = Gpu(profd, machine.Machine(machine.NONE, "", 0, 0, "", {}))
        gpu.python = os.environ.get("PROFD_GPU_PYTHON")
        if not gpu.python:
            pytest.skip("PROFD_GPU_PYTHON names no python with torch")
    else:
        if looked().state == machine.SIMULATED:
            pytest.skip("PyTorch's CUDA does not run on the simulated driver")
        gpu = Gpu(profd, usable()._replace(env={}))
        gpu.python = python_with_cuda()
    gpu.cuda = DEVICE != "cpu"
    return gpu


_windows = {}


def run_part(gpu, part, tmp_path, model="transformer", rounds=2):
    """What torch_job.py says of that part."""
    return gpu.run_python("torch_job.py", part, gpu.profd.client, gpu.profd.store, "--model", model, "--device", DEVICE, "--folder",
                          tmp_path, "--rounds", rounds, python=gpu.python, timeout=150)


def windows(gpu, tmp_path, model):
    """Windows of torch.profiler and of profd in turns, made once for all tests."""
    if model not in _windows:
        _windows[model] = run_part(gpu, "windows", tmp_path, model)
    return _windows[model]


def whole(window, gpu, cupti=True):
    """A capture without losses, and with what was wanted of it."""
    state = window["state"]
    assert state["status"] == "complete" and state["steps"] == 3 and state["lost"] == 0, state
    if cupti and gpu.cuda:
        assert state["collectors"]["cupti"][0], state["collectors"]["cupti"][1]
    return window


def same(ours, theirs, words=("kernels", "streams", "copies", "sets")):
    for word in words:
        assert ours[word] == theirs[word], word


@pytest.mark.parametrize("model", MODELS)
def test_counts_are_torchs_own(torch_gpu, tmp_path, model):
    """Kernels by name and by stream, copies by kind with their bytes, sets: window for window what torch.profiler counts."""
    said = windows(torch_gpu, tmp_path, model)
    theirs = said["torch"]
    same(theirs[1], theirs[0])  # else the loop does not do the same in each window, and nothing can be said
    for window in said["profd"]:
        same(whole(window, torch_gpu), theirs[0])
        assert window["misread"] == []
    if torch_gpu.cuda:
        assert sum(theirs[0]["kernels"].values()) >= 3 * 10
        assert len(theirs[0]["streams"]) > (1 if model == "streams" else 0)
        calls = {name: n for name, n in theirs[0]["calls"].items() if name not in OWN_CALLS and "Launch" in name}
        assert calls and all(window["calls"][name] == n for window in said["profd"] for name, n in calls.items())


@pytest.mark.parametrize("model", ["transformer", "cnn", "lstm"])
def test_kernels_belong_to_the_operators_that_torch_says(torch_gpu, tmp_path, model):
    """Each kernel under the innermost operator or annotation that was open when it was launched."""
    said = windows(torch_gpu, tmp_path, model)
    ours, theirs = whole(said["profd"][0], torch_gpu)["operators"], said["torch"][0]["operators"]
    assert ours == theirs
    assert not torch_gpu.cuda or len(theirs) > 10


@pytest.mark.parametrize("model", ["transformer"])
def test_device_times_are_about_torchs(torch_gpu, tmp_path, model):
    """Both have their times from CUPTI: over the kernels of a window they cannot be far apart. (Windows differ by chance, and the
    test of times against calls and waits is the sharp one.)"""
    said = windows(torch_gpu, tmp_path, model)
    ours = min(sum(window["device_ns"].values()) for window in said["profd"])
    theirs = min(sum(window["device_ns"].values()) for window in said["torch"])
    assert ours == theirs == 0 if not torch_gpu.cuda else 0.7 < ours / theirs < 1.4, (ours, theirs)


def test_torchs_profiler_before_during_and_after(torch_gpu, tmp_path):
    """A capture after its window; one while it records, which goes without CUPTI and names who has it; its windows meanwhile and
    afterwards are what they are without us, and so are our captures."""
    said = run_part(torch_gpu, "neighbours", tmp_path)
    before = said["before"]
    same(whole(said["first"], torch_gpu), before)
    held = whole(said["held"], torch_gpu, cupti=False)
    on, sentence = held["state"]["collectors"]["cupti"]
    if torch_gpu.cuda:
        if on:  # side by side: CUPTI 13.3 and later
            same(held, before)
        else:
            assert sentence and "held by another" in sentence
        assert {name: 3 * n for name, n in said["during"]["kernels"].items()} == \
            {name: n * said["steps"] for name, n in before["kernels"].items()}
    same(said["after"], before)
    same(whole(said["again"], torch_gpu), before)


@pytest.mark.parametrize("model", ["transformer", "cnn", "lstm"])
def test_outputs_are_the_same_to_the_last_bit(torch_gpu, model):
    """Losses, weights and generator state of a training with three captures are those without the agent. The training itself is
    run twice without: where these differ, nothing could be told."""
    options = ["--model", model, "--device", DEVICE, "--steps", 400, "--pad-ms", 5, "--batch", 16]
    python = torch_gpu.python
    bare = [Training(torch_gpu.profd, python, *options, agent=False) for _ in range(2)]
    job = Training(torch_gpu.profd, python, *options)
    for each in bare:
        each.go(watched=False)
    job.go()
    torch_gpu.profd.wait_steps(job.pid, 5)
    for _ in range(3):
        capture = torch_gpu.profd.trigger(job.pid, "--steps", 3)
        assert capture["status"] == "complete" and capture["steps_recorded"] == 3
    first, second, ours = (each.finish()[1] for each in (*bare, job))
    assert first == second, "this training is not the same twice by itself"
    assert ours == first


def test_idle_in_a_job_of_torch(torch_gpu):
    """Before a capture the agent has opened no CUPTI that was not there without it."""
    options = ["--device", DEVICE, "--steps", 0, "--pad-ms", 5, "--quiet"]

    def mapped(job):
        with open(f"/proc/{job.pid}/maps") as maps:
            return sorted({line.split()[-1] for line in maps if "libcupti" in line})
    bare = Training(torch_gpu.profd, torch_gpu.python, *options, agent=False).go(watched=False)
    job = Training(torch_gpu.profd, torch_gpu.python, *options).go()
    torch_gpu.profd.wait_steps(job.pid, 5)
    # The bare one says nothing of its steps: what it maps, it maps by its first ones.
    wait_for(lambda: mapped(bare) == mapped(job), 20, "the same copies of libcupti with the agent as without")
    torch_gpu.profd.trigger(job.pid, "--steps", 2)
    after = mapped(job)
    assert len([path for path in after if path.rsplit("/", 1)[-1].startswith("libcupti.so")]) <= 1, after
