"""What the agent costs a job that nobody triggers: profd_step(), an idle profd range, torch's Optimizer.step, memory."""
import re
import shutil
import subprocess
import time

from bench_nvtx import compile_program, run

ROUNDS = 3
SECONDS = 1.0
STEPS = 10000
# Instructions of the whole loop at commit 0509ca9, which did not tell optimizers apart: a step, and with a zero_grad before it.
STEP_INSTRUCTIONS = {"": 174, "zero": 234}


def instructions(env, program, torch, *arguments):
    """Instructions of one turn of torch_steps.c, by callgrind."""
    environment = {**env.with_agent(), "STAND_IN": str(torch), "PROFD_SOCKET": str(env.folder / "nobody.sock")}
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={env.folder / 'steps.callgrind'}",
                           "--collect-atstart=no", program, str(STEPS), *arguments], env=environment, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found or int(found[1]) < STEPS:
        raise RuntimeError(f"callgrind counted nothing: {done.stderr.strip().splitlines()[-1:]}")
    return int(found[1]) / STEPS


def optimizer_rows(env):
    if not shutil.which("valgrind"):
        env.note("valgrind is not there: no count of an Optimizer.step's instructions")
        return
    torch = compile_program(env, "torch_steps", "-DTORCH", "-shared", "-fPIC", out="libtorch_cpu.so")
    program = compile_program(env, "torch_steps", "-rdynamic", "-ldl")
    if not torch or not program:
        return
    env.note("Optimizer.step's instructions: torch and Python are stand-ins, whose own are counted, too")
    for zero, promised in STEP_INSTRUCTIONS.items():
        counted = instructions(env, program, torch, *filter(None, [zero]))
        yield (f"Optimizer.step{' and zero_grad' if zero else ''}, idle: instructions (callgrind)", counted, "", "promised at most",
               promised, counted / promised, 1.0)


def rows(env):
    program = compile_program(env, "step_pair", "-ldl")
    if not program:
        return
    environment = env.with_agent()
    runs = [run(program, environment, SECONDS) for _ in range(ROUNDS)]
    best = {key: min(r[key] for r in runs) for key in ("step_ns", "pair_ns", "clock_ns")}
    # The promise is in ns: 50 for a step.
    yield "profd_step(), idle", best["step_ns"], "ns", "promised", 50.0, best["step_ns"] / 50, 1.0
    yield "profd_step(), idle", best["step_ns"], "ns", "one clock read", best["clock_ns"], \
        best["step_ns"] / best["clock_ns"], None
    yield "profd_range_push/pop, idle", best["pair_ns"], "ns", "one clock read", best["clock_ns"], \
        best["pair_ns"] / best["clock_ns"], None

    yield from optimizer_rows(env)

    def pss(environment):
        job = subprocess.Popen([env.build / "workloads" / "steps", "--step-ms=5"], env=environment,
                               stdout=subprocess.DEVNULL)
        try:
            time.sleep(1)
            text = open(f"/proc/{job.pid}/smaps_rollup").read()
            return int(re.search(r"^Pss:\s*(\d+)", text, re.M)[1])
        finally:
            job.kill()
            job.wait()
    added = pss(environment) - pss(env.without_agent())
    yield "memory that an idle agent adds", added / 1024, "MiB", "promised", 2.0, added / 2048, 1.0
