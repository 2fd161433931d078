"""A loop of training that also runs its network without gradient, in one of several ways, or does what only looks like it.

    evaluate.py plain|whole|batches|named|inference|compiled

plain: clips, scales, keeps an average of the weights and counts hits without gradient, and never evaluates. whole: evaluates after each third
step, in one torch.no_grad(). batches: in one a batch, with metrics outside of them. named: in a range "validation". compiled: as whole, a
model of torch.compile. inference: does not train at all; a range "request" around each."""
import contextlib
import copy
import itertools
import sys

import torch
from torch import nn

how = sys.argv[1]
if how != "compiled":
    import without_compiler  # noqa: F401
torch.manual_seed(0)
torch.set_num_threads(1)
network = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 196, 64), nn.ReLU(),
                        nn.Linear(64, 10))
model = torch.compile(network) if how == "compiled" else network
average, loss_of = copy.deepcopy(network), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu")
data = [(torch.randn(16, 3, 16, 16), torch.randint(0, 10, (16,))) for _ in range(8)]


def evaluate():
    network.eval()
    whole = torch.no_grad() if how != "batches" else contextlib.nullcontext()
    with whole:
        for x, y in data:
            with torch.no_grad():
                out = model(x)
            loss_of(out, y).item()
            (out.argmax(1) == y).sum().item()
    network.train()


def train(x, y):
    out = model(x)
    loss = loss_of(out, y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    with torch.no_grad():
        (out.argmax(1) == y).float().mean().item()
        torch.einsum("bi,bj->ij", out, out)
        for mean, now in zip(average.parameters(), network.parameters()):
            mean.lerp_(now, 0.01)


for step in itertools.count(1):
    batch = data[step % len(data)]
    if how == "inference":
        with torch.profiler.record_function("request"), torch.inference_mode():
            model(batch[0]).softmax(1)
        continue
    train(*batch)
    if how != "plain" and step % 3 == 0:
        with torch.profiler.record_function("validation") if how == "named" else contextlib.nullcontext():
            evaluate()
