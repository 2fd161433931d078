"""The segment of a real job that records, rewritten by another process of the same user while the daemon takes it in."""
import os
import pathlib
import sqlite3
import subprocess
import sys

import pytest

from conftest import BUILD, hurry, wait_for

STEPS = BUILD / "workloads" / "steps"
SCRIBBLER = """
import mmap, os, random, sys, time
noise = random.Random(int(sys.argv[1]))
print("ready", flush=True)
fd = os.open(sys.stdin.readline().strip(), os.O_RDWR)
segment = mmap.mmap(fd, os.fstat(fd).st_size)
where = {"header": (0, 8192), "table": (8192, 65536), "all": (0, len(segment) - 8)}[sys.argv[2]]
print("there", flush=True)
while True:
    for _ in range(50):
        at = noise.randrange(where[0], min(where[1], len(segment) - 8))
        segment[at:at + 8] = noise.randbytes(8)
    time.sleep(0.0002)
"""


def segment_of(pid):
    """A path to the segment that a process has, by its descriptor or its mapping; None where it has none."""
    for folder in ("fd", "map_files"):
        try:
            for entry in (pathlib.Path("/proc") / str(pid) / folder).iterdir():
                if os.readlink(entry).startswith("/memfd:profd-segment"):
                    return entry
        except OSError:
            pass
    return None


@pytest.mark.parametrize("where", ["header", "table", "all"])
def test_rewritten_by_another_process(profd, where):
    """Whatever stands there: the daemon lives and is the same, an honest job's capture is whole meanwhile, what came out of the other is a
    sound file that says how it ended, and memory does not grow with it."""
    daemon = profd.daemon.pid

    def slow():
        """A job that is not over with its steps before somebody has found its segment."""
        return profd.job(STEPS, "--step-ms=100")

    honest, mauled = profd.job(STEPS, "--step-ms=10"), slow()
    for job in (honest, mauled):
        profd.wait_steps(job.pid, 2)
    for seed in range(4):
        if mauled.poll() is not None:
            mauled = slow()
            profd.wait_steps(mauled.pid, 2)
        writer = subprocess.Popen([sys.executable, "-c", SCRIBBLER, str(seed), where], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        assert writer.stdout.readline() == "ready\n"
        follow = subprocess.Popen([str(profd.client), "trigger", "--pid", str(mauled.pid), "--steps", "100", "--timeout", "8s", "--format", "json"],
                                  env=profd.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            print(wait_for(lambda: segment_of(mauled.pid), 20, "the segment"), file=writer.stdin, flush=True)
            assert writer.stdout.readline() == "there\n"
            capture = profd.trigger(honest.pid, "--steps", 20)
            assert capture["status"] == "complete" and capture["lost"] == 0 and capture["steps_recorded"] == 20, capture
            hurry(mauled)
            out, err = follow.communicate(timeout=60)
        finally:
            writer.kill()
            writer.communicate()
        assert follow.returncode in (0, 1, 4, 5), (follow.returncode, out, err)
        assert profd.daemon.poll() is None and profd.daemon.pid == daemon
        # How the job fares whose memory it is, is its user's matter; it ends with us.
        if mauled.poll() is None:
            mauled.kill()
        mauled.communicate()
    rows = wait_for(lambda: (found := profd.json("captures")["captures"]) and all(row["status"] not in ("finishing", "recording") for row in found) and found,
                    30, "the captures to be finished")
    for row in rows:
        file = profd.file(row["capture_id"])
        if file.exists():
            with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as db:
                assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            profd.show(row["capture_id"])
        else:
            assert row["status"] == "failed" and row["reason"], row
    peak = int(next(line.split()[1] for line in open(f"/proc/{daemon}/status") if line.startswith("VmHWM"))) >> 10
    assert peak < (300 if "PROFD_DAEMON" not in os.environ else 1500), f"{peak} MiB"
