"""The verdict against loops of which the cause is known: the first finding names it, and its size is what the loop is shorter without
it, within a tenth. Loops that are well, and such as only look ill, have no finding.

Most run on paper (findings_machine.py) and come in by `profd import`; a few are real traces with a delay put into them; and some are
live jobs, on the CPU and on the simulated GPU (planted.py), of which the sizes are what the job itself measured.
"""
import contextlib
import csv
import io
import json
import os
import pathlib
import re
import sqlite3
import statistics
import subprocess

import pytest

import findings_machine
import findings_workloads
import gpu
import planted_traces
import verdict_numbers
from house import BUILD

PROFD = BUILD / "bin" / "profd"
WORKLOADS = pathlib.Path(__file__).resolve().parents[1] / "workloads"
# Within which a size has to be right.
EXACT = 0.10


def run(*words):
    done = subprocess.run([PROFD, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
                          env={**os.environ, "NO_COLOR": "1"}, check=False)
    assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def verdict(text, folder, numbers=True):
    """Of a trace. `numbers`: each of the evidence is found again, which takes seconds where there are many events."""
    trace, capture = folder / "trace.json", folder / "trace.db"
    trace.write_text(text)
    run("import", trace, "--output", capture)
    if numbers:
        verdict_numbers.check(capture)
    return json.loads(run("show", capture, "--by", "findings", "--format", "json"))


def named(found, finding, ns, others=0):
    """The first finding is this one, and of this size; `others`: what of that another finding may have, as no time is in two."""
    assert found, "nothing was found"
    assert found[0]["finding"] == finding, [(one["finding"], one["win_ns"], one["what"]) for one in found]
    assert (1 - EXACT) * ns - others <= found[0]["win_ns"] <= (1 + EXACT) * ns, (found[0]["win_ns"], ns, others, found[0]["what"])
    assert found[0]["what"] and found[0]["evidence"] and found[0]["try"]


@pytest.mark.parametrize("finding, loop, how, size", [pytest.param(*case[1:], id=case[0]) for case in findings_workloads.CAUSES])
def test_a_cause_is_named(told, tmp_path, finding, loop, how, size):
    machine, steps = findings_machine.run(loop, True, **how)
    without = findings_machine.run(loop, False, **how)[1]
    lost = size(machine) if size else (sum(steps) - sum(without)) / len(steps)
    assert lost > 0.05 * sum(without) / len(without), "the workload itself: what is planted costs nothing"
    found = verdict(findings_machine.trace(machine), tmp_path)["findings"]
    told("on paper", finding, lost, found)
    named(found, finding, lost)
    # Findings share no time: together they are no longer than the step.
    assert sum(one["ns"] for one in found if one["finding"] != "step_unlike") <= sum(steps) / len(steps) * 1.001


QUIET = [pytest.param("well", *case[1:], id=case[0]) for case in findings_workloads.HEALTHY]
QUIET += [pytest.param("only looks ill", *case[1:], id=case[0]) for case in findings_workloads.DECOYS]


@pytest.mark.parametrize("kind, loop, how", QUIET)
def test_nothing_is_found(told, tmp_path, kind, loop, how):
    machine, _ = findings_machine.run(loop, False, **how)
    answer = verdict(findings_machine.trace(machine), tmp_path)
    told(kind, "-", None, answer["findings"])
    assert answer["findings"] == []


def test_the_beginning_alone_is_not_known(tmp_path):
    """CUPTI was on a moment late: that moment's idle time has no cause, and the rest keeps its own."""
    machine, steps = findings_machine.run(findings_workloads.loader_sleeps, True)
    before = verdict(findings_machine.trace(machine), tmp_path)
    capture = tmp_path / "trace.db"
    with contextlib.closing(sqlite3.connect(capture)) as db:
        db.execute("INSERT INTO sessions (flags, clock_error, records, known_from) VALUES (0, 0, 0, ?)", (steps[0] // 2,))
        # What was found when the file was made: without it the verdict is given anew.
        db.execute("DELETE FROM meta WHERE key = 'verdict'")
        db.commit()
    after = json.loads(run("show", capture, "--by", "findings", "--format", "json"))
    assert [one["finding"] for one in after["findings"]] == ["input"]
    assert abs(after["findings"][0]["ns"] - before["findings"][0]["ns"]) < 0.01 * before["findings"][0]["ns"]

    def rows(step):
        shown = csv.DictReader(io.StringIO(run("show", capture, "--by", "breakdown", "--step", step, "--format", "csv")))
        return {row["row"]: int(row["total_ns"]) for row in shown if row["parent"]}
    assert 0 < rows(1)["unknown"] <= steps[0] // 2 and rows(1)["input"] > 0 and "unknown" not in rows(2)


def launches(m):
    """Small operators, launched slowly; every step a different number of them where `planted`."""
    m.layers(120 + (m.step % 3 if m.planted else 0), 20 * findings_workloads.US, host=70 * findings_workloads.US)


def launches_and_waits(m):
    launches(m)
    m.item()


@pytest.mark.parametrize("loop, differ, steps, window, says", [
    (launches, False, 6, False, "Every step launches the same number of operations and nothing waits in between"),
    (launches, True, 6, False, "Steps launch different numbers of operations"),
    (launches_and_waits, False, 6, False, "once the step neither waits for the device nor allocates: `profd show CAPTURE --by breakdown`"),
    (launches, False, 1, False, "which one step alone does not tell"), (launches, False, 6, True, "which one window alone does not tell")],
    ids=["alike", "unlike", "waits", "one-step", "window"])
def test_whether_graphs_apply_is_told_by_several_steps(tmp_path, loop, differ, steps, window, says):
    machine, _ = findings_machine.run(loop, differ, steps=steps)
    text = findings_machine.trace(machine)
    if window:
        text = "\n".join(line for line in text.split("\n") if "ProfilerStep#" not in line)
    found = verdict(text, tmp_path)["findings"]
    assert found[0]["finding"] == "launch_bound" and says in found[0]["try"], found


def waits_for_a_processor(capture, part):
    """The file of a trace in which the step's thread was looked at twice: it waited this part of the time."""
    with contextlib.closing(sqlite3.connect(capture)) as db:
        thread, start, end, steps = db.execute("SELECT min(thread), min(start), max(start + duration), count(*) FROM steps").fetchone()
        wall = end - start
        for time, ran, waited, taken in ((start - 1000, 0, 0, 0), (end + 1000, wall // 2, int(wall * part), steps + 1)):
            db.execute("INSERT INTO thread_times (flags, time, cpu, waited, voluntary, involuntary, thread) VALUES (0, ?, ?, ?, 0, ?, ?)",
                       (time, ran, waited, taken, thread))
        db.execute("DELETE FROM meta WHERE key = 'verdict'")
        db.commit()
    return json.loads(run("show", capture, "--by", "findings", "--format", "json"))["findings"]


def test_the_screen_and_the_finding_know_the_same_of_the_thread(tmp_path):
    """It was looked at twice alone: no step can be told by itself, and all of them together can."""
    machine, _ = findings_machine.run(findings_workloads.host_train, False)
    verdict(findings_machine.trace(machine), tmp_path)
    capture = tmp_path / "trace.db"
    found = waits_for_a_processor(capture, 0.3)
    assert [one["finding"] for one in found] == ["processor"] and abs(found[0]["share"] - 0.3) < 0.01
    assert "(all steps taken together); its processor was taken from it 1 time a step." in found[0]["evidence"], found[0]["evidence"]
    text = " ".join(run("show", capture).split())
    # What a whole step was in has no one name: there is no column of dashes.
    assert not re.search(r" IN +OF\b", run("show", capture, "--finding", 1))
    assert "is not known" not in text and "ran 6.9" in text and "waited 4.1" in text and "lost its processor 1.0 times (all steps taken together)" in text, text


@pytest.mark.parametrize("part, first", [(0.2, "input"), (0.49, "processor")])
def test_what_two_findings_share_can_be_won_once(tmp_path, part, first):
    """A slow loader of a job on the host, whose thread also waits for a processor: nobody knows whether in the loader."""
    machine, _ = findings_machine.run(findings_workloads.loader_of_a_job_on_the_host, True)
    verdict(findings_machine.trace(machine), tmp_path)
    found = waits_for_a_processor(tmp_path / "trace.db", part)
    assert {one["finding"] for one in found} == {"input", "processor"} and found[0]["finding"] == first
    both = min(one["ns"] for one in found) / 1e6
    assert f"Up to {both:.1f} ms of it is in finding 1, too, and can be won once." in found[1]["evidence"] and "can be won once" not in found[0]["evidence"], found


def test_of_several_devices_the_judged_one_is_named(tmp_path):
    """Device 1 works on one kernel a step alone, beside device 0."""
    machine, _ = findings_machine.run(findings_workloads.loader_sleeps, True)
    alone = verdict(findings_machine.trace(machine), tmp_path)["findings"]
    assert alone and not any('"The device" is' in one["evidence"] for one in alone)
    for number, start in enumerate(machine.steps[:-1]):
        machine.events += [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4242, "tid": 77, "ts": start, "dur": 5000,
                            "args": {"correlation": 900000 + number}},
                           {"ph": "X", "cat": "kernel", "name": "other", "pid": 1, "tid": 7, "ts": start + 9000, "dur": 50000,
                            "args": {"device": 1, "stream": 7, "correlation": 900000 + number}}]
    (tmp_path / "two").mkdir()
    found = verdict(findings_machine.trace(machine), tmp_path / "two")["findings"]
    assert [one["finding"] for one in found] == [one["finding"] for one in alone]
    assert all(one["evidence"].endswith('"The device" is device 0, the busiest of 2.') for one in found), found


def test_there_are_enough():
    assert len(findings_workloads.CAUSES) >= 25 and len(findings_workloads.HEALTHY) >= 15 and len(findings_workloads.DECOYS) >= 10
    names = [case[0] for case in findings_workloads.CAUSES + findings_workloads.HEALTHY + findings_workloads.DECOYS]
    assert len(set(names)) == len(names)


# ---------------------------------------------------------------- real traces, with a delay put into them

@pytest.mark.parametrize("finding, says, plant", [pytest.param(*case[1:], id=case[0]) for case in planted_traces.CAUSES])
def test_a_cause_in_a_real_trace(told, tmp_path, finding, says, plant):
    text, us = plant()
    found = verdict(text, tmp_path, len(text) < 10_000_000)["findings"]
    told("real trace", finding, us * 1000, found)
    named(found, finding, us * 1000)
    assert says in found[0]["what"] + found[0]["evidence"], found[0]


@pytest.mark.parametrize("kind, plant", [pytest.param(*case[1:], id=case[0]) for case in planted_traces.QUIET])
def test_nothing_is_found_in_a_real_trace(told, tmp_path, kind, plant):
    found = verdict(plant(), tmp_path)["findings"]
    told(kind, "-", None, found)
    assert found == []
