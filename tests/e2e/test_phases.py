"""Tables by phase: a phase is what the breakdown says, operators and what they launched are in the phase in which they began."""
import csv
import io
import sqlite3

import pytest

from conftest import WORKLOADS, wait_for
from test_import import TRACES, imported, run

STEPS = 6  # two of them evaluate


def table(capture, *more):
    text = run("show", capture, "--format", "csv", "--limit", 0, *more).stdout
    return list(csv.DictReader(io.StringIO(text)))


def total(rows, key):
    return sum(int(row[key] or 0) for row in rows)


def capture(profd, python, how):
    job = profd.job(python, WORKLOADS / "evaluate.py", how)
    profd.wait_steps(job.pid)
    found = profd.trigger(job.pid, "--steps", STEPS)
    return profd.file(found["capture_id"])


def adds_up(path):
    """The phases are all of the steps' time, all operators, and all that the devices did of what was launched."""
    phases = table(path, "--by", "phases")
    whole, = table(path, "--by", "totals")
    assert total(phases, "time_ns") == total(table(path, "--by", "steps"), "wall_ns")
    assert total(phases, "operators") == int(whole["operators"]) and total(phases, "self_cpu_ns") == int(whole["self_cpu_ns"])
    for phase in phases:
        part = table(path, "--by", "operators", "--phase", phase["phase"])
        assert total(part, "calls") == int(phase["operators"]) and total(part, "self_cpu_ns") == int(phase["self_cpu_ns"]), phase
        kernels, launched = [], [table(path, "--by", view, "--phase", phase["phase"]) for view in ("kernels", "copies", "memsets", "graphs")]
        for rows in launched:
            kernels += rows
        assert total(kernels, "total_ns") == int(phase["device_ns"] or 0), phase
    return {row["phase"]: row for row in phases}


def test_an_evaluation(profd, torch_newest):
    path = capture(profd, torch_newest, "named")
    phases = adds_up(path)
    assert {"forward", "backward", "optimizer", "zero_grad", "validation", "none"} == set(phases)
    assert phases["validation"]["stretches"] == "2" and phases["backward"]["stretches"] == str(STEPS)
    # By the loop's own range, and nothing else.
    with sqlite3.connect(path) as file:
        wanted = dict(file.execute(
            "SELECT s.text, count(*) FROM operators o JOIN strings s ON s.id = o.name WHERE EXISTS (SELECT 1 FROM ranges r JOIN strings n ON "
            "n.id = r.name WHERE n.text = 'validation' AND r.thread = o.thread AND o.start >= r.start AND o.start < r.start + r.duration) "
            # A call and the only one of its name in it are one.
            "AND NOT EXISTS (SELECT 1 FROM operators p WHERE p.id = o.parent AND p.name = o.name) GROUP BY 1"))
    for word in ("evaluation", "validation"):
        assert {row["name"]: int(row["calls"]) for row in table(path, "--by", "operators", "--phase", word)} == wanted
    assert wanted["aten::conv2d"] == 16
    both = total(table(path, "--by", "operators", "--phase", "train,none"), "calls")
    assert both + sum(wanted.values()) == total(table(path, "--by", "operators"), "calls")
    refused = run("show", path, "--by", "operators", "--phase", "test", code=3).stderr
    assert "nothing in the phase test" in refused and "validation" in refused and "try" not in refused
    answer = profd.json("show", path, "--phase", "backward")
    assert {row["name"] for row in answer["operators"]} == {row["name"] for row in table(path, "--by", "operators", "--phase", "backward")}
    assert "lines" in answer["uncut"] and "operators" not in answer["uncut"]
    assert answer["lines"] is None and [row["phase"] for row in answer["phases"]] == ["backward"]
    assert "only phase backward" in run("show", path, "--by", "operators", "--phase", "backward").stdout


def test_what_is_not_there(profd, torch_newest):
    path = capture(profd, torch_newest, "whole")
    assert "inference" in adds_up(path)
    refused = run("show", path, "--by", "operators", "--phase", "validation", code=3).stderr
    assert "nothing in the phase validation" in refused and "try --phase inference" in refused
    assert "inference" not in run("show", path, "--by", "operators", "--phase", "input", code=3).stderr.partition("it has")[0]
    wrong = run("show", path, "--by", "operators", "--phase", "backward,lunch", code=2).stderr
    assert "'lunch'" in wrong and "zero_grad" in wrong


@pytest.mark.parametrize("trace", [pytest.param(trace, marks=[pytest.mark.wide] if number else []) for number, trace in enumerate(TRACES)],
                         ids=lambda trace: trace.name.split(".")[0])
def test_imported(trace, tmp_path):
    path = imported(trace, tmp_path)
    phases = adds_up(path)
    assert total(table(path, "--by", "kernels"), "total_ns") > 0
    # What autograd's own threads launched is the backward's.
    if "backward" in phases and "forward" in phases:
        assert int(phases["backward"]["device_ns"]) > 0 and int(phases["forward"]["device_ns"]) > 0


@pytest.mark.parametrize("how", [[], ["range"]])
def test_a_window_is_of_the_thread_that_works(profd, torch_newest, how):
    """Without steps nobody steps: what a window says of the host is said of the thread that trains, and not of the agent's own."""
    said = profd.folder / "said"
    with open(said, "w") as out:
        job = profd.job(torch_newest, WORKLOADS / "by_hand.py", *how, stdout=out)
    wait_for(lambda: "begun" in said.read_text(), what="the loop")

    def window():
        """A full machine may have no processor for the loop for so long; then once more."""
        shown = profd.show(profd.trigger(job.pid, "--duration", "300ms", "--stacks")["capture_id"])
        return {"forward", "backward"} <= {row["phase"] for row in shown["phases"] or []} and shown
    shown = wait_for(window, what="a window with forward and backward")
    assert shown["breakdown"]["steps"][0]["host"]["thread"] == job.pid
    assert all(interval["thread"] in (None, job.pid) for finding in shown["findings"] for interval in finding["intervals"])
    phases = {row["phase"]: row for row in shown["phases"]}
    calls = {row["name"]: row["calls"] for row in shown["operators"]}
    # The window may begin and end within one.
    assert abs(phases["backward"]["stretches"] - calls["autograd::engine::evaluate_function: NllLossBackward0"]) <= 1
    assert abs(phases["forward"]["stretches"] - calls["aten::nll_loss_forward"]) <= 2
