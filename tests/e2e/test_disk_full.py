"""A store that takes nothing: the capture says so, daemon and job live, and it goes on once there is room."""
import os
import pathlib
import shutil
import subprocess
import time

import pytest

import fake_agent as fake
from conftest import BUILD, wait_for

STEPS = BUILD / "workloads" / "steps"


def can_mount():
    return os.geteuid() == 0 and shutil.which("unshare") and subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], stderr=subprocess.DEVNULL).returncode == 0


pytestmark = pytest.mark.skipif(not can_mount(), reason="needs root that may mount")


@pytest.fixture
def small(empty_profd):
    """A daemon whose store is a file system of 4 MiB that it alone sees; small.inside is the way there."""
    profd = empty_profd
    profd.store.mkdir()
    daemon = os.environ.get("PROFD_DAEMON", str(BUILD / "bin" / "profd-daemon"))
    with open(profd.daemon_log, "ab") as log:
        profd.daemon = subprocess.Popen(["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=4m none "$1" && shift && exec "$@"',
                                         "sh", str(profd.store), daemon, "--user", "--dir", str(profd.store)], env=profd.env,
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    wait_for(lambda: profd.run("status", check=False).returncode == 0, 10, "the daemon")
    profd.inside = pathlib.Path(f"/proc/{profd.daemon.pid}/root{profd.store}")
    yield profd


def fill(small, but=0):
    """Takes what is free, but for so many bytes."""
    with open(small.inside / "filler", "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            pass
        filler.truncate(max(0, filler.tell() - but))


def stepping(small, job):
    before = small.process(job.pid)["step"]
    wait_for(lambda: small.process(job.pid)["step"] > before + 5, what="the job to go on")


def trigger(small, pid, **more):
    with fake.connect(small.socket, 60) as connection:
        fake.send(connection, "trigger", **fake.trigger_fields(targets={"pids": [pid]}, collectors=["steps", "nvtx"], **more))
        return [row for row in fake.rows(connection) if row.get("row") == "captured"][0]


def test_full_from_the_start(small):
    job = small.job(STEPS, "--step-ms=5")
    small.wait_steps(job.pid, 2)
    good = small.trigger(job.pid)
    fill(small)
    captured = trigger(small, job.pid)
    assert captured["status"] == "failed" and captured["reason_code"] == "daemon"
    assert "no space" in captured["reason"] and "profd rm" in captured["reason"]
    stepping(small, job)
    # What the sentence says helps, even now.
    (small.inside / "filler").unlink()
    wait_for(lambda: [c["status"] for c in small.json("captures")["captures"]] == ["failed", "complete"], 10, "its row")
    fill(small)
    small.run("rm", good["capture_id"])
    (small.inside / "filler").unlink()
    assert small.trigger(job.pid)["status"] == "complete"
    assert sorted(p.suffix for p in (small.inside / "captures").iterdir()) == [".db"]


def test_full_in_mid_capture(small):
    """What was stored until then is kept, and what was not is counted."""
    agent = fake.Agent(small.socket)
    with fake.connect(small.socket, 60) as connection:
        fake.send(connection, "trigger", **fake.trigger_fields())
        agent.arm()
        begun = agent.begin(4)
        per, sent = agent.chunk_bytes // 80, 0
        for sequence in range(1, 200):
            index = sequence % 4
            if not wait_until_free(agent, index):
                break
            agent.chunk(index, b"".join(fake.operator(1, begun + i, 1, 1, sent + i + 1, 0, 0) for i in range(per)), sequence)
            sent += per
        else:
            pytest.fail("200 chunks went into 4 MiB")
        agent.wait_for(fake.CANCEL)
        agent.phase(fake.END, 1)
        agent.done(reason=7, steps=0)
        captured = [row for row in fake.rows(connection) if row.get("row") == "captured"][0]
    assert captured["status"] == "incomplete" and captured["reason_code"] == "daemon", captured["reason"]
    assert "no space" in captured["reason"]
    assert captured["events"] > per and captured["lost"] > 0 and captured["events"] + captured["lost"] == sent
    (small.inside / "captures" / f"{captured['capture_id'][1:]}.db").stat()
    agent.close()


def wait_until_free(agent, index):
    """Is the chunk taken within a second?"""
    for _ in range(1000):
        if agent.state(index) == fake.FREE:
            return True
        time.sleep(0.001)
    return False


def test_read_only(small):
    job = small.job(STEPS, "--step-ms=5")
    small.wait_steps(job.pid, 2)
    small.trigger(job.pid)
    captures = str(small.store / "captures")
    inside = lambda *command: subprocess.run(["nsenter", "-t", str(small.daemon.pid), "-m", *command], check=True)
    inside("mount", "--bind", captures, captures)
    inside("mount", "-o", "remount,bind,ro", captures)
    captured = trigger(small, job.pid)
    assert captured["status"] == "failed" and captured["reason_code"] == "daemon"
    assert "cannot be written" in captured["reason"]
    stepping(small, job)
    inside("umount", captures)
    assert small.trigger(job.pid)["status"] == "complete"
