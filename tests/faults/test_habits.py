"""Unusual things that some jobs do all the time, or run beside them. A capture of some steps changes nothing for the job."""
import glob
import json
import pathlib
import shutil
import signal
import subprocess

import pytest

from conftest import same_job
from house import BUILD, hurry, wait_for

ODDJOB = BUILD / "workloads" / "oddjob"
STEPS = BUILD / "workloads" / "steps"

# {mode: (what the job does, ranges it makes in a step on top of `step`, and of them in its own process)}
HABITS = {
    "churn": ("starts and ends eight threads a step", 80),
    "small": ("runs ranges on threads with the smallest stack", 10),
    "fork": ("forks in each step", 0),
    "spawn": ("runs a program in each step", 0),
    "priority": ("changes its priority and scheduling class in each step", 0),
    "signals": ("takes a timer's signal a thousand times a second", 0),
    "stack": ("makes its ranges deep in a recursion", 1),
    "locale": ("changes locale and directory", 0),
}


def capture_of(profd, pid, steps=20):
    profd.wait_steps(pid, 2)
    return profd.trigger(pid, "--steps", steps)


@pytest.mark.parametrize("mode", HABITS)
def test_habit(row, profd, mode):
    what, more = HABITS[mode]
    row.does(what)
    capture = row.twice(profd, [ODDJOB, f"--mode={mode}", "--steps=60", "--step-ms=8"], lambda job: capture_of(profd, job.pid))
    assert capture["status"] == "complete" and capture["steps_recorded"] == 20
    row.counts_file(profd, capture["capture_id"], lambda db: 20 * (1 + more))


def test_daemonize(row, profd):
    row.does("becomes a daemon and closes all descriptors")
    row.twice(profd, [ODDJOB, "--mode=daemonize", "--steps=100", "--step-ms=5"])
    row.nothing_recorded("no agent in a fork")


def library(pattern):
    found = sorted(glob.glob(f"/usr/lib/*/{pattern}"))
    if not found:
        pytest.skip(f"{pattern} is not installed")
    return found[0]


@pytest.mark.parametrize("name", ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"])
def test_allocator(row, profd, name):
    row.does(f"allocates by {name}, with thread churn")
    # The line is that of `profd run`, before the job is there.
    mask = lambda text: [line for line in same_job(text) if "LD_PRELOAD holds" not in str(line)]
    capture = row.twice(profd, [ODDJOB, "--mode=churn", "--steps=60", "--step-ms=8"], lambda job: capture_of(profd, job.pid),
                        mask, env={"LD_PRELOAD": library(name)})
    assert capture["status"] == "complete"
    row.counts_file(profd, capture["capture_id"], lambda db: 20 * 81)


def attached(profd, job, *tracer):
    """A capture while a tracer comes and goes."""
    profd.wait_steps(job.pid, 2)
    client = profd.follow("--pid", job.pid, "--steps", 2000)
    profd.wait_recorded(job.pid)
    with subprocess.Popen([*tracer, "-p", str(job.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as tool:
        wait_for(lambda: tool.poll() is not None or "TracerPid:\t0\n" not in pathlib.Path(f"/proc/{job.pid}/status").read_text(), what="the tracer")
        if tool.poll() is None and "strace" in tracer[0]:
            tool.send_signal(signal.SIGINT)
        tool.wait(240)
    hurry(job)
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    return json.loads(out)["captures"][0]


@pytest.mark.parametrize("tracer", ["gdb", "strace"])
def test_attached(row, profd, tracer):
    row.does(f"{tracer} is attached in mid-capture, and goes")
    if not shutil.which(tracer):
        pytest.skip(f"{tracer} is not installed")
    words = {"gdb": ["gdb", "-batch", "-nx", "-ex", "thread apply all bt 3", "-ex", "detach"], "strace": ["strace", "-f", "-q"]}[tracer]
    capture = row.twice(profd, [STEPS, "--steps=100", "--step-ms=5"], lambda job: attached(profd, job, *words))
    row.counts_file(profd, capture["capture_id"], lambda db: capture["steps_recorded"] * 6)


@pytest.mark.parametrize("flags", ["--time", "--user --map-root-user", "--user --pid --fork --mount-proc --map-root-user", "--ipc --uts --net"])
def test_namespaces(row, profd, flags):
    row.does(f"runs in namespaces of its own: unshare {flags}")
    if subprocess.run(["unshare", *flags.split(), "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"this kernel makes no such namespace: unshare {flags}")

    def during(job):
        seen = wait_for(lambda: [p for p in profd.json("ps", codes=(0, 3)).get("processes", [])
                                 if p["name"] == "steps" and p["step"] >= 2], 20, "the job to register")
        return profd.trigger(seen[0]["pid"], "--steps", 20)

    capture = row.twice(profd, ["unshare", *flags.split(), STEPS, "--steps=100", "--step-ms=5"], during)
    assert capture["status"] == "complete"
    row.counts_file(profd, capture["capture_id"], lambda db: 20 * 6)


@pytest.mark.parametrize("what", ["core", "fsize", "stack", "nproc"])
def test_limits(row, profd, what):
    row.does(f"runs under a small limit: {what}")
    limit = {"core": "--core=0", "fsize": "--fsize=0", "stack": "--stack=65536", "nproc": "--nproc=1"}[what]
    if what == "fsize":
        profd.env.pop("PROFD_DEBUG")  # a file that one asks for grows
    capture = row.twice(profd, ["prlimit", limit, STEPS, "--steps=100", "--step-ms=5"],
                        lambda job: capture_of(profd, job.pid))
    assert capture["status"] == "complete"
    row.counts_file(profd, capture["capture_id"], lambda db: 20 * 6)
