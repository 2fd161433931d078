"""A disk that is full because of one user: another one's triggers are neither refused nor ended for it, as the captures that go are
the first one's."""
import collections
import json
import os
import pathlib
import time

import device_records as records
import fake_agent as fake
from conftest import wait_for
from hostile_capture import TORCH, Capture, steps
from shared_node import ALICE, BOB, needs_root, node, start_as
from test_retention import needs_mount

pytestmark = [needs_root, needs_mount]
DISK = "256m"
FLOOR = 0.05  # of it


def flood(socket_path, count):
    """Captures of so many operators, one after another, until it is killed; what is refused is tried again."""
    while True:
        capture = None
        try:
            capture = Capture(socket_path)
            capture.ran(TORCH)
            for first in range(0, count, 10000):
                capture.put([records.operator_of(1, capture.begun + i, 10, 10, i + 1, 7, 1, 0, 42)
                             for i in range(first, min(first + 10000, count))])
            capture.put(steps(capture.begun))
            capture.done()
            capture.end()
        except (AssertionError, OSError, EOFError):
            time.sleep(0.01)
        finally:
            if capture:
                capture.close()


def fill(folder):
    """Keeps what is free below the floor: whatever somebody frees it takes."""
    with open(folder / "filler", "wb", buffering=0) as filler:
        while True:
            facts = os.statvfs(folder)
            above = facts.f_bavail * facts.f_frsize - int(facts.f_blocks * facts.f_frsize * FLOOR)
            if above >= 0:
                filler.write(bytes(above + (64 << 10)))


def evicted(node):
    """How many captures of whom went for the floor."""
    return collections.Counter(row["uid"] for row in node.json("captures", "--deleted", "--limit", 10000)["deleted"]
                               if "free_space" in row["reason"])


def full_disk(node):
    """Alice's job on a node whose disk Bob has filled."""
    node.start(disk=DISK)
    job = node.job(node.steps, "--step-ms=10", user=ALICE)
    node.wait_steps(job.pid, 2)
    floods = [start_as(node, BOB, flood, node.socket, count) for count in (0, 0, 200000)]
    wait_for(lambda: evicted(node)[BOB] > 0, 120, "the disk to be full")
    return job, floods


def record(node, job, count):
    for _ in range(count):
        done = node.run("trigger", "--pid", job.pid, "--steps", 3, "--format", "json", user=ALICE)
        capture, = json.loads(done.stdout)["captures"]
        assert capture["status"] == "complete" and capture["steps_recorded"] == 3 and capture["lost"] == 0, capture


def test_another_user_is_served_while_one_fills_the_disk(node):
    job, _ = full_disk(node)
    record(node, job, 40)
    wait_for(lambda: evicted(node)[BOB] > 100, 120, "a hundred captures to go")
    assert ALICE not in evicted(node)


def test_what_is_freed_is_taken_at_once(node):
    """Whenever the daemon looks the disk is below its floor again."""
    job, floods = full_disk(node)
    for child in floods:
        os.kill(child, 9)
        os.waitpid(child, 0)
        node.children.remove(child)
    wait_for(lambda: fake.ask(node.socket, "status")[0]["running"] == 0, 120, "Bob's captures to be finished")
    before = evicted(node)[BOB]
    start_as(node, 0, fill, pathlib.Path(f"/proc/{node.daemon.pid}/root{node.state}"))
    record(node, job, 15)
    assert evicted(node)[BOB] > before and ALICE not in evicted(node)
