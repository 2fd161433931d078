"""Descriptors: jobs that close those that they do not know, have a table of their own, run out of them, or fork."""
import json
import re
import shutil
import sqlite3
import subprocess
import time

import pytest

from conftest import same_job
from house import BUILD, wait_for
from proc import agent_threads, opened, processor_seconds

DESCRIPTORS = BUILD / "workloads" / "descriptors"
STEPS = 120
OPENED = 64 - 3 - 24  # what the mode `exhaust` can open: its limit, without the standard ones and its own files

# {mode: what the job does}
MODES = {
    "close": "closes all descriptors from 3 on, opens its own, in mid-capture",
    "loop": "closes all descriptors and opens its own at every step",
    "unshare": "steps on a thread with a descriptor table of its own",
    "exhaust": "opens files until it has no descriptor left",
    "fork": "forks in mid-capture; the child inherits nothing of ours",
    "clone": "raw clone() in mid-capture; the child inherits nothing of ours",
}
# {what a filter refuses: what that leaves to the agent}
TABLES = {"": "", "range": ", no close_range()", "table": ", no table of our own"}


def agents_seconds(pid):
    return sum(processor_seconds(thread) for thread in agent_threads(pid))


def wake_ups(pid):
    return sum(int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", (t / "status").read_text(), re.M)[1])
               for t in agent_threads(pid))


def in_database(profd, capture, sql):
    with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
        return db.execute(sql).fetchone()[0]


def ranges_and_losses(profd, capture):
    return (in_database(profd, capture, "SELECT count(*) FROM ranges"),
            in_database(profd, capture, "SELECT coalesce(sum(count), 0) FROM losses WHERE is_loss"))


@pytest.mark.parametrize("mode,deny", [*((mode, "") for mode in MODES), ("close", "range"), ("clone", "range")])
def test_descriptors(row, profd, mode, deny):
    """What is ours lies in a table of our own: nothing of the job's is touched, and the capture is complete."""
    row.does(MODES[mode] + TABLES[deny])
    # A thread that steps in another's place is believed after 16 steps: it does so before the capture.
    after = 5 if mode == "unshare" else 150
    line = [DESCRIPTORS, f"--mode={mode}", "--steps=250", "--step-ms=5", f"--after={after}", f"--deny={deny}"]

    def during(job):
        profd.wait_steps(job.pid, 90)
        # It begins before the job acts and ends after it.
        capture = profd.trigger(job.pid, "--steps", STEPS)
        before = agents_seconds(job.pid)
        time.sleep(0.5)
        assert agents_seconds(job.pid) - before < 0.1, "a thread of the agent's does not sleep"
        assert not [name for name in opened(f"/proc/{job.pid}/fd").values() if "profd" in name and "descriptors" not in name]
        return capture, profd.trigger(job.pid)

    first, second = row.twice(profd, line, during)
    assert first["status"] == second["status"] == "complete"
    ranges, lost = ranges_and_losses(profd, first)
    row.counts(ranges, lost, STEPS)


# In the job's table the agent's numbers count towards the job's limit (docs/job.md): behind close_range() these are the signals'
# descriptor, a new connection, and a file and a folder that are being read.
OURS = 4


def but_for_ours(text):
    """What the job printed; of the descriptors that it could open, up to OURS may be missing."""
    lines = same_job(text)
    for line in lines:
        if isinstance(line, dict) and line.get("mode") == "exhaust" and OPENED - OURS <= line["opened"] <= OPENED:
            line["opened"] = OPENED
    return lines


@pytest.mark.parametrize("mode,pause", [("close", 0), ("loop", 0), ("fork", 0), ("exhaust", 0), ("exhaust", 5)])
def test_in_the_jobs_table(row, profd, mode, pause):
    """Where there is no table of our own: the job's files are not touched, the capture tells what became of it, and the agent
    comes back by a new connection. With a pause the agent takes its numbers while the job takes the others."""
    row.does(MODES[mode] + TABLES["table"] + (", slowly" if pause else ""))
    line = [DESCRIPTORS, f"--mode={mode}", "--steps=250", "--step-ms=5", "--after=150", f"--pause-ms={pause}", "--deny=table"]
    answers = []

    def during(job):
        profd.wait_steps(job.pid, 90)
        client = subprocess.run([str(profd.client), "trigger", "--pid", str(job.pid), "--steps", str(STEPS), "--format", "json"],
                                env=profd.env, capture_output=True, text=True, timeout=60)
        answers.append((client.returncode, client.stdout))
        before = agents_seconds(job.pid)
        time.sleep(0.5)
        assert agents_seconds(job.pid) - before < 0.1, "a thread of the agent's does not sleep"
        if mode == "close":
            # The first trigger may meet the connection that was closed; from then on there is another.
            profd.run("trigger", "--pid", job.pid, check=False)
            wait_for(lambda: profd.process(job.pid), 10, "the agent to come back")
            return profd.trigger(job.pid)

    row.twice(profd, line, during, but_for_ours)
    complete = []
    for code, out in answers:
        assert code in (0, 1, 3, 4, 5), (code, out)
        complete += [c for c in json.loads(out)["captures"] if c["status"] == "complete"]
    if complete:
        ranges, lost = ranges_and_losses(profd, complete[0])
        row.counts(ranges, lost, STEPS)
    else:
        row.nothing_recorded("connection lost")


@pytest.mark.parametrize("how", ["dlopen", "dlmopen"])
def test_two_copies(row, profd, tmp_path, how):
    row.does(f"carries a second copy of the agent by {how}()")
    second = tmp_path / "libprofd_agent.so"
    shutil.copy(profd.agent, second)
    line = [DESCRIPTORS, "--mode=nothing", "--steps=100", "--step-ms=5", f"--second={second}", f"--how={how}"]

    def during(job):
        profd.wait_steps(job.pid, 20)
        captures = [profd.trigger(job.pid, "--steps", 20) for _ in range(3)]
        doctor = profd.run("doctor", "--pid", job.pid, check=False).stdout
        assert "another copy" in doctor and str(second) in doctor, doctor
        return job.pid, captures

    pid, captures = row.twice(profd, line, during)
    assert [c["status"] for c in captures] == ["complete"] * 3
    said = [text for text in (profd.folder / "agent.log").read_text().splitlines() if text.startswith(f"profd[{pid}]")]
    assert len([text for text in said if "connected" in text]) == 1, said
    assert len([text for text in said if "another copy" in text]) == 1, said
    row.counts(*ranges_and_losses(profd, captures[0]), 20)


def test_no_daemon(row, empty_profd):
    """No inotify, which a user has 128 of; a busy folder wakes nobody; a daemon that comes is found."""
    profd = empty_profd
    row.does("is idle without a daemon, beside a busy folder")
    busy = profd.folder / "above"
    busy.mkdir()
    line = [BUILD / "workloads" / "steps", "--steps=900", "--step-ms=5"]
    plain = profd.job(*line, agent=False)
    bare = plain.communicate(timeout=60)
    # As from a job script: `profd run` would say on the job's stderr that there is no daemon.
    stay = profd.folder / "stay"
    stay.touch()
    job = profd.job(*line, agent=False, env={"PROFD_SOCKET": str(busy / "missing" / "profd.sock"), "LD_PRELOAD": str(profd.agent), "STAY": str(stay)})
    wait_for(lambda: agent_threads(job.pid), 10, "the agent")
    time.sleep(2)
    before = wake_ups(job.pid)
    for i in range(400):
        (busy / f"file{i}").write_text("")
    time.sleep(1)
    # A few looks, which become fewer, of some wake-ups each.
    assert wake_ups(job.pid) - before < 30
    for task in agent_threads(job.pid):
        assert not [f for f in opened(task / "fd").values() if "inotify" in f]
    stay.unlink()
    watched = job.communicate(timeout=60)
    row.same((plain.returncode, *bare), (job.returncode, *watched))
    row.nothing_recorded("no daemon")
    profd.start_daemon()
