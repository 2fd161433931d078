#!/usr/bin/env python3
"""What is left of a capture: steps of one training loop before and after it, and those right behind its last recorded one, in turns with torch.profiler.

    torch_after.py PROFD STORE    prints {"profd": {"before": [ns: the median step of each window], "after": ..., "first": [ns: what the
                                  FIRST steps behind the last recorded one took more than such steps do before]}, "torch": likewise}

A window is 20 steps. torch.profiler's stop is in the call of its step() behind the last recorded step.
"""
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import time

import torch

WINDOWS, WINDOW, RECORDED, FIRST, ROUNDS = 30, 20, 20, 3, 5


def main():
    client, store = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(2)])
    optimizer, x = torch.optim.AdamW(model.parameters()), torch.randn(4, 16, 64)
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH")}

    def step():
        """When it began and ended."""
        begin = time.monotonic_ns()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        return begin, time.monotonic_ns()

    def medians(windows):
        return [statistics.median(end - begin for begin, end in (step() for _ in range(WINDOW))) for _ in range(windows)]

    def by_profd():
        """What the first steps took behind the last one that was recorded, which the capture tells, by the time at which it ended."""
        child = subprocess.Popen([client, "trigger", "--pid", str(os.getpid()), "--steps", str(RECORDED), "--shapes", "--format", "json"],
                                 env=environment, stdout=subprocess.PIPE, text=True)
        steps = []
        while child.poll() is None or len(steps) < RECORDED + FIRST:
            steps.append(step())
        number = json.loads(child.stdout.read())["captures"][0]["capture_id"]
        steps += [step() for _ in range(FIRST + 1)]
        file = next(pathlib.Path(store).rglob(f"{number.lstrip('u')}.db"))
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as db:
            end, = db.execute("SELECT max(start + duration) + (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'base_monotonic') FROM steps").fetchone()
        # A step of profd's ends within one of the loop's, at the end of Optimizer.step.
        behind = [end_of for begin, end_of in steps if begin > end]
        return behind[FIRST - 1] - end

    def by_torch():
        schedule = torch.profiler.schedule(wait=0, warmup=1, active=RECORDED, repeat=1)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, schedule=schedule) as profiler:
            for _ in range(RECORDED):
                step()
                profiler.step()
            _, end = step()
            profiler.step()
            for _ in range(FIRST):
                _, last = step()
        return last - end

    medians(5)
    found = {who: {"before": [], "after": [], "first": []} for who in ("profd", "torch")}
    for _ in range(ROUNDS):
        for who, record in (("profd", by_profd), ("torch", by_torch)):
            before = medians(WINDOWS // ROUNDS)
            took = record()
            found[who]["first"].append(took - FIRST * statistics.median(before))
            found[who]["before"] += before
            found[who]["after"] += medians(WINDOWS // ROUNDS)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
