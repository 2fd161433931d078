"""Optimizers that take turns and cannot be told apart: `ps` says that the count is not clear, and takes it back when it is."""
import json
import signal

import pytest
from conftest import BUILD, wait_for

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
        torch.torch_range(b"Optimizer.step#Adam.step")
        time.sleep(0.003)
"""


@pytest.mark.parametrize("nodes", [12, 20], ids=["unlike", "alike"])
def test_ps_says_that_it_is_not_clear(profd, nodes):
    job = profd.job("/usr/bin/python3", "-c", JOB, str(BUILD / "workloads"), str(nodes))
    row = wait_for(lambda: (row := profd.process(job.pid)) and "not clear" in json.dumps(row) and row, 60, "ps to say it")
    assert "--step-optimizer NAME" in json.dumps(row) and "Adam" in json.dumps(row), row
    assert "not clear whether each step of" in profd.run("ps").stdout
    job.send_signal(signal.SIGUSR1)
    wait_for(lambda: "not clear" not in json.dumps(profd.process(job.pid)), 60, "ps to take it back")
