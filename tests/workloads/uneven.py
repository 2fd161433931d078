"""A loop of training whose every 12th step takes twenty times as long as the others, as a loop does that plays, evaluates or saves now and then."""
import itertools
import time

import without_compiler  # noqa: F401
import torch

torch.set_num_threads(1)
weight = torch.nn.Parameter(torch.zeros(8))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in itertools.count(1):
    time.sleep(0.2 if step % 12 == 6 else 0.01)
    weight.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
