"""`profd trigger --dry-run`: says what a trigger would do and cost, by the captures of the very process, and does nothing."""
import os
import subprocess

import pytest

import fake_agent
from conftest import BUILD, wait_for
from training import Training

STEPS = BUILD / "workloads" / "steps"
# What the job of C can be recorded with; the others of "default" find nothing in it.
ON = ["steps", "nvtx"]
# Steps by profd.h, until it becomes another program.
BECOMES = """
import ctypes, os, sys, time
while not os.path.exists(sys.argv[1]):
    ctypes.CDLL(None).profd_step()
    time.sleep(0.01)
os.execv(sys.argv[2], [sys.argv[2], "--step-ms=10"])
"""


def steps(profd, *arguments, env=None):
    job = profd.job(STEPS, "--step-ms=10", *arguments, env=env)
    profd.wait_steps(job.pid, 3)
    return job


def dry_run(profd, pid, *arguments):
    """The answer on one process."""
    answer = profd.json("trigger", "--pid", pid, "--dry-run", *arguments)
    assert answer["schema"] == "profd.dry_run/1" and not answer["refused"] and not answer["left_out"]
    (target,) = answer["targets"]
    assert target["pid"] == pid and target["outcome"] == "would_record" and target["daemon"] == str(profd.socket)
    return target


def text(profd, pid, *arguments):
    return profd.run("trigger", "--pid", pid, "--dry-run", *arguments).stdout


def known(target):
    """The kinds of figures that there are, each with its capture."""
    return {kind: target["estimate"][kind]["capture_id"] for kind in ("measured", "at_most", "at_least") if target["estimate"][kind]}


def counted(profd):
    """What the daemon has counted of triggers and captures."""
    return [line for line in profd.run("metrics").stdout.splitlines() if line.startswith(("profd_trigger", "profd_captures"))]


def test_nothing_is_done(profd):
    job = steps(profd)
    before, log = counted(profd), (profd.folder / "agent.log").read_text()
    assert before
    for arguments in ([], ["--preset", "full", "--steps", 50], ["--repeat", 0], ["--duration", "2s"], ["--step-range", "step"],
                      ["--at-multiple", 100], ["--format", "csv"]):
        done = profd.run("trigger", "--pid", job.pid, "--dry-run", *arguments)
        assert not done.stderr, done.stderr
        assert profd.process(job.pid)["state"] == "idle"
    assert counted(profd) == before and (profd.folder / "agent.log").read_text() == log
    assert profd.json("captures")["captures"] == [] and profd.json("audit", codes=(0, 3))["lines"] == []
    assert not list((profd.store / "captures").iterdir())
    capture = profd.trigger(job.pid, "--steps", 1)
    assert (capture["capture_id"], capture["trigger_id"]) == ("u1", "ut1")


def test_unknown_then_measured(profd):
    """One capture with the same collectors, and its figures are those of the estimate; those of another process are not."""
    job, other = steps(profd), steps(profd)
    target = dry_run(profd, job.pid)
    assert target["estimate"] == {"captures": 0, "not_comparable": 0, "measured": None, "at_most": None, "at_least": None, "by_command": None}
    assert target["collectors"] == ["steps", "nvtx", "torch", "cupti", "compile"] and target["not_on"] == []
    assert "not known yet: there is no complete capture of this process, nor of another one with the same command; a trigger of one step" in text(profd, job.pid)
    capture = profd.trigger(job.pid, "--steps", 4)
    figures = dry_run(profd, job.pid)["estimate"]["measured"]
    (row,) = profd.json("captures")["captures"]
    cost = profd.show(row["capture_id"])["cost"]
    assert figures["capture_id"] == capture["capture_id"] and figures["steps"] == 4 and figures["differs_by"] == []
    assert figures["bytes"] == row["bytes"] and figures["events_per_step"] == (row["events"] + 2) // 4 > 0
    assert figures["step_before_ns"] == cost["step_before_ns"] > 0 and figures["step_during_ns"] == cost["step_during_ns"] > 0
    assert figures["step_more_ns"] == figures["step_during_ns"] - figures["step_before_ns"]
    shown = text(profd, job.pid)
    assert f"events a step, as in capture {row['capture_id']} (4 steps, a file of" in shown and "which had these collectors" in shown
    assert "collectors    steps, nvtx\n" in shown and f"not torch, as in capture {row['capture_id']}: " in shown
    # Before the first capture of a process another one tells, that ran the same command.
    before = dry_run(profd, other.pid)["estimate"]
    assert before["captures"] == 0 and known({"estimate": before}) == {} and known({"estimate": before["by_command"]}) == {"measured": capture["capture_id"]}
    assert before["by_command"]["measured"] == figures and dry_run(profd, job.pid)["estimate"]["by_command"] is None
    assert "file of" in (shown := text(profd, other.pid)) and "of another process with the same command, which had these collectors" in shown, shown
    assert "measured_by_command" in profd.run("trigger", "--pid", other.pid, "--dry-run", "--format", "csv").stdout
    unlike = dry_run(profd, steps(profd, "--marks=2").pid)["estimate"]
    assert known({"estimate": unlike}) == {} and unlike["by_command"] is None
    # The newest one counts.
    again = profd.trigger(job.pid, "--steps", 2)["capture_id"]
    assert known(dry_run(profd, job.pid)) == {"measured": again}
    # What is not there in this process is left out of the question, too.
    assert known(dry_run(profd, job.pid, "--preset", "light")) == {"measured": again}


def test_bounds(profd):
    """Captures with other collectors bound the cost, from above or from below."""
    job, other = steps(profd), steps(profd)
    default = profd.trigger(job.pid)["capture_id"]
    target = dry_run(profd, job.pid, "--activities", "gpu")
    assert known(target) == {"at_most": default} and target["estimate"]["at_most"]["differs_by"] == ["nvtx"]
    assert f"by capture {default} (3 steps" in text(profd, job.pid, "--activities", "gpu")
    assert "which had more: nvtx" in text(profd, job.pid, "--activities", "gpu")
    device = profd.trigger(other.pid, "--activities", "gpu")["capture_id"]
    target = dry_run(profd, other.pid)
    assert known(target) == {"at_least": device} and target["estimate"]["at_least"]["differs_by"] == ["nvtx", "torch", "compile"]
    assert [row["collector"] for row in target["not_on"]] == ["cupti"]
    assert "at least " in text(profd, other.pid) and "which had not: nvtx, torch, compile" in text(profd, other.pid)


def test_what_cannot_be_compared(profd):
    """Other steps, a window of time, an incomplete capture, and later cycles, whose steps before were recorded themselves."""
    job = steps(profd)
    profd.trigger(job.pid, "--step-range", "step")
    profd.run("trigger", "--pid", job.pid, "--duration", "50ms")
    limited = profd.trigger(job.pid, "--steps", 50, "--max-events", 5, codes=(5,))
    assert limited["status"] == "incomplete"
    target = dry_run(profd, job.pid)
    assert known(target) == {} and (target["estimate"]["captures"], target["estimate"]["not_comparable"]) == (2, 2)
    assert "no complete capture of this process can be compared" in text(profd, job.pid)
    assert list(known(dry_run(profd, job.pid, "--step-range", "step"))) == ["measured"]
    first, _ = profd.json("trigger", "--pid", job.pid, "--repeat", 2)["captures"]
    assert known(dry_run(profd, job.pid)) == {"measured": first["capture_id"]}


def test_another_program_in_the_same_process(profd, tmp_path):
    """After exec the pid and the start time are the same, and the figures would be of another program."""
    job = profd.job("/usr/bin/python3", "-c", BECOMES, tmp_path / "go", STEPS)
    profd.wait_steps(job.pid, 3)
    capture = profd.trigger(job.pid)["capture_id"]
    assert known(dry_run(profd, job.pid)) == {"measured": capture}
    (tmp_path / "go").touch()
    wait_for(lambda: (row := profd.process(job.pid)) and row["command"].startswith(str(STEPS)) and row["step"] > 3, what="the other program")
    target = dry_run(profd, job.pid)
    assert known(target) == {} and target["estimate"]["captures"] == 0


def test_a_daemon_that_follows(profd):
    """The next daemon knows what the one before has recorded."""
    job = steps(profd)
    capture = profd.trigger(job.pid)["capture_id"]
    profd.stop_daemon()
    profd.start_daemon()
    profd.wait_steps(job.pid, 3)
    assert known(dry_run(profd, job.pid)) == {"measured": capture}
    profd.run("rm", capture)
    assert known(dry_run(profd, job.pid)) == {}


def test_which_steps(profd):
    job = steps(profd)
    now = profd.process(job.pid)["step"]
    target = dry_run(profd, job.pid, "--steps", 5, "--warmup", 2, "--skip-first", 100, "--repeat", 3)
    assert target["step"] >= now and target["first_step"] >= target["step"] + 1 + 102
    assert target["last_step"] == target["first_step"] + 4 and target["about"]
    assert (target["steps"], target["warmup"], target["cycles"]) == (5, 2, 3)
    ahead = now + 10 ** 6
    target = dry_run(profd, job.pid, "--at-step", ahead, "--steps", 1)
    assert (target["first_step"], target["last_step"], target["about"]) == (ahead, ahead, False)
    assert dry_run(profd, job.pid, "--at-multiple", 1000)["first_step"] % 1000 == 0
    assert dry_run(profd, job.pid, "--repeat", 0)["cycles"] is None
    for arguments, said in ((["--step-range", "step"], "the next 3 steps of --step-range step, after 1 step of warm-up"),
                            (["--duration", "2s"], "the next 2.000 s")):
        target = dry_run(profd, job.pid, *arguments)
        assert (target["first_step"], target["last_step"], target["about"]) == (None, None, False)
        assert f"would record  {said}\n" in text(profd, job.pid, *arguments)
    assert dry_run(profd, job.pid, "--duration", "2s")["steps"] is None
    assert f"would record  steps {ahead} to {ahead + 2}, after 1 step of warm-up\n" in text(profd, job.pid, "--at-step", ahead)


def test_a_recipe(profd, tmp_path):
    job = steps(profd)
    (tmp_path / "recipe.json").write_text('{"active": 7, "with_stack": true}')
    target = dry_run(profd, job.pid, "--recipe", tmp_path / "recipe.json")
    assert target["steps"] == 7 and "operator_stacks" in target["collectors"]


def test_several_ranks(profd):
    """The ranks of a job would record the same steps; each is told of by itself."""
    jobs = [steps(profd, env={"RANK": str(rank), "WORLD_SIZE": "2", "PROFD_JOB": "77"}) for rank in range(2)]
    capture = profd.trigger(jobs[1].pid)["capture_id"]
    answer = profd.json("trigger", "--job", "77", "--dry-run", "--at-multiple", 1)
    by_rank = {target["rank"]: target for target in answer["targets"]}
    assert sorted(by_rank) == [0, 1] and [by_rank[rank]["pid"] for rank in (0, 1)] == [job.pid for job in jobs]
    assert (known(by_rank[0]), known(by_rank[1])) == ({}, {"measured": capture})
    (together,) = answer["together"]
    assert together["job"] == "77" and together["processes"] == 2 and "2 ranks of job 77 would " in together["message"]
    if together["at_step"]:
        assert {target["first_step"] for target in answer["targets"]} == {together["at_step"]}
    else:  # They were started one after the other, on a machine that may be busy.
        assert "do not count alike" in together["message"]
    assert all(profd.process(job.pid)["state"] == "idle" for job in jobs)


def both(profd, *arguments):
    """What a dry run says, and the trigger: exit code and sentences."""
    dry, real = [profd.run("trigger", *arguments, *more, check=False) for more in (["--dry-run"], [])]
    assert (dry.returncode, dry.stderr) == (real.returncode, real.stderr), arguments
    assert dry.returncode and not dry.stdout
    return dry


def test_refusals(profd):
    """What a trigger is refused at once a dry run is refused with the same sentence and exit code."""
    job, still = steps(profd), profd.job(STEPS, "--no-step")
    profd.wait_registered(still.pid)
    gone = subprocess.Popen(["true"])
    gone.wait()
    for arguments, code in ((["--pid", gone.pid], 3), (["--pid", os.getpid()], 3), (["--name", "nothing"], 3), (["--job", "nothing"], 3),
                            (["--pid", still.pid], 9), (["--pid", job.pid, "--at-step", 1], 1), ([], 2),
                            (["--pid", job.pid, "--at-step", 9, "--at-multiple", 3], 2), (["--pid", job.pid, "--all"], 2),
                            (["--pid", job.pid, "--duration", "1s", "--steps", 3], 2), (["--pid", job.pid, "--preset", "heavy"], 2),
                            (["--pid", job.pid, "--step-range", "a", "--at-step", 5000], 9), (["--pid", still.pid, "--pid", gone.pid], 9)):
        assert both(profd, *arguments).returncode == code, arguments
    trigger = profd.follow("--pid", job.pid, "--duration", "1h")
    wait_for(lambda: profd.process(job.pid)["state"] == "recording", what="the recording")
    assert both(profd, "--pid", job.pid).returncode == 8
    assert profd.process(job.pid)["state"] == "recording"
    # One of two: the other one is told of.
    done = profd.json("trigger", "--name", "steps", "--dry-run", codes=(8, 9))
    assert {row["code"] for row in done["refused"]} == {"busy", "no_step_source"} and not done["targets"]
    profd.run("cancel", "--all")
    trigger.communicate(timeout=60)


def test_options_that_do_not_go_with_it(profd):
    job = steps(profd)
    for option, word in ((["--attach"], "--attach"), (["--look", "1s"], "--look")):
        done = profd.run("trigger", "--pid", job.pid, "--dry-run", *option, check=False)
        assert done.returncode == 2 and word in done.stderr and not done.stdout
    assert profd.json("captures")["captures"] == []


def test_processes_that_would_be_waited_for(profd):
    done = profd.run("trigger", "--name", "later", "--wait-for", "5m", "--dry-run")
    assert "nothing matches now; processes would be waited for" in done.stdout and not done.stderr
    still = profd.job(STEPS, "--no-step", env={"PROFD_NAME": "later"})
    profd.wait_registered(still.pid)
    (target,) = profd.json("trigger", "--name", "later", "--wait-for", "5m", "--dry-run")["targets"]
    assert (target["pid"], target["outcome"]) == (still.pid, "would_wait")
    assert "has shown no steps yet: the trigger would wait for them" in profd.run("trigger", "--name", "later", "--wait-for", "5m", "--dry-run").stdout


def test_the_op_alone(profd):
    """A program of one's own asks the same; what a daemon does not know it refuses, and arms nothing."""
    job = steps(profd)
    fields = fake_agent.trigger_fields(targets={"pids": [job.pid]})
    *rows, end = fake_agent.ask(profd.socket, "estimate", **fields)
    assert [row["outcome"] for row in rows] == ["would_record"] and end == {"end": True}
    (error,) = fake_agent.ask(profd.socket, "estimate", **{**fields, "targets": {"descendants": True}})
    assert error["error"]["code"] == "usage"
    (error,) = fake_agent.ask(profd.socket, "estimates", **fields)
    assert error["error"]["code"] == "usage" and "older than the client" in error["error"]["message"]
    assert profd.process(job.pid)["state"] == "idle"


def test_a_job_of_torch(profd, torch_newest):
    """light, default and full are told apart."""
    job = Training(profd, torch_newest, "--model", "cnn", "--steps", 0, "--pad-ms", 5).go()
    profd.wait_steps(job.pid, 5)
    assert known(dry_run(profd, job.pid)) == {}
    default = profd.trigger(job.pid, "--steps", 3)["capture_id"]
    # CUPTI's part of --memory will not be there either.
    memory = dry_run(profd, job.pid, "--memory")
    assert [row["collector"] for row in memory["not_on"]] == ["cupti", "memory"]
    assert known(memory) == {"at_least": default} and memory["estimate"]["at_least"]["differs_by"] == ["allocations"]
    full = profd.trigger(job.pid, "--preset", "full", "--steps", 3)["capture_id"]
    assert known(dry_run(profd, job.pid)) == {"measured": default}
    assert known(dry_run(profd, job.pid, "--preset", "full")) == {"measured": full}
    assert known(dry_run(profd, job.pid, "--preset", "light")) == {"at_most": default}
    between = dry_run(profd, job.pid, "--shapes")
    assert known(between) == {"at_most": full, "at_least": default}
    assert "shapes" not in between["estimate"]["at_most"]["differs_by"] and between["estimate"]["at_least"]["differs_by"] == ["shapes"]
    figures = dry_run(profd, job.pid, "--preset", "full")["estimate"]["measured"]
    (row,) = [row for row in profd.json("captures")["captures"] if row["capture_id"] == full]
    assert figures["events_per_step"] == (row["events"] + 1) // 3 > 100
    assert profd.process(job.pid)["state"] == "idle"
