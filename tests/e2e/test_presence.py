"""Processes that carry the agent and are not registered: those that are about to be are waited for, of the others is said what is
true."""
import os
import pathlib
import resource
import signal
import subprocess
import time

import pytest

from conftest import BUILD, wait_for
from proc import agent_thread

STEPS = BUILD / "workloads" / "steps"
# The agent wakes up with the first call of profd.h.
LATE = """
import ctypes, os, time
while not os.path.exists({!r}):
    time.sleep(0.01)
ctypes.CDLL(None).profd_mark(b'here')
time.sleep(1000)
"""
SLEEP = "import time\ntime.sleep(1000)\n"


def python(profd, script, agent=True):
    return profd.job("/usr/bin/python3", "-c", script, agent=agent)


def mapped(pid):
    with open(f"/proc/{pid}/maps") as maps:
        return "libprofd_agent" in maps.read()


def test_just_started(profd):
    for verb, answer in ((["trigger", "--duration", "100ms"], "capture u"), (["doctor"], "registered, has shown no steps yet"),
                         (["snapshot", "--allow-none"], "skipped: has shown no steps yet")):
        def meets():
            """The client waits a second, in which a busy machine may not get as far as to start the agent: then another process begins."""
            go.unlink(missing_ok=True)
            job = python(profd, LATE.format(str(go)))
            wait_for(lambda: mapped(job.pid), what="the agent's library")
            assert profd.process(job.pid) is None
            client = subprocess.Popen([profd.client, *verb, "--pid", str(job.pid)], env=profd.env, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
            time.sleep(0.1)  # it looks, and waits
            go.touch()
            out, err = client.communicate(timeout=120)
            assert client.returncode == 0 or (client.returncode == 3 and "nothing that it records has shown up there yet" in out + err), (out, err)
            return client.returncode == 0 and out
        go = profd.folder / f"go-{verb[0]}"
        out = wait_for(meets, what="the client to meet the agent")
        assert answer in out, out


def test_while_the_agent_comes_back(profd):
    """After a restart the client may be there before the agent is."""
    job = profd.job(STEPS, "--step-ms=10")
    profd.wait_steps(job.pid, 3)

    def meets():
        """The client waits three seconds, in which a busy machine may not get as far as to run the agent: then once more."""
        profd.wait_registered(job.pid)
        os.kill(job.pid, signal.SIGSTOP)
        profd.stop_daemon()
        profd.start_daemon()
        assert profd.process(job.pid) is None
        trigger = subprocess.Popen([profd.client, "trigger", "--pid", str(job.pid), "--duration", "100ms"], env=profd.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        os.kill(job.pid, signal.SIGCONT)
        out, err = trigger.communicate(timeout=120)
        assert trigger.returncode == 0 or (trigger.returncode == 3 and "has not registered" in err), (out, err)
        return trigger.returncode == 0
    wait_for(meets, what="the client to meet the agent")


# The agent's thread gives itself its name once it runs; this one is held where it has none yet.
STARTS = """
import ctypes, glob, os, time
ctypes.CDLL(None).profd_mark(b'here')
def name():
    for path in glob.glob("/proc/self/task/*/comm"):
        if open(path).read() == "profd\\n" and f"/{os.getpid()}/" not in path:
            open(path, "w").write("starts")
            return True
while not name():
    time.sleep(0.001)
print("ready", flush=True)
time.sleep(1000)
"""


def test_while_the_agent_starts(profd, tmp_path):
    """It has not been detached, and need not be brought back."""
    job = profd.job("/usr/bin/python3", "-c", STARTS, env={"PROFD_SOCKET": str(tmp_path / "other.sock")})
    assert job.stdout.readline() == "ready\n"
    assert agent_thread(job.pid) is None
    done = profd.run("ps", "--pid", job.pid, check=False)
    assert done.returncode == 3 and f"the agent runs in process {job.pid}, but has not registered" in done.stderr, done


def test_without_the_agent_nobody_waits(profd):
    job = python(profd, SLEEP, agent=False)
    time.sleep(0.6)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw
    done = profd.run("trigger", "--pid", job.pid, check=False)
    assert done.returncode == 3 and "runs without the profd agent" in done.stderr
    slept = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw - before
    assert slept < 20, f"it slept {slept} times; in half a second of waiting it looks 25 times"


def test_nothing_that_is_recorded(profd):
    """numpy, JAX on the CPU: the agent is there, sleeps, and says nothing else."""
    job = python(profd, SLEEP)
    wait_for(lambda: mapped(job.pid), what="the agent's library")
    sentence = f"the agent is loaded in process {job.pid}, but nothing that it records has shown up there yet"
    for verb in ("trigger", "ps"):
        done = profd.run(verb, "--pid", job.pid, check=False)
        assert done.returncode == 3 and sentence in done.stderr and "profd run" not in done.stderr
    answer = profd.json("trigger", "--pid", job.pid, codes=(3,))
    assert [r["code"] for r in answer["refused"]] == ["nothing_to_record"]
    done = profd.run("doctor", "--pid", job.pid, check=False)
    assert done.returncode == 3 and "profd run" not in done.stdout + done.stderr
    assert "it need not be started anew" in " ".join(done.stdout.split()) and "sleeps" in done.stdout


# As mp.start_processes(start_method="fork") makes ranks. A launcher that waits for them, and one that stepped before.
FORKS = """
import ctypes, os, sys, time
profd = ctypes.CDLL(None)
profd.profd_mark(b"here")
for _ in range(int(sys.argv[1])):
    profd.profd_step()
ranks, parent = [], os.getpid()
for rank in range(2):
    child = os.fork()
    if child == 0:
        while os.getppid() == parent:
            profd.profd_step()
            time.sleep(0.01)
        os._exit(0)
    ranks.append(child)
print(*ranks, flush=True)
time.sleep(1000)
"""


def forks(profd, steps=0):
    job = profd.job("/usr/bin/python3", "-c", FORKS, str(steps), env={"PROFD_JOB": "forked"})
    ranks = [int(pid) for pid in job.stdout.readline().split()]
    profd.wait_registered(job.pid)
    return job, ranks


def named(ranks):
    return "%d, %d" % tuple(sorted(ranks))


def test_ranks_that_were_forked(profd):
    """They get no agent by themselves, and nobody is told to wait for it."""
    job, ranks = forks(profd)
    for verb in ("trigger", "ps", "snapshot"):
        done = profd.run(verb, "--pid", ranks[0], check=False)
        assert done.returncode == 3 and f"process {ranks[0]} was forked after the agent was loaded" in done.stderr, done
        assert "start_method='spawn'" in done.stderr and "registers by itself" not in done.stderr
    answer = profd.json("trigger", "--pid", ranks[0], codes=(3,))
    assert [r["code"] for r in answer["refused"]] == ["forked"]
    done = profd.run("doctor", "--pid", ranks[0], check=False)
    said = " ".join(done.stdout.split())
    assert done.returncode == 3 and f"the process was forked by process {job.pid} after the agent was loaded" in said, done
    assert "need not be started anew" not in said and "sleeps" not in said
    note = f"process {job.pid} has forked children in which the agent does not live on: {named(ranks)}"
    for wanted in (["--pid", job.pid], ["--job", "forked"]):
        done = profd.run("trigger", *wanted, check=False)
        assert done.returncode == 9 and note in done.stderr, done
    assert note in profd.run("trigger", "--pid", job.pid, "--look", "100ms", check=False).stderr
    assert note in profd.run("ps").stderr


def test_ranks_that_were_forked_by_what_stepped_before(profd):
    job, ranks = forks(profd, steps=5)
    done = profd.run("trigger", "--pid", job.pid, "--timeout", "500ms", check=False)
    assert done.returncode == 4 and f"children in which the agent does not live on: {named(ranks)}" in done.stderr, done
    # A notebook that has stepped is a job as any other, and so are its workers.
    assert "forked" not in profd.run("ps").stderr


def test_a_forked_child_of_one_that_has_ended(profd):
    """One that became a daemon before it loaded anything."""
    job = profd.job("/usr/bin/python3", "-c", "import os, time\nif os.fork() == 0:\n    print(os.getpid(), flush=True)\n    time.sleep(1000)\n")
    child = int(job.stdout.readline())
    job.wait(20)
    try:
        done = profd.run("doctor", "--pid", child, check=False)
    finally:
        os.kill(child, signal.SIGKILL)
    assert "the process was forked after the agent was loaded" in " ".join(done.stdout.split()), done


def test_an_agent_that_talks_to_another_daemon(profd, tmp_path):
    job = profd.job(STEPS, "--step-ms=10", env={"PROFD_SOCKET": str(tmp_path / "other.sock")})
    wait_for(lambda: agent_thread(job.pid), what="the agent's thread")
    done = profd.run("ps", "--pid", job.pid, check=False)
    assert done.returncode == 3 and f"the agent runs in process {job.pid}, but has not registered" in done.stderr


def test_doctor_in_a_time_namespace(profd):
    """The daemon refuses a process whose clocks count from elsewhere, and `doctor` says that, not that no socket is reached."""
    line = ["unshare", "--time", "--boottime", "1000", "--fork"]
    if subprocess.run([*line, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no time namespace can be made here")
    profd.job(*line, profd.client, "run", "--", STEPS, "--step-ms=20", agent=False)
    def child():
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if path.read_bytes().startswith(str(STEPS).encode()) and str(profd.socket) in (path.parent / "environ").read_text():
                    return int(path.parent.name)
            except OSError:
                pass
        return None
    pid = wait_for(child, what="the job")
    wait_for(lambda: "time namespace" in profd.daemon_log.read_text(), what="the refusal")
    done = profd.run("doctor", "--pid", pid, check=False)
    os.kill(pid, signal.SIGTERM)
    assert done.returncode == 3 and "time namespace" in done.stdout, done
    assert "does not reach" not in done.stdout and "need not be started anew" not in done.stdout, done
