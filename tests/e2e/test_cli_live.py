"""The real client, daemon and agent over a program that steps: each way to say what is to be recorded, and when."""
import json
import re
import signal
import subprocess

import pytest

from conftest import BUILD, WORKLOADS, hurry, wait_for
from test_capture import armed, ended

STEPS = BUILD / "workloads" / "steps"


def stepping(profd, *arguments, **more):
    job = profd.job(STEPS, *arguments, stdout=subprocess.DEVNULL, **more)
    profd.wait_registered(job.pid)
    if "--no-step" not in arguments:
        profd.wait_steps(job.pid, 1)
    return job


def test_windows_of_time(profd):
    """Of one process with steps and one without; the jobs live on and can be asked anything afterwards."""
    jobs = [stepping(profd, "--step-ms=10"), stepping(profd, "--no-step")]
    for _ in range(3):
        answer = profd.json("trigger", "--all", "--duration", "100ms")
        assert [c["status"] for c in answer["captures"]] == ["complete"] * 2
        for capture in answer["captures"]:
            shown = profd.show(capture["capture_id"])
            assert [s["number"] for s in shown["steps"]] == [None]
            assert 90e6 < shown["totals"]["wall_ns"] < 30e9 and shown["totals"]["kernels"] is None
        people = profd.run("show", answer["captures"][0]["capture_id"], "--by", "all").stdout
        assert "a window of time" in people and "KERNELS" in people and "not recorded" in people
        for job in jobs:
            profd.run("doctor", "--pid", job.pid)
            assert job.poll() is None
        assert profd.trigger(jobs[0].pid, "--steps", 2)["steps_recorded"] == 2


def test_cycles(profd):
    job = stepping(profd, "--step-ms=5")
    answer = profd.json("trigger", "--pid", job.pid, "--steps", 2, "--repeat", 3, "--wait-steps", 4, "--label", "cycles")
    assert [c["cycle"] for c in answer["captures"]] == [0, 1, 2]
    numbers = [[s["number"] for s in profd.show(c["capture_id"])["steps"]] for c in answer["captures"]]
    assert all(second == first + 1 for first, second in numbers)
    # Four pass, one warms up, and more where the room for the next cycle's events was not there yet.
    assert all(after[0] - before[1] >= 6 for before, after in zip(numbers, numbers[1:]))
    assert len(profd.json("captures", "--label", "cycles")["captures"]) == 3


def test_at_step(profd):
    job = stepping(profd, "--step-ms=10")
    at = profd.wait_steps(job.pid, 1)["step"] + 3500
    capture = armed(profd, job.pid, "--at-step", at, "--warmup", 2000, "--steps", 2)
    # It does so for two seconds, in which the collectors are switched on: a named step is not waited for.
    hurry(job)
    assert ended(profd, capture)["status"] == "complete"
    assert [s["number"] for s in profd.show(capture)["steps"]] == [at, at + 1]
    done = profd.run("trigger", "--pid", job.pid, "--at-step", 1, check=False)
    assert done.returncode == 1 and "later" in done.stderr


def test_several_processes(profd):
    jobs = [stepping(profd, "--step-ms=%d" % (5 + 20 * r), env={"RANK": str(r), "WORLD_SIZE": "3", "PROFD_JOB": "77"})
            for r in (2, 0, 1)]
    rows = profd.json("ps", "--job", "77")["processes"]
    assert [r["rank"] for r in rows] == [0, 1, 2]
    for job in jobs:
        profd.wait_steps(job.pid)
    done = profd.run("trigger", "--job", "77", "--steps", 3)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["0", "1", "2"]
    # One that is recorded already, one that is not there: the rest is recorded, and the exit code tells.
    held = profd.run("trigger", "--pid", jobs[0].pid, "--steps", 10000, "--no-wait").stdout.strip()
    answer = profd.json("trigger", "--pid", ",".join(str(j.pid) for j in jobs), codes=(8,))
    assert len(answer["captures"]) == 2 and [r["code"] for r in answer["refused"]] == ["busy"]
    profd.run("cancel", held)


def test_all_leaves_out_what_does_not_step(profd):
    """As a launcher that loads the agent too; unless there is nothing else."""
    nobody = profd.run("trigger", "--all", check=False)
    assert nobody.returncode == 3 and "no process that you may trigger is registered" in nobody.stderr, nobody
    idle = stepping(profd, "--no-step")
    assert profd.run("trigger", "--all", check=False).returncode == 9
    job = stepping(profd, "--step-ms=10")
    profd.wait_steps(job.pid)
    done = profd.run("trigger", "--all", "--format", "json")
    answer = json.loads(done.stdout)
    assert [c["pid"] for c in answer["captures"]] == [job.pid] and [r["pid"] for r in answer["refused"]] == [idle.pid]
    assert str(idle.pid) in done.stderr
    wait_for(lambda: "events, 0 dropped" in profd.daemon_log.read_text(), what="the daemon's own line")
    assert profd.run("trigger", "--pid", "%d,%d" % (job.pid, idle.pid), check=False).returncode == 9


def test_what_runs_is_not_counted_yet(profd):
    job = stepping(profd, "--step-ms=10")
    profd.wait_steps(job.pid)
    capture = profd.run("trigger", "--pid", job.pid, "--steps", 100000, "--no-wait").stdout.strip()
    row = wait_for(lambda: next((r for r in profd.json("captures")["captures"] if r["status"] == "recording"), None))
    assert row["capture_id"] == capture and row["events"] is None and row["lost"] is None and row["bytes"] is None
    assert profd.run("show", capture, check=False).returncode == 8
    assert profd.run("rm", capture, check=False).returncode == 8
    profd.wait_recorded(job.pid, 1)  # a step that is whole has events
    assert profd.run("cancel", "--pid", job.pid).stdout.strip() == capture
    row = wait_for(lambda: next((r for r in profd.json("captures")["captures"] if r["status"] == "incomplete"), None))
    assert row["reason_code"] == "cancelled" and row["events"] > 0
    profd.run("rm", capture)
    assert profd.run("show", capture, check=False).returncode == 3


def test_ctrl_c(profd):
    job = stepping(profd, "--step-ms=10")
    profd.wait_steps(job.pid)
    client = profd.follow("--pid", job.pid, "--steps", 100000)
    profd.wait_recorded(job.pid, 3)
    client.send_signal(signal.SIGINT)
    out, _ = client.communicate(timeout=120)
    capture = json.loads(out)["captures"][0]
    assert client.returncode == 130 and capture["status"] == "incomplete" and capture["steps_recorded"] > 0
    assert job.poll() is None and profd.process(job.pid)["state"] == "idle"


def test_time_limit(profd):
    job = stepping(profd, "--step-ms=20")
    profd.wait_steps(job.pid)
    done = profd.run("trigger", "--pid", job.pid, "--steps", 100000, "--timeout", "3s", check=False)
    assert done.returncode == 4 and "--timeout" in done.stderr and "incomplete" in done.stdout
    done = profd.run("trigger", "--pid", job.pid, "--step-range", "none", "--timeout", "2s", check=False)
    assert done.returncode == 4 and "--step-range" in done.stderr


def keys(value):
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


def test_json_is_documented(profd):
    """Every key that is printed stands in `profd help json`."""
    job = stepping(profd, "--step-ms=5")
    profd.wait_steps(job.pid)
    found = keys(profd.json("trigger", "--pid", job.pid, "--output", profd.folder / "t.json"))
    for line in (["ps"], ["captures"], ["show"], ["status"], ["doctor"], ["doctor", "--pid", job.pid], ["rm", "1"]):
        found |= keys(profd.json(*line, codes=(0, 3)))
    assert found - set(re.findall(r"\w+", profd.run("help", "json").stdout)) == set()


def check_shapes(profd, pid):
    """What is folded for the shapes' sake here is what derive folded for the totals."""
    capture = profd.trigger(pid, "--steps", 2, "--shapes")["capture_id"]
    figures = ("calls", "self_cpu_ns", "cpu_ns")
    for step in ([], ["--step", 2]):
        plain = {o["name"]: [o[f] for f in figures] for o in profd.show(capture, *step)["operators"]}
        added = {}
        for row in profd.show(capture, "--group-by-shapes", *step)["operators"]:
            so_far = added.setdefault(row["name"], [0, 0, 0])
            added[row["name"]] = [a + row[f] for a, f in zip(so_far, figures)]
        assert len(plain) > 50 and added == plain
        answer = profd.show(capture, *step)
        assert sum(t["operators"] for t in answer["threads"]) == answer["totals"]["operators"]


def cells(text, heading):
    """Of a table as people see it: the titles, and rows by name. Titles have two spaces between them."""
    lines = text[text.index("\n" + heading):].splitlines()[2:]
    titles = re.split(r"  +", lines[0].strip())
    end = next(i for i, line in enumerate(lines) if not re.search(r"  +[0-9]", line) and i)
    rows = [re.split(r"  +", line.strip()) for line in lines[1:end]]
    return {row[0]: dict(zip(titles, row)) for row in rows}


def check_share(profd, pid):
    """The share of an operator, and of a range, is the same one in `trigger` and in `show`, under the same title."""
    told = profd.run("trigger", "--pid", pid, "--steps", 2).stdout
    shown = profd.run("show").stdout
    # Both begin with the same screen.
    for text in ("\nWhere a step goes", " a step (", ", device not recorded\n", "\n  host      ", "--by all", "the recording: a step took "):
        assert text in told and text in shown, text
    for heading, title in (("Operators", "SELF CPU %"), ("Ranges", "WALL %")):
        first, second = cells(told, heading), cells(shown, heading)
        both = set(first) & set(second)
        assert both and all(first[name][title] == second[name][title] for name in both), (told, shown)
    line = re.search("Self CPU time total: .*", told)[0]
    assert line in shown
    answer = profd.json("show")
    assert answer["totals"]["self_cpu_ns"] == sum(o["self_cpu_ns"] for o in answer["operators"])
    shares = {o["name"]: o["self_cpu_percent"] for o in answer["operators"]}
    # A name in the table may be shortened.
    whole = {name: row for name, row in cells(told, "Operators").items() if name in shares}
    assert whole
    for name, row in whole.items():
        assert abs(float(row["SELF CPU %"].rstrip("%")) - shares[name]) < 0.052


@pytest.mark.core
def test_sums_and_shares(profd, torch_newest):
    """Of one job, as a start of torch takes its time."""
    job = profd.job(torch_newest, WORKLOADS / "train.py", "--model", "transformer", "--steps", 0, "--pad-ms", 20,
                    stdout=subprocess.DEVNULL)
    profd.wait_steps(job.pid, 3)
    check_shapes(profd, job.pid)
    check_share(profd, job.pid)
