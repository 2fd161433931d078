"""A step whose thread waits for a processor: by a rival on the same one, and by the quota of its cgroup."""

import contextlib
import os
import pathlib
import signal
import sqlite3
import statistics
import subprocess

import pytest
from conftest import WORKLOADS, wait_for

JOB = r'''
import os, time, torch, without_compiler
torch.set_num_threads(1)
a, model = torch.randn(200, 200), torch.nn.Linear(200, 200)
optimizer = torch.optim.SGD(model.parameters(), 1e-9)
open(os.environ["READY"], "w").close()
while True:
    until = time.thread_time() + 0.04
    while time.thread_time() < until:
        model(a)
    model(a).sum().backward()
    optimizer.step()
'''
NO_COMPILER = {"PYTHONPATH": str(WORKLOADS)}  # where the jobs' without_compiler.py is
SHARE = 10  # percent: what makes a finding


def start(profd, python, prefix=()):
    ready = profd.folder / "ready"
    job = profd.job(*prefix, python, "-c", JOB, env={**NO_COMPILER, "READY": str(ready)})
    wait_for(ready.exists, 60, "the job")
    profd.wait_steps(job.pid, 3)
    return job


def waited(steps):
    """Per cent of a step that its thread waited, the median; None where few steps are known: on a busy machine the agent looks seldom."""
    shares = [100 * step["thread_waited_ns"] / step["wall_ns"] for step in steps if step["thread_waited_ns"] is not None]
    return statistics.median(shares) if len(shares) >= len(steps) / 2 else None


def look(profd, job, *more):
    """(the finding or None, what the steps say, facts of the file, the capture)"""
    capture = profd.trigger(job.pid, "--steps", 12, "--no-gpu", *more)
    shown = profd.show(capture["capture_id"])
    found = [one for one in shown["findings"] if one["finding"] == "processor"]
    with contextlib.closing(sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True)) as db:
        facts = dict(db.execute("SELECT key, value FROM meta WHERE key GLOB 'processors*' OR key GLOB 'quota*'"))
    return (found[0] if found else None), waited(shown["steps"]), facts, capture


def found(profd, job, *more):
    """The same, with a finding. Where the agent's first look came when the first step had begun nothing is known of the steps together: once more."""
    def look_again():
        seen = look(profd, job, *more)
        return seen[0] and seen
    return wait_for(look_again, what="a finding of the processor")


def test_a_rival_on_the_same_processor(profd, torch_newest):
    one = sorted(os.sched_getaffinity(0))[-1]
    job = start(profd, torch_newest, ("taskset", "-c", one))
    rival = subprocess.Popen(["taskset", "-c", str(one), "sh", "-c", "while :; do :; done"])
    profd.jobs.append(rival)
    finding, share, facts, capture = found(profd, job, "--stacks")
    assert finding["share"] > 0.25
    # Samples tell where the thread stood, not whether it had a processor.
    assert " of it at " not in finding["evidence"]
    assert share is None or abs(100 * finding["share"] - share) < 12, (finding, share)
    assert facts["processors_allowed"] == 1 and facts["processors"] == os.cpu_count()
    if os.cpu_count() > 1:
        assert f"It may run on 1 of {os.cpu_count()} processors." in finding["evidence"]
    text = profd.run("show", capture["capture_id"]).stdout
    assert "The step's thread waits for a processor" in text and "OMP_NUM_THREADS" in text
    listed = profd.run("show", capture["capture_id"], "--finding", [f["finding"] for f in profd.show(capture["capture_id"])["findings"]].index("processor") + 1)
    assert "thread_times" in listed.stdout
    rival.send_signal(signal.SIGKILL)
    rival.wait()
    # Alone on it, or beside what else runs on this machine: the figure is what the thread waited.
    finding, share, _, _ = look(profd, job)
    assert share is None or bool(finding) == (share >= SHARE) or abs(share - SHARE) < 5, (finding, share)


@contextlib.contextmanager
def quota(profd, processors):
    """A cgroup that may use so much: a function that moves a job into it."""
    name = f"profd-test-{os.getpid()}"
    v1, v2 = pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup")
    group = (v1 if v1.is_dir() else v2) / name
    try:
        group.mkdir()
        limit = group / ("cpu.cfs_quota_us" if v1.is_dir() else "cpu.max")
        limit.write_text(f"{int(processors * 100000)}" + ("" if v1.is_dir() else " 100000"))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"no cgroup with a quota can be made here: {error}")
    try:
        yield lambda job: (group / "cgroup.procs").write_text(str(job.pid))
    finally:
        for job in profd.jobs:
            job.kill()
            job.wait()
        wait_for(lambda: not (group / "cgroup.procs").read_text(), 20, "the group to be empty")
        group.rmdir()


def test_the_quota_of_a_cgroup(profd, torch_newest):
    """The quota is so small that a job uses it up on a busy machine too."""
    job = start(profd, torch_newest)
    with quota(profd, 0.1) as enter:
        enter(job)
        finding, _, facts, _ = found(profd, job)
        assert finding["share"] > 0.25
        assert facts["processors_limit"] == 100 and 0 < facts["quota_stopped"] <= facts["quota_periods"]
        assert "Its cgroup may use 0.1 processors, and used that up and was stopped in " in finding["evidence"]
        assert "limits.cpu" in finding["try"]


def test_what_is_not_known_is_not_found(profd, torch_newest):
    """Without looks at the thread, and with those of a file that says anything."""
    job = start(profd, torch_newest)
    _, _, _, capture = look(profd, job)
    for number, change in enumerate(("DELETE FROM thread_times", "UPDATE thread_times SET waited = 1 << 62, cpu = 1 << 62",
                                     "UPDATE thread_times SET waited = -waited", "UPDATE thread_times SET time = 5")):
        copy = profd.folder / f"{number}.db"
        copy.write_bytes(profd.file(capture["capture_id"]).read_bytes())
        with contextlib.closing(sqlite3.connect(copy)) as db:
            db.execute(change)
            db.commit()
        found = profd.show(copy, "--step", 2)["findings"]
        assert not any(one["finding"] == "processor" for one in found), (change, found)


LOADER = r'''
import time, torch, without_compiler
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 100000
    def __getitem__(self, number):
        time.sleep(0.03)
        return torch.randn(8)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 1e-9)
# Few batches are ready when the loop had no processor for a while: then it soon waits again.
for batch in torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2, prefetch_factor=1):
    model(batch).sum().backward()
    optimizer.step()
'''


def test_what_the_workers_did(profd, torch_newest):
    """The advice for an input that is late depends on it: more workers help where these wait for data, or run all the time."""
    job = profd.job(torch_newest, "-c", LOADER, env=NO_COMPILER)
    profd.wait_steps(job.pid, 3)
    capture = profd.trigger(job.pid, "--steps", 16, "--no-gpu")
    finding = next(one for one in profd.show(capture["capture_id"])["findings"] if one["finding"] == "input")
    assert "2 workers ran " in finding["evidence"]
    for number, (change, evidence, advice) in enumerate((
            ("UPDATE workers SET cpu = duration * 3 / 10, waited = duration * 6 / 10", "ran 30 % of the time, and waited 60 % for a processor", "More workers would wait"),
            ("UPDATE workers SET cpu = duration / 10, waited = 0", "ran 10 % of the time, and waited 0 %", "mostly wait for their data"),
            ("UPDATE workers SET cpu = duration, waited = 0", "ran 100 % of the time, and waited 0 %", "Try more workers"),
            ("UPDATE workers SET cpu = 1 << 62, waited = 1 << 62", "do not keep up.", "Try more workers"),
            ("UPDATE workers SET duration = -5", "do not keep up.", "Try more workers"),
            ("DROP TABLE workers", "do not keep up.", "Try more workers"))):
        copy = profd.folder / f"{number}.db"
        copy.write_bytes(profd.file(capture["capture_id"]).read_bytes())
        with contextlib.closing(sqlite3.connect(copy)) as db:
            db.execute(change)
            db.commit()
        step = max(profd.show(copy)["breakdown"]["steps"], key=lambda one: one["host"]["rows"].get("input", 0) / one["wall_ns"])["step"]
        found = next(one for one in profd.show(copy, "--step", step)["findings"] if one["finding"] == "input")
        assert evidence in found["evidence"] and advice in found["try"], (change, found)
        assert ("workers ran" in found["evidence"]) == ("%" in evidence), found
