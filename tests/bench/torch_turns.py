"""A job of torch that iterates, is captured, and on request runs its own torch.profiler without options and with some: what takes turns on one
job meets the same of what the machine does beside."""
import contextlib
import json
import os
import statistics
import subprocess

JOB = """
import json, pathlib, statistics, sys, time
import torch
torch.set_num_threads(1)
wanted, told = (pathlib.Path(path) for path in sys.argv[1:])
{setup}
def steps(n):
    times = []
    for _ in range(n):
        begin = time.perf_counter_ns()
        iterate()
        times.append(time.perf_counter_ns() - begin)
    return statistics.median(times)
while True:
    iterate()
    if wanted.exists():
        found = []
        for options in {options}:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **dict.fromkeys(options, True)):
                found.append(steps({steps}))
        wanted.unlink()
        told.with_suffix(".new").write_text(json.dumps(found))
        told.with_suffix(".new").rename(told)
"""


class Turns:
    def __init__(self, env, job, steps):
        self.env, self.pid, self.steps = env, job.pid, steps
        self.wanted, self.told = env.folder / "profile", env.folder / "profiled.json"

    def captured(self, *options):
        """(a capture with these options, its tables, its median step in ns)"""
        capture = self.env.profd_json("trigger", "--pid", str(self.pid), "--steps", str(self.steps), *options)["captures"][0]
        shown = self.env.profd_json("show", capture["capture_id"])
        lost = sum(row["count"] for row in shown["losses"] if row["loss"] != "torn")
        if lost:
            self.env.note(f"{lost} events were lost or not whole with {' '.join(options) or 'no option'}")
        return capture, shown, statistics.median(row["wall_ns"] for row in shown["steps"])

    def profiled(self):
        """Its median steps in torch.profiler, without options and with each of those of turns(), in ns."""
        self.wanted.touch()
        self.env.wait(self.told.exists, 240, "torch.profiler")
        found = json.loads(self.told.read_text())
        self.told.unlink()
        return found


@contextlib.contextmanager
def turns(env, what, setup, options, steps):
    """`setup`: Python that defines iterate(). `options`: of torch.profiler, tuples of those that are on together. None where there is no torch."""
    python = os.environ.get("PROFD_TORCH_NEWEST")
    if not python:
        env.note(f"{what}: PROFD_TORCH_NEWEST is not set: left out")
        yield None
        return
    text = JOB.format(setup=setup, options=[(), *options], steps=steps)
    job = subprocess.Popen([python, "-c", text, env.folder / "profile", env.folder / "profiled.json"], env=env.with_agent(),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        env.wait_registered(job.pid)
        env.wait(lambda: any(row["pid"] == job.pid and row["step"] > 20 for row in env.profd_json("ps")["processes"]), 60, "steps")
        yield Turns(env, job, steps)
    finally:
        job.kill()
        job.communicate()
