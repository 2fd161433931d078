"""Epochs of frameworks are recorded as they run them."""
import json
import os
import pathlib
import signal

import pytest

JOB = pathlib.Path(__file__).with_name("epochs.py")


@pytest.mark.parametrize("framework", ["lightning", "transformers"])
def test_epochs_of_frameworks(profd, framework):
    python = os.environ.get("PROFD_LOOPS") or pytest.skip("PROFD_LOOPS is not set; ./dev test steps sets it")
    out, err = profd.folder / "out", profd.folder / "err"
    with open(out, "w") as o, open(err, "w") as e:
        job = profd.job(python, JOB, framework, stdout=o, stderr=e)
    profd.wait_torch(job.pid)
    profd.wait_steps(job.pid, seconds=240)
    capture = profd.trigger(job.pid, "--unit", "epoch", "--steps", 3, "--preset", "light")
    assert (capture["status"], capture["steps_recorded"]) == ("complete", 3), capture
    job.send_signal(signal.SIGUSR2)
    assert job.wait(240) == 0, err.read_text()[-3000:]
    batches = json.loads(out.read_text().splitlines()[-1])["batches"]
    for begin, end in profd.step_times(capture["capture_id"]):
        # All eight batches of one epoch, and none of another.
        held = [number for number, at in enumerate(batches) if begin <= at < end]
        assert len(held) == 8 and held[0] % 8 == 0, held
