"""Processes that were forked after the agent was loaded (start_method="fork", notebook_launcher): `profd attach` loads another copy of it there. The
copy that came along by the fork stays dead, with what it had put into the process."""
import contextlib
import json
import os
import signal
import sqlite3
import subprocess

import pytest

from proc import agent_thread
from test_attach import bare

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone")

# It says who it is, steps, and forks another one for each line that it reads. A child reads from a pipe of its own, which it never writes to: so
# a line is for the first.
RANKS = """
import ctypes, os, select, sys, time
profd = ctypes.CDLL(None)
profd.profd_mark(b"here")
ranks = []
def work():
    end = time.monotonic() + 0.01
    while time.monotonic() < end:
        profd.profd_step()
        time.sleep(0.002)
while True:
    work()
    if select.select([0], [], [], 0)[0]:
        if not os.read(0, 1):
            break
        child = os.fork()
        if child == 0:
            parent, (end, _) = os.getppid(), os.pipe()
            os.dup2(end, 0)
            while os.getppid() == parent:
                work()
            os._exit(0)
        ranks.append(child)
        print(child, flush=True)
for rank in ranks:
    os.kill(rank, 15)
    os.waitpid(rank, 0)
print("done", flush=True)
"""

# A training loop that forks its ranks after torch was imported, and trains itself as well.
TRAINS = """
import os, signal, sys, time
import torch
import torch.multiprocessing as mp
torch.set_num_threads(1)
def train(index, until):
    if index >= 0:
        print("rank", os.getpid(), flush=True)
    torch.manual_seed(7)
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    steps = 0
    while not os.path.exists(until):
        optimizer.zero_grad()
        model(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
        steps += 1
        time.sleep(0.005)
    return steps
if __name__ == "__main__":
    folder = sys.argv[1]
    print("ready", flush=True)
    train(-1, folder + "/fork")
    context = mp.start_processes(train, (folder + "/end",), nprocs=2, join=False, start_method="fork")
    train(-1, folder + "/end")
    while not context.join():
        pass
    print("done", flush=True)
"""


def told(job):
    return job.stdout.readline().strip()


def ends_well(profd, job):
    job.stdin.close()
    job.stdin = None
    assert told(job) == "done" and job.wait(60) == 0


def start(profd, *command):
    job = subprocess.Popen([str(profd.client), "run", "--", *map(str, command)], env=profd.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    profd.jobs.append(job)
    return job


def forks(profd, job):
    job.stdin.write("f")
    job.stdin.flush()
    return int(told(job))


def copies(pid):
    with open(f"/proc/{pid}/maps") as maps:
        return sum("libprofd_agent" in line and " 00000000 " in line for line in maps)


def test_a_child_gets_a_copy_of_its_own(profd):
    job = start(profd, "/usr/bin/python3", "-c", RANKS)
    profd.wait_registered(job.pid)
    first, other = forks(profd, job), forks(profd, job)
    done = profd.run("attach", "--pid", first)
    assert f"process {first} has the agent now" in done.stderr + done.stdout, done
    assert copies(first) == 2 and agent_thread(first) and copies(other) == copies(job.pid) == 1
    assert profd.process(first) and not profd.process(other)
    # profd_step() leads to the copy that was forked along, so a window of time.
    assert profd.trigger(first, "--duration", "100ms")["status"] == "complete"
    assert profd.trigger(job.pid, "--steps", "3")["status"] == "complete"
    again = profd.run("attach", "--pid", first, check=False)
    assert again.returncode == 8 and "has the agent already" in again.stderr, again
    assert "another copy" not in profd.run("doctor", "--pid", first).stdout
    # Out, and in again: the copy that works there is the one that is woken.
    for _ in range(2):
        profd.run("detach", "--pid", first)
        assert not agent_thread(first) and profd.process(first) is None
        profd.run("attach", "--pid", first)
        assert copies(first) == 2 and profd.trigger(first, "--duration", "50ms")["status"] == "complete"
    # The one without, at once.
    assert profd.trigger(other, "--duration", "50ms", "--attach")["status"] == "complete"
    profd.run("detach", "--pid", job.pid)
    assert profd.process(first) and profd.process(other)
    ends_well(profd, job)


def trains(profd, python):
    folder = profd.folder / "train"
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(TRAINS)
    job = profd.job(python, script, folder)
    assert told(job) == "ready"
    profd.wait_torch(job.pid)
    return job, folder


def rank_pids(job):
    return [int(told(job).split()[1]) for _ in range(2)]


def recorded(profd, capture):
    """How many calls of the layer, and how many allocations; one that another tool's slots had kept away would have a note."""
    assert capture["status"] == "complete", capture
    assert "another tool" not in json.dumps(profd.show(capture["capture_id"])), capture
    with contextlib.closing(sqlite3.connect(profd.file(capture["capture_id"]))) as file:
        calls = file.execute("SELECT count(*) FROM operators JOIN strings ON strings.id = operators.name WHERE text = 'aten::addmm'")
        return calls.fetchone()[0], file.execute("SELECT count(*) FROM framework_allocations").fetchone()[0]


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return list(map(int, file.read().split()))


def ends_training(job, folder):
    (folder / "end").touch()
    assert told(job) == "done" and job.wait(60) == 0, job.stderr.read()


def test_ranks_of_torch_that_were_forked(profd, torch_newest):
    """They step, and their operators and memory are recorded; so are the parent's, at the same time."""
    job, folder = trains(profd, torch_newest)
    (folder / "fork").touch()
    ranks = rank_pids(job)
    for rank in ranks:
        capture = profd.trigger(rank, "--steps", "4", "--attach", "--memory")
        calls, allocations = recorded(profd, capture)
        assert calls == 4 and allocations, (calls, allocations)
    follow = [profd.follow("--pid", pid, "--steps", "4") for pid in (*ranks, job.pid)]
    for client in follow:
        out, err = client.communicate(timeout=240)
        assert client.returncode == 0 and json.loads(out)["captures"][0]["status"] == "complete", (out, err)
    ends_training(job, folder)


def test_a_fork_in_mid_capture(profd, torch_newest):
    """The children begin with callbacks, and slots of torch's libraries, of a recording that is not theirs. Theirs counts what the parent's counts."""
    job, folder = trains(profd, torch_newest)
    client = profd.follow("--pid", job.pid, "--duration", "60s", "--memory")
    profd.wait_recorded(job.pid)
    (folder / "fork").touch()
    ranks = rank_pids(job)
    for rank in ranks:
        calls, allocations = recorded(profd, profd.trigger(rank, "--steps", "4", "--attach", "--memory"))
        assert calls == 4 and allocations, (calls, allocations)
    client.send_signal(signal.SIGINT)
    client.communicate(timeout=120)
    assert profd.trigger(job.pid, "--steps", "2")["status"] == "complete"
    ends_training(job, folder)


# Ranks by fork, each with a worker of a DataLoader that it has forked in its turn. A launcher that waits for them, as notebook_launcher does; or the first
# rank itself, which is in a process group with those that it has forked.
JOB_OF_RANKS = """
import os, sys, time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
torch.set_num_threads(1)
how, folder = sys.argv[1:]
class Rows:
    def __len__(self):
        return 1 << 30
    def __getitem__(self, i):
        return torch.full((16,), float(i % 7))
def train(rank):
    if how == "group":
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=1, multiprocessing_context="fork")
    for step, rows in enumerate(loader):
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        over = torch.tensor(float(os.path.exists(folder + "/end")))
        if how == "group":
            dist.all_reduce(over)
        optimizer.step()
        if step == 3:
            print("rank", os.getpid(), flush=True)
        if over:
            break
if __name__ == "__main__":
    if how == "group":
        other = mp.get_context("fork").Process(target=train, args=(1,))
        other.start()
        train(0)
        other.join()
        code = other.exitcode
    else:
        mp.start_processes(train, nprocs=2, start_method="fork")
        code = 0
    print("done", code, flush=True)
"""


@pytest.mark.parametrize("how, agent", [("launcher", False), ("launcher", True), ("group", False)])
def test_ranks_of_a_job_that_were_forked(profd, torch_newest, how, agent):
    """--job finds them, each gets one of its own, and neither what launched them nor a worker of theirs is touched; so does a look at the stacks."""
    (profd.folder / "train.py").write_text(JOB_OF_RANKS)
    number = f"{os.getpid()}5"
    env = {**(profd.env if agent else bare(profd)), "SLURM_JOB_ID": number}
    job = profd.job(torch_newest, profd.folder / "train.py", how, profd.folder, agent=agent, env=env)
    ranks = sorted(rank_pids(job))
    assert (job.pid in ranks) == (how == "group")
    looked_at = profd.json("stack", "--job", number)["processes"]
    assert sorted(row["pid"] for row in looked_at) == ranks, looked_at
    before = {pid: copies(pid) for pid in (job.pid, *children(job.pid), *(worker for rank in ranks for worker in children(rank)))}
    answer = profd.json("trigger", "--job", number, "--attach", "--steps", "2")
    assert sorted((row["pid"], row["status"]) for row in answer["captures"]) == [(rank, "complete") for rank in ranks] and not answer["refused"], answer
    assert {pid: copies(pid) - before[pid] for pid in before} == {pid: int(pid in ranks) for pid in before}
    (profd.folder / "end").touch()
    assert told(job) == "done 0" and job.wait(60) == 0, job.stderr.read()


# A child that closes what it does not know, forks again, and executes another program; the last number of each is what it ended with.
HABITS = """
import ctypes, os, sys, time
def until(name):
    while not os.path.exists(sys.argv[1] + "/" + name):
        time.sleep(0.01)
ctypes.CDLL(None).profd_mark(b"here")
child = os.fork()
if child == 0:
    os.closerange(3, 4096)
    print("child", os.getpid(), flush=True)
    until("fork")
    grandchild = os.fork()
    if grandchild == 0:
        print("grandchild", os.getpid(), flush=True)
        until("end")
        os._exit(5)
    until("exec")
    print("gone", os.waitpid(grandchild, 0)[1] >> 8, flush=True)
    os.execv(sys.executable, [sys.executable, "-c", "import sys; print('executed', flush=True); sys.exit(7)"])
print("parent", os.waitpid(child, 0)[1] >> 8, flush=True)
"""


def test_habits_of_a_child(profd):
    """Each goes on as if nobody had been there; the agents of those above it, and their end, do nothing to its own."""
    folder = profd.folder / "habits"
    folder.mkdir()
    job = start(profd, "/usr/bin/python3", "-c", HABITS, folder)
    profd.wait_registered(job.pid)
    child = int(told(job).split()[1])
    profd.run("attach", "--pid", child)
    (folder / "fork").touch()
    grandchild = int(told(job).split()[1])
    profd.run("attach", "--pid", grandchild)
    assert copies(grandchild) == 3 and agent_thread(grandchild) and agent_thread(child)
    for client in [profd.follow("--pid", pid, "--duration", "300ms") for pid in (child, grandchild, job.pid)]:
        out, err = client.communicate(timeout=240)
        assert client.returncode == 0, (out, err)
    profd.run("detach", "--pid", job.pid)
    profd.run("detach", "--pid", child)
    assert profd.trigger(grandchild, "--duration", "50ms")["status"] == "complete"
    client = profd.follow("--pid", grandchild, "--duration", "60s")
    profd.wait_recorded(grandchild)
    (folder / "end").touch()
    client.communicate(timeout=240)
    (folder / "exec").touch()
    assert [told(job) for _ in range(3)] == ["gone 5", "executed", "parent 7"]
    assert job.wait(60) == 0 and job.stderr.read() == ""
