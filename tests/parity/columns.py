"""What is compared of a model: a column is a function that gives profd's counts and torch.profiler's, by keys that begin with a name.

Equal is what is equal for every key. COLUMNS has them all: another one is another function, and a row there.
"""
import collections
import json

import plan
from torch_profiler import database, recorded, told_by_torch
from torch_profiler import stacks as operator_stacks

BLOCKS = [2, 15]  # the torch whose profiler gives a block to the operator that took it; 2.8 does by the time, to the microsecond: to a neighbour, now and then
OUTSIDE = "(outside of operators)"
ELEMENTWISE = ("aten::add", "aten::mul", "aten::conv2d")  # torch's flop counter has no formula, or counts what these call


class Seen:
    """What both said of a process: `captures` by stage, and the folder in which the job left what torch told."""

    def __init__(self, profd, folder, captures):
        self.profd, self.folder, self.captures = profd, folder, captures
        self.shown = profd.show(captures["both"], "--by", "operators", "--group-by-shapes")
        self.averages = self.told("both")

    def told(self, name):
        return json.loads((self.folder / name).read_text())


def without_steps(counts):
    """The ranges that torch.profiler makes of its own steps are cut by profd's, which end a little earlier."""
    return collections.Counter({key: n for key, n in counts.items() if not key[0].startswith("ProfilerStep")})


def without_lists(dims):
    """As key_averages() has them: lists of tensors have no shapes there. (The trace has them, which the column `shapes` looks at.)"""
    return str([[] if any(isinstance(size, list) for size in dim) else dim for dim in json.loads(dims or "[]")])


def calls(seen):
    """Folded, as both print them: by name and input shapes."""
    ours, theirs = collections.Counter(), collections.Counter()
    shown = collections.Counter((row["name"], row["input_shapes"]) for row in seen.shown["operators"])
    assert max(shown.values()) == 1, shown.most_common(1)
    for row in seen.shown["operators"]:
        ours[row["name"], without_lists(row["input_shapes"])] += row["calls"]
    # Ranges are printed by name alone; the capture's file has their inputs.
    ranges = {row["name"]: row["calls"] for row in seen.shown["ranges"] if row["source"] == "torch"}
    for call, n in recorded(seen.profd, seen.captures["both"]).items():
        if call.name in ranges:
            ours[call.name, without_lists(call.dims)] += n
            ranges[call.name] -= n
    assert not any(ranges.values()), ranges
    for row in seen.averages:
        theirs[row["name"], row["shapes"]] += row["calls"]
    return without_steps(ours), without_steps(theirs)


def _inputs(seen, key):
    """Every call as it was recorded."""
    both = []
    for side in (recorded(seen.profd, seen.captures["both"]), told_by_torch(seen.folder / "both-trace.json")):
        counts = collections.Counter()
        for call, n in side.items():
            counts[key(call)] += n
        both.append(without_steps(counts))
    return both


def shapes(seen):
    return _inputs(seen, lambda call: (call.name, call.dims))


def dtypes(seen):
    """Types with the scalars beside them."""
    return _inputs(seen, lambda call: (call.name, call.dims, call.types, call.concrete))


def _flops(seen, key):
    counts = collections.Counter()
    for row in seen.shown["flops"]:
        counts[key(row)] += row["total_flops"]
    return counts


def flops(seen):
    """Where torch.profiler has a formula."""
    theirs = collections.Counter()
    for row in seen.averages:
        if row["flops"]:
            theirs[row["name"], row["shapes"]] += row["flops"]
    names = {name for name, _ in theirs}
    ours = _flops(seen, lambda row: (row["name"], row["input_shapes"]))
    return collections.Counter({key: n for key, n in ours.items() if key[0] in names}), theirs


def counter(seen):
    """Where torch's flop counter has one: it counts one iteration, whose calls are those of every other one."""
    theirs = collections.Counter({(name,): n * plan.ACTIVE for name, n in seen.told(plan.FLOPS.name).items()})
    ours = _flops(seen, lambda row: (row["name"],))
    return collections.Counter({key: n for key, n in ours.items() if key[0] not in ELEMENTWISE}), theirs


def _bytes(seen, theirs_column):
    """What operators of a name took from torch's allocator, less what they gave back; {name: bytes} of rows that are no operator's besides."""
    names, counts = {row["name"] for row in seen.shown["operators"]}, (collections.Counter(), collections.Counter())
    for row in seen.averages:
        counts[row["name"] not in names][row["name"],] += row[theirs_column]
    return counts


def memory(seen):
    """With what they called."""
    if seen.told("torch") < BLOCKS:
        return collections.Counter(), collections.Counter()
    ours = {(row["name"],): row["cpu_bytes"] for row in seen.shown["operator_memory"] if row["name"] != OUTSIDE}
    return collections.Counter(ours), _bytes(seen, "bytes")[0]


def self_memory(seen):
    """torch.profiler has ranges among its rows: profd has what was taken in no operator in one."""
    if seen.told("torch") < BLOCKS:
        return collections.Counter(), collections.Counter()
    ours = collections.Counter({(row["name"],): row["self_cpu_bytes"] for row in seen.shown["operator_memory"]})
    theirs, ranges = _bytes(seen, "self_bytes")
    theirs[OUTSIDE,] = sum(ranges.values())
    return ours, theirs


def alone(seen):
    """Not torch.profiler's: the calls that profd records where torch.profiler is not at work."""
    def of(capture):
        counts = collections.Counter()
        for call, n in recorded(seen.profd, seen.captures[capture]).items():
            counts["iteration" if call.name.startswith("iteration ") else call.name, call.dims] += n
        return without_steps(counts)
    return of("alone"), of("both")


def stacks(seen):
    """Calls by the whole stack."""
    capture = seen.captures["stacks"]
    shown = seen.profd.show(capture, "--by", "operators", "--group-by-stack", 100)["operators"]
    told = seen.told("stacks")
    return operator_stacks(seen.profd, capture, told["averages"], shown, told["standing"])


COLUMNS = {"calls": calls, "shapes": shapes, "dtypes": dtypes, "flop": flops, "counter": counter, "memory": memory, "self memory": self_memory, "alone": alone, "stacks": stacks}


def differences(ours, theirs):
    """[(key, ours, theirs)] where they are not equal."""
    return [(key, ours[key], theirs[key]) for key in sorted({*ours, *theirs}) if ours[key] != theirs[key]]


def _ours(seen):
    with database(seen.profd, seen.captures["both"]) as db:
        return list(db.execute("SELECT s.text, o.start, o.duration FROM operators o JOIN strings s ON s.id = o.name ORDER BY o.start"))


def _theirs(seen):
    events = json.loads((seen.folder / "both-trace.json").read_text())["traceEvents"]
    return sorted(((event["name"], event["ts"], round(1000 * event["dur"])) for event in events if event.get("cat") == "cpu_op"), key=lambda call: call[1])


def same(seen):
    """[(name, profd's ns, torch.profiler's)] of each operator's call, which both recorded: the first of a name is the first."""
    found = collections.defaultdict(lambda: ([], []))
    for at, calls in enumerate((_ours(seen), _theirs(seen))):
        for name, _, ns in calls:
            found[name][at].append(ns)
    return [(name, *both) for name, sides in found.items() if len(sides[0]) == len(sides[1]) for both in zip(*sides)]


def times(seen):
    """{name: (profd alone, torch.profiler alone, once more)}: ns of self CPU time an iteration."""
    found = collections.defaultdict(lambda: [0, 0, 0])
    for row in seen.profd.show(seen.captures["alone"])["operators"]:
        found[row["name"]][0] += row["self_cpu_ns"] / plan.ACTIVE
    for at, window in ((1, "torch-1"), (2, "torch-2")):
        for row in seen.told(window):
            found[row["name"]][at] += row["self_ns"] / plan.ACTIVE
    return {name: row for name, row in found.items() if all(row)}
