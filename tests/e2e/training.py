"""tests/workloads/train.py as a job of the tests: held before its first step, and read at its end."""
import json

from house import WORKLOADS, wait_for

TRAIN = WORKLOADS / "train.py"


class Training:
    """train.py under the agent (or bare), its output in a file, its first step held back until go()."""

    def __init__(self, profd, python, *options, agent=True, env=None):
        self.profd = profd
        self.folder = profd.folder / f"job-{len(profd.jobs)}"
        self.folder.mkdir()
        self.out, self.start, self.hold = (self.folder / name for name in ("out", "start", "hold"))
        with open(self.out, "w") as out, open(self.folder / "err", "w") as err:
            self.job = profd.job(python, TRAIN, *options, "--wait-for", self.start, "--hold", self.hold, agent=agent, stdout=out,
                                 stderr=err, env={"PYTHONWARNINGS": "ignore", **(env or {})})
        self.pid = self.job.pid

    def text(self):
        return self.out.read_text()

    def go(self, watched=True):
        """Lets it begin; before that the agent has found torch, so that every step counts."""
        wait_for(lambda: "ready" in self.text() or self.job.poll() is not None, 90, "the workload to be ready")
        if watched:
            self.profd.wait_torch(self.pid)
        self.start.touch()
        return self

    def capture_held(self, *trigger):
        """A capture that is armed while the job holds after a step (--hold, --hold-after): so it cannot miss the steps that it names."""
        client = self.profd.follow("--pid", self.pid, *trigger)
        wait_for(lambda: self.profd.process(self.pid)["state"] != "idle" or client.poll() is not None, what="the agent to be armed")
        self.hold.touch()
        out, err = client.communicate(timeout=240)
        assert client.returncode == 0, err
        return json.loads(out)["captures"][0]

    def finish(self, seconds=240):
        """What it wrote to its standard error, and what it printed but for its pid."""
        code = self.job.wait(seconds)
        errors = (self.folder / "err").read_text()
        assert code == 0, errors
        return errors, [line for line in self.text().splitlines() if not line.startswith("ready")]
