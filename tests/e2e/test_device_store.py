"""What the daemon makes of device records, against a brute-force reference: launches by correlation id, attribution to ranges
and operators, sums, busy times; on random captures, through every way by which rows come in; and hostile records."""
import collections
import os
import random
import shutil
import signal
import sqlite3
import struct
import time

import pytest

import device_records as d
import fake_agent as fake
from conftest import wait_for
from proc import processor_seconds
from test_disk_full import can_mount, fill, small  # noqa: F401 (small is a fixture)

MASK = (1 << 32) - 1
MS = 1_000_000
CLOCK_ERROR = 800
SPAN = 400 * MS  # of a capture: between 100 ms before the first step and 100 ms after the last


class Random:
    """A random capture: what happened, and the records that tell of it."""

    def __init__(self, seed, launches=300, threads=3, steps=3, whole=0.9, devices=2, first_id=None):
        self.random = random.Random(seed)
        r = self.random
        self.base = time.monotonic_ns()
        bounds = sorted(r.sample(range(100 * MS, 300 * MS), steps + 1))
        self.steps = [(i + 1, bounds[i], bounds[i + 1]) for i in range(steps)]
        self.names = ["_Z4gemmPf", "_ZN2at6native12_GLOBAL__N_16kernelILi4EfEEvT0_", "triton_poi_fused_0", "_Zbroken", "aten::a",
                      "aten::b", "forward", "cudaLaunchKernel", "cuLaunchKernel", "loader"]
        self.frames, self.calls, self.operations, self.waits = [], [], [], []
        self.identity = 0
        for thread in range(100, 100 + threads):
            self.nest(thread, 0, SPAN, None, 0)
        self.launch(launches, whole, devices, first_id if first_id is not None else r.choice([5, MASK - 400, 1 << 31, MASK - 5]))

    def nest(self, thread, start, end, parent, depth):
        r, at = self.random, start
        for _ in range(r.randint(2 if depth < 2 else 0, 4) if depth < 6 else 0):
            if at >= end - 10:
                return
            first = r.randint(at, end - 5)
            last = r.randint((first + end) // 2 + 1, end)
            self.identity += 1
            operator = r.random() < 0.7
            frame = dict(id=self.identity, parent=parent["id"] if parent else 0, thread=thread, start=first, end=last, depth=depth,
                         operator=operator, name=r.choice(["aten::a", "aten::b"] if operator else ["forward", "loader"]),
                         flags=d.ASYNC if operator and r.random() < 0.05 else 0)
            self.frames.append(frame)
            # Chains of one name, which fold.
            for _ in range(r.choice([0, 0, 1, 2]) if operator and depth < 4 and last - first > 50 else 0):
                self.identity += 1
                depth += 1
                frame = dict(frame, id=self.identity, parent=frame["id"], start=frame["start"] + 5, end=frame["end"] - 5, depth=depth,
                             flags=0)
                self.frames.append(frame)
            self.nest(thread, frame["start"], frame["end"], frame, frame["depth"] + 1)
            depth = parent["depth"] + 1 if parent else 0
            at = last

    def step_at(self, moment):
        return next((step for step, start, end in self.steps if start <= moment < end), 0)

    def launch(self, count, whole, devices, first_id):
        r, correlation, threads = self.random, first_id, sorted({f["thread"] for f in self.frames} or {100})
        for start in sorted(r.sample(range(SPAN), count)):
            correlation = (correlation + r.randint(1, 3)) & MASK or 1
            thread, step, kind = r.choice(threads), self.step_at(start), r.random()
            recorded = r.random() < whole
            doubtful = d.DOUBTFUL if r.random() < 0.05 else 0
            if recorded and (step or r.random() < 0.5):
                call = dict(correlation=correlation, step=step, thread=thread, start=start, duration=r.randint(1, 9000),
                            domain=d.RUNTIME, flags=doubtful, result=0 if r.random() < 0.9 else 2)
                pair = r.random()
                if pair < 0.1:
                    self.calls.append(dict(call, domain=d.DRIVER, start=start + 1, duration=1, thread=thread))
                elif pair < 0.15:
                    call["domain"] = d.DRIVER
                self.calls.append(call)
            elif step == 0:
                recorded = False
            if kind < 0.1:
                continue
            if kind < 0.15:
                self.waits.append(dict(correlation=correlation, start=start + 10, duration=100))
                continue
            device, stream = r.randrange(devices), r.choice([7, 13, 20])
            for _ in range(r.choice([1, 1, 1, 1, 5]) if kind < 0.8 else 1):
                began = start + r.randint(-2, 30 * MS)
                operation = dict(correlation=correlation, device=device, stream=stream, start=max(began, 0), duration=r.choice([0, 1, 500, r.randint(1, 5 * MS)]),
                                 flags=0, what=r.choice(["kernel"] * 6 + ["copy", "set", "graph"]),
                                 name=r.choice(self.names[:4]), kind=r.choice([1, 2, 8]), bytes=r.randint(0, 1 << 30))
                if r.random() < 0.03:
                    operation.update(start=None, duration=0, flags=d.TIMELESS)
                elif r.random() < 0.03:
                    operation["flags"] = d.UNFINISHED
                self.operations.append(operation)

    # --- the records, by the thread that writes them ---

    def chunks(self, ids):
        r, base = self.random, self.base
        by_thread = collections.defaultdict(list)
        for f in sorted(self.frames, key=lambda f: (f["end"], -f["depth"])):
            step = self.step_at(f["start"])
            if f["operator"]:
                record = d.operator_of(step, base + f["start"], f["end"] - f["start"], 0, f["id"], f["parent"], ids[f["name"]], f["depth"],
                                       f["thread"], f["flags"])
            else:
                record = d.range_of(step, base + f["start"], f["end"] - f["start"], 0, f["id"], f["parent"], ids[f["name"]], f["depth"],
                                    f["thread"])
            by_thread[f["thread"]].append(record)
        told = []
        for c in self.calls:
            told.append(d.call(c["step"], base + c["start"], c["duration"], c["correlation"],
                               ids["cudaLaunchKernel" if c["domain"] == d.RUNTIME else "cuLaunchKernel"], c["thread"], c["domain"],
                               c["result"], c["flags"]))
        for o in self.operations:
            start = 0 if o["start"] is None else base + o["start"]
            common = dict(device=o["device"], stream=o["stream"], flags=o["flags"])
            if o["what"] == "kernel":
                told.append(d.kernel(start, o["duration"], o["correlation"], name=ids[o["name"]], **common))
            elif o["what"] == "copy":
                told.append(d.copy(start, o["duration"], o["correlation"], kind=o["kind"], bytes=o["bytes"], **common))
            elif o["what"] == "set":
                told.append(d.memory_set(start, o["duration"], o["correlation"], bytes=o["bytes"], **common))
            else:
                told.append(d.graph(start, o["duration"], o["correlation"], **common))
        told += [d.sync(base + w["start"], w["duration"], w["correlation"]) for w in self.waits]
        r.shuffle(told)
        told += [d.session(CLOCK_ERROR, ids["loader"])]
        by_thread[9].extend(told)
        by_thread[42].extend(d.step_of(step, base + start, end - start) for step, start, end in self.steps)
        for thread, records in by_thread.items():
            while records:
                taken, size = [], 0
                while records and size + len(records[0]) <= 60000 and len(taken) < 120:
                    size += len(records[0])
                    taken.append(records.pop(0))
                yield thread, b"".join(taken)

    # --- the reference ---

    def reference(self):
        order = self.order()
        calls = {}
        for c in self.calls:
            known = calls.get(c["correlation"])
            if known is None or (c["domain"] == d.RUNTIME and known["domain"] != d.RUNTIME):
                calls[c["correlation"]] = c
        groups = collections.defaultdict(list)
        for o in self.operations:
            groups[o["correlation"]].append(o)
        inside = sorted(order(c["correlation"]) for c in self.calls if c["step"])
        any_launched = any(correlation in calls for correlation in groups)
        steps_by_order = sorted((order(correlation), c["step"]) for correlation, c in calls.items() if c["step"])
        launches, kept, unlaunched, doubtful = {}, [], collections.Counter(), collections.Counter()
        first, last = self.steps[0][1], self.steps[-1][2]
        nearby = 0
        for correlation, operations in sorted(groups.items(), key=lambda item: order(item[0])):
            call = calls.get(correlation)
            if call:
                step = call["step"]
            elif any_launched:
                step = 0
                if inside and inside[0] <= order(correlation) <= inside[-1]:
                    step = [s for at, s in steps_by_order if at < order(correlation)][-1]
            else:
                starts = sorted(-1 if o["start"] is None else o["start"] for o in operations)
                step = self.step_at(starts[0]) if starts[0] >= 0 else nearby
            for o in operations:
                if call and call["flags"] & d.DOUBTFUL:
                    doubtful[o["what"]] += 1
            if not step:
                # What was launched before the recording, and reaches into it, is kept, and of no step.
                for o in operations:
                    if o["start"] is None or o["start"] + o["duration"] <= first or o["start"] >= last:
                        continue
                    before = (call["start"] < first if call else order(correlation) < inside[0] if inside else o["start"] < first)
                    if before:
                        kept.append(dict(o, step=None))
                continue
            nearby = step
            for o in operations:
                kept.append(dict(o, step=step))
                if not call:
                    unlaunched[o["what"]] += 1
            # An instant that surely lies in the call, however wrong its clock is.
            at = call["start"] + min(CLOCK_ERROR, call["duration"] // 2) if call else None
            around = [f for f in self.frames if call and f["thread"] == call["thread"] and f["start"] <= at < f["end"]]
            inner = max(around, key=lambda f: (f["start"], f["depth"])) if around else None
            launches[correlation] = dict(call=call, step=step, range=inner["id"] if inner else None, around=[f["id"] for f in around],
                                         time=sum(o["duration"] for o in operations), operations=operations)
        return launches, kept, unlaunched, doubtful

    def order(self):
        """Wrapped ids come behind the others: all lie within some thousand of each other."""
        ids = [c["correlation"] for c in self.calls] + [o["correlation"] for o in self.operations]
        wraps = ids and max(ids) - min(ids) > 1 << 31
        return lambda correlation: correlation + (1 << 32) if wraps and correlation < 1 << 31 else correlation


class Recorder:
    """An agent that writes a capture's records and meanwhile is a client that waits for it."""

    def __init__(self, profd, told=True, collectors=("steps", "nvtx", "torch", "cupti"), **more):
        self.profd, self.told = profd, told  # told: the segment says from the start that cupti is on
        self.agent = fake.Agent(profd.socket, **more)
        self.client = fake.connect(profd.socket, 60)
        fake.send(self.client, "trigger", **fake.trigger_fields(collectors=list(collectors), timeout=120 * 10**9))
        self.agent.arm()
        self.sequence = 0
        self.index = 0

    def begin(self, base=None, texts=(), ready=4):
        struct.pack_into("<I", self.agent.map, fake.PHASE + 12, 0b10111 if self.told else 0)
        self.agent.begin(ready)
        if base:
            struct.pack_into("<QQQQ", self.agent.map, fake.BASE, base, time.time_ns(), base, 0)
        return self.agent.strings(texts)

    def write(self, records, thread):
        for _ in range(2000):
            self.index = (self.index + 1) % 4
            if self.agent.state(self.index) == fake.FREE:
                break
            time.sleep(0.001)
        self.sequence += 1
        self.agent.chunk(self.index, records, self.sequence, thread=thread)

    def tell_collector(self, bit=4, ran=1, sentence="records the GPU"):
        self.agent.say(fake.COLLECTOR, struct.pack("<QIIQ", self.agent.capture, bit, ran, 1000) + fake.text(sentence, 248))

    def end(self, steps=3):
        self.agent.phase(fake.END, steps)
        self.agent.done(steps=steps)
        captured = [row for row in fake.rows(self.client) if row.get("row") == "captured"][0]
        self.close()
        return captured

    def close(self):
        self.client.close()
        self.agent.close()


def open_capture(profd, captured):
    db = sqlite3.connect(f"file:{profd.store}/captures/{captured['capture_id'].lstrip('u')}.db?mode=ro", uri=True)
    db.row_factory = sqlite3.Row
    return db


def record(profd, capture, told=True):
    recorder = Recorder(profd, told)
    ids = recorder.begin(capture.base, capture.names)
    for bit, sentence in ((1, "records NVTX"), (2, "records torch"), (4, "records the GPU")):
        recorder.tell_collector(bit, sentence=sentence)
    for thread, records in capture.chunks(ids):
        recorder.write(records, thread)
    return recorder.end(len(capture.steps))


VIEWS = {"kernel": "kernels", "copy": "copies", "set": "sets", "graph": "graph_launches"}
KINDS = {"kernel": "kernel", "copy": "copy", "set": "set", "graph": "graph_launch"}


def union(intervals, step):
    """Of what lies in a step: how much of it is covered, the longest time that is not, and when that begins."""
    busy, gap, gap_start, end = 0, 0, None, step[0]
    for start, stop in [*sorted(intervals), (step[1], step[1])]:
        if start - end > gap:
            gap, gap_start = start - end, end
        busy += max(0, stop - max(start, end))
        end = max(end, stop)
    return busy, gap, gap_start


def check(db, capture):
    launches, kept, unlaunched, doubtful = capture.reference()
    rows = {row["correlation"]: row for row in db.execute("SELECT * FROM launches")}
    assert rows.keys() == launches.keys()
    calls = {row["rowid"]: row for row in db.execute("SELECT rowid, * FROM api_calls")}
    for correlation, launch in launches.items():
        row, call = rows[correlation], launch["call"]
        assert (row["step"], row["range"], row["device_time"], row["operations"]) == (
            launch["step"], launch["range"], launch["time"], len(launch["operations"])), correlation
        if call:
            assert (row["start"], row["duration"], row["thread"]) == (call["start"], call["duration"], call["thread"])
            assert calls[row["api"]]["correlation"] == correlation and calls[row["api"]]["start"] == call["start"]
        else:
            assert row["api"] is None and row["start"] is None and row["thread"] is None
    assert all(row["step"] for row in calls.values())
    assert len(calls) == sum(bool(c["step"]) for c in capture.calls)
    # What each device did, and nothing else.
    for what, view in VIEWS.items():
        seen = collections.Counter(
            (row["step"], row["correlation"], row["device"], row["stream"], row["start"], row["duration"], row["range"])
            for row in db.execute(f"SELECT * FROM {view}"))
        expected = collections.Counter(
            (o["step"], o["correlation"], o["device"], o["stream"], o["start"], o["duration"],
             launches[o["correlation"]]["range"] if o["step"] else None) for o in kept if o["what"] == what)
        assert seen == expected, what
    check_ranges(db, capture, launches)
    check_totals(db, capture, kept)
    check_steps(db, capture, kept)
    losses = {(row["kind"], row["loss"]): row["count"] for row in db.execute("SELECT * FROM losses")}
    earlier = collections.Counter(o["what"] for o in kept if not o["step"])
    for word, counted in (("unlaunched", unlaunched), ("doubtful", doubtful), ("earlier", earlier)):
        assert {kind: n for (kind, loss), n in losses.items() if loss == word} == {KINDS[k]: n for k, n in counted.items() if n}
    flagged = sum(db.execute(f"SELECT count(*) FROM {view} WHERE flags & 4").fetchone()[0] for view in VIEWS.values())
    assert flagged == sum(len(l["operations"]) for l in launches.values() if l["call"] and l["call"]["flags"] & d.DOUBTFUL)
    waits = {c["correlation"]: c["step"] for c in sorted(capture.calls, key=lambda c: c["domain"])}
    expected = collections.Counter(waits.get(w["correlation"], capture.step_at(w["start"])) for w in capture.waits)
    del expected[0]
    assert dict(db.execute("SELECT step, count(*) FROM syncs GROUP BY step").fetchall()) == dict(expected)


def check_ranges(db, capture, launches):
    own, total = collections.defaultdict(list), collections.defaultdict(list)
    for launch in launches.values():
        if launch["range"]:
            own[launch["range"]].append(launch)
        for identity in launch["around"]:
            total[identity].append(launch)
    rows = {row["id"]: row for row in db.execute("SELECT * FROM range_devices")}
    assert rows.keys() == total.keys()
    for identity, group in total.items():
        operations = [o for launch in group for o in launch["operations"]]
        timed = [o for o in operations if o["start"] is not None]
        row = rows[identity]
        assert row["self"] == sum(launch["time"] for launch in own[identity])
        assert row["total"] == sum(launch["time"] for launch in group) and row["operations"] == len(operations)
        assert row["first"] == min((o["start"] for o in timed), default=None)
        assert row["last"] == max((o["start"] + o["duration"] for o in timed), default=None)
    time = lambda group: sum(launch["time"] for launch in group)
    frames = {f["id"]: f for f in capture.frames}
    children = collections.defaultdict(list)
    for f in capture.frames:
        if not f["flags"] & d.ASYNC:
            children[f["parent"]].append(f)

    def folded(f):
        parent = frames.get(f["parent"])
        return (parent and f["operator"] and parent["operator"] and not (f["flags"] | parent["flags"]) & d.ASYNC
                and f["name"] == parent["name"] and len(children[parent["id"]]) == 1)

    operators, ranges = collections.Counter(), collections.Counter()
    calls = collections.Counter()
    for f in capture.frames:
        top = f
        while folded(top):
            top = frames[top["parent"]]
        step = capture.step_at(top["start"]) or None
        if f["operator"]:
            operators[f["name"], step, "self"] += time(own[f["id"]])
            if not folded(f):
                operators[f["name"], step, "device"] += time(total[f["id"]])
                calls[f["name"], step] += 1
        else:
            ranges[f["name"], step, "self"] += time(own[f["id"]])
            ranges[f["name"], step, "device"] += time(total[f["id"]])
    for table, expected in (("operator_totals", operators), ("range_totals", ranges)):
        seen = collections.Counter()
        for row in db.execute(f"SELECT *, (SELECT text FROM strings WHERE id = name) AS text FROM {table}"):
            seen[row["text"], row["step"], "self"] += row["self_device"]
            seen[row["text"], row["step"], "device"] += row["device"]
        assert seen == expected, table
    assert {(row["text"], row["step"]): row["calls"] for row in db.execute(
        "SELECT *, (SELECT text FROM strings WHERE id = name) AS text FROM operator_totals")} == dict(calls)


def demangled(name):
    return {"_Z4gemmPf": "gemm(float*)", "_ZN2at6native12_GLOBAL__N_16kernelILi4EfEEvT0_":
            "void at::native::(anonymous namespace)::kernel<4, float>(float)"}.get(name, name)


def check_totals(db, capture, kept):
    def sums(key, of):
        groups = collections.defaultdict(list)
        for o in kept:
            if o["what"] == of:
                groups[key(o)].append(o)
        return {k: [len(g), sum(o["duration"] for o in g), min((o["duration"] for o in g if o["start"] is not None), default=None),
                    max((o["duration"] for o in g if o["start"] is not None), default=None)] for k, g in groups.items()}

    place = lambda o: (o["device"], o["stream"], o["step"])
    rows = db.execute("SELECT s.text, device, stream, step, calls, total, min, max FROM kernel_totals t JOIN strings s ON s.id = t.name")
    assert {tuple(row)[:4]: list(row)[4:] for row in rows} == sums(lambda o: (demangled(o["name"]), *place(o)), "kernel")
    rows = db.execute("SELECT kind, device, stream, step, calls, total, min, max FROM copy_totals")
    assert {tuple(row)[:4]: list(row)[4:] for row in rows} == sums(lambda o: (o["kind"], *place(o)), "copy")
    rows = db.execute("SELECT memory_kind, device, stream, step, calls, total, min, max FROM set_totals")
    assert {tuple(row)[:4]: list(row)[4:] for row in rows} == sums(lambda o: (3, *place(o)), "set")
    rows = db.execute("SELECT graph, device, stream, step, calls, total, min, max FROM graph_totals")
    assert {tuple(row)[:4]: list(row)[4:] for row in rows} == sums(lambda o: (5, *place(o)), "graph")
    for table, what in (("copy_totals", "copy"), ("set_totals", "set")):
        assert db.execute(f"SELECT coalesce(sum(bytes), 0) FROM {table}").fetchone()[0] == sum(o["bytes"] for o in kept if o["what"] == what)
    expected = collections.Counter()
    for c in capture.calls:
        if c["step"]:
            key = c["domain"], c["step"]
            expected[key + ("calls",)] += 1
            expected[key + ("total",)] += c["duration"]
            expected[key + ("failed",)] += c["result"] != 0
    seen = collections.Counter()
    for row in db.execute("SELECT * FROM api_totals"):
        for column in ("calls", "total", "failed"):
            seen[row["domain"], row["step"], column] += row[column]
    assert seen == expected


def check_steps(db, capture, kept):
    """Time by interval, whenever it was launched; all else by launch."""
    rows = {(row["step"], row["device"], row["stream"]): row for row in db.execute("SELECT * FROM step_devices")}
    groups, inside = collections.defaultdict(list), collections.defaultdict(list)
    bounds = {step: (start, end) for step, start, end in capture.steps}
    # A device that did anything at all has a row for each step.
    timed = {o["device"] for o in kept if o["start"] is not None}
    for device in timed:
        for step in bounds:
            inside[step, device, -1] = []
    for o in kept:
        for stream in (o["stream"], -1):
            if o["step"]:
                groups[o["step"], o["device"], stream].append(o)
            for step, start, end in capture.steps if o["start"] is not None else ():
                first, last = o["start"], o["start"] + o["duration"]
                if start <= first < end if first == last else first < end and last > start:
                    inside[step, o["device"], stream].append((max(first, start), min(last, end), o["what"] in ("kernel", "graph")))
    assert rows.keys() == groups.keys() | inside.keys()
    for key in rows:
        row, group, within = rows[key], groups[key], inside[key]
        intervals = [(o["start"], o["start"] + o["duration"]) for o in group if o["start"] is not None]
        busy, gap, gap_start = union([i[:2] for i in within], bounds[key[0]])
        kernel_busy = union([i[:2] for i in within if i[2]], bounds[key[0]])[0]
        if not within and not intervals and (key[2] != -1 or key[1] not in timed):
            # Of operations without times nobody knows when they ran.
            gap, gap_start = 0, None
        assert (row["busy"], row["gap"], row["gap_start"], row["kernel_busy"]) == (busy, gap, gap_start, kernel_busy), key
        assert row["first"] == min((i[0] for i in intervals), default=None)
        assert row["last"] == max((i[1] for i in intervals), default=None)
        counts = [sum(o["what"] == what for o in group) for what in ("kernel", "copy", "set", "graph")]
        assert [row["kernels"], row["copies"], row["sets"], row["graphs"]] == counts
        assert row["context"] == (None if key[2] == -1 else 1)


def count_rows(db):
    return sum(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in (
        "ranges", "operators", "steps", "api_calls", "kernel_records", "copy_records", "set_records", "graph_records", "syncs", "sessions",
        "allocations", "overheads", "counters"))


@pytest.mark.parametrize("seed", range(12))
def test_against_brute_force(profd, seed):
    capture = Random(seed, launches=random.Random(seed).choice([30, 300, 900]))
    # Where the daemon does not know of cupti in time, it reads the rows again at the end.
    captured = record(profd, capture, told=seed % 3 > 0)
    assert captured["status"] == "complete", captured
    db = open_capture(profd, captured)
    check(db, capture)
    assert captured["events"] == count_rows(db)
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_no_call_at_all(profd):
    """Where no launch has a record, the start of an operation is all that is known."""
    capture = Random(77, whole=0)
    db = open_capture(profd, record(profd, capture))
    check(db, capture)
    assert db.execute("SELECT count(*) FROM launches WHERE api IS NOT NULL").fetchone()[0] == 0
    assert db.execute("SELECT count(*) FROM kernels").fetchone()[0] > 10


def test_nothing_was_launched(profd):
    capture = Random(5, launches=0)
    captured = record(profd, capture)
    db = open_capture(profd, captured)
    check(db, capture)
    summary = fake.ask(profd.socket, "summary", capture_id=captured["capture_id"])[0]
    assert summary["kernels"] == [] and summary["kernels_total"] == 0 and summary["copies"] == []
    assert [step["kernels"] for step in summary["steps"]] == [0, 0, 0] and summary["steps"][0]["device_busy_ns"] == 0
    assert all(row["self_device_ns"] == 0 for row in summary["operators"])


def test_without_cupti_nothing_is_said(profd):
    recorder = Recorder(profd)
    ids = recorder.begin(texts=["aten::a"])
    base = struct.unpack_from("<Q", recorder.agent.map, fake.BASE)[0]
    recorder.tell_collector(ran=0, sentence="no CUDA driver")
    recorder.write(d.operator_of(1, base + 10, 100, 100, 1, 0, ids["aten::a"], 0, 42) +
                   b"".join(d.step_of(i, base + 1000 * (i - 1), 1000, 7) for i in (1, 2, 3)), 42)
    captured = recorder.end()
    summary = fake.ask(profd.socket, "summary", capture_id=captured["capture_id"])[0]
    assert summary["kernels"] is summary["copies"] is summary["sets"] is summary["gpu"] is summary["kernels_total"] is None
    assert summary["operators"][0]["self_device_ns"] is summary["operators"][0]["device_ns"] is None
    for key in ("device_busy_ns", "kernels", "copies", "largest_gap_ns"):
        assert summary["steps"][0][key] is None
    said = {row["collector"]: (row["on"], row["sentence"]) for row in summary["collectors"]}
    assert said["cupti"] == (False, "no CUDA driver")
    db = open_capture(profd, captured)
    assert tuple(db.execute("SELECT self_device, device FROM operator_totals").fetchone()) == (None, None)
    assert db.execute("SELECT sentence FROM collectors WHERE collector = 'memory'").fetchone()[0] == "not asked for (--memory)"


LAUNCH, COPY, BEGIN, END = "cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamBeginCapture", "cudaStreamEndCapture"


@pytest.mark.parametrize("calls, missing", [
    ("k", 0), ("l", 1), ("klkl", 2), ("f", 0), ("c", 0), ("(ll)l", 1), ("(ll]l", 1), ("ll)l", 1), ("(k)l", 1)],
    ids=["recorded", "not", "both", "failed", "a copy", "in a capture", "a capture that failed", "a capture from before", "beside a capture"])
def test_kernels_that_are_missing(profd, calls, missing):
    """k: a launch with its kernel; l: one without; f: one that failed; c: a copy without its record; ( and ): a stream is captured; ]: its
    capture has failed, and ends."""
    recorder = Recorder(profd)
    ids = recorder.begin(texts=[LAUNCH, COPY, BEGIN, END, "gemm"])
    base = struct.unpack_from("<Q", recorder.agent.map, fake.BASE)[0]
    recorder.tell_collector()
    records = d.session(CLOCK_ERROR, ids["gemm"]) + b"".join(d.step_of(i, base + MS * (i - 1), MS) for i in (1, 2, 3))
    for i, word in enumerate(calls):
        name = {"c": COPY, "(": BEGIN, ")": END, "]": END}.get(word, LAUNCH)
        records += d.call(1, base + 1000 * (i + 1), 500, 100 + i, ids[name], result=2 if word in "f]" else 0)
        if word == "k":
            records += d.kernel(base + 1000 * (i + 1) + 700, 100, 100 + i, name=ids["gemm"])
    recorder.write(records, 42)
    captured = recorder.end()
    with open_capture(profd, captured) as db:
        told = dict(db.execute("SELECT loss, count FROM losses WHERE kind = 'kernel' AND is_loss").fetchall())
    assert told == ({"missing": missing} if missing else {}) and captured["lost"] == missing, (told, captured)


def test_summary(profd):
    capture = Random(3, launches=600)
    captured = record(profd, capture)
    summary = fake.ask(profd.socket, "summary", capture_id=captured["capture_id"])[0]
    _, kept, _, _ = capture.reference()
    kernels = collections.defaultdict(list)
    for o in kept:
        if o["what"] == "kernel":
            kernels[demangled(o["name"])].append(o)
    assert {row["name"]: (row["calls"], row["total_ns"]) for row in summary["kernels"]} == {
        name: (len(group), sum(o["duration"] for o in group)) for name, group in kernels.items()}
    for row in summary["kernels"]:
        timed = [o["duration"] for o in kernels[row["name"]] if o["start"] is not None]
        assert (row["min_ns"], row["max_ns"]) == (min(timed), max(timed)) and min(timed) <= row["average_ns"] <= max(timed)
    assert [row["total_ns"] for row in summary["kernels"]] == sorted((row["total_ns"] for row in summary["kernels"]), reverse=True)
    words = {1: "HtoD", 2: "DtoH", 8: "DtoD"}
    assert {row["kind"]: row["calls"] for row in summary["copies"]} == collections.Counter(
        words[o["kind"]] for o in kept if o["what"] == "copy")
    sets = [o for o in kept if o["what"] == "set"]
    assert summary["sets"] == {"calls": len(sets), "bytes": sum(o["bytes"] for o in sets), "total_ns": sum(o["duration"] for o in sets)}
    assert summary["gpu"] == {"cupti_version": 24, "driver_version": 12040, "clock_error_ns": 800}
    db = open_capture(profd, captured)
    for step in summary["steps"]:
        busy, gap = db.execute("SELECT sum(busy), max(gap) FROM step_devices WHERE step = ? AND stream = -1", (step["step"],)).fetchone()
        assert (step["device_busy_ns"], step["largest_gap_ns"]) == (busy, gap)
        assert step["kernels"] == sum(o["what"] == "kernel" and o["step"] == step["step"] for o in kept)
    assert summary["devices"] == len({o["device"] for o in kept}) and captured["simulated"] is False
    own = [row["self_device_ns"] for row in summary["operators"]]
    assert own == sorted(own, reverse=True) and own[0] > 0


def test_simulated(profd):
    recorder = Recorder(profd)
    ids = recorder.begin(texts=["Simulated A100"])
    base = struct.unpack_from("<Q", recorder.agent.map, fake.BASE)[0]
    recorder.write(d.device(0, ids["Simulated A100"]) + b"".join(d.step_of(i, base + 1000 * (i - 1), 1000) for i in (1, 2, 3)), 42)
    captured = recorder.end()
    assert captured["simulated"] is True
    assert fake.ask(profd.socket, "captures")[0]["simulated"] is True
    assert fake.ask(profd.socket, "summary", capture_id=captured["capture_id"])[0]["capture"]["simulated"] is True
    assert open_capture(profd, captured).execute("SELECT value FROM meta WHERE key = 'simulated'").fetchone()[0] == 1


def test_by_their_own_time(profd):
    """Allocations and overhead have no call to go by."""
    recorder = Recorder(profd)
    recorder.begin()
    base = struct.unpack_from("<Q", recorder.agent.map, fake.BASE)[0]
    records = b"".join(d.step_of(i, base + 1000 * i, 1000) for i in (1, 2, 3))
    records += b"".join(d.allocation(base + at, 512) + d.overhead(base + at, 5) for at in (500, 1000, 2999, 3000, 4000))
    recorder.write(records, 42)
    db = open_capture(profd, recorder.end())
    assert [row[0] for row in db.execute("SELECT step FROM allocations ORDER BY time")] == [1, 2, 3]
    assert [row[0] for row in db.execute("SELECT step FROM overheads ORDER BY start")] == [None, 1, 2, 3, None]


def of_older_schema(path):
    """Makes a partial file one of an earlier schema, whose records were shorter."""
    with sqlite3.connect(path) as db:
        for (view,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall():
            db.execute(f'DROP VIEW "{view}"')
        for table, column in (("operators", "end_thread"), ("operators", "sequence"), ("kernel_records", "cache_config")):
            db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        db.execute("PRAGMA user_version = 2")


@pytest.mark.parametrize("seed, older", [(101, False), (102, False), (103, True)])
def test_adopted(empty_profd, seed, older):
    """The daemon dies in mid-capture; the next one finds half of the rows in the file and half in the segment. The dead one may
    have been of an earlier release."""
    profd = empty_profd
    profd.start_daemon()
    capture = Random(seed)
    recorder = Recorder(profd)
    agent = recorder.agent
    ids = recorder.begin(capture.base, capture.names)
    chunks = list(capture.chunks(ids))
    half = len(chunks) // 2
    for thread, records in chunks[:half]:
        recorder.write(records, thread)
    wait_for(lambda: all(agent.state(i) == fake.FREE for i in range(4)), 10, "the first half to be taken")
    profd.stop_daemon(signal.SIGKILL)
    recorder.close()
    for thread, records in chunks[half:half + 3]:
        recorder.write(records, thread)
    if older:
        of_older_schema(next((profd.store / "captures").glob("*.partial")))
    profd.start_daemon()
    again = fake.Agent(profd.socket)
    again.say(fake.OFFER, struct.pack("<QQII", agent.capture, agent.trigger, 1, 0), [agent.fd])
    for thread, records in chunks[half + 3:]:
        recorder.write(records, thread)
    agent.phase(fake.END, 3)
    again.done(capture=agent.capture)
    again.wait_for(fake.FINISH)
    captured = wait_for(lambda: [c for c in fake.ask(profd.socket, "captures") if c.get("finished_at")], 10, "the capture")[0]
    assert captured["status"] == "complete", captured
    db = open_capture(profd, captured)
    check(db, capture)
    assert captured["events"] == count_rows(db)
    # What an earlier release did not record has no value.
    sequences = {row[0] for row in db.execute("SELECT DISTINCT sequence FROM operators")}
    assert sequences <= {None, -1} and (None in sequences) == older
    again.close()


def test_hostile(profd):
    """Records that no CUPTI writes: what cannot be is dropped and counted, the rest is as it is, and sums do not overflow."""
    recorder = Recorder(profd)
    ids = recorder.begin(texts=["_ZN1AcvT_" + "IT_" * 60 + "E" * 60 + "Ev", "_Z1f" + "P" * 4000 + "i", b"\xff\xfe_Z", "_Z" + "S" * 5000])
    base = struct.unpack_from("<Q", recorder.agent.map, fake.BASE)[0]
    big, many = 1 << 44, 1 << 50
    last_name, last_thread = (32 << 20) // 8 - 1, 1 << 22
    earliest, latest = max(base - big, 1), base + big
    names = [*ids.values(), 7, last_name]
    records = [d.kernel(base + 1, 1, 0), d.kernel(1 << 63, 1, 1), d.kernel(base, big + 1, 1), d.kernel(base, 1, 1, queued=1 << 62),
               d.copy(base, 1, 1, bytes=many + 1), d.call(1, 0, 1, 1), d.call(1 << 31, base, 1, 1), d.call(1, base, big + 1, 1),
               # Hours before the recording, and after it; what no name, thread, id or step can be.
               d.kernel(latest + 1, 1, 1), d.call(1, base - big - 1 if base > big else 0, 1, 1), d.allocation(latest + 1, 1),
               d.kernel(base, 1, 1, name=last_name + 1), d.kernel(base, 1, 1, name=MASK), d.session(library=MASK), d.device(0, MASK),
               d.call(1, base, 1, 1, thread=MASK), d.call(1, base, 1, 1, thread=last_thread + 1), d.allocation(base, 1, thread=MASK),
               d.allocation(base, many + 1), d.range_of(1, base, 1, 1, 1, 0, 0, 0, MASK),
               d.operator_of(MASK, base, 0, 0, 1, 1, 0, 3, 42), d.operator_of(1, base, 0, 0, (1 << 64) - 1, 1, 0, 3, 42),
               d.range_of(1, base, 1, 1, 1, 0, 0, 0, 42, source=5), d.range_of(1, base, 1, 2, 1, 0, 0, 0, 42),
               d.counter(base, float("nan"), 0), d.counter(base, float("inf"), 0), d.counter(0, 1.5, 0)]
    bad = len(records)
    good = []
    r = random.Random(1)
    for i in range(2000):
        good.append(d.call(r.choice([1, 2, 3]), base + 100, big, i + 1, name=r.choice(names), thread=r.choice([0, 42, last_thread]), domain=r.choice([0, 1, 2, 65535])))
        good.append(d.kernel(r.choice([0, earliest, base, base + 1000]), big, i + 1, device=r.choice([0, MASK]), stream=r.choice([0, MASK]),
                             name=r.choice(names), flags=255))
        good.append(d.copy(base, big, i + 1, bytes=many, kind=r.choice([0, 255]), source=255, target=255))
    # One range around all, one that contains itself, and ids that are taken twice.
    good += [d.range_of(1, base, big, big, 1, 1, 0, 65535, 42), d.operator_of(1, base, big, big, 1, 2, 0, 0, 42),
             d.operator_of(1, base, 0, 0, (1 << 63) - 1, 1, last_name, 3, last_thread),
             d.counter(base + 1005, -0.1, ids["_Z" + "S" * 5000]), d.counter(base + 2005, 1e308, 0)]
    good += [d.step_of(i, base + 1000 * i, 1000) for i in (1, 2, 3)]
    r.shuffle(records)
    for at in range(0, len(good), 300):
        recorder.write(b"".join(good[at:at + 300]), 42)
    recorder.write(b"".join(records), 42)
    captured = recorder.end()
    # Of its life until now: how long it waited for a processor is not the records' doing.
    assert processor_seconds(f"/proc/{profd.daemon.pid}") < 10
    assert captured["status"] == "complete", captured
    db = open_capture(profd, captured)
    assert sum(row["count"] for row in db.execute("SELECT * FROM losses WHERE loss = 'unreadable'")) == bad
    assert db.execute("SELECT count(*) FROM kernels").fetchone()[0] == 2000
    assert db.execute("SELECT count(*) FROM kernels WHERE typeof(step) = 'integer'").fetchone()[0] == 2000
    assert [tuple(row) for row in db.execute("SELECT step, value, typeof(value) FROM counters ORDER BY time")] == [
        (1, -0.1, "real"), (2, 1e308, "real")]
    summary = fake.ask(profd.socket, "summary", capture_id=captured["capture_id"])[0]
    assert sum(row["bytes"] for row in summary["copies"]) == pytest.approx(2000 * many)
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_options(profd):
    agent = fake.Agent(profd.socket)
    for more, bits in (({}, 0), ({"graphs": "whole"}, 1), ({"api": "all"}, 2), ({"graphs": "whole", "api": "all"}, 3),
                       ({"graphs": "nodes", "api": "launches"}, 0)):
        with fake.connect(profd.socket) as connection:
            fake.send(connection, "trigger", **fake.trigger_fields(collectors=["steps", "cupti", "memory"], **more))
            packet, fds = agent.wait_for(fake.ARM)
            assert len(packet) == 496 and struct.unpack_from("<II", packet, 336) == (bits, 0)
            assert struct.unpack_from("<I", packet, 52)[0] == 0b110001
            agent.say(fake.DECLINED, struct.pack("<QII", struct.unpack_from("<Q", packet, 8)[0], 4, 0) + fake.text("no", 248))
            for fd in fds:
                os.close(fd)
            list(fake.rows(connection))
    for more in ({"graphs": "some"}, {"api": 3}, {"collectors": ["gpu"]}):
        assert fake.ask(profd.socket, "trigger", **fake.trigger_fields(**more))[-1]["error"]["code"] == "usage"
    agent.close()


def test_as_nsys_has_it(profd):
    """The views under nsys's names say what nsys's tables say."""
    recorder = Recorder(profd)
    ids = recorder.begin(texts=["_ZN2at6native12_GLOBAL__N_16kernelILi4EfEEvT0_", "cudaLaunchKernel", "Test GPU"])
    base = struct.unpack_from("<Q", recorder.agent.map, fake.BASE)[0]
    pid = os.getpid()
    records = [d.step_of(i, base + 1000 * (i - 1), 1000) for i in (1, 2, 3)]
    for i in range(1, 6):
        records.append(d.call(1, base + 10 * i, 5, i, ids["cudaLaunchKernel"], thread=77, domain=1 if i == 5 else 2, result=i == 4))
    records += [d.kernel(base + 100, 50, 1, name=ids["_ZN2at6native12_GLOBAL__N_16kernelILi4EfEEvT0_"]), d.kernel(0, 0, 5),
                d.copy(base + 200, 60, 2, kind=1, source=2, target=0, bytes=99), d.memory_set(base + 300, 70, 3, memory=3, bytes=11),
                d.sync(base + 45, 20, 4), d.device(0, ids["Test GPU"])]
    recorder.write(b"".join(records), 42)
    db = open_capture(profd, recorder.end())
    one = lambda table: dict(db.execute(f"SELECT * FROM {table}").fetchone())
    text = lambda identity: db.execute("SELECT value FROM StringIds WHERE id = ?", (identity,)).fetchone()[0]
    kernel = one("CUPTI_ACTIVITY_KIND_KERNEL")
    assert db.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0] == 1  # without times there it is none
    assert (kernel["start"], kernel["end"], kernel["deviceId"], kernel["contextId"], kernel["streamId"], kernel["correlationId"]) == (
        100, 150, 0, 1, 7, 1)
    assert text(kernel["demangledName"]) == "void at::native::(anonymous namespace)::kernel<4, float>(float)"
    assert text(kernel["shortName"]) == "kernel" and text(kernel["mangledName"]).startswith("_ZN2at")
    assert (kernel["gridX"], kernel["blockX"], kernel["registersPerThread"], kernel["launchType"], kernel["graphNodeId"]) == (8, 256, 32, 1, None)
    copy = one("CUPTI_ACTIVITY_KIND_MEMCPY")
    assert (copy["bytes"], copy["copyKind"], copy["srcKind"], copy["dstKind"], copy["end"] - copy["start"]) == (99, 1, 1, 7, 60)
    memset = one("CUPTI_ACTIVITY_KIND_MEMSET")
    assert (memset["bytes"], memset["memKind"]) == (11, 2)
    wait = one("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
    assert (wait["start"], wait["end"], wait["syncType"], wait["correlationId"], wait["globalPid"]) == (45, 65, 3, 4, pid << 24)
    calls = [dict(row) for row in db.execute("SELECT * FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY start")]
    assert [row["eventClass"] for row in calls] == [0, 0, 0, 0, 1] and [row["returnValue"] for row in calls] == [0, 0, 0, 1, 0]
    assert all(row["globalTid"] >> 24 & 0xffffff == pid and row["globalTid"] & 0xffffff == 77 for row in calls)
    assert text(calls[0]["nameId"]) == "cudaLaunchKernel"
    gpu = one("TARGET_INFO_GPU")
    assert (gpu["id"], gpu["name"], gpu["smCount"], gpu["totalMemory"], gpu["clockRate"]) == (0, "Test GPU", 132, 80 << 30, 1980000000)
    assert gpu["uuid"] == "01000000-0000-0000-0200-000000000000"
    assert db.execute("SELECT label FROM ENUM_CUDA_MEMCPY_OPER WHERE id = 8").fetchone()[0] == "Device-to-Device"
    assert db.execute("SELECT label FROM ENUM_CUDA_MEM_KIND WHERE id = ?", (copy["srcKind"],)).fetchone()[0] == "Pinned"
    # As nsys's reports join: a kernel with its call.
    assert db.execute("SELECT k.start - r.start FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = "
                      "k.correlationId AND r.globalTid & ~0xffffff = k.globalPid").fetchall()[0][0] == 90
    for name, in db.execute("SELECT name FROM sqlite_schema WHERE type = 'view'").fetchall():
        db.execute(f"SELECT * FROM {name}").fetchall()


@pytest.mark.skipif(not can_mount(), reason="needs root that may mount")
def test_disk_full_at_the_end(small):
    """No room for what derive finds out: the records are kept, and the capture says what it lacks."""
    recorder = Recorder(small)
    ids = recorder.begin(texts=["_Z4gemmPf", "aten::a"])
    base = struct.unpack_from("<Q", recorder.agent.map, fake.BASE)[0]
    launches = 24000
    recorder.write(b"".join(d.step_of(i, base + 10**7 * (i - 1), 10**7) for i in (1, 2, 3)) +
                   d.operator_of(1, base, 100, 100, 1, 0, ids["aten::a"], 0, 42), 42)
    for first in range(0, launches, 300):
        recorder.write(b"".join(d.call(1, base + 10 * i, 5, i + 1) + d.kernel(base + 100 * i, 50, i + 1, name=ids["_Z4gemmPf"])
                                for i in range(first, first + 300)), 9)
    wait_for(lambda: all(recorder.agent.state(i) == fake.FREE for i in range(4)), 10, "the records to be taken")
    fill(small)
    captured = recorder.end()
    assert captured["status"] == "incomplete" and captured["reason_code"] == "daemon", captured
    assert "no space" in captured["reason"] and "profd rm" in captured["reason"]
    assert captured["events"] == 2 * launches + 4
    summary = fake.ask(small.socket, "summary", capture_id=captured["capture_id"])[0]
    assert summary["kernels"] is None and summary["operators"][0]["self_device_ns"] is None
    assert summary["steps"][0]["kernels"] is None
    copy = shutil.copy(small.inside / "captures" / f"{captured['capture_id'].lstrip('u')}.db", small.folder)
    db = sqlite3.connect(copy)
    assert db.execute("SELECT count(*) FROM kernel_records").fetchone()[0] == launches
    assert db.execute("SELECT count(*) FROM launches").fetchone()[0] == 0


def test_file_of_an_older_release(profd):
    """What is finished is served as it is, whatever release wrote it."""
    captured = record(profd, Random(1, launches=20))
    with sqlite3.connect(profd.store / "captures" / f"{captured['capture_id'].lstrip('u')}.db") as db:
        db.execute("PRAGMA user_version = 1")
    assert fake.ask(profd.socket, "summary", capture_id=captured["capture_id"])[0]["row"] == "summary"
    descriptors = []
    assert fake.ask(profd.socket, "open", descriptors, capture_id=captured["capture_id"])[0]["row"] == "file"
    assert len(descriptors) == 1
    os.close(descriptors[0])
