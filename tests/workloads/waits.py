#!/usr/bin/env python3
"""A rank of a job over gloo that trains until it is ended; rank SLOW sleeps so many ms before each of its forwards (-1: each rank).

    waits.py STORE SLOW MS     RANK and WORLD_SIZE are in the environment
"""
import os
import sys
import time

import torch
import torch.distributed


def main():
    store, slow, ms = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(16, 64)
    while True:
        if slow in (rank, -1):
            time.sleep(ms / 1000)
        optimizer.zero_grad()
        model(data).sum().backward()
        optimizer.step()


main()
