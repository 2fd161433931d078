"""Steps that a user names, and what profd proposes where a process has none of its own."""
import json

from test_steps import RECORDED, Running, marks


def running(profd, python, loop, steps=True):
    job = Running(profd, python, loop).go()
    if steps:
        profd.wait_steps(job.pid, 5)
    return job


def test_an_operator_that_calls_itself_is_one_step(profd, torch_newest):
    job = running(profd, torch_newest, "sums", steps=False)
    capture = profd.trigger(job.pid, "--steps", RECORDED, "--step-op", "aten::sum", "--no-gpu")
    assert marks(profd, capture)[0] == [1] * RECORDED


def test_one_optimizer_by_its_class(profd, torch_newest):
    """Of a pair the one that is named, and one inside of another if that is what is named."""
    job = running(profd, torch_newest, "muon_adamw")
    capture = profd.trigger(job.pid, "--steps", RECORDED, "--step-optimizer", "Mu*", "--no-gpu")
    assert marks(profd, capture)[0] == [1] * RECORDED
    assert profd.show(capture["capture_id"])["capture"]["step_source"] == "named_optimizer"
    row = profd.process(job.pid)
    assert row["step_source"] == "optimizer" and row["step_note"] == "2 optimizers a step: Muon, AdamW"
    refused = profd.run("trigger", "--pid", job.pid, "--step-optimizer", "Muon", "--at-step", 10**6, check=False)
    assert refused.returncode == 9
    job.stop()
    inner = running(profd, torch_newest, "sam")
    capture = profd.trigger(inner.pid, "--steps", RECORDED, "--step-optimizer", "SGD", "--no-gpu")
    assert marks(profd, capture)[0] == [1] * RECORDED


def test_a_process_without_steps_is_looked_at(profd, torch_newest):
    """The error says what to type; what that prints, taken at its word, records one request a step."""
    job = running(profd, torch_newest, "serve", steps=False)
    refused = profd.run("trigger", "--pid", job.pid, check=False)
    assert refused.returncode == 9 and f"profd trigger --pid {job.pid} --look 2s" in refused.stderr
    before = profd.json("captures")["captures"]
    # The look begins and ends late on a full machine; beside four seconds that is little.
    looked = profd.json("trigger", "--pid", job.pid, "--look", "4s")
    assert looked["schema"] == "profd.look/1"
    found = {row["name"]: row for row in looked["recurring"]}
    assert {"iteration", "request", "statistics"} <= found.keys(), found.keys()
    request, rare = found["request"], found["statistics"]
    assert request["kind"] == "range" and request["option"] == "--step-range request"
    assert 8 * rare["calls"] <= request["calls"] <= 13 * rare["calls"], found
    assert abs(request["calls"] * request["period_ns"] / 4e9 - 1) < 0.2, request
    operators = [row for row in looked["recurring"] if row["kind"] == "operator"]
    assert operators and abs(operators[0]["calls"] - request["calls"]) <= 1, operators
    assert profd.json("captures")["captures"] == before, "the look leaves nothing behind"
    for row in (request, operators[0]):
        capture = profd.trigger(job.pid, "--steps", RECORDED, "--no-gpu", *row["option"].split())
        begun, *_ = marks(profd, capture)
        assert begun == [1] * RECORDED, (row, begun)
    table = profd.run("trigger", "--pid", job.pid, "--look", "500ms").stdout
    assert "--step-range request" in table and "EVERY" in table


def test_a_training_job_is_looked_at(profd, torch_newest):
    job = running(profd, torch_newest, "plain_loader")
    looked = profd.json("trigger", "--pid", job.pid, "--look", "1s")
    options = {row["kind"]: row["option"] for row in looked["recurring"]}
    assert not any("zero_grad" in row["name"] for row in looked["recurring"]), "the step is there"
    assert options["optimizer"] == "--step-optimizer AdamW" and options["batches"] == "--step-range 'enumerate(DataLoader)*'"
    # A name that the option has is not cut beside it.
    assert "..." not in profd.run("trigger", "--pid", job.pid, "--look", "500ms").stdout
    capture = profd.trigger(job.pid, "--steps", RECORDED, "--no-gpu", "--step-range", "enumerate(DataLoader)*")
    assert sorted(marks(profd, capture)[0])[1:-1] == [1] * (RECORDED - 2)


def test_an_optimizer_whose_step_is_not_seen(profd, torch_newest):
    """What torch.compile makes of Optimizer.step has no range; zero_grad has one, and that is proposed."""
    job = running(profd, torch_newest, "unseen_step", steps=False)
    looked = profd.json("trigger", "--pid", job.pid, "--look", "1s")
    row = next(row for row in looked["recurring"] if row["name"].startswith("Optimizer.zero_grad"))
    assert row["option"] == "--step-range 'Optimizer.zero_grad#AdamW.zero_grad'", row
    capture = profd.trigger(job.pid, "--steps", RECORDED, "--no-gpu", "--step-range", row["name"])
    assert marks(profd, capture)[0] == [1] * RECORDED
    assert profd.process(job.pid)["step_source"] == "none", "no Optimizer.step is seen"


def test_nothing_recurs(profd, torch_newest):
    job = Running(profd, torch_newest, "serve")
    job.wait_for("ready")
    profd.wait_registered(job.pid)
    looked = profd.run("trigger", "--pid", job.pid, "--look", "200ms", "--format", "json", check=False)
    assert looked.returncode == 9 and "nothing came three times" in looked.stderr
    assert json.loads(looked.stdout)["recurring"] == []
    wrong = profd.run("trigger", "--pid", job.pid, "--look", "1s", "--steps", 3, check=False)
    assert wrong.returncode == 2 and "does not go with --steps" in wrong.stderr
