"""Models that train under profd: which there are, and their processes."""
import json
import os
import pathlib

import house
import plan
import pytest

JOB = pathlib.Path(__file__).with_name("models.py")
RANKS = {"ddp": 2, "fsdp2": 2}
FRAMEWORKS = ["lightning", "hf", "timm"]
MODELS = ["cnn", "transformer", "lstm", "autocast", "compile", *RANKS, *FRAMEWORKS]
SECONDS = 240  # an iteration may compile


def python_for(model, short):
    """The python that runs the model; `short`: the models that a test run has time for, where PROFD_PARITY names none."""
    wanted = os.environ.get("PROFD_PARITY", " ".join(short)).split()
    if model not in wanted and wanted != ["all"]:
        pytest.skip("./dev parity looks at it")
    python = os.environ.get("PROFD_LOOPS") or (None if model in FRAMEWORKS else os.environ.get("PROFD_TORCH_NEWEST"))
    return python or pytest.skip("no python for it is set; ./dev parity sets it")


class Job:
    """models.py, a process or one for each rank, each with a folder."""

    def __init__(self, profd, python, model, *more, folder=None, agent=True):
        self.profd, self.folder = profd, folder or profd.folder / model
        count = RANKS.get(model, 1)
        self.folders = [self.folder / str(rank) for rank in range(count)]
        self.jobs = []
        for rank, folder in enumerate(self.folders):
            folder.mkdir(parents=True)
            with open(folder / "out", "w") as out:
                self.jobs.append(profd.job(python, JOB, model, folder, *more, agent=agent, stdout=out, stderr=out, env={
                    "RANK": str(rank), "WORLD_SIZE": str(count), "PROFD_JOB": model, "TORCHINDUCTOR_CACHE_DIR": str(profd.folder / "inductor")}))

    def wait(self, look, what):
        def wait():
            for job, folder in zip(self.jobs, self.folders):
                assert job.poll() in (None, 0), (folder / "out").read_text()[-3000:]
            return look()
        return house.wait_for(wait, SECONDS, what)

    def armed(self, *arguments, states=("armed", "warmup", "recording")):
        """A trigger of all ranks, which are in one of these states."""
        for job in self.jobs:
            self.profd.wait_torch(job.pid)
        gpu = [] if "--api" in arguments else ["--no-gpu"]
        client = self.profd.follow("--pid", ",".join(str(job.pid) for job in self.jobs), *gpu, *arguments)
        self.wait(lambda: client.poll() is not None or all(self.profd.process(job.pid)["state"] in states for job in self.jobs), "the agent to be armed")
        return client

    def captured(self, client):
        """What a trigger recorded, by rank: whole, and nothing lost."""
        out, err = client.communicate(timeout=2 * SECONDS)
        assert client.returncode == 0, err
        captures = {row["pid"]: row for row in json.loads(out)["captures"]}
        assert all(row["status"] == "complete" and row["steps_recorded"] == plan.ACTIVE for row in captures.values()), captures
        # A sample may be torn where its thread runs on: that is how sampling is, on a full machine above all.
        lost = [loss for row in captures.values() if row["lost"] for loss in self.profd.show(row["capture_id"])["losses"] if loss["loss"] != "torn"]
        assert not lost, lost
        return [captures[job.pid] for job in self.jobs]

    def end(self):
        for job, folder in zip(self.jobs, self.folders):
            assert job.wait(SECONDS) == 0, (folder / "out").read_text()[-3000:]
