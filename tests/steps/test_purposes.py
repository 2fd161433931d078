"""What batches are for is told by the functions of frameworks and by the mode of a module, and counted: each under its word, and none under another's."""
import json
import os
import pathlib

import pytest

from conftest import house

JOB = pathlib.Path(__file__).with_name("purposes.py")
MODES = JOB.with_name("modes.py")
# Of each run of batches that do not train the first may be left out, and the end of its loader counts.
WANTED = {"lightning": {"train": 40, "validation": 24, "test": 14, "evaluation": 0, "inference": 16},
          "transformers": {"train": 40, "validation": 24, "test": 0, "evaluation": 14, "inference": 16}}


@pytest.mark.parametrize("framework", WANTED)
def test_batches_of_frameworks(profd, framework):
    python = os.environ.get("PROFD_LOOPS") or pytest.skip("PROFD_LOOPS is not set; ./dev test steps sets it")
    out, err = profd.folder / "out", profd.folder / "err"
    with open(out, "w") as o, open(err, "w") as e:
        job = profd.job(python, JOB, framework, profd.folder, stdout=o, stderr=e)

    def says(word):
        assert job.poll() is None, err.read_text()[-3000:]
        return word in out.read_text().splitlines()

    house.wait_for(lambda: says("ready"), 120, "the job")
    profd.wait_torch(job.pid)
    (profd.folder / "start").touch()
    house.wait_for(lambda: says("done"), 240, "the batches")
    row = profd.process(job.pid)
    found = {word: row[f"batches_{word}"] for word in WANTED[framework]}
    for word, wanted in WANTED[framework].items():
        assert abs(found[word] - wanted) <= 3 and (wanted or not found[word]), found
    (profd.folder / "leave").touch()
    assert job.wait(240) == 0, err.read_text()[-3000:]


def test_batches_by_the_mode_of_the_module(profd, torch_newest):
    """Where no function says it: a module that trains in this process, and is in evaluation mode, is validated. As long as nothing has trained it is run for what it gives."""
    out, err = profd.folder / "out", profd.folder / "err"
    with open(out, "w") as o, open(err, "w") as e:
        job = profd.job(torch_newest, MODES, profd.folder, stdout=o, stderr=e)

    def lines():
        assert job.poll() is None, err.read_text()[-3000:]
        return out.read_text().splitlines()

    def check(line):
        wanted = json.loads(house.wait_for(lambda: lines()[line:], 240, "the batches")[0])
        row, words = profd.process(job.pid), ("train", "validation", "test", "evaluation", "inference")
        assert {word: row[f"batches_{word}"] for word in words} == {word: wanted.get(word, 0) for word in words}

    house.wait_for(lambda: "ready" in lines(), 120, "the job")
    profd.wait_torch(job.pid)
    (profd.folder / "start").touch()
    check(1)
    (profd.folder / "trains").touch()
    check(2)
    (profd.folder / "leave").touch()
    assert job.wait(240) == 0, err.read_text()[-3000:]
