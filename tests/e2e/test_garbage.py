"""How often Python's collector of garbage ran in each step of a live job, and the verdict on steps that are slow for it."""
import pytest

from conftest import WORKLOADS
from pythons import PYTHONS

STEPS = 30  # of three there is more than in the others
COUNTS = "collections_0", "collections_1", "collections_2", "collected"


def shown(profd, python, *arguments):
    job = profd.job(python, WORKLOADS / "garbage.py", *arguments)
    profd.wait_steps(job.pid)
    found = profd.trigger(job.pid, "--steps", STEPS, timeout=300)
    return profd.show(found["capture_id"], "--by", "steps", "--by", "findings")


def unlike(answer):
    return [f for f in answer["findings"] if f["finding"] == "step_unlike"]


@pytest.mark.parametrize("torch", ["torch_newest", pytest.param("torch_debian", marks=pytest.mark.wide)])
def test_a_full_collection_is_counted_and_named(profd, torch, request):
    answer = shown(profd, request.getfixturevalue(torch), "some", 3000000)
    for step in answer["steps"]:
        full = int(step["number"] % 10 == 0)
        assert [step[c] for c in COUNTS[:3]] == [0, 0, full] and (step["collected"] > 0) == bool(full), step
    if torch == "torch_debian":  # tells no operators: there is no verdict
        return
    found = unlike(answer)
    assert len(found) == 1, answer["findings"]
    assert "(a full collection) in 3 of them, and in none of the other steps" in found[0]["evidence"], found
    assert "gc.freeze()" in found[0]["try"] and "collections_2" in found[0]["sql"]


def test_a_slow_step_without_one_is_not_named_so(profd, torch_newest):
    answer = shown(profd, torch_newest, "slow", 1000, 0.5)
    assert all([step[c] for c in COUNTS] == [0, 0, 0, 0] for step in answer["steps"]), answer["steps"]
    found = unlike(answer)
    assert len(found) == 1 and "collect" not in found[0]["evidence"] and "gc." not in found[0]["try"], found


def test_collections_that_cost_nothing_are_not_named(profd, torch_newest):
    answer = shown(profd, torch_newest, "each", 1000)
    assert all([step[c] for c in COUNTS] == [1, 0, 0, 0] for step in answer["steps"]), answer["steps"]
    assert not any("collection" in f["evidence"] for f in answer["findings"])


# Each step collects so often; without torch.
PLAIN = """
import ctypes, gc, sys, time
gc.disable()
if sys.argv[1] == "two":
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    kept = interpreters.create()
step = ctypes.CDLL(None).profd_step
while True:
    for generation in range(3):
        for _ in range(generation + 1):
            gc.collect(generation)
    time.sleep(0.002)
    step()
"""


def plain(profd, version, how):
    job = profd.job(PYTHONS[version], "-c", PLAIN, how)
    profd.wait_steps(job.pid)
    return profd.show(profd.trigger(job.pid, "--steps", 5)["capture_id"], "--by", "steps")["steps"]


@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_each_python(profd, version):
    assert [[step[c] for c in COUNTS[:3]] for step in plain(profd, version, "one")] == [[1, 2, 3]] * 5


@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_of_two_interpreters_nothing_is_told(profd, version):
    assert [[step[c] for c in COUNTS] for step in plain(profd, version, "two")] == [[None] * 4] * 5
