"""A block of torch's allocator, taken and given back, while it is recorded (--memory), beside torch.profiler's profile_memory=True: what
recording blocks adds to a step that takes many, to that of a recording without them. All take turns on one job; a figure is the median over
the turns. How long it takes to switch it on, and how much more memory a job has while millions of blocks are recorded.
"""
import pathlib
import re
import sqlite3
import statistics

from torch_turns import turns

ROUNDS, STEPS, BLOCKS = 6, 30, 1000  # a step's: each is taken and given back
MOST_MIB, MANY = 64, (100, 2000)  # what is promised; steps of the captures in which memory is looked at
SETUP = f"""
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters())
kept = [torch.empty(8) for _ in range(100000)]
def iterate():
    for _ in range({BLOCKS}):
        torch.empty(16)
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def enabled(env, capture):
    """How long it took to switch the blocks on, ns."""
    path = env.store / "captures" / f"{capture['capture_id'].lstrip('u')}.db"
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        return db.execute("SELECT enable FROM collectors WHERE collector = 'allocations'").fetchone()[0]


def resident(pid):
    """MiB of the process's own memory, and of the segment, which is the daemon's and shared with it."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return [int(re.search(rf"^{word}:\s+(\d+) kB", text, re.M)[1]) / 1024 for word in ("RssAnon", "RssShmem")]


def more_in_a_capture(env, pid, steps):
    """How much more is resident at most while so many steps are recorded. Their answer is not waited for."""
    before, seen = resident(pid), []
    env.profd("trigger", "--pid", pid, "--memory", "--max-events", 100_000_000, "--steps", steps, "--no-wait")
    env.wait(lambda: seen.append(resident(pid)) or env.process(pid)["state"] == "recording", 30, "the recording")
    env.wait(lambda: seen.append(resident(pid)) or env.process(pid)["state"] == "idle", 120, "its end")
    return [max(most) - was for most, was in zip(zip(*seen), before)]


def rows(env):
    with turns(env, "memory", SETUP, [("profile_memory",)], STEPS) as job:
        if not job:
            return
        taken = []
        for _ in range(ROUNDS):
            *_, plain = job.captured()
            capture, _, ours = job.captured("--memory")
            taken.append((plain, ours, enabled(env, capture), *job.profiled()))
        more = {steps: more_in_a_capture(env, job.pid, steps) for steps in MANY}
    env.daemon.kill()  # it may be at the answer to millions of events yet
    env.daemon.wait()
    env.daemon = None
    plain, ours, enable, theirs, memory = ([turn[i] for turn in taken] for i in range(5))

    def median(values):
        return statistics.median(values)

    added = median((b - a) / BLOCKS for a, b in zip(plain, ours))
    added_by_torch = median((b - a) / BLOCKS for a, b in zip(theirs, memory))
    yield ("a block taken and given back: added by --memory", added, "ns", "torch.profiler, profile_memory=True", added_by_torch,
           added / added_by_torch, 1.0)
    yield (f"a recorded step of {BLOCKS:,} blocks, --memory", median(ours) / 1e6, "ms", "torch.profiler, profile_memory=True",
           median(memory) / 1e6, median(a / b for a, b in zip(ours, memory)), 1.0)
    yield (f"a recorded step of {BLOCKS:,} blocks, --memory", median(ours) / 1e6, "ms", "without it", median(plain) / 1e6,
           median(a / b for a, b in zip(ours, plain)), None)
    yield "switching --memory on", median(enable) / 1e6, "ms", "", None, None, None
    for steps, (own, shared) in more.items():
        what = f"{2 * BLOCKS * steps / 1e6:.2g} million records"
        yield f"more memory of the job's own, {what}", own, "MiB", "promised at most", MOST_MIB, own / MOST_MIB, 1.0
        yield f"the daemon's segment in the job, {what}", shared, "MiB", "", None, None, None
