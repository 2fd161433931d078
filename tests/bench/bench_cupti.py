"""What the cupti collector costs: a kernel's record on CUPTI's worker thread, and a launch on the thread that makes it.

Records are decoded by the agent's own code out of buffers that a unit test makes (build/tests/test_agent_cupti prints the
figures); launches are made against the simulated driver and CUPTI, so that only differences between them mean something, and
only of what happens outside of CUPTI. Figures of a real GPU are made by ./dev gpu.
"""
import json
import os
import re
import shutil
import subprocess

RECORD_NS = 150.0
LAUNCH_NS = 20.0
ROUNDS = 5
RELEASE = "12.8"


def printed(program, pattern):
    """The least of the figures that a few runs of the unit test print."""
    found = []
    for _ in range(ROUNDS):
        done = subprocess.run([program], capture_output=True, text=True, check=True)
        match = re.search(pattern, done.stdout + done.stderr)
        if match:
            found.append(float(match.group(1)))
    return min(found) if found else None


def instructions(env, program):
    """Instructions of a kernel's record from the buffer into the segment, by callgrind."""
    if not shutil.which("valgrind"):
        env.note("valgrind is not there: no count of instructions")
        return None
    out = env.folder / "callgrind.out"
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no",
                           "--toggle-collect=test_cost_of_a_record", program], capture_output=True, text=True)
    if done.returncode != 0 or not out.exists():
        env.note("callgrind could not run the unit test")
        return None
    annotated = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(out)],
                               capture_output=True, text=True, check=True)
    for line in annotated.stdout.splitlines():
        # "12,345,678 (45.0%)  agent/cupti/deliver.c:deliver_buffer [...]"
        match = re.match(r"\s*([\d,]+)\s.*[:*]deliver_buffer\b", line)
        if match:
            return int(match.group(1).replace(",", "")) / (4000 * 20)
    env.note("callgrind did not see deliver_buffer")
    return None


def flood(env, environment, figure, **more):
    done = subprocess.run([env.build / "workloads" / "cuda_flood", "--seconds=1.5"], env={**environment, **more},
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])[figure]


def flood_recording(env, environment):
    job = subprocess.Popen([env.build / "workloads" / "cuda_flood", "--seconds=3"], env=environment,
                           stdout=subprocess.PIPE, text=True)
    try:
        env.wait_registered(job.pid)
        env.profd_json("trigger", "--pid", str(job.pid), "--duration", "2500ms")
        out, _ = job.communicate(timeout=60)
    finally:
        if job.poll() is None:
            job.kill()
            job.communicate()
    # The capture covers most of its time: the median is of launches that were recorded.
    return json.loads(out.splitlines()[-1])["ns_median"]


def rows(env):
    program = env.build / "tests" / "test_agent_cupti"
    if program.exists():
        spent = printed(program, r"a kernel record [^:]*: ([\d.]+) ns")
        yield ("a kernel's record: decoded, named, written", spent, "ns", "promised at most", RECORD_NS, spent / RECORD_NS,
               1.0)
        counted = instructions(env, program)
        if counted:
            yield "a kernel's record: instructions (callgrind)", counted, "", "", None, None, None
        buffer = printed(program, r"a buffer: ([\d.]+) ns")
        yield ("a buffer handed to CUPTI, once in some 20,000 records (with a clock read)", buffer, "ns", "", None, None, None)
    simulator = env.build / "sim" / RELEASE
    if not simulator.exists():
        env.note("the simulated GPU is not built: no launches (./dev test builds it)")
        return
    more = {"LD_LIBRARY_PATH": str(simulator), "SIMCUDA": f"driver={RELEASE}"}
    bare = {"CUDA_INJECTION64_PATH": str(env.build / "workloads" / "libcupti_bare.so"),
            "CUPTI_BARE_LIBRARY": str(next(simulator.glob("libcupti.so.*"))), "CUPTI_BARE_KINDS": "10,4,5,1,22,2,38,36,17"}
    plain, idle, floor, recording = [], [], [], []
    for _ in range(ROUNDS):
        plain.append(flood(env, env.without_agent(), "ns_least", **more))
        idle.append(flood(env, env.with_agent(), "ns_least", **more))
        floor.append(flood(env, env.without_agent(), "ns_median", **more, **bare))
        recording.append(flood_recording(env, {**env.with_agent(), **more}))
    env.note("launches are simulated: driver and CUPTI are tests/sim")
    yield "a launch, agent idle (simulated)", min(idle), "ns", "without the agent", min(plain), min(idle) / min(plain), 1.1
    over = max(min(recording) - min(floor), 0.0)
    yield ("a launch, recording (simulated)", min(recording), "ns", "CUPTI alone, same kinds", min(floor),
           min(recording) / min(floor), None)
    yield "a launch, recording: more than CUPTI alone (simulated)", over, "ns", "promised at most", LAUNCH_NS, over / LAUNCH_NS, 1.0
