"""A torch operator: with the agent idle, while it records, with shapes; beside torch.profiler and the floor of an empty
callback. Steps after a capture, beside those before it, and the first ones behind the last recorded one, beside torch.profiler's stop. And the times
of operators of whole models, beside torch.profiler's of the same loop.

Runs are interleaved and the fastest batch of each counts. PROFD_TORCH_NEWEST names the python.
"""
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess

import bench_nvtx

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = 5
PROCESSES = 4
WINDOWS = 20
APART = 0.1  # ratios of medians, at most, from 1
MODELS = ("cnn", "transformer", "lstm")
# malloc keeps what it has: whether a tensor's pages are fresh must not depend on what a profiler has allocated.
STEADY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(4 << 30), "MALLOC_TOP_PAD_": str(64 << 20)}
SHARE = 0.01  # of the whole self time: names below it are not compared
# Instructions of both callbacks of an operator at commit dcb0677, and 3 % more. A count does not depend on what else the machine does.
INSTRUCTIONS = 518


def python_of(env, what):
    python = os.environ.get("PROFD_TORCH_NEWEST")
    if not python:
        env.note(f"{what}: PROFD_TORCH_NEWEST is not set: left out")
    return python


def run(python, environment, program, *arguments, timeout=600):
    done = subprocess.run([python, HERE / program, *map(str, arguments)], env={**environment, "OMP_NUM_THREADS": "1"},
                          capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError(f"{program}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def farthest(times, who):
    """Of the names with enough of the whole: how far the ratio of medians, who's to torch.profiler's, is from 1 at
    most; that ratio, whose it is, both medians; and the number of ratios."""
    median = {of: {name: [statistics.median(v[i] for v in values) for i in (0, 1)] for name, values in seen.items()}
              for of, seen in times.items()}
    whole = sum(value[0] for value in median["torch"].values())
    ratios = []
    for name, theirs in median["torch"].items():
        for i, kind in enumerate(("self", "total")):
            if theirs[i] > whole * SHARE:
                ours = median[who].get(name, [0, 0])[i]
                ratios.append((abs(ours / theirs[i] - 1), ours / theirs[i], f"{kind} of {name}", ours, theirs[i]))
    return max(ratios), len(ratios)


def instructions(env, python):
    """Instructions of both of the agent's callbacks of a recorded operator, by callgrind; None, with a note, where it cannot be had."""
    if not shutil.which("valgrind"):
        env.note("valgrind is not there: no count of an operator's instructions")
        return None
    out = env.folder / "operators.callgrind"
    # valgrind knows no more than this of the processor: torch takes its kernels from here on by the variable.
    environment = {**env.with_agent(), "ATEN_CPU_CAPABILITY": "default", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}", python,
                           HERE / "torch_instructions.py", env.client], env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(f"torch_instructions.py: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    calls = int(done.stdout.splitlines()[-1])
    annotated = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(out)], capture_output=True, text=True, check=True)
    # "12,345,678 (45.0%)  agent/torch/collector.c:record_start [...]". A function that others are inlined into has a line for each file
    # of those; the largest is the whole.
    counted = {}
    for number, name in re.findall(r"^\s*([\d,]+)\s.*[:*](record_start|record_end)\b", annotated.stdout, re.M):
        counted[name] = max(counted.get(name, 0), int(number.replace(",", "")))
    if len(counted) != 2:
        raise RuntimeError(f"callgrind saw {sorted(counted)} of the agent's callbacks, two are wanted")
    return sum(counted.values()) / calls


def afterwards(env, python):
    """Steps before and after captures, and the first ones behind the last that was recorded."""
    found = run(python, env.with_agent(), "torch_after.py", env.client, env.store)
    median = {who: {what: statistics.median(values) for what, values in seen.items()} for who, seen in found.items()}
    for who, promised in (("profd", 1.02), ("torch", None)):
        before, after = median[who]["before"], median[who]["after"]
        name = "a capture" if who == "profd" else "torch.profiler"
        yield (f"a step of torch, {len(found[who]['after'])} windows after {name}", after / 1e3, "us", "as many before", before / 1e3, after / before, promised)
    ours, theirs = (max(median[who]["first"], 0) for who in ("profd", "torch"))
    yield ("what the first 3 steps behind the last recorded one take more", ours / 1e3, "us", "torch.profiler, its stop", theirs / 1e3,
           ours / theirs if theirs else None, None)


def rows(env):
    python = python_of(env, "torch")
    if not python:
        return
    bare, idle = [], []
    for _ in range(PROCESSES):
        bare.append(run(python, env.without_agent(), "torch_pair.py", ROUNDS)["alone"])
        idle.append(run(python, env.with_agent(), "torch_pair.py", ROUNDS)["alone"])
    spread = max(bare) - min(bare)
    added = max(min(idle) - min(bare), 0.0)
    yield "torch operator, no agent", min(bare), "ns", "", None, None, None
    yield ("torch operator, agent idle: added", added, "ns", "spread of runs without it", spread,
           added / spread if spread else None, 1.0 if spread else None)

    counted = instructions(env, python)
    if counted:
        yield ("torch operator, recording: instructions (callgrind)", counted, "", "promised at most", INSTRUCTIONS, counted / INSTRUCTIONS, 1.0)

    floor = bench_nvtx.compile_program(env, "torch_floor", "-shared", "-fPIC", "-ldl")
    if floor:
        best = run(python, env.with_agent(), "torch_pair.py", ROUNDS, env.client, floor)
        alone = best["alone"]
        if best["lost"]:
            env.note(f"torch: {best['lost']} events were lost while recording")
        for way, peer, promised in (("profd", "profiler", 0.42), ("profd, shapes", "profiler, shapes", 0.42)):
            ours, theirs = best[way] - alone, best[peer] - alone
            what = "with shapes" if "shapes" in way else "recording"
            yield (f"torch operator, {what}: added", ours, "ns", "torch." + peer, theirs, ours / theirs, promised)
            if "floor" in best:
                lowest = best["floor"] - alone
                yield (f"torch operator, {what}: added", ours, "ns", "empty callback, two clock reads", lowest,
                       ours / lowest, None)
        env.note(f"torch: torch.profiler's stop costs the job {best['stop']:.0f} ns more for each operator, with "
                 f"shapes {best['stop, shapes']:.0f} ns; profd's costs it nothing")

    yield from afterwards(env, python)

    for model in MODELS:
        times = run(python, {**env.with_agent(), **STEADY}, "torch_windows.py", model, WINDOWS, env.client)
        (off, ratio, what, ours, theirs), compared = farthest(times, "profd")
        chance = farthest(times, "again")[0][0]
        yield (f"{model}: {what}, farthest of {compared} from torch.profiler's", ours / 1e3, "us",
               "torch.profiler", theirs / 1e3, ratio, None)
        # Where torch.profiler does not agree with itself, nothing can be said of who agrees with it.
        judged = chance <= APART
        bound = "promised at most" if judged else "not judged, see note;"
        yield (f"{model}: how far from 1 that is", off * 100, "%", bound, APART * 100, off / APART,
               1.0 if judged else None)
        env.note(f"{model}: torch.profiler's own windows, in turns with these, differ by up to {chance * 100:.1f} %"
                 f"{'' if judged else ': this machine is too busy to judge by'}")
