"""What is added up of torch's blocks (store/derive_memory.c), beside a slow, plain reckoning of the same records: random traces with several
devices, operators in operators, operators that call only themselves, blocks from before, blocks that stay."""
import collections
import json
import random
import sqlite3

import pytest

from test_import import run

OPERATORS = ["aten::a", "aten::b", "aten::to", "autograd::engine::evaluate_function: X"]
RANGES = ["Optimizer.step#A.step", "Optimizer.zero_grad#A.zero_grad", "enumerate(DataLoader)#X.__next__", "forward"]
TEXT = "(SELECT text FROM strings WHERE id = name)"
LOADER = "enumerate(DataLoader)#"


def trace(seed):
    """Kineto's events: one thread, whose operators hold blocks of a CPU and of two GPUs; the second GPU tells totals."""
    chance = random.Random(seed)
    events, live, total = [], [], 10**6

    def memory(at):
        nonlocal total
        device = chance.choice([(0, -1), (1, 0), (1, 1)])
        size = chance.randrange(1, 4096)
        address = chance.randrange(1, 40) << 9 if chance.random() < .3 else chance.randrange(1, 10**6) << 9
        if chance.random() < .45:
            device, address, size = live.pop(chance.randrange(len(live))) if live and chance.random() < .9 else (device, address, size)
            size = -size
        else:
            live.append((device, address, size))
        arguments = {"Device Type": device[0], "Device Id": device[1], "Bytes": size, "Addr": address}
        if device == (1, 1):
            total += size
            arguments |= {"Total Allocated": total, "Total Reserved": total + 4096}
        events.append(dict(ph="i", s="t", name="[memory]", pid=5, tid=5, ts=at, args=arguments))

    def call(at, end, depth, name=None):
        range_ = name is None and chance.random() < .2
        name = name or chance.choice(RANGES if range_ else OPERATORS)
        events.append(dict(ph="X", cat="user_annotation" if range_ else "cpu_op", name=name, pid=5, tid=5, ts=at, dur=end - at, args={}))
        if not range_ and depth < 6 and end - at > 6 and chance.random() < .3:
            call(at + 1, end - 1, depth + 1, name)
            return
        inside(at + 1, end - 1, depth + 1)

    def inside(at, end, depth):
        while at + 4 < end:
            if depth < 6 and chance.random() < .4:
                until = min(end, at + chance.randrange(4, 60))
                call(at, until, depth)
                at = until + 1
            else:
                memory(at + .5)
                at += chance.randrange(1, 5)

    for step in range(chance.choice([2, 4, 8])):
        begin = 1000 + step * 500
        events.append(dict(ph="X", cat="user_annotation", name=f"ProfilerStep#{step}", pid=5, tid=5, ts=begin, dur=480, args={}))
        inside(begin + 1, begin + 479, 0)
    return {"traceEvents": events}


class Reckoning:
    def __init__(self, db):
        self.calls, children = {}, collections.Counter()
        self.names = dict(db.execute("SELECT id, text FROM strings"))
        self.at = collections.defaultdict(list)
        for table, more in (("operators", f"name, scope = 1 OR {TEXT} GLOB 'autograd::engine::evaluate_function: *', NULL"),
                            ("ranges", f"NULL, 0, {TEXT}")):
            for id, parent, thread, step, stack, name, backward, text, start, duration in db.execute(
                    f"SELECT id, parent, thread, step, {'stack' if table == 'operators' else 'NULL'}, {more}, start, duration FROM {table}"):
                text = text or ""
                phase = ("backward" if backward else "optimizer" if text.startswith("Optimizer.step#") else
                         "input" if text.startswith(LOADER) else None)
                self.at["backward"] += [start] * backward
                self.at["read"] += [start] * text.startswith("Optimizer.")
                self.at[phase, "ends"].append(start + duration)
                self.calls[id] = (parent, thread, step, stack, name, phase)
                children[parent] += 1
        self.children = children
        self.records = list(db.execute("SELECT time, step, parent, device_type, device, operation = 1, known, iif(operation = 1, bytes, -bytes), "
                                       "total, reserved, address FROM framework_allocations ORDER BY time, rowid"))
        self.last, = db.execute("SELECT max(step) FROM steps").fetchone()
        self.at["steps"] = [end for end, in db.execute("SELECT start + duration FROM steps")]
        self.until = {}
        seen = {}
        for i, record in enumerate(self.records):
            place = record[3], record[4], record[10]
            if place in seen:
                self.until[seen[place]] = record[0]
            seen[place] = i

    def around(self, call):
        while call in self.calls:
            yield call
            call = self.calls[call][0]

    def owner(self, call):
        return next((c for c in self.around(call) if self.calls[c][4] is not None), None)

    def folded(self, call):
        parent, thread, *_, name, _ = self.calls[call]
        other = self.calls.get(parent)
        return bool(other and name is not None and other[4] == name and other[1] == thread and self.children[parent] == 1)

    def totals(self):
        sums = collections.defaultdict(lambda: [0] * 8)
        for _, step, parent, kind, _, taken, _, bytes_, *_ in self.records:
            owner = self.owner(parent)
            row = sums[self.calls[owner][4] if owner else None, step]
            row[0 if taken else 2] += 1
            row[1] += bytes_ if taken else 0
            row[6 if kind else 4] += bytes_
            if not owner:
                row[7 if kind else 5] += bytes_
            for call in self.around(parent):
                if self.calls[call][4] is not None and not self.folded(call):
                    sums[self.calls[call][4], self.calls[call][2]][7 if kind else 5] += bytes_
        # Where what was taken and given back is the same, there is a row all the same.
        return {(*key, *row) for key, row in sums.items()}

    def steps(self):
        held, rows = collections.Counter(), {}
        for time, step, _, kind, device, taken, known, bytes_, total, reserved, _ in self.records:
            held[kind, device] += bytes_
            now = total if known & 2 else held[kind, device]
            row = rows.setdefault((step, kind, device), [0, 0, 0, 0, 0, 0, 0, None, None, None, None])
            row[0] |= known >> 1 & 1
            row[1 if taken else 3] += 1
            row[2 if taken else 4] += abs(bytes_)
            row[6] = now
            most = max(now, now - bytes_)
            if row[7] is None or most > row[7]:
                row[7], row[8], row[10] = most, time - (now < most), reserved if known & 2 else None
            if known & 2:
                row[9] = max(reserved, row[9] or 0)
        return {(*key, *row) for key, row in rows.items()}

    def holders(self, steps):
        rows, peaks = collections.defaultdict(lambda: [0, 0]), {}
        for row in sorted(steps, key=lambda row: (row[0] or 0, row[1:3])):
            if row[1:3] not in peaks or row[10] > peaks[row[1:3]][0]:
                peaks[row[1:3]] = row[10], row[11], row[3]
        for i, (time, step, parent, kind, device, taken, _, bytes_, *_) in enumerate(self.records):
            if taken and time <= peaks[kind, device][1] < self.until.get(i, 1 << 62):
                row = rows[(kind, device, *self.holder(parent), step, self.use(parent, time, self.until.get(i)))]
                row[0] += 1
                row[1] += bytes_
        found = {(*key[:-1], *row, key[-1]) for key, row in rows.items()}
        for (kind, device), (peak, _, absolute) in peaks.items():
            if absolute:
                found.add((kind, device, None, None, None, None, 0, peak - sum(r[7] for r in found if r[:2] == (kind, device)), "older than the capture"))
        return found

    def outlives(self, what, time, until, nth=1):
        """Is it there after the nth of these instants, or, where there are not so many, not given back?"""
        after = sorted(at for at in self.at[what] if at >= time)
        if len(after) < nth:
            return until is None and nth == 1
        return until is None or until > after[nth - 1]

    def use(self, call, time, until):
        """docs/memory.md has the rule."""
        around = list(self.around(call))
        phase = next((self.calls[c][5] for c in around if self.calls[c][5]), None)
        operators = [self.calls[c][4] for c in around if self.calls[c][4] is not None]
        if phase == "optimizer":
            return "optimizer state" if self.outlives(("optimizer", "ends"), time, until) else "temporary"
        if phase == "backward":
            return "gradients" if self.outlives("read", time, until) else "temporary"
        if self.outlives("steps", time, until, 3):
            return "not known"
        if phase == "input" and self.outlives(("input", "ends"), time, until):
            return "inputs"
        if operators and self.names[operators[-1]] == "aten::to" and self.outlives("read", time, until):
            return "inputs"
        if any(at >= time for at in self.at["backward"]) and self.outlives("backward", time, until):
            return "activations"
        return "not known" if until is None else "temporary"

    def holder(self, parent):
        owner = self.owner(parent)
        phase = next((self.calls[c][5] for c in self.around(parent) if self.calls[c][5]), None)
        return (self.calls[owner][4], self.calls[owner][3], phase) if owner else (None, None, phase)

    def leaks(self):
        rows = collections.defaultdict(lambda: [0, 0, set()])
        for i, (_, step, parent, kind, device, taken, _, bytes_, *_) in enumerate(self.records):
            if taken and i not in self.until and step is not None and step <= self.last - 2:
                row = rows[(kind, device, *self.holder(parent))]
                row[0] += 1
                row[1] += bytes_
                row[2].add(step)
        return {(*key, count, bytes_, len(steps)) for key, (count, bytes_, steps) in rows.items()}


@pytest.mark.parametrize("seed", range(12))
def test_random_traces(tmp_path, seed):
    (tmp_path / "trace.json").write_text(json.dumps(trace(seed)))
    run("import", tmp_path / "trace.json", "--output", tmp_path / "trace.db")
    with sqlite3.connect(tmp_path / "trace.db") as db:
        expected = Reckoning(db)
        ours = {table: list(db.execute(f"SELECT * FROM {table}"))
                for table in ("memory_totals", "memory_steps", "memory_holders", "memory_leaks")}
    assert len(ours["memory_holders"][0]) == 9 and len(expected.records) > 100 and any(map(expected.folded, expected.calls))
    steps = expected.steps()
    for table, rows in (("memory_totals", expected.totals()), ("memory_steps", steps), ("memory_holders", expected.holders(steps)),
                        ("memory_leaks", expected.leaks())):
        assert len(ours[table]) == len(set(ours[table])) and set(ours[table]) == rows, table
