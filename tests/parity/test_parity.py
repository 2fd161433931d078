"""Calls, input shapes, types, scalars, floating point operations and stacks: equal to torch.profiler's on the same steps, or explained."""
import collections
import json
import os
import pathlib
import statistics

import plan
import pytest
from columns import COLUMNS, Seen, differences, times
from conftest import house
from known import explain, of

JOB = pathlib.Path(__file__).with_name("models.py")
RANKS = {"ddp": 2, "fsdp2": 2}
FRAMEWORKS = ["lightning", "hf"]
MODELS = ["cnn", "transformer", "lstm", "autocast", "compile", *RANKS, *FRAMEWORKS]
SHORT = ["cnn", "autocast"]  # what a test run has time for
SHOWN = 12  # names of a model: those that take longest, and all that differ
SECONDS = 240  # an iteration may compile


class Job:
    """models.py, a process or one for each rank."""

    def __init__(self, profd, python, model):
        self.profd, self.folder = profd, profd.folder / model
        count = RANKS.get(model, 1)
        self.folders = [self.folder / str(rank) for rank in range(count)]
        self.jobs = []
        for rank, folder in enumerate(self.folders):
            folder.mkdir(parents=True)
            with open(folder / "out", "w") as out:
                self.jobs.append(profd.job(python, JOB, model, folder, stdout=out, stderr=out, env={
                    "RANK": str(rank), "WORLD_SIZE": str(count), "PROFD_JOB": model, "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor")}))

    def wait(self, look, what):
        def wait():
            for job, folder in zip(self.jobs, self.folders):
                assert job.poll() in (None, 0), (folder / "out").read_text()[-3000:]
            return look()
        return house.wait_for(wait, SECONDS, what)

    def capture(self, stage):
        """The captures of this stage, by rank; they are armed while the job holds."""
        self.wait(lambda: all((folder / f"holds-{stage.name}").exists() for folder in self.folders), f"stage {stage.name}")
        for job in self.jobs:
            self.profd.wait_torch(job.pid)
        pids = ",".join(str(job.pid) for job in self.jobs)
        client = self.profd.follow("--pid", pids, "--step-range", "iteration *", "--warmup", plan.WARM - 1, "--steps", plan.ACTIVE, "--no-gpu",
                                   "--stacks=operators" if stage.stacks else "--shapes")
        self.wait(lambda: client.poll() is not None or all(self.profd.process(job.pid)["state"] != "idle" for job in self.jobs), "the agent to be armed")
        for folder in self.folders:
            (folder / f"go-{stage.name}").touch()
        out, err = client.communicate(timeout=2 * SECONDS)
        assert client.returncode == 0, err
        captures = {row["pid"]: row for row in json.loads(out)["captures"]}
        assert all(row["status"] == "complete" and row["steps_recorded"] == plan.ACTIVE and row["lost"] == 0 for row in captures.values()), captures
        return [captures[job.pid]["capture_id"] for job in self.jobs]

    def end(self):
        for job, folder in zip(self.jobs, self.folders):
            assert job.wait(SECONDS) == 0, (folder / "out").read_text()[-3000:]


def look(profd, python, model):
    """What both say of the model, by rank."""
    job = Job(profd, python, model)
    captures = {stage.name: job.capture(stage) for stage in plan.STAGES if stage.profd}
    job.end()
    return [Seen(profd, folder, {name: ids[rank] for name, ids in captures.items()}) for rank, folder in enumerate(job.folders)]


def check_steps(seen):
    """Both kept the iterations that they were to keep."""
    for stage in plan.STAGES:
        if stage.profd:
            found = [row["name"] for row in seen.profd.show(seen.captures[stage.name])["ranges"] if row["name"].startswith("iteration ")]
            assert sorted(found) == sorted(f"iteration {n}" for n in plan.kept(stage)), (stage.name, found)


def table(columns, took):
    """Lines: a name a row, of those that take longest or differ; times as ratios(). `took` is that of columns.times()."""
    names = collections.Counter({name: statistics.mean(row) for name, row in took.items()})
    apart = set()
    for ours, theirs in columns.values():
        for name in {key[0] for key in {*ours, *theirs}}:
            names[name] += 0
        apart |= {key[0] for key, _, _ in differences(ours, theirs)}
    kept = [name for at, (name, _) in enumerate(names.most_common()) if at < SHOWN or name in apart]
    rows = [["OPERATOR", *(column.upper() for column in columns), "TIME", "SPREAD"]]
    for name in kept:
        row = [name if len(name) <= 60 else name[:57] + "..."]
        for ours, theirs in columns.values():
            row.append(cell(*(collections.Counter({key: n for key, n in side.items() if key[0] == name}) for side in (ours, theirs))))
        rows.append(row + (ratios(took[name]) if name in took else ["-", "-"]))
    rows.append([f"all {len(names)}", *(cell(*both) for both in columns.values()), *ratios([sum(row[i] for row in took.values()) for i in range(3)])])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]


def cell(ours, theirs):
    """The sum of each side, or of both where they are equal; with a star where single keys are not."""
    left, right = sum(ours.values()), sum(theirs.values())
    text = f"{left} / {right}" if left != right else str(left) if left else "-"
    return text + "*" * (ours != theirs)


def ratios(row):
    """profd's time beside torch.profiler's, and the longer of two runs of torch.profiler beside the shorter."""
    ours, one, other = row
    return [f"{2 * ours / (one + other):.2f}", f"{max(one, other) / min(one, other):.2f}"]


@pytest.mark.parametrize("model", MODELS)
def test_model(profd, model, record_property):
    wanted = os.environ.get("PROFD_PARITY", " ".join(SHORT)).split()
    if model not in wanted and wanted != ["all"]:
        pytest.skip("./dev parity looks at it")
    python = os.environ.get("PROFD_LOOPS") or (None if model in FRAMEWORKS else os.environ.get("PROFD_TORCH_NEWEST"))
    if not python:
        pytest.skip("no python for it is set; ./dev parity sets it")
    unknown, occurred = [], set()
    for rank, seen in enumerate(look(profd, python, model)):
        check_steps(seen)
        columns = {name: column(seen) for name, column in COLUMNS.items()}
        found = explain(model, [(name, *row) for name, both in columns.items() for row in differences(*both)])
        lines = table(columns, times(seen))
        for known, rows in found.items():
            lines += ["", f"{len(rows)} differences, {known.column}: {known.reason}" if known else f"{len(rows)} differences, NOT EXPLAINED:"]
            lines += [f"    {column}: {' '.join(map(str, key))[:150]}: {ours} / {theirs}" for column, key, ours, theirs in rows[:None if known is None else 3]]
        record_property("parity", {"title": f"{model} {rank}" if RANKS.get(model) else model, "lines": lines})
        unknown += found.pop(None, [])
        occurred |= set(found)
        assert sum(columns["calls"][0].values()) > 100 and columns["flop"][1] and columns["stacks"][1], "nothing to compare"
    assert not unknown, f"{len(unknown)} differences without an explanation"
    gone = [known for known in of(model) if known not in occurred]
    assert not gone, f"explained, but equal: {gone}"
