"""Jobs that fork while the agent's thread is where a lock is held."""
import json
import pathlib

import pytest

from conftest import same_job
from house import BUILD, wait_for

FORKS = BUILD / "workloads" / "forks"
HOLD = BUILD / "workloads" / "libhold.so"

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


def both(profd, *arguments, ms):
    """Runs the job bare and with the agent, whose calls into the loader take so long. Returns two (code, out, err)."""
    ended = []
    for agent in (False, True):
        preload = f"{HOLD} {profd.agent}" if agent else str(HOLD)
        job = profd.job(FORKS, *arguments, agent=False, env={"LD_PRELOAD": preload, "HOLD_MS": str(ms)})
        out, err = job.communicate(timeout=90)
        ended.append((job.returncode, out, err))
    return ended


@pytest.mark.parametrize("how", HOWS)
def test_fork_while_the_agent_is_in_the_loader(row, profd, how):
    row.does(HOWS[how])
    row.nothing_recorded("no capture")
    bare, watched = both(profd, f"--how={how}", "--forks=6", ms=20)
    row.same(bare, watched, without_times)
    found = json.loads(watched[1])
    assert found["hung"] == 0
    # A fork that waits for somebody waits for him alone, and not for the time that is the limit.
    assert how in ("slow", "callback") or found["slowest_ms"] < 50 or found["slowest_ms"] < 2 * 20 + 30


def test_fork_while_the_agent_looks_torch_up(row, profd):
    row.does("forks while the agent is in dlsym")
    row.nothing_recorded("no capture")
    torch = BUILD / "workloads" / "libtorch_cpu.so"
    bare, watched = both(profd, f"--torch={torch}", "--forks=3", ms=1)
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
