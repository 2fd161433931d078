"""`trigger --unit epoch`: a step is an epoch, from the begin of one pass over the loader that trains to the begin of the next."""
import json
import signal

import pytest

from conftest import BUILD, WORKLOADS, wait_for
from test_batches import told

wide = pytest.mark.wide
PASS = {18: 9}  # batches of a pass, where two loaders take turns


def start(profd, python, *how):
    job = profd.job(python, WORKLOADS / "epochs.py", *how, env={"PYTHONPATH": str(WORKLOADS)})
    profd.wait_torch(job.pid)
    profd.wait_steps(job.pid)
    return job


def check(profd, capture, batches, each):
    """Each recorded step holds all batches of one epoch, and none of another."""
    found = profd.step_times(capture["capture_id"])
    assert len(found) == capture["steps_recorded"]
    for begin, end in found:
        held = [number for number, at in enumerate(batches) if begin <= at < end]
        assert len(held) == each and held[0] % PASS.get(each, each) == 0, (each, held)


KINDS = ["plain", "persistent", "ahead", "breaks", "fails", *(pytest.param(how, marks=wide) for how in (
    "accumulate", "last", "midst", "evaluates", "anew", "nested", "pairs", "turns", "subclass", "collects", "forks", "aside"))]


@pytest.mark.parametrize("how", KINDS)
def test_each_epoch_is_a_step(profd, torch_newest, how):
    job = start(profd, torch_newest, how)
    capture = profd.trigger(job.pid, "--unit", "epoch", "--steps", 3)
    assert (capture["status"], capture["steps_recorded"]) == ("complete", 3), capture
    about = profd.show(capture["capture_id"])["capture"]
    assert about["step_source"] == "epoch"
    check(profd, capture, told(job), {"last": 8, "fails": 8, "breaks": 5, "turns": 18}.get(how, 9))


def refused(profd, job, *options):
    done = profd.run("trigger", "--pid", job.pid, "--unit", "epoch", *options, check=False)
    return done.returncode, " ".join(done.stderr.split())


@pytest.mark.parametrize("how", ["endless", pytest.param("thread", marks=wide)])
def test_what_has_no_epochs(profd, torch_newest, how):
    """It waits until its timeout, and says what else there is."""
    job = start(profd, torch_newest, how)
    code, said = refused(profd, job, "--timeout", "2s")
    assert code == 4 and "an endless loader has none" in said and "--unit batch --steps N" in said, (code, said)
    assert profd.trigger(job.pid)["status"] == "complete"
    told(job)


def test_iterators_that_do_not_tell(profd, torch_newest):
    """The capture ends as soon as that is seen, and says what else there is."""
    job = start(profd, torch_newest, "blind")
    code, said = refused(profd, job)
    assert code and "do not tell where a pass begins" in said and "--unit batch --steps N" in said, (code, said)
    assert profd.trigger(job.pid, "--unit", "batch")["status"] == "complete"
    told(job)


def recorded(profd, job):
    """The job stays in an epoch that is recorded."""
    wait_for(lambda: profd.process(job.pid)["state"] == "warmup", what="the collectors")
    while True:
        assert job.stdout.readline() == "stays\n"
        # Whether the epoch is recorded has been decided at its begin.
        if profd.process(job.pid)["state"] == "recording":
            break
        job.send_signal(signal.SIGUSR1)


def test_the_job_ends_in_its_last_epoch(profd, torch_newest):
    """Whole epochs are kept: the capture is incomplete, and says why."""
    job = start(profd, torch_newest, "stays")
    trigger = profd.follow("--pid", job.pid, "--unit", "epoch", "--steps", 1000)
    recorded(profd, job)
    for _ in range(2):
        job.send_signal(signal.SIGUSR1)
        assert job.stdout.readline() == "stays\n"
    batches = told(job)
    capture, = json.loads(trigger.communicate(timeout=120)[0])["captures"]
    assert (capture["status"], capture["reason_code"], capture["steps_recorded"]) == ("incomplete", "exit", 2), capture
    check(profd, capture, batches, 9)


def test_the_job_ends_in_the_only_epoch(profd, torch_newest):
    """What there is of it is kept: the capture says that it is incomplete, and has the batches up to the end."""
    job = start(profd, torch_newest, "stays")
    trigger = profd.follow("--pid", job.pid, "--unit", "epoch")
    recorded(profd, job)
    batches = told(job)
    capture, = json.loads(trigger.communicate(timeout=120)[0])["captures"]
    assert (capture["status"], capture["reason_code"], capture["steps_recorded"]) == ("incomplete", "exit", 1), capture
    (begin, end), = profd.step_times(capture["capture_id"])
    held = [number for number, at in enumerate(batches) if begin <= at < end]
    assert len(held) == 5 and held[0] % 9 == 0, held
    assert "the process exited" in profd.run("show", capture["capture_id"]).stdout


def test_no_python(profd):
    ready = profd.folder / "ready"
    job = profd.job(BUILD / "workloads" / "fated", f"--ready={ready}", "--how=exit", "--batches")
    wait_for(ready.exists, 30, "the job")
    profd.wait_steps(job.pid)
    code, said = refused(profd, job)
    assert code == 1 and "no epoch can be seen: no Python in this process; --unit batch --steps N" in said, (code, said)
    assert profd.trigger(job.pid, "--unit", "batch")["status"] == "complete"
    job.kill()


def test_an_epoch_that_is_cut(profd, torch_newest):
    job = start(profd, torch_newest, "plain")
    trigger = profd.follow("--pid", job.pid, "--unit", "epoch", "--max-events", 200, "--timeout", "100s")
    capture, = json.loads(trigger.communicate(timeout=120)[0])["captures"]
    assert (capture["status"], capture["reason_code"], capture["steps_recorded"]) == ("incomplete", "limit", 1), capture
    (begin, end), = profd.step_times(capture["capture_id"])
    held = [number for number, at in enumerate(told(job)) if begin <= at < end]
    # It ended at a request for a batch within the epoch.
    assert 0 < len(held) < 9 and held[0] % 9 == 0, held
