"""What is done to the job, to the daemon and to the client, in each state of a capture; and that all is well afterwards.

The job is the workload `steps`: five ranges and a mark a step, and an output that depends on nothing but its work.
"""
import json
import signal
import time

import pytest

from conftest import EXHAUSTED, LIMITS, exhaust
from house import BUILD, hurry, wait_for
from test_disk_full import fill, needs_mount, start_small

STEPS = BUILD / "workloads" / "steps"
JOB = [STEPS, "--steps=100", "--step-ms=5"]
EVENTS = 6  # of a step

# {state: (arguments of the trigger, the state that ps shows)}
STATES = {
    "idle": (None, "idle"),
    "armed": (["--skip-first", 150, "--steps", 5], "armed"),
    "recording": (["--steps", 150], "recording"),
    "between": (["--wait-steps", 100, "--steps", 3, "--repeat", 2], "armed"),
}
# The same for what is done to the client: it is still there then, on a full machine, too. The job is told to hurry afterwards.
LASTING = {
    "idle": STATES["idle"],
    "armed": (["--skip-first", 1000, "--steps", 5, "--timeout", "100s"], "armed"),
    "recording": (["--steps", 1000, "--timeout", "100s"], "recording"),
    "between": (["--wait-steps", 1000, "--steps", 3, "--repeat", 2, "--timeout", "100s"], "armed"),
}


class Scene:
    """A job in one state of a capture, and the client that waits for the capture."""

    def __init__(self, profd, job, state, states=STATES):
        self.profd, self.job = profd, job
        arguments, shown = states[state]
        profd.wait_steps(job.pid, 2)
        self.client = None
        if arguments:
            timeout = [] if "--timeout" in arguments else ["--timeout", "10s"]
            self.client = profd.follow("--pid", job.pid, *arguments, *timeout)
            if state == "between":
                wait_for(self.one_is_kept, 20, "the first cycle")
            wait_for(lambda: (profd.process(job.pid) or {}).get("state") == shown or self.client.poll() is not None, 20,
                     f"the capture to be {shown}")

    def one_is_kept(self):
        return any(c["status"] == "complete" for c in self.profd.json("captures", codes=(0, 3)).get("captures", []))

    def end(self):
        """Its captures, once the client has gone."""
        if not self.client:
            return []
        out, _ = self.client.communicate(timeout=60)
        try:
            return json.loads(out).get("captures", [])
        except ValueError:
            return []

    def is_well(self):
        """The job can be triggered, whatever was done: its capture, complete."""
        def trigger():
            if self.job.poll() is not None:
                pytest.fail("the job ended before it could be triggered again")
            done = self.profd.run("trigger", "--pid", self.job.pid, "--steps", 3, "--format", "json", check=False)
            return json.loads(done.stdout)["captures"][0] if done.returncode == 0 else None
        return wait_for(trigger, 20, "the job to be triggered again")


def hold(row, profd, state, do, undo=None, client=False):
    """The row: do(scene) while the job is in that state; undo(scene) after a moment. client: it is the client that something is done to."""
    def during(job):
        scene = Scene(profd, job, state, LASTING if client else STATES)
        assert not client or not scene.client or scene.client.poll() is None, "the client has ended before"
        do(scene)
        time.sleep(0.3)
        if undo:
            undo(scene)
        if client:
            hurry(job)
        captures = scene.end()
        return captures, scene.is_well()

    captures, well = row.twice(profd, JOB, during)
    for capture in [c for c in captures if c["status"] in ("complete", "incomplete") and c["steps_recorded"]] + [well]:
        if not profd.file(capture["capture_id"]).exists():
            continue
        complete = capture["status"] == "complete"
        row.counts_file(profd, capture["capture_id"], lambda db, complete=complete: produced(db, complete))
    return captures


def produced(db, complete):
    """Of whole steps: six events. What comes after the last whole step of a capture that was cut off is not known from outside,
    so it counts as it was found; a step in the middle that lacks something is not forgiven."""
    steps, = db.execute("SELECT count(*) FROM steps").fetchone()
    after, = db.execute("SELECT (SELECT count(*) FROM ranges WHERE step IS NULL) + (SELECT count(*) FROM marks WHERE step IS NULL)"
                        ).fetchone()
    if complete:
        assert after == 0
    return steps * EVENTS + after


@pytest.mark.parametrize("state", STATES)
def test_kill_client(row, profd, state):
    row.does(f"the client is killed while the job is {state}")
    hold(row, profd, state, lambda scene: scene.client and scene.client.kill(), client=True)


@pytest.mark.parametrize("state", STATES)
def test_kill_daemon(row, profd, state):
    row.does(f"the daemon is killed while the job is {state}, and comes back")
    hold(row, profd, state, lambda scene: profd.stop_daemon(signal.SIGKILL), lambda scene: profd.start_daemon())


@pytest.mark.parametrize("state", STATES)
def test_stop_daemon(row, profd, state):
    row.does(f"the daemon is stopped for 0.3 s while the job is {state}")
    hold(row, profd, state, lambda scene: profd.daemon.send_signal(signal.SIGSTOP),
         lambda scene: profd.daemon.send_signal(signal.SIGCONT))


@pytest.mark.parametrize("state", STATES)
def test_stop_job(row, profd, state):
    row.does(f"the job is stopped for 0.3 s while it is {state}")
    hold(row, profd, state, lambda scene: scene.job.send_signal(signal.SIGSTOP),
         lambda scene: scene.job.send_signal(signal.SIGCONT))


@pytest.mark.parametrize("state", [state for state in STATES if state != "idle"])
def test_stop_client(row, profd, state):
    row.does(f"the client is stopped for 0.3 s while the job is {state}")
    hold(row, profd, state, lambda scene: scene.client.send_signal(signal.SIGSTOP),
         lambda scene: scene.client.send_signal(signal.SIGCONT), client=True)


def without(row, profd, state, who, of):
    """The row: `who` gets no more of what is named until the moment is over."""
    row.does(f"the {who} {EXHAUSTED[of]} while the job is {state}")
    given_back = []
    return hold(row, profd, state,
                lambda scene: given_back.append(exhaust({"job": scene.job, "daemon": profd.daemon, "client": scene.client}[who].pid, of)),
                lambda _: given_back[0](), client=who == "client")


@pytest.mark.parametrize("of", LIMITS)
@pytest.mark.parametrize("state", STATES)
def test_job_has_no(row, profd, state, of):
    without(row, profd, state, "job", of)


@pytest.mark.parametrize("of", LIMITS)
@pytest.mark.parametrize("state", STATES)
def test_daemon_has_no(row, profd, state, of):
    without(row, profd, state, "daemon", of)


@pytest.mark.parametrize("of", LIMITS)
@pytest.mark.parametrize("state", [state for state in STATES if state != "idle"])
def test_client_has_no(row, profd, state, of):
    without(row, profd, state, "client", of)


@pytest.mark.parametrize("of", LIMITS)
def test_client_never_has_any(row, profd, of):
    row.does(f"the client {EXHAUSTED[of]} from the recording on")
    captures = hold(row, profd, "recording", lambda scene: exhaust(scene.client.pid, of), client=True)
    assert [one["status"] for one in captures] == ["complete"], captures


@needs_mount
@pytest.mark.parametrize("state", STATES)
def test_full_disk(row, empty_profd, state):
    row.does(f"the store is full while the job is {state}")
    profd = empty_profd
    start_small(profd, "size=6m")
    profd.store = profd.inside
    hold(row, profd, state, lambda _: fill(profd), lambda _: (profd.inside / "filler").unlink())


def test_daemon_returns_ten_times(row, profd):
    row.does("the daemon is killed and comes back ten times in one capture")

    def during(job):
        scene = Scene(profd, job, "recording")
        for _ in range(10):
            profd.stop_daemon(signal.SIGKILL)
            time.sleep(0.05)
            profd.start_daemon()
        scene.client.kill()
        scene.client.communicate()
        return scene.is_well()

    row.twice(profd, JOB, during)
    kept = wait_for(lambda: [c for c in profd.json("captures")["captures"] if c["status"] in ("complete", "incomplete")
                             and c["steps_recorded"] > 3], 20, "the capture to be taken in")
    assert len(kept) == 1, kept
    row.counts_file(profd, kept[0]["capture_id"], lambda db: produced(db, kept[0]["status"] == "complete"))
