"""What the cupti collector is to the job that it lives in: nothing while idle, nothing left behind, no change of how the job ends,
and room for others. The agent is the one that ships; driver and CUPTI are simulated (tests/sim).

What the records hold is checked in test_gpu_matrix.py.
"""
import collections
import json
import pathlib
import signal
import time

import pytest

import gpu
from conftest import BUILD, hurry, wait_for

STEPS = 3
RELEASES = [gpu.OLDEST, gpu.MIDDLE, gpu.NEWEST]
EXITS = BUILD / "workloads" / "cuda_exits"
KERNEL = 10  # CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL


def collector(profd, capture, name="cupti"):
    return next(row for row in profd.show(capture["capture_id"])["collectors"] if row["collector"] == name)


def session(profd, capture):
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        return dict(db.execute("SELECT * FROM sessions").fetchone())


def maps(job):
    return pathlib.Path(f"/proc/{job.pid}/maps").read_text()


def calls(path):
    """[(time, thread, function, argument, result)] of the simulated CUPTI's log."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        time_, thread, function, argument, result = line.split()
        found.append((int(time_), int(thread), function, int(argument), result))
    return found


def enabled_after(log):
    """Kinds that are on, and subscribers that are there, after all these calls."""
    kinds, subscribers = set(), 0
    for _, _, function, argument, result in log:
        if result != "0":
            continue
        if function.startswith("cuptiActivityEnable") and "Api" not in function:
            kinds.add(argument)
        elif function.startswith("cuptiActivityDisable"):
            kinds.discard(argument)
        elif function.startswith("cuptiSubscribe"):
            subscribers += 1
        elif function == "cuptiUnsubscribe":
            subscribers -= 1
    return kinds, subscribers


@pytest.mark.parametrize("release", RELEASES)
def test_idle_is_untouched(profd, release):
    """CUPTI is not even mapped before; afterwards nothing is on, nobody is subscribed, and nobody calls it."""
    log = profd.folder / "cupti.log"
    job = gpu.start(profd, release, f"log={log}")
    assert "libcuda.so" in maps(job)
    assert "libcupti" not in maps(job)
    profd.run("doctor", "--pid", job.pid)
    assert "libcupti" not in maps(job) and not calls(log)
    threads = len(list(pathlib.Path(f"/proc/{job.pid}/task").iterdir()))
    for count in (1, 2, 3):
        capture = profd.trigger(job.pid, "--steps", STEPS)
        assert capture["status"] == "complete" and capture["lost"] == 0
        before = calls(log)
        assert any(function.startswith("cuptiActivityEnable") for _, _, function, _, _ in before)
        assert enabled_after(before) == (set(), 0), count
        profd.wait_steps(job.pid, profd.process(job.pid)["step"] + 60)
        assert calls(log) == before, "CUPTI is called while idle"
    # One thread is CUPTI's own worker.
    wait_for(lambda: len(list(pathlib.Path(f"/proc/{job.pid}/task").iterdir())) <= threads + 1, 5, "our threads to end")
    # None of these calls was made by a thread of the job.
    names = {thread for _, thread, *_ in calls(log)}
    assert job.pid not in names
    gpu.finish(job)


@pytest.mark.parametrize("release", RELEASES)
def test_memory_is_given_back(profd, release):
    job = gpu.start(profd, release, "", "--kernels=40", rate=100)
    if "libasan" in maps(job) or "libtsan" in maps(job):
        pytest.skip("a sanitizer keeps memory for itself")

    def resident():
        text = pathlib.Path(f"/proc/{job.pid}/status").read_text()
        return int(next(line for line in text.splitlines() if line.startswith("RssAnon")).split()[1])

    profd.trigger(job.pid, "--steps", 20)
    time.sleep(0.2)
    first = resident()
    for _ in range(4):
        profd.trigger(job.pid, "--steps", 20)
    wait_for(lambda: resident() < first + 4096, 5, "what captures left behind to be given back")
    gpu.finish(job)


def test_no_gpu_no_word_with_cupti(profd):
    """A process without a driver is not asked for one."""
    job = profd.job(BUILD / "workloads" / "steps", "--step-ms=5")
    profd.wait_steps(job.pid, 2)
    capture = profd.trigger(job.pid, "--steps", STEPS)
    row = collector(profd, capture)
    assert not row["on"] and "no CUDA driver" in row["sentence"], row
    assert "no CUDA driver" in profd.run("doctor", "--pid", job.pid).stdout
    assert "libcupti" not in maps(job)


def test_a_driver_that_is_not_up(profd):
    """cuInit has failed: CUPTI is left alone."""
    job = profd.job(BUILD / "workloads" / "steps", "--step-ms=5",
                    env={**gpu.environment("13.5", "no_device"),
                         "LD_PRELOAD": str(BUILD / "sim" / "libcuda.so.1")})
    profd.wait_steps(job.pid, 2)
    capture = profd.trigger(job.pid, "--steps", STEPS)
    row = collector(profd, capture)
    assert capture["status"] == "complete" and not row["on"] and "not initialised" in row["sentence"], row
    assert "libcupti" not in maps(job)


@pytest.mark.parametrize("release", RELEASES)
def test_all_calls_and_memory(profd, release):
    job = gpu.start(profd, release, "", "--async-alloc=2", "--threads=3")
    few = profd.trigger(job.pid, "--steps", STEPS)
    all_calls = profd.trigger(job.pid, "--steps", STEPS, "--api", "all", "--memory")
    said = gpu.finish(job)

    def names(capture):
        with gpu.open_file(profd.file(capture["capture_id"])) as db:
            found = gpu.rows(db, "SELECT s.text, count(*) FROM api_calls a JOIN strings s ON s.id = a.name GROUP BY 1")
            threads = {row[0] for row in gpu.rows(db, "SELECT DISTINCT thread FROM api_calls")}
            known = {row[0] for row in gpu.rows(db, "SELECT DISTINCT thread FROM threads")}
            allocations = gpu.rows(db, "SELECT count(*) FROM allocations")[0][0]
            assert len(gpu.rows(db, "SELECT * FROM devices")) == 1
            assert gpu.rows(db, "SELECT count(*) FROM contexts")[0][0] >= 1
            assert gpu.rows(db, "SELECT count(*) FROM streams")[0][0] >= 3
        assert len(threads) == 3 and 0 not in threads and threads <= known, (threads, known)
        return collections.Counter(dict(found)), allocations

    chosen, none = names(few)
    every, some = names(all_calls)
    assert none == 0 and some >= 2 * 2 * 3 * STEPS
    assert chosen["cuLaunchKernel"] == said["calls"]["cuLaunchKernel"] // said["steps"] * STEPS
    assert all(every[name] == count for name, count in chosen.items()), (chosen, every)


@pytest.mark.parametrize("release", [gpu.OLDEST, gpu.NEWEST])
def test_code_that_is_loaded(profd, release):
    """Its calls are recorded without --api all: what they take is no unknown time of the step."""
    job = gpu.start(profd, release, "", "--load")
    capture = profd.trigger(job.pid, "--steps", STEPS)
    said = gpu.finish(job)
    shown = profd.show(capture["capture_id"], "--by", "api", "--by", "breakdown", "--limit", 0)
    calls = {row["name"]: row["calls"] for row in shown["api"]}
    for name in ("cuModuleLoadData", "cuGraphInstantiate"):
        assert said["calls"][name] >= said["steps"] and sum(count for call, count in calls.items() if call.startswith(name)) == STEPS, calls
    assert "cuModuleUnload" not in calls and "cuGraphCreate" not in calls, calls
    assert all(step["host"]["rows"].get("compile") for step in shown["breakdown"]["steps"]), shown["breakdown"]


def test_it_warms_up_when_its_collectors_are_on(profd):
    """Who waits for the word may go on: not while CUPTI takes its time."""
    log = profd.folder / "cupti.log"
    job = gpu.start(profd, "12.4", f"slow=cuptiActivityEnable/{KERNEL}:1500ms,log={log}")
    profd.run("trigger", "--pid", job.pid, "--warmup", 100000, "--steps", 3, "--no-wait")
    wait_for(lambda: profd.process(job.pid)["state"] == "warmup", 30, "the warm-up")
    assert KERNEL in enabled_after(calls(log))[0]
    profd.run("cancel", "--all")
    gpu.finish(job)


def test_the_device_alone(profd):
    """--activities gpu: all work of the device in its step, and of the host the calls that ask for it; the rest is not recorded, not 0."""
    job = gpu.start(profd, gpu.MIDDLE, "", "--kernels=2", "--sets=2")
    recipe = profd.folder / "device.json"
    recipe.write_text('{"activities": ["cuda"], "active": 4}')
    capture = profd.trigger(job.pid, "--recipe", recipe)
    light = profd.trigger(job.pid, "--preset", "light", "--steps", 2)
    said = gpu.finish(job)
    shown = profd.show(capture["capture_id"])
    kernels, sets = said["per_step"]["kernels"], said["per_step"]["sets"]["count"]
    assert [(step["kernels"], step["sets"]) for step in shown["steps"]] == [(kernels, sets)] * 4
    for step in shown["steps"]:
        assert step["operators"] is None and step["ranges"] is None and step["self_cpu_ns"] is None
    assert all("not recorded" in profd.run("show", capture["capture_id"], "--by", view).stdout for view in ("operators", "ranges"))
    assert {row["collector"] for row in shown["collectors"] if row["wanted"]} == {"steps", "cupti"}
    assert sum(row["calls"] for row in shown["launches"]) == sum(step["kernels"] + step["copies"] + step["sets"] for step in shown["steps"])
    assert {row["operator"] for row in shown["launches"]} == {"(not recorded)"}
    idle = [step["devices"][0]["idle"] for step in shown["breakdown"]["steps"]]
    assert all("unknown" in rows and not set(rows) & {"op", "outside", "input", "compile"} for rows in idle), idle
    # What a busy machine does to a step can be said without its operators: one that is longer, a thread that waits for a processor, or that
    # comes back late from a call that waits for the device.
    found = {one["finding"] for one in shown["findings"]}
    assert shown["verdict"]["abstains"] and found <= {"step_unlike", "processor", "sync"}, (shown["verdict"], shown["findings"])
    ranges = profd.show(light["capture_id"])["ranges"]
    assert any(row["name"] == "step" for row in ranges)
    assert "not recorded" in profd.run("show", light["capture_id"], "--by", "operators").stdout


@pytest.mark.parametrize("more", [(), ("--api", "all")])
def test_an_id_stands_at_one_call_in_exports(profd, more):
    """A call of the runtime and the driver's calls in it have one correlation id, whether or not they launch something. Readers
    join all calls of an id with all that has it."""
    job = gpu.start(profd, "12.4", "", "--runtime", "--kernels=3", "--copies=1")
    capture = profd.trigger(job.pid, "--steps", STEPS, *more)
    gpu.finish(job)
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        shared = gpu.rows(db, "SELECT count(*) FROM (SELECT 1 FROM api_calls GROUP BY correlation HAVING count(*) > 1)")[0][0]
        assert shared == (4 * STEPS if more else 0)
    profd.run("export", capture["capture_id"], "--output", profd.folder / "trace.json")
    events = json.loads((profd.folder / "trace.json").read_text())["traceEvents"]
    calls = [e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")]
    found = collections.Counter(e["args"]["correlation"] for e in calls if "correlation" in e["args"])
    assert found and set(found.values()) == {1}, {i: [e["name"] for e in calls if e["args"].get("correlation") == i]
                                                  for i, n in found.items() if n > 1}
    # Nothing is left without its call: neither what was launched nor what was waited for.
    assert {e["args"]["correlation"] for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync")} <= set(found)
    waits = {e["name"] for e in calls if "Synchronize" in e["name"] and "correlation" in e["args"]}
    assert "cudaStreamSynchronize" in waits and ("cuStreamSynchronize" not in waits or not more)


def test_a_busy_cupti_is_named(profd):
    job = gpu.start(profd, "13.5", "enabled_kinds=1024")
    capture = profd.trigger(job.pid, "--steps", STEPS)
    row = collector(profd, capture)
    assert not row["on"] and "another tool: it records" in row["sentence"], row
    gpu.finish(job)


def test_side_by_side_where_cupti_lets(profd):
    job = gpu.start(profd, "13.5", "subscriber=multiple:other")
    capture = profd.trigger(job.pid, "--steps", STEPS)
    said = gpu.finish(job)
    assert collector(profd, capture)["on"]
    assert session(profd, capture)["options"] & 4
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        gpu.check_exact(db, said, STEPS)


def test_a_driver_too_old_for_that_is_recorded_alone(profd):
    job = gpu.start(profd, "13.5", "driver=13.2")
    capture = profd.trigger(job.pid, "--steps", STEPS)
    said = gpu.finish(job)
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        gpu.check_exact(db, said, STEPS)


@pytest.mark.parametrize("when", ["before", "within", "during"])
def test_the_jobs_own_profiler_loses_nothing(profd, when):
    """A client that records without a subscriber, begun before our capture, around it, or in the middle of it: what it gets is what
    it would have got; ours refuses, or says what it lost."""
    release = "12.4"
    library = next((BUILD / "sim" / release).glob("libcupti.so.*"))
    report = profd.folder / "other.json"
    env = gpu.environment(release)
    job = profd.job(gpu.WORKLOAD, "--rate=30", "--kernels=4",
                    env={**env, "LD_PRELOAD": str(BUILD / "workloads" / "libcupti_other.so"),
                         "CUPTI_OTHER_LIBRARY": str(library), "CUPTI_OTHER_FILE": str(report)})
    profd.wait_steps(job.pid, 3)

    def other():
        """It begins, or ends, and the job works on for a while."""
        job.send_signal(signal.SIGUSR1)
        profd.wait_steps(job.pid, profd.process(job.pid)["step"] + 30)

    if when == "before":
        other()
        other()
        wait_for(report.exists, 5, "the other client to end")
        capture = profd.trigger(job.pid, "--steps", STEPS)
    elif when == "within":
        client = profd.follow("--pid", job.pid, "--steps", 500)
        profd.wait_recorded(job.pid, 5)
        other()
        other()
        hurry(job)
        capture = json.loads(client.communicate(timeout=120)[0])["captures"][0]
    else:
        client = profd.follow("--pid", job.pid, "--steps", 500)
        profd.wait_recorded(job.pid, 5)
        other()
        hurry(job)
        capture = json.loads(client.communicate(timeout=120)[0])["captures"][0]
        other()
    wait_for(report.exists, 5, "the other client to end")
    said = gpu.finish(job)
    got = json.loads(report.read_text())
    assert got["errors"] == 0 and got["kernels"] > 0, got
    # Nothing is missing in between: of each step 4 kernels, and a fixed number of ids.
    per_step = sum(said["calls"].values()) / said["steps"]
    steps = (got["last"] - got["first"]) / per_step
    assert abs(got["kernels"] - 4 * steps) <= 8, (got, steps)
    if when == "before":
        with gpu.open_file(profd.file(capture["capture_id"])) as db:
            gpu.check_exact(db, said, STEPS)
        assert session(profd, capture)["options"] & 16 == 0
    else:
        assert session(profd, capture)["options"] & 16, "that another client took over is not said"


MODES = {"exit": 3, "_exit": 3, "return": 3, "abort": -signal.SIGABRT, "signal": -signal.SIGTERM, "exec": 0, "fork": 3, "clone": 3,
         "destroy": 3, "reset": 3, "error": 3, "threads": 3, "thread": None, "midstep": 3}


def check_end(profd, mode, release):
    """Ends the job bare and in mid-capture. Did a call of CUPTI not return in time? None where that is not looked at."""
    options = [f"--mode={mode}", "--after=120", "--step-ms=10", "--code=3"]
    stay = profd.folder / "stay"

    def run(agent):
        job = profd.job(EXITS, *options, agent=agent, env={"STAY": str(stay), **gpu.environment(release)})
        capture = None
        if agent:
            profd.wait_steps(job.pid, 2)
            # Without a warm-up the collectors are switched on at once, while the job holds: else its steps may be over before the agent's thread runs.
            client = profd.follow("--pid", job.pid, "--warmup", 0, "--steps", 10000)
            wait_for(lambda: profd.process(job.pid)["state"] in ("warmup", "recording") or client.poll() is not None, what="the collectors to be on")
            stay.unlink()
            capture = json.loads(client.communicate(timeout=120)[0])["captures"][0]
        out, err = job.communicate(timeout=120)
        return job.returncode, json.loads(out.strip().splitlines()[-1]) if out.strip() else {}, err, capture

    code, bare, _, _ = run(False)
    stay.touch()
    with_code, ours, err, capture = run(True)
    assert with_code == code, (with_code, code, err)
    if MODES[mode] is not None:
        assert code == MODES[mode]
    for word in ("mode", "wrong", "first_error", "child_status", "child_call"):
        assert ours.get(word) == bare.get(word), word
    assert capture["status"] == "incomplete", capture
    if mode in ("exit", "return", "threads", "destroy", "reset", "fork"):
        with gpu.open_file(profd.file(capture["capture_id"])) as db:
            kernels = gpu.rows(db, "SELECT count(*) FROM kernels")[0][0]
            steps = gpu.rows(db, "SELECT count(*) FROM steps")[0][0]
        assert steps > 20 and kernels >= 4 * steps, (steps, kernels)
        # An exit waits for CUPTI for a tenth of a second: where it gets no processor, that is not enough, and is said.
        [found] = profd.show(capture["capture_id"])["sessions"]
        hung = session(profd, capture)["options"] & 32 != 0
        assert hung == ("did not return in time" in (found["notes"] or "")), found
        return hung
    return None


@pytest.mark.parametrize("release", [gpu.OLDEST, gpu.NEWEST])
@pytest.mark.parametrize("mode", MODES)
def test_the_job_ends_as_it_would(profd, mode, release):
    """Whatever the job does in mid-capture, it does as without us: status and output."""
    check_end(profd, mode, release)


@pytest.mark.serial
@pytest.mark.parametrize("release", [gpu.OLDEST, gpu.NEWEST])
def test_an_exit_has_time_for_cupti(profd, release):
    """On a machine that has nothing else to do."""
    assert check_end(profd, "exit", release) is False


@pytest.mark.parametrize("call", ["cuptiActivityFlushAll", "cuptiActivityDisable"])
def test_exit_does_not_wait_for_a_hung_cupti(profd, call):
    stay = profd.folder / "stay"
    stay.touch()
    job = profd.job(EXITS, "--mode=exit", "--after=40", "--step-ms=10", "--code=3",
                    env={"STAY": str(stay), **gpu.environment("12.4", f"hang={call}")})
    profd.wait_steps(job.pid, 2)
    client = profd.follow("--pid", job.pid, "--steps", 10000)
    wait_for(lambda: profd.process(job.pid)["state"] != "idle" or client.poll() is not None, what="the agent to be armed")
    stay.unlink()  # the job holds until then: its 40 steps may be over before anybody has looked at it
    out, _ = job.communicate(timeout=120)
    client.communicate(timeout=120)
    assert job.returncode == 3 and json.loads(out.strip().splitlines()[-1])["mode"] == "exit"


def test_a_call_that_returns_late_is_forgiven(profd):
    """It is cleaned up after, and the next capture works."""
    log = profd.folder / "cupti.log"
    job = gpu.start(profd, "12.4", f"log={log},slow=cuptiActivityFlushAll@2:2500ms,hang=cuptiActivityFlushAll@90", rate=100)
    capture = profd.trigger(job.pid, "--steps", STEPS, codes=(0, 5))
    assert session(profd, capture)["options"] & 32
    wait_for(lambda: enabled_after(calls(log)) == (set(), 0), 10, "the kinds to be disabled")
    gpu.finish(job)
