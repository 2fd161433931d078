"""Jobs that fork while the agent's thread is where a lock is held."""
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import time

import pytest

from conftest import same_job
from house import BUILD, wait_for

FORKS = BUILD / "workloads" / "forks"
HOLD = BUILD / "workloads" / "libhold.so"
LIMIT_MS = 500  # how long a fork waits for the agent to leave the loader

# {how: what the job does}
HOWS = {
    "fork": "forks while the agent is in dl_iterate_phdr", "signal": "the same from a signal handler",
    "callback": "the same from a callback of dl_iterate_phdr", "nested": "the same from a fork handler",
    "threads": "the same in four threads at a time", "slow": "has a fork handler that takes 0.3 s",
    "vfork": "vfork() while the agent is in dl_iterate_phdr", "spawn": "the same by posix_spawn()",
    "clone": "the same by a raw clone()",
}


def without_times(text):
    return [{k: v for k, v in line.items() if k != "slowest_ms"} if isinstance(line, dict) else line for line in same_job(text)]


def overruns(profd):
    """How many forks went on although the agent was inside."""
    log = profd.folder / "agent.log"
    return log.read_text().count("a fork of the job did not wait longer") if log.exists() else 0


def run(profd, how, *arguments, preload, ms):
    job = profd.job(FORKS, f"--how={how}", *arguments, agent=False, env={"LD_PRELOAD": preload, "HOLD_MS": str(ms)})
    out, err = job.communicate(timeout=90)
    return job.returncode, out, err


def waited_too_long(profd, how, ended):
    """Did a fork take as long as one waits at most?"""
    return how != "callback" and ended[0] == 0 and (overruns(profd) or how != "slow" and json.loads(ended[1])["slowest_ms"] >= LIMIT_MS)


def both(profd, how, *arguments, ms):
    """Runs the job bare and with the agent, whose calls into the loader take so long. Returns two (code, out, err). Where the machine has
    no processor for one of them for half a second a fork waits too long: there is another try."""
    bare = run(profd, how, *arguments, preload=str(HOLD), ms=ms)
    for _ in range(3):
        (profd.folder / "agent.log").unlink(missing_ok=True)
        watched = run(profd, how, *arguments, preload=f"{HOLD} {profd.agent}", ms=ms)
        if not waited_too_long(profd, how, watched):
            break
    return bare, watched


@pytest.mark.parametrize("how", HOWS)
def test_fork_while_the_agent_is_in_the_loader(row, profd, how):
    row.does(HOWS[how])
    row.nothing_recorded("no capture")
    bare, watched = both(profd, how, "--forks=6", ms=20)
    row.same(bare, watched, without_times)
    found = json.loads(watched[1])
    assert found["hung"] == 0
    # A fork that waits for somebody waits for him alone, and not for the time that is the limit.
    assert how in ("slow", "callback") or found["slowest_ms"] < LIMIT_MS
    assert how == "callback" or not overruns(profd)


@pytest.mark.parametrize("how", ["fork", "threads"])
def test_fork_while_the_agent_gets_no_processor(row, profd, how):
    """As where all cores are busy: what takes microseconds takes a tenth of a second. A child that is made meanwhile hangs."""
    row.does(HOWS[how] + ", which gets no processor for 150 ms")
    row.nothing_recorded("no capture")
    bare, watched = both(profd, how, "--forks=2", ms=150)
    row.same(bare, watched, without_times)
    assert not overruns(profd)


def test_fork_while_the_agent_looks_torch_up(row, profd):
    row.does("forks while the agent is in dlsym")
    row.nothing_recorded("no capture")
    torch = BUILD / "workloads" / "libtorch_cpu.so"
    bare, watched = both(profd, "fork", f"--torch={torch}", "--forks=3", ms=1)
    row.same(bare, watched, without_times)
    assert json.loads(watched[1]) | {"slowest_ms": 0} == {"how": "fork", "forks": 3, "hung": 0, "entered": 0, "torch": 1,
                                                           "slowest_ms": 0}


def test_fork_does_not_wait_for_ever(row, profd):
    row.does("forks while the agent hangs in the loader")
    row.nothing_recorded("no capture")
    stay = pathlib.Path(profd.folder) / "stay"
    stay.touch()
    bare = profd.job(FORKS, "--how=vfork", "--forks=1", agent=False).communicate(timeout=30)
    job = profd.job(FORKS, "--how=callback", "--linger-ms=120", "--forks=1", f"--stay={stay}", agent=False,
                    env={"LD_PRELOAD": f"{HOLD} {profd.agent}", "HOLD_MS": "20"})
    # The agent waits for the loader's lock, which the thread that forks has.
    told = wait_for(lambda: "forks did not wait" in profd.run("doctor", "--pid", job.pid, check=False).stdout, 20,
                    "doctor to tell of the fork")
    assert told
    stay.unlink()
    out, err = job.communicate(timeout=30)
    assert json.loads(out)["hung"] == 0
    row.same((0, bare[0].replace("vfork", "callback"), bare[1]), (job.returncode, out, err), without_times)


LIBRARIES, FORKS_A_STEP, RECORDINGS = 300, 10, 3
SECONDS = float(os.environ.get("PROFD_FORK_SECONDS", "5"))  # minutes in ./dev test long forks


def many_libraries(folder):
    """LIBRARIES and one more, each a file of its own."""
    folder.mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", str(folder / "0.so")], check=True)
    for number in range(1, LIBRARIES + 1):
        shutil.copy(folder / "0.so", folder / f"{number}.so")


def test_forks_beside_recordings(row, profd):
    row.does(f"forks all the time with {LIBRARIES} libraries loaded, beside one recording after the other")
    libraries, told = profd.folder / "libraries", profd.folder / "told"
    many_libraries(libraries)
    line = [BUILD / "workloads" / "fork_many", f"--libraries={libraries}", f"--tell={told}"]
    bare = profd.job(*line, "--seconds=0.2", agent=False)
    bare_out, bare_err = bare.communicate(timeout=60)
    told.unlink()
    stay = profd.folder / "stay"
    stay.touch()
    job = profd.job(*line, "--seconds=0", env={"STAY": str(stay)})
    profd.wait_steps(job.pid, 1)
    captures, until = [], time.monotonic() + SECONDS
    while len(captures) < RECORDINGS or time.monotonic() < until:
        captures.append(profd.trigger(job.pid, "--steps", 5))
    stay.unlink()
    out, err = job.communicate(timeout=60)
    row.same((bare.returncode, bare_out, bare_err), (job.returncode, out, err))
    assert json.loads(out) == {"libraries": LIBRARIES, "hung": 0, "wrong": 0}
    forks = int(told.read_text().split()[1])
    assert forks >= len(captures) * 5 * FORKS_A_STEP, (captures, forks)
    recorded = 0
    for capture in captures:
        with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
            recorded += db.execute("SELECT count(*) FROM ranges").fetchone()[0]
    row.counts(recorded, sum(capture["lost"] for capture in captures), len(captures) * 5 * FORKS_A_STEP)
    row.does(f"forks {forks} times with {LIBRARIES} libraries loaded, beside {len(captures)} recordings")
