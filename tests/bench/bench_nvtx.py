"""An NVTX push and pop: without the agent, with it idle, while it records; beside LTTng-UST's pair of tracepoints.

Runs are interleaved and the fastest batch of each counts: what the machine does beside must not decide.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = 3
SECONDS = 2.0


def compile_program(env, name, *flags, out=None):
    """Builds HERE/name.c into the bench's own folder, as `out`; None where the compiler or a library is missing."""
    out = env.folder / (out or name)
    command = [os.environ.get("CC", "cc"), "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-I", str(HERE), str(HERE / f"{name}.c"),
               "-o", str(out), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        env.note(f"{name}: {done.stderr.strip().splitlines()[0] if done.stderr.strip() else 'does not build'}")
        return None
    return out


def run(program, environment, seconds=SECONDS):
    done = subprocess.run([program, str(seconds)], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def run_recording(env, program, seconds=SECONDS):
    """The program under the agent, with a capture of a window of time in its middle. Its figures, and the capture."""
    job = subprocess.Popen([program, str(seconds + 1.0)], env=env.with_agent(), stdout=subprocess.PIPE, text=True)
    try:
        env.wait_registered(job.pid)
        answer = env.profd_json("trigger", "--pid", str(job.pid), "--duration", f"{int(seconds * 500)}ms")
        out, _ = job.communicate(timeout=60)
    finally:
        if job.poll() is None:
            job.kill()
            job.communicate()
    return json.loads(out), answer["captures"][0]


class Lttng:
    """A session daemon of our own, and one session that takes the bench's events and drops what does not fit."""

    def __init__(self, env):
        self.home = env.folder / "lttng"
        self.home.mkdir()
        self.environment = {**os.environ, "LTTNG_HOME": str(self.home), "HOME": str(self.home)}
        self.session = f"profd-bench-{os.getpid()}"
        self.daemon = None

    def lttng(self, *arguments):
        return subprocess.run(["lttng", *arguments], env=self.environment, capture_output=True, text=True)

    def __enter__(self):
        # A root session daemon that runs already serves as well; ours is then refused and ends by itself.
        self.daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], env=self.environment, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while self.lttng("--no-sessiond", "list").returncode != 0:
            if time.monotonic() > deadline:
                raise RuntimeError("lttng-sessiond does not answer")
            time.sleep(0.1)
        for arguments in (("create", self.session, "-o", str(self.home / "trace")),
                          ("enable-channel", "-u", "-s", self.session, "--discard", "--subbuf-size=8M", "--num-subbuf=4",
                           "bench"),
                          ("enable-event", "-u", "-s", self.session, "-c", "bench", "profd_bench:*"),
                          ("start", self.session)):
            done = self.lttng("--no-sessiond", *arguments)
            if done.returncode != 0:
                raise RuntimeError(f"lttng {arguments[0]}: {done.stderr.strip()}")
        return self

    def __exit__(self, *_):
        self.lttng("--no-sessiond", "destroy", self.session)
        if self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(10)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()


def best(values):
    values = [v for v in values if v]
    return min(values) if values else None


def rows(env):
    include = env.nvtx_include()
    if not include:
        env.note("nvtx: PROFD_NVTX_INCLUDE is not set and there is no nvtx3/ in the compiler's path: left out")
        return
    pair = compile_program(env, "nvtx_pair", "-isystem", include, "-ldl")
    if not pair:
        return
    tracepoints = None
    if shutil.which("lttng") and shutil.which("lttng-sessiond"):
        tracepoints = compile_program(env, "lttng_pair", "-llttng-ust", "-ldl")
    else:
        env.note("nvtx: lttng-tools is not installed: no comparison with LTTng-UST")
    bare, idle, recording, floor, lttng, lost = [], [], [], [], [], 0
    for _ in range(ROUNDS):
        plain = run(pair, env.without_agent())
        bare.append(plain["idle_ns"])
        floor.append(plain["floor_ns"])
        idle.append(run(pair, env.with_agent())["idle_ns"])
        figures, capture = run_recording(env, pair)
        recording.append(figures["recording_ns"])
        lost += capture["lost"]
        if tracepoints:
            with Lttng(env) as session:
                figures = run(tracepoints, session.environment)
            shutil.rmtree(session.home, ignore_errors=True)
            if figures["enabled"]:
                lttng.append(figures["ns"])
    bare, idle, recording, floor, lttng = map(best, (bare, idle, recording, floor, lttng))
    if lost:
        env.note(f"nvtx: {lost} events were lost while recording: its figure is of a full segment")
    if not recording:
        env.note("nvtx: no batch was recorded")
    yield "NVTX pair, no agent", bare, "ns", "", None, None, None
    # Promised as a difference: within 1 ns.
    yield "NVTX pair, agent idle: added", max(idle - bare, 0.0), "ns", "promised at most", 1.0, max(idle - bare, 0.0), 1.0
    if recording:
        yield ("NVTX pair, recording", recording, "ns", "two clock reads and stores", floor, recording / floor, None)
        if lttng:
            yield "NVTX pair, recording", recording, "ns", "LTTng-UST pair", lttng, recording / lttng, 0.40
