"""Whatever dies, the job goes on as it would have, and what was recorded is kept."""
import json
import os
import pathlib
import select
import signal
import sqlite3
import time

import fake_agent as fake
from conftest import BUILD, asleep, hurry, naps, wait_for
from proc import agent_thread

STEPS = BUILD / "workloads" / "steps"
THREADS = BUILD / "workloads" / "nvtx_threads"


def test_kill_the_job(profd):
    job = profd.job(STEPS, "--step-ms=50")
    profd.wait_steps(job.pid, 2)
    client = profd.follow("--pid", job.pid, "--steps", 1000)
    profd.wait_recorded(job.pid, 6)
    job.kill()
    out, _ = client.communicate(timeout=120)
    capture = json.loads(out)["captures"][0]
    assert client.returncode == 5
    assert capture["status"] == "incomplete" and capture["reason"]
    assert capture["steps_recorded"] >= 5
    shown = profd.show(capture["capture_id"])
    # All that was in the segment: the ranges of every whole step are there.
    calls = {r["name"]: r["calls"] for r in shown["ranges"]}
    assert calls["step"] >= capture["steps_recorded"] and calls["work 0"] >= capture["steps_recorded"]
    assert profd.process(job.pid) is None


def test_kill_the_daemon(empty_profd):
    """The job's output is bit-identical to a run without us, the agent is idle again, and the next daemon takes the
    segment in, nothing twice."""
    profd = empty_profd
    line = [STEPS, "--steps=100", "--step-ms=100"]
    plain = profd.job(*line, agent=False)
    profd.start_daemon()
    stay = profd.folder / "stay"
    stay.touch()
    job = profd.job(*line, env={"STAY": str(stay)})
    profd.wait_steps(job.pid, 2)
    client = profd.follow("--pid", job.pid, "--steps", 200)
    profd.wait_recorded(job.pid, 5)
    profd.stop_daemon(signal.SIGKILL)
    client.communicate(timeout=120)
    assert client.returncode != 0
    # Most of the steps that are recorded come while there is no daemon.
    hurry(job)
    before = naps(job.pid)
    wait_for(lambda: naps(job.pid) > before + 120, what="the job's steps")
    profd.start_daemon()
    found = wait_for(lambda: [c for c in profd.json("captures")["captures"]
                              if c["status"] in ("complete", "incomplete")], 20, "the capture to be taken in")
    assert len(found) == 1
    shown = profd.show(found[0]["capture_id"])
    calls = {r["name"]: r["calls"] for r in shown["ranges"]}
    assert found[0]["steps_recorded"] == 200
    assert calls == {"step": 200, **{f"work {i}": 200 for i in range(4)}}
    with sqlite3.connect(f"file:{profd.file(found[0]['capture_id'])}?mode=ro", uri=True) as db:
        assert db.execute("SELECT count(*) - count(DISTINCT id) FROM ranges").fetchone()[0] == 0
    assert wait_for(lambda: profd.process(job.pid), what="the job to register again")["state"] == "idle"
    stay.unlink()
    out, err = job.communicate(timeout=60)
    plain_out, plain_err = plain.communicate(timeout=60)
    strip = lambda text: json.dumps({k: v for k, v in json.loads(text).items() if k != "agent"})
    assert strip(out) == strip(plain_out) and err == plain_err and job.returncode == plain.returncode == 0


def test_the_daemon_does_not_come_back(empty_profd):
    """The agent finishes what it can and is idle again."""
    profd = empty_profd
    profd.start_daemon()
    stay = profd.folder / "stay"
    stay.touch()
    job = profd.job(STEPS, "--steps=400", "--step-ms=100", env={"STAY": str(stay)})
    profd.wait_steps(job.pid, 2)
    client = profd.follow("--pid", job.pid, "--steps", 200)
    profd.wait_recorded(job.pid)
    profd.stop_daemon(signal.SIGKILL)
    client.communicate(timeout=120)
    hurry(job)
    stay.unlink()
    out, _ = job.communicate(timeout=60)
    assert job.returncode == 0 and json.loads(out)["steps"] == 400


def test_an_agent_that_is_late(profd):
    """One that waits for a processor, or for its disk, is no stopped process: it gets more than two seconds to answer."""
    agent = fake.Agent(profd.socket)
    client = profd.follow("--pid", os.getpid(), "--steps", 3)
    assert select.select([agent.connection], [], [], 60)[0]
    time.sleep(4)
    agent.arm()
    begun = agent.begin()
    agent.chunk(0, b"".join(fake.step(n + 1, begun + 1000 * n, 1000) for n in range(3)), 1)
    agent.phase(fake.END, steps=3, warmup=1)
    agent.done()
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0 and json.loads(out)["captures"][0]["steps_recorded"] == 3, (out, err)


def test_a_stopped_process_is_told_so(profd):
    job = profd.job(STEPS, "--step-ms=20")
    profd.wait_steps(job.pid, 2)
    job.send_signal(signal.SIGSTOP)
    said = profd.run("trigger", "--pid", job.pid, "--steps", 3, check=False)
    assert said.returncode == 1 and "its agent does not answer: the process is stopped" in said.stderr, said
    said = profd.run("doctor", "--pid", job.pid, check=False)
    assert said.returncode == 4 and "COLLECTOR" not in said.stdout, said
    assert "does not answer: the process is stopped" in said.stdout + said.stderr, said
    job.send_signal(signal.SIGCONT)
    wait_for(lambda: profd.process(job.pid)["state"] == "idle", 20, "the agent to be idle")
    assert profd.trigger(job.pid)["status"] == "complete"


def test_a_job_that_stops_stepping(profd):
    job = profd.job(STEPS, "--step-ms=20")
    profd.wait_steps(job.pid, 2)
    # Longer than the recording takes to begin on a busy machine.
    client = profd.follow("--pid", job.pid, "--steps", 1000, "--timeout", "12s")
    profd.wait_recorded(job.pid, 3)
    job.send_signal(signal.SIGSTOP)
    out, err = client.communicate(timeout=120)
    job.send_signal(signal.SIGCONT)
    capture = json.loads(out)["captures"][0]
    assert client.returncode == 4, err
    assert capture["status"] == "incomplete" and capture["steps_recorded"] > 0
    # It goes on, and can be triggered again: it does not wait for room in a segment that nobody empties any more, for longer than the
    # daemon waits for its answer.
    wait_for(lambda: profd.process(job.pid)["state"] == "idle", 20, "the agent to be idle")
    assert profd.trigger(job.pid)["status"] == "complete"


def test_cancel(profd):
    job = profd.job(STEPS, "--step-ms=20")
    profd.wait_steps(job.pid, 2)
    client = profd.follow("--pid", job.pid, "--steps", 1000)
    profd.wait_recorded(job.pid)
    busy = profd.run("trigger", "--pid", job.pid, check=False)
    assert busy.returncode == 8 and "profd cancel" in busy.stderr
    profd.run("cancel", "--pid", job.pid)
    out, _ = client.communicate(timeout=120)
    assert json.loads(out)["captures"][0]["status"] == "incomplete"
    assert profd.trigger(job.pid)["status"] == "complete"


def test_a_lost_client_loses_nothing(profd):
    job = profd.job(STEPS, "--step-ms=100")
    profd.wait_steps(job.pid, 2)
    client = profd.follow("--pid", job.pid, "--steps", 150)
    profd.wait_recorded(job.pid)
    client.kill()
    client.wait()
    hurry(job)
    found = wait_for(lambda: [c for c in profd.json("captures")["captures"] if c["status"] == "complete"], 20,
                     "the capture to complete without its client")
    assert found[0]["steps_recorded"] == 150


def test_dlclose_of_an_nvtx_user(profd):
    job = profd.job(BUILD / "workloads" / "nvtx_dlclose", "--step-ms=5")
    profd.wait_registered(job.pid)
    captures = [profd.trigger(job.pid, "--duration", "300ms") for _ in range(5)]
    assert {capture["status"] for capture in captures} == {"complete"}
    # A job that gets no processor for as long does nothing in a window.
    assert any(capture["events"] > 0 for capture in captures), captures
    job.terminate()
    job.communicate(timeout=60)
    assert job.returncode == 0


def test_nothing_is_left_in_the_job(profd):
    """After a capture: no segment mapped, no descriptor more than before."""
    job = profd.job(STEPS, "--step-ms=5")
    profd.wait_steps(job.pid, 2)
    proc = pathlib.Path("/proc") / str(job.pid)

    def left():
        """What stays open and mapped, once the agent has put the capture away and sleeps."""
        wait_for(lambda: profd.process(job.pid)["state"] == "idle", what="idle")
        wait_for(lambda: (thread := agent_thread(job.pid)) is None or asleep(thread), what="the agent to sleep")
        return len(list((proc / "fd").iterdir())), (proc / "maps").read_text().count("memfd:profd")
    profd.trigger(job.pid)
    first = left()
    for _ in range(10):
        profd.trigger(job.pid)
    assert left() == first
    assert "memfd:profd-segment" not in (proc / "maps").read_text()
