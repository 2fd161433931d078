"""A capture is exactly the steps that were asked for, with everything in them and nothing else."""
import bisect
import collections
import json
import os
import pathlib
import platform
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from conftest import BUILD, hurry, wait_for

STEPS = BUILD / "workloads" / "steps"
THREADS = BUILD / "workloads" / "nvtx_threads"
RANGES = 5  # of a step: `step` and work 0 to 3


def check_steps(profd, capture, steps=3, marks=1):
    """The capture holds that many whole steps in a row, each with its own ranges and marks."""
    assert capture["status"] == "complete", capture
    assert capture["steps_recorded"] == steps, capture
    assert capture["lost"] == 0
    shown = profd.show(capture["capture_id"])
    assert [s["step"] for s in shown["steps"]] == list(range(1, steps + 1))
    numbers = [s["number"] for s in shown["steps"]]
    assert numbers == list(range(numbers[0], numbers[0] + steps))
    ranges = {r["name"]: r["calls"] for r in shown["ranges"]}
    assert ranges == {"step": steps, **{f"work {i}": steps for i in range(RANGES - 1)}}
    with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
        per_step = collections.Counter(row[0] for row in db.execute("SELECT step FROM ranges"))
        assert per_step == {step: RANGES for step in range(1, steps + 1)}
        assert db.execute("SELECT count(*) FROM marks").fetchone()[0] == steps * marks
        # What starts in a step lies in it: these ranges end before it does, too.
        bad = db.execute("""SELECT count(*) FROM ranges r JOIN steps s ON s.step = r.step
                            WHERE r.start < s.start OR r.start + r.duration > s.start + s.duration""").fetchone()[0]
        assert bad == 0
        gaps = db.execute("""SELECT count(*) FROM steps a JOIN steps b ON b.step = a.step + 1
                             WHERE a.start + a.duration <> b.start""").fetchone()[0]
        assert gaps == 0
    return shown


def armed(profd, pid, *options):
    """Id of a capture that the agent has by now."""
    return profd.run("trigger", "--pid", pid, *options, "--no-wait").stdout.strip()


def ended(profd, capture_id):
    """The capture's row."""
    over = ("complete", "incomplete", "failed")
    return wait_for(lambda: next((row for row in profd.json("captures")["captures"] if row["capture_id"] == capture_id and row["status"] in over), None), 60,
                    f"the end of {capture_id}")


@pytest.mark.core
def test_three_steps_exactly_whatever_they_take(profd):
    """Step times log-spread from 0.2 ms to 0.5 s: ten of them, or PROFD_REPEATS=100."""
    runs = int(os.environ.get("PROFD_REPEATS", "10"))
    for ms in (0.2 * (500 / 0.2) ** (i / (runs - 1)) for i in range(runs)):
        job = profd.job(STEPS, f"--step-ms={ms:.3f}")
        profd.wait_steps(job.pid, 1)
        check_steps(profd, profd.trigger(job.pid, "--steps", 3))
        job.kill()


@pytest.mark.core
def test_three_steps_exactly_when_they_take_two_seconds(profd):
    jobs = [profd.job(STEPS, "--step-ms=2000") for _ in range(5)]
    for job in jobs:
        profd.wait_steps(job.pid, 1)
    clients = [subprocess.Popen([str(profd.client), "trigger", "--pid", str(job.pid), "--format", "json"],
                                env=profd.env, stdout=subprocess.PIPE, text=True) for job in jobs]
    for client in clients:
        out, _ = client.communicate(timeout=120)
        assert client.returncode == 0
        check_steps(profd, json.loads(out)["captures"][0])


@pytest.mark.parametrize("warmup,skip,wait", [(0, 0, 0), (1, 0, 0), (3, 2, 0), (1, 0, 4), (0, 3, 2)])
def test_schedules(profd, warmup, skip, wait):
    """Skipped, waited and warm-up steps are not in the capture; the first recorded one is where the schedule says, or as
    much later as the capture itself says that collectors were late."""
    job = profd.job(STEPS, "--step-ms=30")
    profd.wait_steps(job.pid, 2)
    before = profd.process(job.pid)["step"]
    capture = armed(profd, job.pid, "--steps", 2, "--warmup", warmup, "--skip-first", skip, "--wait-steps", wait)
    # As many as one likes may pass before the agent has it.
    after = profd.process(job.pid)["step"]
    shown = check_steps(profd, ended(profd, capture), 2)
    first = shown["steps"][0]["number"]
    late = shown["cost"]["late_steps"]
    # The step that runs while the trigger arrives is never recorded.
    assert before + 1 + skip + wait + warmup + late <= first <= after + 2 + skip + wait + warmup + late


def test_cycles_make_a_capture_each(profd):
    job = profd.job(STEPS, "--step-ms=10")
    profd.wait_steps(job.pid, 2)
    answer = profd.json("trigger", "--pid", job.pid, "--steps", 2, "--wait-steps", 3, "--repeat", 4)
    captures = answer["captures"]
    assert len({c["capture_id"] for c in captures}) == 4
    assert sorted(c["cycle"] for c in captures) == [0, 1, 2, 3]
    firsts = []
    for c in sorted(captures, key=lambda c: c["cycle"]):
        firsts.append(check_steps(profd, c, 2)["steps"][0]["number"])
    # torch's schedule: wait 3, warm up 1, record 2; a late segment moves a cycle, never cuts one.
    assert all(b - a >= 6 for a, b in zip(firsts, firsts[1:])), firsts


TELLS_TIMES = """
import ctypes, sys, time
agent = ctypes.CDLL(None)
with open(sys.argv[1], "w", buffering=1) as told:
    while True:
        for _ in range(50):
            before = time.monotonic_ns()
            agent.profd_range_push(b"told")
            begun = time.monotonic_ns()
            time.sleep(0.0001)
            ending = time.monotonic_ns()
            agent.profd_range_pop()
            print(before, begun, ending, time.monotonic_ns(), file=told)
        agent.profd_step()
"""
CLOCK_SOURCE = pathlib.Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")


def test_times_are_the_kernels(profd):
    """Whoever tells them. Where the kernel counts by the processor's counter so does the agent, and says by how much it was off."""
    told = profd.folder / "told"
    job = profd.job(sys.executable, "-c", TELLS_TIMES, told)
    profd.wait_steps(job.pid, 2)
    capture = profd.trigger(job.pid, "--steps", 50)
    job.kill()
    off = profd.show(capture["capture_id"], "--by", "cost")["cost"]["clock_off_ns"]
    counts = platform.machine() == "x86_64" and CLOCK_SOURCE.exists() and CLOCK_SOURCE.read_text() == "tsc\n"
    assert (0 < off <= 50000) if counts else off is None
    with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
        base, = db.execute("SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'base_monotonic'").fetchone()
        ranges = db.execute("SELECT start + ?1, start + duration + ?1 FROM ranges ORDER BY start", (base,)).fetchall()
    lines = [[int(word) for word in line.split()] for line in told.read_text().splitlines() if line.count(" ") == 3]
    assert len(ranges) == 50 * 50
    spare = 2 * (off or 0)
    at = bisect.bisect([line[1] for line in lines], ranges[0][0] - spare)
    assert len(lines) >= at + len(ranges)
    for (start, end), (before, begun, ending, after) in zip(ranges, lines[at:]):
        assert before - spare <= start <= begun + spare and ending - spare <= end <= after + spare


def test_a_number_without_its_letter(profd):
    """The ids of one's own daemon begin with u; who leaves it out is told so."""
    for verb in ("show", "export"):
        done = profd.run(verb, "7", check=False)
        assert done.returncode == 3 and "there is no capture 7 (your own daemon's is u7)" in done.stderr
    assert "(your own" not in profd.run("show", "u7", check=False).stderr


def test_recipe(profd):
    """A schedule under torch's names; what the command line says goes before it. A snapshot takes a recipe, too."""
    job = profd.job(STEPS, "--step-ms=10")
    profd.wait_steps(job.pid, 2)
    recipe = profd.folder / "recipe.json"
    recipe.write_text('{"wait": 3, "warmup": 1, "active": 2, "repeat": 3, "activities": ["cpu"], "label": "mine"}')
    answer = profd.json("trigger", "--pid", job.pid, "--recipe", recipe, "--repeat", 2)
    assert sorted(c["cycle"] for c in answer["captures"]) == [0, 1]
    firsts = sorted(check_steps(profd, c, 2)["steps"][0]["number"] for c in answer["captures"])
    assert firsts[1] - firsts[0] >= 6
    assert {c["label"] for c in profd.json("captures")["captures"]} == {"mine"}
    recipe.write_text('{"active": 4, "label": "hourly"}')
    profd.json("snapshot", "--pid", job.pid, "--recipe", recipe)
    newest = profd.json("captures", "--label", "hourly")["captures"][0]
    check_steps(profd, newest, 4)


def test_endless_cycles_end_when_cancelled(profd):
    job = profd.job(STEPS, "--step-ms=10")
    profd.wait_steps(job.pid, 2)
    client = subprocess.Popen([str(profd.client), "trigger", "--pid", str(job.pid), "--steps", "2", "--repeat", "0",
                               "--format", "json"], env=profd.env, stdout=subprocess.PIPE, text=True)
    wait_for(lambda: len([c for c in profd.json("captures")["captures"] if c["status"] == "complete"]) >= 3, 20,
             "three cycles")
    client.send_signal(signal.SIGINT)
    out, _ = client.communicate(timeout=120)
    assert client.returncode == 130
    wait_for(lambda: profd.process(job.pid)["state"] == "idle", 10, "the agent to be idle")
    assert job.poll() is None


def test_at_step(profd):
    job = profd.job(STEPS, "--step-ms=20")
    profd.wait_steps(job.pid, 2)
    target = profd.process(job.pid)["step"] + 2750
    # The step is far enough for a busy machine's trigger, and two seconds are enough to switch the collectors on: a named step is not waited for.
    capture = armed(profd, job.pid, "--at-step", target, "--warmup", 2000)
    hurry(job)
    shown = check_steps(profd, ended(profd, capture))
    assert [s["number"] for s in shown["steps"]] == [target, target + 1, target + 2]
    # A missed one is refused, not shifted.
    done = profd.run("trigger", "--pid", job.pid, "--at-step", 5, check=False)
    assert done.returncode == 1 and "passed" in done.stderr, done.stderr


# A step by each line: one that takes a while, or none.
TOLD = """
import ctypes, sys, time
step = ctypes.CDLL(None).profd_step
for word in open(sys.argv[1]):
    time.sleep(0 if word == "short\\n" else 0.1)
    step()
    print("stepped", flush=True)
"""


def test_a_short_step_does_not_hasten_the_warm_up(profd, tmp_path):
    """Collectors are switched on half a second before a step of a number, as long as steps usually take, and not as long as the last one took: one that
    makes up for a long one is short."""
    os.mkfifo(tmp_path / "words")
    job = profd.job("/usr/bin/python3", "-c", TOLD, tmp_path / "words")
    told = open(tmp_path / "words", "w")

    def steps(*words):
        for word in words:
            print(word, file=told, flush=True)
            assert job.stdout.readline() == "stepped\n"

    steps(*["long"] * 12)
    target = profd.process(job.pid)["step"] + 45
    capture = armed(profd, job.pid, "--at-step", target, "--warmup", 2, "--steps", 1)
    steps(*["long", "long", "short"] * 4, *["long"] * 15)
    assert profd.process(job.pid)["state"] == "armed"  # 18 steps are to come, of which five are half a second
    # At three steps to come they are switched on at the latest; the step that is named waits for nobody.
    steps(*["long"] * 15)
    wait_for(lambda: profd.process(job.pid)["state"] == "warmup", what="the collectors")
    steps(*["long"] * 5)
    row = ended(profd, capture)
    assert row["status"] == "complete", row
    assert [s["number"] for s in profd.show(capture)["steps"]] == [target]
    told.close()
    assert job.wait(20) == 0


def test_a_window_of_time(profd):
    """A job without steps: --duration."""
    job = profd.job(STEPS, "--step-ms=5", "--no-step")
    profd.wait_registered(job.pid)
    refused = profd.run("trigger", "--pid", job.pid, check=False)
    assert refused.returncode == 9 and "--duration" in refused.stderr, refused.stderr
    asked = time.monotonic()
    capture = profd.trigger(job.pid, "--duration", "500ms")
    took = time.monotonic() - asked
    assert capture["status"] == "complete"
    shown = profd.show(capture["capture_id"])
    ranges = {r["name"]: r["calls"] for r in shown["ranges"]}
    wall = shown["steps"][0]["wall_ns"]
    # It may end later, where the agent waits for a processor, and not after the client knows of its end.
    assert 0.5e9 <= wall < 1e9 * took and ranges["step"] <= wall / 5e6 + 2
    # The job is nearly all the time in a range: all of the window is there.
    assert 0.8 * wall < next(r["total_ns"] for r in shown["ranges"] if r["name"] == "step")
    # The job lives on, and can be looked at again.
    assert job.poll() is None
    assert profd.trigger(job.pid, "--duration", "100ms")["status"] == "complete"


def test_steps_by_a_range(profd):
    """No step source of its own, but a range that recurs."""
    job = profd.job(STEPS, "--step-ms=10", "--no-step")
    profd.wait_registered(job.pid)
    capture = profd.trigger(job.pid, "--steps", 3, "--step-range", "ste?")
    assert capture["status"] == "complete" and capture["steps_recorded"] == 3
    shown = profd.show(capture["capture_id"])
    # The step ends where the range ends, so the range is not cut.
    assert {r["name"]: r["calls"] for r in shown["ranges"]}["step"] == 3
    assert not [loss for loss in shown["losses"] if loss["count"]]
    # When nobody looks for the range any more the process has no steps again, and no step time.
    wait_for(lambda: profd.process(job.pid)["step_source"] == "none", 10, "the end of the range's steps")
    row = profd.process(job.pid)
    assert row["step"] >= 3 and row["step_ns"] is None and row["step_note"] == "counted by captures alone", row
    assert "has no steps but the" in profd.run("doctor", "--pid", job.pid).stdout


def test_one_range_is_not_another(profd):
    """--step-range with a program that has steps of its own: the range counts, the program's steps go on being counted."""
    job = profd.job(STEPS, "--step-ms=10")
    profd.wait_steps(job.pid, 2)
    capture = profd.trigger(job.pid, "--steps", 4, "--step-range", "work 2")
    assert capture["steps_recorded"] == 4
    assert profd.process(job.pid)["step_source"] == "profd_step"


def test_several_processes_at_once(profd):
    jobs = [profd.job(STEPS, "--step-ms=20", env={"RANK": str(i), "WORLD_SIZE": "3", "TORCHELASTIC_RUN_ID": "run7"})
            for i in range(3)]
    for job in jobs:
        profd.wait_steps(job.pid, 1)
    answer = profd.json("trigger", "--job", "run7", "--steps", 3)
    assert sorted(c["rank"] for c in answer["captures"]) == [0, 1, 2]
    for capture in answer["captures"]:
        check_steps(profd, capture)
    table = profd.run("trigger", "--job", "run7").stdout
    assert "<-" not in table and "rank 0" in table


@pytest.mark.core
def test_triggers_again_and_again(profd):
    """The same process, fifty times: nothing leaks from one capture into the next."""
    job = profd.job(STEPS, "--step-ms=2")
    profd.wait_steps(job.pid, 2)
    for _ in range(50):
        check_steps(profd, profd.trigger(job.pid))
    fds = len(list((__import__("pathlib").Path("/proc") / str(job.pid) / "fd").iterdir()))
    assert fds < 20


def test_the_agent_says_what_it_cost(profd):
    began = time.monotonic()
    job = profd.job(STEPS, "--step-ms=5")
    profd.wait_steps(job.pid, 80)
    capture = profd.trigger(job.pid, "--steps", 20)
    shown = profd.show(capture["capture_id"])
    cost, walls = shown["cost"], [step["wall_ns"] for step in shown["steps"]]

    def lived():
        """ns. On a full machine most of the steps may wait for a processor."""
        return 1e9 * (time.monotonic() - began)
    assert 4e6 < cost["step_before_ns"] < lived()
    assert min(walls) <= cost["step_during_ns"] <= max(walls) and 4e6 < cost["step_during_ns"]
    assert cost["drain_ns"] < lived() and cost["agent_cpu_ns"] > 0

    def after():
        value = profd.show(capture["capture_id"])["cost"]["step_after_ns"]
        return value
    assert 4e6 < wait_for(after, 10, "the step time after the capture") < lived()


@pytest.mark.skipif(not THREADS.exists(), reason="workloads with NVTX were not built (PROFD_NVTX_INCLUDE)")
@pytest.mark.parametrize("chunk", ["64K", "1M"])
def test_recorded_and_lost_is_produced(profd, chunk):
    """Eight threads, a segment that is far too small: every range is either there or counted."""
    job = profd.job(THREADS, "--threads=8", "--pairs=20000", "--rounds=1000000")
    profd.wait_steps(job.pid, 2)
    capture = profd.trigger(job.pid, "--steps", 3, "--max-bytes", chunk)
    shown = profd.show(capture["capture_id"])
    recorded = sum(r["calls"] for r in shown["ranges"])
    lost = sum(loss["count"] for loss in shown["losses"] if loss["is_loss"] and loss["kind"] == "range")
    assert recorded + lost == 3 * 8 * 20000
    assert capture["lost"] >= lost
    if chunk == "64K":
        assert lost > 0 and "dropped" in profd.run("show", capture["capture_id"]).stdout


def test_max_events(profd):
    """The capture ends with the step in which the limit was reached, says so, and counts what it turned away."""
    job = profd.job(STEPS, "--step-ms=5")
    profd.wait_steps(job.pid, 2)
    capture = profd.trigger(job.pid, "--steps", 10, "--max-events", 20, codes=(5,))
    assert capture["status"] == "incomplete" and capture["reason_code"] == "limit"
    assert capture["steps_recorded"] == 4  # of six events each
    shown = profd.show(capture["capture_id"])
    lost = sum(loss["count"] for loss in shown["losses"] if loss["loss"] == "limit")
    with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
        recorded = sum(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("ranges", "marks"))
    assert recorded == 20 and lost == 4
    assert profd.trigger(job.pid)["status"] == "complete"
