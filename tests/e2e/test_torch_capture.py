"""What is recorded of PyTorch, beside torch's own profiler over the very same steps; and that the job does not notice.

The workload's own profiler has windows of three steps, one of waiting and one of warm-up before each. A trigger with
--at-step records exactly the steps of one of them; the ranges `ProfilerStep#N` in the capture say that it did.
"""
import collections
import json
import re
import signal
import sqlite3
import time

import pytest

from conftest import WORKLOADS, wait_for
from torch_profiler import by_name, database, recorded, told_by_torch
from training import TRAIN, Training

ACTIVE, CYCLE = 3, 5  # of the workload's profiler
MODELS = [pytest.param("cnn", marks=pytest.mark.core), pytest.param("transformer", marks=pytest.mark.wide), pytest.param("lstm", marks=pytest.mark.wide)]


def window_starts(window):
    """The number of the first step of the profiler's window."""
    return (window - 1) * CYCLE + 3


def test_torch_comes_while_the_daemon_answers(profd, torch_newest):
    """The daemon has the agent's first word, which knows of no torch, and answers when torch is there."""
    profd.daemon.send_signal(signal.SIGSTOP)
    try:
        training = Training(profd, torch_newest, "--model", "cnn", "--steps", 3)
        wait_for(lambda: "ready" in training.text(), 90, "the workload to be ready")
        time.sleep(0.3)  # the agent looks every 50 ms
    finally:
        profd.daemon.send_signal(signal.SIGCONT)
    training.go().finish()


def averages(lines, window):
    """What the workload's `window` line says: key_averages() as {name: count}, names with _ for blanks, steps apart."""
    def told(number):
        words = next(line for line in lines if line.startswith(f"window {number} ")).split()[2:]
        return collections.Counter({name: int(count) for name, count in (word.rsplit("=", 1) for word in words)})
    counts = told(window)
    if counts["Optimizer.step#AdamW.step"] != ACTIVE:  # torch 2.4 adds window to window
        counts -= told(window - 1)
    assert counts["Optimizer.step#AdamW.step"] == ACTIVE
    return without_steps(counts)


def without_steps(counts):
    return {name: n for name, n in counts.items() if not name.startswith("ProfilerStep")}


def capture_windows(profd, python, model, *triggers):
    """Trains with windows of the job's own profiler and captures the steps of some of them, one for each list of a trigger's options. For each:
    its operators, its `show`, which counts as the profiler's key_averages() does, and what the profiler has of the window."""
    windows = [6 + 6 * number for number in range(len(triggers))]  # the job holds between them
    holds = [window_starts(window - 5) for window in windows]
    job = Training(profd, python, "--model", model, "--steps", window_starts(windows[-1]) + 3 * CYCLE, "--pad-ms", 30, "--profile", ACTIVE,
                   "--shapes", "--trace", profd.folder, "--trace-windows", *windows, "--ranges", "--lists", "--hold-after", *holds).go()
    captures = []
    for window, hold, trigger in zip(windows, holds, triggers):
        profd.wait_steps(job.pid, hold)
        captures.append(job.capture_held("--at-step", window_starts(window), "--warmup", window_starts(window) - hold - 5, "--steps", ACTIVE, *trigger))
    _, lines = job.finish()
    return [beside_its_window(profd, capture, lines, window) for capture, window in zip(captures, windows)]


def beside_its_window(profd, capture, lines, window):
    first = window_starts(window)
    assert capture["status"] == "complete" and capture["steps_recorded"] == ACTIVE and capture["lost"] == 0, capture
    shown = profd.show(capture["capture_id"])
    # Both fold an only child of its parent's name.
    counts = {row["name"].replace(" ", "_"): row["calls"] for row in shown["operators"]}
    counts.update({row["name"].replace(" ", "_"): row["calls"] for row in shown["ranges"] if row["source"] == "torch"})
    assert without_steps(counts) == averages(lines, window)
    # The same steps, by the profiler's own numbers: they count from 0.
    ours = recorded(profd, capture)
    assert {call.name for call in ours if call.name.startswith("ProfilerStep#")} == {f"ProfilerStep#{first - 1 + i}" for i in range(ACTIVE)}
    return ours, shown, told_by_torch(profd.folder / f"window-{window}.json")


# ---------------------------------------------------------------- the answer is true

@pytest.mark.parametrize("model", MODELS)
def test_operators_and_inputs_are_those_of_torchs_profiler(profd, torch, model):
    """Forward, backward and AdamW: names and call counts, and Input Dims, types and scalars of every call. Of one model, the same calls without --shapes."""
    with_shapes, *without = capture_windows(profd, torch, model, ["--shapes"], *([[]] if model == "cnn" else []))
    check_shapes(*with_shapes)
    for window in without:
        check_no_shapes(*window)


def check_shapes(ours, shown, theirs):
    assert by_name(ours) == by_name(theirs)
    assert ours == theirs
    lists = [call for call in ours if call.name == "aten::_fused_adamw_"]
    assert {call.types.count("TensorList") for call in lists} == {6} and all("Scalar" in call.types for call in lists), lists
    assert sum(ours.values()) > 1000 and any("[" in call.dims for call in ours)
    assert {"forward", "backward", "Optimizer.step#AdamW.step", "aten::addmm"} <= set(by_name(ours))
    on = {c["collector"]: c["on"] for c in shown["collectors"]}
    assert on["torch"] and on["shapes"], shown["collectors"]


def check_no_shapes(ours, shown, theirs):
    """Not asked for: absent, and said to be."""
    assert by_name(ours) == by_name(theirs)
    assert not any(call.dims or call.types for call in ours)
    shapes = next(c for c in shown["collectors"] if c["collector"] == "shapes")
    assert not shapes["wanted"] and not shapes["on"] and shapes["sentence"]


def check_backward(profd, pid):
    """Backward operators have the sequence number and thread of their forward, as the trace's flows need them."""
    capture = profd.trigger(pid)
    with database(profd, capture) as db:
        backward = list(db.execute("""SELECT s.text, o.sequence, o.forward_thread, o.thread FROM operators o
                                      JOIN strings s ON s.id = o.name WHERE o.scope = 1"""))
        forward = {row for row in db.execute("""SELECT o.sequence, t.torch_id FROM operators o
                                                JOIN threads t ON t.thread = o.thread
                                                WHERE o.scope = 0 AND o.sequence >= 0""")}
        pids = {row[0] for row in db.execute("SELECT DISTINCT thread FROM operators")}
    assert len(backward) >= 3 * 10
    linked = [row for row in backward if (row[1], row[2]) in forward]
    # A gradient's accumulation has no forward operator.
    assert all("AccumulateGrad" in row[0] for row in backward if row not in linked), backward
    assert len(linked) >= 3 * 10 and pid in pids


def check_steps_by_an_operator(profd, pid):
    """--step-op, in a job that has steps of its own."""
    capture = profd.trigger(pid, "--steps", 5, "--step-op", "aten::cross_entropy*")
    assert capture["status"] == "complete" and capture["steps_recorded"] == 5
    shown = profd.show(capture["capture_id"])
    assert shown["capture"]["step_source"] == "operator"
    assert {row["name"]: row["calls"] for row in shown["operators"]}["aten::cross_entropy_loss"] == 5
    assert profd.process(pid)["step_source"] == "optimizer"


def check_steps_by_a_range(profd, pid):
    """--step-range with a record_function's name: the step ends where it ends, so it is whole in every step."""
    capture = profd.trigger(pid, "--steps", 5, "--step-range", "backward")
    assert capture["status"] == "complete" and capture["steps_recorded"] == 5 and capture["lost"] == 0
    with database(profd, capture) as db:
        per_step = list(db.execute("""SELECT r.step, count(*), max(r.start + r.duration - s.start - s.duration)
                                      FROM ranges r JOIN strings t ON t.id = r.name JOIN steps s ON s.step = r.step
                                      WHERE t.text = 'backward' GROUP BY r.step"""))
    assert [(step, n) for step, n, _ in per_step] == [(i, 1) for i in range(1, 6)]
    assert all(beyond <= 0 for _, _, beyond in per_step)


def check_doctor(profd, pid):
    """doctor tells torch's version."""
    row = next(c for c in profd.json("doctor", "--pid", pid)["collectors"] if c["collector"] == "torch")
    assert row["available"] and re.search(r"2\.\d+\.\d+", row["sentence"]), row


def check_presets(profd, pid):
    """light has the steps of torch and none of its operators; full has all that there is to record here."""
    light = profd.show(profd.trigger(pid, "--preset", "light", "--steps", 3)["capture_id"])
    assert len(light["steps"]) == 3 and light["operators"] is None
    assert all(step["operators"] is None for step in light["steps"])
    full = profd.show(profd.trigger(pid, "--preset", "full", "--steps", 2)["capture_id"])
    wanted = {row["collector"] for row in full["collectors"] if row["wanted"]}
    assert wanted == {"steps", "nvtx", "torch", "shapes", "cupti", "memory", "allocations", "python", "operator_stacks", "modules", "compile"}
    assert full["operators"] and full["flops"] and full["modules"]


def test_what_is_recorded_of_a_job(profd, torch):
    """Of one job, as a start of torch takes its time."""
    job = Training(profd, torch, "--model", "cnn", "--steps", 0, "--pad-ms", 5, "--ranges", "--compiler").go()
    profd.wait_steps(job.pid, 5)
    for check in (check_backward, check_steps_by_an_operator, check_steps_by_a_range, check_doctor, check_presets):
        check(profd, job.pid)


def test_users_profiler_is_not_disturbed(profd, torch):
    """Our captures before, during and after windows of the job's own profiler; its counts are those of a run without
    us, and ours those of its windows."""
    options = ["--model", "cnn", "--steps", 26 * CYCLE, "--pad-ms", 30, "--profile", ACTIVE, "--shapes", "--ranges"]
    alone = Training(profd, torch, *options, agent=False).go(watched=False)
    _, expected = alone.finish()
    holds = range(10, 130, 30)
    job = Training(profd, torch, *options, "--hold-after", *holds).go()
    captures = []
    # A window with waiting and warm-up, only its beginning, only its end, from one window to the next.
    for held, (offset, steps) in zip(holds, [(-2, 5), (-1, 2), (2, 2), (0, 5)]):
        profd.wait_steps(job.pid, held)
        at = window_starts(held // CYCLE + 5) + offset
        captures.append((job.capture_held("--at-step", at, "--warmup", 15, "--steps", steps), steps))
    _, lines = job.finish()
    assert lines == expected
    window = averages(lines, 5)
    for capture, steps in captures:
        assert capture["status"] == "complete" and capture["steps_recorded"] == steps and capture["lost"] == 0
        ours = by_name(recorded(profd, capture))
        assert ours["Optimizer.step#AdamW.step"] == steps and ours["forward"] == steps
        # Three steps have what the profiler's window has; names are those that it knows.
        assert ours["aten::addmm"] * ACTIVE == window["aten::addmm"] * steps


# ---------------------------------------------------------------- the job is never harmed

def train_twice(profd, python, act, *options):
    """Trains until act(pid) has returned, then without the agent for as many steps. What both printed: alone, watched; their errors
    are the same."""
    job = Training(profd, python, *options, "--steps", 0).go()
    profd.wait_steps(job.pid, 4)
    act(job.pid)
    assert job.job.poll() is None
    job.job.terminate()  # it ends with the step that it is at
    with_errors, watched = job.finish()
    steps = sum(line.startswith("step ") for line in watched)
    errors, alone = Training(profd, python, *options, "--steps", steps, agent=False).go(watched=False).finish()
    assert with_errors == errors
    assert len(alone) == steps + 2
    return alone, watched


@pytest.mark.core
def test_twenty_captures_change_no_bit(profd, torch):
    """Losses, random state, weights, output and exit code with 20 captures, and without the agent."""
    def capture(pid):
        for i in range(20):
            capture = profd.trigger(pid, *(["--shapes"] if i % 2 else []))
            assert capture["status"] == "complete" and capture["lost"] == 0, capture
            assert capture["events"] > 1000
            # Its wheel brings CUPTI 13.2, which crashes when it is asked anything without a driver.
            cupti = next(row for row in profd.show(capture["capture_id"])["collectors"] if row["collector"] == "cupti")
            assert not cupti["on"] and "no CUDA driver" in cupti["sentence"], cupti
        assert "no CUDA driver" in profd.run("doctor", "--pid", pid).stdout

    alone, captured = train_twice(profd, torch, capture, "--model", "transformer", "--pad-ms", 3)
    assert alone == captured


def test_a_planted_harm_is_seen(profd, torch_newest):
    """One random number drawn where the agent is in the process: the comparison above must notice."""
    alone, captured = train_twice(profd, torch_newest, profd.trigger, "--model", "transformer", "--plant-harm")
    assert alone != captured
    assert alone[:3] == captured[:3] and alone[-2] != captured[-2]


def test_forked_workers_in_mid_capture(profd, torch):
    """DataLoader workers are forked every eight batches, while operators are recorded."""
    pids, captures = [], []

    def record(pid):
        pids.append(pid)
        captures.append(profd.trigger(pid, "--steps", 24, "--shapes"))

    alone, captured = train_twice(profd, torch, record, "--workers", 2, "--model", "cnn")
    assert captured == alone
    capture, = captures
    assert capture["status"] == "complete" and capture["steps_recorded"] == 24 and capture["lost"] == 0
    with database(profd, capture) as db:
        assert set(pids) <= {row[0] for row in db.execute("SELECT thread FROM threads")}
    counts = by_name(recorded(profd, capture))
    assert counts["Optimizer.step#AdamW.step"] == 24
    assert sum(n for name, n in counts.items() if name.endswith("__next__")) >= 24


# ---------------------------------------------------------------- what a step is

@pytest.mark.parametrize("options,steps", [
    pytest.param([], 40, marks=pytest.mark.core),
    (["--loader", "--accumulate", 4], 40),
    pytest.param(["--loader"], 40, marks=pytest.mark.wide),
    pytest.param(["--loader", "--optimizers", 2], 40, marks=pytest.mark.wide),
    pytest.param(["--accumulate", 4], 40, marks=pytest.mark.wide),
    pytest.param(["--optimizers", 2], 40, marks=pytest.mark.wide),
], ids=lambda value: "-".join(map(str, value)).replace("--", "") or "plain" if isinstance(value, list) else str(value))
def test_steps_are_counted(profd, torch, options, steps):
    job = Training(profd, torch, "--steps", 40, "--hold-after", 40, "--model", "cnn", *options, "--quiet").go()
    profd.wait_steps(job.pid, steps)
    time.sleep(0.2)
    row = profd.process(job.pid)
    assert row["step"] == steps and row["step_source"] == "optimizer"
    job.hold.touch()
    job.finish()


def test_accumulated_gradients_are_one_step(profd, torch_newest):
    job = Training(profd, torch_newest, "--steps", 0, "--loader", "--accumulate", 3, "--ranges", "--pad-ms", 3).go()
    profd.wait_steps(job.pid, 2)
    counts = by_name(recorded(profd, profd.trigger(job.pid, "--steps", 4)))
    assert counts["backward"] == 12 and counts["Optimizer.step#AdamW.step"] == 4


# ---------------------------------------------------------------- torch of all ages, at all times

def test_debians_torch_steps_but_refuses_operators(profd, torch_debian):
    """Older than 2.4: steps count, operators are refused with the reason, and what was not recorded is not 0."""
    captures = []

    def act(pid):
        doctor = profd.json("doctor", "--pid", pid)
        torch_row = next(c for c in doctor["collectors"] if c["collector"] == "torch")
        assert not torch_row["available"] and "2.4" in torch_row["sentence"] and "1.13" in torch_row["sentence"], doctor
        captures.append(profd.trigger(pid, "--shapes"))

    alone, watched = train_twice(profd, torch_debian, act, "--model", "cnn", "--pad-ms", 3)
    assert watched == alone
    capture, = captures
    assert capture["status"] == "complete" and capture["steps_recorded"] == 3
    shown = profd.show(capture["capture_id"])
    rows = {c["collector"]: c for c in shown["collectors"]}
    for name in ("torch", "shapes"):
        assert rows[name]["wanted"] and not rows[name]["on"] and "2.4" in rows[name]["sentence"], rows[name]
    assert len(shown["steps"]) == 3 and not shown["operators"] and shown["totals"]["operators"] is None
    table = profd.run("show", capture["capture_id"]).stdout
    assert "2.4" in table, table


def test_torch_imported_late(profd, torch):
    """The agent is there long before torch; the steps are seen all the same, from the first."""
    late = ("import os, runpy, sys, time; time.sleep(0.5); sys.argv = sys.argv[1:]; sys.path[0] = os.path.dirname(sys.argv[0]); "
            "runpy.run_path(sys.argv[0], run_name='__main__')")
    start, out = profd.folder / "start", profd.folder / "out"
    job = profd.job(torch, "-c", late, TRAIN, "--model", "cnn", "--steps", 0, "--pad-ms", 5, "--wait-for", start,
                    stdout=open(out, "w"))
    wait_for(lambda: "ready" in out.read_text() or job.poll() is not None, 90, "the workload to be ready")
    assert job.poll() is None, job.communicate()
    profd.wait_torch(job.pid)
    start.touch()
    profd.wait_steps(job.pid, 3)
    capture = profd.trigger(job.pid)
    assert capture["status"] == "complete" and capture["steps_recorded"] == 3
    assert by_name(recorded(profd, capture))["Optimizer.step#AdamW.step"] == 3
    printed = len([line for line in out.read_text().splitlines() if line.startswith("step ")])
    first = profd.show(capture["capture_id"])["steps"][0]["number"]
    assert first + 2 <= printed + 1


def test_compiled_model(profd, torch_newest):
    """A capture across torch.compile: regions are operators, steps go on."""
    job = Training(profd, torch_newest, "--model", "cnn", "--steps", 0, "--pad-ms", 5, "--compile", "aot_eager").go()
    profd.wait_steps(job.pid, 5, 120)
    capture = profd.trigger(job.pid, "--shapes")
    assert capture["status"] == "complete" and capture["steps_recorded"] == 3 and capture["lost"] == 0
    counts = by_name(recorded(profd, capture))
    assert sum(n for name, n in counts.items() if name.startswith("Torch-Compiled Region")) == 3, counts
    assert counts["CompiledFunctionBackward"] == 3 and counts["aten::convolution"] >= 3


def test_ranges_that_torch_makes_for_its_profiler_alone(profd, torch_newest):
    """What docs/reading.md says of _RecordFunctionFast: no callback sees them while torch.profiler is not on."""
    job = profd.job(torch_newest, WORKLOADS / "operators.py", "fast", "--step-ms=50", stderr=None)
    profd.wait_steps(job.pid, 3, 90)

    def names():
        capture = profd.trigger(job.pid, "--warmup", 6, "--steps", 5)
        with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
            return dict(db.execute("SELECT text, count(*) FROM operators JOIN strings ON strings.id = operators.name "
                                   "GROUP BY text"))

    assert names() == {"aten::add": 5}
    job.send_signal(signal.SIGUSR1)
    profd.wait_steps(job.pid, profd.process(job.pid)["step"] + 2)
    assert names() == {"aten::add": 5, "a fast range": 5}
