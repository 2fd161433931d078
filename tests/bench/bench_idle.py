"""What the agent costs a job that nobody triggers: profd_step(), an idle profd range, memory."""
import re
import subprocess
import time

from bench_nvtx import compile_program, run

ROUNDS = 3
SECONDS = 1.0


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
