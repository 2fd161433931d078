#!/usr/bin/env python3
"""The time of one torch operator (torch.add of one element), in one process and in turns: alone, under an empty
callback, while profd records, under torch.profiler; each also with shapes.

    torch_pair.py ROUNDS [PROFD FLOOR_LIBRARY]     prints {"WAY": ns of the fastest batch, ...}; PROFD is the client

Without PROFD only the first. The stop of torch.profiler is timed apart, in ns for each operator that it had recorded.
"""
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import time

import torch

CALLS, BATCHES = 1000, 40


def batches(best, way):
    add, a, b, clock = torch.add, torch.ones(1), torch.ones(1), time.perf_counter_ns
    for _ in range(BATCHES):
        from_ns = clock()
        for _ in range(CALLS):
            add(a, b)
        best[way] = min(best.get(way, 1e9), (clock() - from_ns) / CALLS)


def profiled(best, shapes):
    way = "profiler, shapes" if shapes else "profiler"
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=shapes)
    profiler.start()
    batches(best, way)
    from_ns = time.perf_counter_ns()
    profiler.stop()
    each = (time.perf_counter_ns() - from_ns) / (CALLS * BATCHES)
    best["stop, shapes" if shapes else "stop"] = min(best.get("stop, shapes" if shapes else "stop", 1e9), each)


class Recorder:
    """Captures of this process, a step of profd_step() each."""

    def __init__(self, client):
        self.client = client
        # Not the job's environment: the client is not to be looked at by the agent.
        self.environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "NVTX_INJECTION64_PATH")}
        self.step = ctypes.CDLL(None).profd_step
        self.lost = 0

    def profd(self, *arguments):
        done = subprocess.run([self.client, *arguments, "--format", "json"], env=self.environment, capture_output=True,
                              text=True, timeout=60)
        if done.returncode != 0:
            sys.exit(f"profd {arguments}: {done.stderr}")
        return json.loads(done.stdout)

    def state(self):
        return next(row["state"] for row in self.profd("ps")["processes"] if row["pid"] == os.getpid())

    def record(self, work, operators, shapes=False):
        """work(), which calls so many operators, as one recorded step."""
        self.step()
        self.step()
        more = ["--shapes"] if shapes else []
        capture = self.profd("trigger", "--pid", str(os.getpid()), "--steps", "1", "--no-wait", *more)["captures"][0]
        deadline = time.monotonic() + 20
        while self.state() != "recording":
            self.step()
            time.sleep(0.05)
            if time.monotonic() > deadline:
                sys.exit("no recording began")
        work()
        self.step()
        shown = {"status": "recording"}
        while shown["status"] not in ("complete", "incomplete", "failed"):
            time.sleep(0.05)
            shown = next(c for c in self.profd("captures")["captures"] if c["capture_id"] == capture["capture_id"])
        if shown["status"] != "complete" or shown["events"] + shown["lost"] < operators:
            sys.exit(f"the capture holds {shown['events']} events of {operators}: {shown['status']}")
        self.lost += shown["lost"]


def main():
    torch.set_num_threads(1)
    rounds, best = int(sys.argv[1]), {}
    batches(best, "warm-up")
    del best["warm-up"]
    if len(sys.argv) < 4:
        for _ in range(rounds):
            batches(best, "alone")
        print(json.dumps(best))
        return
    recorder, floor = Recorder(sys.argv[2]), ctypes.CDLL(sys.argv[3])
    library = str(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so").encode()
    for _ in range(rounds):
        batches(best, "alone")
        if floor.floor_on(library):
            batches(best, "floor")
            floor.floor_off()
        for shapes in (False, True):
            way = "profd, shapes" if shapes else "profd"
            recorder.record(lambda: batches(best, way), CALLS * BATCHES, shapes)
            profiled(best, shapes)
    best["lost"] = recorder.lost
    print(json.dumps(best))


if __name__ == "__main__":
    main()
