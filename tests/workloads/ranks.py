#!/usr/bin/env python3
"""A rank of a job that trains a small real model over gloo: DistributedDataParallel, batches of a DataLoader, a validation now and then.

    ranks.py STORE STOP STEPS     RANK and WORLD_SIZE are in the environment

STORE is the file by which ranks find each other. STEPS 0: until the file STOP exists; rank 0 sees it and tells the others. Two runs of as many
steps print the same lines: `step N LOSS`, LOSS as repr; at the end digests of torch's generator and of the weights.
"""
import os
import sys

import torch
import torch.distributed
import train
from torch.nn import functional

BATCH = 4


def agreed(stop, step, steps):
    """Is this the end? One answer for all."""
    word = torch.tensor([float(step >= steps if steps else os.path.exists(stop))])
    torch.distributed.broadcast(word, 0)
    return bool(word.item())


def forever(loader):
    while True:
        yield from loader


def main():
    store, stop, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    make, shape = train.MODELS["transformer"]
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    model = torch.nn.parallel.DistributedDataParallel(make())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(rank)
    data = train.Data(shape, BATCH * 8, 0)
    source = forever(torch.utils.data.DataLoader(data, BATCH, shuffle=True))
    held_out = forever(torch.utils.data.DataLoader(data, BATCH))
    train.say("ready", os.getpid())
    step = 0
    while not agreed(stop, step, steps):
        step += 1
        x, y = next(source)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if step % 30 == 0:
            model.eval()
            with torch.no_grad():
                for _ in range(8):
                    x, y = next(held_out)
                    train.say("validation", repr(functional.cross_entropy(model(x), y).item()))
            model.train()
        train.say("step", step, repr(loss.item()))
    train.say("random", train.digest([torch.random.get_rng_state()]))
    train.say("weights", train.digest(model.parameters()))
    torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
