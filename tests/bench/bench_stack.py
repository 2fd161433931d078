"""What a look at the Python stacks of a process costs the processor, and how long it takes: `profd stack` beside py-spy's `dump`, over the twenty
programs of standing.py."""
import os
import pathlib
import statistics
import subprocess
import sys
import time

STANDING = pathlib.Path(__file__).resolve().parents[1] / "workloads" / "standing.py"
sys.path.insert(0, str(STANDING.parent))
from standing import PROGRAMS

TIMES = 5


def spent(command):
    """(ms of the processor, ms) of a command, the smallest of some runs: it is the same work each time."""
    figures = []
    for _ in range(TIMES):
        began = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0, command
        figures.append(((used.ru_utime + used.ru_stime) * 1000, (time.monotonic() - began) * 1000))
    return [min(column) for column in zip(*figures)]


def rows(env):
    peer = os.environ.get("PROFD_PYSPY")
    if not peer:
        env.note("py-spy is not there (PROFD_PYSPY): profd stack has no peer")
        return
    ours, theirs = [], []
    for name in PROGRAMS:
        job = subprocess.Popen([sys.executable, STANDING, name], env=env.without_agent(), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
        try:
            job.stdout.readline()
            ours.append(spent([env.client, "stack", "--pid", str(job.pid)]))
            theirs.append(spent([peer, "dump", "--pid", str(job.pid)]))
        finally:
            job.kill()
            job.communicate()
    for column, what in enumerate(("processor", "time")):
        mine, other = (statistics.median(row[column] for row in figures) for figures in (ours, theirs))
        yield f"profd stack, {len(PROGRAMS)} programs: {what}, median", mine, "ms", "py-spy dump", other, mine / other, 1.0 if column == 0 else None
