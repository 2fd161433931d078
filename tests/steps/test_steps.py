"""A step is an iteration of the user's loop: counted as the loop counts them, and recorded one iteration a step."""
import collections
import os
import pathlib
import sqlite3
import statistics
import subprocess

import pytest

from conftest import house

LOOPS = pathlib.Path(__file__).with_name("loops.py")
RECORDED = 10
ITERATIONS = 30  # before something is recorded
# Loops of torch alone, those of frameworks, and those that a short run leaves out.
OWN = ["plain", "plain_loader", "no_backward", "muon_adamw", "two_adamw", "sam", "sam_two_steps", "zero", "gan", "gan_loader",
       "gan_alike", "wgan", "sac", "sac_delayed", "two_tasks", "lbfgs", "hooks", "scaler_skips", "changes"]
MORE = [f"accumulate_{n}{how}" for n in (1, 4, 8) for how in ("", "_loader")]
FRAMEWORKS = ["schedule_free", "hf_trainer", "lightning_automatic", "lightning_manual", "accelerate"]
FOUND = {"muon_adamw": "2 optimizers a step: Muon, AdamW", "two_adamw": "2 optimizers a step: AdamW x 2",
         "gan": "2 optimizers a step: Adam x 2", "gan_loader": "2 optimizers a step: Adam x 2",
         "gan_alike": "2 optimizers a step: Adam x 2", "lightning_manual": "2 optimizers a step: Adam x 2",
         "wgan": "2 optimizers a step: RMSprop x 2", "hooks": "24 optimizers a step: SGD x 24", "sac": "4 optimizers a step: Adam x 4"}
# The recorded steps of a loop that leaves steps out: each iteration is one all the same, whichever the first is.
SHORT = {"plain_loader", "muon_adamw", "sam", "gan", "hooks", "scaler_skips"}


class Running:
    """loops.py, held before its first iteration and after its last one."""

    def __init__(self, profd, python, loop, **more):
        self.profd, self.folder = profd, profd.folder / loop
        self.folder.mkdir()
        self.out = self.folder / "out"
        with open(self.out, "w") as out, open(self.folder / "err", "w") as err:
            self.job = profd.job(python, LOOPS, loop, self.folder, stdout=out, stderr=err, **more)
        self.pid = self.job.pid

    def wait_for(self, word, seconds=120):
        def look():
            assert self.job.poll() is None, (self.folder / "err").read_text()[-3000:]
            return next((line for line in self.out.read_text().splitlines() if line.startswith(word)), None)
        return house.wait_for(look, seconds, word)

    def go(self):
        self.wait_for("ready")
        self.profd.wait_torch(self.pid)
        (self.folder / "start").touch()
        return self

    def stop(self):
        """Ends its training; how many iterations there were."""
        (self.folder / "stop").touch()
        return int(self.wait_for("count").split()[1])

    def leave(self):
        (self.folder / "leave").touch()
        assert self.job.wait(240) == 0, (self.folder / "err").read_text()[-3000:]


def marks(profd, capture):
    """How many iterations began in each recorded step, the steps' walls in ns, and the loop's own: from one iteration's begin to the next."""
    with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
        steps = [row[0] for row in db.execute("SELECT step FROM steps ORDER BY step")]
        walls = [row[0] for row in db.execute("SELECT duration FROM steps ORDER BY step")]
        begun = list(db.execute("""SELECT r.step, r.start FROM ranges r JOIN strings s ON s.id = r.name
                                   WHERE s.text = 'iteration' AND r.step IS NOT NULL ORDER BY r.start"""))
    counts = collections.Counter(step for step, _ in begun)
    return [counts[step] for step in steps], walls, [after - before for (_, before), (_, after) in zip(begun, begun[1:])]


def check(profd, python, loop, record_property, env=None):
    running = Running(profd, python, loop, env=env or {}).go()
    profd.wait_steps(running.pid, ITERATIONS)
    capture = profd.trigger(running.pid, "--steps", RECORDED, "--no-gpu")
    assert capture["status"] == "complete" and capture["steps_recorded"] == RECORDED, capture
    count = running.stop()
    row = profd.process(running.pid)
    begun, walls, own = marks(profd, capture)
    running.leave()
    record_property("loop", [loop, count, row["step"], f"{statistics.median(walls) / 1e6:.1f} ms", " ".join(map(str, begun)),
                             row["step_note"] or ""])
    return count, row, begun, walls, own


def alternate(walls, times):
    """Is each odd step more than so many times as long as any even one, or the other way round? A machine that is busy makes steps longer
    by chance, and so not these alone."""
    odd, even = walls[::2], walls[1::2]
    return min(odd) > times * max(even) or min(even) > times * max(odd)


@pytest.mark.parametrize("loop", [pytest.param(loop, marks=[pytest.mark.core] * (loop in ("muon_adamw", "gan"))) for loop in OWN + MORE + FRAMEWORKS])
def test_loop(profd, torch_newest, loop, record_property):
    python = torch_newest
    if loop in FRAMEWORKS:
        python = os.environ.get("PROFD_LOOPS") or pytest.skip("PROFD_LOOPS is not set; ./dev test steps sets it")
    if os.environ.get("PROFD_STEPS_SHORT") and loop not in SHORT:
        pytest.skip("./dev test steps runs it")
    count, row, begun, walls, own = check(profd, python, loop, record_property)
    # Of optimizers that step in bunches some steps more are counted, until that is known.
    assert abs(row["step"] - count) <= (3 if loop == "sac_delayed" else 1), f"{row['step']} steps of {count} iterations"
    if loop == "changes":  # one that falls into a change may hold two
        assert all(n in (1, 2) for n in begun), begun
    elif loop == "scaler_skips":  # a step that is left out ends where the next gradients are cleared, after its range
        assert RECORDED - 1 <= sum(begun) <= RECORDED + 1 and max(begun) <= 2, begun
    else:
        assert begun == [1] * RECORDED, begun
        # The iterations whose begins were recorded are the steps, but for what lies before the first begin and behind the last.
        assert sum(walls[1:-1]) <= sum(own) <= sum(walls), (walls, own)
    # Steps are of two kinds only where the loop's own iterations are.
    assert not alternate(walls, 3) or alternate(own, 1.5), (walls, own)
    assert row["step_source"] == "optimizer"
    if loop != "sac_delayed":  # what stepped in one iteration is told where that was so twice
        assert row["step_note"] == FOUND.get(loop), row["step_note"]


def wait_for_note(profd, job, words):
    row = house.wait_for(lambda: (row := profd.process(job.pid)) and words in (row["step_note"] or "") and row, 120, "ps to say it")
    return row["step_note"]


def test_turns_in_a_python_that_is_not_known(profd, torch_newest):
    """Two optimizers of one class, alike from outside, and nobody knows where this Python has its frames: it is said."""
    minor = subprocess.run([torch_newest, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, check=True).stdout
    if int(minor) not in (11, 12):
        pytest.skip("a Python of this release is not known by the word that the test changes")
    job = Running(profd, torch_newest, "gan_alike", env={"LOOPS_UNKNOWN_PYTHON": "1"}).go()
    assert wait_for_note(profd, job, "not clear") == (
        "not clear whether each step of Adam is one: --step-optimizer NAME counts those of one optimizer")
    job.stop()
    job.leave()


def test_turns_that_are_too_long(profd, torch_newest):
    """More steps of one optimizer to one of the other than are taken for one iteration."""
    job = Running(profd, torch_newest, "wgan_often").go()
    assert wait_for_note(profd, job, "not clear") == (
        "not clear whether each step of RMSprop is one: --step-optimizer NAME counts those of one optimizer")
    job.stop()
    job.leave()
