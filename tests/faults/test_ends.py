"""Jobs that end, or leave their image, while they are recorded."""
import json
import sqlite3

import pytest

from conftest import same_job
from house import BUILD, wait_for

EXITS = BUILD / "workloads" / "exits"

# {mode: what the job does}
ENDS = {
    "exit": "exit() in mid-capture", "_exit": "_exit() in mid-capture", "return": "returns from main in mid-capture",
    "abort": "abort() in mid-capture", "signal": "ends by SIGTERM in mid-capture", "segv": "a segmentation fault of its own",
    "exec": "exec() in mid-capture", "fork": "fork() in mid-capture, both go on", "clone": "raw clone() in mid-capture",
    "vfork": "vfork() and exec in mid-capture", "thread": "main thread leaves, another goes on stepping",
    "quit": "exit() by another thread in mid-capture",
}


@pytest.mark.parametrize("mode", ENDS)
def test_ends(row, profd, mode):
    row.does(ENDS[mode])

    def during(job):
        # The job holds until the capture is armed.
        profd.wait_steps(job.pid, 2)
        client = profd.follow("--pid", job.pid, "--steps", 100000, "--timeout", "60s")
        wait_for(lambda: profd.process(job.pid)["state"] != "idle" or client.poll() is not None, what="the agent to be armed")
        return client

    printed = []

    def mask(text):
        printed.append(text)
        return same_job(text)

    client = row.twice(profd, [EXITS, f"--mode={mode}", "--after=200", "--step-ms=10", "--code=7"], during, mask)
    answer = json.loads(client.communicate(timeout=120)[0])
    capture = answer["captures"][0]
    assert capture["status"] == "incomplete", capture
    # How soon the recording begins is up to how busy the machine is; from there on every step counts.
    assert capture["steps_recorded"] > 0
    with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
        first, = db.execute("SELECT min(number) FROM steps").fetchone()
        ranges, = db.execute("SELECT count(*) FROM ranges WHERE name = (SELECT id FROM strings WHERE text = 'step')").fetchone()
        lost, = db.execute("SELECT coalesce(sum(count), 0) FROM losses WHERE is_loss").fetchone()
    # A child steps on its own account, never into its parent's capture; an image that was exec'd is another process.
    stepped = json.loads(printed[1].splitlines()[0])["steps"]
    row.counts(ranges, lost, stepped - first + 1)
