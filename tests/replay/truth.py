#!/usr/bin/env python3
"""truth.py RECORDING [TRUTH.json[.gz]] - what a recording says, by the definitions alone.

Reads a trace of torch.profiler (JSON) or an export of nsys (SQLite) and computes what a capture of its replay must
show. It shares no code with profd, with the converters or with the timeline, on purpose: intervals are compared with
each other, no stack is kept.

  operations   by kind, device and stream, and by name (kernels), by kind and memories (copies), by memory (sets): how many,
               ns in all, bytes
  threads      for each host thread its ranges and operators in order of their begin, (name, operations, self, total): ns of
               device time whose launching call began in the range and in no smaller one (self), or anywhere in it (total)
  steps        a step reaches from the end of ProfilerStep#N-1 to that of ProfilerStep#N; what began before the first, or
               after the last, is a step of its own. For each: operations by kind, and busy: ns in which at least one
               operation that was launched in it ran, by device
  calls        of the CUDA runtime by name; of the driver those that launched something

An operation without its call in the recording belongs to no range and no thread, and counts as launched when it
began."""
import bisect
import collections
import decimal
import gzip
import json
import pathlib
import re
import sqlite3
import sys

Range = collections.namedtuple("Range", "start end name order")
Call = collections.namedtuple("Call", "thread start end name driver")
# kind: kernel, copy or set; key: the name, or what kind of copy or set, as text; call: a Call or None
Operation = collections.namedtuple("Operation", "kind start end device stream key bytes call")


class Recording:
    def __init__(self):
        self.ranges = collections.defaultdict(list)  # thread -> [Range]
        self.calls, self.operations = [], []
        self.steps = []  # (start, end, number) in order


def read_kineto(path):
    def ns(value):
        return int(decimal.Decimal(value) * 1000)

    recording = Recording()
    raw = pathlib.Path(path).read_bytes()
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    events = json.loads(raw, parse_float=decimal.Decimal, strict=False)["traceEvents"]
    calls, device = {}, []
    for order, e in enumerate(events):
        if e.get("ph") != "X":
            continue
        category, start = e.get("cat", ""), ns(e["ts"])
        end, thread = start + ns(e["dur"]), f"{e['pid']}/{e['tid']}"
        if category in ("cpu_op", "Operator", "user_annotation"):
            recording.ranges[thread].append(Range(start, end, e["name"], order))
            if e["name"].startswith("ProfilerStep#"):
                recording.steps.append((start, end, int(e["name"].split("#")[1])))
        elif category in ("cuda_runtime", "Runtime", "cuda_driver"):
            calls[e["args"]["correlation"]] = Call(thread, start, end, e["name"], category == "cuda_driver")
        elif category.lower() in ("kernel", "gpu_memcpy", "memcpy", "gpu_memset", "memset"):
            device.append((category.lower(), start, end, e))
    for category, start, end, e in device:
        a = e["args"]
        kind = {"kernel": "kernel", "gpu_memcpy": "copy", "memcpy": "copy"}.get(category, "set")
        key = e["name"] if kind == "kernel" else re.sub(r"^Mem(cpy|set) ", "", e["name"])
        recording.operations.append(Operation(kind, start, end, a["device"], a["stream"], key, int(a.get("bytes", 0)),
                                              calls.get(a["correlation"])))
    recording.calls = list(calls.values())
    recording.steps.sort()
    return recording


def read_nsys(path):
    recording = Recording()
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    db.row_factory = sqlite3.Row
    tables = {row[0] for row in db.execute("select name from sqlite_master where type = 'table'")}
    words = dict(db.execute("select id, value from StringIds").fetchall())
    memory = ["Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown"]
    direction = ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"]
    calls = {}
    for row in db.execute("select * from CUPTI_ACTIVITY_KIND_RUNTIME"):
        tid = row["globalTid"]
        calls[(tid >> 24, row["correlationId"])] = Call(tid, row["start"], row["end"],
                                                        re.sub(r"_v[0-9]+$", "", words[row["nameId"]]), row["eventClass"] == 1)
    for kind in ("KERNEL", "MEMCPY", "MEMSET"):
        if "CUPTI_ACTIVITY_KIND_" + kind not in tables:
            continue
        for row in db.execute(f"select * from CUPTI_ACTIVITY_KIND_{kind}"):
            call = calls.get((row["globalPid"] >> 24, row["correlationId"]))
            if kind == "KERNEL":
                key = words[row["mangledName"] or row["demangledName"]]
            elif kind == "MEMCPY":
                key = f"{direction[row['copyKind']]} ({memory[row['srcKind']]} -> {memory[row['dstKind']]})"
            else:
                key = f"({memory[row['memKind']]})"
            recording.operations.append(Operation({"KERNEL": "kernel", "MEMCPY": "copy", "MEMSET": "set"}[kind], row["start"],
                                                  row["end"], row["deviceId"], row["streamId"], key,
                                                  0 if kind == "KERNEL" else row["bytes"], call))
    if "NVTX_EVENTS" in tables:
        for order, row in enumerate(db.execute("select * from NVTX_EVENTS where eventType = 59 and end is not null")):
            name = row["text"] if row["text"] is not None else words[row["textId"]]
            recording.ranges[row["globalTid"]].append(Range(row["start"], row["end"], name, order))
    recording.calls = list(calls.values())
    return recording


def union(intervals):
    """ns in which at least one of them was under way."""
    total, reached = 0, None
    for start, end in sorted(intervals):
        if reached is None or start > reached:
            total, reached = total + end - start, end
        elif end > reached:
            total, reached = total + end - reached, end
    return total


def attribute(ranges, operations):
    """Lines (name, operations, self, total) of one thread's ranges, in the order of their begin (the longer one first), and the
    number of launches of which it cannot be said whether a range still held them: they began at the instant it ended."""
    ranges = sorted(ranges, key=lambda r: (r.start, -r.end, r.order))
    inside = [[0, 0, 0] for _ in ranges]
    doubtful = 0
    starts = [r.start for r in ranges]
    # The longest range bounds how far back one has to look for those that hold an instant.
    reach = []
    for r in ranges:
        reach.append(max(r.end, reach[-1] if reach else r.end))
    for o in operations:
        holders, i = [], bisect.bisect_right(starts, o.call.start) - 1
        while i >= 0 and reach[i] >= o.call.start:
            if ranges[i].end > o.call.start:
                holders.append(i)
            elif ranges[i].end == o.call.start:
                doubtful += 1
            i -= 1
        for i in holders:
            inside[i][2] += o.end - o.start
        if holders:
            innermost = max(holders, key=lambda i: (ranges[i].start, -ranges[i].end, i))
            inside[innermost][1] += o.end - o.start
            inside[innermost][0] += 1
    return [(r.name, *values) for r, values in zip(ranges, inside)], doubtful


def step_of(boundaries, time):
    return bisect.bisect_right(boundaries, time)


def compute(recording):
    groups = collections.defaultdict(lambda: [0, 0, 0])
    for o in recording.operations:
        group = groups[(o.kind, o.device, o.stream, o.key)]
        group[0], group[1], group[2] = group[0] + 1, group[1] + o.end - o.start, group[2] + o.bytes
    by_thread = collections.defaultdict(list)
    for o in recording.operations:
        if o.call:
            by_thread[o.call.thread].append(o)
    threads, doubtful = [], 0
    for thread in sorted(set(recording.ranges) | set(by_thread), key=str):
        lines, unsure = attribute(recording.ranges[thread], by_thread[thread])
        doubtful += unsure
        # nsys's ids of threads hold the process in their upper bits.
        tid = int(thread.split("/")[1]) if isinstance(thread, str) else thread & 0xffffff
        threads.append({"tid": tid, "ranges": lines, "launched": len(by_thread[thread])})
    launching = {id(o.call) for o in recording.operations if o.call}
    calls = collections.Counter(c.name for c in recording.calls if not c.driver and c.name != "INVALID")
    driver = collections.Counter(c.name for c in recording.calls if c.driver and id(c) in launching)
    steps = []
    if recording.steps:
        began = [r.start for ranges in recording.ranges.values() for r in ranges] + [c.start for c in recording.calls]
        boundaries = [end for _, end, _ in recording.steps]
        numbers = [number for _, _, number in recording.steps]
        if min(began) < recording.steps[0][0]:
            boundaries.insert(0, recording.steps[0][0])
            numbers.insert(0, -1)
        numbers.append(-2)
        held = [[] for _ in numbers]
        for o in recording.operations:
            held[step_of(boundaries, o.call.start if o.call else o.start)].append(o)
        if max(began) < boundaries[-1]:
            numbers.pop()
        for number, operations in zip(numbers, held):
            devices = sorted({o.device for o in operations})
            kinds = collections.Counter(o.kind for o in operations)
            steps.append({"number": number, "kernel": kinds["kernel"], "copy": kinds["copy"], "set": kinds["set"],
                          "busy": [[d, union([(o.start, o.end) for o in operations if o.device == d])] for d in devices]})
    devices = sorted({o.device for o in recording.operations})
    return {"operations": [[*key, *values] for key, values in sorted(groups.items())],
            "threads": threads, "steps": steps, "calls": dict(sorted(calls.items())), "driver_calls": dict(sorted(driver.items())),
            "busy": [[d, union([(o.start, o.end) for o in recording.operations if o.device == d])] for d in devices],
            "doubtful": doubtful, "without_call": sum(1 for o in recording.operations if not o.call)}


def read(path):
    return read_nsys(path) if str(path).endswith(".sqlite") else read_kineto(path)


def main(arguments):
    if not 1 <= len(arguments) <= 2:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    data = json.dumps(compute(read(arguments[0])), separators=(",", ":")).encode()
    if len(arguments) == 1:
        print(data.decode())
    else:
        with open(arguments[1], "wb") as file:
            file.write(gzip.compress(data, 9, mtime=0) if arguments[1].endswith(".gz") else data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
