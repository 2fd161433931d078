"""Four ranks train over gloo while profd is asked for something else every two seconds: collectors, presets, units and lengths at random, other
collectors in mid-recording, cancellations. The job comes out as without profd, every capture has what was asked for, nothing grows.

PROFD_SOAK_SECONDS says for how long; ./dev test long soak sets it (30 minutes, its short form 150 s). PROFD_SOAK_SEED draws the same options again.
"""
import collections
import json
import os
import pathlib
import random
import re
import statistics
import time

import pytest

from conftest import WORKLOADS, wait_for

pytestmark = pytest.mark.serial
RANKS = 4
EVERY = 2.0  # seconds from one trigger to the next
LOOKS = 12  # how often it is looked at what the processes hold
# What processes may grow by between the second and the last quarter, in MiB: a leak of 20 KiB a capture is more in half an hour.
GROWTH_MAX = 8
LONG = 100000  # steps: such a recording ends by a cancellation only


def start(profd, python, folder, steps, agent):
    folder.mkdir()
    env = {"WORLD_SIZE": str(RANKS), "PROFD_JOB": "soak", "PYTHONPATH": str(WORKLOADS), "PYTHONWARNINGS": "ignore"}
    jobs = []
    for rank in range(RANKS):
        with open(folder / f"out-{rank}", "w") as out, open(folder / f"err-{rank}", "w") as err:
            jobs.append(profd.job(python, WORKLOADS / "ranks.py", folder / "ranks", folder / "stop", steps, agent=agent, stdout=out, stderr=err,
                                  env={**env, "RANK": str(rank)}))
    return jobs


def ended(jobs, folder):
    """What each rank printed, but for its pid."""
    for rank, job in enumerate(jobs):
        assert job.wait(300) == 0, (rank, job.returncode, (folder / f"err-{rank}").read_text()[-2000:])
    return [[line for line in (folder / f"out-{rank}").read_text().splitlines() if not line.startswith("ready")] for rank in range(RANKS)]


# ---- what is asked for

def drawn(chance, *ways):
    """One of them, or nothing, half the time."""
    return chance.choice(ways) if chance.random() < 0.5 else []


def collectors(chance):
    words = drawn(chance, *(["--preset", preset] for preset in ("light", "default", "full")))
    words += drawn(chance, ["--stacks"], ["--stacks", "--stacks-rate", chance.randint(1, 999)], ["--stacks=operators"])
    for flag in ("--shapes", "--memory", "--modules", "--no-gpu"):
        words += drawn(chance, [flag])
    return words


def length(chance):
    steps = ["--steps", chance.randint(1, 8)]
    return chance.choice([
        steps, steps + ["--warmup", chance.randint(0, 3)], steps + ["--at-multiple", chance.randint(2, 9)], steps + ["--unit", "batch"],
        steps + ["--repeat", 2, "--wait-steps", chance.randint(0, 4)], ["--duration", f"{chance.randint(20, 500)}ms"],
        ["--phase", "train", "--steps", chance.randint(1, 3)], ["--phase", "validation", "--steps", 1]])


def switches(chance):
    words = chance.sample(["stacks", "stacks=operators", "shapes", "memory", "modules", "nvtx", "torch", "compile"], chance.randint(1, 3))
    if "stacks" in words and "stacks=operators" in words:
        words.remove("stacks")
    return drawn(chance, *(["--preset", preset] for preset in ("light", "default", "full"))) + [chance.choice("+-") + word for word in words]


class Soak:
    def __init__(self, profd, jobs, seed):
        self.profd, self.pids, self.chance = profd, [job.pid for job in jobs], random.Random(seed)
        self.did, self.lost, self.last = collections.Counter(), 0, None

    def check(self, answer, asked, cancelled):
        """Every capture that was begun is whole, or says that it was cancelled, or that its phase was over."""
        assert answer["captures"] and not answer["refused"], (asked, answer)
        for capture in answer["captures"]:
            self.did[capture["status"]] += 1
            self.lost += capture["lost"]
            if capture["status"] == "complete":
                assert "--duration" in asked or capture["steps_recorded"] == capture["steps_wanted"], (asked, capture)
            else:
                explained = {"cancelled"} if cancelled else {"phase"} if "--phase" in asked else set()
                assert capture["reason_code"] in explained, (asked, capture)
        return answer["captures"]

    def where(self):
        return self.chance.choice([["--job", "soak"], ["--job", "soak"], ["--pid", self.chance.choice(self.pids)]])

    def whole(self):
        asked = [*self.where(), *length(self.chance), *collectors(self.chance), "--timeout", "100s"]
        self.last = asked
        return self.check(self.profd.json("trigger", *asked, codes=(0, 5) if "--phase" in asked else (0,)), asked, False)

    def followed(self, steps, act, cancelled):
        """A recording that is changed by act(captures) while it runs."""
        asked = [*self.where(), "--steps", steps, *collectors(self.chance)]
        self.last = asked
        client = self.profd.follow(*asked)
        pids = self.pids if "--job" in asked else [asked[1]]
        # One that is not long may have ended on one rank before it was seen on another.
        rows = wait_for(lambda: (rows := [self.profd.process(pid) for pid in pids]) and all(
            row["state"] == "recording" for row in rows) and rows or client.poll() is not None, 60, "the recording")
        if rows is not True:
            act([row["capture_id"] for row in rows])
        out, err = client.communicate(timeout=300)
        assert client.returncode in ((5, 130) if cancelled else (0,)), (asked, client.returncode, err)
        return self.check(json.loads(out), asked, cancelled)

    def switched(self):
        def act(captures):
            words = switches(self.chance)
            self.last = [*self.last, *words]
            # 1: a rank's recording has ended meanwhile, or goes on as it was, which is said; 3: all have ended.
            done = self.profd.run("set", *self.chance.choice([captures, captures[:1]]), *words, check=False)
            assert done.returncode in (0, 1, 3) or done.returncode == 2 and "nothing would change" in done.stderr, (words, done)
            assert done.returncode == 0 or done.stderr, words
            self.did["switched" if done.returncode == 0 else "not switched"] += 1
        return self.followed(self.chance.randint(20, 60), act, False)

    def cancelled(self):
        def act(captures):
            # Who is recorded is not recorded once more.
            busy = self.profd.run("trigger", "--pid", self.pid_of(captures[0]),
                                  "--steps", 1, check=False)
            assert busy.returncode == 8, busy
            time.sleep(self.chance.random())
            self.profd.run("cancel", *captures)
        return self.followed(LONG, act, True)

    def pid_of(self, capture):
        return next(pid for pid in self.pids if self.profd.process(pid)["capture_id"] == capture)

    def once(self):
        kind = self.chance.choice(["whole", "whole", "whole", "switched", "cancelled"])
        self.did[kind] += 1
        captures = getattr(self, kind)()
        if self.chance.random() < 0.3:
            self.profd.run("show", self.chance.choice(captures)["capture_id"])
        self.profd.run("rm", *(capture["capture_id"] for capture in captures))


# ---- what processes hold

def held(pid):
    """(MiB of its own, descriptors, threads)"""
    proc = pathlib.Path("/proc") / str(pid)
    rollup = (proc / "smaps_rollup").read_text()
    own = sum(int(re.search(rf"^{name}: *(\d+) kB", rollup, re.M)[1]) for name in ("Pss_Anon", "Pss_Shmem", "Swap"))
    return own / 1024, len(os.listdir(proc / "fd")), len(os.listdir(proc / "task"))


def look(profd, pids):
    """Of each rank and of the daemon, when nothing is recorded."""
    wait_for(lambda: all(profd.process(pid)["state"] == "idle" for pid in pids), 60, "the ranks to be idle")
    return [held(pid) for pid in [*pids, profd.daemon.pid]]


def check_growth(looks):
    """Nothing is more in the last quarter than in the second one; the first one has what is made once."""
    quarter = len(looks) // 4
    for who, of_one in enumerate(zip(*looks)):
        for what, most, values in zip(("MiB", "descriptors", "threads"), (GROWTH_MAX, 0, 0), zip(*of_one)):
            before, after = statistics.median(values[quarter:2 * quarter]), statistics.median(values[-quarter:])
            name = f"rank {who}" if who < RANKS else "the daemon"
            print(f"{name}: {before:.1f} {what} in the second quarter, {after:.1f} in the last one")
            assert after <= before + most, (name, what, values)


def test_a_job_of_four_ranks(profd, torch_newest, tmp_path):
    if "PROFD_SOAK_SECONDS" not in os.environ:
        pytest.skip("PROFD_SOAK_SECONDS is not set; ./dev test long soak sets it")
    seconds = float(os.environ["PROFD_SOAK_SECONDS"])
    seed = int(os.environ.get("PROFD_SOAK_SEED", time.time()))
    print(f"PROFD_SOAK_SEED={seed}")
    jobs = start(profd, torch_newest, tmp_path / "recorded", 0, True)
    for job in jobs:
        profd.wait_steps(job.pid, 3, 120)
    soak, looks = Soak(profd, jobs, seed), []
    began = time.monotonic()
    # On a machine that is slow in answering, longer: quarters of fewer looks say nothing.
    while (passed := time.monotonic() - began) < seconds or len(looks) < 8:
        soak.once()
        if passed >= len(looks) * seconds / LOOKS:
            looks.append(look(profd, soak.pids))
        assert profd.daemon.poll() is None and all(job.poll() is None for job in jobs), soak.last
        time.sleep(max(0, began + EVERY * (1 + (time.monotonic() - began) // EVERY) - time.monotonic()))
    (tmp_path / "recorded" / "stop").touch()
    said = ended(jobs, tmp_path / "recorded")
    print(f"{dict(soak.did)}; {soak.lost} records lost")
    check_growth(looks)
    steps = sum(line.startswith("step ") for line in said[0])
    assert steps > 20
    bare = start(profd, torch_newest, tmp_path / "bare", steps, False)
    assert ended(bare, tmp_path / "bare") == said
