"""Training and evaluation told apart, in real loops: nothing is said of those that only do something without gradient."""
import statistics

import pytest

from conftest import WORKLOADS, wait_for

STEPS = 9  # three of them evaluate


def capture(profd, python, how, *options):
    job = profd.job(python, WORKLOADS / "evaluate.py", how)
    if how == "inference":
        profd.wait_torch(job.pid)
    else:
        profd.wait_steps(job.pid)
    found = profd.trigger(job.pid, "--steps", STEPS, *options)
    job.kill()  # it would go on training
    job.wait()
    return found


def shown(profd, found):
    answer = profd.show(found["capture_id"], "--by", "breakdown", "--by", "steps")
    rows = [one["host"]["rows"] for one in answer["breakdown"]["steps"]]
    for step, host in zip(answer["breakdown"]["steps"], rows):
        assert sum(host.values()) == step["wall_ns"]
    return answer, rows


def notes_of(answer):
    """Without what is said of the steps before: on a full machine some of those wait for a processor, and none that was recorded does."""
    return [note for note in answer["notes"] if " steps before took " not in note]


def check_what_only_looks_like_it(answer, rows):
    assert not any({"validation", "test", "evaluation", "inference"} & set(row) for row in rows), rows
    assert all(step["evaluation_ns"] is None for step in answer["steps"])
    assert not notes_of(answer), answer["notes"]


@pytest.mark.parametrize("how, word", [("whole", "inference"), pytest.param("batches", "inference", marks=pytest.mark.wide),
                                       ("named", "validation"), pytest.param("compiled", "inference", marks=pytest.mark.wide)])
def test_evaluation(profd, torch_newest, how, word):
    found = capture(profd, torch_newest, how)
    answer, rows = shown(profd, found)
    others = {"validation", "test", "evaluation", "inference"} - {word}
    assert [word in row for row in rows].count(True) == STEPS // 3, rows
    assert not any(other in row for other in others for row in rows), rows
    assert all("forward" in row and "backward" in row for row in rows)
    usual = [step["wall_ns"] for step in answer["steps"] if step["evaluation_ns"] == 0]
    assert len(usual) == STEPS - STEPS // 3
    assert abs(found["step_ns"] - statistics.median(usual)) <= 1
    note = notes_of(answer)[0]
    assert f"3 of {STEPS} steps hold {'a validation' if word == 'validation' else word}" in note and "left out of the median" in note, answer["notes"]
    if how == "named":
        plain = capture(profd, torch_newest, "plain")
        check_what_only_looks_like_it(*shown(profd, plain))
        check_comparison(profd, found["capture_id"], plain["capture_id"])
    # The file says so, too, should the catalogue be lost.
    profd.stop_daemon()
    for file in profd.store.glob("catalogue.db*"):
        file.unlink()
    profd.start_daemon()
    again, = (row for row in profd.json("captures")["captures"] if row["capture_id"] == found["capture_id"])
    assert again["step_ns"] == found["step_ns"]


def check_comparison(profd, evaluates, plain):
    text = profd.run("diff", evaluates, plain).stdout
    assert "3 steps of A hold an evaluation or inference, and are left out" in text
    assert f"{STEPS - 3} steps" in text and f"{STEPS} steps" in text


def test_where_nothing_is_trained(profd, torch_newest):
    answer, rows = shown(profd, capture(profd, torch_newest, "inference", "--step-range", "request"))
    assert all(row["inference"] > 0 for row in rows), rows
    assert not notes_of(answer), answer["notes"]


def test_what_only_the_steps_before_had(profd, torch_newest):
    """Each 12th step takes most of the time. A capture that holds none of them says so, and how many steps would. One whose own steps waited for a
    processor, or that came soon after a step that waited for seconds, may say otherwise: it is taken once more."""
    job = profd.job(torch_newest, WORKLOADS / "uneven.py")
    profd.wait_steps(job.pid, 40)

    def notes(*options):
        return profd.show(profd.trigger(job.pid, *options)["capture_id"])["notes"]
    wait_for(lambda: [note.partition("none like them was recorded: ")[2] for note in notes("--steps", 3, "--at-multiple", 12)] == ["--steps 13 would hold one"],
             what="the note")
    wait_for(lambda: not any("steps before" in note for note in notes("--steps", 13)), what="a capture that holds one")


@pytest.mark.parametrize("how, stacks, word", [
    ("without", ["--stacks", "--stacks-rate", "997"], "validation"),
    ("without", ["--stacks=operators"], "validation"),
    # Nobody has recorded what for.
    pytest.param("without", [], "inference", marks=pytest.mark.wide),
    ("graded", ["--stacks=operators"], "test"),
    ("trains", ["--stacks=operators"], None),
])
def test_what_the_function_is_called(profd, torch_newest, how, stacks, word):
    """Validation is told by the function that runs it, where its stack was recorded, and by nothing else."""
    job = profd.job(torch_newest, WORKLOADS / "validates.py", how)
    profd.wait_steps(job.pid)

    def look():
        """Sampled, on a full machine, most of it may be without a sample: then it is recorded once more."""
        _, rows = shown(profd, profd.trigger(job.pid, "--steps", STEPS, *stacks))
        times = {one: [row.get(one, 0) for row in rows] for one in ("validation", "test", "evaluation", "inference")}
        return (rows, times) if "--stacks" not in stacks or sum(times["validation"]) > sum(times["inference"]) else None
    rows, times = wait_for(look, what="a validation that is told")
    job.kill()
    job.wait()
    assert all("forward" in row and "backward" in row for row in rows), rows
    assert [any(both) for both in zip(*times.values())].count(True) == (STEPS // 3 if word else 0), rows
    if "--stacks" in stacks:
        assert not any(times["test"]), rows
    else:
        assert all(any(of) == (one == word) for one, of in times.items()), rows
