"""Optimizers that take turns and cannot be told apart: `ps` says that the count is not clear, and takes it back when it is."""
import json
import os
import signal

import pytest
from conftest import BUILD, wait_for
from test_attach import bare

# Two of one class, by the stand-in for torch: no frame of Python's holds an optimizer. After SIGUSR1 a DataLoader is asked for a batch before
# the two.
JOB = """
import ctypes, signal, sys, time
for name in ("libc10.so", "libtorch_cpu.so"):
    torch = ctypes.CDLL(sys.argv[1] + "/" + name, ctypes.RTLD_GLOBAL)
batches = []
signal.signal(signal.SIGUSR1, lambda *_: batches.append(1))
while True:
    if batches:
        torch.torch_range(b"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
    for nodes in (20, int(sys.argv[2])):
        for _ in range(nodes):
            torch._ZN2at15sequence_number17get_and_incrementEv()
        torch.torch_range(f"Optimizer.step#{sys.argv[3]}.step".encode())
        time.sleep(0.003)
"""


@pytest.mark.parametrize("nodes", [12, 20], ids=["unlike", "alike"])
def test_ps_says_that_it_is_not_clear(profd, nodes):
    job = profd.job("/usr/bin/python3", "-c", JOB, str(BUILD / "workloads"), str(nodes), "Adam")
    row = wait_for(lambda: (row := profd.process(job.pid)) and "not clear" in json.dumps(row) and row, 60, "ps to say it")
    assert "--step-optimizer NAME" in json.dumps(row) and "Adam" in json.dumps(row), row
    assert "not clear whether each step of" in profd.run("ps").stdout
    job.send_signal(signal.SIGUSR1)
    wait_for(lambda: "not clear" not in json.dumps(profd.process(job.pid)), 60, "ps to take it back")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone")
def test_a_long_name_of_one_that_was_attached_to(profd):
    """Both are said: that the count is not clear, and from where on it counts."""
    name = "PreconditionedScheduleFreeGradientDescent"
    job = profd.job("/usr/bin/python3", "-c", JOB, str(BUILD / "workloads"), "20", name, agent=False, env=bare(profd))
    wait_for(lambda: "libtorch_cpu.so" in open(f"/proc/{job.pid}/maps").read(), what="the stand-in for torch")
    profd.run("attach", "--pid", job.pid)
    row = wait_for(lambda: (row := profd.process(job.pid)) and "not clear" in (row["step_note"] or "") and row, 60, "ps to say it")
    assert row["step_note"] == (f"not clear whether each step of {name} is one: --step-optimizer NAME counts those of one optimizer; "
                                "counted from its attachment on")
