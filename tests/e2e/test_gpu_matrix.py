"""Every layout of CUPTI's records that the agent knows, and every unpleasant behaviour of the simulated one: what was launched
in the active steps is in the capture, exactly; or what is missing is counted; or the capture says why there is nothing.

The agent is the one that ships; CUPTI and driver are simulated (tests/sim). A table of what became of each is printed at the
end of the run. PROFD_REPEATS=100 repeats each layout so often, PROFD_MATRIX=all takes every release for each behaviour.
"""
import os

import pytest

import gpu

STEPS = 3
MIXED = ("--kernels=6", "--streams=2", "--graph=3", "--copies=2", "--sets=1")


def collector(profd, capture, name="cupti"):
    shown = profd.show(capture["capture_id"])
    return next(row for row in shown["collectors"] if row["collector"] == name)


@pytest.mark.parametrize("release", gpu.RELEASES)
def test_every_layout_is_exact(profd, matrix, release):
    runs = int(os.environ.get("PROFD_REPEATS", "2"))
    job = gpu.start(profd, release, "", *MIXED)
    captures = [profd.trigger(job.pid, "--steps", STEPS) for _ in range(runs)]
    said = gpu.finish(job)
    for capture in captures:
        assert capture["status"] == "complete" and capture["simulated"] is True
        with gpu.open_file(profd.file(capture["capture_id"])) as db:
            gpu.check_exact(db, said, STEPS)
            assert not gpu.losses(db), dict(gpu.losses(db))
            # What CUPTI was given is part of what the capture cost the job.
            held = gpu.rows(db, "SELECT buffer_bytes, (SELECT value FROM meta WHERE key = 'agent_bytes') FROM sessions")
            assert len(held) == 1 and 0 < held[0][0] < held[0][1], held
        profd.run("rm", capture["capture_id"])
    matrix.put("as it should be", release, f"{runs} exact")


# What CUPTI may do without anything being lost.
HARMLESS = {
    "late buffers": "late=50ms",
    "out of order": "shuffle,seed=7",
    "flush in the caller": "deliver=caller",
    "foreign buffers": "foreign=3",
    "ids wrap": "correlation=4294960000",
    "TSC clock": "clock=tsc",
    "clock drifts": "drift=200",
    "device clock late": "skew=200us",
    "unknown records": "unknown=5",
    "longer records": "grow=10:64+1:32",
    "long names": "long_name=3",
    "names not UTF-8": "byte_name=3",
    "kernels begin early": "early=4",
    "slow to enable": "slow=cuptiActivityEnable:60ms",
    "a subscriber": "subscriber=tool",
}


@pytest.mark.parametrize("release", gpu.BEHAVING)
@pytest.mark.parametrize("behaviour", HARMLESS)
def test_nothing_is_lost(profd, matrix, behaviour, release):
    steps = 420 if behaviour == "ids wrap" else STEPS
    job = gpu.start(profd, release, HARMLESS[behaviour], *MIXED)
    capture = profd.trigger(job.pid, "--steps", steps)
    said = gpu.finish(job)
    assert capture["status"] == "complete", capture
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        if behaviour.endswith("names") or "UTF-8" in behaviour:
            got = gpu.recorded(db)
            want = sum(gpu.launched(said).values())
            assert {step: sum(names.values()) for step, names in got.items()} == dict.fromkeys(range(1, STEPS + 1), want)
        else:
            gpu.check_exact(db, said, steps)
        if behaviour == "ids wrap":
            low, high = gpu.rows(db, "SELECT min(correlation), max(correlation) FROM kernels")[0]
            assert low < 1 << 20 and high > 0xffffff00, "the ids did not wrap within the capture"
        lost = gpu.losses(db)
        assert not any(loss in lost for loss in ("driver", "no_space", "unreadable", "unlaunched")), dict(lost)
        early = gpu.rows(db, "SELECT early FROM sessions")[0][0]
        if behaviour == "kernels begin early":
            assert early > 0
        elif behaviour != "clock drifts":
            assert early == 0
    matrix.put(behaviour, release, "exact")


# What loses events: recorded + lost + doubtful = launched.
LOSSY = {
    "records dropped": "dropped=2",
    "no times": "zero=5",
    "device buffer full": "device_records=1",
    "API records lost": "lose_api=7",
    "nameless": "null_name=3",
}


@pytest.mark.parametrize("release", gpu.BEHAVING)
@pytest.mark.parametrize("behaviour", LOSSY)
def test_every_loss_is_counted(profd, matrix, behaviour, release):
    # Buffers are asked for anew after each flush, some times a second.
    steps = 150 if behaviour == "records dropped" else STEPS
    # Long kernels on two streams: several are under way at a time on any machine.
    more = ("--duration-us=2000",) if behaviour == "device buffer full" else ()
    job = gpu.start(profd, release, LOSSY[behaviour], *MIXED, *more, rate=50 if more else 200)
    capture = profd.trigger(job.pid, "--steps", steps)
    said = gpu.finish(job)
    assert capture["status"] in ("complete", "incomplete"), capture
    want = sum(gpu.launched(said).values()) * steps
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        got = sum(sum(names.values()) for names in gpu.recorded(db).values())
        lost = gpu.losses(db)
        if behaviour == "records dropped":
            assert got <= want <= got + lost["driver"]["event"] and lost["driver"]["event"] > 0
        elif behaviour == "API records lost":
            # Its kernels are there, by their neighbours' step; at the very edge of the window they cannot be told.
            assert sum(lost["unlaunched"].values()) > 0
            assert abs(want - got) <= 2 * (max(gpu.launched(said).values()) + 3)
        elif behaviour == "nameless":
            assert got == want
            assert gpu.rows(db, "SELECT count(*) FROM kernels WHERE mangled IS NULL")[0][0] > 0
        else:
            timeless = gpu.rows(db, "SELECT count(*) FROM kernels WHERE start IS NULL AND flags & 8")[0][0]
            assert got == want
            assert timeless > 0 and lost["timeless"]["kernel"] >= timeless
            # In calls, not in times.
            assert gpu.rows(db, "SELECT sum(calls) FROM kernel_totals")[0][0] == want
    matrix.put(behaviour, release, "counted")


@pytest.mark.parametrize("release", gpu.BEHAVING)
@pytest.mark.parametrize("behaviour, script, exact", [("all records dropped", "dropped=1", False), ("very late buffers", "late=4s", True)])
def test_absence_is_no_other_client(profd, matrix, behaviour, script, exact, release):
    """Records that CUPTI drops, or that come after the end, say nothing of another client."""
    job = gpu.start(profd, release, script, *MIXED)
    capture = profd.trigger(job.pid, "--steps", STEPS)
    said = gpu.finish(job)
    [found] = profd.show(capture["capture_id"])["sessions"]
    assert "another client" not in f"{found['notes']} {capture.get('reason')}", (found, capture)
    assert capture["status"] == "complete", capture
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        assert gpu.rows(db, "SELECT options & 16, missing_from FROM sessions") == [(0, None)]
        want, lost = sum(gpu.launched(said).values()) * STEPS, gpu.losses(db)
        if exact:
            gpu.check_exact(db, said, STEPS)
            assert "driver" not in lost, dict(lost)
        else:
            assert not gpu.recorded(db) and lost["driver"]["event"] >= want, dict(lost)
    matrix.put(behaviour, release, "counted" if not exact else "exact")


# What leaves no GPU side at all: the capture says so, and the job and the rest of the capture are as ever.
REFUSED = {
    "another client": ("fail=cuptiActivityRegisterCallbacks:39+cuptiActivityRegisterCallbacks_v2:39", "another tool"),
    "enable: 15": ("fail=cuptiActivityEnable:15+cuptiActivityEnable_v2:15+cuptiActivityEnableAndDump:15", ""),
    "enable: 35": ("fail=cuptiActivityEnable:35+cuptiActivityEnable_v2:35+cuptiActivityEnableAndDump:35", ""),
    "enable: 999": ("fail=cuptiActivityEnable:999+cuptiActivityEnable_v2:999+cuptiActivityEnableAndDump:999", ""),
    "register: 999": ("fail=cuptiActivityRegisterCallbacks:999+cuptiActivityRegisterCallbacks_v2:999", ""),
}


@pytest.mark.parametrize("release", gpu.BEHAVING)
@pytest.mark.parametrize("behaviour", REFUSED)
def test_refusal_is_said(profd, matrix, behaviour, release):
    script, word = REFUSED[behaviour]
    job = gpu.start(profd, release, script, *MIXED)
    capture = profd.trigger(job.pid, "--steps", STEPS)
    cupti = collector(profd, capture)
    shown = profd.show(capture["capture_id"])
    gpu.finish(job)
    assert capture["status"] == "complete" and capture["steps_recorded"] == STEPS
    assert cupti["wanted"] and not cupti["on"] and len(cupti["sentence"]) > 10 and word in cupti["sentence"], cupti
    assert shown["kernels"] is None and shown["steps"][0]["device_busy_ns"] is None and shown["steps"][0]["kernels"] is None
    matrix.put(behaviour, release, "said")


@pytest.mark.parametrize("release", gpu.BEHAVING)
@pytest.mark.parametrize("call", ["cuptiActivityFlushAll", "cuptiActivityEnable", "cuptiActivityDisable"])
def test_a_hung_call_leaves_the_job_alone(profd, matrix, call, release):
    job = gpu.start(profd, release, f"hang={call}+{call}_v2", *MIXED)
    before = profd.process(job.pid)["step"]
    capture = profd.trigger(job.pid, "--steps", STEPS, codes=(0, 5), timeout=60)
    profd.wait_steps(job.pid, before + 20)
    shown = profd.show(capture["capture_id"])
    assert capture["steps_recorded"] == STEPS
    text = " ".join(row["sentence"] for row in shown["collectors"]) + str(capture.get("reason"))
    assert "CUPTI" in text
    # The next one does not wait for it again, and says why.
    second = profd.trigger(job.pid, "--steps", STEPS, codes=(0, 5), timeout=60)
    assert not collector(profd, second)["on"]
    gpu.finish(job)
    matrix.put(f"hangs: {call[13:]}", release, "said")


@pytest.mark.parametrize("release", gpu.BEHAVING)
def test_callbacks_taken_over_in_mid_capture(profd, matrix, release):
    job = gpu.start(profd, release, "replace=2", *MIXED)
    capture = profd.trigger(job.pid, "--steps", 20, codes=(0, 5))
    said = gpu.finish(job)
    want = sum(gpu.launched(said).values()) * 20
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        got = sum(sum(names.values()) for names in gpu.recorded(db).values())
        astray, options = gpu.rows(db, "SELECT astray_buffers, options FROM sessions")[0]
    assert got <= want
    if got < want:
        assert astray > 0 or options & 16
    matrix.put("callbacks replaced", release, "said")


@pytest.mark.parametrize("release", gpu.BEHAVING)
def test_work_that_is_not_over_at_the_end(profd, matrix, release):
    """Kernels that outlast the drain come without an end, once, and are counted as unfinished."""
    job = gpu.start(profd, release, "", "--kernels=1", "--copies=0", "--sets=0", "--duration-us=2500000", "--no-wait",
                    rate=5)
    capture = profd.trigger(job.pid, "--steps", 1)
    job.kill()
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        kernels = gpu.rows(db, "SELECT step, flags & 16 FROM kernels")
        lost = gpu.losses(db)
    # A kernel that waits in its stream has begun nothing: CUPTI may tell of it without an end, or not at all.
    # Where the machine is slow the clocks may not tell whether it was launched behind the step's beginning: that is counted.
    unplaced = sum(lost[loss].get("kernel", 0) for loss in ("doubtful", "earlier", "unlaunched"))
    assert [step for step, _ in kernels if step != 1] == [None] * unplaced, (kernels, dict(lost))
    assert len([1 for _, unfinished in kernels if unfinished]) == lost["unfinished"].get("kernel", 0)
    matrix.put("still running", release, "counted")


@pytest.mark.parametrize("release", gpu.BEHAVING)
def test_a_clock_that_jumps(profd, matrix, release):
    """By two seconds in mid-capture, as when somebody sets the machine's time."""
    # On a full machine it may take long from the first kind on until the recording has begun: the jump comes after that, and long before its end.
    steps = 500
    job = gpu.start(profd, release, "clock=step,step=2s,step_after=1200ms", *MIXED)
    capture = profd.trigger(job.pid, "--steps", steps)
    said = gpu.finish(job)
    assert capture["status"] == "complete"
    want = sum(gpu.launched(said).values()) * steps
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        got = sum(sum(names.values()) for names in gpu.recorded(db).values())
        lost = gpu.losses(db)
        assert gpu.rows(db, "SELECT options & 64 FROM sessions") == [(64,)], "the jump is not told of"
        # What it put beside its step is told of as doubtful, or as without its call.
        doubtful = sum(lost["doubtful"].values()) + sum(lost["unlaunched"].values())
        assert got <= want <= got + doubtful + sum(lost["driver"].values())
        # No kernel took two seconds, and none lies two seconds off.
        assert gpu.rows(db, "SELECT count(*) FROM kernels WHERE duration > 1000000000") == [(0,)]
        end = gpu.rows(db, "SELECT value FROM meta WHERE key = 'record_end'")[0][0]
        assert gpu.rows(db, "SELECT count(*) FROM kernels WHERE start > ? + 1000000000", end) == [(0,)]
        error = gpu.rows(db, "SELECT clock_error / 1000 FROM sessions")[0][0]
    # So nothing is said of why the device was idle.
    breakdown = profd.show(capture["capture_id"], "--by", "breakdown")["breakdown"]
    assert breakdown["doubt"] == f"{error} us is how far times of the devices may be off, since CUPTI's clock jumped or changed its rate"
    assert all(set(device["idle"]) <= {"unknown"} for step in breakdown["steps"] for device in step["devices"])
    matrix.put("clock jumps", release, "said")


@pytest.mark.parametrize("release", gpu.BEHAVING)
def test_a_crash_inside_of_cupti(profd, matrix, release):
    """Nobody can save the job from that; what it had recorded is kept, and the daemon goes on."""
    call = "cuptiActivityFlushAll"
    job = gpu.start(profd, release, f"crash={call}@3", *MIXED)
    capture = profd.trigger(job.pid, "--steps", 400, codes=(1, 3, 5))
    assert job.wait(20) == -11
    profd.jobs.remove(job)
    assert capture["status"] in ("incomplete", "failed") and capture["reason_code"] == "died", capture
    assert profd.run("status").returncode == 0
    matrix.put("crashes", release, "said")


def test_whole_graphs_are_the_cheap_mode(profd, matrix):
    for release in gpu.BEHAVING:
        job = gpu.start(profd, release, "", *MIXED, env={"PROFD_GRAPHS_WHOLE": "1"})
        capture = profd.trigger(job.pid, "--steps", STEPS, "--graphs", "whole")
        gpu.finish(job)
        with gpu.open_file(profd.file(capture["capture_id"])) as db:
            graphs = gpu.rows(db, "SELECT step, count(*) FROM graph_launches GROUP BY 1")
            nodes = gpu.rows(db, "SELECT count(*) FROM kernels WHERE graph_node IS NOT NULL AND graph_node != 0")
        assert graphs == [(step, 1) for step in range(1, STEPS + 1)]
        assert nodes == [(0,)]
        matrix.put("graphs as a whole", release, "exact")
