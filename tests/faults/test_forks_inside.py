"""Jobs that fork in the moment in which a thread of the agent's is inside torch or CUPTI and has a mutex there (libinside.c)."""
import json
import sqlite3
import textwrap

import pytest

import gpu
from conftest import same_job
from house import BUILD, WORKLOADS, wait_for
from test_forks import overruns

INSIDE = BUILD / "workloads" / "libinside.so"
STEPS = 60


def without_preload(text):
    """That profd run tells of the other library in LD_PRELOAD is no word of the job's."""
    return same_job("\n".join(line for line in text.splitlines() if not line.startswith("profd: LD_PRELOAD")))


class Forks:
    """What libinside.so tells of the forks of the job."""

    def __init__(self, profd):
        self.profd, self.file = profd, profd.folder / "forks.json"
        self.env = {"LD_PRELOAD": str(INSIDE), "INSIDE_TELL": str(self.file)}

    def told(self):
        try:
            return json.loads(self.file.read_text())
        except (OSError, ValueError):  # none yet, or it is being written
            return {"forks": 0}

    def held(self):
        """Every child ended well, and was made while nobody was inside; the agent entered during no fork. Or the fork did not wait
        longer, as on a machine that is full, and it was counted."""
        told = self.told()
        assert told["forks"] and told["hung"] == 0, told
        assert told["caught"] <= overruns(self.profd), told
        assert told["entered"] == 0 or overruns(self.profd), told
        return told


def record(profd, job, forks, steps=STEPS, forks_wanted=12):
    """Captures until the job has forked so often; their ids. A fork is told when its child has ended, which on a full machine takes many captures."""
    found = []

    def are_enough():
        found.append(profd.trigger(job.pid, "--steps", steps, codes=(0, 5))["capture_id"])
        return len(found) >= 2 and forks.told()["forks"] >= forks_wanted

    wait_for(are_enough, 60, f"{forks_wanted} forks")
    return found


def count(profd, captures, table, where=""):
    """Rows of the recorded steps, events lost."""
    rows = lost = 0
    for capture in captures:
        with sqlite3.connect(f"file:{profd.file(capture)}?mode=ro", uri=True) as db:
            rows += db.execute(f"SELECT count(*) FROM {table} WHERE {where}step").fetchone()[0]
            lost += db.execute("SELECT coalesce(sum(count), 0) FROM losses WHERE is_loss").fetchone()[0]
    return rows, lost


CUDA = [gpu.WORKLOAD, "--steps=60", "--rate=200"]
TORCH = [BUILD / "workloads" / "torch_exits", "--how=exit", "--after=60"]


@pytest.mark.parametrize("release", [gpu.MIDDLE, gpu.NEWEST])
def test_fork_while_the_agent_is_inside_cupti(row, profd, release):
    row.does(f"forks whenever the agent has a lock of CUPTI's or the driver's (CUDA {release}, simulated)")
    forks, printed = Forks(profd), []

    def during(job):
        profd.wait_steps(job.pid, 3)
        return record(profd, job, forks)

    def mask(text):
        printed.append(text)
        return without_preload(text)

    captures = row.twice(profd, CUDA, during, mask, {**gpu.environment(release), **forks.env})
    forks.held()
    said = json.loads(printed[1].strip().splitlines()[-1])
    assert said["wrong"] == 0
    row.counts(*count(profd, captures, "kernels"), len(captures) * STEPS * sum(gpu.launched(said).values()))


def test_fork_while_the_agent_is_inside_torch(row, profd):
    row.does("forks whenever the agent has a lock of torch's (a stand-in for torch)")
    forks = Forks(profd)

    def during(job):
        profd.wait_steps(job.pid)
        return record(profd, job, forks)

    captures = row.twice(profd, TORCH, during, without_preload, forks.env)
    forks.held()
    row.counts(*count(profd, captures, "ranges"), len(captures) * STEPS)


@pytest.mark.parametrize("what", ["cupti", "torch"])
def test_fork_does_not_wait_for_ever_for_what_is_called(row, profd, what):
    row.does(f"forks while a call of the agent's into {'CUPTI takes 0.2 s' if what == 'cupti' else 'torch takes 0.8 s'}")
    row.nothing_recorded("who forks late is late")
    forks = Forks(profd)
    command, env, ms = (CUDA, gpu.environment(gpu.MIDDLE), 200) if what == "cupti" else (TORCH, {}, 800)

    def during(job):
        profd.wait_steps(job.pid, 3)
        profd.trigger(job.pid, "--steps", 5, codes=(0, 5))
        told = forks.told()
        assert told["forks"] and told["caught"] and told["hung"] == 0 and overruns(profd) >= told["caught"], told
        wait_for(lambda: "forks did not wait" in profd.run("doctor", "--pid", job.pid, check=False).stdout, 20,
                 "doctor to tell of the forks")

    row.twice(profd, command, during, without_preload, {**env, **forks.env, "INSIDE_MS": str(ms)})


TRAINS = """
import ctypes, json, os, sys, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on Python warns of forks, as there are the agent's threads
import torch
sys.path.append(sys.argv[2])
import without_compiler
inside = ctypes.CDLL(sys.argv[3])
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
told = {"forks": 0, "hung": 0, "caught": 0, "entered": 0}

def step():
    optimizer.zero_grad()
    loss = model(torch.ones(4, 16)).square().sum()
    loss.backward()
    optimizer.step()
    return loss.item()

def work():
    if inside.inside_caught():
        return 2
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # torch's profiler says there what it is doing
    with torch.autograd.profiler.profile() as profile:
        losses = [step() for _ in range(3)]
    ctypes.CDLL("libm.so.6").cos
    return 0 if all(loss == loss for loss in losses) and len(profile.function_events) > 10 and len(bytearray(1 << 24)) else 1

def fork():
    child = os.fork()
    if child == 0:
        os._exit(work())
    until = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > until:
            os.kill(child, 9)
            ended = os.waitpid(child, 0)
            break
        time.sleep(0.001)
    status = os.WEXITSTATUS(ended[1]) if os.WIFEXITED(ended[1]) else 1
    told["forks"] += 1
    told["hung"] += status == 1
    told["caught"] += status == 2
    told["entered"] = inside.inside_entered()
    with open(sys.argv[1] + ".new", "w") as file:
        json.dump(told, file)
    os.rename(sys.argv[1] + ".new", sys.argv[1])

stays = lambda: "STAY" in os.environ and os.path.exists(os.environ["STAY"])
at = 0
while at < 60 or stays():
    loss = step()
    at += 1
    if at <= 60:
        print(at, loss.hex())
    if stays() and inside.inside_wait(5):
        fork()
"""


def test_fork_while_the_agent_is_inside_real_torch(row, profd, torch_newest):
    row.does("real torch: trains, and forks whenever the agent has a lock of torch's; children train with torch's profiler")
    forks, script = Forks(profd), profd.folder / "trains.py"
    script.write_text(textwrap.dedent(TRAINS))

    def during(job):
        profd.wait_steps(job.pid)
        return record(profd, job, forks, steps=10, forks_wanted=3)

    captures = row.twice(profd, [torch_newest, script, forks.file, WORKLOADS, INSIDE], during, without_preload,
                         {"LD_PRELOAD": str(INSIDE)}, timeout=120)
    forks.held()
    rows, lost = count(profd, captures, "operators", "name IN (SELECT id FROM strings WHERE text = 'aten::addmm') AND ")
    row.counts(rows, lost, len(captures) * 10 * 2)
