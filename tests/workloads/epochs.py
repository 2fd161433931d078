"""A loop over epochs of 9 batches, with a validation after each; prints when each of its batches began to train, when it ends.

    epochs.py HOW

plain. persistent: a worker that stays. accumulate: a step of the optimizer takes three batches. last: the last batch is dropped. breaks: each pass is left after 5 batches.
midst: a validation in the midst of an epoch, too. evaluates: the validation is of the training data. anew: each epoch has a loader of its own. nested: the data come
out of a DataLoader. ahead: each batch is asked for before the one before trains. pairs: each iteration takes a batch of two loaders. turns: epochs of
another loader lie in between. subclass: the loader's iterators have a __next__ of their own. fails: the first request of each pass raises, which costs a batch, and is made again. collects:
all garbage is collected after each epoch. forks: in the midst of each epoch. endless: the loader has no end. blind: what asks for the batches is no iterator of torch's.
thread: another thread asks. aside: all of it is in another thread. stays: in the midst of each epoch, says so, and goes on at SIGUSR1.

Ended by SIGTERM; prints {"batches": [begin, ...]}, times of CLOCK_MONOTONIC in ns."""
import gc
import itertools
import json
import os
import queue
import signal
import sys
import threading
import time

import torch
import without_compiler  # noqa: F401

how = sys.argv[1]
BATCHES, VALIDATE = 8, 3
torch.manual_seed(0)
torch.set_num_threads(1)
ended, times, failing, released = [], [], [], []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
if how == "stays":
    signal.signal(signal.SIGUSR1, lambda *_: released.append(1))


class Data(torch.utils.data.Dataset):
    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return 4 * self.batches + 2

    def __getitem__(self, at):
        if failing and self.batches == BATCHES:
            failing.pop()
            raise ValueError("the first request")
        return torch.full((32,), at / len(self)), torch.tensor(at % 2)


class Nested(torch.utils.data.IterableDataset):
    def __iter__(self):
        for x, y in torch.utils.data.DataLoader(Data(BATCHES), batch_size=2, drop_last=True):
            yield from zip(x, y)


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        return itertools.cycle([(torch.ones(32), torch.tensor(1))])


class Iterator(torch.utils.data.dataloader._SingleProcessDataLoaderIter):
    def __next__(self):
        return super().__next__()


class Subclass(torch.utils.data.DataLoader):
    def __iter__(self):
        return Iterator(self)


class Blind:
    """Opens torch's range itself."""
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        self.at = iter(self.source)
        return self

    def __next__(self):
        with torch.autograd.profiler.record_function("enumerate(DataLoader)#Blind.__next__"):
            return next(self.at)


def loader(data, **more):
    kind = Subclass if how == "subclass" else torch.utils.data.DataLoader
    return kind(data, batch_size=4, drop_last=how == "last", num_workers=how == "persistent", persistent_workers=how == "persistent",
                multiprocessing_context="fork" if how == "persistent" else None, **more)


def ahead(source):
    """As accelerate's loaders do."""
    at = iter(source)
    try:
        now = next(at)
    except StopIteration:
        return
    while True:
        try:
            after = next(at)
        except StopIteration:
            yield now
            return
        yield now
        now = after


def failed_first(source):
    at = iter(source)
    failing.append(1)
    try:
        next(at)
    except ValueError:
        pass
    yield from at


def in_a_thread(source):
    waiting = queue.Queue(2)

    def fetch():
        for batch in source:
            waiting.put(batch)
        waiting.put(None)

    threading.Thread(target=fetch, daemon=True).start()
    return iter(waiting.get, None)


dataset = Nested() if how == "nested" else Endless() if how == "endless" else Data(BATCHES)
training = loader(dataset)
validating = training if how == "evaluates" else loader(Data(VALIDATE))
second = loader(Data(BATCHES))
if how == "blind":
    training = Blind([(torch.ones(4, 32), torch.ones(4, dtype=torch.long))] * BATCHES)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optimizer, loss_of = torch.optim.SGD(model.parameters(), 0.01), torch.nn.CrossEntropyLoss()


def validate():
    with torch.no_grad():
        for x, _ in validating:
            model(x).argmax(1).sum().item()


def batches():
    if how == "anew":
        return loader(dataset)
    if how == "pairs":
        return (a for a, _ in zip(training, second))
    return {"ahead": ahead, "fails": failed_first, "thread": in_a_thread}.get(how, iter)(training)


def train_batch(at, x, y):
    times.append(time.monotonic_ns())
    if how != "accumulate" or at % 3 == 0:
        optimizer.zero_grad()
    loss_of(model(x), y).backward()
    if how != "accumulate" or at % 3 == 2:
        optimizer.step()
    time.sleep(0.003)


def stay():
    print("stays", flush=True)
    while not released and not ended:
        time.sleep(0.01)
    released.clear()


def epoch():
    for at, (x, y) in enumerate(batches()):
        train_batch(at, x, y)
        if how == "midst" and at == 4:
            validate()
        if how == "forks" and at == 4:
            if not (child := os.fork()):
                os._exit(0)
            os.waitpid(child, 0)
        if how == "stays" and at == 4:
            stay()
        if how == "breaks" and at == 4 or ended:
            break


def loop():
    while not ended:
        epoch()
        if how == "turns":
            for at, (x, y) in enumerate(second):
                train_batch(at, x, y)
        else:
            validate()
        if how == "collects":
            gc.collect()


if how == "aside":
    thread = threading.Thread(target=loop)
    thread.start()
    while thread.is_alive():
        thread.join(0.05)
else:
    loop()
print(json.dumps({"batches": times}), flush=True)
