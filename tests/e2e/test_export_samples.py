"""Samples of Python's stacks in the chrome export: events Profile and ProfileChunk, as Chrome's own profiler writes them; against the capture's
own rows, `show --by lines`, and what Perfetto's trace processor makes of them."""
import collections
import contextlib
import itertools
import json
import os
import sqlite3
import subprocess
import sys

import pytest

import make_capture
from conftest import BUILD, WORKLOADS
from readers import readers as programs, trace
from readers.perfetto import NO_ERRORS, query, web  # noqa: F401 (fixtures)
from test_export_gpu_readers import export

SHARES = WORKLOADS / "shares.py"
RECORDED = programs.ROOT / "tests" / "data" / "traces" / "a100_alexnet_critical_path.json.gz"
CATEGORY = "disabled-by-default-v8.cpu_profiler"
# Of each sample its time, and the name of the innermost frame.
IN_PERFETTO = """select s.ts, f.name from cpu_profile_stack_sample s join stack_profile_callsite c on c.id = s.callsite_id
                 join stack_profile_frame f on f.id = c.frame_id join thread using (utid) where thread.tid = {} order by s.ts, s.id"""


def profiles(ours):
    """{(pid, thread): [(time in us, its frames' (name, url, line), the innermost first)]}, as the format has it: whatever is not so is an error."""
    threads, nodes, times, found = {}, {}, {}, collections.defaultdict(list)
    for event in (e for e in ours["traceEvents"] if e["ph"] == "P"):
        place, data, number = (event["pid"], event["tid"]), event["args"]["data"], int(event["id"], 16)
        assert event["cat"] == CATEGORY
        if event["name"] == "Profile":
            assert number not in threads and place not in threads.values(), event
            threads[number], nodes[number], times[number] = place, {}, data["startTime"]
            continue
        assert event["name"] == "ProfileChunk" and threads[number] == place, event
        for node in data["cpuProfile"]["nodes"]:
            assert node["id"] not in nodes[number] and (node.get("parent") in nodes[number] or node["id"] == 1), node
            frame = node["callFrame"]
            nodes[number][node["id"]] = node.get("parent"), (frame["functionName"], frame.get("url"), frame.get("lineNumber", -2) + 1)
        samples = data["cpuProfile"]["samples"]
        assert 0 < len(samples) == len(data["timeDeltas"]) <= 1024
        for node, delta in zip(samples, data["timeDeltas"]):
            assert delta >= 0
            times[number] += delta
            stack = []
            while node != 1:
                parent, frame = nodes[number][node]
                stack.append(frame)
                node = parent
            found[place].append((times[number], stack))
    assert all(list(of)[:1] == [1] and of[1] == (None, ("(root)", None, -1)) for of in nodes.values())
    return dict(found)


def recorded(path, where="1"):
    """The same of the capture file's rows; times in ns."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        texts = dict(db.execute("SELECT id, text FROM strings"))
        stacks = {i: (parent, (f"{texts.get(name, '?')} ({texts.get(file, '?').rsplit('/', 1)[-1]}:{line})", texts.get(file, "?"), line))
                  for i, parent, name, file, line in db.execute("SELECT id, parent, function, file, line FROM stacks")}
        found = collections.defaultdict(list)
        for thread, time, at in db.execute(f"SELECT thread, time, stack FROM samples WHERE {where} ORDER BY thread, time, rowid"):
            stack = [] if at else [("(no Python)", None, -1)]
            while at:
                at, frame = stacks[at]
                stack.append(frame)
            found[thread].append((time, stack))
        return found


def check(ours, rows):
    """Every sample is there once, of its thread, at its time, in its stack."""
    base = ours["baseTimeNanoseconds"]
    seen = profiles(ours)
    assert {thread for _, thread in seen} == set(rows)
    for (_, thread), samples in seen.items():
        own = rows[thread]
        assert [stack for _, stack in samples] == [stack for _, stack in own]
        # All times count from one, which is the base or what comes before it.
        off = {time - us * 1000 for (us, _), (time, _) in zip(samples, own)}
        assert max(off) - min(off) < 1000, (base, off)
    return seen


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two threads, a sample in no Python, many samples in one thread, a time before the base, a name that JSON escapes."""
    path = tmp_path_factory.mktemp("made") / "samples.db"
    with make_capture.Capture(path) as c:
        file, odd = c.string("/job/train.py"), c.string('/job/"o\\dd".py')
        for i, (parent, name, at, line) in enumerate([(0, "<module>", file, 90), (1, "step", file, 14), (2, "Model.forward", odd, 0),
                                                      (1, "step", file, 15), (0, "Thread.run", file, 7)], 1):
            c.add("stacks", id=i, parent=parent, function=c.string(name), file=at, line=line, first_line=1)
        c.add("steps", step=1, number=1, start=0, duration=10_000_000, thread=4242)
        c.add("steps", step=2, number=2, start=10_000_000, duration=15_000_000, thread=4242)
        times = itertools.chain([-1500], range(999, 25_000_000, 10_001))
        for i, time in enumerate(times):
            c.add("samples", time=time, thread=4242, stack=(3, 2, 4, 3)[i % 4], duration=10_001, state=1)
        c.add("samples", time=5_000_000, thread=4243, stack=0, duration=5, state=2)
        c.add("samples", time=4_000_000, thread=4243, stack=5, duration=5, state=2)
    return path


def test_format(made, tmp_path):
    path = export(made, tmp_path / "trace.json")
    ours = trace.load(path)
    rows = recorded(made)
    assert len(rows[4242]) > 2400
    seen = check(ours, rows)
    assert [stack[0] for _, stack in seen[4242, 4243]] == [("Thread.run (train.py:7)", "/job/train.py", 7), ("(no Python)", None, -1)]
    assert ("Model.forward (\"o\\dd\".py:0)", '/job/"o\\dd".py', 0) in (stack[0] for _, stack in seen[4242, 4242])
    assert ours["profdSamplesLeftOut"] == 0
    assert all(e["ts"] >= 0 for e in ours["traceEvents"] if e["ph"] == "P")
    # Other formats for traces are read by programs that do not know them.
    for other in ("tensorboard", "critical-path"):
        theirs = trace.load(export(made, tmp_path / f"{other}.json", "--format", other))
        assert not trace.events(theirs, "P")


def test_a_part(made, tmp_path):
    """Of a step, and of a time: the samples that were taken then."""
    for words, where in ((["--step", 2], "time >= 10000000 AND time < 25000000"), (["--time", "3ms-4500us"], "time >= 3000000 AND time < 4500000")):
        part = tmp_path / f"{words[0]}.json"
        rows = recorded(made, where)
        assert 100 < len(rows[4242]) < 2000
        check(trace.load(export(made, part, *map(str, words))), rows)


def test_several_captures(made, tmp_path):
    """Ids are the file's: chrome://tracing tells profiles apart by nothing else."""
    done = subprocess.run([BUILD / "bin" / "profd", "export", made, made, "--output", tmp_path / "two.json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seen = profiles(trace.load(tmp_path / "two.json"))
    assert len(seen) == 4 and sorted(map(len, seen.values()))[:2] == [2, 2], seen.keys()


def test_import_says_that_they_are_not_read(made, tmp_path):
    path = export(made, tmp_path / "trace.json")
    chunks = sum(e["name"] == "ProfileChunk" for e in trace.events(trace.load(path), "P"))
    done = subprocess.run([BUILD / "bin" / "profd", "import", path, "--output", tmp_path / "again.db", "--format", "json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    row, = json.loads(done.stdout)["files"]
    assert row["steps"] == 2 and row["samples_left_out"] == chunks > 1, row


def test_perfetto(query, made, tmp_path):  # noqa: F811
    path = export(made, tmp_path / "trace.json.gz")
    ours, rows = trace.load(path), recorded(made)
    errors, *threads, (stack,) = query(path, NO_ERRORS, *(IN_PERFETTO.format(thread) for thread in rows),
                                       "select count(distinct id) from stack_profile_callsite")
    assert errors == []
    for seen, own in zip(threads, rows.values()):
        assert [name for _, name in seen] == [stack[0][0] for _, stack in own]
    assert [us * 1000 for us, _ in profiles(ours)[4242, 4242]] == [time for time, _ in threads[0]]
    # Every frame of a thread is there once, with what all begin in.
    assert stack == [5 + 3], stack


def test_hta_passes_over_them(tmp_path):
    """In a trace of an A100 with samples besides it sees the kernels that the capture has."""
    if not os.environ.get("PROFD_HTA"):
        pytest.skip("no HolisticTraceAnalysis here (PROFD_HTA)")
    capture = tmp_path / "capture.db"
    programs.run(BUILD / "bin" / "profd", "import", RECORDED, "--output", capture)
    with contextlib.closing(sqlite3.connect(capture)) as db, db:
        frame, = db.execute("SELECT coalesce(max(id), 0) + 1 FROM stacks").fetchone()
        db.execute("INSERT INTO stacks (flags, id, parent, function, file, line, first_line) SELECT 0, ?, 0, min(id), min(id), 1, 1 FROM strings", (frame,))
        db.execute("INSERT INTO samples (flags, time, thread, stack, duration, state) SELECT 0, start, thread, ?, 5, 1 FROM operators", (frame,))
    path = export(capture, tmp_path / "trace.json.gz")
    assert sum(map(len, profiles(trace.load(path)).values())) > 300
    _, _, us = programs.hta({"chrome": path}, tmp_path)
    assert us == pytest.approx(programs.truth(capture)[1])


def test_a_job(profd, tmp_path):
    """Counts of the trace's samples by line are those of `show --by lines`."""
    job = profd.job(sys.executable, SHARES, tmp_path / "taken.json")
    profd.wait_steps(job.pid, 3)
    capture = profd.trigger(job.pid, "--steps", 20, "--stacks", "--stacks-rate", "997")["capture_id"]
    seen = check(trace.load(export(profd.file(capture), tmp_path / "trace.json")), recorded(profd.file(capture)))
    # The innermost frame of one's own stands for each.
    told = profd.run("export", capture, "--output", tmp_path / "size.json", "--dry-run").stdout.split(": about ")[1].split(",")[0].split()
    told = float(told[0]) * {"KiB": 1 << 10, "MiB": 1 << 20}[told[1]]
    assert told / 2 < (tmp_path / "trace.json").stat().st_size < told * 2, told
    lines = collections.Counter(next(frame[1:] for frame in stack if frame[1] == str(SHARES)) for samples in seen.values() for _, stack in samples)
    assert lines == {(row["file"], row["line"]): row["samples"] for row in profd.show(capture)["lines"]} and len(lines) > 3, lines


@pytest.fixture
def deep(tmp_path):
    """A file with a stack that is as deep as can be."""
    c = make_capture.Capture(tmp_path / "deep.db")
    name = c.string("f")
    for i in range(1, 513):
        c.add("stacks", id=i, parent=i - 1, function=name, file=name, line=i, first_line=1)
    return c


def test_stacks_that_are_not_there(deep, tmp_path):
    """And that lead round, or nowhere: such a sample is left out, and counted. It is not one in which no Python ran."""
    wrong = (1000, 1001, 1002, 1003, 1004, 600, -1, 1 << 33, 1 << 62)
    for i, parent in ((1000, 1001), (1001, 1000), (1002, 1002), (1003, -1), (1004, 1 << 40)):
        deep.add("stacks", id=i, parent=parent, function=8, file=8, line=i, first_line=1)
    for stack in (*wrong, 512):
        deep.add("samples", time=10, thread=1, stack=stack, duration=5, state=1)
    deep.close()
    ours = trace.load(export(tmp_path / "deep.db", tmp_path / "trace.json"))
    (time, stack), = profiles(ours)[4242, 1]
    assert len(stack) == 512 and ours["profdSamplesLeftOut"] == len(wrong)


def test_very_many_frames(deep, tmp_path):
    """A deep stack in each of very many threads would make a file a hundred times as large as the capture."""
    deep.db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) "
                    "INSERT INTO samples (flags, time, thread, stack, duration, state) SELECT 0, i, i, 512, 5, 1 FROM n")
    deep.close()
    # A process of its own has the trace: what this one holds does not grow by it.
    count = ("import re, sys; frames, tail = 0, b''\n"
             "for block in iter(lambda: sys.stdin.buffer.read(1 << 20), b''):\n"
             "    frames += block.count(b'callFrame'); tail = tail[-200:] + block\n"
             "print(frames, int(re.search(rb'profdSamplesLeftOut\": (\\d+)', tail)[1]))")
    limit = "" if os.environ.get("ASAN_OPTIONS") or os.environ.get("TSAN_OPTIONS") else "ulimit -d 300000; "
    done = subprocess.run(["bash", "-c", f'set -o pipefail; {limit}"$0" export "$1" --format chrome --output - | "$2" -c "$3"',
                           BUILD / "bin" / "profd", tmp_path / "deep.db", sys.executable, count], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    frames, left_out = map(int, done.stdout.split())
    assert 499_000 < frames <= 500_000 and 500_000 // 513 == 3000 - left_out, (frames, left_out)
