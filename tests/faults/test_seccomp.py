"""Jobs that forbid themselves system calls that the agent needs."""
import json
import os
import signal
import sqlite3

import pytest

from house import BUILD, asleep, wait_for
from proc import agent_thread, of_threads

SANDBOX = BUILD / "workloads" / "sandbox"
HOWS = {"kill": "a seccomp filter over all threads that ends the process", "errno": "the same, that refuses",
        "alone": "the same, over its main thread only"}
SECCOMP_KILLS = int(os.environ.get("PROFD_SECCOMP_KILLS", "3"))


def agent_sleeps(pid):
    """Has the agent's thread not run for a while, nor waited for a processor?"""
    thread = agent_thread(pid)
    return thread and asleep(thread, 0.3)


@pytest.mark.parametrize("how", HOWS)
def test_seccomp_filter(row, profd, how):
    row.does(f"installs {HOWS[how]}; is triggered then")
    row.nothing_recorded("nothing is armed")
    go, end = profd.folder / "go", profd.folder / "end"

    def during(job):
        profd.wait_steps(job.pid, 5)
        assert profd.trigger(job.pid, "--steps", "3")["status"] == "complete"
        # What the agent is at while it puts a capture away is the exception that docs/job.md names.
        wait_for(lambda: agent_sleeps(job.pid), 30, "the agent to sleep")
        go.touch()
        wait_for(lambda: "Seccomp:\t2" in (open(f"/proc/{job.pid}/status").read()), 20, "the filter")
        refused = profd.run("trigger", "--pid", job.pid, "--steps", "3", check=False)
        assert refused.returncode == 1 and "seccomp filter" in refused.stderr, refused
        # It asks nobody there.
        assert "seccomp filter" in profd.run("doctor", "--pid", job.pid, check=False).stdout
        assert profd.process(job.pid)
        end.touch()

    go.touch()
    end.touch()
    row.twice(profd, [SANDBOX, f"--how={how}", "--after=4000", f"--go={go}", f"--end={end}"], during,
              before=lambda: (go.unlink(), end.unlink()))


@pytest.mark.parametrize("how", HOWS)
def test_seccomp_filter_before_the_agent_starts(row, profd, how):
    row.does(f"installs {HOWS[how]}, before its first step")
    row.nothing_recorded("the agent stays out")

    def during(job):
        wait_for(lambda: job.poll() is not None or "Seccomp:\t2" in open(f"/proc/{job.pid}/status").read(), 20, "the filter")
        assert profd.process(job.pid) is None

    row.twice(profd, [SANDBOX, f"--how={how}", "--before=0"], during)


def test_seccomp_filter_without_a_daemon(row, empty_profd):
    row.does("installs a seccomp filter; a daemon comes afterwards")
    row.nothing_recorded("nothing is armed")

    go = empty_profd.folder / "go"

    def during(job):
        # It looks for a daemon as it starts: what it does then is what the job's own threads do before they are confined.
        wait_for(lambda: agent_sleeps(job.pid), 30, "the agent's thread to sleep")
        go.touch()
        wait_for(lambda: job.poll() is not None or "Seccomp:\t2" in open(f"/proc/{job.pid}/status").read(), 20, "the filter")
        empty_profd.start_daemon()

    go.touch()
    row.twice(empty_profd, [SANDBOX, "--after=600", f"--go={go}"], during,
              lambda text: [line for line in text.splitlines() if "no daemon answers yet" not in line], before=go.unlink)


def test_seccomp_filter_and_the_daemon_ends(row, profd):
    row.does("installs a seccomp filter; the daemon ends and returns")
    row.nothing_recorded("nothing is armed")

    def during(job):
        profd.wait_steps(job.pid, 5)
        wait_for(lambda: job.poll() is not None or "Seccomp:\t2" in open(f"/proc/{job.pid}/status").read(), 20, "the filter")
        profd.stop_daemon()
        profd.start_daemon()

    row.twice(profd, [SANDBOX, "--before=100", "--after=600"], during)


def confined(job):
    """Has a thread a filter, and the main thread none?"""
    return job.poll() is not None or any("Seccomp:\t2" in text for text in of_threads(job.pid, "status").values())


def test_seccomp_filter_over_another_thread(row, profd):
    row.does("confines a thread by seccomp; is triggered then; that thread marks")
    row.nothing_recorded("nothing is armed")
    end = profd.folder / "end"

    def during(job):
        profd.wait_steps(job.pid, 5)
        wait_for(lambda: confined(job), 20, "the filter")
        refused = profd.run("trigger", "--pid", job.pid, "--steps", "100000", check=False)
        assert refused.returncode == 1 and "one of its threads has a seccomp filter of its own" in refused.stderr, refused
        assert "one of its threads has a seccomp filter of its own" in profd.run("doctor", "--pid", job.pid, check=False).stdout
        # Its agent goes on: only what that thread may do is not known.
        assert profd.wait_steps(job.pid, profd.process(job.pid)["step"] + 2)
        end.touch()

    end.touch()
    row.twice(profd, [SANDBOX, "--how=thread", "--after=4000", f"--end={end}"], during, before=end.unlink)
    assert profd.jobs[-1].returncode == 0


def test_seccomp_filter_over_another_thread_in_mid_capture(row, profd):
    row.does("confines a thread by seccomp, in mid-capture; later that thread marks")
    go, end = profd.folder / "go", profd.folder / "end"

    def during(job):
        profd.wait_steps(job.pid, 5)
        trigger = profd.follow("--pid", job.pid, "--steps", "100000")
        profd.wait_recorded(job.pid, 2)
        go.touch()
        capture, = json.loads(trigger.communicate(timeout=60)[0])["captures"]
        assert trigger.returncode == 5 and capture["status"] == "incomplete" and capture["steps_recorded"] > 0, capture
        assert "one of its threads has a seccomp filter" in profd.run("show", capture["capture_id"]).stdout
        with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
            first, last, steps = db.execute("SELECT min(number), max(number), count(*) FROM steps").fetchone()
            lost, = db.execute("SELECT coalesce(sum(count), 0) FROM losses WHERE is_loss").fetchone()
        row.counts(steps, lost, last - first + 1)
        end.touch()

    go.touch()
    end.touch()
    row.twice(profd, [SANDBOX, "--how=thread", "--after=4000", f"--go={go}", f"--end={end}"], during,
              before=lambda: (go.unlink(), end.unlink()))
    assert profd.jobs[-1].returncode == 0


def test_seccomp_filter_that_ends_the_process_in_mid_capture(row, profd):
    """The exception that docs/job.md names: what the agent is at in that very moment may end the job. Then its filter has ended it, by
    SIGSYS, and by nothing else; the daemon has what was recorded until then."""
    row.does(f"installs {HOWS['kill']}, in mid-capture: goes on, or is ended by its filter (docs/job.md)")
    go, end = profd.folder / "go", profd.folder / "end"
    command = [SANDBOX, "--how=kill", "--after=4000", f"--go={go}", f"--end={end}"]
    go.touch()
    end.touch()
    bare = profd.job(*command, agent=False)
    out, err = bare.communicate(timeout=60)
    ends = []
    for _ in range(SECCOMP_KILLS):
        go.unlink()
        end.unlink()
        job = profd.job(*command)
        profd.wait_steps(job.pid, 5)
        trigger = profd.follow("--pid", job.pid, "--steps", "100000")
        profd.wait_recorded(job.pid, 2)
        go.touch()
        wait_for(lambda: job.poll() is not None or "Seccomp:\t2" in open(f"/proc/{job.pid}/status").read(), 20, "the filter")
        # Its filter may end it at any moment: then the daemon knows it no more.
        wait_for(lambda: job.poll() is not None or (profd.process(job.pid) or {}).get("state") == "finishing", 20, "the agent to give up")
        end.touch()
        watched_out, watched_err = job.communicate(timeout=60)
        ends.append(job.returncode)
        if job.returncode == -signal.SIGSYS:
            row.identical = "its filter ended it"
        else:
            row.same((bare.returncode, out, err), (job.returncode, watched_out, watched_err))
        capture, = json.loads(trigger.communicate(timeout=120)[0])["captures"]
        assert capture["status"] == "incomplete" and capture["steps_recorded"] > 0, capture
        with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
            first, last, steps = db.execute("SELECT min(number), max(number), count(*) FROM steps").fetchone()
            lost, = db.execute("SELECT coalesce(sum(count), 0) FROM losses WHERE is_loss").fetchone()
        row.counts(steps, lost, last - first + 1)
    print(f"of {len(ends)} jobs {ends.count(-signal.SIGSYS)} were ended by their filter")


# Not "kill": see above.
@pytest.mark.parametrize("how", ["errno", "alone"])
def test_seccomp_filter_in_mid_capture(row, profd, how):
    row.does(f"installs {HOWS[how]}, in mid-capture")
    go, end = profd.folder / "go", profd.folder / "end"

    def during(job):
        profd.wait_steps(job.pid, 5)
        profd.run("trigger", "--pid", job.pid, "--steps", "100000", "--no-wait")
        wait_for(lambda: profd.process(job.pid)["state"] == "recording", 20, "the recording")
        go.touch()
        wait_for(lambda: profd.process(job.pid)["state"] == "finishing", 20, "the agent to give up")
        profd.run("cancel", "--pid", job.pid)
        capture = wait_for(lambda: next((c for c in profd.json("captures")["captures"] if c["status"] == "incomplete"), None), 30,
                           "the capture to end")
        assert capture["steps_recorded"] > 0
        with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
            first, last, steps = db.execute("SELECT min(number), max(number), count(*) FROM steps").fetchone()
            lost, = db.execute("SELECT coalesce(sum(count), 0) FROM losses WHERE is_loss").fetchone()
        row.counts(steps, lost, last - first + 1)
        end.touch()

    go.touch()
    end.touch()
    row.twice(profd, [SANDBOX, f"--how={how}", "--after=4000", f"--go={go}", f"--end={end}"], during,
              before=lambda: (go.unlink(), end.unlink()))
