"""All ranks of a job get the agent, one after the other, or none: where a later one fails, those before it are as they were."""
import contextlib
import json
import os
import resource
import signal
import subprocess

import pytest

from conftest import BUILD, line_of, stop, wait_for
from proc import agent_threads, opened
from test_attach import bare

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone")

# A rank as far as it is seen from outside: it has a library of torch's mapped, and its job and rank in its environment. A thread of it sleeps where it can
# always be stopped.
RANK = """
import mmap, select, sys, threading, time
library = open(sys.argv[1], "rb")
mapped = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    time.sleep(0.01)
print("done", flush=True)
"""
RANKS = 3


@pytest.fixture
def ranks(profd, tmp_path):
    """(the job's name, its processes, in the order in which they are looked at)."""
    return start(profd, tmp_path)


def start(profd, tmp_path, code=RANK, library=None, last=()):
    """`last`: what starts the last one."""
    if not library:
        library = tmp_path / "libtorch_cpu.so"
        library.write_bytes(b"torch")
    job, started = f"later{os.getpid()}", []
    for rank in range(RANKS):
        env = {**bare(profd), "RANK": str(rank), "WORLD_SIZE": str(RANKS), "SLURM_JOB_ID": job}
        started.append(subprocess.Popen([*(last if rank == RANKS - 1 else ()), "/usr/bin/python3", "-c", code, library], env=env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        profd.jobs.append(started[-1])
    for one in started:
        assert one.stdout.readline() == "ready\n"
    return job, sorted(started, key=lambda one: one.pid)


def seen(one):
    """What an agent would have in it: threads, descriptors."""
    return agent_threads(one.pid), opened(f"/proc/{one.pid}/fd")


def rank_of(one):
    with open(f"/proc/{one.pid}/environ") as environment:
        return next(row[5:] for row in environment.read().split("\0") if row.startswith("RANK="))


def refused(profd, job, last, code, reason):
    done = profd.run("trigger", "--job", job, "--attach", "--duration", "50ms", check=False)
    assert done.returncode == code and not done.stdout, done
    assert f"process {last.pid} {reason}" in done.stderr, done.stderr
    assert f"process {last.pid} (rank {rank_of(last)}) is one of {RANKS} that get the agent together, or not at all: the others are without it" in done.stderr
    return done.stderr


def test_none_where_a_later_one_fails(profd, ranks):
    job, processes = ranks
    *earlier, last = processes
    before = [seen(one) for one in processes]
    # Seen beforehand: nobody is touched.
    last.send_signal(signal.SIGSTOP)
    wait_for(lambda: ") T " in open(f"/proc/{last.pid}/stat").read(), what="the stop")
    assert "taken out" not in refused(profd, job, last, 8, "is stopped")
    assert [seen(one) for one in processes] == before
    assert not any("libprofd_agent" in open(f"/proc/{one.pid}/maps").read() for one in processes)
    last.send_signal(signal.SIGCONT)
    wait_for(lambda: ") T " not in open(f"/proc/{last.pid}/stat").read(), what="its going on")
    # Seen only where it is tried: it gets no more memory.
    was = resource.prlimit(last.pid, resource.RLIMIT_AS, (4096, resource.RLIM_INFINITY))
    said = refused(profd, job, last, 1, "could not be prepared: Cannot allocate memory; it goes on as before, nothing of it is left there")
    for one in earlier:
        assert f"process {one.pid} (rank {rank_of(one)}) had been given the agent before that; it was taken out of it again" in said
    assert [seen(one) for one in processes] == before
    assert not profd.json("ps", codes=range(10))["processes"]
    # Nothing is in the way of another try.
    resource.prlimit(last.pid, resource.RLIMIT_AS, was)
    record_all(profd, job)
    end(processes)


def record_all(profd, job):
    answer = profd.json("trigger", "--job", job, "--attach", "--duration", "50ms")
    assert [(c["rank"], c["status"]) for c in sorted(answer["captures"], key=lambda c: c["rank"])] == [(rank, "complete") for rank in range(RANKS)], answer


def end(processes):
    for one in processes:
        out, err = one.communicate("\n", timeout=60)
        assert (out, err, one.returncode) == ("done\n", "", 0)


# Of root's, as others have one that is not closed to them. It goes by what the folder of the daemon's socket allows, unlike the client.
BOUND = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


@contextlib.contextmanager
def one_that_is_late(profd, tmp_path, verb, *more):
    """Yields (the job, its processes, the client) when the last one has the agent and had not registered in time, as it cannot reach the daemon."""
    job, processes = start(profd, tmp_path, last=BOUND)
    last = processes[-1]
    if "dac_override" not in subprocess.run(["setpriv", "--dump"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("root goes by what folders allow here")
    if rank_of(last) != str(RANKS - 1):
        pytest.skip("the numbers of processes have just begun anew")
    profd.folder.chmod(0)
    with subprocess.Popen([profd.client, verb, "--job", job, "--attach", *more], env=profd.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as client:
        line = line_of(client.stderr)
        assert f"process {last.pid} has the agent now, but it has not registered: " in line, line
        assert agent_threads(last.pid)
        yield job, processes, client


@pytest.mark.skipif(os.geteuid() != 0, reason="takes a right from a process")
def test_none_where_a_later_one_registers_too_late(profd, tmp_path):
    with one_that_is_late(profd, tmp_path, "trigger", "--duration", "50ms") as (job, processes, client):
        # However late: the client stands still meanwhile.
        stop(client.pid)
        profd.folder.chmod(0o700)
        profd.wait_registered(processes[-1].pid)
        client.send_signal(signal.SIGCONT)
        out, err = client.communicate(timeout=120)
    assert client.returncode == 1 and not out
    assert f"the agent of process {processes[-1].pid} (rank {RANKS - 1}) has registered after all; it was taken out of it again" in err, err
    assert err.count("had been given the agent before that; it was taken out of it again") == RANKS - 1
    assert not profd.json("ps", codes=range(10))["processes"] and not any(agent_threads(one.pid) for one in processes)
    # Nothing is in the way of another try.
    record_all(profd, job)
    end(processes)


@pytest.mark.skipif(os.geteuid() != 0, reason="takes a right from a process")
def test_one_that_does_not_register_is_named(profd, tmp_path):
    with one_that_is_late(profd, tmp_path, "snapshot") as (_, processes, client):
        out, err = client.communicate(timeout=240)
    last = processes[-1].pid
    assert client.returncode == 1 and not out
    assert f"process {last} (rank {RANKS - 1}) keeps the agent: once it has registered, `profd detach --pid {last}` takes it out" in err, err
    assert [bool(agent_threads(one.pid)) for one in processes] == [False] * (RANKS - 1) + [True]
    profd.folder.chmod(0o700)
    profd.wait_registered(last)
    profd.run("detach", "--pid", last)
    assert not any(agent_threads(one.pid) for one in processes)
    end(processes)


# A rank that makes steps, by the stand-in for torch.
STEPS = """
import ctypes, sys, time
for name in ("libc10.so", "libtorch_cpu.so"):
    torch = ctypes.CDLL(sys.argv[1] + "/" + name, ctypes.RTLD_GLOBAL)
print("ready", flush=True)
while True:
    for _ in range(20):
        torch._ZN2at15sequence_number17get_and_incrementEv()
    torch.torch_range(b"Optimizer.step#Adam.step")
    time.sleep(0.005)
"""


def test_a_snapshot_of_all(profd, tmp_path):
    job, processes = start(profd, tmp_path, code=STEPS, library=BUILD / "workloads")
    done = profd.run("snapshot", "--job", job, "--attach", "--format", "json")
    answer = json.loads(done.stdout)
    assert all(f"process {one.pid} has the agent now" in done.stderr for one in processes), done.stderr
    (of_job,) = answer["jobs"]
    assert [(row["rank"], row["outcome"]) for row in sorted(of_job["processes"], key=lambda row: row["rank"])] == [
        (rank, "recorded") for rank in range(RANKS)], answer
