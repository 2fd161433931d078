"""A loop of training of a model that torch.compile compiles.

    compile.py steady|changing|every|beside [BACKEND]

steady: all batches are of one size. changing: in each third step the batch is of a size that was not there before, which is compiled again.
every: in each step. beside: another thread compiles all the time, at least once a step, and the loop's own model is steady. BACKEND: aot_eager (usual: it generates no code, and is quick), inductor."""
import itertools
import sys
import threading
import time

import torch
from torch import nn

how, backend = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "aot_eager"
torch.manual_seed(0)
torch.set_num_threads(1)
torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10000


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))

    def forward(self, batch):
        return self.layers(batch).relu()


network = Network()
model = torch.compile(network, backend=backend, dynamic=False)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
size = 16


compiled = []


def compile_beside():
    other = torch.compile(Network(), backend=backend, dynamic=False)
    for size in itertools.count(2):
        other(torch.randn(size, 32))
        compiled.append(size)


if how == "beside":
    threading.Thread(target=compile_beside, daemon=True).start()

for step in itertools.count(1):
    if how == "every" or (how == "changing" and step % 3 == 0):
        size += 1
        batch = torch.randn(size, 32)
    else:
        batch = torch.randn(16, 32)
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    before = len(compiled)
    while how == "beside" and len(compiled) == before:
        time.sleep(0.01)
