"""Rows of the breakdown name the line of the job's own Python at which most of them was: what profd says beside what is found here instant by instant, from
the capture's records and a slow reference of its rows (tests/e2e/breakdown_reference.py)."""
import bisect
import collections
import contextlib
import shutil
import sqlite3
import subprocess

import pytest

import breakdown_reference as reference
import gpu
from house import wait_for
from sums import BREAKDOWN_ROWS
from test_operator_stacks import CLEAR
from test_report import data_of, drawn, page_of

SCRIPT = CLEAR + """
import time
weight = torch.ones(1 << 20, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=1e-9)
one = torch.ones(1)
def fetched(batches):
    for batch in batches:
        time.sleep(0.02)  # fetches
        yield batch
loader = torch.utils.data.DataLoader(range(64), collate_fn=lambda items: list(fetched(items)))
while True:
    for batch in loader:
        torch.ops.stacked.clear(one, 3)
        time.sleep(0.02)  # sleeps
        torch.ops.stacked.clear(one, 1)
        weight.sum().backward()
        optimizer.step()  # updates
        call("cuCtxSynchronize")
"""
LEAST = 10


def line_of(word):
    return next(number for number, line in enumerate(SCRIPT.splitlines(), 1) if line.endswith(f"# {word}"))


class Truth:
    """The capture file's rows, lines and threads."""

    def __init__(self, path, step=None):
        done = subprocess.run([BREAKDOWN_ROWS, path], capture_output=True, text=True, check=True)
        self.timeline = reference.read(done.stdout.rpartition("end\n")[0])
        self.threads = reference.threads_of(self.timeline)
        self.devices = [reference.Device(device, self.timeline, self.threads) for device in sorted({o[2] for o in self.timeline["ops"]})]
        self.steps = [one for number, one in enumerate(self.timeline["steps"], 1) if step in (None, number)]
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
            self.lines = {stack: (file, line) for stack, file, line in db.execute(
                "SELECT l.stack, t.text, k.line FROM stack_lines l JOIN stacks k ON k.id = l.frame JOIN strings t ON t.id = k.file")}
            self.samples = db.execute("SELECT time, duration, thread, stack FROM samples").fetchall()
            self.operators = db.execute("SELECT start, start + duration, thread, stack FROM operators WHERE flags & 2 = 0").fetchall()

    def rows_at(self, time, step):
        """[(side, row, thread)] of an instant."""
        found = [("host", reference.host_row(time, self.timeline, self.threads, step), self.timeline["thread"])]
        for number, device in enumerate(self.devices):
            if any(o[0] <= time < o[1] for o in device.operations):
                continue
            dry = max([max(o[:2]) for o in device.operations if max(o[:2]) <= time] + [device.begins])
            place = bisect.bisect_right(device.starts, time)
            following = device.operations[place] if place < len(device.operations) else None
            launcher = self.timeline["calls"][following[5]][2] if following and following[5] >= 0 else self.timeline["thread"]
            phase, doing = self.threads[launcher].at(time) if launcher in self.threads else (None, "outside")
            late = self.timeline["thread"] if doing == "outside" and phase != "input" else launcher
            found.append((number, device.idle_row(time, dry, following), late))
        return [one for one in found if one[1] not in ("capture", "arrival", "gap", "device_wait") and (one[0] == "host" or one[1] != "unknown")]

    def borders(self, step):
        times = {time for o in self.operators for time in o[:2]}
        for thread in self.threads.values():
            times |= {time for s in thread.stretches for time in s[:2]}
        for device in self.devices:
            times |= set(device.borders(step))
        return sorted({time for time in times | {step[2]} if step[0] < time < step[1]} | set(step[:2]))

    def answer(self):
        """{(side, row): (way, {(file, line): share})}; no way: not known."""
        whole, ran, seen, count = collections.Counter(), collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter), collections.Counter()
        for step in self.steps:
            borders = self.borders(step)
            for time, until in zip(borders, borders[1:]):
                for side, row, thread in self.rows_at(time, step):
                    whole[side, row] += until - time
                    inside = [o for o in self.operators if o[2] == thread and o[0] <= time < o[1]]
                    line = self.lines.get(max(inside, key=lambda o: (o[0], -o[1]))[3]) if inside else None
                    if line:
                        ran[side, row][line] += until - time
            for time, duration, thread, stack in self.samples:
                if step[0] <= time < step[1]:
                    for side, row, late in self.rows_at(time, step):
                        if late == thread:
                            seen[side, row][self.lines.get(stack)] += duration
                            count[side, row] += 1
        told = {}
        for key, ns in whole.items():
            by_operators = 2 * sum(ran[key].values()) >= ns
            lines, of = (ran[key], ns) if by_operators else (seen[key], sum(seen[key].values()))
            known = by_operators or count[key] >= LEAST
            told[key] = {line: min(1, part / of) for line, part in lines.items() if line} if known else {}
        return told


def compare(shown, truth):
    """Every row that profd shows, beside the reference; returns the lines by row."""
    found = {("host", row): line for row, line in shown["lines"]["host"].items()}
    for number, device in enumerate(shown["lines"]["devices"]):
        found |= {(number, row): line for row, line in device["idle"].items()}
    expected = truth.answer()
    for key, line in found.items():
        shares = expected.get(key, {})
        if line is None:
            assert not shares, (key, shares)
            continue
        assert line["share"] == pytest.approx(max(shares.values()), abs=1e-6), (key, line, shares)
        assert line["share"] == pytest.approx(shares[line["file"], line["line"]], abs=1e-6), (key, line, shares)
    assert set(expected) <= set(found), (set(expected) - set(found))
    return found


def by_samples(profd, job):
    """What Python does between operators. On a full machine another line may once take longer."""
    def captured():
        capture = profd.trigger(job.pid, "--steps", 12, "--stacks", "--stacks-rate", 1000)["capture_id"]
        found = compare(profd.show(capture, "--by", "breakdown")["breakdown"], Truth(profd.file(capture)))
        wanted = {("host", "input"): "fetches", ("host", "outside"): "sleeps", (0, "input"): "fetches", (0, "outside"): "sleeps"}
        told = all((found.get(key) or {}).get("line") == line_of(word) for key, word in wanted.items())
        return (capture, found) if told else None
    capture, found = wait_for(captured, 200, "a capture in which the two sleeps are most of their rows")
    assert found["host", "input"]["function"] == "fetched" and found["host", "outside"]["function"] == "<module>"
    text = profd.run("show", capture, "--by", "breakdown").stdout
    share = round(found["host", "input"]["share"] * 100)
    assert f"rows.py:{line_of('fetches')} {share}%" in text and " LINE " in text and max(map(len, text.splitlines())) <= 120
    first = profd.run("show", capture).stdout.splitlines()
    assert max(map(len, first)) < 120
    for word, title in (("fetches", "input"), ("sleeps", "outside of operators")):
        assert [line for line in first if f" {title} " in line and f" rows.py:{line_of(word)} " in line], "\n".join(first)
    # What the file has is what is computed where it has it not, and of a single step.
    copy = profd.folder / "older.db"
    shutil.copy(profd.file(capture), copy)
    with contextlib.closing(sqlite3.connect(copy)) as db, db:
        assert db.execute("SELECT count(*) FROM breakdown_lines").fetchone()[0] == sum(line is not None for line in found.values())
        db.execute("UPDATE breakdown_lines SET row = 'x'")
    assert profd.run("show", copy, "--by", "breakdown", check=False).returncode == 1
    with contextlib.closing(sqlite3.connect(copy)) as db, db:
        db.execute("DROP TABLE breakdown_lines")
    assert profd.show(copy, "--by", "breakdown")["breakdown"] == profd.show(capture, "--by", "breakdown")["breakdown"]
    compare(profd.show(capture, "--by", "breakdown", "--step", 2)["breakdown"], Truth(profd.file(capture), 2))
    on_the_page(profd, capture, found)


def on_the_page(profd, capture, found):
    lines = profd.show(capture, "--by", "breakdown")["breakdown"]["lines"]
    assert data_of(page_of(profd.file(capture), profd.folder))["lines"] == lines
    text = drawn(profd.folder)["text"]["breakdown"]
    assert f"rows.py:{line_of('fetches')} {found['host', 'input']['share'] * 100:.0f} %" in text, text
    page = page_of(profd.file(capture), profd.folder, "--redact")
    assert data_of(page)["lines"]["host"]["input"]["file"] == "rows.py" and str(profd.folder) not in page
    # Of an earlier release's file they are found anew.
    assert data_of(page_of(profd.folder / "older.db", profd.folder))["lines"] == lines
    # And of one without a verdict, for which the daemon had no memory.
    bare = profd.folder / "bare.db"
    shutil.copy(profd.file(capture), bare)
    with contextlib.closing(sqlite3.connect(bare)) as db, db:
        for table in ("breakdown", "breakdown_lines", "findings", "finding_intervals"):
            db.execute(f"DELETE FROM {table}")
        db.execute("DELETE FROM meta WHERE key GLOB 'verdict*' OR key = 'breakdown_doubt'")
    assert data_of(page_of(bare, profd.folder))["lines"] == profd.show(bare, "--by", "breakdown")["breakdown"]["lines"] == lines


def by_operators(profd, job):
    capture = profd.trigger(job.pid, "--steps", 4, "--stacks=operators")["capture_id"]
    found = compare(profd.show(capture, "--by", "breakdown")["breakdown"], Truth(profd.file(capture)))
    # Less than a millisecond: no ten samples met it.
    assert found["host", "optimizer"]["line"] == line_of("updates"), found
    compare(profd.show(capture, "--by", "breakdown", "--step", 2)["breakdown"], Truth(profd.file(capture), 2))


def without_stacks(profd, job):
    capture = profd.trigger(job.pid, "--steps", 4)["capture_id"]
    assert profd.show(capture, "--by", "breakdown")["breakdown"]["lines"] is None
    text = profd.run("show", capture, "--by", "breakdown").stdout
    assert "rows.py:" not in text and " LINE" not in text
    assert data_of(page_of(profd.file(capture), profd.folder))["lines"] is None and "rows.py:" not in drawn(profd.folder)["text"]["breakdown"]


@pytest.mark.core
def test_rows_name_their_line(profd, torch_newest):
    script = profd.folder / "rows.py"
    script.write_text(SCRIPT)
    job = profd.job(torch_newest, script, env=gpu.environment(gpu.NEWEST))
    profd.wait_steps(job.pid, 5)
    by_samples(profd, job)
    by_operators(profd, job)
    without_stacks(profd, job)
