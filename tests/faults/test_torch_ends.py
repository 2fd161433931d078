"""Jobs that end while the agent is at work in torch."""
import json
import subprocess
import textwrap

import pytest

from conftest import same_job
from house import BUILD, WORKLOADS, wait_for

TORCH_EXITS = BUILD / "workloads" / "torch_exits"
HOWS = {"exit": "exit()", "return": "main returns", "thread": "exit() by another thread", "_exit": "_exit()",
        "signal": "SIGTERM", "abort": "abort()"}


def same_but_stopped(text):
    return [{k: v for k, v in line.items() if k != "stopped"} if isinstance(line, dict) else line for line in same_job(text)]


def record(profd, pid):
    """Begins a capture that its process's end ends."""
    client = subprocess.Popen([str(profd.client), "trigger", "--pid", str(pid), "--steps", "100000", "--no-wait"], env=profd.env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client.wait(30)


def recording(profd, pid):
    record(profd, pid)
    return wait_for(lambda: (profd.process(pid) or {}).get("state") == "recording", 20, "the recording")


@pytest.mark.parametrize("how", HOWS)
def test_torch_ends_in_mid_capture(row, profd, how):
    row.does(f"uses torch and ends in mid-capture: {HOWS[how]}")
    row.nothing_recorded("a stand-in for torch")
    row.twice(profd, [TORCH_EXITS, f"--how={how}", "--after=50"], lambda job: recording(profd, (profd.wait_steps(job.pid), job.pid)[1]))


def test_torch_ends_at_each_point_of_calibration(row, profd):
    row.does("exits while the agent is in torch, at each call of it")
    row.nothing_recorded("nothing was armed yet")
    plain = profd.job(TORCH_EXITS, "--after=20", agent=False)
    out, err = plain.communicate(timeout=30)
    bare, points = (plain.returncode, out, err), 0
    for point in range(1, 200):
        job = profd.job(TORCH_EXITS, env={"TORCH_STOP_AT": str(point)})
        wait_for(lambda: job.poll() is not None or (profd.process(job.pid) or {}).get("step", 0) >= 2, 20, "steps of the job")
        if job.poll() is None:
            record(profd, job.pid)
        if wait_for(lambda: job.poll() is not None or (profd.process(job.pid) or {}).get("state") == "recording", 20,
                    "the point") and job.poll() is None:
            job.kill()
            break
        out, err = job.communicate()
        assert json.loads(out)["stopped"] == 1
        row.same(bare, (job.returncode, out, err), same_but_stopped)
        points += 1
    # Two callbacks, six tensors made and deleted, their sizes and strides, the operators' own.
    assert points >= 30


ENDS = {
    "sys.exit": "sys.exit(3)", "an exception": "raise ValueError('its own')", "os._exit": "os._exit(4)",
    "SIGTERM": "os.kill(os.getpid(), 15)",
    "exit() by a C thread": "ctypes.CDLL(None).exit(5)",
}


@pytest.mark.parametrize("end", [pytest.param(end, marks=[pytest.mark.core] * (end == "SIGTERM")) for end in ENDS])
def test_real_torch_ends_in_mid_capture(row, profd, torch_newest, end):
    row.does(f"real torch, ends in mid-capture: {end}")
    row.nothing_recorded("ends at any step")
    script = profd.folder / "train.py"
    script.write_text(textwrap.dedent("""
        import ctypes, os, sys, time
        import torch
        if len(sys.argv) > 2:
            sys.path.append(sys.argv[2])
            import without_compiler
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        until = time.monotonic() + 60
        while time.monotonic() < until and not os.path.exists(sys.argv[1]):
            optimizer.zero_grad()
            model(torch.ones(2, 8)).sum().backward()
            optimizer.step()
        print("ends", flush=True)
        """) + ENDS[end] + "\n")
    stop = profd.folder / "stop"

    def during(job):
        profd.wait_steps(job.pid)
        recording(profd, job.pid)
        stop.touch()

    stop.touch()
    lean = [WORKLOADS] if end != "sys.exit" else []  # that one has the compiler, too, when it ends
    row.twice(profd, [torch_newest, script, stop, *lean], during, before=stop.unlink)
