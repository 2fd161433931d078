"""`profd doctor --pid` sees torch's own profiler: in a process with the agent, and from outside in one without; and a capture beside which another tool has
kernels on says so."""
import signal

import pytest

import gpu
from house import wait_for

SCRIPT = """
import ctypes, os, signal, sys
if os.environ.get("SIMCUDA"):
    ctypes.CDLL("libcupti.so.13")
import torch
from torch.profiler import ProfilerActivity, profile

torch.set_num_threads(1)
if os.environ.get("SIMCUDA"):
    cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
asked, running = 0, None


def ask(number, frame):
    global asked
    asked += 1


signal.signal(signal.SIGUSR1, ask)
done = 0
print("ready", flush=True)
while True:
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    if asked > done:
        done += 1
        if running:
            running.stop()
            running = None
        else:
            running = profile(activities=[ProfilerActivity.CPU])
            running.start()
        open(sys.argv[1] + str(done), "w").close()
"""


def turn(job, path, times):
    job.send_signal(signal.SIGUSR1)
    wait_for((path.parent / f"{path.name}{times}").exists, 60, "torch.profiler to be switched")


def cupti(profd, job):
    """Why a capture has no kernels."""
    capture = profd.trigger(job.pid, "--steps", 3)["capture_id"]
    row = next(row for row in profd.show(capture)["collectors"] if row["collector"] == "cupti")
    assert not row["on"] and row["sentence"].startswith("CUPTI is held by another tool"), row
    return row["sentence"]


def profiler(profd, pid):
    """What doctor says of it; None: nothing."""
    rows = [row for row in profd.json("doctor", "--pid", pid, codes=range(10))["checks"] if row["check"] == "profiler"]
    assert all(row["result"] == "warning" for row in rows) and len(rows) <= 1, rows
    return rows[0]["sentence"] if rows else None


@pytest.mark.core
def test_torchs_own_profiler_is_named(profd, torch_newest):
    script = profd.folder / "own.py"
    script.write_text(SCRIPT)
    # Somebody else has kernels on, as CUPTI tells.
    job = profd.job(torch_newest, script, profd.folder / "with", env=gpu.environment(gpu.NEWEST, "enabled_kinds=1024"))
    bare = profd.job(torch_newest, script, profd.folder / "without", agent=False)
    profd.wait_steps(job.pid, 5)
    assert bare.stdout.readline().strip() == "ready"
    assert profiler(profd, job.pid) is None and profiler(profd, bare.pid) is None
    assert "torch.profiler" not in cupti(profd, job)
    turn(job, profd.folder / "with", 1)
    turn(bare, profd.folder / "without", 1)
    for one in (job, bare):
        assert "torch.profiler records in this process" in profiler(profd, one.pid)
    assert "torch.profiler records" in profd.run("doctor", "--pid", job.pid).stdout
    assert "(torch.profiler records in this process): it records" in cupti(profd, job)
    turn(job, profd.folder / "with", 2)
    assert profiler(profd, job.pid) is None
