"""The import of a million events of a recorded GPU trace, all in, beside Python's json.load alone of the same file; of a smaller one beside
HTA's loading of it, where PROFD_HTA names a python that has it; and the client's memory, also for three
million."""
import os
import pathlib
import resource
import subprocess
import sys

import kineto_trace
from bench_export import run

ROUNDS = 2
SMALLER = 150_000
LONG = 3_000_000
CLIENT_BYTES = 300e6
LOAD = "import gzip, json, sys; json.load(gzip.open(sys.argv[1], 'rt'))"
HTA = ("import sys, warnings; warnings.simplefilter('ignore'); from hta.trace_analysis import TraceAnalysis; "
       "TraceAnalysis(trace_files={0: sys.argv[1]}, include_last_profiler_step=True)")


def processor():
    """Processor seconds of all processes that were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def seconds_of(env, path, peer):
    """(seconds and processor seconds of the import, the same of the peer, most memory of the import), the least of some, one beside the other."""
    ours, theirs, most = [], [], 0
    for _ in range(ROUNDS):
        before = processor()
        took, memory = run(env.client, "import", path, "--output", env.folder / "import.db", "--force")
        between = processor()
        ours.append((took, between - before))
        most = max(most, memory)
        theirs.append((run(*peer, path)[0], processor() - between))
    return [min(seconds) for seconds in zip(*ours)], [min(seconds) for seconds in zip(*theirs)], most


def rows(env):
    path, events, _ = kineto_trace.capture(env)
    ours, theirs, most = seconds_of(env, path, [sys.executable, "-c", LOAD])
    yield f"import of {events:,} events, all in", ours[0], "s", "json.load of it", theirs[0], ours[0] / theirs[0], 1.0
    yield "processor time of that, which a busy machine changes less", ours[1], "s", "json.load's", theirs[1], ours[1] / theirs[1], 1.0
    yield "its memory", most / 1e6, "MB", "promised at most", CLIENT_BYTES / 1e6, most / CLIENT_BYTES, 1.0
    long = env.folder / "long.json.gz"
    events = kineto_trace.write(long, LONG)
    _, most = run(env.client, "import", long, "--output", env.folder / "import.db", "--force")
    long.unlink()
    yield f"memory for {events:,} events", most / 1e6, "MB", "promised at most", CLIENT_BYTES / 1e6, most / CLIENT_BYTES, 1.0
    python = os.environ.get("PROFD_HTA") or pathlib.Path(os.environ.get("PROFD_CACHE", pathlib.Path.home() / ".cache/profd")) / "hta-0.5.0/bin/python"
    if not pathlib.Path(python).exists():
        env.note("import: no python with HolisticTraceAnalysis here (PROFD_HTA); ./dev readers fetches one")
        return
    small = env.folder / "small.json.gz"
    events = kineto_trace.write(small, SMALLER)
    try:
        ours, theirs, _ = seconds_of(env, small, [python, "-c", HTA])
        yield f"import of {events:,} events, all in", ours[0], "s", "HTA's loading of it", theirs[0], ours[0] / theirs[0], 0.2
    except (RuntimeError, subprocess.SubprocessError) as error:
        env.note(f"import: HTA did not load its trace: {error}")
