"""A hundred restarts in a row, or PROFD_RESTARTS, while twenty jobs are being recorded."""
import collections
import json
import os
import threading
import time

import pytest

JOBS, RESTARTS = 20, int(os.environ.get("PROFD_RESTARTS", "100"))
# How many of the jobs are recorded by one trigger, cycle after cycle; the others by one trigger after the other.
ENDLESS = JOBS // 2
STEPS = {True: 100, False: 200}


class Client(threading.Thread):
    """Records one job again and again until told to stop; the captures, and all that went otherwise than it should."""

    def __init__(self, machine, job, stop, endless):
        super().__init__()
        self.machine, self.job, self.stop, self.endless = machine, job, stop, endless
        self.captures, self.troubles, self.returns = [], [], 0

    def run(self):
        while not self.stop.is_set() and len(self.troubles) < 3:
            line = ["profd", "trigger", "--pid", str(self.job.pid), "--steps", str(STEPS[self.endless]), "--format", "json"]
            # All of them, with a second segment for each that goes on, fit into what one user may have.
            line += ["--max-bytes", "64M", *(["--repeat", "0"] if self.endless else [])]
            try:
                done = self.machine.run(line, user="alice", check=False, timeout=900)
            except Exception as error:
                self.troubles.append(error)
                return
            self.returns += "waiting for it to come back" in done.stderr
            if not self.endless and done.returncode == 3 and self.job.running():
                # Its agent is on its way back from a restart.
                time.sleep(0.2)
                continue
            rows = json.loads(done.stdout)["captures"] if done.stdout.startswith("{") else []
            if self.endless:
                # It was ended by `profd cancel`, and its last cycle with it.
                last = rows.pop() if done.returncode in (1, 5) and rows[-1]["status"] != "complete" else None
                # Between two cycles there is none.
                good = self.stop.is_set() and (not last or last["reason_code"] == "cancelled")
            else:
                good = done.returncode == 0 and len(rows) == 1
            if not good:
                self.troubles.append((done.returncode, done.stdout, done.stderr))
            self.captures += rows


@pytest.mark.long
def test_restarts_lose_nothing(machine):
    until = "/tmp/enough"
    lines = [[machine.workload("compute"), "--steps=1000000", "--step-ms=20", f"--seed={n}"] for n in range(JOBS)]
    jobs = [machine.job(*line, f"--until={until}", user="alice") for line in lines]
    stop = threading.Event()
    clients = [Client(machine, job, stop, n < ENDLESS) for n, job in enumerate(jobs)]
    for client in clients:
        client.start()
    machine.wait(lambda: sum(row["state"] != "idle" for row in machine.processes()) == JOBS, 60, "twenty captures")
    began, slowest, running, pids, finished = time.monotonic(), 0.0, [], set(), set()
    try:
        for n in range(RESTARTS):
            if n % 10 == 0:
                running.append(sum(row["state"] != "idle" for row in machine.processes()))
            # What is complete before a restart is complete after all of them.
            finished |= {row["capture_id"] for client in clients for row in list(client.captures)
                         if row["status"] == "complete"}
            before = time.monotonic()
            machine.run("systemctl restart profd.service")
            slowest = max(slowest, time.monotonic() - before)
            pids.add(machine.unit("MainPID"))
    finally:
        stop.set()
        took = time.monotonic() - began
        # Its agent may be on its way back from the last restart.
        machine.wait(lambda: sum(row["state"] != "idle" for row in machine.processes()) >= ENDLESS, 60, "the agents")
        for client in clients[:ENDLESS]:
            machine.run(["profd", "cancel", "--pid", str(client.job.pid)], user="alice", check=False)
        for client in clients:
            client.join(180)
    assert not any(client.troubles for client in clients), [client.troubles for client in clients if client.troubles][:3]
    assert len(pids) == RESTARTS and machine.unit("ActiveState", "NRestarts") == {"ActiveState": "active", "NRestarts": "0"}

    captures = [row for client in clients for row in client.captures]
    listed = {row["capture_id"]: row for row in machine.json("captures", "--limit", "100000", user="alice")["captures"]}
    assert {row["capture_id"] for row in captures} | finished <= set(listed)
    unfinished = [row for row in listed.values() if row["status"] != "complete" and row["reason_code"] != "cancelled"]
    assert not unfinished, unfinished
    lost = collections.Counter()
    for client, row in [(client, row) for client in clients for row in client.captures]:
        steps = STEPS[client.endless]
        shown = machine.json("show", row["capture_id"], user="alice")
        calls = {entry["name"]: entry["calls"] for entry in shown["ranges"]}
        # Every range of every step is there, or it is counted.
        assert row["steps_recorded"] == steps and calls["move"] + row["lost"] == steps, (row, calls)
        lost[row["lost"]] += 1

    machine.run(["touch", until])
    for job, line in zip(jobs, lines):
        code, out, err = job.finish(60)
        steps = out.splitlines()[-1].split()[0]
        plain = machine.run([line[0], f"--steps={steps}", "--step-ms=0", line[3]])
        assert (code, out, err) == (0, plain.stdout, plain.stderr)
    print(f"\n{RESTARTS} restarts in {took:.1f} s, the slowest {slowest:.2f} s; {len(captures)} captures, "
          f"{sum(client.returns for client in clients)} of them followed over a restart; under way meanwhile: {running}; "
          f"captures by lost events: {dict(lost)}")
