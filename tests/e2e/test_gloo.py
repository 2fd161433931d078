"""Inputs of gloo's operations, which torch runs as ranges of its own: beside torch.profiler, which knows them of a step before."""
import collections
import json

from conftest import WORKLOADS
from torch_profiler import database

RANGES = """SELECT s.text, i.dims, i.types, i.strides, i.concrete FROM ranges r JOIN strings s ON s.id = r.name
    LEFT JOIN inputs i ON i.id = r.inputs WHERE r.source = 4"""
INPUTS = "Input Dims", "Input type", "Input Strides", "Concrete Inputs"
STEPS = 3


def told_by_torch(trace):
    """{(name, inputs...): times} of its ranges."""
    events = [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "user_annotation" and e["ph"] == "X"]
    return collections.Counter((e["name"], *(json.dumps(e["args"][word]) if word in e["args"] else None for word in INPUTS)) for e in events)


def run(profd, torch, folder):
    jobs = [profd.job(torch, WORKLOADS / "gloo.py", folder / "store", folder, env={"RANK": str(rank), "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"})
            for rank in range(2)]
    for job in jobs:
        profd.wait_steps(job.pid)
    return jobs


def ranges(profd, pid, *options):
    capture = profd.trigger(pid, "--steps", STEPS, *options)
    assert capture["status"] == "complete" and capture["lost"] == 0, capture
    with database(profd, capture) as db:
        return collections.Counter(row for row in db.execute(RANGES) if row[0].startswith(("gloo:", "without")))


def test_inputs_of_ranges(profd, torch, tmp_path):
    for rank, job in enumerate(run(profd, torch, tmp_path)):
        theirs = told_by_torch(tmp_path / f"rank{rank}.json")
        ours = ranges(profd, job.pid, "--shapes")
        print(*sorted(ours), sep="\n")
        assert ours == collections.Counter({key: n * STEPS for key, n in theirs.items()})
        assert ours["gloo:all_reduce", "[[3, 5]]", '["float"]', "[[5, 1]]", '[""]'] == STEPS
        assert ours["without inputs", None, None, None, None] == STEPS
        # Not asked for: the same ranges, without.
        without = ranges(profd, job.pid)
        assert all(key[1:] == (None,) * 4 for key in without) and sum(without.values()) == sum(ours.values())
