"""Several processes of one job: its ranks record the same steps, its launchers and workers are none of them."""
import os
import struct
import time

import pytest

import fake_agent
from conftest import BUILD, wait_for

STEPS = BUILD / "workloads" / "steps"
STEP = 0.06


def ranks(profd, offsets, job="77", step=STEP, head=0.7):
    """A rank for each offset: they count alike, and rank i ends its steps so many seconds later than the others. All have started within `head` seconds."""
    begin = time.monotonic() + head
    jobs = [profd.job(STEPS, f"--step-ms={step * 1000}", f"--begin={begin + offset}",
                      env={"RANK": str(rank), "WORLD_SIZE": str(len(offsets)), "PROFD_JOB": job})
            for rank, offset in enumerate(offsets)]
    for process in jobs:
        profd.wait_steps(process.pid, 3)
    return jobs


def numbers(profd, capture):
    return [s["number"] for s in profd.show(capture["capture_id"])["steps"]]


def recorded(profd, answer):
    assert all(c["status"] == "complete" for c in answer["captures"]), answer
    return [numbers(profd, c) for c in sorted(answer["captures"], key=lambda c: (c["rank"], int(c["cycle"])))]


def record(profd, *arguments, op="trigger"):
    """`profd trigger` of a job's ranks. On a machine whose cores are all taken a rank may not be ready for the step that was
    chosen: it says so then, and that one is tried again. Tests that use this run alone: ranks have 0.2 s to be ready."""
    for _ in range(4):
        answer = profd.json(op, "--job", "77", *arguments)
        together, *late = answer["together"]
        if not late:
            return answer, together
        assert all("was not ready in time" in row["message"] for row in late), late
    pytest.fail(f"always late: {answer['together']}")


@pytest.mark.serial
def test_the_same_steps(profd):
    """Whatever the moment: ranks half a step apart would begin with different ones at every other trigger."""
    ranks(profd, [0, STEP / 2, STEP / 4])
    for i in range(4):
        answer, together = record(profd, "--steps", 2)
        assert together["job"] == "77" and together["processes"] == 3
        assert f"from step {together['at_step']} on" in together["message"]
        at = together["at_step"]
        assert recorded(profd, answer) == [[at, at + 1]] * 3
        time.sleep(STEP * (i + 1) / 4)
    done = profd.run("trigger", "--job", "77", "--steps", 1)
    assert "3 ranks of job 77 record the same steps, from step" in done.stderr


@pytest.mark.serial
def test_snapshots_too(profd):
    ranks(profd, [0, STEP / 2])
    answer = profd.json("snapshot", "--job", "77", "--steps", 2, "--at-multiple", 10)
    (job,) = answer["jobs"]
    assert job["at_step"] % 10 == 0
    for process in job["processes"]:
        assert numbers(profd, process) == [job["at_step"], job["at_step"] + 1]
    assert ", from step " in profd.run("snapshot", "--job", "77").stdout


@pytest.mark.serial
def test_the_same_steps_in_each_cycle(profd):
    ranks(profd, [0, STEP / 2])
    answer, _ = record(profd, "--steps", 2, "--wait-steps", 4, "--repeat", 3)
    found = recorded(profd, answer)
    assert found[:3] == found[3:] and len(found) == 6
    periods = {later[0] - earlier[0] for earlier, later in zip(found[:2], found[1:3])}
    assert all(p % 7 == 0 for p in periods), found


@pytest.mark.serial
def test_at_a_multiple(profd):
    (alone,) = ranks(profd, [0], job="78")
    capture = profd.trigger(alone.pid, "--steps", 2, "--at-multiple", 8)
    assert numbers(profd, capture)[0] % 8 == 0
    ranks(profd, [0, STEP / 2])
    answer, _ = record(profd, "--steps", 3, "--at-multiple", 5, "--repeat", 2)
    found = recorded(profd, answer)
    assert found[:2] == found[2:] and all(steps[0] % 5 == 0 for steps in found)
    for wrong in (["--at-step", 5], ["--duration", "1s"]):
        assert profd.run("trigger", "--pid", alone.pid, "--at-multiple", 5, *wrong, check=False).returncode == 2
    done = profd.run("trigger", "--pid", alone.pid, "--at-multiple", 5, "--step-range", "work 1", check=False)
    assert done.returncode == 9 and "--at-multiple" in done.stderr


def test_ranks_that_do_not_count_alike(profd):
    """One has joined 30 steps later: no number is the same step in both, and that is said."""
    ranks(profd, [0, 30 * STEP])
    answer = profd.json("trigger", "--job", "77", "--steps", 2)
    (together,) = answer["together"]
    assert together["at_step"] is None and "joined at different times" in together["message"]
    assert len(answer["captures"]) == 2 and len(set(map(tuple, recorded(profd, answer)))) == 2
    answer = profd.json("trigger", "--job", "77", "--steps", 2, "--step-range", "work 1")
    assert "counted only while a recording is armed" in answer["together"][0]["message"]
    # A window of time is the same for all.
    assert profd.json("trigger", "--job", "77", "--duration", "100ms")["together"] == []


def third_rank(profd, step_ns=300_000_000):
    """A fake agent: it counts as two real ranks do."""
    ranks(profd, [0, 0], step=step_ns / 1e9, head=3)
    agent = fake_agent.Agent(profd.socket, job="77", rank=2, minor=2)
    for number in range(256):
        struct.pack_into("<Q", agent.page, 48 + number * 8, step_ns)
    return agent


def ask_all(profd, agent, client):
    """Triggers the three; the third stands still from now on: what is slow was done before."""
    step = max(row["step"] for row in fake_agent.ask(profd.socket, "ps") if row.get("pid", os.getpid()) != os.getpid())
    struct.pack_into("<QQ", agent.page, 16, step, time.monotonic_ns())
    fake_agent.send(client, "trigger", **fake_agent.trigger_fields(targets={"job": "77"}))


@pytest.mark.parametrize("late", [2, 20])
def test_a_rank_that_is_late(profd, late):
    """Its collectors come on when the others have begun: that is said, and where it is too late for a common step, that, and what helps."""
    agent = third_rank(profd)
    with fake_agent.connect(profd.socket) as client:
        ask_all(profd, agent, client)
        agent.arm()
        rows = fake_agent.rows(client)
        at = next(r for r in rows if r["row"] == "together")["at_step"]
        begun = agent.begin()
        agent.chunk(0, b"".join(fake_agent.step(i + 1, begun + i * 1000, 1000) for i in range(3)), 1)
        agent.phase(fake_agent.END, steps=3, warmup=1)
        agent.done(first=at + late)
        said = next(r for r in rows if r["row"] == "together")["message"]
        agent.connection.close()
        assert f"rank 2 of job 77 began with step {at + late}, not with {at}: it was not ready in time" in said
        assert ("has no step in common" in said) == (late == 20), said
        # One warm-up step was asked for, and twenty more were needed.
        assert ("--warmup 21" in said) == (late == 20), said


def test_a_number_that_is_missed(profd):
    """A rank that runs away while it is armed: another number is chosen, and the ranks begin with that one."""
    agent = third_rank(profd)
    with fake_agent.connect(profd.socket) as client:
        ask_all(profd, agent, client)
        packet, (segment,) = agent.wait_for(fake_agent.ARM)
        capture, = struct.unpack_from("<Q", packet, 8)
        first, = struct.unpack_from("<Q", packet, 56)
        os.close(segment)
        agent.say(fake_agent.ARMED, struct.pack("<QQII", capture, first + 20, 2, 0))
        packet, _ = agent.wait_for(22)
        named, again = struct.unpack_from("<QQ", packet, 8)
        assert named == capture and again > first + 20
        rows = fake_agent.rows(client)
        together = next(r for r in rows if r["row"] == "together")
        assert together["at_step"] == again and f"passed step {first}" in together["message"]
        agent.connection.close()
        captured = [r["capture_id"] for r in rows if r.get("row") == "captured" and r["rank"] != 2]
    assert [numbers(profd, {"capture_id": c})[0] for c in captured] == [again, again]


LAUNCHER = """
import os, subprocess, sys
os.environ.pop("LD_PRELOAD") if "bare" in sys.argv else None
ranks = [subprocess.Popen(sys.argv[1:3], env={**os.environ, "RANK": str(r), "WORLD_SIZE": "2"}) for r in range(2)]
import ctypes
ctypes.CDLL(None).profd_mark(b"the agent is in the launcher too")
[r.wait() for r in ranks]
"""


@pytest.fixture
def launched(profd):
    """A launcher that carries the agent, shows no steps, and has started two ranks; they end with it."""
    import os
    import signal
    launcher = profd.job("/usr/bin/python3", "-c", LAUNCHER, STEPS, "--step-ms=20", env={"PROFD_JOB": "79", "PROFD_NAME": "llm"},
                         start_new_session=True)

    def registered():
        rows = profd.json("ps", "--job", "79", codes=(0, 3))["processes"]
        return rows if len(rows) == 3 and all(r["step"] > 3 for r in rows if r["pid"] != launcher.pid) else None
    wait_for(registered, what="a launcher and two ranks")
    yield launcher
    os.killpg(launcher.pid, signal.SIGKILL)


def test_launchers_are_not_targets(profd, launched):
    rows = profd.json("ps", "--job", "79")["processes"]
    assert {r["pid"]: r["role"] for r in rows}.pop(launched.pid) == "launcher"
    assert [r["role"] for r in rows if r["pid"] != launched.pid] == [None, None]
    assert "ROLE" in profd.run("ps").stdout and "launcher" in profd.run("ps").stdout
    for which in (["--job", "79"], ["--name", "llm"], ["--all"]):
        answer = profd.json("trigger", *which, "--steps", 2)
        assert [c["rank"] for c in answer["captures"]] == [0, 1] and answer["refused"] == []
        assert [(r["pid"], r["message"]) for r in answer["left_out"]] == [(launched.pid, "launcher")]
    done = profd.run("trigger", "--job", "79", "--steps", 1)
    assert f"{launched.pid} (llm) was left out: it shows no steps, and is a launcher of those that do" in done.stderr
    # Who names it means it.
    assert profd.run("trigger", "--pid", launched.pid, check=False).returncode == 9


def test_workers_are_not_targets(profd):
    """A process that one of the ranks has started, with the rank's own environment, as a DataLoader's workers have it."""
    script = ("import ctypes, subprocess, sys, time\n"
              "step = ctypes.CDLL(None).profd_step\n"
              "worker = subprocess.Popen([sys.argv[1], '--no-step'])\n"
              "while True:\n    step()\n    time.sleep(0.02)\n")
    job = profd.job("/usr/bin/python3", "-c", script, STEPS, env={"PROFD_JOB": "80", "RANK": "0", "WORLD_SIZE": "1"},
                    start_new_session=True)
    import os
    import signal
    try:
        profd.wait_steps(job.pid, 3)
        rows = wait_for(lambda: len(r := profd.json("ps", "--job", "80")["processes"]) == 2 and r, what="the worker")
        assert {r["pid"] == job.pid: r["role"] for r in rows} == {True: None, False: "worker"}
        answer = profd.json("trigger", "--job", "80", "--steps", 2)
        assert [c["pid"] for c in answer["captures"]] == [job.pid]
        assert [r["message"] for r in answer["left_out"]] == ["worker"]
    finally:
        os.killpg(job.pid, signal.SIGKILL)


def test_a_rank_without_steps_is_meant(profd):
    """It is no launcher: that it does not step is an answer to whoever names the job."""
    ranks(profd, [0])
    silent = profd.job(STEPS, "--no-step", env={"RANK": "1", "WORLD_SIZE": "2", "PROFD_JOB": "77"})
    profd.wait_registered(silent.pid)
    answer = profd.json("trigger", "--job", "77", codes=(9,))
    assert [c["rank"] for c in answer["captures"]] == [0] and answer["refused"][0]["pid"] == silent.pid


def test_only_launchers_match(profd, launched):
    done = profd.run("trigger", "--name", "llm", "--steps", 1)
    assert done.returncode == 0
    import os
    for row in profd.json("ps", "--job", "79")["processes"]:
        if row["role"] is None:
            os.kill(row["pid"], 9)
    wait_for(lambda: len(profd.json("ps", "--job", "79", codes=(0, 3))["processes"]) < 3, what="the ranks' end")
    assert profd.run("trigger", "--name", "llm", check=False).returncode in (3, 9)
