"""Operators of torch that are not there all the time, or not in one thread."""
import collections
import sqlite3

from house import WORKLOADS

SCRIPT = WORKLOADS / "operators.py"
OPERATORS, CALLS = 30, 5  # of a step


def operators(profd, capture):
    """Calls by name, and what was lost."""
    with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
        calls = collections.Counter(dict(db.execute(
            "SELECT text, count(*) FROM operators JOIN strings ON strings.id = operators.name GROUP BY text")))
        lost, = db.execute("SELECT coalesce(sum(count), 0) FROM losses WHERE is_loss").fetchone()
    return calls, lost


def twice(row, profd, torch, mode, record):
    """The script bare and under profd."""
    def during(job):
        profd.wait_steps(job.pid, 2)
        return record(job)

    return row.twice(profd, [torch, SCRIPT, mode, "--steps=100", "--step-ms=20"], during, same, timeout=300)


def same(text):
    return [line for line in text.splitlines() if not line.startswith("ready")]


def test_operators_that_come_and_go(row, profd, torch_newest):
    row.does("takes operators away and registers others (torch.library)")

    def record(job):
        return profd.trigger(job.pid, "--steps", 4), profd.trigger(job.pid, "--steps", 10, "--step-op", "come::mark*")

    steps, marks = twice(row, profd, torch_newest, "library", record)
    calls, lost = operators(profd, steps)
    wanted = {f"come::{'mark' if n % 3 == 2 else 'work'}_{n:04d}": 4 * CALLS for n in range(OPERATORS)}
    assert {name: n for name, n in calls.items() if name.startswith("come::")} == wanted
    row.counts(sum(calls[name] for name in wanted), lost, 4 * CALLS * OPERATORS)
    # A step ends with each operator of that name, and with no other that lies where one has lain.
    calls, lost = operators(profd, marks)
    assert sum(n for name, n in calls.items() if name.startswith("come::mark")) == 10 and not lost


def test_operators_of_several_threads(row, profd, torch_newest):
    row.does("calls operators from 16 threads, recorded again and again")

    def record(job):
        return [profd.trigger(job.pid, "--steps", 4, "--warmup", 0) for _ in range(8)]

    captures = twice(row, profd, torch_newest, "threads", record)
    told = 0
    for capture in captures:
        assert capture["status"] == "complete" and capture["lost"] == 0, capture
        with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
            threads, known = db.execute("SELECT count(*), count(DISTINCT torch_id) FROM threads WHERE thread IN "
                                        "(SELECT thread FROM operators)").fetchone()
        told += threads
        assert known == threads
    row.counts(told, 0, 8 * 16)
