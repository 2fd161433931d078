"""Models train to the same last bit under captures with every option, and without profd."""
import json
import time

import plan
import pytest
from job import MODELS, RANKS, SECONDS, Job, python_for

CAPTURES = 20
OPTIONS = ["--shapes", "--stacks=operators", "--stacks-rate", "997", "--modules", "--memory", "--api", "all"]


class Pace:
    """How many iterations may begin, and which is the last one; 0: not known yet."""

    def __init__(self, folder):
        folder.mkdir()
        self.folder, self.allowed = folder, 0

    def set(self, allowed, last=0):
        self.allowed = allowed
        (self.folder / "part").write_text(f"{allowed} {last}")
        (self.folder / "part").rename(self.folder / "pace")


def ends(job):
    job.end()
    return [json.loads((folder / "end").read_text()) for folder in job.folders]


def watched(profd, python, model):
    """How many iterations there were, and what came of them."""
    pace = Pace(profd.folder / "watched")
    pace.set(plan.UNWATCHED)
    job = Job(profd, python, model, "paced", folder=pace.folder)
    for process in job.jobs:
        profd.wait_steps(process.pid, 2, SECONDS)
    for _ in range(CAPTURES):
        client = job.armed("--steps", plan.ACTIVE, *OPTIONS)
        while client.poll() is None:
            if all(json.loads((folder / "begins").read_text()) > pace.allowed for folder in job.folders):
                pace.set(pace.allowed + 1)
            time.sleep(0.03)
        assert all(row["events"] > 100 for row in job.captured(client))
    pace.set(pace.allowed + 1, pace.allowed + 1)
    return pace.allowed, ends(job)


@pytest.mark.parametrize("model", MODELS)
def test_unharmed(profd, model, record_property):
    python = python_for(model, [])
    iterations, under_captures = watched(profd, python, model)
    pace = Pace(profd.folder / "alone")
    pace.set(iterations, iterations)
    alone = ends(Job(profd, python, model, "paced", folder=pace.folder, agent=False))
    assert all(len(end) >= 3 and " 0 " not in end[2] for end in alone), alone
    assert under_captures == alone
    record_property("unharmed", f"{model}: {iterations} iterations{', 2 ranks' * (model in RANKS)}, the same bits with {CAPTURES} captures ({' '.join(OPTIONS)}) and without")
