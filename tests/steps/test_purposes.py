"""What a framework's batches are for is told by its own functions, and counted: each under its word, and none under another's."""
import os
import pathlib

import pytest

from conftest import house

JOB = pathlib.Path(__file__).with_name("purposes.py")
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
