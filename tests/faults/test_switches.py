"""Jobs that end, fork or leave their image while `profd set` switches what is recorded of them, again and again."""
import json
import sqlite3
import threading

import pytest

from conftest import same_job
from house import BUILD, wait_for

EXITS = BUILD / "workloads" / "exits"

ENDS = {
    "exit": "exit() while collectors are switched", "_exit": "_exit() while collectors are switched",
    "abort": "abort() while collectors are switched", "signal": "ends by SIGTERM while collectors are switched",
    "exec": "exec() while collectors are switched", "fork": "fork() while collectors are switched, both go on",
    "clone": "raw clone() while collectors are switched", "vfork": "vfork() and exec while collectors are switched",
    "thread": "main thread leaves while collectors are switched", "quit": "exit() by another thread while collectors are switched",
}


class Switching(threading.Thread):
    """Asks for other collectors until the job has gone. `switched`: what came of it; `refused`: what was said to whom it came too late."""

    def __init__(self, profd, pid):
        super().__init__()
        self.profd, self.pid, self.switched, self.refused = profd, pid, [], []
        self.over = threading.Event()

    def run(self):
        words = ("-nvtx", "+nvtx")
        wait_for(lambda: self.over.is_set() or (self.profd.process(self.pid) or {}).get("state") == "recording", what="the recording")
        while not self.over.is_set():
            done = self.profd.run("set", "--pid", self.pid, words[len(self.switched) % 2], "--timeout", "10s", "--format", "json", check=False)
            answer = json.loads(done.stdout) if done.stdout.strip() else {"switched": []}
            if not answer["switched"]:
                self.refused.append(done.stderr)
                return
            self.switched += answer["switched"]


def recorded(profd, capture):
    """Numbers of the first and the last step, the ranges around each step, and what was lost."""
    with sqlite3.connect(f"file:{profd.file(capture)}?mode=ro", uri=True) as db:
        first, last = db.execute("SELECT min(number), max(number) FROM steps").fetchone()
        ranges, = db.execute("SELECT count(*) FROM ranges WHERE name = (SELECT id FROM strings WHERE text = 'step')").fetchone()
        lost, = db.execute("SELECT coalesce(sum(count), 0) FROM losses WHERE is_loss").fetchone()
    return first, last, ranges, lost


@pytest.mark.parametrize("mode", ENDS)
def test_ends_while_switched(row, profd, mode):
    row.does(ENDS[mode])
    printed, switching = [], []

    def during(job):
        profd.wait_steps(job.pid, 2)
        client = profd.follow("--pid", job.pid, "--steps", 100000, "--timeout", "60s")
        # The job holds until it is armed.
        wait_for(lambda: profd.process(job.pid)["state"] != "idle", what="the agent to be armed")
        switching.append(Switching(profd, job.pid))
        switching[0].start()
        return client

    def mask(text):
        printed.append(text)
        return same_job(text)

    # On a full machine the job may have ended before its collectors were switched once: then there is another try.
    for _ in range(3):
        printed.clear()
        switching.clear()
        client = row.twice(profd, [EXITS, f"--mode={mode}", "--after=300", "--step-ms=10", "--code=7"], during, mask)
        captures = json.loads(client.communicate(timeout=120)[0])["captures"]
        switching[0].over.set()
        switching[0].join(60)
        switched = switching[0].switched
        if switched:
            break
    assert switched, switching[0].refused
    captures.sort(key=lambda one: int(one["capture_id"].lstrip("u")))
    # Where the job ends while collectors are switched, the last capture has no step; it is told all the same, as are the steps that are missing.
    states = [(one["capture_id"], one["status"], one["steps_recorded"], one["reason"]) for one in captures]
    assert all(one["status"] == "complete" for one in captures[:-1]), states
    assert captures[-1]["status"] in (("incomplete",) if captures[-1]["steps_recorded"] else ("incomplete", "failed")), states
    assert sum(one["steps_wanted"] for one in captures) == 100000 and client.returncode != 0, states
    if mode in ("thread", "quit"):
        row.nothing_recorded("steps of two threads")
        return
    # Each step is in one capture, or passed while collectors were switched; each that is in one has its range, or that was counted as lost.
    stepped = json.loads(printed[1].splitlines()[0])["steps"]
    ranges = lost = produced = 0
    for one in captures:
        if not one["steps_recorded"] and one is captures[-1]:
            continue
        first, last, there, gone = recorded(profd, one["capture_id"])
        if one is captures[-1]:
            last = stepped
        ranges, lost, produced = ranges + there, lost + gone, produced + last - first + 1
    row.counts(ranges, lost, produced)
