"""The breakdown of a timeline, instant by instant: slow, and by the definitions (docs/breakdown.md) without any of
the ways of store/breakdown/, so that it can judge it. All times are multiples of UNIT ns: within a unit nothing changes."""
UNIT = 1000
ARRIVAL = 10000
SLACK = 5000
DOING = ["torch_compile", "compile", "garbage", "capture", "sync", "copy", "alloc", "setup", "comm", "launch", "call", "op", "outside"]
PHASE = [None, "input", "forward", "backward", "optimizer", "zero_grad", "validation", "test", "evaluation", "inference"]
KEEPERS = ("input", "validation", "test", "evaluation", "inference")
ROWS = ["compute", "communication", "copies"]
COMPILES = ("torch_compile", "compile")
HELD = ("compile", "garbage", "capture", "sync", "copy", "alloc", "setup", "comm")


def at(time, thread, timeline):
    """(phase, doing) of a thread at an instant."""
    doing = [s[3] for s in timeline["spans"] if s[0] == thread and s[1] <= time < s[2]]
    marks = [m for m in timeline["marks"] if m[0] == thread and m[1] <= time < m[2]]
    keeping = {PHASE[m[3]] for m in marks} & set(KEEPERS)
    if keeping:
        phase = min(keeping, key=KEEPERS.index)
    elif marks:
        # The one that began last; of those that began together the one that ends first.
        phase = PHASE[max(marks, key=lambda m: (m[1], -m[2], m[3]))[3]]
    else:
        phase = None
    return phase, DOING[min(doing)] if doing else "outside"


def row_of(doing):
    return "compile" if doing in COMPILES else doing


def known_threads(timeline):
    return {s[0] for s in timeline["spans"] + timeline["marks"] if s[1] < s[2]}


def host_row(time, timeline, step):
    if time >= step[2]:
        return "between_steps"
    phase, doing = at(time, timeline["thread"], timeline)
    if phase == "input" and doing != "garbage":
        return "input"
    if row_of(doing) in HELD:
        return row_of(doing)
    if phase:
        return phase
    if doing != "outside":
        return "operators"
    return "outside" if timeline["operators"] and timeline["thread"] in known_threads(timeline) else "unknown"


def late_row(time, launcher, timeline):
    threads = known_threads(timeline)
    phase, doing = at(time, launcher, timeline) if launcher is not None else (None, "outside")
    if doing == "outside" and phase != "input":
        phase, doing = at(time, timeline["thread"], timeline)
    if phase == "input" and doing != "garbage":
        return "input"
    known = timeline["operators"] and (launcher in threads or timeline["thread"] in threads)
    return "unknown" if doing == "outside" and not known else row_of(doing)


def idle_row(time, dry, following, timeline, operations):
    """Why the device is idle at `time`, where it ran dry at `dry` and `following` is its next operation."""
    if following is None:
        return late_row(time, None, timeline)
    start, _, _, _, before, index = following
    call = timeline["calls"][index] if index >= 0 else None
    queued = call is not None and any(o[5] == index and o[0] < start for o in operations)
    if before or queued or (call is not None and call[1] <= dry):
        return "gap" if start - dry <= ARRIVAL else "device_wait"
    if call is None:
        return "unknown"
    if time < call[0]:
        return late_row(time, call[2], timeline)
    if call[3]:
        return "copy"
    if time < call[1]:
        doing = at(time, call[2], timeline)[1]
        return row_of(doing) if row_of(doing) in HELD else "launch"
    returned = max(call[1], dry)
    return "arrival" if time < returned + ARRIVAL else "device_wait"


def after_sync(dry, following, timeline, operations):
    """Did the device run dry inside of a wait, after which nothing was launched before the call of `following`?"""
    start, _, _, _, before, index = following
    if before or index < 0:
        return False
    call = timeline["calls"][index]
    if call[0] <= dry or any(o[5] == index and o[0] < start for o in operations):
        return False
    for thread in (call[2], timeline["thread"]):
        # A wait is a stretch in which nothing stronger hides it.
        times = range(0, timeline["end"] + UNIT, UNIT)
        kinds = [at(t, thread, timeline) for t in times]
        from_ = 0
        while from_ < len(kinds):
            to = from_
            while to < len(kinds) and kinds[to] == kinds[from_]:
                to += 1
            begun, ended = times[from_], times[from_] + (to - from_) * UNIT
            if kinds[from_][1] in ("sync", "copy") and begun <= dry <= ended + SLACK:
                if not any(ended <= c[0] < call[0] for c in timeline["calls"]):
                    return True
            from_ = to
    return False


def device_side(device, step, timeline):
    operations = sorted((o for o in timeline["ops"] if o[2] == device), key=lambda o: (o[0], o[1], o[5] if o[5] >= 0 else 1 << 60, o[3], o[4]))
    rows, idle, hidden, tagged = {}, {}, [0, 0], 0
    begins = min([operations[0][0]] + [s[0] for s in timeline["steps"][:1]])
    for time in range(step[0], step[1], UNIT):
        open_ = {ROWS[o[3]] for o in operations if o[0] <= time < o[1]}
        row = next((r for r in ROWS if r in open_), "idle")
        rows[row] = rows.get(row, 0) + UNIT
        hidden[0] += UNIT if "communication" in open_ and row != "communication" else 0
        hidden[1] += UNIT if "copies" in open_ and row != "copies" else 0
        if row != "idle":
            continue
        # Operations without length bound idle intervals too.
        dry = max([o[1] for o in operations if o[1] <= time] + [o[0] for o in operations if o[0] <= time] + [begins])
        following = next((o for o in operations if o[0] > time), None)
        why = idle_row(time, dry, following, timeline, operations)
        idle[why] = idle.get(why, 0) + UNIT
        if following is not None and after_sync(dry, following, timeline, operations):
            tagged += UNIT
    return {"device": device, "rows": rows, "hidden": hidden, "idle": idle, "after_sync": tagged}


def breakdown(timeline):
    found = []
    for step in timeline["steps"]:
        host = {}
        for time in range(step[0], step[1], UNIT):
            row = host_row(time, timeline, step)
            host[row] = host.get(row, 0) + UNIT
        devices = sorted({o[2] for o in timeline["ops"]})
        found.append({"host": host, "devices": [device_side(d, step, timeline) for d in devices]})
    return found


def text(timeline):
    """What tests/e2e/breakdown_rows.c reads."""
    lines = [f"thread {timeline['thread']} {int(timeline['operators'])}"]
    for word in ("step", "span", "mark", "call", "op"):
        lines += [" ".join([word, *(str(int(v)) for v in item)]) for item in timeline[word + "s"]]
    return "\n".join([*lines, "end"]) + "\n"
