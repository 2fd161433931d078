"""What a real GPU did (H200, driver 580.159, CUPTI 130001), performed again by the simulated one: the job goes on, and the answer is
true. The agent is the one that ships; driver and CUPTI are simulated (tests/sim, keys of script.h).
"""
import pytest

import gpu
from conftest import wait_for
from test_gpu_agent import calls, collector, session

SEEN = "13.0"
STEPS = 3
MIXED = ("--kernels=6", "--streams=2", "--graph=3", "--copies=2", "--sets=1")
HUNG = 32  # in options of the session: a call of CUPTI did not return in time
NOT_MEASURED = 8 | 16  # flags: without times, without an end
UNIFIED = 25  # CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER


def whole(profd, said, capture, steps=STEPS):
    """It holds all that was launched in its steps, and says that nothing is lost."""
    assert capture["status"] == "complete" and capture["lost"] == 0, capture
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        gpu.check_exact(db, said, steps)
        assert not gpu.losses(db), dict(gpu.losses(db))


# ---------------------------------------------------------------- records that are not complete

def test_marked_records_of_a_hung_flush(profd):
    """CUPTI gives no buffer back: the calls in it are read past the kernels that have no end yet, which are no gaps."""
    job = gpu.start(profd, SEEN, "hang=cuptiActivityFlushAll@2", "--kernels=3", "--copies=0", "--sets=0", "--duration-us=20000000",
                    "--no-wait", rate=20)
    capture = profd.trigger(job.pid, "--steps", STEPS, codes=(0, 5))
    job.kill()
    assert session(profd, capture)["options"] & HUNG
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        launches = gpu.rows(db, "SELECT step, count(*) FROM api_calls a JOIN strings s ON s.id = a.name WHERE s.text = 'cuLaunchKernel' "
                                "AND step IS NOT NULL GROUP BY 1")
        measured = gpu.rows(db, "SELECT count(*) FROM kernels WHERE flags & ? = 0", NOT_MEASURED)
        lost = gpu.losses(db)
    assert launches == [(step, 3) for step in range(1, STEPS + 1)], launches
    assert measured == [(0,)]
    assert "driver" not in lost, dict(lost)


def test_marked_records_among_complete_ones(profd):
    """Of kernels that are over at the end all are there, of those that are not none is measured, whoever hands them out."""
    job = gpu.start(profd, SEEN, "", "--kernels=1", "--copies=0", "--sets=0", "--duration-us=100000", "--no-wait", rate=5)
    capture = profd.trigger(job.pid, "--steps", STEPS)
    said = gpu.finish(job)
    whole(profd, said, capture)


# ---------------------------------------------------------------- counters of managed memory

def test_counters_that_are_slow_to_switch_off(profd):
    """The capture is no less whole for it, and the next one records as well."""
    log = profd.folder / "cupti.log"
    job = gpu.start(profd, SEEN, f"unified_off=2s,log={log}", "--async-alloc=2", *MIXED)
    captures = [profd.trigger(job.pid, "--steps", STEPS, "--memory"), profd.trigger(job.pid, "--steps", STEPS),
                profd.trigger(job.pid, "--steps", STEPS, "--memory")]
    said = gpu.finish(job)
    for capture in captures:
        row = collector(profd, capture)
        assert row["on"], row
        assert not session(profd, capture)["options"] & HUNG, profd.show(capture["capture_id"])["sessions"]
        whole(profd, said, capture)
    for capture in captures[::2]:
        with gpu.open_file(profd.file(capture["capture_id"])) as db:
            assert gpu.rows(db, "SELECT count(*) FROM allocations")[0][0] >= 2 * 2 * STEPS


# ---------------------------------------------------------------- graphs

@pytest.mark.parametrize("more", [(), ("--runtime",)])
def test_whole_graphs_do_not_end_the_job(profd, more):
    """Its graphs were made before: this release crashes at their launch, so that their nodes are recorded instead, which is said."""
    job = gpu.start(profd, SEEN, "graph_trace_late=crash", *MIXED, *more)
    capture = profd.trigger(job.pid, "--steps", STEPS, "--graphs", "whole", codes=(0, 1, 3, 5))
    assert capture["status"] == "complete", capture
    profd.wait_steps(job.pid, profd.process(job.pid)["step"] + 20)
    said = gpu.finish(job)
    row = collector(profd, capture)
    assert row["on"] and "graphs" in row["sentence"], row
    whole(profd, said, capture)
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        assert gpu.rows(db, "SELECT count(*) FROM graph_launches") == [(0,)]


@pytest.mark.parametrize("release", ["12.4", "13.1"])
def test_whole_graphs_where_the_job_allows_them(profd, release):
    """Whoever has seen them work says so in the job's environment."""
    job = gpu.start(profd, release, "", *MIXED, env={"PROFD_GRAPHS_WHOLE": "1"})
    capture = profd.trigger(job.pid, "--steps", STEPS, "--graphs", "whole")
    gpu.finish(job)
    assert capture["status"] == "complete" and collector(profd, capture)["on"]
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        assert gpu.rows(db, "SELECT step, count(*) FROM graph_launches GROUP BY 1") == [(step, 1) for step in range(1, STEPS + 1)]


def test_the_kernel_that_copies_in_a_graph(profd):
    """The driver copies inside of the device by a kernel of its own: it is recorded like any other, and no copy is."""
    job = gpu.start(profd, SEEN, "graph_copy_kernel=1", *MIXED)
    captures = [profd.trigger(job.pid, "--steps", STEPS) for _ in range(2)]
    said = gpu.finish(job)
    stream = said["stream_ids"][1]
    said["by_name"]["memcpy32_post"] = {"1": said["steps"]}
    copy = said["per_step"]["copies"]["DtoD"]
    copy["bytes"] -= copy["bytes"] // copy["count"] * said["graphs"]
    copy["count"] -= said["graphs"]
    assert stream
    for capture in captures:
        whole(profd, said, capture)
        shown = profd.show(capture["capture_id"])
        assert [step["kernels"] for step in shown["steps"]] == [said["per_step"]["kernels"] + 1] * STEPS


# ---------------------------------------------------------------- switches

# Kernels of a microsecond behind launches of 200: the threads launch nearly all the time.
LAUNCHING = ("--kernels=20", "--copies=0", "--sets=0", "--duration-us=1")
WITHOUT_KERNEL = """SELECT count(*) FROM api_calls a JOIN strings s ON s.id = a.name WHERE s.text = 'cuLaunchKernel' AND a.step IS NOT NULL
                    AND a.correlation NOT IN (SELECT correlation FROM kernels)"""


STANDS_NS = 100_000_000  # HOLD_MOST_NS of agent/core/hold.h


def missing_is_said(profd, capture, missing):
    steps = profd.show(capture["capture_id"])["steps"]
    assert capture["lost"] >= missing or all(step["kernels"] is None for step in steps), (missing, capture["lost"], steps)


@pytest.mark.parametrize("rate, threads", [(0, 1), (100, 1), (100, 2)])
def test_switches_leave_no_thread_without_its_kernels(profd, rate, threads):
    """A kind that is switched within a launch costs the thread its kernels, for good. Each launch of ten captures has its kernel: while
    CUPTI is switched on the step thread stands, for a tenth of a second at most. On a full machine that may not be enough, and what is
    missing from then on is said."""
    job = gpu.start(profd, SEEN, "toggle_mid_launch=1,call=200us", f"--threads={threads}", *LAUNCHING, rate=rate)
    captures = [profd.trigger(job.pid, "--steps", STEPS, codes=(0, 5)) for _ in range(10)]
    said = gpu.finish(job)
    late = False
    for capture in captures:
        with gpu.open_file(profd.file(capture["capture_id"])) as db:
            late |= gpu.rows(db, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'enable'")[0][0] > STANDS_NS
            without, = gpu.rows(db, WITHOUT_KERNEL)[0]
        assert not without or late, (capture, without)
        if without:
            missing_is_said(profd, capture, without)
        else:
            whole(profd, said, capture)


@pytest.mark.serial
def test_where_no_boundary_ends_the_recording(profd):
    """A window of time, and captures that are cancelled: for both the next boundary is waited for. What they leave behind is a job whose kernels
    are recorded. It runs alone: a boundary is waited for two steps long, and a job that has no processor for that time has none."""
    job = gpu.start(profd, SEEN, "toggle_mid_launch=1,call=200us", *LAUNCHING, rate=100)
    captures, recorded = [], []
    for _ in range(5):
        captures.append(profd.trigger(job.pid, "--duration", "60ms"))
        cancelled = profd.json("trigger", "--pid", job.pid, "--steps", 100000, "--no-wait")["captures"][0]["capture_id"]
        profd.wait_recorded(job.pid, 2)
        profd.run("cancel", cancelled)
        wait_for(lambda: profd.process(job.pid)["state"] == "idle", 20, "the capture to end")
    captures.append(profd.trigger(job.pid, "--steps", STEPS))
    gpu.finish(job)
    for capture in captures:
        assert capture["status"] == "complete" and capture["lost"] == 0, capture
        with gpu.open_file(profd.file(capture["capture_id"])) as db:
            recorded += gpu.rows(db, "SELECT count(*) FROM kernels")[0]
            assert gpu.rows(db, WITHOUT_KERNEL) == [(0,)]
    # A job that gets no processor for as long launches nothing in a window.
    assert recorded[-1] > 0 and any(recorded[:-1]), recorded


def test_kernels_that_are_missing_are_no_zero(profd):
    """Two threads that launch all the time leave no moment for a switch. Where their kernels are missing, that is said of each."""
    job = gpu.start(profd, SEEN, "toggle_mid_launch=1,call=200us", "--threads=2", *LAUNCHING, rate=0)
    captures = [profd.trigger(job.pid, "--steps", STEPS, codes=(0, 5)) for _ in range(5)]
    gpu.finish(job)
    for capture in captures:
        with gpu.open_file(profd.file(capture["capture_id"])) as db:
            missing = gpu.rows(db, WITHOUT_KERNEL)[0][0]
        missing_is_said(profd, capture, missing)


# ---------------------------------------------------------------- the first call

def test_a_first_call_that_waits_for_the_device(profd):
    """With seconds of work queued it does not return for as long: that is said, or the capture is whole; the job goes on."""
    log = profd.folder / "cupti.log"
    job = gpu.start(profd, SEEN, f"first_call=20ms,log={log}", "--kernels=1", "--copies=0", "--sets=0", "--duration-us=6000000",
                    "--no-wait", "--every=1000000", rate=50)
    capture = profd.trigger(job.pid, "--steps", STEPS, codes=(0, 5))
    profd.wait_steps(job.pid, profd.process(job.pid)["step"] + 20)
    row = collector(profd, capture)
    assert capture["steps_recorded"] == STEPS
    assert row["on"] or "CUPTI" in row["sentence"], row
    if not row["on"]:
        assert profd.show(capture["capture_id"])["kernels"] is None
    wait_for(lambda: any(name == "cuptiActivityRegisterCallbacks" and result == "0" for _, _, name, _, result in calls(log)), 30,
             "the call to return")
    later = wait_for(lambda: (again := profd.trigger(job.pid, "--steps", STEPS, codes=(0, 5))) and collector(profd, again)["on"] and again, 30,
                     "a capture with CUPTI")
    assert later["status"] == "complete"
    said = gpu.finish(job)
    assert said["steps"] > 2 * STEPS


def test_launches_that_stay_slower(profd):
    """What a capture leaves behind costs the job time and nothing else."""
    job = gpu.start(profd, SEEN, "after=20us", *MIXED)
    captures = [profd.trigger(job.pid, "--steps", STEPS) for _ in range(2)]
    said = gpu.finish(job)
    for capture in captures:
        whole(profd, said, capture)
