"""A recorded step of torch with Python stacks: sampled at 199 Hz (--stacks), with the stack of each operator (--stacks=operators),
and with modules too (--modules), beside one without; and torch.profiler's with_stack=True, and with_modules=True, beside its own without. All take turns on one job, so that what the machine does
beside falls on each; a figure is the median over the turns, a ratio that of the turns' ratios. And how long a thread reads its own frames, with the
oldest CPython that is here, where they lie and by copies.
"""
import pathlib
import statistics
import subprocess
import sys

from torch_turns import turns

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from pythons import PYTHONS  # noqa: E402

ROUNDS, STEPS = 8, 100
SETUP = """
model = torch.nn.Sequential(*[torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(2)])
optimizer = torch.optim.AdamW(model.parameters())
def iterate():
    model(torch.randn(4, 16, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
FRAMES = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
assert library.frames_open() == 0
def down(n):
    return down(n - 1) if n else [library.frames_ns(copies, 2000) for copies in (0, 1)]
print(*sys.version_info[:2], *down(29))
"""


def frames(env):
    """30 frames and those of the program."""
    oldest = min(PYTHONS.items(), key=lambda one: int(one[0].split(".")[1]))[1]
    done = subprocess.run([oldest, "-c", FRAMES, env.build / "tests" / "python_frames.so"], capture_output=True, text=True, check=True,
                          env=env.without_agent())
    major, minor, directly, copied = map(int, done.stdout.split())
    yield f"31 frames of CPython {major}.{minor}, read where they lie", directly, "ns", "by copies", copied, directly / copied, 0.2


def rows(env):
    yield from frames(env)
    with turns(env, "stacks", SETUP, [("with_stack",), ("with_stack", "with_modules")], STEPS) as job:
        if not job:
            return
        taken = [(*(job.captured(*options)[2] for options in ([], ["--stacks"], ["--stacks=operators"], ["--modules"])), *job.profiled())
                 for _ in range(ROUNDS)]
    plain, sampled, exact, modules, theirs, stacked, both = ([turn[i] for turn in taken] for i in range(7))

    def row(what, ours, peer, reference, promised):
        ratio = statistics.median(a / b for a, b in zip(ours, peer))
        return what, statistics.median(ours) / 1e6, "ms", reference, statistics.median(peer) / 1e6, ratio, promised

    yield row("a recorded step of torch, --stacks", sampled, plain, "without stacks", 1.015)
    yield row("a recorded step of torch, --stacks=operators", exact, plain, "without stacks", None)
    yield row("a recorded step of torch, --stacks=operators", exact, stacked, "torch.profiler, with_stack=True", 1.0)
    yield row("a recorded step of torch, --modules", modules, plain, "without stacks", None)
    yield row("a recorded step of torch, --modules", modules, both, "torch.profiler, with_stack=True, with_modules=True", None)
    yield row("a step in torch.profiler, with_stack=True", stacked, theirs, "torch.profiler, without stacks", None)
    yield row("a step in torch.profiler, with_stack=True, with_modules=True", both, theirs, "torch.profiler, without stacks", None)
