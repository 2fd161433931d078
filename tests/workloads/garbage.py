"""A loop of training of a process that holds many objects of Python. Python's collector of garbage runs when this program says so.

    garbage.py none|some|full|each|slow OBJECTS [PAUSE]

none: never. some: a full collection in each tenth step. full: in each step. each: the youngest generation in each step, which costs nothing. slow: none, and each tenth
step sleeps for PAUSE seconds. OBJECTS: how many the process holds; a full collection goes through all of them.

It begins once the file is there that PROFD_TEST_GO names. It writes down what it knows of each collection, a line for each step, to the file that PROFD_TEST_COLLECTIONS
names (ns, CLOCK_MONOTONIC): when it was asked for, when gc.callbacks told its begin and its end, how much of the processor the thread had in between, and its generation.
CPython counts a collection before it tells its end, which it does by a function of Python, that may wait for a processor."""
import gc
import itertools
import os
import sys
import time

import torch
from torch import nn

import without_compiler  # noqa: F401

how, objects = sys.argv[1], int(sys.argv[2])
pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0
torch.manual_seed(0)
torch.set_num_threads(1)
gc.disable()
held = [[i] for i in range(objects)]
gc.collect()

collected = []
# To ask for it is a moment at which the kernel may give the processor to another program. What costs nothing would be that long.
processor = time.thread_time_ns if how != "each" else lambda: 0
gc.callbacks.append(lambda phase, info: collected.append((time.monotonic_ns(), processor(), info["generation"])))
log = open(os.environ.get("PROFD_TEST_COLLECTIONS", os.devnull), "w", buffering=1)

go = os.environ.get("PROFD_TEST_GO")
while go and not os.path.exists(go):
    time.sleep(0.01)

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(64, 64)

for step in itertools.count(1):
    for _ in range(20):
        model(batch).sum().backward()
    asked = time.monotonic_ns()
    if how == "full":
        gc.collect()
    elif step % 10 == 0 and how == "some":
        cycle = []
        cycle.append(cycle)
        del cycle
        gc.collect()
    elif step % 10 == 0 and how == "slow":
        time.sleep(pause)
    elif how == "each":
        gc.collect(0)
    for (begun, before, generation), (ended, after, _) in zip(collected[::2], collected[1::2]):
        log.write(f"{asked} {begun} {ended} {after - before} {generation}\n")
    collected.clear()
    optimizer.step()
    optimizer.zero_grad()
