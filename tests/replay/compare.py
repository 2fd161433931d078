#!/usr/bin/env python3
"""compare.py CAPTURE.db TIMELINE TRUTH OUTPUT - does a capture of a replay show what the recording says?

TIMELINE is what was replayed, TRUTH what truth.py computed from the recording itself, OUTPUT what the replay printed.
Counts have to be equal. Times have gone through two clocks: a duration may be off by twice the clock error that the
capture states, and a sum by 2 ns for each of its parts (each is rounded twice) and by the clock error for each 2 ms
(the clocks run apart by no more). Prints a table; the exit code is 1 where anything differs."""
import collections
import functools
import gzip
import json
import pathlib
import re
import sqlite3
import sys

from timeline import COPY_KINDS, MEMORY_KINDS, Timeline
from truth import union

COPY_WORDS = {number: word for word, number in COPY_KINDS.items()}
MEMORY_WORDS = {number: word for word, number in MEMORY_KINDS.items()}
KINDS = {"kernel": "kernels", "copy": "copies", "set": "sets"}


def api_name(name):
    """From 13.0 on the launches that the compiler writes are __cudaLaunchKernel."""
    return name[2:] if name.startswith("__") else name


class Comparison:
    """rows: (what, in the recording, in the capture, verdict). problems: sentences. shown: what `profd show --format json`
    says of the capture, where that is to be compared too."""

    def __init__(self, capture, timeline, truth, output, shown=None):
        self.path, self.shown = capture, shown
        self.db = sqlite3.connect(f"file:{capture}?mode=ro", uri=True)
        self.db.row_factory = sqlite3.Row
        self.timeline = timeline if isinstance(timeline, Timeline) else Timeline(timeline)
        raw = pathlib.Path(truth).read_bytes()
        self.truth = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        self.tids = {int(a): int(b) for a, b in re.findall(r"^thread (\d+) = (\d+)$", output, re.M)}
        self.file_step = {int(a): int(b) for a, b in re.findall(r"^step (\d+) = (\d+)$", output, re.M)}
        self.rows, self.problems = [], []
        self.session = self.db.execute("select * from sessions").fetchone()
        # Two threads that bring new names at once may lose some, where the machine is busy: that is counted, and all else is there.
        self.nameless = sum(row[0] for row in self.query(
            "select count from losses where kind = 'range' and loss = 'nameless'"))
        self.clock_error = self.session["clock_error"] if self.session else 0
        self.deviation, self.exact, self.compared = 0, 0, 0

    def query(self, sql, *values):
        return self.db.execute(sql, values).fetchall()

    def row(self, what, held, came, problems):
        self.rows.append((what, held, came, "equal" if not problems else f"{len(problems)} differ"))
        self.problems += [f"{what}: {p}" for p in problems[:5]]

    def near(self, came, wanted, parts):
        """A sum of so many durations."""
        return abs(came - wanted) <= min(2 * self.clock_error * parts, 2 * parts + wanted * self.clock_error / 2e6)

    def state(self):
        problems = []
        lost = [(r["kind"], r["loss"], r["count"]) for r in self.query("select * from losses where is_loss and count > 0")]
        # Launches whose kernels are not in the recording have none in the capture, which says so.
        bare = sum("LaunchKernel" in item["name"] and item["result"] == 0 and not item["operations"]
                   for thread in self.timeline.threads.values() for item in thread.items if item["kind"] in "cd")
        lost = [row for row in lost if row[:2] != ("kernel", "missing") or row[2] > bare]
        if lost:
            problems.append(f"lost {lost}")
        if not self.session:
            problems.append("no session of CUPTI")
        status = self.query("select value from meta where key = 'status'")[0][0]
        if status != "complete":
            problems.append(f"the capture is {status}")
        self.row("losses", 0, len(problems), problems)

    def steps(self):
        problems, came = [], []
        wanted = self.truth["steps"]
        for row in self.query("select step, number from steps order by step"):
            came.append(self.file_step.get(row["number"]))
        if not wanted:
            if came != [None]:
                problems.append(f"{len(came)} steps in a recording without any")
            self.row("steps", "none, one window", len(came), problems)
            return
        if came != list(range(1, len(wanted) + 1)):
            problems.append(f"the capture has the file's steps {came}")
        self.row("steps", len(wanted), len(came), problems)
        # What each step launched, whenever the device came to it: that is the recording's, wherever the steps' ends lie.
        launched = collections.defaultdict(lambda: collections.defaultdict(list))
        for row in self.everything():
            launched[row["step"]][row["device"]].append((row["start"], row["end"]))
        busy = {step: {device: {"busy": union(parts)} for device, parts in devices.items()} for step, devices in launched.items()}
        busy = collections.defaultdict(dict, busy)
        problems, held, shown, worst = [], 0, 0, 0
        for ordinal, step in enumerate(wanted, 1):
            for device, ns in step["busy"]:
                row = busy[ordinal].pop(device, None)
                parts = step["kernel"] + step["copy"] + step["set"]
                held += ns
                shown += row["busy"] if row else 0
                if not row or not self.near(row["busy"], ns, parts):
                    problems.append(f"step {ordinal}, device {device}: {row['busy'] if row else None} for {ns} ns")
                else:
                    worst = max(worst, abs(row["busy"] - ns))
            counts = [sum(row[k] or 0 for row in self.query(f"select count(*) as {k} from {k} where step = ?", ordinal))
                      for k in KINDS.values()]
            if counts != [step[k] for k in KINDS]:
                problems.append(f"step {ordinal} has {counts} kernels, copies and sets for {[step[k] for k in KINDS]}")
            problems += [f"step {ordinal}: device {d} was idle in the recording" for d, r in busy[ordinal].items() if r["busy"]]
        self.row(f"device busy by step, ns (off by {worst} at most)", held, shown, problems)
        self.intervals()

    def everything(self):
        return self.query("select step, device, start, start + duration as end from kernels where start is not null union all "
                          "select step, device, start, start + duration from copies where start is not null union all "
                          "select step, device, start, start + duration from sets where start is not null")

    @functools.cache
    def skew(self, device):
        """By how much the device's clock runs ahead, as what begins before its launch says: but for one in 64."""
        early = [row["early"] for row in self.query(
            "with o as (select device, correlation, start from kernel_records union all select device, correlation, start from "
            "copy_records union all select device, correlation, start from set_records) select l.start - o.start as early from o "
            "join launches l on l.correlation = o.correlation where o.device = ? and l.start is not null and o.start is not null",
            device)]
        ahead = sorted((ns for ns in early if 0 < ns < 10**9), reverse=True)
        rank = min(len(early) // 64, 63)
        return ahead[rank] if rank < len(ahead) and ahead[rank] > self.clock_error else 0

    def intervals(self):
        """The time of a step in which a device worked, as derived, against the operations themselves."""
        problems, held, shown = [], 0, 0
        derived = {(r["step"], r["device"]): r["busy"] for r in self.query("select * from step_devices where stream = -1")}
        operations = collections.defaultdict(list)
        for row in self.everything():
            moved = self.skew(row["device"])
            operations[row["device"]].append((row["start"] + moved, row["end"] + moved))
        for step in self.query("select step, start, start + duration as end from steps"):
            for device, parts in operations.items():
                ns = union((max(a, step["start"]), min(b, step["end"])) for a, b in parts if a < step["end"] and b > step["start"])
                came = derived.get((step["step"], device), 0)
                held, shown = held + ns, shown + came
                if ns != came:
                    problems.append(f"step {step['step']}, device {device}: {came} for {ns} ns")
        self.row("device busy by interval, ns", held, shown, problems)

    def whole_busy(self):
        """Where there are no steps: the window's."""
        if self.truth["steps"]:
            return
        problems, held, shown = [], 0, 0
        came = {r["device"]: r["busy"] for r in self.query("select device, busy from step_devices where step = 1 and stream = -1")}
        parts = sum(o[4] for o in self.truth["operations"])
        for device, ns in self.truth["busy"]:
            held, shown = held + ns, shown + came.get(device, 0)
            if device not in came or not self.near(came[device], ns, parts):
                problems.append(f"device {device}: {came.get(device)} for {ns} ns")
        self.row("device busy, ns", held, shown, problems)

    def came(self, step):
        """{kind: {(device, stream, name or kind): (how many, ns, bytes)}} of the operations whose step `step`: "is null", ..."""
        came = {kind: {} for kind in KINDS}
        for row in self.query(f"""select device, stream, t.text as name, count(*) as n, sum(duration) as ns from kernels
                                  join strings t on t.id = mangled where step {step} group by 1, 2, 3"""):
            came["kernel"][(row["device"], row["stream"], row["name"])] = (row["n"], row["ns"], 0)
        for row in self.query(f"""select device, stream, kind, source_kind, target_kind, count(*) as n, sum(duration) as ns,
                                  sum(bytes) as bytes from copies where step {step} group by 1, 2, 3, 4, 5"""):
            name = f"{COPY_WORDS[row['kind']]} ({MEMORY_WORDS[row['source_kind']]} -> {MEMORY_WORDS[row['target_kind']]})"
            came["copy"][(row["device"], row["stream"], name)] = (row["n"], row["ns"], row["bytes"])
        for row in self.query(f"""select device, stream, memory_kind, count(*) as n, sum(duration) as ns, sum(bytes) as bytes
                                  from sets where step {step} group by 1, 2, 3"""):
            name = f"({MEMORY_WORDS[row['memory_kind']]})"
            came["set"][(row["device"], row["stream"], name)] = (row["n"], row["ns"], row["bytes"])
        return came

    def operations(self):
        """By name or kind, device and stream."""
        came = self.came("is not null")
        wanted = {kind: {} for kind in KINDS}
        for kind, device, stream, key, n, ns, size in self.truth["operations"]:
            wanted[kind][(device, stream, key)] = (n, ns, size)
        for kind, word in KINDS.items():
            counts, times, sizes = [], [], []
            for key in sorted(set(wanted[kind]) | set(came[kind])):
                want, got = wanted[kind].get(key, (0, 0, 0)), came[kind].get(key, (0, 0, 0))
                where = f"device {key[0]}, stream {key[1]}, {key[2][:60]}"
                if want[0] != got[0]:
                    counts.append(f"{where}: {got[0]} for {want[0]}")
                elif not self.near(got[1], want[1], want[0]):
                    times.append(f"{where}: {got[1]} for {want[1]} ns")
                if want[2] != got[2]:
                    sizes.append(f"{where}: {got[2]} for {want[2]} bytes")

            def total(groups, i):
                return sum(g[i] for g in groups[kind].values())
            by = "name" if kind == "kernel" else "kind"
            self.row(f"{word} by {by}, device and stream ({len(wanted[kind])} kinds)", total(wanted, 0), total(came, 0), counts)
            self.row(f"{word}, ns in all", total(wanted, 1), total(came, 1), times)
            if kind != "kernel":
                self.row(f"{word}, bytes", total(wanted, 2), total(came, 2), sizes)

    def ranges(self):
        """Each range and operator of each thread, in order: what was launched in it."""
        direct = collections.defaultdict(lambda: [0, 0])
        for table in KINDS.values():
            for row in self.query(f"select range, count(*) as n, sum(duration) as ns from {table} where range is not null "
                                  "and step is not null group by 1"):
                direct[row["range"]][0] += row["n"]
                direct[row["range"]][1] += row["ns"]
        derived = {row["id"]: row for row in self.query("select * from range_devices")}
        came = collections.defaultdict(list)
        for row in self.query("""select r.id, r.thread, t.text as name from ranges r left join strings t on t.id = r.name
                                 where r.step is not null order by r.thread, r.start"""):
            came[row["thread"]].append(row)
        threads = {t.tid: self.tids[i] for i, t in self.timeline.threads.items()}
        counts, times, held, shown, parts_held, ns_held, ns_shown, nameless = [], [], 0, 0, 0, 0, 0, 0
        for thread in self.truth["threads"]:
            rows = came.pop(threads[thread["tid"]], [])
            held, shown = held + len(thread["ranges"]), shown + len(rows)
            if len(rows) != len(thread["ranges"]):
                counts.append(f"thread {thread['tid']}: {len(rows)} ranges for {len(thread['ranges'])}")
            for row, (name, n, self_ns, total_ns) in zip(rows, thread["ranges"]):
                where = f"thread {thread['tid']}, {name[:50]}"
                nameless += row["name"] is None
                if row["name"] not in (name, None):
                    counts.append(f"{where}: it is {row['name']}")
                    break
                got = direct.get(row["id"], (0, 0))
                total = derived.get(row["id"])
                ns_held, ns_shown = ns_held + total_ns, ns_shown + (total["total"] if total else 0)
                parts_held += n
                if got[0] != n:
                    counts.append(f"{where}: {got[0]} operations for {n}")
                # Of a range that holds nothing the capture has no row, and 0 is meant.
                parts = total["operations"] if total else 0
                if not (self.near(got[1], self_ns, n) and self.near(total["self"] if total else 0, self_ns, n)):
                    times.append(f"{where}: {got[1]} for {self_ns} ns of its own")
                elif not self.near(total["total"] if total else 0, total_ns, max(parts, n)):
                    times.append(f"{where}: {total['total'] if total else 0} for {total_ns} ns")
        if nameless != self.nameless:
            counts.append(f"{nameless} have no name, {self.nameless} are counted as nameless")
        for thread, rows in came.items():
            counts.append(f"{len(rows)} ranges of thread {thread}, which had none")
        what = f", {nameless} without their name, as counted" if nameless else ""
        self.row(f"ranges and operators in order, with their launches ({parts_held}){what}", held, shown, counts)
        self.row("device time of ranges, self and total, ns", ns_held, ns_shown, times)

    def pairs(self):
        """Each launching call with what it launched, in the order of its thread: every field."""
        calls, by_call = collections.defaultdict(list), collections.defaultdict(list)
        fields = {"k": ("name", "device", "context", "stream", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z",
                        "registers", "static_shared", "dynamic_shared"),
                  "m": ("device", "context", "stream", "bytes", "copy_kind", "source_kind", "target_kind"),
                  "z": ("device", "context", "stream", "bytes", "target_kind")}
        for kind, table in (("k", "kernel_records"), ("m", "copy_records"), ("z", "set_records")):
            name = "join strings t on t.id = r.name" if kind == "k" else ""
            for row in self.query(f"select r.*, {'t.text' if name else 'null'} as text from {table} r {name} order by start"):
                found = dict(row)
                found.update(kind=kind, name=found.get("text"), copy_kind=row["kind"] if kind == "m" else None)
                if kind == "z":
                    found["target_kind"] = row["memory_kind"]
                by_call[row["correlation"]].append(found)
        for row in self.query("""select a.*, t.text from launches l join api_calls a on a.rowid = l.api
                                 join strings t on t.id = a.name where l.step is not null order by a.thread, a.start"""):
            calls[row["thread"]].append(row)
        problems, held, shown = [], 0, 0
        for index, thread in self.timeline.threads.items():
            wanted = [i for i in thread.items if i["kind"] in "cd" and i["operations"]]
            came = calls.pop(self.tids[index], [])
            held, shown = held + len(wanted), shown + len(came)
            if len(wanted) != len(came):
                problems.append(f"thread {index}: {len(came)} launching calls for {len(wanted)}")
            for want, got in zip(wanted, came):
                found = by_call[got["correlation"]]
                if want["name"] != api_name(got["text"]) or want["result"] != got["result"]:
                    problems.append(f"thread {index} at {want['start']}: {got['text']} for {want['name']}")
                    break
                if len(found) != len(want["operations"]):
                    problems.append(f"{want['name']} at {want['start']} has {len(found)} operations for {len(want['operations'])}")
                    continue
                for a, b in zip(sorted(want["operations"], key=self.by_node), sorted(found, key=self.by_node)):
                    # The simulator takes 0 for "not said" and answers with its own.
                    bad = [f for f in fields[a["kind"]] if a["kind"] != b["kind"] or (a[f] != b[f] and a[f] != 0)]
                    if a["graph"] and a["graph"] != (b["graph"], b["graph_node"]):
                        bad.append("graph")
                    if bad:
                        problems.append(f"{want['name']} at {want['start']}: " +
                                        ", ".join(f"{f} {b.get(f)} for {a[f]}" for f in bad))
                    off = abs((b["duration"] or 0) - a["duration"])
                    self.deviation, self.exact, self.compared = max(self.deviation, off), self.exact + (off == 0), self.compared + 1
                    if off > 2 * self.clock_error:
                        problems.append(f"{want['name']} at {want['start']}: its operation took {b['duration']} for {a['duration']} ns")
        self.row("launching calls, with every field of what they launched", held, shown, problems)

    @staticmethod
    def by_node(operation):
        node = operation.get("graph_node") or (operation["graph"][1] if isinstance(operation.get("graph"), tuple) else 0)
        return node, operation["start"] or 0

    def calls(self, everything):
        """Calls of the runtime by name; `everything`: not only those that launch were recorded."""
        if not everything:
            return
        own = ",".join(str(tid) for index, tid in self.tids.items() if self.timeline.threads[index].tid)
        came = {api_name(row["name"]): row["n"] for row in self.query(
            f"""select t.text as name, count(*) as n from api_calls a join strings t on t.id = a.name where a.domain = 2
                and a.step is not null and a.thread in ({own}) group by 1""")}
        self.names("calls of the runtime by name", self.truth["calls"], came)
        # Those inside of a runtime's call have its correlation id.
        came = {row["name"]: row["n"] for row in self.query(
            f"""select t.text as name, count(*) as n from api_calls a join strings t on t.id = a.name where a.domain = 1
                and a.step is not null and a.thread in ({own}) and a.correlation not in
                (select correlation from api_calls where domain = 2) group by 1""")}
        self.names("launching calls of the driver alone, by name", self.truth["driver_calls"], came)

    def names(self, what, wanted, came):
        """Two dicts by name."""
        wanted = {api_name(name): n for name, n in wanted.items()}
        problems = [f"{name}: {came.get(name, 0)} for {wanted.get(name, 0)}" for name in sorted(set(came) | set(wanted))
                    if came.get(name, 0) != wanted.get(name, 0)]
        self.row(f"{what} ({len(wanted)} names)", sum(wanted.values()), sum(came.values()), problems)

    def summary(self):
        """What the user is shown."""
        if not self.shown:
            return
        problems, wanted, came = [], collections.defaultdict(lambda: [0, 0]), {}
        mangled = {name: text for name, text in self.query(
            "select m.text, n.text from kernel_names k join strings m on m.id = k.mangled join strings n on n.id = k.name")}
        # What was launched before the recording and reaches into it is shown with the rest; how much that was depends on the run.
        before = [(kind, None, None, key[2], n, ns, 0) for kind, found in self.came("is null").items()
                  for key, (n, ns, _) in found.items()]
        for kind, _, _, key, n, ns, _ in [*self.truth["operations"], *before]:
            name = mangled.get(key, key) if kind == "kernel" else ("Memcpy " if kind == "copy" else "Memset ") + key
            wanted[name][0] += n
            wanted[name][1] += ns
        for word in KINDS.values():
            came.update((row["name"], (row["calls"], row["total_ns"])) for row in self.shown[word])
        for name in sorted(set(wanted) | set(came)):
            want, got = wanted.get(name, (0, 0)), came.get(name, (0, 0))
            if want[0] != got[0] or not self.near(got[1], want[1], want[0]):
                problems.append(f"{name[:60]}: {got} for {want} calls and ns")
        for step, row in zip(self.truth["steps"], self.shown["steps"]):
            want = [step["kernel"], step["copy"], step["set"]]
            got = [row[word] for word in KINDS.values()]
            derived = self.query("select coalesce(sum(busy), 0) as ns from step_devices where stream = -1 and step = ?", row["step"])[0]["ns"]
            if want != got or row["device_busy_ns"] != derived:
                problems.append(f"step {row['step']}: {got} and {row['device_busy_ns']} ns for {want} and {derived}")
        self.row("show: kernels, copies, sets by name; steps", len(wanted), len(came), problems)
        if self.nameless:
            return
        problems, wanted = [], collections.defaultdict(lambda: [0, 0, 0, 0])
        for thread in self.truth["threads"]:
            for name, n, self_ns, total_ns in thread["ranges"]:
                wanted[name] = [a + b for a, b in zip(wanted[name], (1, self_ns, total_ns, n))]
        came = collections.defaultdict(lambda: [0, 0, 0])
        for row in self.shown["ranges"]:
            got = (row["calls"], row["self_device_ns"], row["device_ns"])
            came[row["name"]] = [a + b for a, b in zip(came[row["name"]], got)]
        parts = sum(o[4] for o in self.truth["operations"])
        for name in sorted(set(wanted) | set(came)):
            want, got = wanted.get(name, (0, 0, 0, 0)), came.get(name, (0, 0, 0))
            if want[0] != got[0] or not (self.near(got[1], want[1], want[3]) and self.near(got[2], want[2], parts)):
                problems.append(f"{name[:60]}: {got} for {want[:3]} calls, ns of its own and in all")
        self.row("show: ranges by name, device time", len(wanted), len(came), problems)

    def run(self, everything=True):
        self.state()
        self.steps()
        self.whole_busy()
        self.operations()
        self.ranges()
        self.pairs()
        self.calls(everything)
        self.summary()
        return self

    def table(self, title):
        lines = [title]
        width = max(len(r[0]) for r in self.rows)
        lines.append(f"  {'':{width}}  {'recording':>16}  {'capture':>16}")
        lines += [f"  {what:{width}}  {held:>16}  {came:>16}  {verdict}" for what, held, came, verdict in self.rows]
        lines.append(f"  durations: {self.exact} of {self.compared} equal to the ns, the others off by {self.deviation} ns at "
                     f"most; stated clock error {self.clock_error} ns")
        return "\n".join(lines + [f"  DIFFERS {p}" for p in self.problems])


def main(arguments):
    if len(arguments) != 4:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    comparison = Comparison(*arguments[:3], pathlib.Path(arguments[3]).read_text(encoding="utf-8")).run()
    print(comparison.table(arguments[0]))
    return 1 if comparison.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
