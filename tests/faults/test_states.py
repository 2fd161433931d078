"""What becomes of a job in each state of a capture, and while its batches or a phase of it are counted.

The job goes on until it is signalled, so a row looks at the state first: it stops the job, sees that it is in that state, and only then
acts. Where the state has passed meanwhile the job goes on, and is looked at again."""
import functools
import shutil
import signal
import sqlite3
import time

import pytest

from conftest import EXHAUSTED, LIMITS, exhaust
from house import BUILD, naps, stop, wait_for
from test_disk_full import fill, needs_mount, start_small

FATED = BUILD / "workloads" / "fated"
wide = pytest.mark.wide

# {state: arguments of the trigger}; finishing: its recordings are short, and a range that is open at the end is waited for.
STATES = {"armed": ["--skip-first", 1000000], "warmup": ["--warmup", 1000000], "recording": ["--steps", 100000], "finishing": ["--steps", 150]}
# {way: (signal, what the job does then)}
WAYS = {"SIGKILL": (signal.SIGKILL, "exit"), "SIGTERM": (signal.SIGTERM, "exit"), "daemonize": (signal.SIGUSR1, "daemonize")}
SAID = {"SIGKILL": "is killed (SIGKILL)", "SIGTERM": "ends by SIGTERM", "daemonize": "becomes a daemon (two forks, setsid)"}


class Fate:
    """The job bare and watched; act(job) does the same to both."""

    def __init__(self, row, profd, how, *options):
        self.row, self.profd, self.ready = row, profd, profd.folder / "ready"
        self.command = [FATED, f"--ready={self.ready}", f"--how={how}", *options]

    def start(self, agent):
        job = self.profd.job(*self.command, agent=agent)
        wait_for(self.ready.exists, 30, "the job")
        self.ready.unlink()
        return job

    def bare(self, act):
        job = self.start(False)
        act(job)
        out, err = job.communicate(timeout=60)
        self.plain = (job.returncode, out, err)

    def watched(self):
        self.job = self.start(True)
        self.profd.wait_steps(self.job.pid, 2)
        return self.job

    def end(self):
        out, err = self.job.communicate(timeout=60)
        self.row.same(self.plain, (self.job.returncode, out, err))

    def hold(self, state, trigger):
        """Begins captures until the job stands still in that state; returns the client of the last."""
        clients = [trigger()]

        def held():
            if clients[-1].poll() is not None:
                assert clients[-1].returncode in (0, 5), clients[-1].communicate()
                clients.append(trigger())
            if (self.profd.process(self.job.pid) or {}).get("state") != state:
                return False
            stop(self.job.pid)
            # What the agent had sent before, its last word too, the daemon has taken by then: it is still waited for.
            until = time.monotonic() + (0.5 if state == "finishing" else 0)
            while (holds := self.profd.process(self.job.pid)["state"] == state) and time.monotonic() < until:
                pass
            # One that stands in its first step has recorded none.
            if holds and (state != "recording" or any(one["steps_recorded"] for one in self.profd.json("captures", codes=(0, 3))["captures"])):
                return True
            self.job.send_signal(signal.SIGCONT)
            return False

        wait_for(held, 60, f"the job to be {state}")
        return clients[-1]


def signalled(number):
    def act(job):
        job.send_signal(number)
        if number != signal.SIGKILL:
            job.send_signal(signal.SIGCONT)
    return act


def counted(row, profd, client, name, moves=False):
    """The captures with steps, once the client and the job have gone; of recorded steps each one has its range, but for that in which the
    loop moves to another thread. The last capture first."""
    client.communicate(timeout=60)

    def ended():
        captures = profd.json("captures", codes=(0, 3))["captures"]
        return captures if all(one["status"] in ("complete", "incomplete", "failed") for one in captures) else None

    wait_for(lambda: ended() is not None, 30, "the captures to end")
    captures = [one for one in ended() if one["steps_recorded"]]
    for capture in captures:
        copy = shutil.copy(profd.file(capture["capture_id"]), profd.folder / "counted.db")  # SQLite does not open what another mount holds
        with sqlite3.connect(copy) as db:
            first, last, steps = db.execute("SELECT min(number), max(number), count(*) FROM steps").fetchone()
            ranges, = db.execute("SELECT count(*) FROM ranges JOIN strings ON strings.id = name WHERE text GLOB ? AND step IS NOT NULL",
                                 (name,)).fetchone()
            lost, = db.execute("SELECT coalesce(sum(count), 0) FROM losses WHERE is_loss").fetchone()
        assert steps == last - first + 1, (first, last, steps)
        row.counts(ranges if not moves else min(ranges, steps), lost, steps)
    return captures


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("state", STATES)
def test_ends_in_each_state(row, profd, state, way):
    row.does(f"{SAID[way]} while a capture is {state}")
    number, how = WAYS[way]
    fate = Fate(row, profd, how)
    fate.bare(signalled(number))
    job = fate.watched()
    client = fate.hold(state, lambda: profd.follow("--pid", job.pid, *STATES[state], "--timeout", "100s"))
    signalled(number)(job)
    fate.end()
    captures = counted(row, profd, client, "step")
    if state in ("armed", "warmup"):
        assert not captures, captures
        row.nothing_recorded("before the first step")
    else:
        capture = captures[0]
        # exit() waits for the agent, which may be done by then.
        ends = {"incomplete"} | ({"complete"} if state == "finishing" and way != "SIGKILL" else set())
        assert capture["status"] in ends, capture
        assert state != "finishing" or capture["steps_recorded"] == 150, capture


COUNTS = {"batch": ["--unit", "batch"], "phase": ["--phase", "train"]}
FATES = {
    "exit": "exit()", "_exit": "_exit()", "abort": "abort()", "segv": "a segmentation fault of its own", "exec": "exec()",
    "fork": "fork(), both go on", "clone": "raw clone(), both go on", "daemonize": "becomes a daemon", "close": "closes all descriptors",
    "thread": "another thread goes on with the loop", "signals": "handles a signal in each step",
    "SIGKILL": "is killed", "SIGTERM": "ends by SIGTERM",
}
ALWAYS = {("batch", "fork"), ("batch", "thread"), ("batch", "SIGKILL"), ("phase", "exit"), ("phase", "close"), ("phase", "daemonize")}


@pytest.mark.parametrize("counts, fate", [pytest.param(counts, fate, marks=() if (counts, fate) in ALWAYS else wide)
                                          for counts in COUNTS for fate in FATES])
def test_fate_while_batches_are_counted(row, profd, counts, fate):
    row.does(f"{' '.join(COUNTS[counts])}: {FATES[fate]}")
    number = getattr(signal, fate, signal.SIGUSR1)
    it = Fate(row, profd, fate if number == signal.SIGUSR1 else "exit", "--batches")
    it.bare(signalled(number))
    job = it.watched()
    client = it.hold("recording", lambda: profd.follow("--pid", job.pid, *COUNTS[counts], "--steps", 100000, "--timeout", "100s"))
    signalled(number)(job)
    it.end()
    # One that is stopped at its first step has none yet.
    captures = counted(row, profd, client, "enumerate(DataLoader)*", fate == "thread")
    if not captures:
        row.nothing_recorded("before the first step")
    assert all(one["status"] == "incomplete" for one in captures), captures


DONE_TO = {
    "client": "the client is killed", "cancel": "the capture is cancelled", "daemon": "the daemon is killed, and comes back",
    "stop": "the daemon is stopped, and goes on",
}


@pytest.mark.parametrize("counts, what", [pytest.param(counts, what, marks=() if (counts, what) in {("batch", "daemon"), ("phase", "cancel")} else wide)
                                          for counts in COUNTS for what in DONE_TO])
def test_done_while_batches_are_counted(row, profd, counts, what):
    row.does(f"{' '.join(COUNTS[counts])}: {DONE_TO[what]}")
    it = Fate(row, profd, "exit", "--batches")
    it.bare(signalled(signal.SIGUSR1))
    job = it.watched()
    client = it.hold("recording", lambda: profd.follow("--pid", job.pid, *COUNTS[counts], "--steps", 100000, "--timeout", "100s"))
    if what == "client":
        client.kill()
    elif what == "cancel":
        job.send_signal(signal.SIGCONT)
        profd.run("cancel", "--pid", job.pid, check=False)
    elif what == "daemon":
        profd.stop_daemon(signal.SIGKILL)
    else:
        profd.daemon.send_signal(signal.SIGSTOP)
    job.send_signal(signal.SIGCONT)
    # Steps on meanwhile.
    before = naps(job.pid)
    wait_for(lambda: naps(job.pid) > before + 20, 30, "further steps of the job")
    if what == "daemon":
        profd.start_daemon()
        profd.wait_registered(job.pid)
    elif what == "stop":
        profd.daemon.send_signal(signal.SIGCONT)
    signalled(signal.SIGUSR1)(job)
    it.end()
    captures = counted(row, profd, client, "enumerate(DataLoader)*")
    if not captures:
        row.nothing_recorded("nobody waited for it")


# {state: a capture that goes on from there to its end}
PASSING = {"warmup": ["--warmup", 100, "--steps", 20], "finishing": STATES["finishing"]}
STOPPED = {"stop": "daemon", "client stop": "client", "job stop": "job"}
EMPTIED = {f"{who} {of}": f"the {who} {EXHAUSTED[of]}" for who in ("job", "daemon", "client") for of in LIMITS}
DONE_IN = {**{what: DONE_TO[what] for what in ("client", "daemon", "stop")}, "client stop": "the client is stopped, and goes on",
           "job stop": "the job is stopped, and goes on", **EMPTIED, "disk": "the store is full"}


@pytest.mark.parametrize("what", [pytest.param(what, marks=needs_mount if what == "disk" else ()) for what in DONE_IN])
@pytest.mark.parametrize("state", PASSING)
def test_done_in_each_state(row, request, empty_profd, state, what):
    """What test_done_to.py does in states that last; here the job stands in one that passes, until it has been done."""
    row.does(f"{DONE_IN[what]} while a capture is {state}")
    profd = empty_profd
    if what == "disk":
        start_small(profd, "size=6m")
        profd.store = profd.inside
    else:
        request.getfixturevalue("profd")
    fate = Fate(row, profd, "exit")
    fate.bare(signalled(signal.SIGUSR1))
    job = fate.watched()
    client = fate.hold(state, lambda: profd.follow("--pid", job.pid, *PASSING[state], "--timeout", "100s"))
    sides = {"job": job, "daemon": profd.daemon, "client": client}
    undo = None
    if what in STOPPED:
        sides[STOPPED[what]].send_signal(signal.SIGSTOP)
        undo = functools.partial(sides[STOPPED[what]].send_signal, signal.SIGCONT)
    elif what in EMPTIED:
        who, of = what.split()
        undo = exhaust(sides[who].pid, of)
    elif what == "disk":
        fill(profd)
        undo = (profd.inside / "filler").unlink
    elif what == "client":
        client.kill()
    elif what == "daemon":
        profd.stop_daemon(signal.SIGKILL)
    job.send_signal(signal.SIGCONT)
    if what != "job stop":
        before = naps(job.pid)
        wait_for(lambda: naps(job.pid) > before + 20, 30, "further steps of the job")
    if undo:
        undo()
    elif what == "daemon":
        profd.start_daemon()
        profd.wait_registered(job.pid)
    wait_for(lambda: client.poll() is not None, 60, "the client to end")
    wait_for(lambda: profd.process(job.pid)["state"] == "idle", 60, "the agent to be idle")
    assert profd.trigger(job.pid, "--steps", 3)["status"] == "complete"
    signalled(signal.SIGUSR1)(job)
    fate.end()
    captures = counted(row, profd, client, "step")
    if what in STOPPED:
        assert client.returncode == 0 and [one["status"] for one in captures[:2]] == ["complete"] * 2, captures
