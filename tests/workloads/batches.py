"""A loop that trains and validates by turns, each with a DataLoader; prints of each batch where it lay, when it ends.

    batches.py plain|workers|nested|graph|graph-unnamed|ahead|validation|tests|list|moves|moves-validation [TRAIN VALIDATE]

TRAIN batches (6) are followed by VALIDATE ones (12), and so on. workers: the loaders have one. nested: the training data come out of a
DataLoader of their own. graph: validates with gradients on. graph-unnamed: the same, in functions whose names do not tell. ahead: another thread fetches the batches. validation: does not train at all.
tests: after each validation as many batches of a test.
list: no DataLoader. moves, moves-validation: at SIGUSR1 another thread goes on with the loop, as plain or validation, and faster. Ended by SIGTERM; prints {"batches": [[phase, begin, end], ...]}, times of CLOCK_MONOTONIC in ns."""
import contextlib
import functools
import json
import queue
import signal
import sys
import threading
import time

import torch
import without_compiler  # noqa: F401

moves = sys.argv[1].startswith("moves")
how = {"moves": "plain", "moves-validation": "validation"}.get(sys.argv[1], sys.argv[1])
TRAIN, VALIDATE = map(int, sys.argv[2:4]) if len(sys.argv) > 2 else (6, 12)
LIMIT = 100000  # batches told of
torch.manual_seed(0)
torch.set_num_threads(1)
ended, told, moved, fetching = [], [], [], []


class Data(torch.utils.data.Dataset):
    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return 4 * self.batches

    def __getitem__(self, at):
        return torch.full((32,), at / len(self)), torch.tensor(at % 2)


class Nested(torch.utils.data.IterableDataset):
    def __iter__(self):
        for x, y in torch.utils.data.DataLoader(Data(TRAIN), batch_size=2):
            yield from zip(x, y)


def loader(batches):
    if how == "list":
        return [tuple(torch.stack(part) for part in zip(*(Data(batches)[4 * at + i] for i in range(4)))) for at in range(batches)]
    return torch.utils.data.DataLoader(Nested() if how == "nested" and batches == TRAIN else Data(batches), batch_size=4,
                                       num_workers=how == "workers", persistent_workers=how == "workers")


def ahead(source):
    """Another thread asks for the batches."""
    waiting = queue.Queue(2)

    def put(batch):
        while not ended:
            try:
                return waiting.put(batch, timeout=0.05)
            except queue.Full:
                pass

    def fetch():
        for batch in source:
            put(batch)
            if ended:
                break
        put(None)
        with contextlib.suppress(queue.Full):
            waiting.put_nowait(None)  # for a loop that waits now

    fetching.append(threading.Thread(target=fetch))
    fetching[-1].start()
    return iter(waiting.get, None)


def batches(source):
    return ahead(source) if how == "ahead" else source


model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optimizer, loss_of = torch.optim.SGD(model.parameters(), 0.01), torch.nn.CrossEntropyLoss()
training, validating = loader(TRAIN), loader(VALIDATE)


@contextlib.contextmanager
def batch(phase):
    begin = time.monotonic_ns()
    yield
    if len(told) < LIMIT:
        told.append([phase, begin, time.monotonic_ns()])
    time.sleep(0.1 if moves and not moved else 0.005)


def train():
    for x, y in batches(training):
        with batch("train"):
            optimizer.zero_grad()
            out = model(x)
            loss_of(out, y).backward()
            optimizer.step()
            with torch.no_grad():
                (out.argmax(1) == y).sum().item()
        if ended or moved and here():
            break


def go(phase):
    with torch.set_grad_enabled(how.startswith("graph")):
        for x, y in batches(validating):
            with batch(phase):
                (model(x).argmax(1) == y).sum().item()
            if ended or moved and here():
                break


def evaluate(phase):
    go(phase)


def validate():
    evaluate("validation")


def test():
    evaluate("test")


def here():
    return threading.current_thread() is threading.main_thread()


def loop():
    while not ended and not (moved and here()):
        if how != "validation":
            train()
        (functools.partial(go, "validation") if how == "graph-unnamed" else validate)()
        if how == "tests":
            test()


signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
if moves:
    signal.signal(signal.SIGUSR1, lambda *_: moved.append(1))
loop()
if moved:
    thread = threading.Thread(target=loop)
    thread.start()
    while thread.is_alive():
        thread.join(0.05)
# Python ends a thread that is in torch by force, which torch takes for an error.
for thread in fetching:
    thread.join()
print(json.dumps({"batches": told}), flush=True)
