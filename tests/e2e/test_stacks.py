"""`profd trigger --stacks`: Python stacks of live jobs, sampled from inside without the GIL; `show --by lines` and `functions`,
`export --format folded`."""
import json
import os
import re
import sys

import pytest

from conftest import BUILD, WORKLOADS

SHARES = WORKLOADS / "shares.py"
POINTS = 0.03  # by which a share may be off


def shares(profd, tmp_path, python, *options):
    """Traces the loop of known shares: what profd shows, and the shares that the loop itself measured in the very same steps."""
    file = tmp_path / "taken.json"
    job = profd.job(python, SHARES, file)
    profd.wait_steps(job.pid, 5)
    capture = profd.trigger(job.pid, "--steps", 200, "--stacks", *options)
    steps = [step["number"] for step in profd.show(capture["capture_id"])["steps"]]
    lines = [json.loads(line) for line in (tmp_path / "taken.json.steps").read_text().splitlines()[:steps[-1]]]
    before, after = lines[steps[0] - 2], lines[steps[-1] - 1]
    taken = {part: after[part] - before[part] for part in before}
    whole = taken.pop("all")
    return capture["capture_id"], {part: seconds / whole for part, seconds in taken.items()}


@pytest.mark.serial
def test_known_shares(profd, tmp_path):
    capture, wanted = shares(profd, tmp_path, sys.executable)
    shown = profd.show(capture)
    functions = {row["function"]: row for row in shown["functions"]}
    samples = sum(row["samples"] for row in shown["lines"])
    for part, share in wanted.items():
        assert abs(functions[part]["percent"] / 100 - share) < POINTS, (part, share, functions[part])
    # By line: the file is the user's own, so that each line stands for itself.
    lines = SHARES.read_text().splitlines()
    by_line = {row["line"]: row for row in shown["lines"]}
    for mark in ("spin", "asleep", "let_go"):
        number = next(i for i, line in enumerate(lines, 1) if f"# {mark}" in line)
        assert abs(by_line[number]["share"] - wanted[mark]) < POINTS, (mark, wanted[mark], by_line[number])
        assert lines[by_line[number]["line"] - 1].endswith(lines[number - 1])
    # A sleep waits; the others do not, whoever else has the processors.
    assert functions["asleep"]["waiting_ns"] > 0.8 * functions["asleep"]["host_ns"]
    assert functions["spin"]["waiting_ns"] < 0.1 * functions["spin"]["host_ns"]
    lost = sum(row["count"] for row in shown["losses"] if row["loss"] == "torn")
    assert lost < 0.01 * samples, (lost, samples)
    # All of the time has its line.
    wall = sum(step["wall_ns"] for step in shown["steps"])
    assert abs(sum(row["host_ns"] for row in shown["lines"]) - wall) < 0.01 * wall
    assert sum(row["self_ns"] for row in shown["functions"]) == sum(row["host_ns"] for row in shown["lines"])


def test_few_samples_are_said_to_be_few(profd, tmp_path):
    file = tmp_path / "shares"
    job = profd.job(sys.executable, SHARES, file)
    profd.wait_steps(job.pid)
    few = profd.trigger(job.pid, "--steps", 10, "--stacks", "--stacks-rate", 20)["capture_id"]
    for view in ("lines", "functions"):
        samples = profd.show(few)["lines"]
        text = profd.run("show", few, "--by", view).stdout
        assert f"  {sum(row['samples'] for row in samples)} sample" in text and "in all: a share may be off by" in text, text
    many = profd.trigger(job.pid, "--steps", 60, "--stacks", "--stacks-rate", 997)["capture_id"]
    assert "in all: a share may" not in profd.run("show", many, "--by", "lines").stdout


def test_folded(profd, tmp_path):
    capture, wanted = shares(profd, tmp_path, sys.executable, "--stacks-rate", "997")
    path = tmp_path / "stacks.folded"
    profd.run("export", capture, "--output", path)
    stacks = [line.rsplit(" ", 1) for line in path.read_text().splitlines()]
    whole = sum(int(us) for _, us in stacks)
    assert [stack for stack, _ in stacks if not stack.startswith("<module> (shares.py:")] == []
    asleep = sum(int(us) for stack, us in stacks if stack.split(";")[-1].startswith("asleep "))
    assert abs(asleep / whole - wanted["asleep"]) < 2 * POINTS
    shown = profd.show(capture)
    assert abs(whole * 1000 - sum(row["host_ns"] for row in shown["lines"])) < 1000 * len(stacks)


@pytest.mark.core
def test_torch(profd, torch_newest, tmp_path):
    """The user's own lines, and torch's frames below them."""
    script = tmp_path / "train.py"
    script.write_text("import torch\n"
                      "model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512))\n"
                      "optimizer = torch.optim.AdamW(model.parameters())\n"
                      "def forward(x):\n"
                      "    return model(x).square().mean()  # forward\n"
                      "while True:\n"
                      "    loss = forward(torch.randn(64, 512))\n"
                      "    loss.backward()\n"
                      "    optimizer.step()\n"
                      "    optimizer.zero_grad()\n")
    job = profd.job(torch_newest, script)
    profd.wait_steps(job.pid, 5)
    capture = profd.trigger(job.pid, "--steps", 30, "--stacks", "--stacks-rate", "997")["capture_id"]
    shown = profd.show(capture)
    assert {row["file"] for row in shown["lines"]} == {str(script)}, shown["lines"]
    found = {row["line"]: row for row in shown["lines"]}
    assert {5, 8, 9} <= set(found)
    assert found[5]["function"] == "forward" and found[8]["function"] == "<module>"
    assert all(row["device_ns"] is None for row in shown["lines"])
    names = {row["function"] for row in shown["functions"]}
    assert {"<module>", "forward"} <= names and any("_call_impl" in name for name in names)
    text = profd.run("show", capture, "--by", "lines").stdout
    assert "train.py:9" in text and "HOST %" in text


def test_finding_names_the_line(profd, torch_newest, tmp_path):
    script = tmp_path / "slow.py"
    script.write_text("import time, torch\n"
                      "model = torch.nn.Linear(64, 64)\n"
                      "optimizer = torch.optim.SGD(model.parameters())\n"
                      "def fetch():\n"
                      "    time.sleep(0.04)  # 5\n"
                      "    return torch.randn(8, 64)\n"
                      "while True:\n"
                      "    model(fetch()).sum().backward()\n"
                      "    optimizer.step()\n")
    job = profd.job(torch_newest, script)
    profd.wait_steps(job.pid, 5)
    capture = profd.trigger(job.pid, "--steps", 30, "--stacks")["capture_id"]
    findings = profd.show(capture)["findings"]
    # A full machine has findings of its own: a wait for a processor, a step that took far longer for one.
    told = next(one for one in findings if one["finding"] not in ("processor", "step_unlike"))["evidence"]
    assert re.search(r" of (it|its longest stretches) at slow\.py:5\.", told), findings
    # Without stacks nothing is made up.
    capture = profd.trigger(job.pid, "--steps", 10)["capture_id"]
    assert all("slow.py" not in finding["evidence"] for finding in profd.show(capture)["findings"])


def test_not_asked_for(profd, tmp_path):
    job = profd.job(sys.executable, SHARES, tmp_path / "taken.json")
    profd.wait_steps(job.pid, 2)
    capture = profd.trigger(job.pid, "--steps", 2)["capture_id"]
    assert profd.show(capture)["lines"] is None
    text = profd.run("show", capture, "--by", "lines").stdout
    assert "not recorded: not asked for (--stacks)" in text
    done = profd.run("export", capture, "--format", "folded", "--output", tmp_path / "x.folded", check=False)
    assert done.returncode == 1 and "profd trigger --stacks" in done.stderr, done


def test_no_python(profd, tmp_path):
    job = profd.job(BUILD / "workloads" / "steps")
    profd.wait_steps(job.pid, 2)
    capture = profd.trigger(job.pid, "--steps", 2, "--stacks")["capture_id"]
    assert "not recorded: no Python in this process" in profd.run("show", capture, "--by", "lines").stdout


def test_a_free_threaded_python(profd, tmp_path):
    """Its stacks are refused with the reason, by what is in the process and from outside; the rest is recorded."""
    os.mkfifo(tmp_path / "end")
    end = os.open(tmp_path / "end", os.O_RDWR)
    job = profd.job("/bin/sh", "-c", 'exec "$0" free <"$1"', BUILD / "workloads" / "fake_python", tmp_path / "end")
    assert job.stdout.readline() == "ready\n"
    profd.wait_steps(job.pid, 2)
    for options in ("--stacks", "--stacks=operators"):
        capture = profd.trigger(job.pid, "--steps", 2, options)
        assert capture["status"] == "complete" and capture["steps_recorded"] == 2, capture
        text = " ".join(profd.run("show", capture["capture_id"], "--by", "lines").stdout.split())
        assert "not recorded: this is a free-threaded build of Python: its frames cannot be read while it runs" in text, text
    said = profd.run("stack", "--pid", job.pid, check=False)
    assert said.returncode == 1 and f"process {job.pid} runs a free-threaded build of Python: its stacks cannot be read while it runs" in said.stdout + said.stderr, said
    os.close(end)
    assert job.wait(60) == 0
