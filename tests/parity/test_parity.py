"""Calls, input shapes, types, scalars, floating point operations, bytes of memory and stacks: equal to torch.profiler's on the same steps, or
explained; and times of the same calls."""
import collections
import statistics

import plan
import pytest
from columns import BLOCKS, COLUMNS, Seen, differences, same, times
from job import MODELS, RANKS, Job, python_for
from known import explain, of

SHORT = ["cnn", "autocast"]  # what a test run has time for
# Of the same calls: between the two looks at the clock a thread may lose its processor.
TORN = 0.05  # so many calls, those that are furthest apart, are not compared
AROUND = 0.95  # of the others profd's is the longer one: it looks at the clock before torch.profiler does, and behind it
POINTS = 0.02  # by which the share of a name may be off
SHOWN = 12  # names of a model: those that take longest, and all that differ


def capture(profd, job, stage):
    """The captures of this stage, by rank; its collectors are switched on while the job holds."""
    job.wait(lambda: all((folder / f"holds-{stage.name}").exists() for folder in job.folders), f"stage {stage.name}")
    client = job.armed("--step-range", "iteration *", "--warmup", plan.WARM - 1, "--steps", plan.ACTIVE, "--stacks=operators" if stage.stacks else "--shapes", *["--memory"] * stage.memory, states=["warmup"])
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


def together(calls):
    """{name: (profd's time, torch.profiler's)} of the same calls, which must be the same times; `calls` is that of columns.same()."""
    kept = sorted(calls, key=lambda call: abs(call[1] - call[2]))[:round(len(calls) * (1 - TORN))]
    around = sum(ours >= theirs for _, ours, theirs in kept) / len(kept)
    assert around >= AROUND, f"of {around:.0%} of the calls profd's time is the longer one"
    sums = collections.defaultdict(lambda: [0, 0])
    for name, *both in kept:
        sums[name] = [a + b for a, b in zip(sums[name], both)]
    whole = [sum(row[at] for row in sums.values()) for at in (0, 1)]
    apart = {name: row for name, row in sums.items() if abs(row[0] / whole[0] - row[1] / whole[1]) > POINTS}
    assert not apart, f"of {whole} ns: {apart}"
    return sums


def table(columns, took, beside):
    """Lines: a name a row, of those that take longest or differ; times as ratios(). `took` is that of columns.times(), `beside` of together()."""
    names = collections.Counter({name: statistics.mean(row) for name, row in took.items()})
    apart = set()
    for ours, theirs in columns.values():
        for name in {key[0] for key in {*ours, *theirs}}:
            names[name] += 0
        apart |= {key[0] for key, _, _ in differences(ours, theirs)}
    kept = [name for at, (name, _) in enumerate(names.most_common()) if at < SHOWN or name in apart]
    rows = [["OPERATOR", *(column.upper() for column in columns), "SAME CALLS", "TIME", "SPREAD"]]
    for name in kept:
        row = [name if len(name) <= 60 else name[:57] + "..."]
        for ours, theirs in columns.values():
            row.append(cell(*(collections.Counter({key: n for key, n in side.items() if key[0] == name}) for side in (ours, theirs))))
        row.append(f"{beside[name][0] / beside[name][1]:.2f}" if beside.get(name, (0, 0))[1] else "-")
        rows.append(row + (ratios(took[name]) if name in took else ["-", "-"]))
    rows.append([f"all {len(names)}", *(cell(*both) for both in columns.values()),
                 f"{sum(row[0] for row in beside.values()) / sum(row[1] for row in beside.values()):.2f}", *ratios([sum(row[i] for row in took.values()) for i in range(3)])])
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
        lines = table(columns, times(seen), together(same(seen)))
        for known, rows in found.items():
            lines += ["", f"{len(rows)} differences, {known.column}: {known.reason}" if known else f"{len(rows)} differences, NOT EXPLAINED:"]
            lines += [f"    {column}: {' '.join(map(str, key))[:150]}: {ours} / {theirs}" for column, key, ours, theirs in rows[:None if known is None else 3]]
        record_property("parity", {"title": f"{model} {rank}" if RANKS.get(model) else model, "lines": lines})
        unknown += found.pop(None, [])
        occurred |= set(found)
        assert columns["memory"][1] or seen.told("torch") < BLOCKS, "no bytes to compare"
        assert sum(columns["calls"][0].values()) > 100 and columns["flop"][1] and columns["stacks"][1], "nothing to compare"
    assert not unknown, f"{len(unknown)} differences without an explanation"
    gone = [known for known in of(model) if known.always and known not in occurred]
    assert not gone, f"explained, but equal: {gone}"
