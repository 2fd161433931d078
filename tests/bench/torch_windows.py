#!/usr/bin/env python3
"""How long operators took, by torch.profiler and by profd, in turns over windows of three steps of one training loop.

    torch_windows.py MODEL WINDOWS PROFD    prints {"torch": {NAME: [[self ns, total ns] of each window]}, "profd": ...,
                                            "again": torch.profiler's once more, to see how much is chance}

MODEL: cnn, transformer, lstm; of a size at which what has over 1% of the whole is the model's work and not what the
profilers add to the small operators of AdamW, in which torch.profiler's part is twice profd's.
"""
import collections
import json
import os
import subprocess
import sys

import torch
from torch.nn import functional

STEPS = 3


class Lstm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(64, 128, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2)
        self.head = torch.nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.encoder(x).mean(1))


def cnn():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(32, 64, 3, stride=2), torch.nn.GELU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(64, 10))


MODELS = {"cnn": (cnn, (48, 3, 32, 32)), "transformer": (Transformer, (40, 32, 128)), "lstm": (Lstm, (40, 32, 64))}


def main():
    name, windows, client = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    make, shape = MODELS[name]
    model, x, y = make(), torch.randn(shape), torch.randint(0, 10, shape[:1])
    optimizer = torch.optim.AdamW(model.parameters())
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "NVTX_INJECTION64_PATH")}

    def step():
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    def profd(*arguments):
        child = subprocess.Popen([client, *arguments, "--format", "json"], env=environment, stdout=subprocess.PIPE,
                                 text=True)
        while arguments[0] == "trigger" and child.poll() is None:
            step()
        return json.loads(child.communicate()[0])

    def warm():
        # After key_averages() and `profd show` caches are cold, and the processor may have slept.
        for _ in range(5):
            step()

    def window_of_torch(into):
        warm()
        schedule = torch.profiler.schedule(wait=0, warmup=1, active=STEPS, repeat=1)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule) as profiler:
            for _ in range(STEPS + 1):
                step()
                profiler.step()
        for row in profiler.key_averages():
            if not row.is_user_annotation and not row.key.startswith(("ProfilerStep", "Optimizer.")):
                into[row.key].append([row.self_cpu_time_total * 1e3, row.cpu_time_total * 1e3])

    def window_of_profd(into):
        warm()
        capture = profd("trigger", "--pid", str(os.getpid()), "--steps", str(STEPS))["captures"][0]
        for row in profd("show", capture["capture_id"])["operators"]:
            into[row["name"]].append([row["self_cpu_ns"], row["cpu_ns"]])

    times = {who: collections.defaultdict(list) for who in ("torch", "profd", "again")}
    for _ in range(windows):
        window_of_torch(times["torch"])
        window_of_profd(times["profd"])
        window_of_torch(times["again"])
    print(json.dumps(times))


if __name__ == "__main__":
    main()
