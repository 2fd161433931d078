"""What CUPTI, and its other clients in the process, do to us. Driver and CUPTI are simulated (tests/sim); the agent is the one that
ships."""
import json
import re
import signal
import time

import pytest

import gpu
from house import BUILD, hurry, wait_for

LOST = "SELECT coalesce(sum(count), 0) FROM losses WHERE is_loss"


class Scene:
    """A job on the simulated GPU, run bare and then watched; what it said, and what its captures hold."""

    def __init__(self, row, profd, release, script="", env=None):
        self.row, self.profd = row, profd
        self.env = {**gpu.environment(release, script), **(env or {})}
        self.said = self.captures = None

    def play(self, during, *options, steps=60, rate=200, steps_before=3):
        """during(job) returns the captures' answers."""
        printed = []

        def mask(text):
            printed.append(text)
            # That profd run tells of the other library in LD_PRELOAD is no word of the job's.
            lines = [json.loads(line) if line.startswith("{") else line for line in text.splitlines()
                     if not line.startswith("profd: LD_PRELOAD")]
            for line in lines:
                if isinstance(line, dict):
                    line.pop("pid", None)
            return lines

        def act(job):
            self.profd.wait_steps(job.pid, steps_before)
            return during(job)

        self.captures = self.row.twice(self.profd, [gpu.WORKLOAD, f"--steps={steps}", f"--rate={rate}", *options], act, mask,
                                       env=self.env, timeout=120)
        self.said = json.loads(printed[1].strip().splitlines()[-1])
        assert self.said["wrong"] == 0
        return self.captures

    def trigger(self, job, *options, codes=(0,)):
        return self.profd.trigger(job.pid, *map(str, options), codes=codes, timeout=120)

    def file(self, capture):
        return gpu.open_file(self.profd.file(capture["capture_id"]))

    def per_step(self):
        return sum(gpu.launched(self.said).values())


def one(db, sql, *values):
    found = gpu.rows(db, sql, *values)
    return found[0][0] if found else None


def cupti(profd, capture):
    return next(r for r in profd.show(capture["capture_id"])["collectors"] if r["collector"] == "cupti")


# ---------------------------------------------------------------- room

# Of 500 threads each one has buffers of its own, of all three sizes in the end.
@pytest.mark.parametrize("threads, kernels, more, recorded_steps", [pytest.param(1, 10000, "10:256+4:256", 90, marks=pytest.mark.core),
                                                                    (500, 10, "10:512+4:512", 60)])
def test_cupti_runs_out_of_buffers(row, profd, threads, kernels, more, recorded_steps):
    row.does(f"CUPTI keeps all buffers; this release dies where it gets none; {threads} threads")
    scene = Scene(row, profd, "12.8", f"refuse_crash,late=60s,grow={more},kernel=1us")
    capture = scene.play(lambda job: scene.trigger(job, "--steps", recorded_steps, codes=(0, 5)), f"--threads={threads}", f"--kernels={kernels}",
                         "--duration-us=0", "--copies=0", "--sets=0", steps=20, rate=20)
    assert capture["status"] == "incomplete" and "buffers" in capture["reason"], capture
    with scene.file(capture) as db:
        options, missing = gpu.rows(db, "SELECT options, missing_from FROM sessions")[0]
        assert options & 128 and missing > 0
        whole = [s for s, in gpu.rows(db, "SELECT step FROM steps WHERE start + duration < ? ORDER BY step", missing)]
        assert len(whole) > (5 if threads == 1 else 1)
        # A kernel whose call found no buffer was launched later, though it may count to the step before.
        recorded = one(db, "SELECT count(*) FROM kernels WHERE step <= ? AND api", whole[-1])
        lost = one(db, LOST + " AND kind IN ('kernel', 'event')")
        # Steps after it do not claim to hold anything.
        assert one(db, "SELECT count(*) FROM steps WHERE start >= ? AND collectors & 16", missing) == 0
    # All that was held comes at once at the end, and some may find no room in the segment: of any step.
    missed = scene.per_step() * len(whole) - recorded
    assert 0 <= missed <= lost
    row.counts(recorded, missed, scene.per_step() * len(whole))
    # The memory that it says it took is what it took: the pool was nearly full.
    shown = profd.show(capture["capture_id"])
    assert shown["sessions"][0]["buffer_bytes"] > 200 << 20
    assert shown["steps"][-1]["kernels"] is None and shown["steps"][0]["kernels"] > 0


def test_cupti_memory_is_what_is_used(row, profd):
    row.does("a few launches, as most jobs make")
    scene = Scene(row, profd, "12.4")
    capture = scene.play(lambda job: scene.trigger(job, "--steps", 20))
    shown = profd.show(capture["capture_id"])
    assert 0 < shown["sessions"][0]["buffer_bytes"] <= 12 << 20, shown["sessions"]
    with scene.file(capture) as db:
        row.counts(one(db, "SELECT count(*) FROM kernels WHERE step"), one(db, LOST), 20 * scene.per_step())


def test_more_streams_than_are_kept(row, profd):
    row.does("CUPTI tells of 5,000 streams, contexts and modules")
    scene = Scene(row, profd, "12.4", "streams=5000")
    capture = scene.play(lambda job: scene.trigger(job, "--steps", 3))
    with scene.file(capture) as db:
        lost = gpu.losses(db)
        assert list(lost) == ["facts"] and lost["facts"].get("stream", 0) >= 900, dict(lost)
        assert "max-events" not in one(db, "SELECT sentence FROM losses WHERE loss = 'facts'")
        row.counts(one(db, "SELECT count(*) FROM kernels WHERE step"), 0, 3 * scene.per_step())


# ---------------------------------------------------------------- what reaches into the recording

LONG = ("--kernels=1", "--copies=0", "--sets=0", "--no-wait", "--duration-us=1000000", "--every=40")


AHEAD = 60  # steps: three seconds, in which the trigger comes before the warm-up on a full machine, too


def at_step(job_step, every, behind):
    """A step to come that lies `behind` a launching one; the launching one is AHEAD of now, and up to `every` more."""
    return ((job_step + AHEAD) // every + 1) * every + behind


def outlasted(scene, job, behind, *options):
    """A capture from the step on that lies so far behind a launching one. Where the machine had no processor for the job its steps took
    longer than the kernel of a second, and there is another try."""
    for _ in range(5):
        capture = scene.trigger(job, "--at-step", at_step(scene.profd.process(job.pid)["step"], 40, behind), *options, codes=(0, 1, 5))
        if capture["status"] != "complete":
            continue
        with scene.file(capture) as db:
            if one(db, "SELECT (SELECT max(start + duration) FROM steps) <= (SELECT min(start + duration) FROM kernels)"):
                break
    return capture


@pytest.mark.parametrize("release", [gpu.OLDEST, gpu.NEWEST])
def test_a_kernel_from_before_the_recording(row, profd, release):
    row.does("a kernel of a second, launched before the recording, runs through all of it")
    scene = Scene(row, profd, release)
    capture = scene.play(lambda job: outlasted(scene, job, 6, "--warmup", 12, "--steps", 5), *LONG, steps=40, rate=20)
    shown = profd.show(capture["capture_id"])
    assert [round(s["device_busy_percent"]) for s in shown["steps"]] == [100] * 5, shown["steps"]
    assert [s["kernels"] for s in shown["steps"]] == [0] * 5 and shown["totals"]["kernels"] == 1
    assert [(k["calls"], k["total_ns"] > 900_000_000) for k in shown["kernels"]] == [(1, True)]
    assert [(r["kind"], r["loss"], r["count"], r["is_loss"]) for r in shown["losses"]] == [("kernel", "earlier", 1, False)]
    assert not [note for note in shown["notes"] if "steps before" not in note], shown["notes"]  # those may have been slow on a full machine
    with scene.file(capture) as db:
        assert gpu.rows(db, "SELECT step, start < 0, duration > 900000000 FROM kernels") == [(None, 1, 1)]
    row.counts(1, 0, 1)


def test_a_kernel_from_before_cupti_was_on(row, profd):
    row.does("a kernel of a second, launched before CUPTI was switched on")
    scene = Scene(row, profd, "12.4")

    def during(job):
        # Half a second before, CUPTI is on: ten steps, eight after the launch.
        first = at_step(profd.process(job.pid)["step"], 40, 18)
        return scene.trigger(job, "--at-step", first, "--warmup", 6, "--steps", 5)

    capture = scene.play(during, *LONG, steps=40, rate=20)
    shown = profd.show(capture["capture_id"])
    assert len(shown["notes"]) == 1 and "the device may have been busy" in shown["notes"][0], shown["notes"]
    assert "the device may have been busy" in " ".join(profd.run("show", capture["capture_id"]).stdout.split())
    row.nothing_recorded("what CUPTI did not see")


def test_what_was_launched_in_one_step_works_in_others(row, profd):
    row.does("a kernel that was launched in the first step runs on through all others")
    scene = Scene(row, profd, "12.4")
    capture = scene.play(lambda job: outlasted(scene, job, 0, "--warmup", 8, "--steps", 8), *LONG, steps=40, rate=20)
    shown = profd.show(capture["capture_id"])
    launching = [s["step"] for s in shown["steps"] if s["kernels"]]
    assert len(launching) == 1 and launching[0] < 3
    after = [s["device_busy_percent"] for s in shown["steps"] if s["step"] > launching[0]]
    assert [round(p) for p in after] == [100] * len(after), shown["steps"]
    assert all(s["device_busy_percent"] < 100.5 for s in shown["steps"])
    row.counts(shown["totals"]["kernels"], 0, 1)


@pytest.mark.parametrize("skew", ["-5ms", "-60ms", "5ms"])
def test_a_device_clock_that_is_off(row, profd, skew):
    row.does(f"the device's clock is off by {skew}")
    scene = Scene(row, profd, "12.4", f"skew={skew}")
    capture = scene.play(lambda job: scene.trigger(job, "--steps", 3), "--kernels=4", "--duration-us=400")
    shown = profd.show(capture["capture_id"])
    assert [s["kernels"] for s in shown["steps"]] == [scene.per_step()] * 3, shown["steps"]
    if skew.startswith("-"):
        # One of the four kernels takes 0.4 ms, in each of the steps.
        assert all(s["device_busy_ns"] > 400_000 for s in shown["steps"]), shown["steps"]
        assert shown["sessions"][0]["early"] > 0
    with scene.file(capture) as db:
        row.counts(one(db, "SELECT count(*) FROM kernels WHERE step"), one(db, LOST), 3 * scene.per_step())


# ---------------------------------------------------------------- what CUPTI refuses

# {what: (kind, member of the totals, section)}
REFUSED = {"copies": (1, "copies", "copies"), "memsets": (2, "sets", "memsets"), "waits": (38, None, "syncs")}


@pytest.mark.parametrize("release", ["12.4", gpu.NEWEST])
@pytest.mark.parametrize("what", REFUSED)
def test_a_kind_that_cupti_refuses(row, profd, what, release):
    kind, member, section = REFUSED[what]
    row.does(f"CUPTI answers 14 where {what} are switched on")
    scene = Scene(row, profd, release, f"fail=cuptiActivityEnable/{kind}:14")
    capture = scene.play(lambda job: scene.trigger(job, "--steps", 3), "--sets=1")
    shown = profd.show(capture["capture_id"])
    text = profd.run("show", capture["capture_id"], "--by", section).stdout
    if not member:
        # The calls that wait stand in, and it says so.
        assert sum(row["calls"] for row in shown[section]) == 3 and all("Synchronize" in row["call"] for row in shown[section]), shown[section]
        assert "waits were not recorded: these are the calls that wait" in text, text
    else:
        assert shown[member] is None and "not recorded: CUPTI refuses it" in text, (shown[member], text)
        assert shown["totals"][member] is None and [s[member] for s in shown["steps"]] == [None] * 3
        assert [d[member] for d in shown["devices"]] == [None]
    # Beside it stands what CUPTI does not tell of the time before it was on, and that other steps were slower, where there was any of that.
    said = [note for note in shown["notes"] if "CUPTI refuses" in note]
    assert len(said) == 1 and said[0].startswith(f"not recorded, since CUPTI refuses it: {what}"), shown["notes"]
    trace = profd.folder / "trace.json"
    profd.run("export", capture["capture_id"], "--output", trace)
    assert "not recorded" in json.loads(trace.read_text())["profd"]["notes"]
    with scene.file(capture) as db:
        summary = json.loads(one(db, "SELECT value FROM meta WHERE key = 'summary'"))
        if member:
            assert summary[member] is None and summary["kernels"]
        row.counts(one(db, "SELECT count(*) FROM kernels WHERE step"), one(db, LOST), 3 * scene.per_step())


# {what: (kinds, section that is empty for it, table that another API still fills)}
REFUSED_BESIDES = {"calls of the runtime API": ((5,), None, "driver"), "calls of the driver API": ((4,), None, "runtime"),
                   "calls of the runtime API, calls of the driver API": ((4, 5), "api", None), "memory": ((49,), "device_memory", None)}
KEYS = {"api": "api", "device_memory": "memory"}


@pytest.mark.parametrize("release", ["12.4", gpu.NEWEST])
@pytest.mark.parametrize("what", REFUSED_BESIDES)
def test_a_kind_besides_the_device_that_cupti_refuses(row, profd, what, release):
    kinds, section, other = REFUSED_BESIDES[what]
    row.does(f"CUPTI answers 14 where {what} are switched on")
    scene = Scene(row, profd, release, "fail=" + "+".join(f"cuptiActivityEnable/{kind}:14" for kind in kinds))
    capture = scene.play(lambda job: scene.trigger(job, "--steps", 3, "--memory", "--api", "all"), "--runtime", "--async-alloc=2")
    shown = profd.show(capture["capture_id"])
    assert [note for note in shown["notes"] if note.startswith("not recorded")] == [f"not recorded, since CUPTI refuses it: {what}"]
    if section:
        text = profd.run("show", capture["capture_id"], "--by", section).stdout
        assert shown[KEYS[section]] is None and "not recorded: CUPTI refuses it" in text, text
    else:
        text = profd.run("show", capture["capture_id"], "--by", "api").stdout
        assert {call["api"] for call in shown["api"]} == {other} and f"{what} were not recorded" in text, (shown["api"], text)
    # What is refused takes nothing else along.
    assert bool(shown["memory"]) == (what != "memory"), shown["memory"]
    with scene.file(capture) as db:
        row.counts(one(db, "SELECT count(*) FROM kernels WHERE step"), one(db, LOST), 3 * scene.per_step())


def test_trigger_says_what_is_refused(row, profd):
    row.does("CUPTI answers 14 where copies are switched on")
    scene = Scene(row, profd, "12.4", "fail=cuptiActivityEnable/1:14")
    text = []
    scene.play(lambda job: text.append(profd.run("trigger", "--pid", job.pid, "--steps", 3).stdout))
    assert re.search(r"^note: not recorded, since CUPTI refuses it: copies", text[0], re.M), text[0]
    assert "copies: not recorded" in text[0]
    row.nothing_recorded("what the terminal says")


def test_a_clock_that_does_not_answer(row, profd):
    row.does("cuptiGetTimestamp fails from the start")
    scene = Scene(row, profd, "12.4", "fail=cuptiGetTimestamp:999")
    capture = scene.play(lambda job: scene.trigger(job, "--steps", 3))
    said = cupti(profd, capture)
    assert not said["on"] and "time" in said["sentence"], said
    assert profd.show(capture["capture_id"])["kernels"] is None
    row.nothing_recorded("times that mean nothing are not recorded")


def test_a_clock_that_falls_silent(row, profd):
    row.does("cuptiGetTimestamp fails from the twentieth reading on")
    scene = Scene(row, profd, "12.4", "fail=cuptiGetTimestamp@20:999")
    capture = scene.play(lambda job: scene.trigger(job, "--steps", 60))
    shown = profd.show(capture["capture_id"])
    assert any("clock" in note for note in shown["notes"]), shown["notes"]
    assert shown["sessions"][0]["clock_error_ns"] > 1000
    with scene.file(capture) as db:
        row.counts(one(db, "SELECT count(*) FROM kernels WHERE step"), one(db, LOST), 60 * scene.per_step())


def test_a_flush_that_fails(row, profd):
    row.does("cuptiActivityFlushAll answers 999")
    scene = Scene(row, profd, "12.4", "fail=cuptiActivityFlushAll:999")
    capture = scene.play(lambda job: scene.trigger(job, "--steps", 5, codes=(0, 5)))
    session = profd.show(capture["capture_id"])["sessions"][0]
    assert "another client" not in session["notes"] and "refused to hand" in session["notes"], session
    with scene.file(capture) as db:
        row.counts(one(db, "SELECT count(*) FROM kernels WHERE step"), one(db, LOST), 5 * scene.per_step())


def test_a_kind_that_cannot_be_switched_off(row, profd):
    row.does("cuptiActivityDisable answers 999 for kernels")
    scene = Scene(row, profd, "12.4", "fail=cuptiActivityDisable/10:999")
    capture = scene.play(lambda job: scene.trigger(job, "--steps", 5))
    shown = profd.show(capture["capture_id"])
    assert any("refused to switch" in note for note in shown["notes"]), shown["notes"]
    with scene.file(capture) as db:
        row.counts(one(db, "SELECT count(*) FROM kernels WHERE step"), one(db, LOST), 5 * scene.per_step())


def test_the_job_is_stopped_in_a_flush(row, profd):
    row.does("is stopped for five seconds while a capture is drained, and goes on")
    log = profd.folder / "cupti.log"
    scene = Scene(row, profd, "12.4", f"slow=cuptiActivityFlushAll/1:5400ms,log={log}")

    def during(job):
        profd.run("trigger", "--pid", job.pid, "--steps", 3, "--no-wait")
        # The flush by force takes a little longer than the stop.
        begins = wait_for(lambda: log.exists() and next((line for line in log.read_text().splitlines() if "cuptiActivityFlushAll 1 slow" in line),
                                                        None), 20, "the flush")
        job.send_signal(signal.SIGSTOP)
        # A flush that takes so long by itself is given up: then the stop says nothing.
        if time.monotonic_ns() - int(begins.split()[0]) > 400_000_000:
            pytest.skip("the machine has other work: the job was stopped too late in the flush")
        time.sleep(5)
        job.send_signal(signal.SIGCONT)
        return wait_for(lambda: [c for c in profd.json("captures")["captures"] if c["finished_at"]], 30, "the capture")[0]

    capture = scene.play(during)
    [found] = profd.show(capture["capture_id"])["sessions"]
    assert capture["status"] == "complete" and not found["notes"], (capture, found)
    with scene.file(capture) as db:
        assert gpu.recorded(db) == {n: gpu.launched(scene.said) for n in (1, 2, 3)}
        row.counts(one(db, "SELECT count(*) FROM kernels WHERE step"), one(db, LOST), 3 * scene.per_step())


def test_what_cannot_be_switched_off_is_no_other_client(row, profd):
    row.does("cuptiActivityDisable answers 999 for kernels; a second capture comes")
    scene = Scene(row, profd, gpu.NEWEST, "fail=cuptiActivityDisable/10:999")
    captures = scene.play(lambda job: [scene.trigger(job, "--steps", 5) for _ in range(2)])
    recorded = lost = 0
    for capture in captures:
        with scene.file(capture) as db:
            recorded += one(db, "SELECT count(*) FROM kernels WHERE step")
            lost += one(db, LOST)
    row.counts(recorded, lost, 2 * 5 * scene.per_step())


# ---------------------------------------------------------------- other clients

class Other:
    """A profiler of the job's own (tests/workloads/libcupti_other.c): begins and ends with a signal."""

    def __init__(self, profd, release, subscribes, **more):
        library = next((BUILD / "sim" / release).glob("libcupti.so.*"))
        self.profd = profd
        self.report = profd.folder / "other.json"
        self.env = {"LD_PRELOAD": str(BUILD / "workloads" / "libcupti_other.so"), "CUPTI_OTHER_LIBRARY": str(library),
                    "CUPTI_OTHER_FILE": str(self.report), **({"CUPTI_OTHER_SUBSCRIBES": "1"} if subscribes else {}), **more}

    def turn(self, job, steps=30):
        """It begins, or ends, and the job works on for so many steps."""
        job.send_signal(signal.SIGUSR1)
        self.profd.wait_steps(job.pid, self.profd.process(job.pid)["step"] + steps)

    def whole(self, said, kernels):
        """Nothing is missing in what it got: of each step so many kernels, and a fixed number of ids."""
        got = json.loads(wait_for(lambda: self.report.exists() and self.report.read_text(), 5, "the other client to end"))
        steps = (got["last"] - got["first"]) / (sum(said["calls"].values()) / said["steps"])
        assert got["errors"] == 0 and got["kernels"] > 0 and abs(got["kernels"] - kernels * steps) <= 2 * kernels, (got, steps)


MOST = 1200  # steps: twelve seconds, in which the other one comes and goes


@pytest.mark.parametrize("subscribes", [False, True])
@pytest.mark.parametrize("release", ["12.4", "13.2", "13.3", gpu.NEWEST])
def test_the_jobs_profiler_starts_while_we_record(row, profd, release, subscribes):
    row.does("the job's own profiler, of the older calls, begins and ends in mid-capture")
    other = Other(profd, release, subscribes)
    scene = Scene(row, profd, release, env=other.env)

    def during(job):
        before = len(profd.json("captures", codes=(0, 3)).get("captures", []))
        profd.run("trigger", "--pid", job.pid, "--steps", MOST, "--no-wait")
        profd.wait_recorded(job.pid, 5)
        # It gets buffers of its own when a flush of the agent's, every 100 ms, has given back the one that CUPTI writes to.
        other.turn(job, 100)
        other.turn(job)
        hurry(job)
        return wait_for(lambda: [c for c in profd.json("captures")["captures"][:1] if before == 0 and c["finished_at"]], 30,
                        "the capture")[0]

    capture = scene.play(during, "--kernels=4", "--copies=0", rate=100)
    other.whole(scene.said, 4)
    # Ours says from when on it has nothing, instead of steps without kernels.
    assert capture["status"] == "incomplete" and "another client" in capture["reason"], capture
    shown = profd.show(capture["capture_id"])
    missing = int(re.search(r"step (\d+)", capture["reason"]).group(1))
    assert 2 < missing < MOST
    for step in shown["steps"]:
        if step["step"] < missing:
            assert step["kernels"] == 4, step
        elif step["step"] > missing:
            assert step["kernels"] is None and step["device_busy_ns"] is None, step
    row.counts(sum(s["kernels"] for s in shown["steps"] if s["step"] < missing), 0, 4 * (missing - 1))


@pytest.mark.parametrize("release", [gpu.OLDEST, "12.4", "13.1", "13.2", gpu.NEWEST])
def test_the_jobs_profiler_is_there_before_us(row, profd, release):
    row.does("the job's own profiler, without a subscriber, records when a capture is asked for")
    other = Other(profd, release, False)
    scene = Scene(row, profd, release, env=other.env)

    def during(job):
        first = scene.trigger(job, "--steps", 3)
        other.turn(job)
        second = scene.trigger(job, "--steps", 3)
        other.turn(job)
        return first, second, scene.trigger(job, "--steps", 3)

    first, second, third = scene.play(during, "--kernels=4", "--copies=0", rate=100)
    other.whole(scene.said, 4)
    said = cupti(profd, second)
    assert not said["on"] and "another tool" in said["sentence"], said
    assert second["status"] == "complete" and profd.show(second["capture_id"])["kernels"] is None
    recorded = 0
    for capture in (first, third):
        with scene.file(capture) as db:
            assert gpu.recorded(db) == {n: gpu.launched(scene.said) for n in (1, 2, 3)}
            recorded += one(db, "SELECT count(*) FROM kernels WHERE step")
    row.counts(recorded, 0, 6 * 4)


# Before 13.2 CUPTI does not say who records: what is left there docs/job.md names.
@pytest.mark.parametrize("release, subscribes, loops", [("12.4", True, "subscribe"), ("13.2", True, "1"), (gpu.NEWEST, False, "1")])
def test_the_jobs_profiler_begins_and_ends_all_the_time(row, profd, release, subscribes, loops):
    row.does("the job's own profiler begins and ends without a pause while captures begin and end")
    row.nothing_recorded("whoever is first has CUPTI")
    other = Other(profd, release, subscribes, CUPTI_OTHER_LOOPS=loops)
    scene = Scene(row, profd, release, env=other.env)

    def during(job):
        other.turn(job)
        for _ in range(5):
            scene.trigger(job, "--steps", 2, codes=(0, 5))
        other.turn(job)
        return [wait_for(lambda: other.report.exists() and json.loads(other.report.read_text()), 5, "the other client to end")]

    [got] = scene.play(during, steps=1200)
    assert got["rounds"] > 1000 and got["errors"] == 0, got


@pytest.mark.parametrize("release", ["12.4", gpu.NEWEST])
def test_nobody_subscribes(row, profd, release):
    row.does("a capture; CUPTI's one place for a subscriber is free all the time")
    log = profd.folder / "cupti.log"
    scene = Scene(row, profd, release, f"log={log}")
    capture = scene.play(lambda job: scene.trigger(job, "--steps", 3))
    names = [line.split()[2] for line in log.read_text().splitlines()]
    assert "cuptiActivityEnable" in names and not [name for name in names if "ubscribe" in name], names
    with scene.file(capture) as db:
        row.counts(one(db, "SELECT count(*) FROM kernels WHERE step"), one(db, LOST), 3 * scene.per_step())
