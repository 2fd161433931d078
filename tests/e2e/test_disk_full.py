"""A store that takes nothing: the capture says so, daemon and job live, and it goes on once there is room.

Full disks are small file systems that the daemon alone sees; what they cannot show (an I/O error in the n-th write) does
tests/workloads/libfailing.c, preloaded into the daemon."""
import errno
import json
import mmap
import os
import pathlib
import select
import shutil
import signal
import sqlite3
import struct
import subprocess
import time

import pytest

import fake_agent as fake
from conftest import BUILD, hurry, stop, wait_for
from recorder import Recorder

STEPS = BUILD / "workloads" / "steps"


def can_mount():
    return os.geteuid() == 0 and shutil.which("unshare") and subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], stderr=subprocess.DEVNULL).returncode == 0


needs_mount = pytest.mark.skipif(not can_mount(), reason="needs root that may mount")
DAEMON = os.environ.get("PROFD_DAEMON", str(BUILD / "bin" / "profd-daemon"))


def settings(profd):
    """No floor: the disk is to be full, not nearly."""
    path = profd.folder / "profd.conf"
    path.write_text("free_space = 0\n")
    return ["--config", str(path)]


def start_small(profd, options):
    profd.store.mkdir(exist_ok=True)
    with open(profd.daemon_log, "ab") as log:
        profd.daemon = subprocess.Popen(["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o mode=0700,{options} none "$1" && shift && exec "$@"',
                                         "sh", str(profd.store), DAEMON, "--user", "--dir", str(profd.store), *settings(profd)],
                                        env=profd.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    wait_for(lambda: profd.run("status", check=False).returncode == 0, 10, "the daemon")
    profd.inside = pathlib.Path(f"/proc/{profd.daemon.pid}/root{profd.store}")


@pytest.fixture
def small(empty_profd):
    """A daemon whose store is a file system of 4 MiB that it alone sees; small.inside is the way there."""
    start_small(empty_profd, "size=4m")
    yield empty_profd


def fill(small, but=0):
    """Takes what is free, but for so many bytes."""
    with open(small.inside / "filler", "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            pass
        filler.truncate(max(0, filler.tell() - but))


def stepping(small, job):
    before = small.process(job.pid)["step"]
    wait_for(lambda: small.process(job.pid)["step"] > before + 5, what="the job to go on")


def trigger(small, pid, **more):
    with fake.connect(small.socket, 60) as connection:
        fake.send(connection, "trigger", **fake.trigger_fields(targets={"pids": [pid]}, collectors=["steps", "nvtx"], **more))
        return [row for row in fake.rows(connection) if row.get("row") == "captured"][0]


@needs_mount
def test_full_from_the_start(small):
    job = small.job(STEPS, "--step-ms=5")
    small.wait_steps(job.pid, 2)
    good = small.trigger(job.pid)
    fill(small)
    captured = trigger(small, job.pid)
    assert captured["status"] == "failed" and captured["reason_code"] == "daemon"
    assert "no space" in captured["reason"] and "profd rm" in captured["reason"]
    # What, where, how much.
    assert str(small.store) in captured["reason"] and "(0 bytes free, 512.0 KiB needed)" in captured["reason"]
    stepping(small, job)
    # What the sentence says helps, even now.
    (small.inside / "filler").unlink()
    wait_for(lambda: [c["status"] for c in small.json("captures")["captures"]] == ["failed", "complete"], 10, "its row")
    fill(small)
    small.run("rm", good["capture_id"])
    (small.inside / "filler").unlink()
    assert small.trigger(job.pid)["status"] == "complete"
    assert sorted(p.suffix for p in (small.inside / "captures").iterdir()) == [".db"]


@needs_mount
def test_full_in_mid_capture(small):
    """What was stored until then is kept, and what was not is counted."""
    agent = fake.Agent(small.socket)
    with fake.connect(small.socket, 60) as connection:
        fake.send(connection, "trigger", **fake.trigger_fields())
        agent.arm()
        begun = agent.begin(4)
        per, sent = agent.chunk_bytes // 80, 0
        for sequence in range(1, 200):
            index = sequence % 4
            if not wait_until_free(agent, index):
                break
            agent.chunk(index, b"".join(fake.operator(1, begun + i, 1, 1, sent + i + 1, 0, 0) for i in range(per)), sequence)
            sent += per
        else:
            pytest.fail("200 chunks went into 4 MiB")
        agent.wait_for(fake.CANCEL)
        agent.phase(fake.END, 1)
        agent.done(reason=7, steps=0)
        captured = [row for row in fake.rows(connection) if row.get("row") == "captured"][0]
    assert captured["status"] == "incomplete" and captured["reason_code"] == "daemon", captured["reason"]
    assert "no space" in captured["reason"]
    assert captured["events"] > per and captured["lost"] > 0 and captured["events"] + captured["lost"] == sent
    (small.inside / "captures" / f"{captured['capture_id'][1:]}.db").stat()
    agent.close()


def wait_until_free(agent, index):
    """Is the chunk taken? Not where the daemon, which may be slow to take it, tells the agent to end first."""
    def look():
        return "free" if agent.state(index) == fake.FREE else "told" if select.select([agent.connection], [], [], 0)[0] else None
    return wait_for(look, what="a free chunk, or word from the daemon") == "free"


@needs_mount
def test_read_only(small):
    job = small.job(STEPS, "--step-ms=5")
    small.wait_steps(job.pid, 2)
    small.trigger(job.pid)
    captures = str(small.store / "captures")
    inside = lambda *command: subprocess.run(["nsenter", "-t", str(small.daemon.pid), "-m", *command], check=True)
    inside("mount", "--bind", captures, captures)
    inside("mount", "-o", "remount,bind,ro", captures)
    captured = trigger(small, job.pid)
    assert captured["status"] == "failed" and captured["reason_code"] == "daemon"
    assert "cannot be written" in captured["reason"] and "read-only" in captured["reason"]
    stepping(small, job)
    inside("umount", captures)
    assert small.trigger(job.pid)["status"] == "complete"


@needs_mount
def test_no_inodes(empty_profd):
    start_small(empty_profd, "size=16m,nr_inodes=24")
    recorder = Recorder(empty_profd)
    assert recorder.capture()["status"] == "complete"
    fillers = []
    try:
        while True:
            fillers.append(empty_profd.inside / f"filler{len(fillers)}")
            fillers[-1].touch()
    except OSError as error:
        assert error.errno == errno.ENOSPC
        fillers.pop()
    captured = recorder.capture()
    assert captured["status"] == "failed" and "has no inode for another file" in captured["reason"], captured["reason"]
    for filler in fillers:
        filler.unlink()
    assert recorder.capture()["status"] == "complete"
    recorder.close()


@needs_mount
def test_the_job_does_not_notice(small):
    """Bit-identical output and the same exit code, with the disk full from before the trigger until the job's end."""
    line = [STEPS, "--steps=600", "--step-ms=5"]
    plain = small.job(*line, agent=False)
    stay = small.folder / "stay"  # it steps on, uncounted, until the captures are over
    stay.touch()
    job = small.job(*line, env={"STAY": str(stay)})
    small.wait_steps(job.pid, 2)
    fill(small)
    captured = trigger(small, job.pid)
    assert captured["status"] == "failed" and "no space" in captured["reason"]
    fill(small, 700 << 10)
    captured = trigger(small, job.pid)
    assert captured["status"] in ("failed", "incomplete", "complete")
    stay.unlink()
    out, err = job.communicate(timeout=60)
    plain_out, plain_err = plain.communicate(timeout=60)
    strip = lambda text: json.dumps({k: v for k, v in json.loads(text).items() if k != "agent"})
    assert strip(out) == strip(plain_out) and err == plain_err and job.returncode == plain.returncode == 0


@needs_mount
def test_start_on_a_full_disk(small):
    """A daemon that starts there starts, serves what there is, deletes what it is told to, and goes on when there is room."""
    recorder = Recorder(small)
    first, second = recorder.capture()["capture_id"], recorder.capture()["capture_id"]
    recorder.close()
    holder = subprocess.Popen(["nsenter", "-t", str(small.daemon.pid), "-m", "sleep", "60"])
    try:
        wait_for(lambda: os.readlink(f"/proc/{holder.pid}/ns/mnt") == os.readlink(f"/proc/{small.daemon.pid}/ns/mnt"), 10, "nsenter")
        small.stop_daemon()
        small.inside = pathlib.Path(f"/proc/{holder.pid}/root{small.store}")
        fill(small)
        with open(small.daemon_log, "ab") as log:
            small.daemon = subprocess.Popen(["nsenter", "-t", str(holder.pid), "-m", DAEMON, "--user", "--dir", str(small.store),
                                             *settings(small)], env=small.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: small.run("status", check=False).returncode == 0 or small.daemon.poll() is not None, 10, "the daemon")
        assert small.daemon.poll() is None, small.daemon_log.read_text()
        assert [c["capture_id"] for c in small.json("captures")["captures"]] == [second, first]
        assert small.show(first)["capture"]["status"] == "complete"
        small.run("rm", first)
        recorder = Recorder(small)
        (small.inside / "filler").unlink()
        assert recorder.capture()["status"] == "complete"
        recorder.close()
    finally:
        small.stop_daemon()
        holder.kill()
        holder.wait()


WRITE, SYNC, RENAME, TRUNCATE, CREATE, ALLOCATE, LOOK = 1, 2, 4, 8, 16, 32, 64
ALL = 63  # that a full disk has something to do with


class Disk:
    """The control block of libfailing.c."""

    def __init__(self, path):
        path.write_bytes(bytes(24))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 24)

    def fail(self, first, last, error, kinds=ALL):
        struct.pack_into("<IIIIII", self.map, 0, 0, first, last, error, kinds, 0)

    def heal(self):
        struct.pack_into("<II", self.map, 4, 0, 0)

    @property
    def calls(self):
        return struct.unpack_from("<I", self.map, 0)[0]

    @property
    def failed(self):
        return struct.unpack_from("<I", self.map, 20)[0]


@pytest.fixture
def failing(empty_profd):
    """A daemon on a disk that fails on demand: failing.disk.fail(...) says when. Only the folder of captures where the test's parameter is
    "captures", else the whole store."""
    profd = empty_profd
    profd.disk = Disk(profd.folder / "control")

    def start(folder):
        profd.env.update(LD_PRELOAD=str(BUILD / "workloads" / "libfailing.so"), FAILING_FOLDER=str(folder),
                         FAILING_CONTROL=str(profd.folder / "control"))
        if os.environ.get("PROFD_DAEMON"):
            profd.env["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=0"
        profd.start_daemon(*settings(profd))
        del profd.env["LD_PRELOAD"]
        return profd

    yield start


def check_after(profd, recorder, captured, error, seen):
    """Whatever came of one capture, it says so truly, and its file is what the row says."""
    status, reason = captured["status"], captured["reason"] or ""
    seen.add(status)
    if status == "complete":
        assert not reason and captured["events"] == 51
    else:
        assert captured["reason_code"] == "daemon" and reason, captured
        assert any(word in reason for word in ("no space", "cannot be written", "disk", "reports an error")), reason
    file = profd.file(captured["capture_id"])
    assert file.exists() == (status in ("complete", "incomplete")), (captured, error)
    if file.exists():
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as db:
            assert db.execute("PRAGMA quick_check").fetchone() == ("ok",)
            assert db.execute("SELECT value FROM meta WHERE key = 'status'").fetchone() == (status,)
            if status == "complete":
                assert db.execute("SELECT count(*) FROM operators").fetchone() == (50,)
    left = [p.name for p in (profd.store / "captures").iterdir() if p.suffix != ".db"]
    assert not left, (left, captured)
    assert profd.daemon.poll() is None


@pytest.mark.parametrize("late", [0, 1.5])
def test_killed_before_there_is_a_note(failing, late):
    """While the disk has not taken the note of a capture nobody hears of it: whoever asked asks the next daemon again, and is not told of
    a capture that this one does not know; also where the agent comes back to it later than the client."""
    profd = failing("/nowhere")
    profd.stop_daemon()
    profd = failing(profd.store / "captures")
    job = profd.job(BUILD / "workloads" / "steps", "--step-ms=200", stdout=subprocess.DEVNULL)
    profd.wait_steps(job.pid, 2)

    def state():
        return fake.ask(profd.socket, "ps", pid=job.pid)[0]["state"]

    def asked():
        """The client, and a daemon that stands still. After a second nobody waits for the note: where a busy machine took longer, once more."""
        profd.disk.fail(1, 10000, errno.EAGAIN, CREATE)
        began = time.monotonic()
        client = profd.follow("--pid", job.pid, "--steps", 50)
        wait_for(lambda: state() != "idle", 10, "the agent to be armed")
        # Time enough for progress to be told, where it is.
        until = time.monotonic() + 0.25
        while time.monotonic() < until:
            assert state() != "idle"
        failed = profd.disk.failed
        stop(profd.daemon.pid)
        if time.monotonic() - began < 0.9:
            assert failed == 1
            return client
        profd.daemon.send_signal(signal.SIGCONT)
        profd.disk.heal()
        profd.run("cancel", "--pid", job.pid)
        client.communicate(timeout=60)
        wait_for(lambda: state() == "idle", what="the agent to be idle")
        return None
    client = wait_for(asked, what="the client to have asked in time")
    profd.stop_daemon(signal.SIGKILL)
    profd.disk.heal()
    if late:
        os.kill(job.pid, signal.SIGSTOP)
    profd.start_daemon(*settings(profd))
    time.sleep(late)
    os.kill(job.pid, signal.SIGCONT)
    hurry(job)
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    rows = json.loads(out)["captures"]
    assert [(row["status"], row["steps_recorded"]) for row in rows] == [("complete", 50)], rows
    assert {row["capture_id"] for row in profd.json("captures")["captures"] if row["reason_code"] != "cancelled"} == {rows[0]["capture_id"]}


@pytest.mark.parametrize("error", [pytest.param("ENOSPC", marks=pytest.mark.core), "EIO", "EDQUOT", "EROFS"])
def test_each_call_of_a_capture_fails_once(failing, error):
    """The n-th write, sync, rename, truncation or creation in the folder of captures, for every n, alone and with all that follow."""
    profd = failing("/nowhere")
    profd.stop_daemon()
    profd = failing(profd.store / "captures")
    recorder, number, seen = Recorder(profd, operators=50), getattr(errno, error), set()
    profd.disk.fail(0, 0, 0)
    recorder.capture()
    calls = profd.disk.calls
    assert 10 < calls < 400
    # Most are writes of one transaction: of these each eighth, with an offset that differs from error to error.
    offset = ["ENOSPC", "EIO", "EDQUOT", "EROFS"].index(error) * 2
    for first in range(1, calls + 2):
        if 8 < first < calls - 16 and first % 8 != offset:
            continue
        for last in (first, 2**32 - 1):
            profd.disk.fail(first, last, number)
            captured = recorder.capture()
            profd.disk.heal()
            check_after(profd, recorder, captured, error, seen)
    assert seen >= {"complete", "failed"}
    assert recorder.capture()["status"] == "complete"
    recorder.close()


def test_catalogue_that_cannot_be_written(failing):
    """Rows wait until they can be written; what was answered is there then, after a restart too."""
    profd = failing("/nowhere")
    profd.stop_daemon()
    profd = failing(profd.store / "catalogue.db")
    recorder = Recorder(profd, operators=5)
    made = []
    profd.disk.fail(0, 0, 0)
    made.append(recorder.capture()["capture_id"])
    calls = profd.disk.calls
    for number in (errno.ENOSPC, errno.EIO):
        for first in range(1, calls + 1, 2):
            profd.disk.fail(first, 2**32 - 1, number)
            captured = recorder.capture()
            assert captured["status"] == "complete"
            profd.disk.heal()
            made.append(captured["capture_id"])
    wait_for(lambda: [(c["capture_id"], c["status"]) for c in profd.json("captures")["captures"]] ==
             [(i, "complete") for i in made[::-1]], 20, "all rows")
    assert profd.json("status")["daemons"][0]["captures"] == len(made)
    # A deletion that cannot be written down says so; a second one finishes it.
    profd.disk.fail(1, 2**32 - 1, errno.EIO)
    refused = profd.run("rm", made[0], check=False)
    assert refused.returncode == 1 and "could not be deleted" in refused.stderr
    pinned = profd.run("pin", made[1], check=False)
    assert pinned.returncode == 1 and "could not be pinned" in pinned.stderr
    profd.disk.heal()
    profd.run("rm", made[0])
    assert profd.json("status")["daemons"][0]["captures"] == len(made) - 1
    recorder.close()
    assert profd.stop_daemon() == 0
    profd.start_daemon(*settings(profd))
    assert [c["capture_id"] for c in profd.json("captures")["captures"]] == made[:0:-1]
