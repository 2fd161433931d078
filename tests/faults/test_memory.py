"""Jobs whose allocators' slots are patched (trigger --memory) while something else happens to the slots, to the libraries or to the job.
The libraries are stand-ins for torch's (tests/workloads/libc10.c, libc10_cuda.c)."""
import array
import json
import shutil
import sqlite3
import subprocess
import time

import pytest

from conftest import same_job
from house import BUILD, ROOT, wait_for

WORKLOAD = BUILD / "workloads" / "memory_slots"
LAZY = BUILD / "workloads" / "libc10_cuda.so"
# {how the caller is linked: flags}
LAZILY = "with slots that are bound at their first call"
LINKED = {LAZILY: ["-z", "lazy", "-z", "norelro"],
          "with full RELRO": ["-z", "now", "-z", "relro"],
          "with slots that are bound at once, and stay open": ["-z", "now", "-z", "norelro"]}


def linked(profd, flags, *more):
    library = profd.folder / "libc10_cuda.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", ROOT / "tests/workloads/libc10_cuda.c", LAZY.with_name("libc10.so"), "-o", library,
                    f"-Wl,-rpath,{LAZY.parent}", "-Wl,-soname,libc10_cuda.so", *[f"-Wl,{flag}" for flag in flags], *more], check=True)
    return library


class Slots:
    """The job, its row, and what its allocators told of in each step."""

    def __init__(self, row, profd, mode, caller=LAZY, **more):
        self.row, self.profd = row, profd
        self.tell, self.go = profd.folder / "tell", profd.folder / "go"
        self.line = [WORKLOAD, f"--caller={caller}", f"--mode={mode}", f"--tell={self.tell}", f"--go={self.go}",
                     *[f"--{name}={value}" for name, value in more.items()]]
        self.recorded, self.losses, self.produced = 0, [], 0

    def twice(self, during, mask=same_job, go=True, **more):
        """go: what the mode does once is done in the bare run as well."""
        if go:
            self.go.touch()

        def before():
            self.go.unlink(missing_ok=True)
            self.tell.unlink()

        def act(job):
            self.profd.wait_steps(job.pid, 3)
            return during(job)
        return self.row.twice(self.profd, self.line, act, mask, before=before, **more)

    def add(self, capture):
        """What a capture has and lacks of its steps, and what was produced in them."""
        told = array.array("I", self.tell.read_bytes())
        with sqlite3.connect(f"file:{self.profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
            self.recorded += db.execute("SELECT count(*) FROM framework_allocations WHERE step IS NOT NULL").fetchone()[0]
            losses = db.execute("SELECT kind, loss, count FROM losses WHERE is_loss AND count").fetchall()
            numbers = [number for number, in db.execute("SELECT number FROM steps")]
        self.losses += losses
        self.produced += sum(told[number] for number in numbers)
        assert numbers and self.recorded, capture
        return self

    def holds(self):
        self.row.counts(self.recorded, self.losses, self.produced)


@pytest.mark.parametrize("how, linker", [*((how, None) for how in LINKED), *((LAZILY, linker) for linker in ("gold", "lld", "mold"))])
def test_linked(row, profd, how, linker):
    if linker and not shutil.which(f"ld.{linker}"):
        pytest.skip(f"no {linker} here")
    row.does(f"--memory: calls libc10 from a library {how}" + (f" ({linker})" if linker else ""))
    slots = Slots(row, profd, "plain", linked(profd, LINKED[how], *[f"-fuse-ld={linker}"] * bool(linker)))

    def during(job):
        for capture in [profd.trigger(job.pid, "--memory", "--steps", 8) for _ in range(3)]:
            assert capture["status"] == "complete" and capture["lost"] == 0, capture
            slots.add(capture)

    slots.twice(during)
    slots.holds()


def complete(profd, slots, job, *arguments):
    capture = profd.trigger(job.pid, "--memory", "--steps", 8, *arguments)
    assert capture["status"] == "complete", capture
    slots.add(capture)
    return capture


@pytest.mark.parametrize("when", ["in mid-capture", "between captures"])
def test_reloaded(row, profd, when):
    row.does(f"--memory: unloads a library whose slots are patched, and loads it again, {when}")
    slots = Slots(row, profd, "reload", linked(profd, LINKED["with full RELRO"]))

    def during(job):
        if when == "between captures":
            complete(profd, slots, job)
            slots.go.touch()
            time.sleep(0.1)
        else:
            profd.run("trigger", "--pid", job.pid, "--memory", "--steps", 100000, "--no-wait")
            profd.wait_recorded(job.pid, 3)
            slots.go.touch()
            profd.wait_recorded(job.pid, 10)
            profd.run("cancel", "--pid", job.pid)
            slots.add(wait_for(lambda: next((c for c in profd.json("captures")["captures"] if c["status"] == "incomplete"), None), 30,
                               "the capture"))
        complete(profd, slots, job)

    slots.twice(during)
    slots.holds()


# {mode: (what the job does, the slots' holder is told of)}
FOREIGN = {"before": ("puts a function of its own into a slot before --memory, and it stays there", True),
           "own": ("puts a function into a slot that lies in the library whose slot it is, before --memory", True),
           "during": ("puts a function of its own into a slot in mid-capture (--memory), and it stays there", False)}


@pytest.mark.parametrize("how", LINKED)
@pytest.mark.parametrize("mode", FOREIGN)
def test_foreign(row, profd, mode, how):
    what, told = FOREIGN[mode]
    row.does(f"{what}; {how}")
    slots = Slots(row, profd, mode, linked(profd, LINKED[how]))

    def during(job):
        client = profd.follow("--pid", job.pid, "--memory", "--steps", 60)
        profd.wait_recorded(job.pid, 3)
        slots.go.touch()
        capture = json.loads(client.communicate(timeout=60)[0])["captures"][0]
        assert capture["status"] == "complete", capture
        slots.add(capture)
        with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
            said, = db.execute("SELECT sentence FROM collectors WHERE collector = 'allocations'").fetchone()
        assert ("another tool" in said) == told, said

    slots.twice(during)
    slots.holds()


@pytest.mark.core
def test_handler(row, profd):
    row.does("--memory: a signal handler allocates, 2,000 times a second, in whatever it interrupts")
    slots = Slots(row, profd, "handler", blocks=2000)

    def during(job):
        for _ in range(5):
            complete(profd, slots, job)

    slots.twice(during)
    slots.holds()


def test_threads(row, profd):
    row.does("--memory: 8 threads allocate while slots are patched and put back, 100 times")
    slots = Slots(row, profd, "plain", linked(profd, LINKED["with full RELRO"]), threads=8, blocks=100, **{"step-ms": 1})

    def during(job):
        for _ in range(100):
            capture = profd.trigger(job.pid, "--memory", "--steps", 2, "--warmup", 0)
            assert capture["status"] == "complete", capture
            slots.add(capture)

    slots.twice(during, timeout=300)
    slots.holds()


def test_loads_beside(row, profd):
    row.does("--memory: a thread loads and unloads a library with full RELRO all the time, while slots are patched and put back")
    other = linked(profd, LINKED["with full RELRO"])
    slots = Slots(row, profd, "churn", other=other.rename(profd.folder / "other.so"))

    def during(job):
        for _ in range(30):
            complete(profd, slots, job)

    slots.twice(during)
    slots.holds()


def test_small_stacks(row, profd):
    row.does("--memory: allocates in threads with the smallest stack")
    slots = Slots(row, profd, "small")
    slots.twice(lambda job: complete(profd, slots, job))
    slots.holds()


def test_mprotect_fails(row, profd):
    row.does("--memory: may not open a page to writers (a seccomp filter that is older than the job)")
    slots = Slots(row, profd, "plain", linked(profd, LINKED["with full RELRO"]), forbid=1)

    def during(job):
        capture = complete(profd, slots, job)
        with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
            said, = db.execute("SELECT sentence FROM collectors WHERE collector = 'allocations'").fetchone()
        assert "cannot be written" in said, said

    slots.twice(during)
    slots.holds()


# {mode: (what the job does, its capture's status)}
ENDS = {"exit": "exit()", "_exit": "_exit()", "abort": "abort()", "signal": "ends by SIGTERM", "exec": "exec()",
        "fork": "fork(), and the child allocates", "vfork": "vfork() and exec"}


@pytest.mark.parametrize("mode", ENDS)
def test_ends(row, profd, mode):
    row.does(f"--memory: {ENDS[mode]} in mid-capture")
    slots = Slots(row, profd, mode, steps=250)

    def during(job):
        client = profd.follow("--pid", job.pid, "--memory", "--steps", 100000, "--timeout", "60s")
        wait_for(lambda: profd.process(job.pid)["state"] != "idle" or client.poll() is not None, what="the agent to be armed")
        return client

    client = slots.twice(during)
    capture = json.loads(client.communicate(timeout=120)[0])["captures"][0]
    assert capture["status"] == "incomplete" and capture["steps_recorded"] > 0, capture
    slots.add(capture).holds()


def test_daemon_is_killed(row, profd):
    row.does("--memory: the daemon is killed in mid-capture, and comes back")
    slots = Slots(row, profd, "plain", linked(profd, LINKED["with full RELRO"]))

    def during(job):
        client = profd.follow("--pid", job.pid, "--memory", "--steps", 100)
        profd.wait_recorded(job.pid, 10)
        profd.stop_daemon(9)
        profd.start_daemon()
        client.communicate(timeout=60)
        kept = wait_for(lambda: [c for c in profd.json("captures")["captures"] if c["status"] in ("complete", "incomplete")], 30,
                        "the capture to be taken in")
        slots.add(kept[0])
        wait_for(lambda: profd.process(job.pid)["state"] == "idle", 20, "the agent to be idle")
        complete(profd, slots, job)

    slots.twice(during)
    slots.holds()
