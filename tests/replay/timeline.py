"""Timelines: what a recorded job did, as a text that tests/workloads/replay.c performs again.

One line is one fact: a letter or word, then fields between single spaces; a text is the last field and goes to the
end of the line (a newline in it is \\n, a backslash \\\\). Times are ns from the begin of the file. `*` marks what
may be left out.

    profd timeline 1
    # comment
    origin TEXT                     where the recording comes from
    left COUNT TEXT                 what the converter could not carry over, and how much of it
    device ID NAME                  a GPU, by the id that its operations have
    stream INDEX DEVICE CONTEXT ID  a stream; operations name it by INDEX
    thread INDEX TID NAME           a host thread and its id in the recording; TID 0: no thread of the recording, but the one
                                    for operations whose call is not in it
    step ORDINAL END NUMBER NAME    steps in order, that is where each ends; NUMBER as in the recording, -1 for what was before
                                    its first step, -2 for what came after its last. A file may have none
    stepper INDEX                   the thread that steps
    s ID TEXT                       a text; below it is named by ID

Then, for each thread, what it did in this order:

    @ INDEX                         the next lines are of this thread
    + TIME NAME                     a range opens
    o TIME NAME                     an operator opens
    - TIME                          the innermost range or operator closes
    i TIME NAME                     a mark
    = ORDINAL                       here a step ends; stands in every thread
    c TIME END NAME RESULT          a call of the CUDA runtime; the operations in the next lines were launched by it
    d TIME END NAME RESULT          a call of the driver API; likewise
    k START DURATION NAME STREAM GRIDX GRIDY GRIDZ BLOCKX BLOCKY BLOCKZ REGISTERS STATIC DYNAMIC *MORE    a kernel
    m START DURATION STREAM BYTES KIND SOURCE TARGET *MORE     a copy: CUPTI's numbers of its kind and of the memory's kinds
    z START DURATION STREAM BYTES MEMORY *MORE                 a set

MORE: q=TIME queued, g=GRAPH/NODE of a CUDA graph, p=SOURCE/TARGET devices of a peer copy. Calls and ranges nest by
their order in the file, whatever their times say. Several operations under one call are one launch with one
correlation id."""
import gzip
import pathlib
import re
import sys

# CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind, in the words of traces
COPY_KINDS = {"Unknown": 0, "HtoD": 1, "DtoH": 2, "HtoA": 3, "AtoH": 4, "AtoA": 5, "AtoD": 6, "DtoA": 7, "DtoD": 8,
              "HtoH": 9, "PtoP": 10}
MEMORY_KINDS = {"Unknown": 0, "Pageable": 1, "Pinned": 2, "Device": 3, "Array": 4, "Managed": 5, "Device Static": 6,
                "Managed Static": 7}
BEFORE, AFTER = -1, -2


def open_text(path, mode="rt"):
    path = str(path)
    return gzip.open(path, mode, encoding="utf-8") if path.endswith(".gz") else open(path, mode, encoding="utf-8")


def escape(text):
    return str(text).replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def unescape(text):
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r"}.get(m.group(1), m.group(1)), text)


class Interval:
    """A range ("+"), an operator ("o"), a call ("c" or "d") or a mark ("i") of a host thread, absolute ns."""
    __slots__ = ("kind", "start", "end", "name", "order", "result", "operations")

    def __init__(self, kind, start, end, name, order, result=0):
        self.kind, self.start, self.end, self.name, self.order, self.result = kind, start, end, name, order, result
        self.operations = []


class Operation:
    """kind: "k", "m" or "z". stream: (device, context, id). facts: the fields between the stream and MORE."""
    __slots__ = ("kind", "start", "end", "stream", "name", "facts", "more")

    def __init__(self, kind, start, end, stream, name, facts, more=()):
        self.kind, self.start, self.end, self.stream, self.name = kind, start, end, stream, name
        self.facts, self.more = tuple(facts), list(more)


class Writer:
    """Collects a recording with its own absolute times, and writes it with times from its begin."""

    def __init__(self, origin):
        self.origin = origin
        self.devices = {}
        self.threads = {}     # key -> [tid, name, [Interval]]
        self.unlaunched = []  # operations whose call is not in the recording
        self.boundaries = []  # (time, number, name) ends of steps
        self.stepper = None
        self.left = {}

    def leave(self, what, count=1):
        if count:
            self.left[what] = self.left.get(what, 0) + count

    def thread(self, key, tid, name=""):
        return self.threads.setdefault(key, [tid, name, []])

    def steps(self, key, intervals):
        """intervals: (start, end, number, name) of the steps of one thread. What lies between two belongs to the later one,
        what lies before the first or after the last has a step of its own."""
        intervals = sorted(intervals)
        if not intervals:
            return
        self.stepper = key
        starts = [i.start for t in self.threads.values() for i in t[2]]
        if min(starts) < intervals[0][0]:
            self.boundaries.append((intervals[0][0], BEFORE, "before the first step"))
        self.boundaries += [(end, number, name) for _, end, number, name in intervals]
        last = max([i.end for t in self.threads.values() for i in t[2]])
        if max(starts) >= intervals[-1][1]:
            self.boundaries.append((last + 1, AFTER, "after the last step"))

    def sequence(self, intervals):
        """The thread's lines in order: ("+", interval), ("-", time), ("c", interval), ("=", ordinal). Ranges that cross
        are closed with what is around them, and counted."""
        rank = {"+": 0, "o": 0, "c": 1, "d": 1, "i": 2}
        result, stack, boundary = [], [], 0

        def pass_boundaries(time, closing):
            nonlocal boundary
            while boundary < len(self.boundaries) and (self.boundaries[boundary][0] < time or
                                                       (not closing and self.boundaries[boundary][0] == time)):
                boundary += 1
                result.append(("=", boundary))

        def close(time):
            pass_boundaries(time, True)
            stack.pop()
            result.append(("-", time))

        for item in sorted(intervals, key=lambda i: (i.start, -i.end, rank[i.kind], i.order)):
            # At the same instant a range has ended, but for what fits into it: something without a duration.
            while stack and (stack[-1].end < item.start or (stack[-1].end == item.start and item.end > item.start)):
                close(stack[-1].end)
            pass_boundaries(item.start, False)
            result.append((item.kind, item))
            if item.kind in "+o":
                if stack and stack[-1].end < item.end:
                    self.leave("ns at the ends of ranges that cross those around them", item.end - stack[-1].end)
                    item.end = stack[-1].end
                stack.append(item)
        while stack:
            close(stack[-1].end)
        pass_boundaries(1 << 62, True)
        return result

    def write(self, path):
        launches = [o for t in self.threads.values() for i in t[2] for o in i.operations]
        operations = launches + self.unlaunched
        if self.unlaunched:
            thread = self.thread(None, 0, "launches that are not in the recording")
            calls = {"k": "cuLaunchKernel", "m": "cuMemcpyAsync", "z": "cuMemsetD8Async"}
            for number, operation in enumerate(sorted(self.unlaunched, key=lambda o: o.start)):
                call = Interval("d", operation.start, operation.start, calls[operation.kind], number)
                call.operations = [operation]
                thread[2].append(call)
        begin = min([i.start for t in self.threads.values() for i in t[2]] + [o.start for o in operations])
        out, strings, streams = [], {}, {}

        def string(text):
            return strings.setdefault(text, len(strings) + 1)

        def operation_line(o):
            stream = streams.setdefault(o.stream, len(streams) + 1)
            head = [o.kind, o.start - begin, o.end - o.start] + ([string(o.name)] if o.kind == "k" else [])
            more = [f"q={value - begin}" if key == "q" else f"{key}={value}" for key, value in o.more]
            return " ".join(map(str, head + [stream, *o.facts] + more))

        keys = sorted(self.threads, key=lambda k: (k is None, -len(self.threads[k][2])))
        for index, key in enumerate(keys, 1):
            out.append(f"@ {index}")
            for kind, item in self.sequence(self.threads[key][2]):
                if kind == "=":
                    out.append(f"= {item}")
                elif kind == "-":
                    out.append(f"- {item - begin}")
                elif kind in "cd":
                    out.append(f"{kind} {item.start - begin} {item.end - begin} {string(item.name)} {item.result}")
                    out += [operation_line(o) for o in item.operations]
                else:
                    out.append(f"{kind} {item.start - begin} {string(item.name)}")
        head = ["profd timeline 1", f"origin {escape(self.origin)}"]
        head += [f"left {count} {escape(what)}" for what, count in sorted(self.left.items())]
        for device in sorted({s[0] for s in streams}):
            head.append(f"device {device} {escape(self.devices.get(device, 'unknown'))}")
        head += [f"stream {i} {d} {c} {s}" for (d, c, s), i in streams.items()]
        head += [f"thread {i} {self.threads[k][0]} {escape(self.threads[k][1])}" for i, k in enumerate(keys, 1)]
        head += [f"step {i} {time - begin} {number} {escape(name)}"
                 for i, (time, number, name) in enumerate(self.boundaries, 1)]
        if self.boundaries:
            head.append(f"stepper {keys.index(self.stepper) + 1}")
        head += [f"s {i} {escape(text)}" for text, i in strings.items()]
        data = ("\n".join(head + out) + "\n").encode()
        if str(path).endswith(".gz"):
            with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as file:
                file.write(data)
        else:
            with open(path, "wb") as file:
                file.write(data)

    def report(self, path):
        count = {kind: sum(o.kind == kind for t in self.threads.values() for i in t[2] for o in i.operations) for kind in "kmz"}
        yield f"{path}: {len(self.threads)} threads, {len(self.boundaries)} steps, {count['k']} kernels, {count['m']} copies, " \
              f"{count['z']} sets"
        for what, number in sorted(self.left.items()):
            yield f"  left out: {number} {what}"


def convert_command(arguments, usage, convert):
    """The converters' main: RECORDING TIMELINE; says what came over and what did not."""
    if len(arguments) != 2:
        print(usage.splitlines()[0], file=sys.stderr)
        return 2
    writer = convert(arguments[0], Writer(pathlib.Path(arguments[0]).name))
    writer.write(arguments[1])
    print("\n".join(writer.report(arguments[1])))
    return 0


class Thread:
    """A host thread of a timeline that was read. items: dicts with kind, start, end, name and, of calls, operations."""

    def __init__(self, tid, name):
        self.tid, self.name, self.items = tid, name, []


class Timeline:
    """A timeline that was read; indices are the file's."""

    def __init__(self, path):
        self.origin, self.left, self.devices, self.streams, self.threads, self.steps = "", {}, {}, {}, {}, []
        strings, thread = {}, None
        with open_text(path) as file:
            if next(file) != "profd timeline 1\n":
                raise ValueError(f"{path} is no timeline")
            for line in file:
                kind, _, rest = line.rstrip("\n").partition(" ")
                words = rest.split(" ")
                if kind in "kmz":
                    thread.items[-1]["operations"].append(self.operation(kind, words, strings))
                elif kind == "@":
                    thread = self.threads[int(rest)]
                elif kind == "=":
                    thread.items.append({"kind": "=", "step": int(rest)})
                elif kind == "-":
                    thread.items.append({"kind": "-", "start": int(rest)})
                elif kind in ("+", "o", "i"):
                    thread.items.append({"kind": kind, "start": int(words[0]), "name": strings[int(words[1])]})
                elif kind in ("c", "d"):
                    thread.items.append({"kind": kind, "start": int(words[0]), "end": int(words[1]),
                                         "name": strings[int(words[2])], "result": int(words[3]), "operations": []})
                elif kind == "s":
                    strings[int(words[0])] = unescape(rest.partition(" ")[2])
                elif kind == "stream":
                    self.streams[int(words[0])] = tuple(map(int, words[1:]))
                elif kind == "thread":
                    self.threads[int(words[0])] = Thread(int(words[1]), unescape(" ".join(words[2:])))
                elif kind == "step":
                    self.steps.append((int(words[1]), int(words[2]), unescape(" ".join(words[3:]))))
                elif kind == "device":
                    self.devices[int(words[0])] = unescape(" ".join(words[1:]))
                elif kind == "left":
                    self.left[unescape(" ".join(words[1:]))] = int(words[0])
                elif kind == "origin":
                    self.origin = unescape(rest)

    def operation(self, kind, words, strings):
        """A dict: kind, start, duration, device, context, stream and what the kind has."""
        more = dict(w.split("=", 1) for w in words if "=" in w)
        words = [int(w) for w in words if "=" not in w]
        result = {"kind": kind, "start": words.pop(0), "duration": words.pop(0), "graph": None}
        if kind == "k":
            result["name"] = strings[words.pop(0)]
        result["device"], result["context"], result["stream"] = self.streams[words.pop(0)]
        names = {"k": ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "static_shared",
                       "dynamic_shared"),
                 "m": ("bytes", "copy_kind", "source_kind", "target_kind"), "z": ("bytes", "target_kind")}[kind]
        result.update(zip(names, words))
        result["peers"] = tuple(map(int, more["p"].split("/"))) if "p" in more else ()
        if "g" in more:
            result["graph"] = tuple(map(int, more["g"].split("/")))
        return result
