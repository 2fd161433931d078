"""All ranks of a job get the agent, one after the other, or none: where a later one fails, those before it are as they were."""
import os
import resource
import signal
import subprocess

import pytest

from conftest import wait_for
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
    library = tmp_path / "libtorch_cpu.so"
    library.write_bytes(b"torch")
    job, started = f"later{os.getpid()}", []
    for rank in range(RANKS):
        env = {**bare(profd), "RANK": str(rank), "WORLD_SIZE": str(RANKS), "SLURM_JOB_ID": job}
        started.append(subprocess.Popen(["/usr/bin/python3", "-c", RANK, library], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True))
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
    answer = profd.json("trigger", "--job", job, "--attach", "--duration", "50ms")
    assert [(c["rank"], c["status"]) for c in sorted(answer["captures"], key=lambda c: c["rank"])] == [(rank, "complete") for rank in range(RANKS)], answer
    for one in processes:
        out, err = one.communicate("\n", timeout=60)
        assert (out, err, one.returncode) == ("done\n", "", 0)
