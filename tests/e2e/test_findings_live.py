"""The verdict on live jobs of torch whose cause is known: on the processor, and on the simulated GPU, whose driver is called from operators of the
same process. tests/workloads/planted.py measures itself what each cause costs, so that a full machine is in it."""
import contextlib
import json
import re
import sqlite3
import statistics

import pytest

import gpu
import planted_traces
import verdict_numbers
from conftest import WORKLOADS
from house import wait_for
from test_findings import named

# Calls that make something, kernels that are not told how long they take, copies: as planted.py has them.
DRIVER = ",".join(("cuMemAlloc=20ms", "cuMemCreate=20ms", "cuMemHostAlloc=20ms", "cuModuleLoadData=20ms", "cuStreamCreate=20ms", "kernel=5ms", "bandwidth=100m"))


class Planted:
    """tests/workloads/planted.py under the agent."""

    def __init__(self, profd, python, *options, env=None):
        self.profd, self.mode, self.log = profd, profd.folder / "mode", profd.folder / "log"
        self.mode.write_text("well")
        self.job = profd.job(python, WORKLOADS / "planted.py", self.mode, self.log, *options, env={"PYTHONWARNINGS": "ignore", **(env or {})})
        profd.wait_steps(self.job.pid, 3)

    def rows(self):
        return [json.loads(line) for line in self.log.read_text().splitlines(True) if line.endswith("\n")]

    def look(self, mode, steps):
        """What is found in so many steps of this mode, and the rows of these steps."""
        self.mode.write_text(mode)
        wait_for(lambda: self.job.poll() is not None or [row["mode"] for row in self.rows()[-3:]] == [mode] * 3, 60, f"steps of {mode}")
        assert self.job.poll() is None, self.job.communicate()
        capture = self.profd.trigger(self.job.pid, "--steps", steps)
        assert capture["status"] == "complete" and capture["lost"] == 0, capture
        shown = self.profd.show(capture["capture_id"], "--by", "findings")
        verdict_numbers.check(self.profd.file(capture["capture_id"]))
        numbers = {row["number"] for row in shown["steps"]}
        wait_for(lambda: self.rows()[-1]["step"] >= max(numbers), 30, "the steps to be written")
        rows = [row for row in self.rows() if row["step"] in numbers]
        assert len(rows) == steps and {row["mode"] for row in rows} == {mode}
        return shown, rows


def lost_now_and_then(found, rows):
    """Of a step. On a full machine others are much longer than usual, too: that, as the job measured it, is in the same finding."""
    unlike = {interval["step"] for one in found if one["finding"] == "step_unlike" for interval in one["intervals"]}
    rows = list(enumerate(rows, 1))
    usual = statistics.median([row["wall"] for number, row in rows if number not in unlike])
    assert {number for number, row in rows if row["lost"]} <= unlike, (unlike, rows)
    return sum(row["lost"] or row["wall"] - usual for number, row in rows if number in unlike) / len(rows)


# Steps of which two are unlike the others: of these some take long on a machine that others use, too, and more than a quarter are no exception.
MANY = 24
# mode: the finding, and a word of it or of its evidence that tells this cause from others that have the same one.
ON_THE_HOST = {"loader": ("input", "loads the batches itself"), "transforms": ("input", "loads the batches itself"), "workers": ("input", "do not keep up"),
               "outside": ("outside", ""), "garbage": ("garbage_collection", ""), "recompilation": ("recompilation", ""),
               "optimizer": ("optimizer_per_tensor", ""), "save": ("step_unlike", "outside of operators"), "evaluation": ("step_unlike", "operators")}
ON_A_DEVICE = {"loader": ("input", "loads the batches itself"), "wait": ("sync", ""), "stall": ("stall", "no operator"), "save": ("step_unlike", ""),
               "item": ("sync", "planted::read"), "operator": ("stall", "planted::transform"), "launches": ("launch_bound", ""),
               "tensor_by_tensor": ("optimizer_per_tensor", ""), "garbage": ("garbage_collection", ""),
               "evaluation": ("step_unlike", ""), "allocation": ("allocation", "cuMemAlloc"), "mapping": ("allocation", "cuMemCreate"), "pinning": ("allocation", "cuMemHostAlloc"),
               "module": ("compilation", "cuModuleLoadData"), "stream": ("setup", "cuStreamCreate"), "copy_in": ("pageable_copy", ""),
               "copy_out": ("pageable_copy", ""), "copy_exposed": ("exposed_copies", ""), "collective": ("communication", ""),
               "few_blocks": ("few_blocks", ""), "no_tensor_cores": ("no_tensor_cores", "")}
# Garbage is not collected in each step: what the verdict says of it is the mean of all. Of what is planted else it is the median.
MEAN = ("garbage_collection",)
# Loops that lose nothing; and the row of the host that looks like a loss, and how much of a step it is at least.
QUIET_ON_THE_HOST = {"well": (None, 0), "workers_keep_up": (None, 0), "saves_a_little": (None, 0), "young_garbage": (None, 0),
                     "validates": (None, 0), "trains": (None, 0)}
QUIET_ON_A_DEVICE = {"well": (None, 0), "ahead": (None, 0), "copy_beside": (None, 0), "collective_beside": (None, 0), "two_streams": (None, 0),
                     "young_garbage": (None, 0), "validates": (None, 0), "a_value_at_the_end": (None, 0), "behind": ("input", 0.2),
                     "free_wait": ("sync", 0.5), "python_behind": ("outside", 0.2), "operator_behind": ("operators", 0.2), "allocation_behind": ("alloc", 0.2)}


def unsure(path, finding):
    """ns of a step by which the capture itself says that it may be wrong: when a collection began and ended is seen from outside."""
    if finding != "garbage_collection":
        return 0
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT sum(error + end_error) / (SELECT count(*) FROM steps) FROM garbage_collections").fetchone()[0]


def look_undisturbed(planted, mode, steps, attempts=5):
    """What is many short times is none of these where the processor is taken in between, which the job measures: then once more."""
    for _ in range(attempts):
        shown, rows = planted.look(mode, steps)
        lost, taken = (statistics.median([row[what] for row in rows]) for what in ("lost", "taken"))
        if taken <= 0.05 * lost:
            break
    return shown, rows, taken > 0.05 * lost


def long_by_itself(one, rows):
    """A step that the machine made long, as the job measured it: that is true, and not what was planted in each step."""
    return one["finding"] == "step_unlike" and rows[one["step"] - 1]["wall"] > 1.4 * statistics.median([row["wall"] for row in rows])


def check_cause(told, planted, kind, mode, finding, says):
    shown, rows, disturbed = look_undisturbed(planted, mode, MANY if finding == "step_unlike" else 7)
    found = shown["findings"]
    middle = statistics.mean if finding in MEAN else statistics.median
    lost = lost_now_and_then(found, rows) if finding == "step_unlike" else middle([row["lost"] for row in rows])
    # Beside others on the machine it is true that the thread waits for a processor, in whatever it does, and that a step is longer than the others
    # by more of what was planted: of that, these findings have a part.
    elsewhere = sum(one["win_ns"] for one in found if one["finding"] in ("processor", "step_unlike") and one["finding"] != finding)
    found = [one for one in found if one["finding"] != "processor" and not (one["finding"] != finding and long_by_itself(one, rows))]
    told(kind, finding, lost, found, mode)
    assert found, shown["breakdown"]
    if disturbed:
        assert found[0]["finding"] in (finding, "stall")
        return
    named(found, finding, lost, elsewhere + unsure(planted.profd.file(shown["capture"]["capture_id"]), finding))
    assert says in found[0]["what"] + found[0]["evidence"], found[0]
    # This stall is a loop of Python: where looks are exact enough, the verdict says that the thread did not sleep.
    if mode == "stall" and "The step's thread ran" in found[0]["evidence"]:
        assert float(re.search(r"slept (\d+) %", found[0]["evidence"])[1]) < 30, found[0]["evidence"]


def check_quiet(told, planted, kind, mode, row, least, attempts=5):
    """Nothing is found. Where others keep the processor from a healthy job it does lose time, and the verdict says so: then once more."""
    for _ in range(attempts):
        shown, _ = planted.look(mode, 7)
        # That it waits for a processor is true, then; test_processor.py looks at how much.
        found = [one for one in shown["findings"] if one["finding"] != "processor"]
        if not found:
            break
    told(kind + (", looks ill" if row else ", well"), "-", None, found, mode)
    assert found == []
    host = [step["host"]["rows"].get(row, 0) / step["wall_ns"] for step in shown["breakdown"]["steps"]] if row else [0]
    assert statistics.median(host) >= least, host


def parts(causes, quiet, count):
    """Each for a job of its own: some of both."""
    causes, quiet = list(causes.items()), list(quiet.items())
    return [pytest.param(causes[i::count], quiet[i::count], id=f"{i + 1}of{count}") for i in range(count)]


@pytest.mark.serial
@pytest.mark.parametrize("causes, quiet", parts(ON_A_DEVICE, QUIET_ON_A_DEVICE, 4))
def test_on_a_simulated_gpu(told, profd, torch_newest, causes, quiet):
    """Operators of torch launch kernels of the simulated GPU, in one process."""
    planted = Planted(profd, torch_newest, "--gpu", env=gpu.environment(gpu.NEWEST, DRIVER))
    for mode, looks in quiet:
        check_quiet(told, planted, "simulated", mode, *looks)
    for mode, wanted in causes:
        check_cause(told, planted, "live, simulated", mode, *wanted)


@pytest.mark.serial
@pytest.mark.parametrize("causes, quiet", parts(ON_THE_HOST, QUIET_ON_THE_HOST, 2))
def test_without_a_device(told, profd, torch_newest, causes, quiet):
    planted = Planted(profd, torch_newest)
    for mode, looks in quiet:
        check_quiet(told, planted, "host", mode, *looks)
    for mode, wanted in causes:
        check_cause(told, planted, "live, host", mode, *wanted)


def test_there_are_enough():
    """Live and recorded ones; those on paper are counted by test_findings.py."""
    causes = [finding for finding, _ in [*ON_THE_HOST.values(), *ON_A_DEVICE.values()]] + [case[1] for case in planted_traces.CAUSES]
    quiet = [row for row, _ in [*QUIET_ON_THE_HOST.values(), *QUIET_ON_A_DEVICE.values()]] + [
        "ill" if "ill" in case[1] else None for case in planted_traces.QUIET]
    assert len(causes) >= 25 and len(set(causes)) >= 15, set(causes)
    assert quiet.count(None) >= 15 and len(quiet) - quiet.count(None) >= 10, quiet
