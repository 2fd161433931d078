"""`profd run`, `env`, `daemon` and `doctor`: the environment of other programs."""

import json
import os
import subprocess
import sys

import pytest

from cli import *  # noqa: F401,F403 (fixtures)
from fake_daemon import END, error, process_row

SHOW = [sys.executable, "-c",
        "import os; print('|'.join(os.environ.get(v, '') for v in ('LD_PRELOAD', 'CUDA_INJECTION64_PATH', 'NVTX_INJECTION64_PATH', 'PROFD_NAME', 'PROFD_JOB')))"]


@pytest.fixture
def agent(folder):
    """A library that does nothing stands in for the agent: what is tested is the way to it."""
    path = folder / "agent.so"
    subprocess.run(["cc", "-shared", "-o", path, "-x", "c", "-"], input="int profd_nothing;", text=True, check=True)
    return str(path)


def test_run(lonely, agent):
    done = lonely.run("run", "--name", "n x", "-j", "7", "--", *SHOW, PROFD_AGENT=agent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().split("|") == [agent, agent, agent, "n x", "7"]
    assert "profd daemon --user" in done.stderr
    assert lonely.run("run", *SHOW, PROFD_AGENT=agent).stdout == lonely.run("run", "--", *SHOW, PROFD_AGENT=agent).stdout


def test_run_ends_as_its_command(lonely, agent):
    assert lonely.run("run", "--", "sh", "-c", "exit 42", PROFD_AGENT=agent).returncode == 42
    assert lonely.run("run", "--", "sh", "-c", "kill -9 $$", PROFD_AGENT=agent).returncode == -9
    assert lonely.run("run", "--", "/no/such/command", PROFD_AGENT=agent).returncode == 127
    assert lonely.run("run", "--", "/etc/passwd", PROFD_AGENT=agent).returncode == 126


def test_run_is_quiet_with_a_daemon(client, agent):
    assert client.run("run", "--", "true", PROFD_AGENT=agent).stderr == ""


def test_variables_that_are_held(lonely, agent, folder):
    other = folder / "other.so"
    other.write_bytes(open(agent, "rb").read())
    done = lonely.run("run", "--", *SHOW, PROFD_AGENT=agent, LD_PRELOAD=str(other), NVTX_INJECTION64_PATH="/x/nsys.so")
    assert done.stdout.strip().split("|")[:3] == ["%s:%s" % (other, agent), agent, "/x/nsys.so"]
    assert str(other) in done.stderr and "/x/nsys.so" in done.stderr
    done = lonely.run("run", "--", *SHOW, PROFD_AGENT=agent, LD_PRELOAD="%s %s" % (other, agent))
    assert done.stdout.split("|")[0] == "%s %s" % (other, agent)


def test_run_without_an_agent(lonely):
    done = lonely.run("run", "--", "true", PROFD_AGENT="/no/agent.so")
    assert done.returncode == 1 and "PROFD_AGENT" in done.stderr


def test_run_makes_no_folder(lonely, agent, folder):
    """That of the socket is its daemon's to make."""
    lonely.run("run", "--", "true", PROFD_AGENT=agent)
    assert not (folder / "none").exists()


def test_env(lonely, agent, folder):
    odd = folder / "it's"
    odd.mkdir()
    library = odd / "agent.so"
    library.write_bytes(open(agent, "rb").read())
    lines = lonely.run("env", PROFD_AGENT=str(library)).stdout
    shell = subprocess.run(["sh", "-c", lines + 'printf %s "$LD_PRELOAD"'], text=True, stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"]})
    assert shell.stdout == str(library)
    assert lonely.run("env", "--shell", "fish", PROFD_AGENT=agent).stdout.startswith("set -gx LD_PRELOAD '%s';" % agent)
    assert lonely.run("env", "--shell", "csh", PROFD_AGENT=agent).stdout.startswith("setenv LD_PRELOAD '%s';" % agent)


def test_doctor_environment(client, fake, agent):
    fake.answers["status"] = [{"row": "daemon", "version": "9.9.9", "pid": 1, "uid": 0, "socket": fake.path, "directory": "/d",
                               "started_at": "2026-11-21T14:00:00Z", "processes": 2, "running": 0, "captures": 3, "store_bytes": 5, "user": True}, END]
    done = client.run("doctor", "--format", "json", PROFD_AGENT=agent)
    checks = {c["check"]: c for c in json.loads(done.stdout)["checks"]}
    assert checks["agent"]["result"] == "ok" and checks["daemon"]["result"] == "ok" and checks["versions"]["result"] == "warning"
    assert client.run("doctor", PROFD_AGENT="/none").returncode == 1


def test_doctor_without_a_daemon(lonely, agent):
    assert lonely.run("doctor", PROFD_AGENT=agent).returncode == 7


def test_doctor_process(client, fake):
    fake.answers["doctor"] = [process_row(), {"row": "collector", "collector": "torch", "available": True, "sentence": "operators"},
                              {"row": "collector", "collector": "shapes", "available": False, "sentence": "torch is too old"}, END]
    done = client.run("doctor", "--pid", "4242")
    assert done.returncode == 0 and "torch is too old" in done.stdout
    answer = json.loads(client.run("doctor", "--pid", "4242", "--format", "json").stdout)
    assert answer["registered"] and {c["collector"]: c["available"] for c in answer["collectors"]} == {"torch": True, "shapes": False, "cupti": False}


def test_doctor_of_a_process_without_the_agent(client, fake):
    fake.answers["doctor"] = [error("no_agent", "process runs without the profd agent; start it with", 5)]
    job = subprocess.Popen(["sleep", "60"])
    try:
        done = client.run("doctor", "--pid", job.pid)
        assert done.returncode == 3 and "profd run -- sleep 60" in done.stdout and "linked dynamically" in done.stdout
    finally:
        job.kill()
        job.wait()
    fake.answers["doctor"] = [error("no_such_process", "there is no process", 5)]
    assert client.run("doctor", "--pid", job.pid).returncode == 3
