"""Calls, input shapes, types, scalars, floating point operations and stacks: equal to torch.profiler's on the same steps, or explained."""
import collections
import statistics

import plan
import pytest
from columns import COLUMNS, Seen, differences, times
from job import MODELS, RANKS, Job, python_for
from known import explain, of

SHORT = ["cnn", "autocast"]  # what a test run has time for
SHOWN = 12  # names of a model: those that take longest, and all that differ


def capture(profd, job, stage):
    """The captures of this stage, by rank; its collectors are switched on while the job holds."""
    job.wait(lambda: all((folder / f"holds-{stage.name}").exists() for folder in job.folders), f"stage {stage.name}")
    client = job.armed("--step-range", "iteration *", "--warmup", plan.WARM - 1, "--steps", plan.ACTIVE, "--stacks=operators" if stage.stacks else "--shapes", states=["warmup"])
    for folder in job.folders:
        (folder / f"go-{stage.name}").touch()
    return [row["capture_id"] for row in job.captured(client)]


def look(profd, python, model):
    """What both say of the model, by rank."""
    job = Job(profd, python, model)
    captures = {stage.name: capture(profd, job, stage) for stage in plan.STAGES if stage.profd}
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
    python = python_for(model, SHORT)
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
