"""`profd run` with options that say what to record: asked for before the command starts, counted from its first step."""

import concurrent.futures
import json
import re
import signal
import subprocess
import time

import fake_agent as fake
import pytest
from conftest import BUILD, WORKLOADS, line_of, wait_for

STEPS = BUILD / "workloads" / "steps"


def run(profd, *words, **more):
    """`profd run OPTIONS -- COMMAND` to its end."""
    return profd.run("run", *words, check=False, **more)


def asked(line):
    """The trigger that the note names."""
    return re.search(r"`profd cancel --trigger (\S+)`", line).group(1)


def captures(profd, count):
    """Waits until so many captures are there and none is under way; the oldest first."""
    def look():
        rows = json.loads(profd.run("captures", "--format", "json", check=False).stdout)["captures"]
        return len(rows) >= count and all(row["status"] not in ("armed", "warmup", "recording", "finishing") for row in rows) and rows
    rows = wait_for(look, 20, f"{count} captures")
    assert len(rows) == count
    return rows[::-1]


def numbers(profd, capture):
    return [step["number"] for step in profd.show(capture["capture_id"])["steps"]]


def record_in_time(profd, wanted, *words):
    """Runs it, until the numbers of the steps of its captures are `wanted`: where the agent was not ready in time they are later ones, or none."""
    for _ in range(5):
        done = run(profd, *words)
        assert done.returncode == 0, done
        rows = captures(profd, len(wanted))
        found = [numbers(profd, row) for row in rows if row["status"] == "complete"]
        if found == wanted:
            return done, rows
        assert len(found) < len(wanted) or found > wanted, found
        profd.run("rm", *(row["capture_id"] for row in rows))
    pytest.fail(f"always late: {found}")


@pytest.mark.parametrize("options, wanted", [
    (["--skip-first", 20, "--steps", 3], [22, 23, 24]),
    (["--skip-first", 10, "--wait-steps", 5, "--warmup", 2, "--steps", 2], [18, 19]),
    (["--at-step", 30, "--steps", 2], [30, 31]),
    (["--at-multiple", 25, "--steps", 2], [25, 26]),
])
def test_steps_are_counted_from_the_first(profd, options, wanted):
    done, _ = record_in_time(profd, [wanted], *options, "--", STEPS, "--steps=36", "--step-ms=80")
    assert json.loads(done.stdout)["steps"] == 36
    assert "a recording is asked for" in done.stderr and done.stderr.count("\n") == 1


def test_the_first_steps(profd):
    """Nobody knows where the first step began; with a warm-up the fourth can be had."""
    record_in_time(profd, [[4, 5, 6]], "--steps", 3, "--warmup", 1, "--", STEPS, "--steps=7", "--step-ms=700")


def test_recipe(profd):
    """torch.profiler's names are understood, cycles keep their period, and the command line goes first."""
    recipe = profd.folder / "recipe.json"
    recipe.write_text('{"skip_first": 8, "wait": 5, "warmup": 1, "active": 2, "repeat": 5, "label": "mine"}')
    _, rows = record_in_time(profd, [[15, 16], [23, 24]], "--recipe", recipe, "--repeat", 2, "--", STEPS, "--steps=26", "--step-ms=200")
    assert [row["label"] for row in rows] == ["mine", "mine"]


def test_wrong_options_start_nothing(profd):
    marker = profd.folder / "started"
    recipe = profd.folder / "recipe.json"
    recipe.write_text('{"duration": "2s"}')
    for options in (["--recipe", recipe], ["--at-step", 4, "--skip-first", 3], ["--activities", "cpu", "--graphs", "whole"], ["--steps", "0"]):
        assert run(profd, *options, "--", "touch", marker).returncode == 2
    assert not marker.exists()


def test_the_command_runs_where_nothing_can_be_recorded(empty_profd):
    done = run(empty_profd, "--steps", 3, "--", STEPS, "--steps=3")
    assert done.returncode == 0 and json.loads(done.stdout)["steps"] == 3
    assert "nothing will be recorded, as no daemon answers" in done.stderr


def test_what_the_command_starts(profd):
    """A shell's child, and nobody else's process."""
    other = profd.job(STEPS, "--step-ms=5")
    profd.wait_steps(other.pid, 5)
    assert run(profd, "--steps", 3, "--", "sh", "-c", f"(sleep 1.5; exec {STEPS} --steps=100 --step-ms=50) & wait").returncode == 0
    capture, = captures(profd, 1)
    assert capture["pid"] != other.pid and capture["status"] == "complete" and len(numbers(profd, capture)) == 3


def test_what_goes_on_when_the_command_has_ended(profd):
    """It is waited for as long as something of the command is registered; here for other ranks, which never come."""
    said = profd.folder / "said"
    line = f"RANK=0 WORLD_SIZE=16 SLURM_JOB_ID=7 {STEPS} --steps=900 --step-ms=10 >{said} 2>&1 & sleep 1"
    assert run(profd, "--steps", 3, "--", "sh", "-c", line).returncode == 0
    assert not said.read_text()
    assert len(numbers(profd, captures(profd, 1)[0])) == 3
    wait_for(lambda: said.read_text(), 20, "the child's end")


def test_what_steps_after_the_first_capture_is_not_recorded(profd):
    line = f"{STEPS} --steps=50 --step-ms=100; sleep 2; {STEPS} --steps=20 --step-ms=20"
    run(profd, "--steps", 2, "--", "sh", "-c", line)
    captures(profd, 1)


def test_ranks_record_the_same_steps(profd):
    begin = time.monotonic() + 3  # both have started by then
    ranks = " & ".join(f"RANK={rank} WORLD_SIZE=2 SLURM_JOB_ID=7 {STEPS} --steps=60 --step-ms=100 --begin={begin}" for rank in (0, 1))
    # The warm-up is a second, in which the agents of both are ready.
    assert run(profd, "--steps", 3, "--skip-first", 30, "--warmup", 10, "--", "sh", "-c", f"{ranks} & wait").returncode == 0
    one, other = captures(profd, 2)
    assert {one["rank"], other["rank"]} == {0, 1}
    first = numbers(profd, one)
    assert first == numbers(profd, other) and len(first) == 3 and first[0] >= 32


def test_a_rank_whose_others_are_elsewhere(profd):
    """After some seconds it is not waited for them any more."""
    run(profd, "--steps", 3, "--", "sh", "-c", f"RANK=0 WORLD_SIZE=16 SLURM_JOB_ID=7 exec {STEPS} --steps=900 --step-ms=10")
    capture, = captures(profd, 1)
    assert capture["status"] == "complete" and len(numbers(profd, capture)) == 3


def test_it_can_be_taken_back(profd):
    go = profd.folder / "go"
    line = f"while [ ! -e {go} ]; do sleep 0.05; done; exec {STEPS} --steps=40 --step-ms=5"
    import subprocess
    job = subprocess.Popen([str(profd.client), "run", "--steps", "3", "--", "sh", "-c", line], env=profd.env, text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    profd.jobs.append(job)
    trigger = asked(line_of(job.stderr))
    assert json.loads(profd.run("cancel", "--all", "--format", "json").stdout)["taken_back"] == [trigger]
    go.touch()
    assert job.wait(20) == 0
    wait_for(lambda: json.loads(profd.run("status", "--format", "json").stdout)["daemons"][0]["processes"] == 0, what="the processes to be gone")
    assert json.loads(profd.run("captures", "--format", "json").stdout)["captures"] == []
    assert profd.run("cancel", "--trigger", trigger, check=False).returncode == 3


def test_a_command_without_steps_leaves_nothing(profd):
    """Its request ends with it, and the audit says that nothing came of it."""
    done = run(profd, "--steps", 3, "--", STEPS, "--no-step", "--steps=20")
    assert done.returncode == 0
    trigger = asked(done.stderr)
    wait_for(lambda: f"{trigger}: what was started has ended" in profd.run("audit", "--format", "json").stdout, 10, "the end of the request")
    assert profd.run("cancel", "--trigger", trigger, check=False).returncode == 3


def test_the_timeout_counts_from_the_first_step(profd):
    line = f"sleep 5; exec {STEPS} --steps=400 --step-ms=20"
    run(profd, "--steps", 10000, "--timeout", "4s", "--", "sh", "-c", line)
    capture, = captures(profd, 1)
    assert (capture["status"], capture["reason_code"]) == ("incomplete", "deadline") and 0 < capture["steps_recorded"] < 390


def test_a_daemon_that_is_restarted_before(profd):
    """It knows nothing of the request; the command notices nothing."""
    go = profd.folder / "go"
    line = f"while [ ! -e {go} ]; do sleep 0.05; done; exec {STEPS} --steps=60 --step-ms=20"
    job = subprocess.Popen([str(profd.client), "run", "--steps", "3", "--", "sh", "-c", line], env=profd.env, text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    profd.jobs.append(job)
    asked(line_of(job.stderr))
    profd.stop_daemon()
    profd.start_daemon()
    go.touch()
    out, err = job.communicate(timeout=60)
    assert job.returncode == 0 and json.loads(out)["steps"] == 60 and err == ""
    assert json.loads(profd.run("captures", "--format", "json").stdout)["captures"] == []


def test_launchers_are_not_recorded(profd, torch_newest):
    script, go = profd.folder / "ranks.py", profd.folder / "go"
    script.write_text("import os, time, torch, torch.distributed as dist\n"
                      "dist.init_process_group('gloo')\n"
                      "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))\n"
                      "optimizer = torch.optim.SGD(model.parameters(), 1e-3)\n"
                      "until = time.monotonic() + 300\n"
                      f"while not os.path.exists('{go}') and time.monotonic() < until:\n"
                      "    time.sleep(0.01)\n"
                      "for _ in range(200):\n"
                      "    model(torch.randn(2, 8)).sum().backward()\n"
                      "    optimizer.step()\n"
                      "    time.sleep(0.03)\n"
                      "dist.destroy_process_group()\n")

    def begin():
        """The ranks count alike where each step of both is seen: once their agents watch torch."""
        wait_for(lambda: sum(row["rank"] is not None and bool(row["torch_version"]) for row in profd.json("ps", codes=range(10))["processes"]) == 2, 60,
                 "the agents of both ranks to find torch")
        go.touch()

    with concurrent.futures.ThreadPoolExecutor() as pool:
        begun = pool.submit(begin)
        # Both are asked in the first steps, and then have a second to be ready.
        done = run(profd, "--skip-first", 40, "--warmup", 40, "--steps", 3, "--", torch_newest, "-m", "torch.distributed.run", "--nproc-per-node", "2", script)
        assert done.returncode == 0, done.stderr
        begun.result()
    one, other = captures(profd, 2)
    assert {one["rank"], other["rank"]} == {0, 1} and one["status"] == other["status"] == "complete"
    assert numbers(profd, one) == numbers(profd, other)


def test_the_command_is_killed(profd):
    done = run(profd, "--steps", 3, "--", "sh", "-c", "kill -9 $$")
    assert done.returncode == -signal.SIGKILL


def test_the_loop_is_the_same(profd):
    """Checksum and output are those of a run of which nothing is recorded."""
    plain = run(profd, "--", STEPS, "--steps=80", "--step-ms=5")
    recorded = run(profd, "--steps", 3, "--shapes", "--memory", "--stacks", "--", STEPS, "--steps=80", "--step-ms=5")
    assert plain.stdout == recorded.stdout and plain.returncode == recorded.returncode == 0


def test_torch(profd, torch_newest):
    done = run(profd, "--skip-first", 10, "--steps", 3, "--shapes", "--", torch_newest, WORKLOADS / "train.py", "--steps", 120, "--pad-ms", 30)
    assert done.returncode == 0, done.stderr
    capture, = captures(profd, 1)
    shown = profd.show(capture["capture_id"])
    first = shown["steps"][0]["number"]  # on a busy machine the agent is not ready for step 12
    assert 12 <= first < 100 and [step["number"] for step in shown["steps"]] == [first, first + 1, first + 2]
    assert any(row["name"] == "aten::conv2d" for row in shown["operators"])


@pytest.mark.parametrize("wrong, word", [
    ({"duration": 10**9}, "duration"),
    ({"step_range": "x*"}, "step_range"),
    ({"step_operator": "aten::mm"}, "step_operator"),
    ({"targets": {"descendants": True, "all": True}}, "exactly one"),
    ({"wait_for": 10**9}, "wait_for"),
])
def test_requests_that_make_no_sense(profd, wrong, word):
    request = fake.trigger_fields(targets={"descendants": True}, **{k: v for k, v in wrong.items() if k != "targets"})
    request["targets"] = wrong.get("targets", request["targets"])
    answer = fake.ask(profd.socket, "trigger", **request)
    assert answer[-1]["error"]["code"] == "usage" and word in answer[-1]["error"]["message"]


def test_who_asks_often(profd):
    """Each request waits on its own as long as the process lives; of a process that steps only one records."""
    request = fake.trigger_fields(targets={"descendants": True}, follow=True)
    answers = [fake.ask(profd.socket, "trigger", **request) for _ in range(20)]
    assert all(answer[0]["row"] == "accepted" and answer[-1] == {"end": True} for answer in answers)
    stay = profd.folder / "stay"
    stay.touch()
    job = profd.job(STEPS, "--steps=100", "--step-ms=10", agent=False,
                    env={"LD_PRELOAD": str(profd.agent), "STAY": str(stay)})
    capture, = captures(profd, 1)
    stay.unlink()
    assert job.wait(20) == 0
    assert capture["pid"] == job.pid
    assert len(json.loads(profd.run("cancel", "--all", "--format", "json").stdout)["taken_back"]) == 19
