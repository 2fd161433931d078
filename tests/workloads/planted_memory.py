#!/usr/bin/env python3
"""Trains a small model, and beside it takes much memory, or keeps some: where, the file says that is its argument ("peak_3", "leak_5", "none"). Prints the
word when it has changed. Each culprit is a line that ends with its word as a comment.
"""
import functools
import os
import sys
import threading
import time

import torch
import without_compiler  # noqa: F401
from torch import nn
from torch.nn import functional

BIG = 3 << 20  # elements: 12 MiB
kept, seen_of = [], {}


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 96), nn.Linear(96, 64)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))  # leak_4


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Wide(), Wide()
        self.table = nn.Embedding(50000, 64)
        self.wide, self.head = nn.Linear(64, BIG // 32), nn.Linear(64, 10)

    def forward(self, x, tokens=None, wide=False):
        if wide:
            return self.wide(x)  # peak_0
        if tokens is not None:
            x = x + self.table(tokens)  # peak_9
        return self.head(self.second(self.first(x)))


class Grows(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x.clone()

    @staticmethod
    def backward(_, gradient):
        return gradient + torch.zeros(BIG).sum()


class Hungry(torch.optim.SGD):
    big, history = False, False

    @torch.no_grad()
    def step(self, closure=None):
        if self.big:
            sum(torch.ones(BIG) for _ in range(2))  # peak_2
        if self.history:
            gradient = self.param_groups[0]["params"][0].grad
            self.state["history"].setdefault("of", []).append(gradient.clone())  # leak_7
        return super().step(closure)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.zeros(BIG // 2)


class Job:
    def __init__(self):
        self.model = Model()
        self.optimizer = Hungry([p for name, p in self.model.named_parameters() if name.split(".")[0] not in ("table", "wide")], lr=0.01)
        self.x, self.y = torch.randn(32, 64), torch.randint(0, 10, (32,))

    def loss(self):
        return functional.cross_entropy(self.model(self.x), self.y)

    # ---- peaks

    def peak_0(self):
        """A layer that is much wider than the others: the activation is its own."""
        with torch.no_grad():
            self.model(self.x, wide=True)

    def peak_1(self):
        """Scores of each with each."""
        keys = torch.ones(BIG // 1024, 4)
        (keys @ keys.T[:, :1024]).softmax(-1)  # peak_1

    def peak_2(self):
        """In the optimizer."""
        self.optimizer.big = True

    def peak_3(self):
        """In the backward of a function of one's own: the line is that of its forward."""
        x = torch.ones(4, requires_grad=True)
        Grows.apply(x).sum().backward()  # peak_3

    def peak_4(self):
        """Labels as columns of their own."""
        functional.one_hot(self.y, BIG // 64).float()  # peak_4

    def peak_5(self):
        """A validation with all rows at once."""
        with torch.inference_mode():
            self.x.repeat(BIG // 32 // 64, 1) + 1  # peak_5

    def peak_6(self):
        """What was cut into pieces is put together."""
        pieces = [torch.ones(1024)] * (BIG // 1024)
        torch.cat(pieces)  # peak_6

    def peak_7(self):
        """On a thread that ends."""
        def work():
            torch.full((BIG,), 2.0)  # peak_7
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    def peak_8(self):
        """Rows that a DataLoader gathers."""
        for _ in torch.utils.data.DataLoader(Rows(), 1):  # peak_8
            pass

    def peak_9(self):
        """A gradient for each row of a table, of which few were used."""
        self.model(self.x, torch.arange(32)).sum().backward()
        self.model.table.weight.grad = None

    # ---- leaks

    def leak_0(self):
        """A loss with all that its backward would need."""
        kept.append(self.model.first.up(self.x).repeat(16, 1).exp().sum())  # leak_0

    def leak_1(self):
        with torch.no_grad():
            kept.append(self.model(self.x).repeat(8, 1))  # leak_1

    def leak_2(self):
        seen_of[time.monotonic_ns()] = self.x * 2  # leak_2

    def leak_3(self):
        """Gradients, to look at them later."""
        kept.append([p.grad.clone() for p in self.model.first.up.parameters()])  # leak_3

    def leak_4(self):
        """A hook that keeps what a layer gave."""
        handle = self.model.first.down.register_forward_hook(lambda *words: kept.append(words[2]))
        with torch.no_grad():
            self.model(self.x)
        handle.remove()

    def leak_5(self, into=[]):
        into.append(torch.zeros(5000))  # leak_5

    def leak_6(self):
        def work():
            kept.append(torch.ones(6000))  # leak_6
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    def leak_7(self):
        """An optimizer with a history."""
        self.optimizer.history = True

    @functools.lru_cache(maxsize=None)
    def table_of(self, _):
        return torch.arange(7000.0)  # leak_8

    def leak_8(self):
        self.table_of(time.monotonic_ns())

    def leak_9(self):
        """Errors that hold their frames, and these what they had made."""
        def work():
            made = torch.rand(8000)  # leak_9
            raise ValueError(made.shape)
        try:
            work()
        except ValueError as error:
            kept.append(error)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    job, word = Job(), ""
    while True:
        with open(sys.argv[1]) as file:
            now = file.read()
        job.optimizer.big = job.optimizer.history = False
        job.optimizer.zero_grad()
        loss = job.loss()
        loss.backward()
        if now != "none":
            getattr(job, now)()
        job.optimizer.step()
        if now != word:
            kept.clear(), seen_of.clear(), job.table_of.cache_clear(), job.leak_5.__defaults__[0].clear(), job.optimizer.state.pop("history", None)
            print(now, flush=True)
            word = now
        time.sleep(0.01)


if __name__ == "__main__":
    print("ready", os.getpid(), flush=True)
    main()
