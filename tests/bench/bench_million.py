"""A capture of a million torch operators: from the last step to the summary on the terminal, and its export; beside
what torch.profiler takes.

torch.profiler is measured on fewer operators and scaled: its time is proportional to them or worse. PROFD_TORCH_NEWEST
names the python.
"""
import json
import os
import pathlib
import subprocess
import time

import bench_torch

HERE = pathlib.Path(__file__).resolve().parent
OPERATORS = 1_000_000
SMALLER = 100_000
EXPORTS = 3  # of each kind, and of torch's; the fastest counts
SUMMARY_SECONDS = 2.0
CLIENT_BYTES = 100e6


def record(env, python):
    """Seconds from the end of the last step to the end of `profd trigger`, and the capture."""
    job = subprocess.Popen([python, HERE / "torch_million.py", str(OPERATORS)], env=env.with_agent(), text=True,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        job.stdout.readline()
        env.wait_registered(job.pid)
        client = subprocess.Popen([env.client, "trigger", "--pid", str(job.pid), "--steps", "3"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                  env={**env.without_agent(), "PROFD_SOCKET": str(env.socket), "NO_COLOR": "1"})
        # Steps of next to nothing until it records, so that none of the three large ones is warm-up.
        deadline = time.monotonic() + 20
        while env.process(job.pid)["state"] != "recording":
            if time.monotonic() > deadline:
                raise RuntimeError("no recording began")
            job.stdin.write("step\n")
            job.stdin.flush()
            time.sleep(0.05)
        job.stdin.write("go\n")
        job.stdin.flush()
        ended = int(job.stdout.readline())
        summary, _ = client.communicate(timeout=120)
        seconds = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - ended) / 1e9
    finally:
        job.kill()
        job.communicate()
    if client.returncode != 0 or "aten::add" not in summary:
        raise RuntimeError(f"profd trigger: {client.returncode}, no summary")
    return seconds, env.profd_json("captures")["captures"][0]


def export(env, capture, path):
    """Seconds that the export takes, the fastest of some, and the most memory that the client had."""
    best, most = [], 0
    for _ in range(EXPORTS):
        from_s = time.perf_counter()
        client = subprocess.Popen([env.client, "export", capture["capture_id"], "--force", "--output", path],
                                  env={**env.without_agent(), "PROFD_SOCKET": str(env.socket)},
                                  stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(client.pid, 0)
        best.append(time.perf_counter() - from_s)
        most = max(most, usage.ru_maxrss * 1024)
        client.returncode = os.waitstatus_to_exitcode(status)
        if client.returncode != 0:
            raise RuntimeError(f"profd export: {client.returncode}")
    return min(best), most


def rows(env):
    python = bench_torch.python_of(env, "million")
    if not python:
        return
    seconds, capture = record(env, python)
    calls = {row["name"]: row["calls"] for row in env.profd_json("show", capture["capture_id"])["operators"]}
    if capture["status"] != "complete" or calls.get("aten::add", 0) + capture["lost"] != OPERATORS:
        raise RuntimeError(f"the capture is {capture['status']} and shows {calls.get('aten::add')} calls of aten::add")
    yield (f"{OPERATORS:,} operators: last step to summary", seconds, "s", "promised at most", SUMMARY_SECONDS,
           seconds / SUMMARY_SECONDS, 1.0)
    yield f"{OPERATORS:,} operators: lost", capture["lost"], "events", "", None, capture["lost"], 0.0

    theirs = bench_torch.run(python, env.without_agent(), "torch_million.py", SMALLER, env.folder / "torch", EXPORTS)
    scale = capture["events"] / theirs["events"]
    peer = (theirs["stop"] + theirs["averages"]) * scale
    env.note(f"million: torch.profiler was timed with {theirs['events']:,} operators and scaled by {scale:.1f}")
    yield (f"{OPERATORS:,} operators: last step to summary", seconds, "s", "torch's stop + key_averages", peer,
           seconds / peer, None)
    for suffix, key, promised in ((".json", "export", 1.0), (".json.gz", "export_gz", 0.2)):
        path = env.folder / ("profd" + suffix)
        took, most = export(env, capture, path)
        yield (f"export of it to {suffix}", took, "s", "torch's export_chrome_trace", theirs[key] * scale,
               took / (theirs[key] * scale), promised)
        yield (f"export of it to {suffix}: client's memory", most / 1e6, "MB", "promised at most", CLIENT_BYTES / 1e6,
               most / CLIENT_BYTES, 1.0)
        path.unlink()
