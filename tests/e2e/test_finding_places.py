"""`profd show --finding N`: at which line of the job's own Python, and in which nn.Module, each interval of a finding is; of operators by their own stacks, of Python
between them by samples; where neither was recorded nothing is said."""
import json
import pathlib
import subprocess

import pytest

import findings_machine
import findings_workloads
from house import BUILD, wait_for

SCRIPT = """import time
import torch

torch.set_num_threads(1)


class Slow(torch.nn.Module):
    def forward(self, x):
        time.sleep(0.03)  # asleep
        return x


model = torch.nn.Sequential(torch.nn.Linear(64, 64), Slow())
many = [torch.nn.Parameter(torch.randn(4)) for _ in range(400)]
optimizer = torch.optim.Adam([*model.parameters(), *many], foreach=False)
x = torch.randn(8, 64)
while True:
    optimizer.zero_grad()
    (model(x).sum() + sum(p.sum() for p in many)).backward()
    optimizer.step()  # updates
"""


def line_of(word):
    return next(number for number, line in enumerate(SCRIPT.splitlines(), 1) if line.endswith(f"# {word}"))


@pytest.fixture(name="job")
def started(profd, torch_newest):
    script = profd.folder / "places.py"
    script.write_text(SCRIPT)
    job = profd.job(torch_newest, script)
    profd.wait_steps(job.pid)
    return job


def intervals(profd, job, finding, how, enough=lambda found: True):
    """Of a finding of a new capture: its intervals as JSON, and as a table. A machine with other work may make a verdict of other things."""
    def captured():
        capture = profd.trigger(job.pid, "--steps", 5, *how)["capture_id"]
        for number, one in enumerate(profd.show(capture, "--by", "findings")["findings"], 1):
            if one["finding"] == finding and one["intervals"] and enough(one["intervals"]):
                return one["intervals"], profd.run("show", capture, "--finding", number).stdout
        return None
    return wait_for(captured, 200, f"a capture with the finding {finding}")


def test_operators_have_exact_stacks(profd, job):
    found, table = intervals(profd, job, "optimizer_per_tensor", ["--stacks=operators"])
    assert all(pathlib.Path(one["file"]).name == "places.py" and one["function"] == "<module>" for one in found), found
    # One step after the other: the update is the most of each.
    assert {one["line"] for one in found} == {line_of("updates")}, found
    assert f"places.py:{line_of('updates')}" in table and " LINE" in table


def test_python_between_operators_has_samples(profd, job):
    """A stretch of 30 ms in no operator, in each step, of which samples tell."""
    def asleep(found):
        return [one for one in found if one["line"] == line_of("asleep")]
    found, table = intervals(profd, job, "stall", ["--stacks", "--stacks-rate", 1000], lambda found: {one["step"] for one in asleep(found)} == {1, 2, 3, 4, 5})
    assert all(one["end_ns"] - one["start_ns"] >= 25_000_000 and one["function"].endswith("forward") for one in asleep(found)), asleep(found)
    assert f"places.py:{line_of('asleep')}" in table


def test_what_was_not_recorded_is_null(profd, job):
    found, table = intervals(profd, job, "optimizer_per_tensor", [])
    assert all(one[key] is None for one in found for key in ("file", "line", "function", "module")), found
    assert " LINE" not in table and " MODULE" not in table


def python_calls(events):
    """What with_stack and with_modules would have added: each .item() is in the forward of a module that hangs in another."""
    calls, number = [], 0

    def call(name, event, **arguments):
        nonlocal number
        number += 1
        calls.append({"ph": "X", "cat": "python_function", "name": name, "pid": event["pid"], "tid": event["tid"], "ts": event["ts"] - 3 + len(arguments) / 10,
                      "dur": event["dur"] + 6 - len(arguments) / 5, "args": {"Python id": number, **arguments}})
        return number
    for event in events:
        if event["name"] == "aten::item":
            outer = call("nn.Module: Net_0", event)
            forward = call("net.py(5): forward", event, **{"Python parent id": outer})
            inner = call("nn.Module: Head_0", event, **{"Python parent id": forward, "CallFrom": "net.py:8"})
            call("head.py(20): forward", event, **{"Python parent id": inner, "CallFrom": "module.py:1", "": 0})
    return calls


def test_a_wait_is_in_a_module(tmp_path):
    """On paper: `.item()` in a module's forward leaves the device without work."""
    machine, _ = findings_machine.run(findings_workloads.item_in_every_step, True)
    trace = json.loads(findings_machine.trace(machine))
    trace["traceEvents"] += python_calls(trace["traceEvents"])
    (tmp_path / "trace.json").write_text(json.dumps(trace))

    def run(*words):
        return subprocess.run([BUILD / "bin" / "profd", *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=True).stdout
    run("import", tmp_path / "trace.json", "--output", tmp_path / "trace.db")
    one = json.loads(run("show", tmp_path / "trace.db", "--by", "findings", "--format", "json"))["findings"][0]
    assert one["finding"] == "sync"
    assert {(one["operator"], one["file"], one["function"], one["module"]) for one in one["intervals"]} == {("aten::item", "head.py", "forward", "Head_0")}
