"""A user's own daemon, started as its help says, with nothing in the environment that names its socket: the user's programs meet it."""
import os
import subprocess
import tempfile

import pytest

from conftest import BUILD, Patient, Profd, wait_for

STEPS = BUILD / "workloads" / "steps"


@pytest.fixture
def own():
    """What a user has who has set nothing. A daemon of the system's would be met in place of theirs."""
    if os.path.exists("/run/profd/profd.sock"):
        pytest.skip("the system's daemon is here")
    with tempfile.TemporaryDirectory(prefix="profd-") as folder:
        place = Profd(folder)
        runtime = place.folder / "run"
        runtime.mkdir(mode=0o700)
        del place.env["PROFD_SOCKET"]
        place.env.update(XDG_RUNTIME_DIR=str(runtime), XDG_STATE_HOME=str(place.folder / "state"))
        yield place
        place.close()


def start(own, *options):
    """`profd daemon ...`, by the client."""
    with open(own.daemon_log, "ab") as log:
        own.daemon = Patient([own.client, "daemon", *options], env=own.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    wait_for(own._answers, 20, "the daemon, where programs look for it")


@pytest.mark.parametrize("named", [True, False], ids=["dir", "plain"])
def test_programs_meet_a_daemon_of_ones_own(own, named):
    start(own, "--user", *(["--dir", own.store] if named else []))
    job = own.job(STEPS, "--step-ms=5")
    own.wait_steps(job.pid, 5)
    assert own.process(job.pid)["pid"] == job.pid
    assert own.trigger(job.pid, "--steps", "2")["status"] == "complete"
    captures = [path.name for path in own.store.glob("captures/*.db")] if named else list((own.folder / "state").rglob("captures/*.db"))
    assert len(captures) == 1, captures


def test_a_second_daemon_says_how(own):
    start(own, "--user", "--dir", own.store)
    other = own.folder / "other"
    second = own.run("daemon", "--user", "--dir", other, check=False)
    assert second.returncode == 1 and "--socket" in second.stderr and "PROFD_SOCKET" in second.stderr, second
    # As it says: both live, and each is met by who names it.
    socket = own.folder / "second"
    both = Patient([own.client, "daemon", "--user", "--dir", other, "--socket", socket], env=own.env,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    own.jobs.append(both)
    status = [own.client, "status"]
    wait_for(lambda: str(other) in subprocess.run(status, env={**own.env, "PROFD_SOCKET": str(socket)}, capture_output=True, text=True).stdout,
             20, "the second daemon")
    assert str(own.store) in own.run("status").stdout


def test_a_socket_that_is_named_is_taken(own):
    """PROFD_SOCKET, as the manual says, before all other places."""
    own.env["PROFD_SOCKET"] = str(own.folder / "named")
    start(own, "--user", "--dir", own.store)
    assert (own.folder / "named").is_socket() and not (own.folder / "run" / "profd").exists()
