"""Every number in the evidence of a capture's findings, found again in the capture file by SQL: counts, times, shares, the longest.

check(capture) reads the records, and the causes of idle time from `profd show --by idle` (tests/e2e/breakdown_reference.py judges these). What of that
is a finding's, and what is told of it, is worked out here a second time, slowly, by docs/findings.md alone. No sentence of the evidence may be left over."""
import bisect
import collections
import contextlib
import csv
import io
import os
import re
import sqlite3
import statistics
import subprocess

from house import BUILD

MS = 1_000_000
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
LATE = {"op": "the host is in operators", "launch": "the host launches", "call": "the host is in another call",
        "outside": "the host is outside of operators", "arrival": "on the way to the device", "comm": "the host prepares a collective"}
OWN = {"input": "input", "sync": "sync", "copy": "pageable_copy", "alloc": "allocation", "compile": "compilation", "garbage": "garbage_collection", "setup": "setup",
       "capture": "capture", "gap": "small_kernels"}
PER_TENSOR = {"aten::" + name for name in ("add_", "addcmul_", "addcdiv_", "mul_", "lerp_", "sqrt", "div", "add", "addcmul", "addcdiv", "mul", "zero_",
                                           "sub_", "copy_")}
COLLECTIVE = re.compile(r"ncclKernel|ncclDevKernel|nccl_Kernel|rcclKernel|rcclDevKernel|rccl_main_kernel|ncclBcast|ncclAllReduce|multimem_|"
                        r"(one|two)_shot_all_reduce|cross_device_reduce|nvshmem|^nccl.*Kernel")
WAIT = re.compile(r"^(cu|hip).*Synchronize|^(cuda|cu|hip)Memcpy")
TIME, NUMBER, PER, OF = r"([\d.]+ (?:ns|us|ms|s))", r"([\d.]+)", r" (?:a step|in the window)", r" of (?:a step|the window)"
IN_STEPS = r" in (?:the window|(\d+) steps?)"


def near(printed, value):
    """As it was rounded."""
    decimals = len(printed.partition(".")[2])
    assert abs(float(printed) - value) <= 0.5 * 10 ** -decimals + 1e-6 * max(1, abs(value)), (printed, value)


def near_count(printed, value):
    """Whole ones as such."""
    near(printed, value)
    assert ("." in printed) == (value != int(value) and value < 100), (printed, value)


def near_time(printed, ns):
    number, unit = printed.split()
    near(number, ns / UNITS[unit])


class File:
    """A capture, its judged steps, and what is claimed of them."""

    def __init__(self, path):
        self.path = path
        with contextlib.closing(sqlite3.connect(path)) as db:
            self.rows = lambda sql, *values: db.execute(sql, values).fetchall()
            self.read()

    def read(self):
        rows = self.rows
        self.meta = dict(rows("SELECT key, value FROM meta"))
        self.strings = dict(rows("SELECT id, text FROM strings"))
        self.short = dict(rows("SELECT mangled, short FROM kernel_names"))
        self.steps = [(start, start + duration) for start, duration in rows("SELECT start, duration FROM steps ORDER BY start")]
        self.thread, source = rows("SELECT thread, source FROM steps ORDER BY start LIMIT 1")[0]
        self.window = source == 5
        if self.window:
            self.thread = self.thread_of_window()
        self.findings = [dict(zip(("number", "finding", "device", "step", "ns", "subject", "what", "evidence", "sql", "intervals"), row)) for row in
                         rows("SELECT number, finding, device, step, ns, subject, what, evidence, sql, intervals FROM findings ORDER BY number")]
        self.breakdown = {}
        for step, side, device, row, ns in rows("SELECT step, side, device, row, ns FROM breakdown"):
            self.breakdown[step - 1, side, device, row] = ns
        self.device = self.meta["verdict_device"]
        self.judged = self.find_judged()
        self.calls = {row[0]: row[1:] for row in rows("SELECT rowid, start, start + duration, thread, name FROM api_calls")}
        self.launch = {row[0]: row[1] for row in rows("SELECT correlation, api FROM launches")}
        self.operations = self.find_operations()
        self.spans = {}
        for thread, start, end, name in rows("SELECT thread, start, start + duration, name FROM operators WHERE NOT flags & 2 UNION ALL "
                                             "SELECT thread, start, start + duration, name FROM api_calls"):
            self.spans.setdefault(thread, []).append((start, end, self.strings.get(name, "")))
        for spans in self.spans.values():
            spans.sort(key=lambda span: (span[0], -span[1]))
        self.samples = rows("SELECT s.time, s.thread, s.duration, f.file, f.line FROM samples s JOIN stack_lines l ON l.stack = s.stack JOIN stacks f "
                            "ON f.id = l.frame WHERE f.file IS NOT NULL")
        self.intervals = {}
        for number, start, duration, thread in rows("SELECT finding, start, duration, thread FROM finding_intervals"):
            self.intervals.setdefault(number, []).append((start, start + duration, thread))
        self.claims, self.late, self.input, self.input_after = {}, {}, 0, 0
        if self.device >= 0 and self.findings:
            self.walk()
        for finding in self.findings:
            self.check(finding)

    # --- steps ---

    def find_judged(self):
        first, last, judged = (self.meta[key] for key in ("verdict_first", "verdict_last", "verdict_steps"))
        unusual = [i for i in range(first, last) if any(self.breakdown.get((i, side, None, row)) for side, row in (
            ("host", "validation"), ("host", "test"), ("host", "evaluation"), ("host", "inference"), ("beside", "torch_compile")))]
        left = last - first - judged
        by_length = sorted(range(first, last), key=lambda i: self.steps[i][1] - self.steps[i][0], reverse=True)
        out = (unusual if len(unusual) <= left else []) + [i for i in by_length if i not in unusual or len(unusual) > left]
        kept = sorted(set(range(first, last)) - set(out[:left]))
        walls = [self.steps[i][1] - self.steps[i][0] for i in kept]
        if walls:
            assert abs(statistics.median(walls) - self.meta["verdict_step"]) <= 1 and len(kept) == judged, (kept, self.meta)
        return kept

    def parts(self, start, end, of=None):
        """What of it lies in judged steps."""
        at = max(0, bisect.bisect_right(self.steps, (start, 1 << 62)) - 1)
        for i in range(at, len(self.steps)):
            if self.steps[i][0] >= end:
                break
            low, high = max(start, self.steps[i][0]), min(end, self.steps[i][1])
            if high > low and i in self.judged_set:
                yield i, low, high

    @property
    def judged_set(self):
        if not hasattr(self, "_judged"):
            self._judged = set(self.judged)
        return self._judged

    def step_at(self, time):
        at = bisect.bisect_right(self.steps, (time, 1 << 62)) - 1
        return at if at >= 0 and time < self.steps[at][1] else None

    # --- what the device did ---

    def find_operations(self):
        found = []
        devices = {row[0]: row[1:] for row in self.rows("SELECT id, multiprocessors, capability_major FROM devices")}
        for table, columns in (("kernel", "name, grid_x * grid_y * grid_z"), ("graph", "NULL, NULL"), ("copy", "source_kind, target_kind"),
                               ("set", "NULL, NULL")):
            for start, duration, device, correlation, a, b in self.rows(
                    f"SELECT start, duration, device, correlation, {columns} FROM {table}_records WHERE start IS NOT NULL"):
                if device != self.device:
                    continue
                one = {"start": start, "end": start + duration, "what": table, "call": self.calls.get(self.launch.get(correlation)), "kind": "plain"}
                if table == "kernel":
                    one["name"] = a
                    text = self.strings.get(self.short.get(a, a), "")
                    sms, major = devices.get(device, (0, 0))
                    if COLLECTIVE.search(text) or COLLECTIVE.search(self.strings.get(a, "")):
                        one["kind"] = "collective"
                    elif major and major >= 7 and slow(self.strings.get(a, "")):
                        one["kind"] = "slow"
                    elif b and sms and b * 2 <= sms:
                        one.update(kind="few", fill=b / sms)
                elif table == "copy":
                    call = self.strings.get(one["call"][3], "") if one["call"] else ""
                    one["kind"] = "blocking" if one["call"] and (1 in (a, b) or blocks(call)) else "copy"
                elif table == "set":
                    one["kind"] = "copy"
                found.append(one)
        return sorted(found, key=lambda one: (one["start"], one["end"]))

    def begun(self, *kinds):
        """Operations that begin in judged steps."""
        return [one for one in self.operations if self.step_at(one["start"]) in self.judged_set and (not kinds or one["kind"] in kinds)]

    # --- what of idle time is claimed ---

    def idle(self):
        """Idle intervals: lists of (start, end, row, after a wait, thread)."""
        pieces = []
        for step in ("",) if len(self.steps) == 1 else range(1, len(self.steps) + 1):
            done = subprocess.run([BUILD / "bin" / "profd", "show", self.path, "--by", "idle", "--format", "csv", *(["--step", str(step)] if step else [])],
                                  capture_output=True, text=True, check=True, env={**os.environ, "NO_COLOR": "1"}, timeout=120)
            pieces += [(int(row["start_ns"]), int(row["end_ns"]), row["row"], bool(row["after_sync"]), int(row["thread"]))
                       for row in csv.DictReader(io.StringIO(done.stdout)) if int(row["device"]) == self.device]
        ends = sorted({one["start"] for one in self.operations})
        found = []
        for piece in sorted(set(pieces)):
            cut = found and bisect.bisect_right(ends, found[-1][-1][1]) - bisect.bisect_left(ends, piece[0])
            if found and found[-1][-1][1] == piece[0] and not cut:
                found[-1].append(piece)
            else:
                found.append([piece])
        return found

    def wait_of(self, dry, thread, following):
        """When the wait began in which the device ran dry, and where."""
        for of in dict.fromkeys((thread, self.thread)):
            for start, end, whose, name in self.calls.values():
                if whose == of and start <= dry <= end + 5000 and WAIT.match(self.strings.get(name, "")):
                    return start, end, of
        return None

    def claim(self, kind, start, end, thread=None, asked=None, merge=True):
        stretches = self.claims.setdefault(kind, [])
        for _, low, high in self.parts(start, end):
            last = self.last
            if last and last["kind"] == kind and last["end"] == low and last["thread"] == thread and self.step_at(last["start"]) == self.step_at(low) \
                    and (kind != "sync" or last["asked"] == asked):
                last["end"] = high
                continue
            self.last = {"kind": kind, "start": low, "end": high, "thread": thread, "asked": asked}
            stretches.append(self.last)

    def walk(self):
        self.last, credit, wait = None, 0, None
        busy = self.busy()
        per_tensor = self.per_tensor()
        events = sorted([(pieces[0][0], "idle", pieces) for pieces in self.idle()] + [(one[0], "busy", one) for one in busy], key=lambda e: e[:2])
        for _, what, of in events:
            if what == "busy":
                kind = {"collective": "communication", "copy": "exposed_copies", "blocking": "pageable_copy", "slow": "no_tensor_cores",
                        "few": "few_blocks"}.get(of[2])
                if kind:
                    self.claim(kind, of[0], of[1])
                else:
                    self.last = None
                continue
            thread = of[0][4]
            if of[0][3]:
                found = self.wait_of(of[0][0], thread, of[-1][1])
                if found:
                    credit += max(0, of[0][0] - found[0])
                    wait = found
            at = 0
            while at < len(of):
                to = at
                while to < len(of) and of[to][2] in LATE:
                    to += 1
                if to == at:
                    start, end, row, after, _ = of[at]
                    if row == "input":
                        credit = max(0, credit - (end - start))
                        part = sum(high - low for _, low, high in self.parts(start, end))
                        self.input += part
                        self.input_after += part if after else 0
                    if row in OWN:
                        self.claim(OWN[row], start, end, self.thread if row == "input" else thread, start + (end - start) // 2 if row == "sync" else None)
                    else:
                        self.last = None
                    at += 1
                    continue
                start, end = of[at][0], of[to - 1][1]
                if credit and wait:
                    part = min(credit, end - start)
                    credit -= part
                    self.claim("sync", start, start + part, wait[2], wait[0])
                    start += part
                if end > start:
                    kind = "stall" if end - start >= MS else "launch_bound"
                    if kind == "launch_bound" and per_tensor and self.in_optimizer(start):
                        kind = "optimizer_per_tensor"
                    rows = self.late.setdefault(kind, {})
                    for piece in of[at:to]:
                        for _, low, high in self.parts(max(piece[0], start), piece[1]):
                            rows[piece[2]] = rows.get(piece[2], 0) + high - low
                    self.claim(kind, start, end, thread)
                at = to

    def busy(self):
        """(start, end, kind) of the time in which the device works: of several at once what computes, and of what computes what is not slow."""
        order = ["plain", "slow", "few", "collective", "copy", "blocking"]
        times = sorted({time for one in self.operations for time in (one["start"], one["end"])})
        found, open_, at = [], [], 0
        for low, high in zip(times, times[1:]):
            while at < len(self.operations) and self.operations[at]["start"] <= low:
                open_.append(self.operations[at])
                at += 1
            open_ = [one for one in open_ if one["end"] > low]
            if open_:
                kind = min((one["kind"] for one in open_), key=order.index)
                if found and found[-1][1] == low and found[-1][2] == kind:
                    found[-1][1] = high
                else:
                    found.append([low, high, kind])
        return found

    # --- threads ---

    def around(self, thread, time):
        """Operators and calls that are open on a thread, the outermost first."""
        spans = self.spans.get(thread, [])
        return [span for span in spans[:bisect.bisect_right(spans, (time, 1 << 62))] if span[1] > time]

    def named(self, stretch):
        """(call or operator that covers it, when that began, the outermost operator around it)."""
        middle = stretch["start"] + (stretch["end"] - stretch["start"]) // 2
        asked = stretch["asked"] if stretch["kind"] == "sync" else middle
        names = []
        for span in reversed(self.around(stretch["thread"], asked)):
            length = min(span[1], stretch["end"]) - max(span[0], stretch["start"])
            if stretch["kind"] == "sync" or length // 4 >= (stretch["end"] - stretch["start"]) // 5 and length > 0:
                if stretch["kind"] == "sync" and not names and not (WAIT.match(span[2]) or "::" in span[2]):
                    continue
                names.append(span)
        if not names:
            return "", None, ""
        outer = [span for span in names if not span[2].startswith(("cu", "hip"))]
        return names[0][2], names[0][0], outer[-1][2] if outer else ""

    def optimizers(self):
        return [(start, end) for start, end in self.rows(
            "SELECT start, start + duration FROM (SELECT start, duration, name, thread FROM ranges UNION ALL SELECT start, duration, name, thread FROM "
            "operators) r JOIN strings s ON s.id = r.name WHERE s.text GLOB 'Optimizer.step#*' AND r.thread = ? ORDER BY 1", self.thread)]

    def in_optimizer(self, time):
        return any(start <= time < end for start, end in self.optimizer_marks)

    def thread_of_window(self):
        """The one that called most operators itself, but for autograd's nodes; without operators the process's first."""
        outer = {id for id, in self.rows("SELECT id FROM ranges")} | {None}
        called = collections.Counter(thread for thread, parent, name in self.rows("SELECT thread, parent, name FROM operators WHERE NOT flags & 2")
                                     if parent in outer and not self.strings[name].startswith("autograd::engine::evaluate_function: "))
        return min(called, key=lambda thread: (-called[thread], thread)) if called else int(self.meta["agent_pid"])

    def per_tensor(self):
        """How many operators update one tensor each, by step."""
        self.optimizer_marks = self.optimizers()
        self.updates = {}
        for start, _, name in self.spans.get(self.thread, []):
            if name in PER_TENSOR and self.in_optimizer(start) and self.step_at(start) is not None:
                self.updates[self.step_at(start)] = self.updates.get(self.step_at(start), 0) + 1
        return max(self.updates.values(), default=0) >= 40 and self.gains_by_one_update()

    def gains_by_one_update(self):
        """As findings.md has it: with a device all optimizers but those that take neither foreach=True nor fused=True."""
        texts = [text for text in self.strings.values() if text]
        classes = {text.split("#")[1].removesuffix(".step") for text in texts if text.startswith("Optimizer.step#")}
        fused = any(text.startswith(("aten::_fused_ada", "aten::_fused_sgd")) for text in texts)
        return not fused and (not classes or bool(classes - {"LBFGS", "SparseAdam", "Muon"}))

    # --- sentences ---

    def check(self, finding):
        self.finding, self.left = finding, finding["evidence"]
        assert not re.search(r"(?<![\d.])1 (stretches|waits|times|operations|operators|kernels|gaps|collectives|such copies|copies)\b", self.left), self.left
        self.per = len(self.judged)
        told = {"input": self.told_input, "launch_bound": self.told_launch, "optimizer_per_tensor": self.told_optimizer, "stall": self.told_stall,
                "sync": self.told_wait, "pageable_copy": self.told_copy, "allocation": self.told_wait, "small_kernels": self.told_small,
                "no_tensor_cores": self.told_kernels, "few_blocks": self.told_kernels, "step_unlike": self.told_unlike,
                "communication": self.told_collectives, "exposed_copies": self.told_copies, "compilation": self.told_calls, "setup": self.told_calls,
                "processor": self.told_processor, "garbage_collection": self.told_garbage, "recompilation": self.told_recompile}.get(finding["finding"], self.told_stretches)
        told()
        devices = self.rows("SELECT count(DISTINCT device) FROM (SELECT device FROM kernel_records UNION ALL SELECT device FROM copy_records UNION ALL "
                            "SELECT device FROM set_records UNION ALL SELECT device FROM graph_records)")[0][0]
        if devices > 1 and finding["device"] is not None:
            found = self.take(r'"The device" is device (\d+), the busiest of (\d+)\.')
            assert (int(found[1]), int(found[2])) == (finding["device"], devices)
        self.told_shared()
        self.told_line()
        assert not self.left.strip(), f"nobody has looked at: {self.left!r} of {finding['evidence']!r}"
        if self.device >= 0 and finding["finding"] in self.claims and finding["finding"] not in ("compilation", "recompilation"):
            assert finding["intervals"] == len(self.claims[finding["finding"]]), (finding["finding"], finding["intervals"], len(self.claims[finding["finding"]]))

    def take(self, pattern, must=True):
        found = re.match(r"\s*" + pattern, self.left)
        assert found or not must, (pattern, self.left)
        if found:
            self.left = self.left[found.end():]
            assert "window" not in found.group() or self.window, found.group()
            assert not self.window or "a step" not in found.group().replace("step's", ""), found.group()
        return found

    def stretches(self, kind=None):
        return self.claims.get(kind or self.finding["finding"], [])

    def host(self, row):
        return sum(self.breakdown.get((i, "host", None, row), 0) for i in self.judged)

    def told_input(self):
        found = self.take(rf"The step's thread (?:loads the batches itself: {TIME}{OF} in the DataLoader|is in the DataLoader for {TIME}{OF}|gets its input "
                          rf"for {TIME}{OF})(?:, {TIME} of that in operators and calls\.|: its workers do not keep up\.|: it takes what the workers have ready, and hardly "
                          rf"waits for them\.)")
        near_time(found[1] or found[2] or found[3], self.host("input") / self.per)
        if found[4]:
            near_time(found[4], (self.host("input") - self.input_outside()) / self.per)
        if found := self.take(rf"{NUMBER} % of it comes after a wait for the device, without which some of it would hide behind the device's work\.", False):
            near(found[1], self.input_after * 100 / self.input)
        if found := self.take(rf"(\d+) workers? ran {NUMBER} % of the time, and waited {NUMBER} % for a processor\.", False):
            workers = self.rows("SELECT w.duration, w.cpu, w.waited, s.text FROM workers w LEFT JOIN strings s ON s.id = w.name")
            of = [row for row in workers if (row[3] or "").startswith("pt_data_worker")] or workers
            assert int(found[1]) == len(of)
            near(found[2], sum(row[1] for row in of) * 100 / sum(row[0] for row in of))
            near(found[3], sum(row[2] for row in of) * 100 / sum(row[0] for row in of))

    def input_outside(self):
        """Of input: what lies in no operator and no call of the step's thread."""
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            marks = [(row[1], row[1] + row[2]) for row in db.execute(self.finding["sql"]) if row[3] == self.thread]
        marks = union(marks)
        inside = union([(start, end) for start, end, name in self.spans.get(self.thread, []) if not re.search("DataLoader", name)])
        outside = 0
        for start, end in marks:
            for i, low, high in self.parts(start, end):
                outside += high - low - covered(inside, low, high)
        return outside

    def told_operations(self, kind):
        begun = self.begun()
        found = self.take(rf"{NUMBER} operations?{PER}, half of them take {TIME} or less[.;]")
        near_count(found[1], len(begun) / self.per)
        lengths = sorted(one["end"] - one["start"] for one in begun)
        near_time(found[2], lengths[len(lengths) // 2])

    def told_launch(self):
        self.told_operations("launch_bound")
        found = self.take(rf"For {NUMBER} % of that time the breakdown's row is \"([^\"]*)\"\.(?: CUDA graphs are in use already\.)?")
        rows = self.late["launch_bound"]
        most = max(rows, key=rows.get)
        near(found[1], rows[most] * 100 / sum(rows.values()))
        assert found[2] in {LATE[row] for row in rows if rows[row] == rows[most]}

    def told_optimizer(self):
        found = self.take(rf"{NUMBER} operators?{PER} that update one tensor each\.")
        if not hasattr(self, "updates"):
            self.per_tensor()
        near_count(found[1], sum(self.updates.get(i, 0) for i in self.judged) / self.per)

    def told_stall(self):
        if self.device < 0:
            return self.told_stall_host()
        found = self.take(rf"{NUMBER} % of it in (.*?); (\d+) times?{IN_STEPS}, the longest {TIME}\.")
        stretches = self.stretches()
        assert int(found[3]) == len(stretches) and (self.window or int(found[4]) == self.per)
        near_time(found[5], max(one["end"] - one["start"] for one in stretches))
        by = {}
        for one in stretches:
            name = self.named(one)[0]
            by[name] = by.get(name, 0) + one["end"] - one["start"]
        name = "" if found[2].startswith("no operator") else found[2]
        assert by.get(name) == max(by.values()), (found[2], by)
        near(found[1], by[name] * 100 / sum(by.values()))
        return self.told_ran()

    def told_ran(self):
        """Looks lie some ms apart: between two of them the time is divided evenly."""
        found = self.take(rf"The step's thread ran {NUMBER} % of that time, slept {NUMBER} %, and waited {NUMBER} % for a processor\.", False)
        if not found:
            return
        looks = self.rows("SELECT time, cpu, waited FROM thread_times WHERE thread = ? ORDER BY time", self.thread)
        ran = waited = whole = 0
        for one in self.stretches():
            if one["thread"] != self.thread:
                continue
            used = [at(looks, time) for time in (one["start"], one["end"])]
            if None in used:
                continue
            length = one["end"] - one["start"]
            part = min(used[1][0] - used[0][0], length)
            ran, waited, whole = ran + part, waited + min(used[1][1] - used[0][1], length - part), whole + length
        for printed, value in zip(found.groups(), (ran, whole - ran - waited, waited)):
            assert abs(float(printed) - value * 100 / whole) <= 0.6, (printed, value, whole)

    def told_stall_host(self):
        found = self.take(rf"{NUMBER} % of it in (.*?); (\d+) times?{IN_STEPS}, the longest {TIME}\.")
        lengths = [end - start for start, end, _ in self.intervals[self.finding["number"]]]
        assert int(found[3]) == self.finding["intervals"] and (self.window or int(found[4]) == self.per) and float(found[1]) <= 100
        near_time(found[5], max(lengths))
        self.told_ran_host()

    def told_ran_host(self):
        found = self.take(rf"The step's thread ran {NUMBER} % of that time, slept {NUMBER} %, and waited {NUMBER} % for a processor\.", False)
        assert not found or abs(sum(map(float, found.groups())) - 100) <= 1.5

    def told_copy(self):
        found = self.take(rf"{NUMBER} such cop(?:y|ies){PER}; {NUMBER} % of the time of their calls in (.*?)(?:, there most in ([^;]*?))?\.(?= |$)")
        copies = self.begun("blocking")
        near_count(found[1], len(copies) / self.per)
        self.told_by([{"start": one["call"][0], "end": one["call"][1], "thread": one["call"][2], "kind": "pageable_copy", "asked": None} for one in copies],
                     found[2], found[3], found[4])

    def told_wait(self):
        found = self.take(rf"{NUMBER} % of it (?:after|in) (.*?)(?:, there most in ([^;]*))?; {NUMBER} (wait|stretch)(?:e?s)?{PER}\.")
        seen = self.told_by(self.stretches(), found[1], found[2], found[3])
        assert (self.finding["finding"] == "sync") == (found[5] == "wait")
        near_count(found[4], (len(seen) if found[5] == "wait" else len(self.stretches())) / self.per)

    def told_by(self, stretches, share, told, inner):
        """The operator or call that has most, its share, and the call that has most within it. Returns which calls there are."""
        by, calls, all_, seen = {}, {}, 0, set()
        for one in stretches:
            length = one["end"] - one["start"]
            all_ += length
            call, begun, outer = self.named(one)
            by[outer or call] = by.get(outer or call, 0) + length
            calls.setdefault(outer or call, {}).setdefault(call, 0)
            calls[outer or call][call] += length
            seen.add((one["thread"], begun if begun is not None else ("", one["start"])))
        name = "" if told in ("a call", "no operator", "several calls together") else told
        assert by[name] == max(by.values()), (told, by)
        near(share, by[name] * 100 / all_)
        assert not inner or calls[name][inner] == max(calls[name].values()), (inner, calls[name])
        return seen

    def told_small(self):
        self.told_operations("small_kernels")
        found = self.take(rf"{NUMBER} gaps?{PER} of 10 us or less between operations that were queued in time\.")
        near_count(found[1], len(self.stretches()) / self.per)

    def most(self, begun, name):
        by = {}
        for one in begun:
            by[one.get("name")] = by.get(one.get("name"), 0) + one["end"] - one["start"]
        best = max(by, key=by.get)
        assert self.kernel(best) == name or any(by[of] == by[best] and self.kernel(of) == name for of in by), (name, self.kernel(best))
        return [one for one in begun if self.kernel(one.get("name")) == name and by[one.get("name")] == by[best]]

    def kernel(self, name):
        return self.strings.get(self.short.get(name, name), "")[:120]

    def told_kernels(self):
        few = self.finding["finding"] == "few_blocks"
        begun = self.begun("few" if few else "slow")
        if few:
            found = self.take(rf"{NUMBER} kernels?{PER} (?:has|have) blocks for {NUMBER} % of its multiprocessors by their time; time counts while nothing else runs\. "
                              rf"Most of it in (.*?), {NUMBER} times?{PER}\.")
            near_count(found[1], len(begun) / self.per)
            time = sum(one["end"] - one["start"] for one in begun)
            assert abs(float(found[2]) - sum((one["end"] - one["start"]) * one["fill"] for one in begun) * 100 / time) < 1
            near_count(found[4], len(self.most(begun, found[3])) / self.per)
            return
        found = self.take(rf"{NUMBER} kernels?{PER}\. Most of their time in (.*?), {NUMBER} times?{PER}(?:, most often by (\S+)(?: of (.*?))?)?\. \"At most\" is the peak of the "
                          r"hardware; precision changes\.")
        near_count(found[1], len(begun) / self.per)
        most = self.most(begun, found[2])
        near_count(found[3], len(most) / self.per)
        if found[4]:
            counts = dict(self.rows(
                "SELECT s.text, count(DISTINCT o.id) FROM kernel_records k JOIN launches l ON l.correlation = k.correlation JOIN operators o ON o.id = l.range "
                "JOIN strings s ON s.id = o.name WHERE k.name = ? GROUP BY 1", most[0]["name"]))
            assert found[4] in {name[:60] for name in counts}, (found[4], counts)
        if found[5]:
            shapes = {f"{kind} [{', '.join(map(str, dims))}]" for dims, kind in self.tensors(found[4])}
            assert set(found[5].split(" and ")) <= shapes, (found[5], shapes)

    def tensors(self, operator):
        import json
        for dims, types in self.rows("SELECT DISTINCT i.dims, i.types FROM operators o JOIN strings s ON s.id = o.name JOIN inputs i ON i.id = o.inputs WHERE "
                                     "substr(s.text, 1, 60) = ?", operator):
            yield from zip(json.loads(dims), json.loads(types))

    def told_collectives(self):
        if self.device < 0:
            return self.told_stretches()
        found = self.take(rf"{NUMBER} collectives?{PER}, most of their time in (.*?); the wait for the other ranks is in it\.")
        begun = self.begun("collective")
        near_count(found[1], len(begun) / self.per)
        return self.most(begun, found[2])

    def told_copies(self):
        found = self.take(rf"{NUMBER} (?:copies and memsets|copy or memset){PER}; time counts while nothing is computed\.")
        near_count(found[1], len(self.begun("copy")) / self.per)

    def told_calls(self):
        found = self.take(rf"{NUMBER} % of it in (.*?)(?:, there most in ([^;]*))?; {NUMBER} stretch(?:es)?{PER}, the longest {TIME}\.", False)
        if not found or self.device < 0:
            if not found:
                self.told_stretches()
            return
        self.told_by(self.stretches(), found[1], found[2], found[3])
        near_count(found[4], len(self.stretches()) / self.per)
        near_time(found[5], max(one["end"] - one["start"] for one in self.stretches()))

    def told_stretches(self):
        found = self.take(rf"{NUMBER} stretch(?:es)?{PER}, the longest {TIME}\.")
        near_count(found[1], self.finding["intervals"] / self.per)
        near_time(found[2], max(end - start for start, end, _ in self.intervals[self.finding["number"]]))
        if self.device >= 0 and self.stretches():
            near_time(found[2], max(one["end"] - one["start"] for one in self.stretches()))
        if self.take(r"Most of it lies within forward, backward and the like, between their operators\.", False):
            assert self.host("outside") / self.per < self.finding["ns"] / 2 + 1e6

    def told_unlike(self):
        step = self.finding["step"] - 1
        found = self.take(r"(\d+) of (\d+) steps\.")
        assert int(found[2]) == self.meta["verdict_last"] - self.meta["verdict_first"] and int(found[1]) == self.finding["intervals"] <= int(found[2]) - self.per
        took = re.match(rf"Step (\d+) takes {TIME}, the others {TIME}", self.finding["what"])
        near_time(took[2], self.steps[step][1] - self.steps[step][0])
        near_time(took[3], self.meta["verdict_step"])
        assert int(took[1]) == self.rows("SELECT number FROM steps ORDER BY start")[step][0]
        it = "The longest" if self.finding["intervals"] > 1 else "It"
        if found := self.take(rf"{it} holds (?:an? (?:validation|test|evaluation)|inference without gradient) of {TIME}\.", False):
            near_time(found[1], sum(self.breakdown.get((step, "host", None, row), 0) for row in ("validation", "test", "evaluation", "inference")))
            self.take(r"The row that grew most is \"[^\"]*\"\.", False)
        elif found := self.take(rf"{it} holds a compilation by torch.compile of {TIME}\.", False):
            near_time(found[1], self.breakdown[step, "beside", None, "torch_compile"])
        elif found := self.take(rf"{it} is longer by {TIME} of the row \"[^\"]*\"\.", False):
            rows = {key[3] for key in self.breakdown if key[1] == "host"}
            near_time(found[1], max(self.breakdown.get((step, "host", None, row), 0) - int(self.host(row) / self.per) for row in rows))
        if found := self.take(rf"In it the step's thread waited {TIME} for a processor\.", False):
            near_time(found[1], self.waited(*self.steps[step]))
        if found := self.take(r"Python's collector of garbage went through all objects \(a full collection\) in (\d+) of them, and in none of the other steps\.", False):
            full = [row[0] for row in self.rows("SELECT collections_2 FROM steps ORDER BY start")]
            assert int(found[1]) == sum(1 for i in range(len(full)) if i not in self.judged_set and full[i])

    def waited(self, start, end):
        """How long the step's thread waited for a processor, evenly between two looks at it, and not while it ran."""
        looks = self.rows("SELECT time, waited, cpu FROM thread_times WHERE thread = ? ORDER BY time, rowid", self.thread)
        def by(time, what):
            before = [look for look in looks if look[0] <= time][-1]
            behind = next(look for look in looks if look[0] > time)
            return before[what] + (behind[what] - before[what]) * (time - before[0]) / (behind[0] - before[0])
        waited, ran = (by(end, what) - by(start, what) for what in (1, 2))
        return min(waited, end - start - min(ran, end - start))

    def told_processor(self):
        found = self.take(rf"It could have run and had none for {NUMBER} ms{OF}(?: \(all steps taken together\))?; its processor was taken from it {NUMBER} "
                          rf"times?{PER}\.")
        near(found[1], self.finding["ns"] / 1e6)
        if found := self.take(rf"Its cgroup may use {NUMBER} processors, and used that up and was stopped in {NUMBER} % of the quota's periods\.", False):
            near(found[2], int(self.meta["quota_stopped"]) * 100 / int(self.meta["quota_periods"]))
            assert abs(float(found[1]) - int(self.meta["processors_limit"]) / 1000) < 0.01 * float(found[1])
        elif found := self.take(r"It may run on (\d+) of (\d+) processors\.", False):
            assert (int(found[1]), int(found[2])) == (int(self.meta["processors_allowed"]), int(self.meta["processors"]))
        elif found := self.take(r"The machine has (\d+) processors\.", False):
            assert int(found[1]) == int(self.meta["processors"])
        self.take(r"This time lies within other rows\.")

    def told_recompile(self):
        found = self.take(rf"{NUMBER} ms in all; (.*?)(?: \([^()]*:(\d+)\))? (\d+) times?\.(?: Why, in torch's words: .*)?")
        first, last = self.meta["verdict_first"] + 1, self.meta["verdict_last"]
        assert int(found[4]) <= len(self.rows("SELECT 1 FROM compile_events")) and float(found[1]) * 1e6 <= 1.01 * sum(
            self.breakdown.get((i - 1, "beside", None, "torch_compile"), 0) for i in range(first, last + 1)) + 5e3
        if found[3]:
            assert self.rows("SELECT count(*) FROM compile_events WHERE line = ?", int(found[3]))[0][0] >= int(found[4])

    def told_garbage(self):
        found = self.take(rf"Seen (\d+) times? in (?:the window|(\d+) of (\d+) steps?); the longest took {TIME}\.")
        seen = [int(n) for n in found.groups()[:1 if self.window else 3]]
        first, last = self.meta["verdict_first"], self.meta["verdict_last"]
        rows = [row for row in self.rows("SELECT start, duration, generation FROM garbage_collections WHERE thread <> 0")
                if self.step_at(row[0]) is not None and first <= self.step_at(row[0]) < last]
        assert seen == [len(rows), len({self.step_at(row[0]) for row in rows}), last - first][:len(seen)]
        near_time(found.groups()[-1], max(row[1] for row in rows))
        if found := self.take(r"(\d+) times? Python went through all objects \(a full collection\)\.", False):
            full, counts = sum(row[2] == 2 for row in rows), [row[0] for row in self.rows("SELECT collections_2 FROM steps ORDER BY start")[first:last]]
            assert int(found[1]) == full
            if more := self.take(r"Python counted (\d+) full collections: the time of those that were not seen is in other rows\.", False):
                assert int(more[1]) == sum(counts) > full
        else:
            assert any(row[2] == 3 for row in rows)

    def told_shared(self):
        """What of a finding that stands behind it, or before it, the wait for a processor may be."""
        kinds = {one["number"]: one for one in self.findings}
        waits = [one["number"] for one in self.findings if one["finding"] == "processor"]
        hosts = {"input", "launch_bound", "stall", "sync", "allocation", "setup", "optimizer_per_tensor", "compilation", "garbage_collection"}
        if self.device < 0:
            hosts = {one["finding"] for one in self.findings} - {"processor", "step_unlike", "capture"}
        number = self.finding["number"]
        if number in waits:
            others = [n for n in kinds if n < number and kinds[n]["finding"] in hosts]
        else:
            others = [n for n in waits if n < number and self.finding["finding"] in hosts]
        if others:
            found = self.take(rf"Up to {TIME} of it is in finding ([\d or]+), too, and can be won once\.")
            assert [int(n) for n in found[2].split(" or ")] == others
            near_time(found[1], min(self.finding["ns"], sum(kinds[n]["ns"] for n in others)))

    def told_line(self):
        found = self.take(rf"(?:About )?{NUMBER} % of (it|its longest stretches) at ([^:]*):(\d+)\.", False)
        if not found:
            return
        by = {}
        kept = sorted(self.intervals[self.finding["number"]], key=lambda one: one[:2])
        assert (found[2] == "it") == (self.finding["intervals"] <= len(kept))
        for time, thread, duration, file, line in self.samples:
            if any(start <= time < end and thread == (whose or self.thread) for start, end, whose in kept):
                by[file, line] = by.get((file, line), 0) + duration
        best = max(by, key=by.get)
        assert os.path.basename(self.strings[best[0]])[:80] == found[3] and best[1] == int(found[4])
        near(found[1], by[best] * 100 / sum(by.values()))


def at(looks, time):
    """(ran, waited) by a time; None: there are no looks around it."""
    low = bisect.bisect_right(looks, (time, 1 << 62, 1 << 62))
    if low in (0, len(looks)):
        return None
    a, b = looks[low - 1], looks[low]
    part = (time - a[0]) / (b[0] - a[0])
    return [a[i] + part * (b[i] - a[i]) for i in (1, 2)]


def union(intervals):
    found = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return found


def covered(intervals, low, high):
    at_ = max(0, bisect.bisect_right(intervals, [low, 1 << 62]) - 1)
    found = 0
    for start, end in intervals[at_:]:
        if start >= high:
            break
        found += max(0, min(end, high) - max(start, low))
    return found


def slow(name):
    """Matrix products and convolutions without tensor cores, by what they are called."""
    return bool(re.search("sgemm|hgemm|scudnn|hcudnn|_simt_[sh]|_ffma|f32f32_f32f32|(dgrad|wgrad_alg0)_engine<float", name)) and not re.search(
        "tensor|tf32|884|1688|16816|hmma|bf16|gmma|wmma|dgemm", name)


def blocks(call):
    return bool(re.match(r"(cuda|cu|hip)Memcpy", call)) and "Async" not in call


def check(path):
    """Returns the evidence that was checked, by kind of finding."""
    return {one["finding"]: one["evidence"] for one in File(path).findings}
