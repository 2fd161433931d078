"""Processes that were started without anything, and are recorded at once: `trigger --attach`, `snapshot --attach`."""
import json
import os
import signal
import subprocess

import pytest

from conftest import WORKLOADS, wait_for
from test_attach import TRAIN, bare, trains

TORCH = os.environ.get("PROFD_TORCH_NEWEST")
pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone"),
              pytest.mark.skipif(not TORCH, reason="no torch")]

# A worker that its rank has forked, as those of a DataLoader; another one that a rank's shell has started; the training loop.
RANK = """
import os, signal, sys, time
import torch
parent, worker = os.getpid(), os.fork()
while not worker:
    time.sleep(0.1)
    if os.getppid() != parent:
        os._exit(0)
""" + TRAIN + """
os.kill(worker, signal.SIGTERM)
os.waitpid(worker, 0)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / f"train{os.getpid()}.py"  # other tests run beside this one
    path.write_text(RANK)
    return path


def start(profd, script, rank=None, job=None, stay=None):
    """Trains until it is ended, or as TRAIN says."""
    env = bare(profd)
    if rank is not None:
        env.update(RANK=str(rank), WORLD_SIZE="2", SLURM_JOB_ID=job)
    started = subprocess.Popen([TORCH, str(script), str(stay or script)], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    profd.jobs.append(started)
    return started


def ready(*jobs):
    for job in jobs:
        assert job.stdout.readline() == "ready\n"


def has_agent(pid):
    with open(f"/proc/{pid}/maps") as maps:
        return "libprofd_agent" in maps.read()


def test_one_process(profd, script):
    job = start(profd, script)
    ready(job)
    done = profd.run("trigger", "--pid", job.pid, check=False)
    assert done.returncode == 3 and f"`profd attach --pid {job.pid}` (or --attach)" in done.stderr, done
    assert not has_agent(job.pid)
    done = profd.run("trigger", "--pid", job.pid, "--attach", "--steps", "2", "--format", "json")
    answer = json.loads(done.stdout)
    assert [c["status"] for c in answer["captures"]] == ["complete"] and not answer["refused"], answer
    assert f"process {job.pid} has the agent now; its thread" in done.stderr
    # Again: nothing is brought into it a second time.
    assert "has the agent now" not in profd.run("trigger", "--pid", job.pid, "--attach", "--steps", "1").stderr
    job.send_signal(signal.SIGTERM)
    job.wait()


def test_all_ranks_or_none(profd, script):
    ranks = [start(profd, script, rank, f"{os.getpid()}7") for rank in range(2)]
    other = start(profd, script, 0, f"{os.getpid()}8")
    ready(*ranks, other)
    # One that is stopped: nobody gets anything.
    ranks[1].send_signal(signal.SIGSTOP)
    wait_for(lambda: open(f"/proc/{ranks[1].pid}/stat").read().rsplit(")")[1].split()[0] == "T", what="the stop")
    done = profd.run("trigger", "--job", f"{os.getpid()}7", "--attach", check=False)
    assert done.returncode == 8 and f"process {ranks[1].pid} is stopped" in done.stderr, done
    assert not has_agent(ranks[0].pid)
    ranks[1].send_signal(signal.SIGCONT)
    answer = profd.json("trigger", "--job", f"{os.getpid()}7", "--attach", "--steps", "2")
    captured = sorted((c["rank"], c["pid"]) for c in answer["captures"])
    assert captured == [(0, ranks[0].pid), (1, ranks[1].pid)] and not answer["refused"], answer
    assert not has_agent(other.pid)
    # Neither did the forked workers get one.
    rows = profd.json("ps")["processes"]
    assert sorted(r["pid"] for r in rows) == sorted(r.pid for r in ranks)
    for job in (*ranks, other):
        job.kill()


def test_a_worker_of_a_dataloader(profd):
    """It has no steps to wait for: it is told whose data it loads, and nothing is done to it. A window of time it can have."""
    job = subprocess.Popen([TORCH, WORKLOADS / "train.py", "--steps", "1000000", "--loader", "--workers", "1", "--load-ms", "1"], env=bare(profd),
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    profd.jobs.append(job)
    assert job.stdout.readline()
    with open(f"/proc/{job.pid}/task/{job.pid}/children") as children:
        worker = wait_for(lambda: children.seek(0) or children.read().split(), what="a worker")[0]
    stack = wait_for(lambda: "_worker_loop" in profd.run("stack", "--pid", worker, check=False).stdout, what="its loop")
    done = profd.run("trigger", "--pid", worker, "--attach", "--steps", "2", check=False)
    assert stack and done.returncode == 9 and f"process {worker} is a worker of a DataLoader" in done.stderr, done
    assert f"the data of process {job.pid}, whose steps `--pid {job.pid}` records" in done.stderr and not has_agent(worker), done
    assert profd.trigger(worker, "--attach", "--duration", "50ms")["status"] == "complete"
    job.kill()


def test_a_name_and_a_snapshot(profd, script):
    job = start(profd, script)
    ready(job)
    done = profd.run("snapshot", "--name", f"{script.stem}.p?", "--attach", "--format", "json")
    assert f"process {job.pid} has the agent now" in done.stderr and profd.process(job.pid)["name"] == script.name
    job.kill()


def test_never_everything(profd):
    for verb in ("trigger", "snapshot"):
        done = profd.run(verb, "--all", "--attach", check=False)
        assert done.returncode == 2 and "--attach goes with --pid, --job or --name" in done.stderr, done


@pytest.mark.wide
def test_what_it_prints_is_the_same(profd, script, tmp_path):
    def begin(stay):
        job = start(profd, script, stay=stay)
        ready(job)
        return job
    stay = tmp_path / "stay"
    stay.touch()
    job = begin(stay)
    profd.run("trigger", "--pid", job.pid, "--attach", "--steps", "2")
    trains(job, stay, begin)
