#!/usr/bin/env python3
"""A step of very many operators.

    torch_million.py OPERATORS            prints "ready PID"; a line `step` on its standard input ends a step of
                                          nothing, any other makes three steps of so many torch.add in all and
                                          prints the CLOCK_MONOTONIC ns at which the last one ended
    torch_million.py OPERATORS TRACE N    so many under torch.profiler: prints {"events", "stop", "averages",
                                          "export", "export_gz"} in seconds, the least of N; traces go to
                                          TRACE.json and TRACE.json.gz
"""
import ctypes
import json
import os
import sys
import time

import torch

STEPS = 3


def adds(count):
    add, a, b = torch.add, torch.ones(1), torch.ones(1)
    for _ in range(count):
        add(a, b)


def timed(what):
    from_s = time.perf_counter()
    what()
    return time.perf_counter() - from_s


def profiled(operators, trace, rounds):
    took = {}
    # A trace can be exported once.
    for key, suffix in (("export", ".json"), ("export_gz", ".json.gz")) * rounds:
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        profiler.start()
        adds(operators)
        took["stop"] = min(timed(profiler.stop), took.get("stop", 1e9))
        took[key] = min(timed(lambda: profiler.export_chrome_trace(trace + suffix)), took.get(key, 1e9))
    took["averages"] = timed(profiler.key_averages)
    print(json.dumps({"events": operators, **took}))


def main():
    torch.set_num_threads(1)
    operators = int(sys.argv[1])
    adds(1000)
    if len(sys.argv) > 2:
        profiled(operators, sys.argv[2], int(sys.argv[3]))
        return
    step = ctypes.CDLL(None).profd_step
    for _ in range(3):
        step()
    print("ready", os.getpid(), flush=True)
    for line in sys.stdin:
        if line.strip() == "step":
            step()
            continue
        for i in range(STEPS):
            adds(operators // STEPS + (operators % STEPS if i == 0 else 0))
            step()
        print(time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)


if __name__ == "__main__":
    main()
