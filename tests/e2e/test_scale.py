"""Many processes, and a user who holds all the connections that they can get: nothing timed, everything counted."""
import concurrent.futures
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import tempfile

import pytest

import fake_agent as fake
from conftest import BUILD, wait_for
from recorder import Recorder

pytestmark = pytest.mark.serial

AGENTS = 200
STRANGERS = 1500  # more than one user may have
STRANGER = 61999
OWNER = 61998

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users")


@pytest.fixture
def system(empty_profd):
    """A daemon of the system's kind, in a folder that everybody may enter."""
    profd = empty_profd
    folder = pathlib.Path(tempfile.mkdtemp(prefix="profd-scale-"))
    folder.chmod(0o755)
    for path in (BUILD / "lib" / "libprofd_agent.so", BUILD / "workloads" / "steps"):
        shutil.copy(path, folder)
    profd.socket = folder / "profd.sock"
    profd.agent = folder / "libprofd_agent.so"
    profd.env.update(PROFD_SOCKET=str(profd.socket), PROFD_AGENT=str(profd.agent))
    profd.env.pop("PROFD_DEBUG")  # a file of root's
    daemon = os.environ.get("PROFD_DAEMON", str(BUILD / "bin" / "profd-daemon"))
    with open(profd.daemon_log, "ab") as log:
        profd.daemon = subprocess.Popen([daemon, "--dir", str(profd.store), "--socket", str(profd.socket)], env=profd.env,
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    wait_for(lambda: profd.run("status", check=False).returncode == 0, 10, "the daemon")
    yield profd
    shutil.rmtree(folder, ignore_errors=True)


def memory_kb(pid):
    """Of its own: without what it shares with the agents."""
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith(("Private_Dirty", "Pss_Anon")))


def test_two_hundred_agents(profd):
    """A trigger on all: each records exactly the steps that were asked for, and the daemon gives back what it took."""
    environment = {**profd.env, "LD_PRELOAD": str(profd.agent)}
    for _ in range(AGENTS):
        profd.jobs.append(subprocess.Popen([BUILD / "workloads" / "steps", "--step-ms=50"], env=environment,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def stepping():
        rows = profd.json("ps")["processes"]
        return len(rows) == AGENTS and all(row["step"] >= 2 for row in rows)
    wait_for(stepping, 60, "all agents")
    before = memory_kb(profd.daemon.pid)
    answer = profd.json("trigger", "--all", "--steps", "3", "--timeout", "5m", timeout=330)
    assert answer["refused"] == [] and len(answer["captures"]) == AGENTS
    assert {row["pid"] for row in answer["captures"]} == {job.pid for job in profd.jobs}
    for row in answer["captures"]:
        assert (row["status"], row["steps_recorded"], row["lost"]) == ("complete", 3, 0), row
        with sqlite3.connect(f"file:{profd.file(row['capture_id'])}?mode=ro", uri=True) as db:
            assert db.execute("SELECT count(*) FROM steps").fetchone()[0] == 3
            # Four ranges in one, and a mark, each step: tests/workloads/steps.c.
            for table, each in (("ranges", 5), ("marks", 1)):
                per_step = db.execute(f"SELECT step, count(*) FROM {table} WHERE step > 0 GROUP BY step").fetchall()
                assert per_step == [(step, each) for step in (1, 2, 3)], (row["capture_id"], table)
    # What one capture takes is not kept for ever; 8 MB are the heap's own slack, for all of them.
    wait_for(lambda: memory_kb(profd.daemon.pid) < 2 * before + 8192, 20, "the daemon's memory to be given back")
    assert len(profd.json("captures", "--limit", "1000")["captures"]) == AGENTS


# Connects as often as it is let, and keeps at it: idle ones, halves of a request, rubbish, a crowd that asks and never reads,
# and agents that say hello and no more.
STRANGER_SCRIPT = """
import socket, sys, time
sys.path.insert(0, sys.argv[3])
import fake_agent as fake
held = []
for i in range(int(sys.argv[2])):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.settimeout(5)
    try:
        one.connect(sys.argv[1])
        if i % 5 == 1: one.send(b'{"op":')
        if i % 5 == 2: one.send(bytes(range(256)))
        if i % 5 == 4: one.send(fake.hello(name="stranger"))
        one.setblocking(False)
        while i % 5 == 3: fake.send(one, "ps")
    except OSError:
        pass
    held.append(one)
print("ready", flush=True)
while True:
    for i, one in enumerate(held):
        try:
            if i % 5 == 2: one.send(b"\\0" * 64)
            if i % 5 == 0 and i % 50 == 0:
                one.close()
                held[i] = one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                one.settimeout(5)
                one.connect(sys.argv[1])
        except OSError:
            pass
    time.sleep(0.01)
"""


@as_root
def test_one_users_connections_keep_nobody_else_from_triggering(system):
    folder = system.socket.parent
    owner = {"user": OWNER, "group": OWNER, "extra_groups": [], "cwd": "/"}
    job = subprocess.Popen([folder / "steps", "--step-ms=5"], env={**system.env, "LD_PRELOAD": str(system.agent)},
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **owner)
    system.jobs.append(job)
    system.wait_steps(job.pid, 2)
    # What a stranger can read of the tests, and its own.
    shutil.copy(fake.__file__, folder)
    client = folder / "profd"
    shutil.copy(system.client, client)
    stranger = subprocess.Popen(["/usr/bin/python3", "-c", STRANGER_SCRIPT, str(system.socket), str(STRANGERS), str(folder)],
                                user=STRANGER, group=STRANGER, extra_groups=[], cwd="/", stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, text=True)
    try:
        assert stranger.stdout.readline() == "ready\n"
        # What the daemon holds of them, beside the owner's and ours.
        held = len(os.listdir(f"/proc/{system.daemon.pid}/fd"))
        assert 200 < held < STRANGERS
        for steps in (3, 5):
            done = subprocess.run([client, "trigger", "--pid", str(job.pid), "--steps", str(steps), "--format", "csv"],
                                  env=system.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, **owner)
            assert done.returncode == 0, done.stderr
            lines = done.stdout.splitlines()
            row = dict(zip(lines[0].split(","), lines[1].split(",")))
            assert (row["status"], row["steps_recorded"]) == ("complete", str(steps)), row
        # Another one of theirs comes on, too, where the owner has none.
        assert subprocess.run([client, "ps"], env=system.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=30,
                              **owner).returncode == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
    wait_for(lambda: len(os.listdir(f"/proc/{system.daemon.pid}/fd")) < 100, 20, "the connections to be closed")
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait(20) == 0


def anonymous(pid):
    """KiB of memory that is nobody else's."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))


def test_memory_of_many_captures_is_given_back_beside_one_that_goes_on(profd):
    """A job that is always recorded does not make the daemon keep what fifty others took."""
    steady = profd.job(BUILD / "workloads" / "steps", "--step-ms=20")
    profd.wait_steps(steady.pid, 2)
    profd.run("trigger", "--pid", steady.pid, "--steps", 100000, "--no-wait")
    jobs = [profd.job(BUILD / "workloads" / "steps", "--step-ms=20") for _ in range(50)]
    for job in jobs:
        profd.wait_steps(job.pid, 2)
    before = anonymous(profd.daemon.pid)
    answer = profd.json("trigger", "--pid", ",".join(str(job.pid) for job in jobs), "--steps", 5)
    assert all(capture["status"] == "complete" for capture in answer["captures"]) and len(answer["captures"]) == 50
    wait_for(lambda: anonymous(profd.daemon.pid) < before + 4096, 10,
             f"the heap: {anonymous(profd.daemon.pid) - before} KiB more than before it")
    assert profd.process(steady.pid)["state"] == "recording"


CAPTURES = int(os.environ.get("PROFD_CAPTURES", "300"))  # 3,000 in ./dev test long repeats


def test_many_captures_leave_no_memory_behind(profd):
    """One after the other, and some side by side: what the daemon holds after all of them is what it held after the first twenty."""
    recorders = [Recorder(profd, operators=2000, name=f"recorder {i}") for i in range(4)]
    try:
        def captures(count):
            with concurrent.futures.ThreadPoolExecutor(len(recorders)) as pool:
                while count > 0:
                    together = recorders if count % 3 == 0 else recorders[:1]
                    assert all(row["capture_id"] for row in pool.map(lambda recorder: recorder.capture(), together))
                    count -= len(together)

        captures(20)
        profd.run("show", profd.json("captures")["captures"][0]["capture_id"])
        first = anonymous(profd.daemon.pid)
        captures(CAPTURES - 20)
        wait_for(lambda: anonymous(profd.daemon.pid) < first + 4096, 10,
                 f"the heap: {anonymous(profd.daemon.pid) - first} KiB more than after 20 captures")
        print(f"{CAPTURES} captures: {first} KiB after 20, {anonymous(profd.daemon.pid)} KiB after all")
    finally:
        for recorder in recorders:
            recorder.close()
