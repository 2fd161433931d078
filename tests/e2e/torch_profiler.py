"""What torch.profiler and what profd say of the same steps, in one form, so that the two can be compared."""
import collections
import json
import re
import sqlite3

Call = collections.namedtuple("Call", "name dims types concrete")


def database(profd, capture):
    """The capture's file; of a capture as `trigger` answers it, or of its id."""
    capture_id = capture if isinstance(capture, str) else capture["capture_id"]
    return sqlite3.connect(f"file:{profd.file(capture_id)}?mode=ro", uri=True)


def recorded(profd, capture):
    """Counts of the capture's raw operators and of torch's ranges, with their inputs."""
    calls = """SELECT s.text, i.dims, i.types, i.concrete FROM {} c LEFT JOIN strings s ON s.id = c.name LEFT JOIN inputs i ON i.id = c.inputs"""
    with database(profd, capture) as db:
        rows = [*db.execute(calls.format("operators")), *db.execute(calls.format("ranges") + " WHERE c.source = 4")]
    return collections.Counter(Call(*(value or "" for value in row)) for row in rows)


def told_by_torch(trace):
    """The same of a trace that torch's profiler has written."""
    def text(value):
        return "" if value is None else json.dumps(value)
    calls = collections.Counter()
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event.get("ph") == "X" and event["cat"] in ("cpu_op", "user_annotation"):
            more = event.get("args", {})
            calls[Call(event["name"], text(more.get("Input Dims")), text(more.get("Input type")),
                       text(more.get("Concrete Inputs")))] += 1
    return calls


def by_name(counts):
    """The sums of counts whose keys begin with a name."""
    names = collections.Counter()
    for key, n in counts.items():
        names[key[0]] += n
    return names


# ---------------------------------------------------------------- stacks

# Operators in nodes of which the first operator with the node's number has another stack than the last.
MOVED = """WITH f AS (SELECT sequence, t.torch_id AS number, stack, start FROM operators o JOIN threads t ON t.thread = o.thread
    WHERE o.scope <> 1 AND o.sequence >= 0 AND o.stack IS NOT NULL AND o.backward IS NULL),
    ends AS (SELECT a.sequence, a.number, a.stack AS first, b.stack AS last FROM (SELECT *, min(start) FROM f GROUP BY sequence, number) a
    JOIN (SELECT *, max(start) FROM f GROUP BY sequence, number) b ON a.sequence = b.sequence AND a.number = b.number WHERE a.stack <> b.stack),
    nodes AS (SELECT o.id FROM operators o JOIN ends ON ends.sequence = o.sequence AND ends.number = o.forward_thread WHERE o.scope = 1)
    SELECT s.text, count(*) FROM operators o JOIN nodes n ON n.id = o.backward JOIN strings s ON s.id = o.name GROUP BY 1"""


FIRST, LAST = ("the stack of the first operator with the node's number",), ("the stack of the last operator with the node's number",)


def is_pythons(frame):
    """torch.profiler has C functions among the frames, and modules in the place of Module._wrapped_call_impl. It leaves out two functions of
    torch.autograd (_filter_stack_entry)."""
    file, function = re.fullmatch(r"(.*)\(\d+\): (.*)", frame).groups() if "): " in frame else ("", frame)
    return bool(file) and function != "_wrapped_call_impl" and not ("autograd/__init__" in file and ("_make_grads" in function or "backward" in function))


def shortened(frame):
    """torch.profiler writes paths from the folders of sys.path on: files by their names alone."""
    return frame.rsplit("/torch/", 1)[-1].rsplit("/", 1)[-1]


def plain(frames, standing):
    """What both have. `standing`: (file's name, function) of callers that stood, and of generators that waited, when torch.profiler began: there
    it has the line at which they went on, and not that of the function's beginning, so they have none here."""
    kept = []
    for frame in map(shortened, filter(is_pythons, frames)):
        file, function = re.fullmatch(r"(.*)\(\d+\): (.*)", frame).groups()
        kept.append(f"{file}: {function}" if (file, function) in standing else frame)
    return tuple(kept)


def is_operator(name):
    """Rows of key_averages() with stacks that are operators, or autograd's own."""
    return name[:4] in ("aten", "auto") or "Back" in name


def stacks(profd, capture, told, operators, standing):
    """Calls by (name, stack), profd's and torch.profiler's: `operators` as show --group-by-stack has them, `told` as [name, calls, stack] of
    key_averages(group_by_stack_n), `standing` as plain() takes it. In the backward torch.profiler takes the stack of the first operator that has the node's number; the last
    one made the node. Calls for which that explains it have FIRST and LAST in the stack's place."""
    ours, theirs, standing = collections.Counter(), collections.Counter(), set(map(tuple, standing))
    for row in operators:
        if is_operator(row["name"]):
            ours[row["name"], plain(row["stack"].split("; "), standing)] += row["calls"]
    for name, calls, frames in told:
        if is_operator(name):
            theirs[name, plain(frames, standing)] += calls
    with database(profd, capture) as db:
        moved = dict(db.execute(MOVED))
    apart = by_name(ours - theirs), by_name(theirs - ours)
    for name, calls in apart[0].items():
        if calls == apart[1][name] <= moved.get(name, 0):
            for key in {key for key in {*ours, *theirs} if key[0] == name and ours[key] != theirs[key]}:
                ours[key] = theirs[key] = min(ours[key], theirs[key])
            ours[name, LAST], theirs[name, FIRST] = calls, calls
    return ours, theirs
