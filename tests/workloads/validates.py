"""A loop of training that validates or tests after each third step, in a function that says so.

    validates.py without|graded|trains

without: without gradient. graded: a test, with model.eval() alone, gradient switched on. trains: a function named so, which trains."""
import itertools
import sys

import torch
import without_compiler  # noqa: F401
from torch import nn

how = sys.argv[1]
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 196, 64), nn.ReLU(), nn.Linear(64, 10))
loss_of = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = [(torch.randn(16, 3, 16, 16), torch.randint(0, 10, (16,))) for _ in range(8)]


def iterate(x, y):
    loss_of(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()


def validate():
    model.eval()
    with torch.no_grad():
        for x, y in data * 6:
            loss_of(model(x), y).item()
    model.train()


def evaluate():
    """What it is for only its caller knows."""
    model.eval()
    for x, y in data * 6:
        loss_of(model(x), y).item()
    model.train()


def test():
    evaluate()


def validation_step(x, y):
    iterate(x, y)


for step in itertools.count():
    (validation_step if how == "trains" else iterate)(*data[step % len(data)])
    if how != "trains" and step % 3 == 0:
        (validate if how == "without" else test)()
