"""The daemon ends and comes back again and again while jobs are recorded: half of them cycle after cycle without an end, the
others by one trigger after the other.

PROFD_RESTARTS=100 and PROFD_RESTART_JOBS=20 are the long form.
"""
import collections
import json
import os
import random
import signal
import subprocess
import threading
import time

import pytest

from conftest import BUILD, wait_for

COMPUTE = BUILD / "workloads" / "compute"
RESTARTS = int(os.environ.get("PROFD_RESTARTS", "12"))
JOBS = int(os.environ.get("PROFD_RESTART_JOBS", "6"))
STEPS = {True: 15, False: 30}


class Follower(threading.Thread):
    """Records one job again and again until told to stop."""

    def __init__(self, profd, job, stop, endless):
        super().__init__()
        self.profd, self.job, self.stop, self.endless = profd, job, stop, endless
        self.captures, self.troubles = [], []

    def run(self):
        more = ["--repeat", "0"] if self.endless else []
        while not self.stop.is_set() and not self.troubles:
            done = self.profd.run("trigger", "--pid", self.job.pid, "--steps", STEPS[self.endless], "--max-bytes", "16M",
                                  *more, "--format", "json", check=False, timeout=900)
            rows = json.loads(done.stdout)["captures"] if done.stdout.startswith("{") else []
            if self.endless:
                good = self.stop.is_set() and rows
            else:
                # With nobody there to ask it says so, and with the agent on its way back, too.
                good = rows or done.stderr
                time.sleep(0 if rows else 0.1)
            if not good:
                self.troubles.append((time.strftime("%H:%M:%S"), self.job.pid, done.returncode, rows[-1:], done.stderr))
            self.captures += rows


def start(profd):
    """A daemon of the system's kind: at SIGTERM it leaves what is recorded to the next one."""
    with open(profd.daemon_log, "ab") as log:
        daemon = os.environ.get("PROFD_DAEMON", str(BUILD / "bin" / "profd-daemon"))
        profd.daemon = subprocess.Popen([daemon, "--dir", str(profd.store), "--socket", str(profd.socket), "--verbose"], env=profd.env,
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    wait_for(lambda: profd.run("status", check=False).returncode == 0, 20, "the daemon")


def recorded(profd):
    return {row["pid"] for row in profd.json("ps")["processes"] if row["state"] != "idle"}


def listed(profd):
    return profd.json("captures", "--limit", 100000)["captures"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
@pytest.mark.wide
def test_no_schedule_ends_by_itself(empty_profd, how):
    profd = empty_profd
    start(profd)
    jobs = [profd.job(COMPUTE, "--steps=10000000", "--step-ms=10", stdout=subprocess.DEVNULL) for _ in range(JOBS)]
    for job in jobs:
        profd.wait_steps(job.pid, 2)
    stop = threading.Event()
    followers = [Follower(profd, job, stop, n % 2 == 0) for n, job in enumerate(jobs)]
    endless = [follower for follower in followers if follower.endless]
    for follower in followers:
        follower.start()
    # By then all who asked know that they are served.
    wait_for(lambda: {row["pid"] for row in listed(profd) if row["status"] == "complete"} == {job.pid for job in jobs}, 30,
             "the first captures")
    pauses = random.Random(1)
    try:
        for _ in range(RESTARTS):
            # Also shorter than it takes the agents to come back, and longer than a cycle.
            time.sleep(pauses.choice([0, 0.02, 0.1, 0.3, 0.8, 1.5]))
            assert profd.stop_daemon(how) == (0 if how == signal.SIGTERM else -how)
            start(profd)
        wanted = {follower.job.pid for follower in endless}
        seen = set()

        def go_on():
            """Of each endless schedule something is under way, not of all at one moment; none has ended."""
            assert not [follower.troubles for follower in followers if follower.troubles]
            seen.update(recorded(profd))
            return wanted <= seen
        try:
            wait_for(go_on, 30, "all endless schedules to go on")
        except pytest.fail.Exception as error:
            last = {pid: [row for row in listed(profd) if row["pid"] == pid][:2] for pid in wanted - seen}
            raise AssertionError(f"{error}: {last} {profd.json('ps')['processes']}") from error
        before = {row["capture_id"] for row in listed(profd)}

        def later():
            """Jobs of endless schedules that have finished another cycle since."""
            rows = listed(profd)
            return {row["pid"] for row in rows if row["capture_id"] not in before and row["status"] == "complete"}
        wait_for(lambda: wanted <= later(), 60, "another cycle of each")
    finally:
        stop.set()
        for follower in endless:
            profd.run("cancel", "--pid", follower.job.pid, check=False)
        for follower in followers:
            follower.join(120)
    assert not [follower.troubles for follower in followers if follower.troubles]
    rows = listed(profd)
    by_trigger = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        by_trigger[row["trigger_id"]][row["cycle"]].append(row)
    known = {row["capture_id"] for row in rows}
    forgotten = [(row["capture_id"], row["status"], row["reason"]) for follower in followers for row in follower.captures
                 if row["capture_id"] not in known]
    assert not forgotten, forgotten
    for follower in endless:
        assert len({row["trigger_id"] for row in follower.captures}) == 1
        cycles = by_trigger[follower.captures[0]["trigger_id"]]
        # No cycle is missing. Each is whole or says why not; where one began anew, the first attempt says so.
        assert sorted(cycles) == list(range(len(cycles))), sorted(cycles)
        for attempts in cycles.values():
            assert sum(row["status"] == "complete" for row in attempts) <= 1, attempts
            assert all(row["status"] == "complete" or row["reason"] for row in attempts), attempts
    odd = [row for row in rows if row["status"] != "complete" and row["reason_code"] != "cancelled"]
    print(f"\n{RESTARTS} restarts: {len(rows)} captures, of them not complete: "
          f"{collections.Counter((row['status'], row['reason'], row['cycle'] > 0) for row in odd)} {[row['capture_id'] for row in odd]}")
    for row in rows:
        if row["status"] != "complete":
            continue
        steps = STEPS[row["steps_wanted"] == STEPS[True]]
        calls = {entry["name"]: entry["calls"] for entry in profd.show(row["capture_id"])["ranges"]}
        # Every range of every step is there, or it is counted.
        assert row["steps_recorded"] == steps and calls["move"] + row["lost"] == steps, (row, calls)
