"""How much the step's thread and the workers that it forked ran while they were recorded, beside what the job says of itself."""
import contextlib
import json
import sqlite3

import pytest
from conftest import wait_for

JOB = r'''
import ctypes, json, os, sys, time
step = ctypes.CDLL(None).profd_step
folder, parent, children = sys.argv[1], os.getpid(), []
for i in range(2):
    child = os.fork()
    if not child:
        # One burns, the other sleeps.
        while os.getppid() == parent:
            if i:
                time.sleep(0.05)
        os._exit(0)
    children.append(child)
def schedstat(pid):
    return [int(word) for word in open(f"/proc/{pid}/schedstat").read().split()[:2]]
def switches():
    return [int(line.split()[1]) for line in open(f"/proc/self/task/{parent}/status") if "ctxt_switches" in line]
log, n = open(folder + "/log", "w"), 0
while True:
    row = [n, time.monotonic_ns(), time.thread_time_ns(), *switches(), *map(schedstat, children)]
    log.write(json.dumps(row) + "\n")
    log.flush()
    if n % 2:
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
    else:
        for _ in range(5):
            time.sleep(0.02)
    n += 1
    step()
'''


def open_file(profd, capture):
    db = sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True)
    db.row_factory = sqlite3.Row
    return contextlib.closing(db)


def looked_at(profd, job):
    """A capture and its steps. An agent that had to wait for a processor looks seldom, and of many a step is nothing known then: another is taken."""
    def often():
        capture = profd.trigger(job.pid, "--steps", 8)
        assert capture["steps_recorded"] == 8 and capture["lost"] == 0
        steps = profd.show(capture["capture_id"], "--by", "steps")["steps"]
        with open_file(profd, capture) as db:
            counts = [row[0] for row in db.execute("SELECT voluntary FROM thread_times ORDER BY time")]
            late, = db.execute("SELECT max(start) > 0 FROM workers").fetchone()
        tenth = counts[::max(1, len(counts) // 10)]
        known = sum(step["thread_cpu_ns"] is not None for step in steps)
        return not late and known >= 4 and len(counts) > 10 and len(set(tenth)) > 5 and (capture, steps)
    return wait_for(often, 60, "an agent that looks often")


def test_burning_sleeping_and_workers(profd):
    job = profd.job("/usr/bin/python3", "-c", JOB, profd.folder)
    profd.wait_steps(job.pid, 3)
    capture, steps = looked_at(profd, job)
    profd.wait_steps(job.pid, profd.process(job.pid)["step"] + 2)  # so that a row comes after all that was looked at
    job.kill()
    said = {row[0]: row[1:] for row in map(json.loads, (profd.folder / "log").read_text().splitlines()[:-1])}
    slept = 0
    for step in steps:
        # Row N was written at the beginning of the step N + 1.
        begin, end = said[step["number"] - 1], said[step["number"]]
        if step["thread_cpu_ns"] is None:
            continue
        ran, error = step["thread_cpu_ns"], step["thread_cpu_error_ns"]
        # The job writes its row a moment after the boundary.
        assert abs(ran - (end[1] - begin[1])) <= error + 2e6, (step, begin, end)
        assert 0 <= step["thread_waited_ns"] <= step["wall_ns"] - ran
        burns = (step["number"] - 1) % 2
        slept += not burns
        assert ran + error > 45e6 if burns else ran - error < 5e6, step
    known = sum(step["thread_cpu_ns"] is not None for step in steps)
    # From the first to the last step the looks' errors at the boundaries in between cancel out.
    with open_file(profd, capture) as db:
        looks = db.execute("SELECT * FROM thread_times ORDER BY time").fetchall()
        workers = {row["pid"]: dict(row) for row in db.execute("SELECT * FROM workers")}
        base, = db.execute("SELECT value FROM meta WHERE key = 'base_monotonic'").fetchone()
    assert {look["thread"] for look in looks} == {job.pid} and looks[0]["cpu"] == 0 and all(look["children"] == 1 for look in looks)
    first, last = said[steps[0]["number"] - 1], said[steps[-1]["number"]]
    voluntary = sum(step["voluntary_switches"] or 0 for step in steps if step["thread_cpu_ns"] is not None)
    assert 2 * slept <= voluntary <= last[2] - first[2] + known
    # Not every look reads the switches; those between two that do have their share, so none goes back and some stand between.
    for kind in ("voluntary", "involuntary"):
        assert all(before[kind] <= look[kind] for before, look in zip(looks, looks[1:]))
    # Workers: by their own schedstat, which the job has read within the time of the looks, and around it.
    rows = profd.show(capture["capture_id"], "--by", "workers")["workers"]
    assert len(rows) == len(workers) == 2 and [row["cpu_ns"] for row in rows] == sorted((row["cpu_ns"] for row in rows), reverse=True)
    burns, sleeps = rows
    read = [said[number] for number in sorted(said)]
    begin = base + workers[burns["pid"]]["start"]
    # A row is read between its time and the next row's.
    inner = [row for row in read if row[0] >= base + looks[0]["time"]][0], [row for row in read if row[0] <= base + looks[-1]["time"]][-2]
    assert looks[-1]["voluntary"] >= inner[1][2] - inner[0][2]
    outer = [row for row in read if row[0] <= begin][-2], [row for row in read if row[0] >= begin + burns["wall_ns"]][0]
    for number, kind in enumerate(("cpu_ns", "waited_ns")):
        least, most = (after[4][number] - before[4][number] for before, after in (inner, outer))
        assert least <= burns[kind] <= most, (kind, least, burns, most)
    assert burns["cpu_percent"] == pytest.approx(100 * burns["cpu_ns"] / burns["wall_ns"], abs=0.1)
    assert sleeps["cpu_percent"] < 5 and burns["cpu_percent"] > 4 * sleeps["cpu_percent"]
    text = profd.run("show", capture["capture_id"], "--by", "breakdown").stdout
    assert "a step's thread ran" in text and "2 workers (processes that it forked) ran" in text
    one = profd.folder / "one.db"
    one.write_bytes(profd.file(capture["capture_id"]).read_bytes())
    with contextlib.closing(sqlite3.connect(one)) as db:
        db.execute("DELETE FROM workers WHERE pid = ?", (sleeps["pid"],))
        db.commit()
    assert f"1 worker (a process that it forked) ran {burns['cpu_percent']:.0f} % of the time" in profd.run("show", one, "--by", "breakdown").stdout


def test_nothing_said_of_what_was_not_recorded(profd):
    """A file from which the looks are gone, as one of an earlier release."""
    job = profd.job("/usr/bin/python3", "-c", JOB, profd.folder)
    profd.wait_steps(job.pid, 3)
    capture = profd.trigger(job.pid, "--steps", 2)
    copy = profd.folder / "old.db"
    copy.write_bytes(profd.file(capture["capture_id"]).read_bytes())
    with contextlib.closing(sqlite3.connect(copy)) as db:
        db.execute("DELETE FROM thread_times")
        db.execute("DELETE FROM workers")
        db.commit()
    assert all(step["thread_cpu_ns"] is None and step["voluntary_switches"] is None for step in profd.show(copy, "--by", "steps")["steps"])
    assert "not recorded" in profd.run("show", copy, "--by", "breakdown").stdout
    assert "not recorded: nobody looked at" in profd.run("show", copy, "--by", "workers").stdout
    with contextlib.closing(sqlite3.connect(copy)) as db:
        db.execute("DROP TABLE thread_times")
        db.execute("DROP TABLE workers")
        db.commit()
    assert all(step["thread_cpu_ns"] is None for step in profd.show(copy, "--by", "steps")["steps"])
    assert profd.show(copy, "--by", "workers")["workers"] is None
