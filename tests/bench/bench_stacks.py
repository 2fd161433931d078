"""A recorded step of torch with Python stacks: sampled at 199 Hz (--stacks), and with the stack of each operator (--stacks=operators),
beside one without; and torch.profiler's with_stack=True beside its own without. All take turns on one job, so that what the machine does
beside falls on each; a figure is the median over the turns, a ratio that of the turns' ratios.
"""
import json
import os
import statistics
import subprocess

ROUNDS = 8
STEPS = 100
JOB = """
import json, pathlib, statistics, sys, time
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(2)])
optimizer = torch.optim.AdamW(model.parameters())
wanted, told = (pathlib.Path(path) for path in sys.argv[1:])
def iterate():
    model(torch.randn(4, 16, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
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
        found = {}
        for with_stack in (False, True):
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=with_stack):
                found[str(with_stack)] = steps(STEPS)
        wanted.unlink()
        told.with_suffix(".new").write_text(json.dumps(found))
        told.with_suffix(".new").rename(told)
"""


def captured(env, pid, *options):
    """The median step of a capture with these options."""
    capture = env.profd_json("trigger", "--pid", str(pid), "--steps", str(STEPS), *options)["captures"][0]["capture_id"]
    shown = env.profd_json("show", capture)
    lost = sum(row["count"] for row in shown["losses"] if row["loss"] != "torn")
    if lost:
        env.note(f"stacks: {lost} events were lost or not whole with {' '.join(options) or 'no option'}")
    return statistics.median(row["wall_ns"] for row in shown["steps"])


def profiled(env, wanted, told):
    wanted.touch()
    env.wait(told.exists, 120, "torch.profiler")
    found = json.loads(told.read_text())
    told.unlink()
    return found["False"], found["True"]


def rows(env):
    python = os.environ.get("PROFD_TORCH_NEWEST")
    if not python:
        env.note("stacks: PROFD_TORCH_NEWEST is not set: left out")
        return
    wanted, told = env.folder / "profile", env.folder / "profiled.json"
    job = subprocess.Popen([python, "-c", JOB.replace("STEPS", str(STEPS)), wanted, told], env=env.with_agent(), stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    try:
        env.wait_registered(job.pid)
        env.wait(lambda: any(row["pid"] == job.pid and row["step"] > 20 for row in env.profd_json("ps")["processes"]), 60, "steps")
        turns = [(captured(env, job.pid), captured(env, job.pid, "--stacks"), captured(env, job.pid, "--stacks=operators"),
                  *profiled(env, wanted, told)) for _ in range(ROUNDS)]
    finally:
        job.kill()
        job.communicate()
    plain, sampled, exact, theirs, stacked = ([turn[i] for turn in turns] for i in range(5))

    def row(what, ours, peer, reference, promised):
        ratio = statistics.median(a / b for a, b in zip(ours, peer))
        return what, statistics.median(ours) / 1e6, "ms", reference, statistics.median(peer) / 1e6, ratio, promised

    yield row("a recorded step of torch, --stacks", sampled, plain, "without stacks", 1.015)
    yield row("a recorded step of torch, --stacks=operators", exact, plain, "without stacks", None)
    yield row("a recorded step of torch, --stacks=operators", exact, stacked, "torch.profiler, with_stack=True", 1.0)
    yield row("a step in torch.profiler, with_stack=True", stacked, theirs, "torch.profiler, without stacks", None)
