"""What `profd show` prints for people: it fits, no two names are alike, a part is cut out rightly, and the new tables equal a slow reference.

The captures are traces that torch.profiler wrote on real GPUs (tests/data/traces), imported. What is printed of them at several widths
stands in tests/data/screens; PROFD_SCREENS=write writes it anew.
"""
import bisect
import collections
import csv
import difflib
import io
import json
import os
import pathlib
import re
import sqlite3
import subprocess

import pytest

import terminal

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD", ROOT / "build"))
PROFD = BUILD / "bin" / "profd"
TRACES = sorted((ROOT / "tests/data/traces").glob("*.json.gz"))
if os.environ.get("PROFD_TRACES"):
    TRACES += sorted(pathlib.Path(os.environ["PROFD_TRACES"]).glob("*.json.gz"))
SCREENS = ROOT / "tests/data/screens"
PIPED = 119
WIDTHS = [80, 100, 120, 200, PIPED]
NAMED = {"kernels": "KERNEL", "operators": "OPERATOR", "ranges": "RANGE"}
VIEWS = ["operators", "kernels", "launches", "syncs", "overlap", "tree", "ranges", "api", "threads", "steps", "copies", "streams"]
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if k not in ("LC_ALL", "LC_CTYPE", "LANG", "PAGER", "PROFD_PAGER")},
               "NO_COLOR": "1", "TERM": "xterm"}


def run(*words, code=0, cwd=None):
    done = subprocess.run([PROFD, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, env=ENVIRONMENT, cwd=cwd)
    assert done.returncode == code, (words, done)
    return done


def on_terminal(width, *words, keyboard=False, cwd=None, **environment):
    return terminal.on_terminal([PROFD, *words], width, {**ENVIRONMENT, **environment}, keyboard, cwd)


def printed(width, *words, cwd=None):
    return run(*words, cwd=cwd).stdout if width == PIPED else on_terminal(width, *words, cwd=cwd)


def rows(capture, view, *more):
    return list(csv.DictReader(io.StringIO(run("show", capture, "--by", view, "--format", "csv", "--limit", 0, *more).stdout)))


def total(table, key):
    return sum(int(row[key]) for row in table if row[key])


@pytest.fixture(scope="module", params=TRACES, ids=lambda t: t.name.split(".")[0])
def capture(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("screen") / "capture.db"
    run("import", request.param, "--output", path)
    return path


@pytest.fixture(scope="module")
def alexnet(tmp_path_factory):
    path = tmp_path_factory.mktemp("screen") / "alexnet.db"
    run("import", ROOT / "tests/data/traces/a100_alexnet_critical_path.json.gz", "--output", path)
    return path


def without_verdict(text):
    """The verdict has its own tests: what stands between the breakdown and the first table is left out."""
    blocks = text.split("\n\n")
    return "\n\n".join(b for b in blocks if not re.match(r"\s+1 |\s*(nothing|Nothing|not known|no )", b))


@pytest.mark.parametrize("width", WIDTHS)
def test_as_it_was(alexnet, width):
    """The answer and the tables with names, line for line."""
    text = without_verdict(printed(width, "show", "./alexnet.db", cwd=alexnet.parent))
    for view in ("kernels", "operators", "launches", "tree"):
        text += f"\n=== {view}\n" + printed(width, "show", alexnet, "--by", view)
    path = SCREENS / f"alexnet-{'piped' if width == PIPED else width}.txt"
    if os.environ.get("PROFD_SCREENS") == "write":
        SCREENS.mkdir(exist_ok=True)
        path.write_text(text)
    wanted = path.read_text()
    assert text == wanted, "".join(difflib.unified_diff(wanted.splitlines(1), text.splitlines(1), "was", "is"))


UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def nanoseconds(figure):
    """(The figure, half of its last digit)"""
    digits, unit = figure.split()
    return float(digits) * UNITS[unit], 0.5 * 10.0 ** -len(digits.partition(".")[2]) * UNITS[unit]


def test_the_heading_is_what_the_rows_add_up_to(capture):
    """Both sides add up to the figure that the heading has; it is called the mean where there are several steps."""
    text = run("show", capture).stdout
    lines = text.split("\nWhere a step goes", 1)[1].split("\n\n", 1)[0].splitlines()
    heading = re.search(r"(mean )?(\d+(?:\.\d+)? (?:ns|us|ms|s))$", lines[0])
    several = " a step (median; " in text
    assert several == bool(heading[1])
    sides, side = {}, None
    for line in lines[1:]:
        row = re.match(r"^  (\S.{8}|\s{9}) (\S.{37}) +(\d+(?:\.\d+)? (?:ns|us|ms|s)) +\d+ %", line)
        side = line[2:11].strip() or side
        if row:  # what idle consists of begins with spaces: idle has it
            sides.setdefault(side, []).append(nanoseconds(row[3]))
    assert sides
    total, half = nanoseconds(heading[2])
    for side, rows in sides.items():
        assert abs(sum(ns for ns, _ in rows) - total) <= half + sum(half for _, half in rows) + len(rows), (side, lines)


def test_what_no_trace_has(alexnet):
    """That a trace does not say how much the thread ran is no news on its first screen."""
    sentence = "how much the step's thread ran, and workers of a loader, was not recorded"
    assert sentence not in printed(PIPED, "show", alexnet)
    assert sentence in printed(PIPED, "show", alexnet, "--by", "breakdown")


@pytest.mark.parametrize("width", WIDTHS)
def test_everything_fits(capture, width):
    for words in ([], ["--by", "all"]):
        for line in printed(width, "show", capture, *words).splitlines():
            assert len(line) <= width or str(capture) in line, (words, line)


@pytest.mark.parametrize("view", NAMED)
@pytest.mark.parametrize("width", [80, PIPED])
def test_no_two_names_are_alike(capture, view, width):
    table = rows(capture, view)
    if len(table) < 2:
        pytest.skip("the trace has none")
    lines = printed(width, "show", capture, "--by", view, "--limit", 0).splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith(NAMED[view]))
    end = re.search(r" (DOMAIN|FROM|CALLS)", lines[head]).start()
    shown = [line[:end].strip() for line in lines[head + 1:head + 1 + len(table)]]
    for (mine, name), (other, another) in zip(sorted(zip(shown, (r["name"] for r in table))), sorted(zip(shown, (r["name"] for r in table)))[1:]):
        assert mine != other or name == another, (mine, name, another)
    whole = run("show", capture, "--by", view, "--limit", 0, "--full-names").stdout
    assert all(re.sub(r"\s+", " ", row["name"]) in re.sub(r"\s+", " ", whole) for row in table)


def test_meaning_goes_last(alexnet):
    """Arguments and namespaces go before the arguments of templates, and these before the name."""
    lines = [line for line in run("show", alexnet, "--by", "kernels", "--limit", 0).stdout.splitlines() if "Functor" in line or "..." in line]
    assert lines and not any("void at::" in line for line in lines)
    assert "void at::native::" in run("show", alexnet, "--by", "kernels", "--full-names").stdout


# --- parts ---


def test_threads_add_up(capture):
    """What the threads did is what was done: every table that --thread can cut."""
    threads = [row["thread"] for row in rows(capture, "threads")]
    for view, keys in (("operators", ("calls", "self_cpu_ns", "self_device_ns", "device_ns")), ("ranges", ("calls", "total_ns", "self_ns")),
                       ("kernels", ("calls", "total_ns")), ("copies", ("calls", "bytes")), ("api", ("calls", "total_ns", "failed")),
                       ("launches", ("calls", "total_ns")), ("syncs", ("calls", "total_ns"))):
        whole = rows(capture, view)
        if view in ("kernels", "copies", "launches"):  # what was launched before the recording is no thread's
            with sqlite3.connect(capture) as db:
                table = {"kernels": "kernel_records", "copies": "copy_records"}.get(view)
                tables = [table] if table else ["kernel_records", "copy_records", "set_records"]
                if any(db.execute(f"SELECT count(*) FROM {t} WHERE correlation NOT IN (SELECT correlation FROM launches WHERE start IS NOT NULL AND thread)").fetchone()[0] for t in tables):
                    continue
        parts = [rows(capture, view, "--thread", thread) for thread in threads]
        for key in keys:
            if view == "api" or view == "syncs":
                assert sum(total(part, key) for part in parts) <= total(whole, key), (view, key)
            else:
                assert sum(total(part, key) for part in parts) == total(whole, key), (view, key)


def test_a_range_alone(capture):
    """By a slow reference: what begins inside of a call of that name, on its thread."""
    names = [row["name"] for row in rows(capture, "operators")][:3] + [row["name"] for row in rows(capture, "ranges")][:2]
    with sqlite3.connect(capture) as db:
        for name in names:
            spans = db.execute("SELECT thread, start, start + duration FROM operators WHERE name = (SELECT id FROM strings WHERE text = ?1) "
                               "UNION ALL SELECT thread, start, start + duration FROM ranges WHERE name = (SELECT id FROM strings WHERE text = ?1)", (name,)).fetchall()

            def inside(thread, start):
                return any(t == thread and a <= start < b for t, a, b in spans)
            kernels = sum(inside(t, s) for t, s in db.execute("SELECT l.thread, l.start FROM kernel_records k JOIN launches l ON l.correlation = k.correlation "
                                                              "WHERE l.start IS NOT NULL"))
            calls = sum(inside(t, s) for t, s in db.execute("SELECT thread, start FROM api_calls"))
            if "*" in name or "?" in name or "[" in name:
                continue
            assert total(rows(capture, "kernels", "--range", name), "calls") == kernels, name
            assert total(rows(capture, "api", "--range", name), "calls") == calls, name
            assert total(rows(capture, "launches", "--range", name, ), "calls") >= kernels, name
    assert "has no range and no operator" in run("show", capture, "--by", "kernels", "--range", "nothing of this name", code=3).stderr


def test_streams_and_devices_add_up(capture):
    whole = rows(capture, "kernels")
    streams = {(row["device"], row["stream"]) for row in rows(capture, "streams")}
    parts = [rows(capture, "kernels", "--device", d, "--stream", s) for d, s in streams]
    assert sum(total(part, "calls") for part in parts) == total(whole, "calls")
    assert sum(total(part, "total_ns") for part in parts) == total(whole, "total_ns")
    device, stream = sorted(streams, key=lambda one: (int(one[0]), int(one[1])))[0]
    for words, sentence in ((["--device", 77], "has no device 77; it has "), (["--stream", 987654], "has no stream 987654; it has "),
                            (["--device", device, "--stream", 987654], f"has no stream of this device 987654; it has {stream}"),
                            (["--thread", 1 << 30], "has no thread 1073741824; it has ")):
        # Whatever is shown of it: nobody takes the whole, or nothing, for the part.
        for how in (["--by", "kernels"], ["--by", "launches"], ["--by", "all"], ["--format", "json"], ["--by", "kernels", "--format", "csv"], []):
            said = run("show", capture, *how, *words, code=3)
            assert sentence in said.stderr and not said.stdout, said
    for device in {d for d, _ in streams}:
        assert {row["device"] for row in rows(capture, "overlap", "--device", device)} <= {device}
        assert {row["device"] for row in rows(capture, "breakdown", "--device", device)} <= {device, ""}


def test_what_cannot_be_cut_is_left_out(alexnet):
    """Of the answer; test_filters.py has each table by itself."""
    thread = rows(alexnet, "threads")[0]["thread"]
    answer = run("show", alexnet, "--range", "aten::*", "--thread", thread).stdout
    assert "left out  totals, findings, breakdown, steps: --range and --thread cannot cut them (profd help filters)" in answer
    assert "Kernels" in answer and "Where a step goes" not in answer and "Steps" not in answer and "a step (median" not in answer
    answer = run("show", alexnet, "--device", 0).stdout
    assert "left out  findings, operators, ranges, threads: --device cannot cut them" in answer
    assert "Where a step goes" in answer and "device busy" in answer and "evidence:" not in answer
    assert "left out" not in run("show", alexnet, "--step", 1).stdout


def test_where(alexnet):
    table = rows(alexnet, "kernels")

    def names(condition):
        return sorted(row["name"] for row in rows(alexnet, "kernels", "--where", condition))
    for condition, keep in (
            ("calls>1", lambda r: int(r["calls"]) > 1), ("calls >= 2 and total > 20us", lambda r: int(r["calls"]) >= 2 and int(r["total_ns"]) > 20000),
            ("name~GEMM", lambda r: "gemm" in r["name"].lower()), ("not name~gemm", lambda r: "gemm" not in r["name"].lower()),
            ("name!~gemm", lambda r: "gemm" not in r["name"].lower()), ("name~'void *' or calls=1", lambda r: r["name"].startswith("void ") or r["calls"] == "1"),
            ("(calls=1 or calls=2) and not (total_ns<10us)", lambda r: r["calls"] in ("1", "2") and int(r["total_ns"]) >= 10000),
            ("percent>5%", lambda r: float(r["percent"]) > 5), ("calls!=1", lambda r: r["calls"] != "1"),
            ("name=\"%s\"" % table[0]["name"].replace('"', ""), lambda r: r["name"] == table[0]["name"])):
        assert names(condition) == sorted(r["name"] for r in table if keep(r)), condition
    for condition, words in (("calls", "is missing"), ("calls>", "a value is missing"), ("calls>x", "no number"), ("total>3x", "duration such as"), ("colour=1", "it has name, calls"),
                             ("name>1", "is a text"), ("calls~1", "is a number"), ("(calls>1", ") is missing"), ("calls>1 calls<3", "\"and\" or \"or\""),
                             ("name='x", "second quote"), ("(" * 60 + "calls>1", "too many brackets"), ("", "column is missing")):
        assert words in run("show", alexnet, "--by", "kernels", "--where", condition, code=2).stderr, condition
    assert "--by" in run("show", alexnet, "--where", "calls>1", code=2).stderr


# --- the new tables ---


def test_launches(capture):
    """Every operation, with its delay and what of it lay behind other work in its stream."""
    wanted = collections.defaultdict(lambda: [0, 0, 0, 0, 0])
    with sqlite3.connect(capture) as db:
        words = dict(db.execute("SELECT id, text FROM strings"))
        owners = dict(db.execute("SELECT id, name FROM operators UNION ALL SELECT id, name FROM ranges"))
        launches = {c: rest for c, *rest in db.execute("SELECT l.correlation, l.start, l.range, a.name FROM launches l LEFT JOIN api_calls a ON a.rowid = l.api")}
        readable = dict(db.execute("SELECT mangled, name FROM kernel_names"))
        work = collections.defaultdict(list)
        for table, name in (("kernel_records", "name"), ("copy_records", "kind"), ("set_records", "memory_kind")):
            for start, duration, device, stream, correlation, what in db.execute(f"SELECT start, duration, device, stream, correlation, {name} FROM {table} WHERE start IS NOT NULL"):
                work[device, stream].append((start, duration, correlation, table, what))
    for stream in work.values():
        before = None
        for start, duration, correlation, table, what in sorted(stream, key=lambda o: o[0]):
            called, owner, call = launches.get(correlation, (None, None, None))
            name = words[readable.get(what, what)] if table == "kernel_records" else table
            row = wanted[words.get(owners.get(owner), "(no operator)"), words.get(call, "(not recorded)"), name]
            row[0] += 1
            row[1] += duration
            if called is not None:
                row[2] += 1
                row[3] += max(start - called, 0)
                row[4] += max(min(before, start) - called, 0) if before is not None else 0
            before = max(start + duration, before) if before is not None else start + duration
    found = collections.defaultdict(lambda: [0, 0])
    averages = {}
    for row in rows(capture, "launches"):
        name = row["name"]
        name = "copy_records" if name.startswith("Memcpy ") else "set_records" if name.startswith("Memset ") else name
        key = row["operator"], row["call"], name
        found[key][0] += int(row["calls"])
        found[key][1] += int(row["total_ns"])
        averages[key] = row
    assert {k: v[:2] for k, v in wanted.items()} == dict(found)
    for key, row in averages.items():
        if key[2] in ("copy_records", "set_records") or not wanted[key][2]:
            continue
        assert int(row["delay_average_ns"]) == wanted[key][3] // wanted[key][2], key
        # Operations that begin at one instant may be taken in another order.
        assert abs(int(row["queue_average_ns"]) - wanted[key][4] // wanted[key][2]) <= max(int(row["delay_average_ns"]) // 100, 10), key


def test_the_tree_adds_up(capture):
    """Its self times are those of all operators and ranges; children are within their parents; each level is sorted."""
    table = rows(capture, "tree")
    with sqlite3.connect(capture) as db:
        calls, self_ns = (sum(x) for x in zip(*db.execute("SELECT count(*), coalesce(sum(self), 0) FROM operators UNION ALL "
                                                          "SELECT count(*), coalesce(sum(self), 0) FROM ranges WHERE source <> 2")))
    assert total(table, "calls") == calls and total(table, "self_ns") == self_ns
    way = []
    for row in table:
        del way[int(row["depth"]):]
        assert len(way) == int(row["depth"])
        if way:
            assert int(row["total_ns"]) <= int(way[-1]["total_ns"]) and row["thread"] == way[-1]["thread"]
            way[-1]["rest"] = way[-1].get("rest", int(way[-1]["total_ns"])) - int(row["total_ns"])
            assert way[-1]["rest"] >= 0
        way.append(row)
    text = run("show", capture, "--by", "tree", "--limit", 5).stdout
    if len(table) > 20:
        assert "smaller rows; --limit 0 shows them" in text


def test_overlap(capture):
    """Streams, by a sweep over every nanosecond that matters; communication and copies as the breakdown has them."""
    with sqlite3.connect(capture) as db:
        steps = db.execute("SELECT start, start + duration FROM steps ORDER BY start").fetchall()
        work = [r for t in ("kernel_records", "copy_records", "set_records") for r in
                db.execute(f"SELECT device, stream, start, start + duration FROM {t} WHERE start IS NOT NULL")]
    found = {(row["device"], row["stream"]): row for row in rows(capture, "overlap") if row["stream"]}
    for device in {d for d, *_ in work}:
        intervals = {}
        for d, stream, start, end in work:
            if d == device:
                intervals.setdefault(stream, []).extend((max(start, a), min(end, b)) for a, b in steps if max(start, a) < min(end, b))
        for stream in intervals:
            merged = []
            for a, b in sorted(intervals[stream]):
                if merged and a <= merged[-1][1]:
                    merged[-1][1] = max(b, merged[-1][1])
                else:
                    merged.append([a, b])
            intervals[stream] = merged
        for stream, merged in intervals.items():
            if not merged:
                continue
            others = sorted(i for s, m in intervals.items() if s != stream for i in m)
            united = []
            for a, b in others:
                if united and a <= united[-1][1]:
                    united[-1][1] = max(b, united[-1][1])
                else:
                    united.append([a, b])
            begins = [a for a, _ in united]
            together = 0
            for a, b in merged:
                at = max(bisect.bisect_right(begins, a) - 1, 0)
                while at < len(united) and united[at][0] < b:
                    together += max(0, min(b, united[at][1]) - max(a, united[at][0]))
                    at += 1
            row = found[str(device), str(stream)]
            assert (int(row["busy_ns"]), int(row["overlapped_ns"])) == (sum(b - a for a, b in merged), together)
    breakdown = rows(capture, "breakdown")
    for row in rows(capture, "overlap"):
        if row["what"] in ("communication", "copies and memsets"):
            word = "communication" if row["what"] == "communication" else "copies"
            assert int(row["alone_ns"]) == total([b for b in breakdown if b["device"] == row["device"] and b["row"] == word], "total_ns")


def test_waits_and_their_operators(capture):
    with sqlite3.connect(capture) as db:
        words = dict(db.execute("SELECT id, text FROM strings"))
        spans = db.execute("SELECT thread, start, start + duration, depth, name FROM operators UNION ALL SELECT thread, start, start + duration, depth, name FROM ranges").fetchall()
        wanted = collections.Counter()
        for duration, thread, start, call in db.execute("SELECT s.duration, a.thread, a.start, a.name FROM syncs s LEFT JOIN api_calls a ON a.correlation = s.correlation"):
            around = [(depth, name) for t, a, b, depth, name in spans if t == thread and start is not None and a <= start < b]
            wanted[words.get(max(around)[1], "") if around else "", words.get(call, "")] += duration
    assert wanted == collections.Counter({}) + sum((collections.Counter({(r["operator"], r["call"]): int(r["total_ns"])}) for r in rows(capture, "syncs")), collections.Counter()) \
        or not wanted


# --- what was not recorded ---


@pytest.mark.parametrize("collector, tables, views", [
    ("torch", ["operators", "operator_totals"], ["operators"]),
    ("cupti", ["kernel_records", "copy_records", "set_records", "api_calls", "launches", "syncs", "step_devices", "range_devices", "kernel_totals",
               "copy_totals", "set_totals", "api_totals"], ["kernels", "copies", "launches", "syncs", "overlap", "api", "streams"]),
    ("nvtx", ["ranges", "range_totals"], []),
])
def test_without_a_collector(alexnet, tmp_path, collector, tables, views):
    """What is missing is said, once, and is never 0."""
    path = tmp_path / "part.db"
    path.write_bytes(alexnet.read_bytes())
    with sqlite3.connect(path) as db:
        db.execute("UPDATE collectors SET ran = 0, sentence = 'it was left out' WHERE collector = ?", (collector,))
        for table in tables:
            db.execute(f"DELETE FROM {table}")
        if collector == "cupti":
            db.execute("UPDATE operator_totals SET self_device = NULL, device = NULL")
            db.execute("UPDATE steps SET collectors = collectors & ~8")
    answer = json.loads(run("show", path, "--format", "json").stdout)
    text = run("show", path).stdout
    for view in views:
        alone = run("show", path, "--by", view).stdout
        assert "not recorded: it was left out" in alone, view
        key = {"operators": "operators"}.get(view, view)
        assert not answer[key], view
    if collector == "cupti":
        assert answer["launches"] is None and answer["overlap"] is None and "device not recorded" in text and "device busy" not in text
        assert all(row["device_ns"] is None for row in answer["tree"])
    if collector == "torch":
        assert "operators: not recorded: it was left out" in text
    for view in VIEWS:
        run("show", path, "--by", view)


# --- terminals ---


def test_pager(alexnet):
    """On a terminal, with somebody at it. Not with --no-pager, in a pipe, or without a keyboard."""
    words = ("show", alexnet, "--by", "all")
    paged = on_terminal(100, *words, keyboard=True, PROFD_PAGER="sed s/^/paged:/")
    assert all(line.startswith("paged:") for line in paged.splitlines()) and "Kernels" in paged
    assert on_terminal(100, *words, keyboard=True, PAGER="sed s/^/paged:/") == paged
    for more, environment in ((["--no-pager"], {"PROFD_PAGER": "sed s/^/paged:/"}), ([], {"PROFD_PAGER": "cat", "PAGER": "false"}), ([], {"PROFD_PAGER": ""}),
                              ([], {"PROFD_PAGER": "no-such-program"})):
        assert "paged:" not in on_terminal(100, *words, *more, keyboard=True, **environment)
    assert "paged:" not in on_terminal(100, *words, PROFD_PAGER="sed s/^/paged:/")


def test_colours_and_bars(alexnet):
    plain = on_terminal(120, "show", alexnet)
    coloured = on_terminal(120, "show", alexnet, NO_COLOR="")
    assert "\x1b[" not in plain and "\x1b[32m" in coloured and re.sub(r"\x1b\[\d*m", "", coloured) == plain
    assert "█" in plain and "█" not in on_terminal(120, "show", alexnet, LC_ALL="C") and "#" in on_terminal(120, "show", alexnet, LC_ALL="C")
    assert "█" not in run("show", alexnet).stdout and "\x1b" not in run("show", alexnet).stdout
    assert "\x1b" not in on_terminal(120, "show", alexnet, NO_COLOR="", TERM="dumb")
