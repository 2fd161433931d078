"""Compilations by torch.compile, as torch lists them, in the steps of a live job."""
import subprocess
import sys

import pytest

from conftest import WORKLOADS

STEPS = 9  # of three the batch is of another size


def capture(profd, python, how, *options, backend="aot_eager"):
    # What an earlier run has compiled is loaded, not compiled: and torch lists no backward then.
    job = profd.job(python, WORKLOADS / "compile.py", how, backend, env={"TORCHINDUCTOR_CACHE_DIR": str(profd.folder / "inductor")})
    profd.wait_steps(job.pid)
    return profd.trigger(job.pid, "--steps", STEPS, *options)


def shown(profd, found):
    return profd.show(found["capture_id"], "--by", "compiles", "--by", "breakdown", "--by", "steps", "--by", "findings", "--by", "dropped")


def line_of(text):
    lines = (WORKLOADS / "compile.py").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_again(profd, torch_newest, backend):
    answer = shown(profd, capture(profd, torch_newest, "changing", backend=backend))
    compiles = answer["compiles"]
    assert not answer["losses"], answer["losses"]
    assert [c["part"] for c in compiles].count("forward") == [c["part"] for c in compiles].count("backward") == STEPS // 3, compiles
    assert len({c["step"] % 3 for c in compiles}) == 1 and len({c["step"] for c in compiles}) == 3
    steps = {s["step"]: s for s in answer["steps"]}
    for one in compiles:
        assert one["function"] == "forward" and one["file"].endswith("workloads/compile.py") and one["line"] == line_of("def forward")
        step = steps[one["step"]]
        assert step["start_ns"] <= one["start_ns"] and one["start_ns"] + one["duration_ns"] <= step["start_ns"] + step["wall_ns"]
        assert one["whole_ns"] == one["duration_ns"] > 1e6 and one["failure"] is None
        assert int(one["id"].split("/")[1]) > 0
        if one["part"] == "forward":
            assert "size mismatch at index 0. expected" in one["reason"] and one["operators"] > 0


def test_steady(profd, torch_newest):
    answer = shown(profd, capture(profd, torch_newest, "steady"))
    assert answer["compiles"] == []
