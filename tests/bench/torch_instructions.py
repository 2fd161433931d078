#!/usr/bin/env python3
"""Under callgrind, begun without instrumentation: torch.add of one element while profd records.

    torch_instructions.py PROFD     prints the number of operators that callgrind has counted; PROFD is the client
"""
import os
import subprocess
import sys

import torch
import torch_pair

CALLS = 20000


def count(word):
    # valgrind's own command: the agent is not to be in it.
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "NVTX_INJECTION64_PATH")}
    subprocess.run(["callgrind_control", "-i", word, str(os.getpid())], env=environment, stdout=subprocess.DEVNULL, check=True)


def adds():
    add, a, b = torch.add, torch.ones(1), torch.ones(1)
    for _ in range(100):
        add(a, b)
    count("on")
    for _ in range(CALLS):
        add(a, b)
    count("off")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch_pair.Recorder(sys.argv[1]).record(adds, CALLS)
    print(CALLS)
