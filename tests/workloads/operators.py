#!/usr/bin/env python3
"""Operators that come and go, operators of several threads, and ranges that torch makes for its own profiler alone.

    operators.py library|threads|fast [--steps N] [--step-ms T]

library: each step defines operators one after the other, calls each CALLS times and takes it away before the next: their names
         lie at the same few addresses. Two of three are called work_*, the third mark_*.
threads: THREADS threads call aten::add all the time; a step ends when each has.
fast: aten::add in a range of _RecordFunctionFast, as compiled code makes them, in each step; from the step behind SIGUSR1 on
         torch.profiler is at work.
Steps are profd_step()'s; after N they go on for as long as the file in STAY is there. Prints "ready" with its pid, and in the end N.
"""
import argparse
import ctypes
import itertools
import os
import signal
import sys
import threading
import time

import torch

OPERATORS, CALLS, THREADS = 30, 5, 16


def come_and_go(one):
    for number in range(OPERATORS):
        library = torch.library.Library("come", "DEF")
        name = f"mark_{number:04d}" if number % 3 == 2 else f"work_{number:04d}"
        library.define(f"{name}(Tensor x) -> Tensor")
        library.impl(name, lambda x: x, "CPU")
        operator = getattr(torch.ops.come, name)
        for _ in range(CALLS):
            operator(one)
        library._destroy()
        if hasattr(torch.ops.come, name):
            delattr(torch.ops.come, name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["library", "threads", "fast"])
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--step-ms", type=float, default=20)
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    sys.setswitchinterval(1e-5)
    step = getattr(ctypes.CDLL(None), "profd_step", lambda: None)
    one, over = torch.ones(1), threading.Event()

    def add(number):
        while not over.is_set():
            began = number_now[0]
            torch.add(one, one)
            called[number] = began
            time.sleep(0)

    number_now, called = [0], [0] * (THREADS if wanted.mode == "threads" else 0)
    threads = [threading.Thread(target=add, args=(number,)) for number in range(len(called))]
    for thread in threads:
        thread.start()
    print("ready", os.getpid(), flush=True)
    profiler, wanted_on = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]), []
    if wanted.mode == "fast":
        signal.signal(signal.SIGUSR1, lambda *_: wanted_on.append(1))
    for number in itertools.count(1):
        if number > wanted.steps and not os.path.exists(os.environ.get("STAY", "")):
            break
        until = time.monotonic() + wanted.step_ms / 1000
        number_now[0] = number
        if wanted.mode == "library":
            come_and_go(one)
        if wanted.mode == "fast":
            if wanted_on:
                wanted_on.clear()
                profiler.start()
            with torch._C._profiler._RecordFunctionFast("a fast range"):
                torch.add(one, one)
        time.sleep(max(0, until - time.monotonic()))
        while any(last < number for last in called):
            time.sleep(0.001)
        step()
    over.set()
    for thread in threads:
        thread.join()
    print(wanted.steps)


main()
