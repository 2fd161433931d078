"""Loops in functions whose names do not say what they are for: modes.py FOLDER. First nothing trains, then a model does, and is run in ways that differ by its mode. Says the requests of
its loaders by what they were for as JSON, once before it trains and once at the end; goes on when the files FOLDER/start, FOLDER/trains and FOLDER/leave come."""
import collections
import copy
import json
import pathlib
import sys
import time

import torch

torch.set_num_threads(1)
torch.manual_seed(0)
requests = collections.Counter()
model, loss_of = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Dropout(0.1), torch.nn.Linear(4, 2)), torch.nn.CrossEntropyLoss()
other = torch.nn.Sequential(torch.nn.Linear(8, 2), torch.nn.Flatten()).eval()
teacher = torch.nn.Linear(8, 2).eval()
twin, compiled = copy.deepcopy(model).eval(), torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), 0.01)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 28

    def __getitem__(self, at):
        return torch.full((8,), at / 28), at % 2


def loader():
    # What was looked at 10 ms ago is looked at again.
    time.sleep(0.02)
    return torch.utils.data.DataLoader(Data(), batch_size=4)


def of_globals():
    for x, _ in loader():
        model(x)


def of_arguments(net, data):
    for x, y in data:
        loss_of(net(x), y)


class Engine:
    def __init__(self, net):
        self.name, self.net, self.data = "engine", net, loader()

    def go(self):
        for x, _ in self.data:
            self.net(x)


def of_closure(net):
    def go():
        for x, _ in loader():
            net(x)
    go()


def distils():
    for x, _ in loader():
        teacher(x), model(x)


def test():
    of_globals()


def run(word, function, *arguments):
    with torch.no_grad():
        function(*arguments)
    # One more than there are batches.
    requests[word] += 8


def await_file(name):
    while not (pathlib.Path(sys.argv[1]) / name).exists():
        time.sleep(0.02)


print("ready", flush=True)
await_file("start")
model.eval()
for _ in range(2):
    run("inference", of_globals)
# Neither the first batch of all counts, nor the request that is still under way.
print(json.dumps({"inference": requests["inference"] - 2}), flush=True)
await_file("trains")
requests["inference"] -= 1
for _ in range(2):
    model.train()
    for x, y in loader():
        optimizer.zero_grad()
        loss_of(model(x) + teacher(x), y).backward()
        optimizer.step()
    requests["train"] += 7
    model.eval()
    run("validation", of_globals)
    run("validation", of_arguments, model, loader())
    run("validation", of_arguments, compiled, loader())
    run("validation", of_closure, model)
    run("validation", Engine(model).go)
    run("validation", distils)
    run("test", test)
    run("inference", of_arguments, other, loader())
    # Of these nobody says anything.
    run("inference", of_arguments, twin, loader())
    model.train()
    run("inference", of_globals)
    run("inference", distils)
# The one that counts what was before.
next(iter(loader()))
print(json.dumps(requests), flush=True)
await_file("leave")
