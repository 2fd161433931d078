"""A simulated GPU for a job of the tests, and what the job says it did beside what a capture of it holds.

The simulator (tests/sim) is chosen by LD_LIBRARY_PATH and told what to do by SIMCUDA; the agent is the one that ships.
"""
import collections
import json
import os
import pathlib
import signal
import sqlite3
import subprocess

import pytest

from house import BUILD

RELEASES = ["11.7", "11.8", "12.0", "12.3", "12.4", "12.6", "12.8", "13.0", "13.1", "13.2", "13.3", "13.4", "13.5"]
OLDEST, MIDDLE, NEWEST = "11.7", "12.4", "13.5"


def in_turn(words):
    """The one that the commit draws, so that all have their turn. MIDDLE where there is no commit."""
    done = subprocess.run(["git", "rev-parse", "--short=6", "HEAD"], capture_output=True, text=True, check=False, cwd=pathlib.Path(__file__).parent)
    return words[int(done.stdout, 16) % len(words)] if done.returncode == 0 else MIDDLE


def behaving():
    """Releases with which each behaviour is tried: the oldest, the newest and one that the commit draws, or PROFD_MATRIX=all or RELEASE,..."""
    wanted = os.environ.get("PROFD_MATRIX")
    if wanted == "all":
        return RELEASES
    return wanted.split(",") if wanted else [OLDEST, in_turn(RELEASES[1:-1]), NEWEST]


BEHAVING = behaving()
WORKLOAD = BUILD / "workloads" / "cuda_steps"


def environment(release, script=""):
    """Variables that put the simulated GPU of a CUDA release before the real one."""
    folder = BUILD / "sim" / release
    if not folder.exists():
        pytest.skip("the simulated GPU is not built; ./dev test fetches what it needs")
    paths = [str(folder)] + [p for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p]
    return {"LD_LIBRARY_PATH": ":".join(paths), "SIMCUDA": ",".join(filter(None, [f"driver={release}", script]))}


def start(profd, release, script="", *options, rate=200, program=WORKLOAD, steps_before=3, env=None):
    """A job on the simulated GPU, registered and stepping."""
    job = profd.job(program, f"--rate={rate}", *options, env={**environment(release, script), **(env or {})})
    profd.wait_steps(job.pid, steps_before)
    return job


def finish(job, seconds=120):
    """Ends the job as a user would; what it said of itself."""
    job.send_signal(signal.SIGTERM)
    try:
        out, err = job.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        job.kill()
        raise
    assert job.returncode == 0, f"the job ended with {job.returncode}\n{out}\n{err}"
    said = json.loads(out.strip().splitlines()[-1])
    assert said["wrong"] == 0, "copies or sets came out wrong"
    return said


def open_file(path):
    db = sqlite3.connect(f"file:{pathlib.Path(path)}?mode=ro", uri=True)
    db.row_factory = sqlite3.Row
    return db


def rows(db, sql, *values):
    return [tuple(row) for row in db.execute(sql, values)]


def launched(said):
    """{(name, stream): kernels of one step}, as the job counted them; the index of a stream becomes its id."""
    ids, steps = said["stream_ids"], said["steps"]
    counts = collections.Counter()
    for name, streams in said["by_name"].items():
        for index, count in streams.items():
            assert count % steps == 0, said
            counts[name, ids[int(index)]] += count // steps
    return counts


def losses(db):
    """{loss: {kind: count}}"""
    found = collections.defaultdict(dict)
    for kind, loss, count in rows(db, "SELECT kind, loss, count FROM losses"):
        found[loss][kind] = count
    return found


def not_before(table):
    """A condition on rows `k`. On a machine that is full, or where the device's clock is late, work of the step before the recording may
    still run when it begins: that is not too much, has no step, and is first in its stream."""
    return f"(k.step IS NOT NULL OR k.start > (SELECT min(start) FROM {table} o WHERE o.stream = k.stream AND o.step IS NOT NULL))"


def recorded(db, stream="k.stream", which="1"):
    """{step: {(mangled name, stream): kernels}}; a kernel that has no step counts under None. `stream` and `which` are SQL of a kernel k and its name s."""
    found = collections.defaultdict(collections.Counter)
    for step, name, where, count in rows(
            db, f"SELECT k.step, s.text, {stream}, count(*) FROM kernels k LEFT JOIN strings s ON s.id = k.mangled "
                f"WHERE ({which}) AND {not_before('kernels')} GROUP BY 1, 2, 3"):
        found[step][name, where] += count
    return found


def copies(db):
    """{step: {kind as CUPTI numbers it: (count, bytes)}}"""
    found = collections.defaultdict(dict)
    for step, kind, count, size in rows(db, f"SELECT step, kind, count(*), sum(bytes) FROM copies k WHERE {not_before('copies')} GROUP BY 1, 2"):
        found[step][kind] = (count, size)
    return found


# CUpti_ActivityMemcpyKind
COPY_KINDS = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "HtoH": 9, "PtoP": 10}


def launched_copies(said):
    """{kind as CUPTI numbers it: (count, bytes)} of one step, as the job counted them."""
    return {COPY_KINDS[kind]: (c["count"], c["bytes"]) for kind, c in said["per_step"]["copies"].items() if c["count"]}


def check_exact(db, said, steps):
    """Every kernel, copy and set that was launched in an active step is there, and no other."""
    want = launched(said)
    got = recorded(db)
    assert set(got) == set(range(1, steps + 1)), dict(got)
    for step in range(1, steps + 1):
        assert got[step] == want, f"step {step}: {got[step] - want} too many, {want - got[step]} missing"
    per_step = said["per_step"]
    want_copies = launched_copies(said)
    got_copies = copies(db)
    for step in range(1, steps + 1):
        assert got_copies[step] == want_copies, step
    assert None not in got_copies, got_copies
    got_sets = dict((step, (count, size)) for step, count, size in
                    rows(db, f"SELECT step, count(*), sum(bytes) FROM sets k WHERE {not_before('sets')} GROUP BY 1"))
    if per_step["sets"]["count"]:
        want_sets = (per_step["sets"]["count"], per_step["sets"]["bytes"])
        assert got_sets == {step: want_sets for step in range(1, steps + 1)}, got_sets
    else:
        assert not got_sets


class Matrix:
    """What became of each layout and behaviour, for the summary at the end of the run."""

    def __init__(self, put):
        self.put = put

    @staticmethod
    def lines(cells):
        """The table's lines, of cells as (behaviour, release, text)."""
        cells = {(behaviour, release): text for behaviour, release, text in cells}
        behaviours = sorted({b for b, _ in cells})
        releases = [r for r in RELEASES if any(r == release for _, release in cells)]
        if not releases:
            return
        width = max(len(b) for b in behaviours)
        yield " " * width + "".join(f"{r:>10}" for r in releases)
        for behaviour in behaviours:
            yield f"{behaviour:<{width}}" + "".join(f"{cells.get((behaviour, r), ''):>10}" for r in releases)
