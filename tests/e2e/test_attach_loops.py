"""What is recorded after an attachment, beside what is recorded with the agent there from the start: ten training loops where PROFD_ATTACH_LOOPS is
set, as `./dev test attach` does, else two."""
import os
import subprocess

import pytest

from conftest import WORKLOADS
from test_attach import counted

TORCH = os.environ.get("PROFD_TORCH_NEWEST")
pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone"),
              pytest.mark.skipif(not TORCH, reason="no torch")]

LOOPS = ["--model cnn", "--model lstm", "--model transformer", "--model lstm --optimizers 3", "--model transformer --ranges",
         "--model cnn --optimizers 2", "--model lstm --accumulate 2", "--model transformer --threads 2", "--model cnn --loader",
         "--model lstm --loader --workers 1"]  # of two the batches come as they come: in eight steps now eight are received, now nine
if "PROFD_ATTACH_LOOPS" not in os.environ:
    LOOPS = LOOPS[1::6]
STEPS = 8


def recorded(profd, job):
    """Operators with their shapes and calls, step source, steps recorded, of some steps of a loop."""
    row = profd.wait_steps(job.pid, 8, 300)
    capture = profd.trigger(job.pid, "--steps", str(STEPS), "--shapes")
    note = (row["step_note"] or "").replace("; counted from its attachment on", "").replace("counted from its attachment on", "")
    return counted(profd, capture), row["step_source"], note, capture["steps_recorded"], capture["status"]


@pytest.mark.wide
@pytest.mark.parametrize("loop", LOOPS)
def test_the_same_is_recorded(profd, loop):
    command = [TORCH, WORKLOADS / "train.py", *loop.split(), "--steps", "0", "--pad-ms", "4"]
    first = profd.job(*command, stdout=subprocess.DEVNULL)
    wanted = recorded(profd, first)
    first.kill()
    late = profd.job(*command, agent=False)
    assert late.stdout.readline().startswith("ready ") and late.stdout.readline()
    profd.run("attach", "--pid", late.pid)
    got = recorded(profd, late)
    late.kill()
    assert got == wanted and wanted[0] and wanted[3:] == (STEPS, "complete"), (sorted(set(got[0]) ^ set(wanted[0])), got[1:], wanted[1:])
    print(f"\n{loop:36} {len(got[0])} operators by shape, {sum(row[2] for row in got[0])} calls, {got[1]}: the same")
