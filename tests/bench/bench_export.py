"""The export of a million operators with their inputs, from a capture that is made up: its seconds beside those of
copying, or packing, the same text, and the client's memory.
"""
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
OPERATORS = 1_000_000
ROUNDS = 3
CLIENT_BYTES = 100e6


def run(*command, output=None):
    """Seconds, and the most memory in bytes."""
    begin = time.perf_counter()
    job = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=output or subprocess.DEVNULL)
    _, status, usage = os.wait4(job.pid, 0)
    job.returncode = os.waitstatus_to_exitcode(status)
    if job.returncode != 0:
        raise RuntimeError(f"{command[0]}: {job.returncode}")
    return time.perf_counter() - begin, usage.ru_maxrss * 1024


def rows(env):
    capture, copy = env.folder / "million.db", env.folder / "copy"
    subprocess.run([sys.executable, HERE.parent / "e2e" / "make_capture.py", capture, "--operators", str(OPERATORS),
                    "--shapes"], check=True, stdout=subprocess.DEVNULL)
    plain, packed = env.folder / "million.json", env.folder / "million.json.gz"
    copying = ["dd", "bs=1M", "status=none", f"if={plain}"]
    for path, floor, command in ((plain, "a copy of it", copying), (packed, "gzip -1 of it", ["gzip", "-1c", plain])):
        suffix = "".join(path.suffixes)
        ours, floors, most = [], [], 0
        for _ in range(ROUNDS):
            seconds, memory = run(env.client, "export", capture, "--output", path, "--force")
            ours.append(seconds)
            most = max(most, memory)
            with open(copy, "wb") as file:
                floors.append(run(*command, output=file)[0])
        yield (f"export of {OPERATORS:,} operators with inputs to {suffix}", min(ours), "s", floor, min(floors),
               min(ours) / min(floors), None)
        yield (f"export with inputs to {suffix}: client's memory", most / 1e6, "MB", "promised at most",
               CLIENT_BYTES / 1e6, most / CLIENT_BYTES, 1.0)
    for path in (capture, copy, plain, packed):
        path.unlink()
