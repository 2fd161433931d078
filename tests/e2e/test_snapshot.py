"""`profd snapshot`: what is picked, left in peace, compared, kept and deleted, with real jobs; exit codes for cron."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

import gpu
from conftest import BUILD, wait_for

STEPS = BUILD / "workloads" / "steps"


def start(profd, *options, job=None, name=None, rank=None):
    """A job that steps; its pid."""
    head = [str(profd.client), "run", *(["--job", job] if job else []), *(["--name", name] if name else []), "--"]
    process = profd.job(*head, STEPS, *options, agent=False, env={"RANK": str(rank)} if rank is not None else None)
    profd.wait_steps(process.pid, 3)
    return process.pid


def of(answer, pid):
    """The row of a process in profd.snapshot/1."""
    rows = [p for job in answer["jobs"] for p in job["processes"] if p["pid"] == pid]
    assert len(rows) == 1, answer
    return rows[0]


def captures(profd, *filters):
    done = profd.run("captures", "--limit", 1000, "--format", "json", *filters, check=False)
    return json.loads(done.stdout)["captures"]


def test_a_line_a_job(profd):
    """Ranks of a job are one line and one trigger; what shows no steps is skipped with the reason."""
    alone = start(profd, "--step-ms=10", name="alone")
    first = start(profd, "--step-ms=20", job="77", name="llama", rank=0)
    second = start(profd, "--step-ms=22", job="77", name="llama", rank=1)
    still = profd.job(STEPS, "--no-step")
    profd.wait_registered(still.pid)
    done = profd.run("snapshot", "--all", "--steps", 2)
    lines = sorted(done.stdout.splitlines())
    assert len(lines) == 3 and done.stderr == "", done
    assert re.fullmatch(rf"alone \(pid {alone}\): recorded, capture u\d+: step [\d.]+ ms, device busy not recorded", lines[0])
    assert re.fullmatch(r"llama \(job 77, 2 ranks\): recorded, captures u\d+ and u\d+(, from step \d+ on)?: step [\d.]+ ms "
                        r"\([\d.]+ ms to [\d.]+ ms\), device busy not recorded.*", lines[1]), lines[1]
    assert lines[2] == f"steps (pid {still.pid}): skipped: has shown no steps yet"
    rows = {c["pid"]: c for c in captures(profd, "--label", "snapshot")}
    assert set(rows) == {alone, first, second}
    assert all(c["steps_recorded"] == 2 and c["status"] == "complete" for c in rows.values())
    assert rows[first]["trigger_id"] == rows[second]["trigger_id"] != rows[alone]["trigger_id"]
    # Only what goes wrong is said to cron.
    quiet = profd.run("snapshot", "--all", "--quiet")
    assert quiet.stdout == quiet.stderr == ""


def test_json_and_csv(profd):
    pid = start(profd, "--step-ms=100", job="9", name="a,b")
    answer = profd.json("snapshot", "--job", "9", "--label", "mine")
    assert answer["schema"] == "profd.snapshot/1" and answer["label"] == "mine"
    assert (answer["recorded"], answer["skipped"], answer["failed"], answer["deleted"]) == (1, 0, 0, [])
    row = of(answer, pid)
    assert row["outcome"] == "recorded" and row["code"] is None and row["device_busy_percent"] is None
    assert row["idle_step_ns"] > 50e6 and row["step_ns"] > 0
    assert captures(profd, "--label", "mine")[0]["capture_id"] == row["capture_id"]
    lines = profd.run("snapshot", "--job", "9", "--format", "csv").stdout.splitlines()
    assert lines[0].startswith("job,name,user,uid,pid,rank,outcome") and lines[1].startswith('9,"a,b",')
    assert profd.run("snapshot", "--job", "9", "--format", "csv", "--quiet", check=False).returncode == 2


def test_picks(profd):
    fast = start(profd, "--step-ms=2", name="fast")
    slow = start(profd, "--step-ms=200", job="5", name="slow", rank=0)
    other = start(profd, "--step-ms=200", job="5", name="slow", rank=1)

    def picked(*options):
        answer = profd.json("snapshot", *options, "--steps", 1)
        return {p["pid"] for job in answer["jobs"] for p in job["processes"]}

    assert picked("--all") == {fast, slow, other}
    assert picked("--name", "sl*") == {slow, other}
    assert picked("--user", os.getuid()) == {fast, slow, other}
    assert picked("--all", "--min-step-time", "100ms") == {slow, other}
    assert picked("--job", "5", "--ranks", "1") == {other}
    assert picked("--job", "5", "--one-per-job") == {slow}
    assert picked("--pid", f"{fast},{other}") == {fast, other}
    assert picked("--pid", f"{fast},{other}", "--name", "slow") == {other}


def test_nothing_matches(profd):
    """Exit code 3, with a sentence; 0 and silence with --allow-none."""
    for options in (["--all"], ["--name", "none*"], ["--user", "nobody"], ["--job", "1"]):
        done = profd.run("snapshot", *options, check=False)
        assert done.returncode == 3 and "no registered process matches" in done.stderr
        done = profd.run("snapshot", *options, "--allow-none")
        assert done.stdout == done.stderr == ""
    pid = start(profd, "--step-ms=2")
    done = profd.run("snapshot", "--all", "--min-step-time", "1s", check=False)
    assert done.returncode == 3 and "1 process would match but steps in less than 1.000 s" in done.stderr
    done = profd.run("snapshot", "--pid", f"{pid},1", check=False)
    assert done.returncode == 3 and "process 1 is not registered" in done.stderr and "recorded" in done.stdout
    answer = profd.json("snapshot", "--name", "none*", "--allow-none")
    assert answer["jobs"] == [] and answer["recorded"] == 0


def test_usage(empty_profd):
    for options, sentence in (
            ([], "--all, --name GLOB"),
            (["--all", "--job", "1"], "--all means every process"),
            (["--all", "--ranks", "3-1"], "ranks are wanted"),
            (["--all", "--ranks", "1", "--one-per-job"], "not both"),
            (["--all", "--if-slower-than", "fast"], "such as 1.2x"),
            (["--all", "--if-slower-than", "1.2", "--keep", "2"], "--keep 3 or more"),
            (["--all", "--label", ""], "needs a label"),
            (["--all", "--keep", "0"], "at least 1"),
            (["--all", "--max-parallel", "1000"], "at most 64")):
        done = empty_profd.run("snapshot", *options, check=False)
        assert done.returncode == 2 and sentence in done.stderr, (options, done.stderr)
    assert empty_profd.run("snapshot", "--all", check=False).returncode == 7


def test_keep(profd):
    """The newest N of each job and rank; never another label's, another job's, or by hand."""
    one = start(profd, "--step-ms=5", job="1", name="t")
    two = start(profd, "--step-ms=5", job="2", name="t")
    twin = start(profd, "--step-ms=5", name="same")
    other_twin = start(profd, "--step-ms=5", name="same")
    by_hand = profd.trigger(one, "--steps", 1)["capture_id"]
    profd.json("snapshot", "--all", "--steps", 1, "--label", "weekly")
    profd.json("snapshot", "--job", "2", "--steps", 1)
    deleted = []
    for i in range(4):
        deleted.append(profd.json("snapshot", "--all", "--steps", 1, "--keep", 2)["deleted"])
    assert [len(d) for d in deleted] == [0, 1, 4, 4]
    left = captures(profd, "--label", "snapshot")
    assert sorted(c["pid"] for c in left) == sorted([one, one, two, two, twin, twin, other_twin, other_twin])
    newest = {c["capture_id"] for c in left}
    assert not newest & {i for ids in deleted for i in ids}
    assert len(captures(profd, "--label", "weekly")) == 4
    assert by_hand in {c["capture_id"] for c in captures(profd)}


def test_keep_leaves_pinned_ones(profd):
    """They stay, and do not count; and the list of what was deleted says why."""
    start(profd, "--step-ms=5", job="1", name="t")

    def snapshot(*options):
        return profd.json("snapshot", "--all", "--steps", 1, *options)

    first = snapshot()["jobs"][0]["processes"][0]["capture_id"]
    profd.run("pin", first)
    deleted = [i for _ in range(4) for i in snapshot("--keep", 2)["deleted"]]
    left = captures(profd, "--label", "snapshot")
    assert len(left) == 3 and first in {c["capture_id"] for c in left} and len(deleted) == 2
    gone = profd.json("captures", "--deleted")["deleted"]
    assert {c["capture_id"] for c in gone} == set(deleted) and all("--keep" in c["reason"] for c in gone), gone


def test_a_job_started_again(profd):
    """Without a job's id the name is the job: a second run goes on where the first one ended."""
    first = start(profd, "--step-ms=5", name="nightly")
    for i in range(2):
        profd.json("snapshot", "--name", "nightly", "--steps", 1)
    os.kill(first, signal.SIGTERM)
    wait_for(lambda: not profd.process(first))
    second = start(profd, "--step-ms=5", name="nightly")
    assert len(profd.json("snapshot", "--name", "nightly", "--steps", 1, "--keep", 2)["deleted"]) == 1
    assert sorted(c["pid"] for c in captures(profd, "--label", "snapshot")) == sorted([first, second])


def test_if_slower_than(profd):
    """Recorded without a history, skipped while as fast as ever, recorded when it has become slow."""
    # Far apart: a full machine alone makes steps longer.
    pid = start(profd, "--step-ms=50", "--slow-ms=600", job="3", name="t")
    options = ["snapshot", "--job", "3", "--if-slower-than", "4x", "--steps", 2]
    for i in range(3):
        row = of(profd.json(*options), pid)
        assert (row["outcome"], row["history"], row["history_median_ns"]) == ("recorded", i, None)
    row = of(profd.json(*options), pid)
    assert (row["outcome"], row["code"], row["history"]) == ("skipped", "not_slower", 3)
    assert 25e6 < row["history_median_ns"] < 150e6
    line = profd.run(*options).stdout
    assert re.fullmatch(r"t \(job 3\): skipped: steps in [\d.]+ ms, not slower than 4x the median of its 3 snapshots, "
                        r"[\d.]+ ms\n", line)
    os.kill(pid, signal.SIGUSR1)
    wait_for(lambda: profd.process(pid)["step_ns"] > 550e6, what="slow steps")
    line = profd.run(*options).stdout
    assert float(re.search(r"recorded, .*; (\d+\.\d+)x the median of its 3 snapshots\n", line)[1]) > 4, line
    # What it was then stays with the capture.
    assert len(captures(profd, "--label", "snapshot")) == 4


def test_is_being_recorded(profd):
    """By profd itself: skipped, and the other recording is complete."""
    pid = start(profd, "--step-ms=200", name="t")
    trigger = subprocess.Popen([str(profd.client), "trigger", "--pid", str(pid), "--steps", "400", "--format", "json"],
                               env=profd.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    busy = wait_for(lambda: profd.process(pid)["capture_id"])
    done = profd.run("snapshot", "--all")
    assert done.stdout == f"t (pid {pid}): skipped: is being recorded (capture {busy})\n"
    os.kill(pid, signal.SIGUSR2)  # its steps are quick from now on
    assert json.loads(trigger.communicate(timeout=600)[0])["captures"][0]["status"] == "complete"
    assert trigger.returncode == 0


def test_stands_still(profd):
    """What is stopped would only run into the timeout."""
    pid = start(profd, "--step-ms=200", name="t")
    row = of(profd.json("snapshot", "--all", "--steps", 20, "--timeout", "2s"), pid)
    assert (row["outcome"], row["code"]) == ("skipped", "slow") and "do not fit into --timeout" in row["reason"]
    os.kill(pid, signal.SIGSTOP)
    try:
        answer = profd.json("snapshot", "--all", "--steps", 1, "--timeout", "1s", codes=(1, 4))
        assert of(answer, pid)["outcome"] in ("failed", "incomplete") and answer["recorded"] == 0
        quiet = profd.run("snapshot", "--all", "--steps", 1, "--timeout", "1s", "--quiet", check=False)
        assert quiet.returncode in (1, 4, 8) and quiet.stdout == ""
    finally:
        os.kill(pid, signal.SIGCONT)


def test_exits_in_mid_snapshot(profd):
    pid = start(profd, "--step-ms=50", name="t")
    snapshot = subprocess.Popen([str(profd.client), "snapshot", "--all", "--steps", "500"], env=profd.env, stdout=subprocess.PIPE, text=True)
    profd.wait_recorded(pid, 3)
    os.kill(pid, signal.SIGTERM)
    out, _ = snapshot.communicate(timeout=600)
    assert snapshot.returncode == 5 and re.match(rf"t \(pid {pid}\): incomplete, capture u\d+: ", out), out


def test_runs_do_not_pile_up(profd):
    """The second says so and ends; another label is another matter; a killed run leaves no lock behind."""
    pid = start(profd, "--step-ms=100", name="t")
    line = [str(profd.client), "snapshot", "--all", "--steps", "400"]
    first = subprocess.Popen(line, env=profd.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: profd.process(pid)["state"] != "idle")
    second = profd.run("snapshot", "--all", "--quiet", check=False)
    assert second.returncode == 8 and f"(pid {first.pid})" in second.stderr and first.poll() is None
    assert "is being recorded" in profd.run("snapshot", "--all", "--label", "other").stdout
    first.kill()
    first.wait()
    profd.run("cancel", "--pid", pid)  # whose client is gone goes on
    wait_for(lambda: profd.process(pid)["state"] == "idle")
    profd.run("snapshot", "--all", "--steps", "1")


def test_what_lies_in_the_locks_place(profd):
    """A link is not followed, whatever somebody put there; a folder that others may write is not used."""
    start(profd, "--step-ms=20", name="t")
    run, victim = profd.folder / "run", profd.folder / "victim"
    run.mkdir(mode=0o700)
    victim.write_text("untouched\n")
    profd.env["XDG_RUNTIME_DIR"] = str(run)
    take = lambda: profd.run("snapshot", "--all", "--steps", "1", check=False)
    assert take().returncode == 0
    (lock,) = (run / "profd").glob("snapshot-*.lock")
    lock.unlink()
    lock.symlink_to(victim)
    done = take()
    assert done.returncode == 0 and "runs are not kept apart" in done.stderr and lock.name in done.stderr, done
    assert victim.read_text() == "untouched\n"
    # A FIFO that nobody reads keeps nobody waiting.
    lock.unlink()
    os.mkfifo(lock)
    assert take().returncode == 0
    lock.unlink()
    (run / "profd").chmod(0o777)
    take()
    assert not list((run / "profd").iterdir())


def test_stagger_and_parallel(profd):
    """One after the other, spread over the time; at most so many at once; never two of one job."""
    pids = [start(profd, "--step-ms=20", job=str(i), name="t") for i in range(3)]
    began = time.monotonic()
    profd.run("snapshot", "--all", "--steps", 2, "--stagger", "2s")
    took = time.monotonic() - began
    times = sorted((c["started_at"], c["finished_at"]) for c in captures(profd, "--label", "snapshot"))
    assert len(times) == 3 and 1.2 < took
    assert all(times[i][0] >= times[i - 1][1] for i in (1, 2)), times
    # All three at once: as long as one.
    profd.run("snapshot", "--all", "--steps", 400, "--max-parallel", 3, "--label", "p")
    times = sorted((c["started_at"], c["finished_at"]) for c in captures(profd, "--label", "p"))
    assert max(start for start, _ in times) < min(end for _, end in times), times
    assert {c["pid"] for c in captures(profd, "--label", "p")} == set(pids)


def test_ctrl_c(profd):
    """Ends what is being recorded, keeps it, begins nothing new."""
    for i in range(2):
        start(profd, "--step-ms=50", job=str(i), name="t")
    process = subprocess.Popen([str(profd.client), "snapshot", "--all", "--steps", "500"], env=profd.env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    wait_for(lambda: any(c["status"] == "recording" for c in captures(profd)))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130 and out.count("\n") == 1 and "incomplete" in out, (out, err)
    assert len(captures(profd)) == 1


def test_bare_environment(profd, tmp_path):
    """As cron runs it: no XDG_RUNTIME_DIR, a bare PATH, another folder."""
    start(profd, "--step-ms=5", name="t")
    bare = {"PATH": "/usr/bin:/bin", "HOME": "/", "SHELL": "/bin/sh", "PROFD_SOCKET": str(profd.socket)}
    done = subprocess.run([str(profd.client), "snapshot", "--all"], env=bare, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.count(": recorded") == 1


TORCH_JOB = """
import sys, time, torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    optimizer.zero_grad(); model(torch.ones(4, 8)).sum().backward(); optimizer.step(); time.sleep(0.02)
for i in range(5):
    step()
open(sys.argv[1] + ".1", "w").close()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    step()
    open(sys.argv[1] + ".2", "w").close()
    import os
    while not os.path.exists(sys.argv[1] + ".3"):
        step()
open(sys.argv[1] + ".4", "w").close()
end = time.monotonic() + 600
while time.monotonic() < end:
    step()
"""


def test_torch_profiler_is_left_in_peace(profd, torch, tmp_path):
    """While torch.profiler is at work: skipped; before and after: recorded."""
    mark = tmp_path / "mark"
    job = profd.job(torch, "-c", TORCH_JOB, mark, stderr=subprocess.DEVNULL)
    wait_for(lambda: (tmp_path / "mark.2").exists(), 90, "torch.profiler")
    profd.wait_steps(job.pid, 8)
    row = of(profd.json("snapshot", "--pid", job.pid), job.pid)
    assert (row["outcome"], row["code"], row["reason"]) == ("skipped", "profiled", "torch.profiler is at work there")
    assert "torch.profiler is at work" in profd.run("doctor", "--pid", job.pid).stdout.replace("\n", " ")
    (tmp_path / "mark.3").touch()
    wait_for(lambda: (tmp_path / "mark.4").exists(), 60, "the end of torch.profiler")
    step = profd.process(job.pid)["step"]
    profd.wait_steps(job.pid, step + 3)
    row = of(profd.json("snapshot", "--pid", job.pid), job.pid)
    assert row["outcome"] == "recorded", row


WAITING_JOB = """
import os, sys, time, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def steps(until, profiler=None):
    end = time.monotonic() + 600
    while not os.path.exists(sys.argv[1] + until) and time.monotonic() < end:
        optimizer.zero_grad()
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        if profiler:
            profiler.step()
        time.sleep(0.01)
steps(".1")
schedule = torch.profiler.schedule(wait=1000000, warmup=1, active=1)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule) as profiler:
    steps(".2", profiler)
open(sys.argv[1] + ".3", "w").close()
steps(".4")
"""


def test_doctor_tells_of_a_profiler_that_waits(profd, torch, tmp_path):
    """Of one that its schedule lets wait, too, which is in nobody's way: snapshots go on."""
    mark = tmp_path / "mark"
    job = profd.job(torch, "-c", WAITING_JOB, mark, stderr=subprocess.DEVNULL)

    def sentence():
        rows = profd.json("doctor", "--pid", job.pid)["collectors"]
        return next(row["sentence"] for row in rows if row["collector"] == "torch")
    profd.wait_registered(job.pid)
    profd.wait_steps(job.pid, 3)
    assert "torch.profiler" not in sentence()
    (tmp_path / "mark.1").touch()
    wait_for(lambda: "a torch.profiler there waits in its schedule" in sentence(), 30, "the profiler in the sentence")
    assert "waits in its schedule" in " ".join(profd.run("doctor", "--pid", job.pid).stdout.split())
    assert of(profd.json("snapshot", "--pid", job.pid), job.pid)["outcome"] == "recorded"
    (tmp_path / "mark.2").touch()
    wait_for(lambda: (tmp_path / "mark.3").exists(), 30, "the end of the profiler")
    # It may have been between two of its own until the job's next step.
    profd.wait_steps(job.pid, profd.process(job.pid)["step"] + 1)
    assert "torch.profiler" not in sentence()


def test_nvtx_of_another_tool(profd):
    """NVTX_INJECTION64_PATH names who the job is profiled by."""
    process = profd.job(STEPS, "--step-ms=5", env={"NVTX_INJECTION64_PATH": "/opt/other/libOther.so"})
    profd.wait_steps(process.pid, 3)
    row = of(profd.json("snapshot", "--pid", process.pid), process.pid)
    assert (row["outcome"], row["code"]) == ("skipped", "profiled") and "libOther.so" in row["reason"]
    # A trigger by hand is somebody's own decision.
    assert profd.trigger(process.pid, "--steps", 1)["status"] == "complete"


@pytest.mark.parametrize("release", ["12.4", gpu.NEWEST])
def test_gpu(profd, release):
    """Busy time and kernels of a (simulated) GPU, in the line and in the history."""
    job = gpu.start(profd, release)
    for _ in range(3):
        line = profd.run("snapshot", "--pid", job.pid).stdout
    busy = re.search(r": recorded, capture u\d+: step [\d.]+ m?u?s, device busy ([\d.]+)%\n", line)
    assert busy and float(busy.group(1)) > 0, line
    [series] = profd.json("history")["series"]
    last = series["snapshots"][-1]
    assert abs(last["device_busy_percent"] - float(busy.group(1))) < 0.06 and last["simulated"]
    assert all(r["kernels"] and r["kernels"][0]["total_ns"] > 0 for r in series["snapshots"])
    text = profd.run("history").stdout
    assert "Kernels by time a step (simulated GPU)" in text and "device busy  " in text
    assert "not recorded" not in text.split("Kernels by time")[0].split("operators:")[0]
    gpu.finish(job)


def test_cupti_of_another_tool(profd):
    """In a program without torch, whoever records with CUPTI is at work. By hand the rest is recorded."""
    # Somebody who has it has loaded it.
    release = gpu.NEWEST
    library = next((BUILD / "sim" / release).glob("libcupti.so.*")) if (BUILD / "sim" / release).exists() else ""
    env = gpu.environment(release, "enabled_kinds=1024")
    job = profd.job(gpu.WORKLOAD, "--rate=100", env={**env, "LD_PRELOAD": str(library)})
    profd.wait_steps(job.pid, 3)
    row = of(profd.json("snapshot", "--pid", job.pid), job.pid)
    assert (row["outcome"], row["code"]) == ("skipped", "profiled") and "CUPTI is held by another tool" in row["reason"], row
    assert profd.trigger(job.pid, "--steps", 1)["status"] == "complete"
    # It is as before: neither held nor left open by having asked.
    assert of(profd.json("snapshot", "--pid", job.pid), job.pid)["code"] == "profiled"
    gpu.finish(job)


def test_cupti_with_kinds_enabled(profd):
    """A client of CUPTI that has no subscriber is seen, from 13.2 on, by what it has switched on, and only for so long."""
    release = gpu.NEWEST
    env = gpu.environment(release)
    library = next((BUILD / "sim" / release).glob("libcupti.so.*"))
    report = profd.folder / "other.json"
    job = profd.job(gpu.WORKLOAD, "--rate=100", env={**env, "LD_PRELOAD": str(BUILD / "workloads" / "libcupti_other.so"),
                                                     "CUPTI_OTHER_LIBRARY": str(library), "CUPTI_OTHER_FILE": str(report)})
    profd.wait_steps(job.pid, 3)

    def snapshot():
        return of(profd.json("snapshot", "--pid", job.pid), job.pid)

    assert snapshot()["outcome"] == "recorded"
    job.send_signal(signal.SIGUSR1)
    row = wait_for(lambda: (lambda r: r if r["outcome"] == "skipped" else None)(snapshot()), 10, "the other client")
    assert row["code"] == "profiled" and "CUPTI" in row["reason"], row
    # It is to have recorded something meanwhile.
    profd.wait_steps(job.pid, profd.process(job.pid)["step"] + 3)
    job.send_signal(signal.SIGUSR1)
    wait_for(report.exists, 20, "the other client's end")
    assert snapshot()["outcome"] == "recorded"
    gpu.finish(job)
    got = json.loads(report.read_text())
    assert got["errors"] == 0 and got["foreign"] == 0 and got["kernels"] > 0, got


def test_cupti_that_nobody_uses(profd):
    """A program that has loaded CUPTI, without more, is recorded; so is one whose first snapshot we took."""
    if not (BUILD / "sim" / "12.4").exists():
        gpu.environment("12.4")
    library = next((BUILD / "sim" / "12.4").glob("libcupti.so.*"))
    job = profd.job(gpu.WORKLOAD, "--rate=100", env={**gpu.environment("12.4"), "LD_PRELOAD": str(library)})
    profd.wait_steps(job.pid, 3)
    for _ in range(3):
        row = of(profd.json("snapshot", "--pid", job.pid), job.pid)
        assert row["outcome"] == "recorded" and row["device_busy_percent"] > 0, row
    gpu.finish(job)
