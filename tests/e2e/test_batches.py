"""`trigger --unit batch` and `--phase`: a step is a batch of a DataLoader, and the loop's phase is waited for."""
import json
import re
import shutil
import signal
import sqlite3

import pytest

import fake_agent as fake
from conftest import BUILD, WORKLOADS, wait_for

STEPS = BUILD / "workloads" / "steps"
TRAIN, VALIDATE = 6, 12


def start(profd, python, how, *lengths):
    job = profd.job(python, WORKLOADS / "batches.py", how, *lengths, env={"PYTHONPATH": str(WORKLOADS)})
    profd.wait_torch(job.pid)
    if not how.endswith("validation"):
        profd.wait_steps(job.pid)
    return job


def told(job):
    """What the job says of its batches: (phase, begin, end)."""
    job.send_signal(signal.SIGTERM)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 0, err
    return json.loads(out)["batches"]


def held(profd, capture, batches):
    """Per recorded step the phases of the batches that lie in it; none may lie across its ends."""
    steps = profd.step_times(capture["capture_id"])
    for begin, end in steps:
        assert not any(b < at < e for at in (begin, end) for _, b, e in batches)
    return [[phase for phase, b, e in batches if begin <= b and e <= end] for begin, end in steps]


def recorded(profd, job, *options):
    """A capture of a phase with all its steps. One that begins shortly before the phase's end has fewer, and says so."""
    for _ in range(20):
        capture = profd.trigger(job.pid, *options, "--timeout", "100s", codes=(0, 5))
        if capture["status"] == "complete":
            return capture
        assert (capture["status"], capture["reason_code"]) == ("incomplete", "phase"), capture
    pytest.fail("the phase was too short in twenty captures")


def asked(profd, capture):
    """Per step how often a loader was asked for a batch."""
    with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
        return [count for count, in db.execute("SELECT (SELECT count(*) FROM ranges JOIN strings ON strings.id = name WHERE text GLOB 'enumerate(DataLoader)*' "
                                               "AND ranges.start >= steps.start AND ranges.start < steps.start + steps.duration) FROM steps")]


def other_collectors(profd, job):
    # So many that the change comes before the last of them on a full machine, too.
    trigger = profd.follow("--pid", job.pid, "--unit", "batch", "--steps", 1000, "--timeout", "400s")
    wait_for(lambda: profd.process(job.pid)["state"] == "recording", what="the recording")
    profd.json("set", "--pid", job.pid, "+shapes")
    captures = json.loads(trigger.communicate(timeout=120)[0])["captures"]
    assert [one["status"] for one in captures] == ["complete"] * 2
    assert sum(one["steps_recorded"] for one in captures) == 1000


wide = pytest.mark.wide


def test_what_a_batch_is_for(profd, torch_newest):
    """Validation and test are told by the functions that ask for the batches, both in an evaluate(): each is waited for, and counted."""
    job = start(profd, torch_newest, "tests")
    captures = [(phase, recorded(profd, job, "--phase", phase, "--steps", 3)) for phase in ("test", "validation")]
    row = wait_for(lambda: (row := profd.process(job.pid))["batches_test"] > 9 and row, what="batches of the test")
    assert row["batches_train"] > 0 and row["batches_validation"] > 9 and row["phase"] in ("train", "validation", "test")
    assert row["batches_evaluation"] == row["batches_inference"] == 0, row
    # The table may be too narrow for all of it.
    assert re.search(r"BATCHES .*\n.* train \d+", profd.run("ps", "--pid", job.pid).stdout)
    # All are called otherwise.
    done = profd.run("trigger", "--pid", job.pid, "--phase", "inference", "--timeout", "1s", check=False)
    assert done.returncode == 4, done
    batches = told(job)
    for phase, capture in captures:
        # The request that finds the loader at its end has no batch.
        steps = [step for step in held(profd, capture, batches) if step]
        assert len(steps) >= 2 and all(step == [phase] for step in steps), (phase, steps)


@pytest.mark.parametrize("how", ["plain", pytest.param("workers", marks=wide), pytest.param("nested", marks=wide)])
def test_each_batch_is_a_step(profd, torch_newest, how):
    job = start(profd, torch_newest, how)
    capture = profd.trigger(job.pid, "--unit", "batch", "--steps", 40)
    assert capture["status"] == "complete" and capture["steps_recorded"] == 40
    if how == "plain":
        other_collectors(profd, job)
    steps = held(profd, capture, told(job))
    assert profd.show(capture["capture_id"])["capture"]["step_source"] == "batch"
    # The request that finds a loader at its end has no batch.
    ends = [at for at, batches in enumerate(steps) if not batches]
    assert all(len(batches) <= 1 for batches in steps) and 2 <= len(ends) <= 5, steps
    for at in ends:
        around = steps[at - 1:at] + steps[at + 1:at + 2]
        assert len(around) < 2 or around[0] != around[1], steps
    if how != "nested":
        assert asked(profd, capture) == [1] * 40


COMES = """
import ctypes, sys, time
def load(path):
    try:
        ctypes.CDLL(path)
    except OSError:
        pass
load("/nowhere/libtorch_first.so")
time.sleep(float(sys.argv[2]))
load(sys.argv[1])
load("/nowhere/libtorch_last.so")
time.sleep(100)
"""


def test_torch_is_told_of_before_the_agent_looks(profd):
    """Of a library that has come since its last look the agent tells at once, and looks every 50 ms: who asks in between is not told that there
    is no torch. Eight processes, so that one of them is asked then."""
    library = profd.folder / "torch" / "lib" / "libtorch_cpu.so"
    library.parent.mkdir(parents=True)
    shutil.copy(BUILD / "workloads" / "libtorch_cpu.so", library)
    (library.parents[1] / "version.py").write_text("__version__ = '2.15.0'\n")
    for number in range(8):
        job = profd.job("/usr/bin/python3", "-c", COMES, library, 0.2 + 0.006 * number)
        with fake.connect(profd.socket) as asking:
            wait_for(lambda: any(row.get("torch_version") for row in fake.ask(profd.socket, "ps")[:-1] if row["pid"] == job.pid), 60, "torch")
            fake.send(asking, "trigger", **fake.trigger_fields(targets={"pids": [job.pid]}, batches="any", collectors=["steps"], timeout=10**8))
            answer = list(fake.rows(asking))
        assert not [row for row in answer if "no torch" in json.dumps(row)] and [row for row in answer if row.get("row") == "captured"], answer
        job.kill()


@pytest.mark.parametrize("how, phases", [("plain", ["validation", "train"]), ("graph", ["validation", "train"]), pytest.param("nested", ["validation", "train"], marks=wide),
                                         pytest.param("validation", ["validation"], marks=wide), pytest.param("workers", ["validation"], marks=wide)])
def test_a_phase_is_waited_for(profd, torch_newest, how, phases):
    """It is recorded alone, however often the loop changes; by options or by a recipe."""
    job = start(profd, torch_newest, how, 40, 40)
    recipe, captures = profd.folder / "recipe.json", []
    for phase in phases:
        recipe.write_text(json.dumps({"phase": phase, "active": 3}))
        captures += [(phase, recorded(profd, job, *options))
                     for options in (["--phase", phase, "--preset", "light"], ["--phase", phase, "--skip-first", 4], ["--recipe", recipe])]
    batches = told(job)
    for phase, capture in captures:
        word = "train" if phase == "train" else "validation"
        assert capture["steps_recorded"] == 3, capture
        steps = held(profd, capture, batches)
        # After the last batch of a validation comes the request that finds no further one.
        assert steps[:2] == [[word], [word]] and steps[2] in ([[word]] if word == "train" else [[word], []]), steps


def test_the_phase_ends_first(profd, torch_newest):
    """What was recorded of it is kept, and nothing of what came then."""
    job = start(profd, torch_newest, "plain", 60, 60)
    capture = wait_for(lambda: (one := profd.trigger(job.pid, "--phase", "train", "--steps", 500, "--timeout", "100s", codes=(5,)))["steps_recorded"] and one, 100,
                       "a capture with steps")
    batches = told(job)
    assert (capture["status"], capture["reason_code"]) == ("incomplete", "phase") and capture["steps_recorded"] <= 60, capture
    assert "left the phase before all steps were recorded" in profd.run("show", capture["capture_id"]).stdout
    assert held(profd, capture, batches) == [["train"]] * capture["steps_recorded"]


@pytest.mark.parametrize("how", ["graph-unnamed", pytest.param("ahead", marks=wide), pytest.param("list", marks=wide)])
def test_no_such_batch(profd, torch_newest, how):
    """A validation that builds a graph, in functions without a name that tells, trains as far as can be seen; batches that another thread asks for are not the loop's."""
    job = start(profd, torch_newest, how)
    done = profd.run("trigger", "--pid", job.pid, "--phase", "validation", "--timeout", "2s", check=False)
    assert done.returncode == 4 and "0 of 3 steps" in done.stdout, done.stdout
    assert "does it take its batches from torch's DataLoader?" in done.stderr and "--unit batch" in done.stderr, done.stderr
    assert "without them its batches count as training, also after net.eval(), if no function" in " ".join(done.stderr.split()), done.stderr
    if how == "list":
        # Who waits for training is not told of what makes a validation.
        done = profd.run("trigger", "--pid", job.pid, "--phase", "train", "--timeout", "1s", check=False)
        assert done.returncode == 4 and "--unit batch" in done.stderr and "no_grad" not in done.stderr, done.stderr
    # Collectors were not switched on for it, and the job's own steps are recorded as ever.
    assert profd.trigger(job.pid)["status"] == "complete"
    told(job)


@pytest.mark.parametrize("how, options", [
    ("moves", ["--unit", "batch"]), pytest.param("moves", ["--phase", "train"], marks=wide),
    pytest.param("moves", ["--phase", "validation"], marks=wide), ("moves-validation", ["--unit", "batch"])])
def test_the_loop_moves_to_another_thread(profd, torch_newest, how, options):
    """Its batches are counted there, by a capture that began before and by one that begins later. None has a batch of both."""
    job = start(profd, torch_newest, how, 40, 40)
    first = profd.follow("--pid", job.pid, "--unit", "batch", "--steps", 200, "--timeout", "100s")
    profd.wait_recorded(job.pid)
    job.send_signal(signal.SIGUSR1)
    capture, = json.loads(first.communicate(timeout=120)[0])["captures"]
    assert capture["status"] == "complete" and capture["steps_recorded"] == 200, capture
    later = recorded(profd, job, *options, "--steps", 3)
    batches = told(job)
    assert sum(len(one) for one in held(profd, later, batches)) >= 2
    assert all(len(one) <= 1 for one in held(profd, later, batches))


MOVES = """
import ctypes, signal, threading, time
agent, moved = ctypes.CDLL(None), []
signal.signal(signal.SIGUSR1, lambda *_: moved.append(1))
def loop(until):
    while not until():
        agent.profd_range_push(b"it")
        time.sleep(0.003 if moved else 0.05)
        agent.profd_range_pop()
loop(lambda: moved)
threading.Thread(target=loop, args=(lambda: False,), daemon=True).start()
while True:
    time.sleep(1)
"""


def test_ranges_that_move_to_another_thread(profd):
    """The same of what else a capture alone counts as steps."""
    job = profd.job("/usr/bin/python3", "-c", MOVES)
    wait_for(lambda: profd.process(job.pid), what="the job")
    trigger = profd.follow("--pid", job.pid, "--step-range", "it", "--steps", 200, "--timeout", "100s")
    profd.wait_recorded(job.pid)
    job.send_signal(signal.SIGUSR1)
    capture, = json.loads(trigger.communicate(timeout=120)[0])["captures"]
    assert capture["status"] == "complete" and capture["steps_recorded"] == 200, capture


def test_phases_that_are_shorter_than_the_warm_up(profd, torch_newest):
    """Collectors stay on for the phase's next time."""
    job = start(profd, torch_newest, "plain", 4, 6)
    capture = recorded(profd, job, "--phase", "validation", "--steps", 2)
    assert held(profd, capture, told(job)) in ([["validation"]] * 2, [["validation"], []])


def test_what_has_no_batches(profd):
    job = profd.job(STEPS, "--step-ms=5")
    profd.wait_steps(job.pid)
    for options in (["--unit", "batch"], ["--phase", "train"], ["--unit", "epoch"]):
        done = profd.run("trigger", "--pid", job.pid, *options, check=False)
        assert done.returncode == 1 and "torch's DataLoader" in done.stderr, (done.returncode, done.stderr)
    assert profd.trigger(job.pid, "--unit", "step")["status"] == "complete"


def test_a_job_without_steps_is_told_of_them(profd, torch_newest):
    """As one of fastai, whose optimizers are none of torch's."""
    job = start(profd, torch_newest, "validation")
    done = profd.run("trigger", "--pid", job.pid, "--steps", 3, check=False)
    assert done.returncode == 9 and "--unit batch counts the batches of a DataLoader" in done.stderr, (done.returncode, done.stderr)
    assert profd.trigger(job.pid, "--unit", "batch", "--steps", 3)["steps_recorded"] == 3


@pytest.mark.parametrize("options, said", [
    (["--phase", "train", "--unit", "step"], "drop --unit step"),
    (["--phase", "train", "--at-step", 9], "it does not go with --at-step"),
    (["--unit", "batch", "--step-range", "a"], "--unit batch counts batches from the trigger on; it does not go with --step-range"),
    (["--duration", "1s", "--phase", "train"], "it does not go with --phase"),
    (["--look", "1s", "--unit", "batch"], "it does not go with --unit"),
    (["--phase", "trian"], "train"),
    (["--unit", "epoch", "--at-step", 9], "--unit epoch counts epochs from the trigger on; it does not go with --at-step"),
    (["--unit", "epoch", "--phase", "train"], "drop --unit epoch"),
    (["--unit", "epochs"], "one of step|batch|epoch is wanted\n"),
])
def test_what_does_not_go_together(profd, options, said):
    done = profd.run("trigger", "--pid", 1, *options, check=False)
    assert done.returncode == 2 and said in done.stderr, done.stderr
