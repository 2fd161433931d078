"""`profd set`: other collectors in mid-recording. The recording ends with a step and goes on as another capture; no step is lost silently."""
import json
import pathlib
import signal
import sqlite3
import subprocess
import sys

import pytest

import gpu
from conftest import BUILD, WORKLOADS, asleep, hurry, wait_for

STEPS = BUILD / "workloads" / "steps"
SHARES = WORKLOADS / "shares.py"
NVTX = 1 << 1
PYTHON = 1 << 6


def steps(profd, capture):
    """(number, collectors) of each recorded step."""
    with sqlite3.connect(profd.file(capture)) as file:
        return file.execute("SELECT number, collectors FROM steps ORDER BY number").fetchall()


def start(profd, *options):
    """A job whose steps are long, until it is told to hurry: on however busy a machine what is asked for comes before they are over."""
    job = profd.job(STEPS, "--step-ms=100", *options)
    profd.wait_steps(job.pid, 2)
    return job


def recording(profd, pid):
    return profd.wait_recorded(pid, 1)["capture_id"]


def rows(profd):
    return {row["capture_id"]: row for row in profd.json("captures")["captures"]}


def ended(profd, trigger):
    output, errors = trigger.communicate(timeout=120)
    assert trigger.returncode == 0, (output, errors)
    return json.loads(output), errors


def check_whole(profd, captures, switched, total):
    """All captures are complete, have as many steps as were asked for, and what is in none of them was said."""
    passed, last, count = {row["goes_on_as"]: row for row in switched}, None, 0
    for capture in captures:
        assert capture["status"] == "complete" and capture["steps_recorded"] == capture["steps_wanted"], capture
        numbers = [number for number, _ in steps(profd, capture["capture_id"])]
        assert numbers == list(range(numbers[0], numbers[0] + capture["steps_recorded"]))
        if last:
            row = passed[capture["capture_id"]]
            assert (row["last_step"], row["first_step"]) == (last, numbers[0])
            assert row["passed"] == numbers[0] - last - 1 >= 1
        last, count = numbers[-1], count + len(numbers)
    assert count == total


def test_the_rest_is_another_capture(profd):
    job = start(profd)
    trigger = profd.follow("--pid", job.pid, "--steps", 150)
    first = recording(profd, job.pid)
    (switched,) = profd.json("set", first, "-nvtx")["switched"]
    hurry(job)
    rest = switched["goes_on_as"]
    assert switched["capture_id"] == first and switched["changes"] == "-nvtx"
    answer, errors = ended(profd, trigger)
    assert [c["capture_id"] for c in answer["captures"]] == [first, rest]
    check_whole(profd, answer["captures"], [switched], 150)
    assert all(bits & NVTX for _, bits in steps(profd, first)) and not any(bits & NVTX for _, bits in steps(profd, rest))
    # Whoever follows is told the same, and so is whoever looks later.
    assert {key: answer["switched"][0][key] for key in switched} == switched
    assert f"profd: `profd set`: {switched['message']}" in errors
    listed = rows(profd)
    assert f"go on as capture {rest}" in listed[first]["reason"] and f"goes on from capture {first}" in listed[rest]["reason"]
    for capture, word in ((first, f"go on as capture {rest}"), (rest, f"goes on from capture {first}")):
        assert any(word in text and "-nvtx" in text for text in profd.show(capture)["notes"]), capture
    (line,) = [row for row in profd.json("audit")["lines"] if row["action"] == "set"]
    assert line["outcome"] == "switched" and line["subject"] == f"{first}: -nvtx" and line["target_pid"] == job.pid


def test_stacks_from_now_on(profd, tmp_path):
    """What a capture did not record it does not show as nothing."""
    job = profd.job(sys.executable, SHARES, tmp_path / "taken.json")
    profd.wait_steps(job.pid, 3)
    trigger = profd.follow("--pid", job.pid, "--steps", 600)
    first = recording(profd, job.pid)
    done = profd.run("set", "--pid", job.pid, "+stacks", "--stacks-rate", 499)
    assert f"capture {first} ended with step" in done.stdout and ": +stacks (step" in done.stdout and not done.stderr
    rest = profd.process(job.pid)["capture_id"]
    profd.wait_recorded(job.pid, 10)
    back = profd.json("set", rest, "-stacks")["switched"][0]["goes_on_as"]
    hurry(job)
    answer, _ = ended(profd, trigger)
    check_whole(profd, answer["captures"], answer["switched"], 600)
    assert [bool(steps(profd, c["capture_id"])[0][1] & PYTHON) for c in answer["captures"]] == [False, True, False]
    shown = {capture: profd.show(capture) for capture in (first, rest, back)}
    assert shown[rest]["lines"] and shown[first]["lines"] is None and shown[back]["lines"] is None
    assert "not recorded" in profd.run("show", first, "--by", "lines").stdout
    # One that is the rest of another and has a rest says both.
    assert any(f"goes on from capture {first}" in n and f"go on as capture {back}" in n for n in shown[rest]["notes"])


def test_refused_by_the_process(profd):
    """The old ones go on, and the recording is as if nobody had asked."""
    job = start(profd)
    trigger = profd.follow("--pid", job.pid, "--steps", 150)
    capture = recording(profd, job.pid)
    for word, reason in (("+stacks", "python: "), ("+shapes", "shapes: no torch in this process"),
                         ("+modules", "modules: no torch in this process")):
        done = profd.run("set", capture, word, check=False)
        assert done.returncode == 1 and not done.stdout, done
        assert f"capture {capture} goes on as it was: {reason}" in done.stderr
    hurry(job)
    answer, _ = ended(profd, trigger)
    check_whole(profd, answer["captures"], [], 150)
    assert not answer["switched"] and len(answer["captures"]) == 1


def test_what_cannot_be(profd):
    job = start(profd)
    finished = profd.trigger(job.pid, "--steps", 2)["capture_id"]
    window = profd.follow("--pid", job.pid, "--duration", "1h")
    capture = wait_for(lambda: [row["capture_id"] for row in rows(profd).values() if row["status"] == "recording"], what="the window")[0]

    def refused(code, text, *words):
        done = profd.run("set", *words, check=False)
        assert done.returncode == code and text in done.stderr and not done.stdout, done

    refused(1, "records a window of time", capture, "-nvtx")
    refused(3, f"capture {finished} is not being recorded now", finished, "-nvtx")
    refused(3, "there is no capture u999", "u999", "-nvtx")
    refused(3, "trigger ut1 is not being recorded now", "--trigger", "ut1", "-nvtx")
    refused(3, "there is no process", "--pid", 2**22 + 1, "-nvtx")
    refused(2, "knows no +stakcs", capture, "+stakcs")
    refused(2, "knows no -steps", capture, "-steps")
    refused(2, "with + and with -", capture, "+stacks", "-stacks")
    refused(2, "Give +WORD or -WORD", capture)
    refused(2, "of what?", "+stacks")
    refused(2, "not several", capture, "--pid", job.pid, "+stacks")
    assert rows(profd)[capture]["status"] == "recording"
    profd.run("cancel", capture)
    (ended_by,) = json.loads(window.communicate(timeout=60)[0])["captures"]
    assert (ended_by["capture_id"], ended_by["reason_code"]) == (capture, "cancelled") and ended_by["events"] > 0, ended_by
    trigger = profd.follow("--pid", job.pid, "--steps", 100)
    capture = recording(profd, job.pid)
    refused(2, f"nothing would change: what capture {capture} is asked to record is steps, nvtx,", capture, "+nvtx")
    refused(3, "is not being recorded now", finished, "+nvtx")
    rest = profd.json("set", capture, "-nvtx")["switched"][0]["goes_on_as"]
    refused(3, f"capture {capture} goes on as capture {rest}", capture, "+nvtx")
    hurry(job)
    ended(profd, trigger)
    # What was refused for such reasons is nothing for the audit log.
    assert [row["outcome"] for row in profd.json("audit")["lines"] if row["action"] == "set"] == ["switched", "unavailable"]


def test_before_it_records(profd):
    """It keeps its number, and begins with the other collectors."""
    job = start(profd)
    trigger = profd.follow("--pid", job.pid, "--steps", 5, "--skip-first", 150)
    capture = wait_for(lambda: profd.process(job.pid)["capture_id"], what="the capture's number")
    # The number is there before the agent has answered; until then it says that it is to be tried again.
    (switched,) = wait_for(lambda: profd.json("set", capture, "-nvtx", codes=(0, 1))["switched"], what="the capture to be armed")
    assert (switched["capture_id"], switched["goes_on_as"], switched["passed"]) == (capture, None, None)
    assert "has not begun to record yet" in switched["message"]
    hurry(job)
    answer, _ = ended(profd, trigger)
    assert [c["capture_id"] for c in answer["captures"]] == [capture]
    check_whole(profd, answer["captures"], [], 5)
    assert not any(bits & NVTX for _, bits in steps(profd, capture))
    collectors = {row["collector"]: row for row in profd.show(capture)["collectors"]}
    assert not collectors["nvtx"]["on"]


def test_cycles_go_on_with_them(profd):
    job = start(profd, "--slow-ms=20")
    trigger = profd.follow("--pid", job.pid, "--steps", 40, "--wait-steps", 60, "--repeat", 4)
    first = recording(profd, job.pid)
    rest = profd.json("set", first, "-nvtx")["switched"][0]["goes_on_as"]
    job.send_signal(signal.SIGUSR1)
    # Between two cycles there is no recording to end.
    wait_for(lambda: rows(profd)[rest]["status"] == "complete", what="the first cycle's end")
    between = profd.json("set", "--pid", job.pid, "+nvtx")["switched"]
    hurry(job)
    answer, _ = ended(profd, trigger)
    on = [bool(steps(profd, c["capture_id"])[0][1] & NVTX) for c in answer["captures"]]
    assert on[:2] == [True, False] and on[-1] and sorted(on[2:]) == on[2:]
    counts = [c["steps_recorded"] for c in answer["captures"]]
    assert counts[0] + counts[1] == 40 and sum(counts) == 160, counts
    assert len(counts) == 5 + (between[0]["passed"] is not None)
    assert all(c["status"] == "complete" for c in answer["captures"])


@pytest.mark.serial
def test_ranks_go_on_with_the_same_step(profd):
    from test_ranks import STEP, ranks

    def switched():
        """Captures of each rank; none where one of them was not ready for the step that was chosen, and says so."""
        jobs = ranks(profd, [0, STEP / 2])
        trigger = profd.follow("--job", "77", "--steps", 150)
        wait_for(lambda: {row["state"] for row in profd.json("ps")["processes"]} == {"recording"}, what="both ranks")
        identity = next(iter(rows(profd).values()))["trigger_id"]
        switched = profd.json("set", "--trigger", identity, "-nvtx")["switched"]
        assert [row["rank"] for row in sorted(switched, key=lambda row: row["rank"])] == [0, 1]
        for job in jobs:
            hurry(job)
        answer, _ = ended(profd, trigger)
        parts = [[c for c in answer["captures"] if c["rank"] == rank] for rank in (0, 1)]
        for part in parts:
            check_whole(profd, part, switched, 150)
        late = answer["together"][1:]
        assert all("was not ready in time" in row["message"] for row in late), late
        for job in jobs:
            job.kill()
        wait_for(lambda: not profd.json("ps", codes=(0, 3))["processes"], what="the ranks to be gone")
        return not late and parts
    parts = wait_for(switched, what="ranks that are ready in time")
    begun = [[steps(profd, c["capture_id"])[0][0] for c in part] for part in parts]
    assert begun[0] == begun[1], begun


def test_again_and_again(profd):
    """Every step of the job is in one capture, or is among those that are said to have passed."""
    job = profd.job(STEPS, "--step-ms=20")
    profd.wait_steps(job.pid, 2)
    trigger = profd.follow("--pid", job.pid, "--steps", 3000)
    recording(profd, job.pid)
    for i in range(10):
        profd.run("set", "--pid", job.pid, "+nvtx" if i % 2 else "-nvtx")
    hurry(job)
    answer, _ = ended(profd, trigger)
    assert len(answer["captures"]) == 11 and len(answer["switched"]) == 10
    check_whole(profd, answer["captures"], answer["switched"], 3000)


def stand(job):
    """The step that begins now takes a hundred seconds."""
    job.send_signal(signal.SIGUSR1)
    wait_for(lambda: asleep(pathlib.Path(f"/proc/{job.pid}/task/{job.pid}")), what="the long step")


def test_a_job_that_does_not_come_to_its_step(profd):
    """Whoever asks is told how it stands: that the step has not ended, or that nothing is recorded any more."""
    job = profd.job(STEPS, "--step-ms=10", "--slow-ms=100000")
    profd.wait_steps(job.pid, 2)
    trigger = profd.follow("--pid", job.pid, "--steps", 100000)
    capture = recording(profd, job.pid)
    stand(job)
    done = profd.run("set", capture, "-nvtx", "--timeout", "300ms", check=False)
    assert done.returncode == 4 and "the step that runs has not ended in time" in done.stderr
    done = profd.run("set", capture, "-nvtx", check=False)
    assert done.returncode == 1 and "are being switched already" in done.stderr
    profd.run("cancel", capture)
    trigger.communicate(timeout=60)
    wait_for(lambda: profd.process(job.pid)["state"] == "idle", what="its end")
    row = rows(profd)
    assert list(row) == [capture] and row[capture]["reason_code"] == "cancelled"


def test_a_job_that_dies_meanwhile(profd):
    other = profd.job(STEPS, "--step-ms=10", "--slow-ms=100000")
    profd.wait_steps(other.pid, 2)
    trigger = profd.follow("--pid", other.pid, "--steps", 100000)
    capture = recording(profd, other.pid)
    stand(other)
    asking = subprocess.Popen([profd.client, "set", capture, "-nvtx"], env=profd.env, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: asleep(pathlib.Path(f"/proc/{asking.pid}/task/{asking.pid}"), 0.3), what="the client to wait for its answer")
    other.kill()
    errors = asking.communicate(timeout=60)[1]
    assert asking.returncode == 3 and f"capture {capture} is not being recorded now" in errors
    trigger.communicate(timeout=60)


def test_after_a_restart(profd):
    """The next daemon knows what is recorded, and switches it."""
    job = start(profd)
    profd.run("trigger", "--pid", job.pid, "--steps", 600, "--no-wait")
    first = recording(profd, job.pid)
    profd.stop_daemon(signal.SIGKILL)
    profd.start_daemon()
    wait_for(lambda: (row := profd.process(job.pid)) and row["state"] == "recording", what="the agent to come back")
    switched = profd.json("set", first, "-nvtx")["switched"]
    hurry(job)
    rest = switched[0]["goes_on_as"]
    wait_for(lambda: rows(profd).get(rest, {}).get("status") == "complete", 30, "the rest")
    wait_for(lambda: rows(profd)[first]["status"] == "complete", 30, "the first part")
    check_whole(profd, [rows(profd)[first], rows(profd)[rest]], switched, 600)


def test_a_preset_and_a_trigger_that_waits(profd):
    waiting = profd.follow("--name", "later", "--wait-for", "60s", "--steps", 5)
    identity = wait_for(lambda: next((row["subject"].split(":")[0] for row in profd.json("audit", codes=(0, 3))["lines"]
                                      if row["outcome"] == "waiting"), None), what="the trigger")
    assert profd.json("set", "--trigger", identity, "--preset", "light", "-nvtx")["waits"] == [identity]
    job = profd.job(STEPS, "--step-ms=10", env={"PROFD_NAME": "later"})
    answer, _ = ended(profd, waiting)
    (capture,) = answer["captures"]
    assert capture["pid"] == job.pid
    with sqlite3.connect(profd.file(capture["capture_id"])) as file:
        wanted = {word for word, in file.execute("SELECT collector FROM collectors WHERE wanted")}
    assert wanted == {"steps", "cupti"} and not any(bits & NVTX for _, bits in steps(profd, capture["capture_id"]))


def test_a_simulated_gpu_off_and_on(profd):
    """CUPTI is let go of in mid-schedule, and taken again: what it recorded meanwhile is not recorded, and not 0."""
    job = gpu.start(profd, gpu.MIDDLE, rate=20)
    trigger = profd.follow("--pid", job.pid, "--steps", 300)
    first = recording(profd, job.pid)
    rest = profd.json("set", first, "-gpu")["switched"][0]["goes_on_as"]
    wait_for(lambda: profd.process(job.pid)["state"] == "recording", what="the rest")
    back = profd.json("set", rest, "+gpu")["switched"][0]["goes_on_as"]
    hurry(job)
    answer, _ = ended(profd, trigger)
    check_whole(profd, answer["captures"], answer["switched"], 300)
    shown = {capture: profd.show(capture) for capture in (first, rest, back)}
    assert shown[rest]["kernels"] is None and shown[first]["kernels"] and shown[back]["kernels"]
    gpu.finish(job)
