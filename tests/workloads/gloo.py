"""A rank of a loop of training over gloo whose steps have one of each of its operations. It leaves what torch.profiler says of one step in FOLDER.

    gloo.py STORE FOLDER     RANK and WORLD_SIZE are in the environment"""
import os
import sys

import torch
from torch import distributed

store, folder = sys.argv[1:]
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)
distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)


def step():
    """The same shapes in both ranks, and no two alike."""
    distributed.all_reduce(torch.ones(3, 5))
    distributed.all_reduce(torch.ones(7, dtype=torch.int64), async_op=True).wait()
    distributed.broadcast(torch.ones(2, 2, 2, dtype=torch.bfloat16), 0)
    distributed.all_gather([torch.ones(4) for _ in range(size)], torch.ones(4))
    distributed.all_gather_into_tensor(torch.ones(size * 6), torch.ones(6))
    distributed.reduce(torch.ones(1, 9).t(), 1)
    distributed.gather(torch.ones(8), [torch.ones(8) for _ in range(size)] if rank == 0 else None)
    distributed.scatter(torch.ones(10), [torch.ones(10) for _ in range(size)] if rank == 0 else None)
    if rank:
        distributed.send(torch.ones(11, 2), 0)
    else:
        distributed.recv(torch.ones(11, 2))
    with torch.profiler.record_function("without inputs"):
        distributed.barrier()


with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
    step()
profiler.export_chrome_trace(f"{folder}/rank{rank}.json")

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    model(torch.ones(2, 2)).sum().backward()
    step()
    optimizer.step()
