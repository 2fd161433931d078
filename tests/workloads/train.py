#!/usr/bin/env python3
"""Trains a small real model on the CPU or a GPU and says, to the last bit, what came of it.

Deterministic: two runs with the same options print the same lines, so a run with a profiler beside it can be compared
with one without. The model is a CNN, a transformer or an LSTM; each step is forward, backward and AdamW. Needs torch
1.13 or later and nothing else.

Lines on standard output:
    ready PID                 before the first step, and before --wait-for
    step N LOSS               after each step; LOSS as repr (--quiet: only the last)
    window N NAME=COUNT ...   after each window of the program's own torch.profiler (--profile)
    memory N NAME=SELF:TOTAL  likewise, bytes on the CPU (--memory)
    random DIGEST             at the end: the state of torch's generator
    weights DIGEST            at the end
"""
import argparse
import hashlib
import os
import random
import signal
import sys
import time

import torch
from torch.nn import functional


class Lstm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(16, 32, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2)
        self.head = torch.nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.encoder(x).mean(1))


def cnn():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, stride=2, groups=2), torch.nn.GELU(), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 10))


MODELS = {
    "cnn": (cnn, (3, 16, 16)),
    "transformer": (Transformer, (12, 32)),
    "lstm": (Lstm, (12, 16)),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=sorted(MODELS), default="cnn")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1; on a GPU by deterministic algorithms where there are any")
    parser.add_argument("--steps", type=int, default=20, help="0: until a signal ends it")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--pad-ms", type=float, default=0, help="sleep in each step")
    parser.add_argument("--loader", action="store_true", help="batches from a DataLoader")
    parser.add_argument("--workers", type=int, default=0, help="processes of the DataLoader")
    parser.add_argument("--load-ms", type=float, default=0, help="how long each sample takes to load, as from a slow disk; with --loader")
    parser.add_argument("--optimizers", type=int, default=1, help="optimizers that step in each iteration")
    parser.add_argument("--ranges", action="store_true", help="record_function around forward and backward")
    parser.add_argument("--profile", type=int, default=0, metavar="N",
                        help="own torch.profiler: windows of N steps after one of waiting and one of warm-up")
    parser.add_argument("--shapes", action="store_true", help="record_shapes in that profiler")
    parser.add_argument("--memory", action="store_true", help="profile_memory in that profiler")
    parser.add_argument("--trace", metavar="DIR", help="folder for that profiler's traces, window-K.json")
    parser.add_argument("--trace-windows", type=int, nargs="+", default=[], metavar="K", help="write only these windows' traces")
    parser.add_argument("--accumulate", type=int, default=1, metavar="N",
                        help="batches of each step of the optimizers")
    parser.add_argument("--compile", metavar="BACKEND", help="torch.compile the model")
    parser.add_argument("--compiler", action="store_true", help="import torch's compiler as every optimizer does, also without --compile")
    parser.add_argument("--hold", metavar="FILE", help="after the steps of --hold-after wait until this file exists, and remove it")
    parser.add_argument("--hold-after", type=int, nargs="+", default=[], metavar="STEP", help="see --hold")
    parser.add_argument("--plant-harm", action="store_true",
                        help="behave a little differently where a profiler's agent is there: for tests of tests")
    parser.add_argument("--lists", action="store_true", help="each step has operators on lists of tensors, long and many, as optimizers on GPUs have")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--wait-for", metavar="FILE", help="begin only once this file exists")
    return parser.parse_args()


class Data(torch.utils.data.Dataset):
    def __init__(self, shape, length, load_s):
        self.load_s = load_s
        generator = torch.Generator().manual_seed(7)
        self.x = torch.randn(length, *shape, generator=generator)
        self.y = torch.randint(0, 10, (length,), generator=generator)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        if self.load_s:
            time.sleep(self.load_s)
        return self.x[index], self.y[index]


def batches(options, shape):
    data = Data(shape, options.batch * 8, options.load_ms / 1000)
    if options.loader or options.workers:
        loader = torch.utils.data.DataLoader(data, options.batch, num_workers=options.workers, shuffle=True,
                                             persistent_workers=bool(options.workers and options.load_ms))
        while True:
            yield from loader
    else:
        while True:
            for first in range(0, len(data), options.batch):
                yield data.x[first:first + options.batch], data.y[first:first + options.batch]


class NoRange:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def digest(tensors):
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()


def say(*words):
    print(*words, flush=True)


def agent_is_here():
    with open("/proc/self/maps") as maps:
        return "libprofd_agent" in maps.read()


def own_profiler(options):
    window = [0]

    def ready(profiler):
        window[0] += 1
        averages = sorted((event.key, event.count) for event in profiler.key_averages())
        say("window", window[0], *("%s=%d" % (name.replace(" ", "_"), count) for name, count in averages))
        if options.memory:
            say("memory", window[0], *("%s=%d:%d" % (event.key.replace(" ", "_"), event.self_cpu_memory_usage, event.cpu_memory_usage)
                                       for event in profiler.key_averages()))
        if options.trace and window[0] in (options.trace_windows or window):
            profiler.export_chrome_trace(os.path.join(options.trace, "window-%d.json" % window[0]))

    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=options.shapes, profile_memory=options.memory, on_trace_ready=ready,
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=options.profile, repeat=0))


def hold(file):
    while not os.path.exists(file):
        time.sleep(0.01)
    os.unlink(file)


class Lists:
    """Lists of as many tensors as profilers describe, and of more: lists that are short, and many, and one among others that is long."""

    def __init__(self):
        self.lists = {n: [[torch.zeros(1, 1, 1, 1 + i % 3) for i in range(n)] for _ in range(4)] for n in (2, 30, 31, 90)}

    def step(self):
        for one, other, third, fourth in self.lists.values():
            torch._foreach_add_(one, 1.0)
            torch._foreach_lerp_(one, other, 0.25)
            torch._foreach_addcdiv_(one, other, third, 0.5)
            torch.cat(one, 3)
            torch._fused_adamw_(one, other, third, fourth, [], [torch.ones(()) for _ in one], lr=0.0, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1.0,
                                amsgrad=False, maximize=False)


def main():
    options = arguments()
    if options.device == "cpu" and not (options.compile or options.compiler or options.profile):
        import without_compiler  # noqa: F401
    torch.set_num_threads(options.threads)
    random.seed(1)
    torch.manual_seed(1)
    if options.device != "cpu":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    make, shape = MODELS[options.model]
    model = make().to(options.device)
    parameters = list(model.parameters())
    share = (len(parameters) + options.optimizers - 1) // options.optimizers
    optimizers = [torch.optim.AdamW(parameters[first:first + share], lr=1e-3)
                  for first in range(0, len(parameters), share)]
    named = torch.profiler.record_function if options.ranges else lambda name: NoRange()
    source = batches(options, shape)
    if options.compile:
        model = torch.compile(model, backend=options.compile)
    say("ready", os.getpid())
    while options.wait_for and not os.path.exists(options.wait_for):
        time.sleep(0.01)
    profiler = own_profiler(options) if options.profile else None
    if profiler:
        profiler.start()
    loss, step, lists = None, 0, Lists() if options.lists else None
    while not ended and (not options.steps or step < options.steps):
        step += 1
        for batch in range(options.accumulate):
            x, y = next(source)
            if options.device != "cpu":
                x, y = x.to(options.device), y.to(options.device)
            if not batch:
                for optimizer in optimizers:
                    optimizer.zero_grad()
            with named("forward"):
                loss = functional.cross_entropy(model(x), y)
            with named("backward"):
                loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        if lists:
            lists.step()
        if options.plant_harm and step == 3 and agent_is_here():
            torch.rand(1)
        if options.pad_ms:
            time.sleep(options.pad_ms / 1000)
        if profiler:
            profiler.step()
        if not options.quiet:
            say("step", step, repr(loss.item()))
        if step in options.hold_after:
            hold(options.hold)
    if profiler:
        profiler.stop()
    if options.quiet and loss is not None:
        say("step", step, repr(loss.item()))
    say("random", digest([torch.random.get_rng_state()]))
    say("weights", digest(parameters))
    return 0


if __name__ == "__main__":
    sys.exit(main())
