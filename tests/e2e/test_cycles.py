"""Schedules of several cycles: what becomes of the one that is under way when they are ended."""
import signal

from conftest import BUILD, wait_for

STEPS = BUILD / "workloads" / "steps"


def test_cancelled_while_a_later_cycle_warms_up(profd):
    """It has a row by then, and who has seen it waits for its end."""
    job = profd.job(STEPS, "--step-ms=1", "--slow-ms=100")
    profd.wait_steps(job.pid, 3)
    first = profd.run("trigger", "--pid", job.pid, "--steps", 2, "--warmup", 3000, "--repeat", 0, "--no-wait").stdout.strip()

    def rows():
        return {r["capture_id"]: r for r in profd.json("captures")["captures"]}

    def second():
        return next((r for r in rows().values() if r["capture_id"] != first and r["status"] == "warmup"), None)

    capture = wait_for(second, what="a later cycle's warm-up")["capture_id"]
    job.send_signal(signal.SIGUSR1)  # from now on it takes its time: the warm-up is not over before it is cancelled
    profd.run("cancel", "--pid", job.pid)
    wait_for(lambda: profd.process(job.pid)["state"] == "idle", what="its end")
    wait_for(lambda: rows()[capture]["status"] in ("incomplete", "failed"), 5, "the cycle that was cancelled")
    row = rows()[capture]
    assert (row["reason_code"], row["steps_recorded"]) == ("cancelled", 0)
    wait_for(lambda: rows()[first]["status"] == "complete", what="the first cycle to be finished")
