"""The breakdown of a timeline, from border to border: slow, and by the definitions (docs/breakdown.md) without any of the ways of
store/breakdown/, so that it can judge it. Between two borders (something begins or ends) nothing changes, so an instant of each stretch tells
what it is. All that is looked at for an instant is what covers it."""
import bisect
import collections
import json
import re
import subprocess

ARRIVAL = 10000
SLACK = 5000
BLOCK = 48  # so many stretches at once are looked at beside what reaches into them
DOING = ["torch_compile", "compile", "garbage", "capture", "sync", "copy", "alloc", "setup", "comm", "launch", "call", "op", "outside"]
PHASE = [None, "input", "forward", "backward", "optimizer", "zero_grad", "validation", "test", "evaluation", "inference"]
KEEPERS = ("input", "validation", "test", "evaluation", "inference")
ROWS = ["compute", "communication", "copies"]
COMPILES = ("torch_compile", "compile")
HELD = ("compile", "garbage", "capture", "sync", "copy", "alloc", "setup", "comm")


class Thread:
    """What a thread does: stretches (start, end, phase, doing), each unlike the one before it. `given` is its number of anything that has a length."""

    def __init__(self, thread, timeline):
        self.spans = [s for s in timeline["spans"] if s[0] == thread and s[1] < s[2]]
        self.marks = [m for m in timeline["marks"] if m[0] == thread and m[1] < m[2]]
        self.given = len(self.spans) + len(self.marks)
        borders = sorted({time for item in self.spans + self.marks for time in item[1:3]})
        self.stretches = []
        for block in blocks(borders):
            near = Near(block, self.spans, self.marks)
            for time, until in zip(block, block[1:]):
                what = near.at(time)
                if self.stretches and self.stretches[-1][1] == time and self.stretches[-1][2:] == what:
                    self.stretches[-1] = (self.stretches[-1][0], until, *what)
                else:
                    self.stretches.append((time, until, *what))
        self.starts = [s[0] for s in self.stretches]

    def at(self, time):
        """(phase, doing) at an instant."""
        index = bisect.bisect_right(self.starts, time) - 1
        return self.stretches[index][2:] if index >= 0 and time < self.stretches[index][1] else (None, "outside")


class Near:
    """What of a thread's reaches into a block."""

    def __init__(self, block, spans, marks):
        self.spans = [s for s in spans if s[1] < block[-1] and s[2] > block[0]]
        self.marks = [m for m in marks if m[1] < block[-1] and m[2] > block[0]]

    def at(self, time):
        doing = [s[3] for s in self.spans if s[1] <= time < s[2]]
        marks = [m for m in self.marks if m[1] <= time < m[2]]
        keeping = {PHASE[m[3]] for m in marks} & set(KEEPERS)
        if keeping:
            phase = min(keeping, key=KEEPERS.index)
        elif marks:
            # The one that began last; of those that began together the one that ends first.
            phase = PHASE[max(marks, key=lambda m: (m[1], -m[2], m[3]))[3]]
        else:
            phase = None
        return phase, DOING[min(doing)] if doing else "outside"


def blocks(borders):
    return [borders[i:i + BLOCK + 1] for i in range(0, len(borders), BLOCK)]


def threads_of(timeline):
    numbers = {item[0] for item in timeline["spans"] + timeline["marks"]} | {timeline["thread"]}
    return {number: Thread(number, timeline) for number in numbers}


def row_of(doing):
    return "compile" if doing in COMPILES else doing


def host_row(time, timeline, threads, step):
    if time >= step[2]:
        return "between_steps"
    thread = threads[timeline["thread"]]
    phase, doing = thread.at(time)
    if phase == "input" and doing != "garbage":
        return "input"
    if row_of(doing) in HELD:
        return row_of(doing)
    if phase:
        return phase
    if doing != "outside":
        return "operators"
    return "outside" if timeline["operators"] and thread.given else "unknown"


def host_side(step, timeline, threads):
    rows = collections.Counter()
    thread = threads[timeline["thread"]]
    borders = sorted({time for s in thread.stretches for time in s[:2] if step[0] < time < step[1]} | {step[0], step[1], min(max(step[0], step[2]), step[1])})
    for time, until in zip(borders, borders[1:]):
        rows[host_row(time, timeline, threads, step)] += until - time
    return dict(rows)


def late_row(time, launcher, timeline, threads):
    launching, stepping = threads.get(launcher), threads[timeline["thread"]]
    phase, doing = launching.at(time) if launching else (None, "outside")
    if doing == "outside" and phase != "input":
        phase, doing = stepping.at(time)
    if phase == "input" and doing != "garbage":
        return "input"
    known = timeline["operators"] and (stepping.given or (launching and launching.given))
    return "unknown" if doing == "outside" and not known else row_of(doing)


class Device:
    """The operations of a device in their order, and what a launch had started before."""

    def __init__(self, device, timeline, threads):
        self.timeline, self.threads = timeline, threads
        self.operations = sorted((o for o in timeline["ops"] if o[2] == device), key=lambda o: (o[0], o[1], o[5] if o[5] >= 0 else 1 << 60, o[3], o[4]))
        self.starts = [o[0] for o in self.operations]
        self.first = {}
        for operation in reversed(self.operations):
            self.first[operation[5]] = operation[0]
        self.begins = min([self.starts[0]] + [s[0] for s in timeline["steps"][:1]])
        self.call_starts = sorted(c[0] for c in timeline["calls"])
        self.tagged = {}

    def queued(self, following):
        return following[5] >= 0 and self.first[following[5]] < following[0]

    def idle_row(self, time, dry, following):
        """Why the device is idle at `time`, where it ran dry at `dry` and `following` is its next operation."""
        if time < self.timeline.get("known", 0):
            return "unknown"
        if following is None:
            return late_row(time, None, self.timeline, self.threads)
        start, _, _, _, before, index = following
        call = self.timeline["calls"][index] if index >= 0 else None
        if before or self.queued(following) or (call is not None and call[1] <= dry):
            return "gap" if start - dry <= ARRIVAL else "device_wait"
        if call is None:
            return "unknown"
        if time < call[0]:
            return late_row(time, call[2], self.timeline, self.threads)
        if call[3]:
            return "copy"
        if time < call[1]:
            doing = self.threads[call[2]].at(time)[1] if call[2] in self.threads else "outside"
            return row_of(doing) if row_of(doing) in HELD else "launch"
        return "arrival" if time < max(call[1], dry) + ARRIVAL else "device_wait"

    def after_sync(self, dry, following):
        """Did the device run dry inside of a wait, after which nothing was launched before the call of `following`?"""
        start, _, _, _, before, index = following
        if before or index < 0:
            return False
        call = self.timeline["calls"][index]
        if call[0] <= dry or self.queued(following):
            return False
        for thread in (call[2], self.timeline["thread"]):
            # A wait is a stretch in which nothing stronger hides it.
            for begun, ended, _, doing in self.threads[thread].stretches if thread in self.threads else []:
                if doing in ("sync", "copy") and begun <= dry <= ended + SLACK:
                    if bisect.bisect_left(self.call_starts, ended) >= bisect.bisect_left(self.call_starts, call[0]):
                        return True
        return False

    def borders(self, step):
        times = {time for o in self.operations for time in (o[0], o[1], o[1] + ARRIVAL, o[0] + ARRIVAL)}
        times |= {time for c in self.timeline["calls"] for time in (c[0], c[1], c[1] + ARRIVAL)}
        times |= {time for thread in self.threads.values() for s in thread.stretches for time in s[:2]}
        times |= {self.begins, self.begins + ARRIVAL, self.timeline.get("known", 0)}
        return sorted({time for time in times if step[0] < time < step[1]} | set(step[:2]))

    def side(self, step):
        rows, idle, hidden, tagged = collections.Counter(), collections.Counter(), [0, 0], 0
        for block in blocks(self.borders(step)):
            near = [o for o in self.operations[:bisect.bisect_left(self.starts, block[-1])] if o[1] >= block[0] or o[0] >= block[0]]
            # Operations without length bound idle intervals too.
            dried = max([max(o[:2]) for o in self.operations[:bisect.bisect_left(self.starts, block[0])] if o[1] <= block[0]], default=self.begins)
            for time, until in zip(block, block[1:]):
                length = until - time
                open_ = {ROWS[o[3]] for o in near if o[0] <= time < o[1]}
                row = next((r for r in ROWS if r in open_), "idle")
                rows[row] += length
                hidden[0] += length if "communication" in open_ and row != "communication" else 0
                hidden[1] += length if "copies" in open_ and row != "copies" else 0
                if row != "idle":
                    continue
                dry = max([o[1] for o in near if o[1] <= time] + [o[0] for o in near if o[0] <= time] + [dried, self.begins])
                place = bisect.bisect_right(self.starts, time)
                following = self.operations[place] if place < len(self.operations) else None
                idle[self.idle_row(time, dry, following)] += length
                if following is not None:
                    if (dry, place) not in self.tagged:
                        self.tagged[dry, place] = self.after_sync(dry, following)
                    tagged += length if self.tagged[dry, place] else 0
        return {"device": self.operations[0][2], "rows": dict(rows), "hidden": hidden, "idle": dict(idle), "after_sync": tagged}


def withdrawn(side):
    """The records do not suffice to tell causes."""
    idle = {"unknown": side["rows"]["idle"]} if side["rows"].get("idle") else {}
    return {**side, "idle": idle, "after_sync": 0}


def breakdown(timeline):
    threads = threads_of(timeline)
    devices = [Device(device, timeline, threads) for device in sorted({o[2] for o in timeline["ops"]})]
    found = []
    for step in timeline["steps"]:
        sides = [device.side(step) for device in devices]
        found.append({"host": host_side(step, timeline, threads), "devices": [withdrawn(s) for s in sides] if timeline.get("doubt") else sides})
    return found


def text(timeline):
    """What tests/e2e/breakdown_rows.c reads."""
    lines = [f"thread {timeline['thread']} {int(timeline['operators'])}"]
    for word in ("step", "span", "mark", "call", "op"):
        lines += [" ".join([word, *(str(int(v)) for v in item)]) for item in timeline[word + "s"]]
    return "\n".join([*lines, "end"]) + "\n"


def read(words):
    """The timeline that breakdown_rows prints of a capture file."""
    timeline = {"steps": [], "spans": [], "marks": [], "calls": [], "ops": []}
    for line in words.splitlines():
        word, *values = line.split()
        values = tuple(map(int, values))
        if word == "thread":
            timeline["thread"], timeline["operators"] = values[0], bool(values[1])
        elif word in ("known", "doubt"):
            timeline[word] = values[0]
        elif word != "end":
            timeline[word + "s"].append(values)
    return timeline


COMMUNICATES = re.compile(r"ncclKernel|ncclDevKernel|nccl_Kernel|rcclKernel|rcclDevKernel|rccl_main_kernel|ncclBcast|ncclAllReduce|multimem_|one_shot_all_reduce|"
                          r"two_shot_all_reduce|cross_device_reduce|nvshmem|^nccl.*Kernel")


def operations_of(db):
    """[(start, end, device, row, before, call: (start, end, thread) or None)] of a capture file's records, sorted."""
    names = dict(db.execute("SELECT id, text FROM strings"))
    plain = dict(db.execute("SELECT mangled, name FROM kernel_names"))
    calls = {row: (start, start + max(duration, 0), thread) for row, start, duration, thread in db.execute("SELECT rowid, start, duration, thread FROM api_calls")}
    launches = {row[0]: row[1:] for row in db.execute("SELECT correlation, api, step FROM launches")}
    found = []
    for table, row in (("kernel_records", 0), ("graph_records", 0), ("copy_records", 2), ("set_records", 2)):
        name = "name" if table == "kernel_records" else "0"
        for start, duration, device, correlation, name in db.execute(f"SELECT start, duration, device, correlation, {name} FROM {table}"):
            if start is None:
                continue
            api, step = launches.get(correlation, (None, None))
            text = names.get(plain.get(name, name)) or ""
            found.append((start, start + max(duration, 0), device, 1 if COMMUNICATES.search(text) else row, int(api is None and step is None), calls.get(api)))
    return sorted(found, key=repr)


def judge(rows, path, db, walls, most):
    """Compares what profd finds in a capture file, whose steps last as long as `walls`, with what is found here, row by row, if `most` things at most
    are in it; returns how many steps. Of what records mean profd's word is taken for what threads do (operators, ranges, calls), not for what devices
    did."""
    done = subprocess.run([rows, path], capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 0, (path, done.returncode, done.stderr)
    words, _, got = done.stdout.rpartition("end\n")
    timeline = read(words)
    if sum(len(timeline[word]) for word in ("steps", "spans", "marks", "calls", "ops")) > most:
        return 0
    assert [end - start for start, end, _ in timeline["steps"]] == walls, path
    told = [(*o[:5], timeline["calls"][o[5]][:3] if o[5] >= 0 else None) for o in timeline["ops"]]
    assert sorted(told, key=repr) == (operations_of(db) if told else []), path
    for step, (ours, theirs) in enumerate(zip(json.loads(got), breakdown(timeline), strict=True), 1):
        assert ours == theirs, (path, step, ours, theirs)
    return len(timeline["steps"])
