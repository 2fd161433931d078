"""The daemon's own figures: from a trigger to armed agents, from the last step to the summary, and what it costs idle.

The client here speaks the socket itself: what `profd` adds is a process start. Run it on an idle core.
"""
import json
import os
import pathlib
import socket
import statistics
import subprocess
import time

TRIGGERS = 100
CAPTURES = 10
AGENTS = 100
IDLE_SECONDS = 10
FIELDS = {"wait_for": 0, "at_step": 0, "duration": 0, "step_range": "", "step_operator": "", "collectors": ["steps", "nvtx"],
          "label": "", "timeout": 20 * 10**9, "max_events": 0, "max_bytes": 0,
          "schedule": {"skip_first": 0, "wait": 0, "warmup": 1, "active": 3, "repeat": 1}}


class Client:
    """One connection."""

    def __init__(self, env):
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.connect(str(env.socket))
        self.connection.settimeout(20)

    def rows(self, op, **more):
        self.connection.send(json.dumps({"op": op, "major": 1, "minor": 0, **more}).encode())
        while True:
            row = json.loads(self.connection.recv(70000))
            if "error" in row:
                raise RuntimeError(f"{op}: {row['error']['message']}")
            yield row
            if row.get("end"):
                return

    def close(self):
        self.connection.close()


def ask(env, op, **more):
    client = Client(env)
    try:
        return list(client.rows(op, **more))
    finally:
        client.close()


def start(env, *arguments):
    return subprocess.Popen([env.build / "workloads" / "steps", *arguments], env=env.with_agent(), stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL)


def stop(jobs):
    for job in jobs:
        job.kill()
    for job in jobs:
        job.wait()


def state(env, pid):
    return ask(env, "ps", pid=pid)[0]["state"]


def wait_idle(env, pid):
    env.wait(lambda: state(env, pid) == "idle" and ask(env, "status")[0]["running"] == 0, 20, "the agent to be idle")


def to_armed(env, pid):
    """us from connect() to the row that says armed."""
    began = time.perf_counter_ns()
    client = Client(env)
    replies = client.rows("trigger", targets={"pids": [pid]}, follow=False, **FIELDS)
    row = next(replies)
    ended = time.perf_counter_ns()
    if row.get("outcome") != "armed":
        raise RuntimeError(f"not armed: {row}")
    list(replies)
    client.close()
    ask(env, "cancel", pid=pid)
    wait_idle(env, pid)
    time.sleep(0.02)
    return (ended - began) / 1e3


def to_summary(env, pid):
    """ms from the last boundary until the summary is stored."""
    client = Client(env)
    replies = list(client.rows("trigger", targets={"pids": [pid]}, follow=True, **FIELDS))
    client.close()
    captured = next(row for row in replies if row.get("row") == "captured")
    if captured["status"] != "complete":
        raise RuntimeError(f"capture {captured['capture_id']}: {captured['reason']}")
    return ask(env, "summary", capture_id=captured["capture_id"])[0]["derive_ns"] / 1e6


def switches(pid):
    """Voluntary context switches of all threads: how often it woke."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no RSS")


def rows(env):
    env.start_daemon()
    job = start(env, "--step-ms=20")
    try:
        env.wait_registered(job.pid)
        env.wait(lambda: ask(env, "ps", pid=job.pid)[0]["step"] >= 3, 20, "three steps")
        to_armed(env, job.pid)
        times = [to_armed(env, job.pid) for _ in range(TRIGGERS)]
        median = statistics.median(times)
        yield (f"trigger to armed, median of {TRIGGERS}", median, "us", "promise", 1000, median / 1000, 1.0)
        yield ("trigger to armed, fastest", min(times), "us", None, None, None, None)
        wait_idle(env, job.pid)
        summaries = [to_summary(env, job.pid) for _ in range(CAPTURES)]
        yield (f"last step to summary, 3 small steps, median of {CAPTURES}", statistics.median(summaries), "ms", None, None,
               None, None)
    finally:
        stop([job])

    alone = resident(env.daemon.pid)
    yield ("RSS of the daemon after this", alone, "MiB", None, None, None, None)
    jobs = []
    try:
        for _ in range(AGENTS):
            jobs.append(start(env, "--step-ms=1000"))
        env.wait(lambda: ask(env, "status")[0]["processes"] >= AGENTS, 60, f"{AGENTS} agents")
        time.sleep(2)
        full = resident(env.daemon.pid)
        yield (f"RSS of the daemon with {AGENTS} idle agents", full, "MiB", None, None, None, None)
        # A promise of none has no ratio; one is as good as missed.
        before = switches(env.daemon.pid)
        time.sleep(IDLE_SECONDS)
        woke = switches(env.daemon.pid) - before
        yield (f"wakeups of the idle daemon in {IDLE_SECONDS} s", woke, "", "promise", 0, woke, 0)
    finally:
        stop(jobs)
