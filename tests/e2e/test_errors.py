"""Each thing that can go wrong: a sentence that says what to do next, and design's exit code. If nothing matches, the exit code is not 0."""
import json
import os
import pathlib
import subprocess
import time

import pytest

from conftest import BUILD, wait_for

STEPS = BUILD / "workloads" / "steps"


def refused(profd, *arguments, code, word):
    done = profd.run(*arguments, check=False)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert word in done.stderr and len(done.stderr.strip().splitlines()) <= 3, done.stderr
    return done.stderr


def test_no_daemon(empty_profd):
    for verb in (["ps"], ["trigger", "--all"], ["captures"], ["show", "1"], ["rm", "1"], ["cancel", "--all"]):
        refused(empty_profd, *verb, code=7, word="profd daemon --user")


def test_a_pid_that_is_none(profd):
    refused(profd, "trigger", "--pid", 4194303, code=3, word="profd ps")
    refused(profd, "doctor", "--pid", 4194303, code=3, word="no process")


def test_a_process_without_the_agent(profd):
    job = profd.job("/bin/sleep", "30", agent=False)
    refused(profd, "trigger", "--pid", job.pid, code=3, word="profd run")


def test_names_and_jobs_that_match_nothing(profd):
    refused(profd, "trigger", "--name", "nothing*", code=3, word="profd ps")
    refused(profd, "trigger", "--job", "nothing", code=3, word="profd ps")
    refused(profd, "trigger", "--all", code=3, word="profd")
    refused(profd, "ps", "--name", "nothing", code=3, word="no")
    refused(profd, "captures", "--label", "nothing", code=3, word="no")
    refused(profd, "show", "4711", code=3, word="profd captures")
    refused(profd, "rm", "4711", code=3, word="profd captures")
    refused(profd, "cancel", "4711", code=3, word="profd captures")


def test_a_job_without_steps(profd):
    job = profd.job(STEPS, "--no-step")
    profd.wait_registered(job.pid)
    text = refused(profd, "trigger", "--pid", job.pid, code=9, word="--duration")
    assert "--step-range" in text
    refused(profd, "trigger", "--pid", job.pid, "--step-range", "step", "--at-step", 50, code=9, word="--at-step")


def test_a_job_that_exits(profd):
    job = profd.job(STEPS, "--step-ms=20")
    profd.wait_steps(job.pid, 1)
    job.kill()
    job.wait()
    wait_for(lambda: profd.process(job.pid) is None, 5, "the process to leave the list")
    refused(profd, "trigger", "--pid", job.pid, code=3, word="profd ps")


def test_waiting_for_a_job_that_has_not_started(profd):
    client = subprocess.Popen([str(profd.client), "trigger", "--name", "late", "--wait-for", "20s", "--format", "json"],
                              env=profd.env, stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    job = profd.job(STEPS, "--step-ms=10", env={"PROFD_NAME": "late"})
    out, _ = client.communicate(timeout=120)
    assert client.returncode == 0
    capture = json.loads(out)["captures"][0]
    assert capture["pid"] == job.pid and capture["status"] == "complete"
    refused(profd, "trigger", "--name", "never", "--wait-for", "300ms", code=3, word="never")


@pytest.mark.parametrize("arguments", [
    ["trigger"], ["trigger", "--pid", "x"], ["trigger", "--pid", "1", "--steps", "0"],
    ["trigger", "--pid", "1", "--steps", "-3"], ["trigger", "--pid", "1", "--duration", "soon"],
    ["trigger", "--pid", "1", "--stpes", "3"], ["trigger", "--pid", "1", "--max-bytes", "1Q"],
    ["frobnicate"], ["show", "--sort-by", "colour"], ["rm"], ["run"], ["ps", "--format", "xml"],
    ["trigger", "--name", "x", "--all"], ["trigger", "--pid", "1", "--wait-for", "3s"],
])
def test_usage(empty_profd, arguments):
    done = empty_profd.run(*arguments, check=False)
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert done.stderr.startswith("profd") and "help" in done.stderr, done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_users_process(profd, tmp_path):
    """A user's daemon serves its owner; through a socket that another can reach, that other sees and gets nothing."""
    job = profd.job(STEPS, "--step-ms=20")
    profd.wait_steps(job.pid, 1)
    capture = profd.trigger(job.pid)["capture_id"]
    profd.folder.chmod(0o755)
    for path in (profd.socket, profd.store):
        path.chmod(0o777)

    client = profd.for_all_users(profd.client) / "profd"

    def other(*arguments):
        return subprocess.run(["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", str(client),
                               *map(str, arguments)], env={**profd.env, "HOME": "/nonexistent"}, capture_output=True,
                              text=True, cwd="/")
    for line in (["trigger", "--pid", job.pid], ["show", capture], ["export", capture, "--output", "-"],
                 ["rm", capture], ["cancel", "--pid", job.pid]):
        done = other(*line)
        assert done.returncode in (3, 6, 7), (line, done.returncode, done.stderr)
        assert done.stderr
    assert json.loads(other("ps", "--format", "json").stdout or '{"processes": []}')["processes"] == []
    assert profd.show(capture)["capture"]["capture_id"] == capture
