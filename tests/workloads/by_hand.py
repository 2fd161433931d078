"""A loop of training without an optimizer: it subtracts the gradients from the weights itself, so that nothing of it is a step.

    by_hand.py [range]

range: each iteration is in a range of the user's own. A second thread counts what the first has made."""
import itertools
import sys
import threading

import without_compiler  # noqa: F401
import torch
from torch import nn
from torch.profiler import record_function

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Embedding(200, 32), nn.Flatten(), nn.Linear(512, 200))
made = threading.Semaphore(0)


def watch():
    seen = torch.zeros(())
    while True:
        made.acquire()
        seen.add_(1)


def iteration(i):
    words = torch.randint(0, 200, (16, 17), generator=torch.Generator().manual_seed(i))
    model.zero_grad()
    nn.functional.cross_entropy(model(words[:, :-1]), words[:, -1]).backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight.sub_(weight.grad, alpha=0.01)
    made.release()


threading.Thread(target=watch, daemon=True).start()
for i in itertools.count():
    if sys.argv[1:] == ["range"]:
        with record_function("iteration"):
            iteration(i)
    else:
        iteration(i)
    if i == 8:
        print("begun", flush=True)
