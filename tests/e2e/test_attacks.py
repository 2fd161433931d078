"""Attacks that a user of the same machine could try, each of them tried. test_isolation.py asks in the daemon's own words for what is
another's, test_hostile.py sends what nobody sends; here is what the kernel and the file system offer beside.
"""
import ctypes
import errno
import fcntl
import json
import mmap
import os
import pathlib
import random
import shutil
import signal
import socket
import sqlite3
import stat
import struct
import subprocess
import sys
import time

import pytest

import fake_agent as fake
from conftest import BUILD, wait_for
from hostile_capture import TORCH, Capture, slow_to_finish
from shared_node import ALICE, BOB, DAEMON, as_user, become, error_of, needs_root, node, record_once, start_as
from test_disk_full import WRITE, Disk

pytestmark = needs_root
SYS_CLONE3 = 435
ENDLESS = {"skip_first": 0, "wait": 0, "warmup": 1, "active": 9999, "repeat": 1}


# --- files ---

def test_nobody_else_reads_the_store(node):
    """Catalogue, captures, lock: not for others, whatever the umask was; readable for the group."""
    node.start()
    job = node.job(node.steps, "--step-ms=5", user=ALICE)
    node.wait_steps(job.pid, 2)
    record_once(node, job, "", ALICE)
    made = [node.state, *node.state.rglob("*")]
    assert {path.name for path in made} >= {"catalogue.db", "captures", "lock", "1.db"}
    for path in made:
        facts = path.stat()
        assert facts.st_uid == DAEMON and not facts.st_mode & 0o027, (path, oct(facts.st_mode))

    def read():
        opened = []
        for path in made:
            try:
                os.listdir(path) if path.is_dir() else path.read_bytes()
                opened.append(str(path))
            except PermissionError:
                pass
        return opened
    assert as_user(BOB, read) == []

    def remake():  # nor replaces the socket
        failed = 0
        for attempt in (lambda: os.unlink(node.socket), lambda: os.rename(node.socket, "/tmp/profd.sock"),
                        lambda: (node.run_folder / "other").touch()):
            try:
                attempt()
            except PermissionError:
                failed += 1
        return failed
    assert as_user(BOB, remake) == 3


def test_what_the_owner_gets_of_a_file(node):
    """A descriptor for reading: it cannot be written, nor opened again for writing."""
    node.start()
    job = node.job(node.steps, "--step-ms=5", user=ALICE)
    node.wait_steps(job.pid, 2)
    capture = record_once(node, job, "", ALICE)

    def attack():
        descriptors = []
        fake.ask(node.socket, "open", descriptors, capture_id=capture)
        fd, = descriptors
        failed = 0
        for attempt in (lambda: os.write(fd, b"x"), lambda: os.ftruncate(fd, 0),
                        lambda: os.open(f"/proc/self/fd/{fd}", os.O_RDWR), lambda: os.fchmod(fd, 0o666),
                        lambda: mmap.mmap(fd, 4096, prot=mmap.PROT_WRITE)):
            try:
                attempt()
            except (OSError, PermissionError):
                failed += 1
        return failed, os.pread(fd, 15, 0).decode()
    assert as_user(ALICE, attack) == [5, "SQLite format 3"]


# Every path that the daemon opens or makes, and what is put there for it to follow.
PLANTED = ["captures", "lock", "catalogue.db", "catalogue.db-wal", "catalogue.db-shm", "socket"]


@pytest.mark.parametrize("name", PLANTED)
def test_a_link_where_the_daemon_starts(node, name):
    """A symbolic link in place of what it would make is not followed: it ends with a sentence, or makes its own."""
    victim = node.folder / "victim"
    if name == "captures":
        victim.mkdir()
    else:
        victim.write_text("precious")
    os.chown(victim, DAEMON, DAEMON)
    if name.startswith("catalogue.db-"):  # beside a catalogue that is there
        node.start()
        node.stop_daemon(signal.SIGKILL)
        (node.state / name).unlink(missing_ok=True)
    path = node.socket if name == "socket" else node.state / name
    path.symlink_to(victim)
    os.lchown(path, DAEMON, DAEMON)
    try:
        node.start()
        started = True
    except AssertionError:
        started = False
    if victim.is_dir():
        assert list(victim.iterdir()) == []
    else:
        assert victim.read_text() == "precious"
    assert not started, "it started on a link"
    assert "cannot" in node.journal() or "is no socket" in node.journal(), node.journal()
    assert node.daemon.wait(10) == 1


@pytest.mark.parametrize("suffix", ["partial", "reserve", "partial-wal", "db"])
def test_a_link_where_a_capture_goes(node, suffix):
    """So with a capture's own files: what the link names is neither written, nor read, nor handed out."""
    node.start()
    victim = node.folder / "victim"
    victim.write_text("precious")
    os.chown(victim, DAEMON, DAEMON)
    job = node.job(node.steps, "--step-ms=5", user=ALICE)
    node.wait_steps(job.pid, 2)
    record_once(node, job, "", ALICE)
    if suffix == "db":
        (node.state / "captures" / "1.db").unlink()
        (node.state / "captures" / "1.db").symlink_to(victim)

        def read():
            descriptors = []
            rows = fake.ask(node.socket, "open", descriptors, capture_id="1")
            return error_of(rows), descriptors, json.dumps(fake.ask(node.socket, "summary", capture_id="1"))
        error, descriptors, summary = as_user(ALICE, read)
        assert error == "failed" and descriptors == [] and "precious" not in summary
        assert fake.ask(node.socket, "rm", capture_ids=["1"])[0]["row"] == "removed"
    else:
        link = node.state / "captures" / f"2.{suffix}"
        link.symlink_to(victim)
        os.lchown(link, DAEMON, DAEMON)
        node.run("trigger", "--pid", job.pid, "--steps", 2, user=ALICE, check=False)
    assert victim.read_text() == "precious"
    assert node.run("status").returncode == 0


def test_a_store_that_is_somebody_elses(node):
    """A folder that others own or can write is no store."""
    for owner, mode in ((BOB, 0o755), (DAEMON, 0o777), (DAEMON, 0o775)):
        os.chown(node.state, owner, owner)
        node.state.chmod(mode)
        os.chown(node.run_folder, DAEMON, DAEMON)
        done = subprocess.run(["setpriv", f"--reuid={DAEMON}", f"--regid={DAEMON}", "--clear-groups",
                               str(node.programs / "profd-daemon"), "--dir", str(node.state), "--socket", str(node.socket)],
                              env=node.env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and str(node.state) in done.stderr, (owner, oct(mode), done)
        assert "--dir" in done.stderr and ("another user" in done.stderr or "chmod go-w" in done.stderr), done.stderr
        assert list(node.state.iterdir()) == []


# --- memory ---

def agent_of(node, user, then, **more):
    """A process of the user that registers and calls then(agent, say); what it says comes through the pipe."""
    ours, theirs = os.pipe()

    def run():
        agent = fake.Agent(node.socket, **more)
        then(agent, lambda word: os.write(theirs, f"{word}\n".encode()))
        time.sleep(60)
    pid = start_as(node, user, run)
    os.close(theirs)
    lines = os.fdopen(ours)
    return pid, lambda: lines.readline().strip()


def recording(node, user):
    """A process of the user with a capture under way; the process and its descriptor of the segment."""
    def then(agent, say):
        say("ready")
        agent.arm()
        agent.begin()
        say(agent.fd)
    pid, line = agent_of(node, user, then)
    assert line() == "ready"
    trigger = fake.trigger_fields(targets={"pids": [pid]}, follow=False, schedule=ENDLESS)
    assert not error_of(fake.ask(node.socket, "trigger", **trigger))
    return pid, int(line())


def test_a_segment_of_another(node):
    """The memory that carries Alice's events is not to be had by Bob: neither her end of it nor the daemon's."""
    node.start()
    pid, fd = recording(node, ALICE)

    def attack():
        failed = 0
        attempts = [f"/proc/{pid}/fd/{fd}", f"/proc/{pid}/maps", f"/proc/{pid}/mem", f"/proc/{node.daemon.pid}/maps",
                    *(f"/proc/{node.daemon.pid}/fd/{n}" for n in range(3, 40))]
        for path in attempts:
            try:
                os.close(os.open(path, os.O_RDONLY))
            except OSError:
                failed += 1
        return failed == len(attempts)
    assert as_user(BOB, attack)


def test_what_can_be_done_to_ones_own_segment(node):
    """Shrinking, growing and sealing it are refused by the kernel; a hole in it reads as nothing, and harms only oneself."""
    node.start()

    def then(agent, say):
        say("ready")
        agent.arm()
        begun = agent.begin()
        agent.chunk(0, b"".join(fake.operator(1, begun + i, 1, 1, i + 1, 0, 1) for i in range(100)), 1, state=fake.OWNED)
        failed = 0
        for attempt in (lambda: os.ftruncate(agent.fd, 4096), lambda: os.ftruncate(agent.fd, 1 << 40),
                        lambda: fcntl.fcntl(agent.fd, 1033, 8)):  # F_ADD_SEALS, F_SEAL_WRITE
            try:
                attempt()
            except OSError:
                failed += 1
        libc = ctypes.CDLL(None, use_errno=True)
        punched = libc.fallocate(agent.fd, 3, ctypes.c_long(0), ctypes.c_long(os.fstat(agent.fd).st_size))
        say(f"{failed} {punched}")
        agent.done()
    pid, line = agent_of(node, BOB, then)
    assert line() == "ready"
    rows = fake.ask(node.socket, "trigger", **fake.trigger_fields(targets={"pids": [pid]}))
    assert line() == "3 0"
    captured = [row for row in rows if row.get("row") == "captured"][0]
    assert captured["status"] in ("complete", "incomplete", "failed") and captured["events"] == 0
    assert node.run("status").returncode == 0


def test_offers_of_segments_that_are_none(node):
    """After a restart Bob offers for Alice's capture, and for his own: forged ones, shrunk ones, Alice's number, another file."""
    node.start()
    alice, _ = recording(node, ALICE)

    def then(agent, say):
        say("ready")
        agent.arm()
        agent.begin()
        say(agent.capture)
        own, size = agent.fd, os.fstat(agent.fd).st_size
        agent.receive(30)  # the daemon's end
        agent.close()
        wait_for(lambda: answers(node), 20)
        again = fake.Agent(node.socket)
        forged = os.memfd_create("profd-segment", 2)
        os.ftruncate(forged, size)
        os.pwrite(forged, bytes(agent.map[:65536]), 0)
        fcntl.fcntl(forged, 1033, 7)
        shrinkable = os.memfd_create("profd-segment", 2)
        os.ftruncate(shrinkable, size)
        file = os.open("/etc/passwd", os.O_RDONLY)
        refused = []
        for fd in (forged, shrinkable, file):
            for capture in (agent.capture, 1):
                again.say(fake.OFFER, struct.pack("<QQII", capture, 1, 1, 0), [fd])
                refused.append(struct.unpack_from("<QI", again.wait_for(fake.FINISH)[0], 8)[1])
        # His own for Alice's capture, and no descriptor at all.
        again.say(fake.OFFER, struct.pack("<QQII", 1, 1, 1, 0), [own])
        refused.append(struct.unpack_from("<QI", again.wait_for(fake.FINISH)[0], 8)[1])
        again.say(fake.OFFER, struct.pack("<QQII", agent.capture, 1, 1, 0))
        refused.append(struct.unpack_from("<QI", again.wait_for(fake.FINISH)[0], 8)[1])
        # The real one is still taken.
        again.say(fake.OFFER, struct.pack("<QQII", agent.capture, 1, 1, 0), [own])
        again.say(fake.DONE, struct.pack("<QIIQQQQQQQIIQ", agent.capture, 0, 3, 1, 1, 1, 1, 1, 1, 1, 0, 2, 0))
        refused.append(struct.unpack_from("<QI", again.wait_for(fake.FINISH)[0], 8)[1])
        say(json.dumps(refused))
    pid, line = agent_of(node, BOB, then)
    assert line() == "ready"
    assert not error_of(fake.ask(node.socket, "trigger", **fake.trigger_fields(targets={"pids": [pid]}, follow=False)))
    number = line()
    wait_for(lambda: list((node.state / "captures").glob(f"{number}.partial")), what="the file of the capture")
    node.stop_daemon(signal.SIGKILL)
    node.start()
    assert json.loads(line()) == [0] * 8 + [1]
    rows = {row["capture_id"]: row for row in fake.ask(node.socket, "captures")[:-1]}
    assert rows[number]["uid"] == BOB and rows["1"]["uid"] == ALICE and rows["1"]["finished_at"] is None


def answers(node):
    try:
        return fake.ask(node.socket, "status")
    except OSError:
        return False


def test_a_status_page_that_is_scribbled_on(node):
    """Numbers on it can only be wrong: each is bounded, none is followed."""
    node.start()

    def then(agent, say):
        for pattern in (b"\xff" * 4096, b"\x00" * 4096, random.Random(1).randbytes(4096), struct.pack("<Q", 2**63) * 512):
            agent.page[0:4096] = pattern
            say("written")
            time.sleep(0.3)
    pid, line = agent_of(node, BOB, then, name="scribbler")
    for _ in range(4):
        assert line() == "written"
        for _ in range(5):
            row = fake.ask(node.socket, "ps", pid=pid)[0]
            assert row["name"] == "scribbler" and 0 <= row["step"] <= 2**53
            assert row["step_ns"] is None or 0 < row["step_ns"] < 3600 * 10**9
            assert row["step_source"] in ("none", "profd_step", "optimizer", "range", "operator", "duration"), row
            json.loads(node.run("ps", "--format", "json").stdout)


def test_memory_that_is_kept_from_the_daemon(node):
    """A process that keeps all segments it was ever given keeps no memory of the daemon's."""
    node.start()
    rounds = 10

    def then(agent, say):
        kept = []
        for _ in range(rounds):
            say("ready")
            agent.arm()
            begun = agent.begin()
            while struct.unpack_from("<I", agent.map, fake.READY)[0] < 16:
                time.sleep(0.001)
            agent.phase(fake.END)
            agent.done()
            kept.append((agent.fd, agent.map))
            agent.wait_for(fake.FINISH)
        say(sum(os.fstat(fd).st_blocks * 512 for fd, _ in kept))
    pid, line = agent_of(node, BOB, then)
    for _ in range(rounds):
        assert line() == "ready"
        fake.ask(node.socket, "trigger", **fake.trigger_fields(targets={"pids": [pid]}))
    assert int(line()) <= rounds * 4096  # it was more than 10 MiB of each


# --- who it is ---

def test_a_hello_that_lies(node):
    """pid, start time and namespace of another in HELLO: the kernel's word counts."""
    node.start()
    victim = node.job(node.steps, "--step-ms=5", user=ALICE)
    node.wait_steps(victim.pid, 2)
    started = fake.start_time(victim.pid)

    def attack():
        def hello(pid, start):
            fixed = struct.pack("<IHHHHiQQiiiIIIII", fake.MAGIC, fake.HELLO, 1440, 1, 0, pid, fake.PID_NAMESPACE, start, -1, -1,
                                -1, 1, 0, 2, 1, 0)
            return fixed + (fake.text("0.1.0", 32) + fake.text("", 32) + fake.text("", 128) + fake.text("forged", 64) +
                            fake.text("x", 1024) + fake.text("", 32) + fake.text("h", 64))
        kinds = []
        for pid, start in ((victim.pid, started), (victim.pid, fake.start_time()), (victim.pid, 0), (1, 0)):
            connection = fake.connect(node.socket)
            connection.send(hello(pid, start))
            kinds.append(connection.recv(4096)[4])
            rows = fake.ask(node.socket, "ps")[:-1]
            assert all(row["uid"] == BOB and row["pid"] == os.getpid() for row in rows), rows
            connection.close()
        return kinds
    kinds = as_user(BOB, attack)
    assert kinds[0] == fake.REFUSE  # the start time is not the one of who connected
    row = fake.ask(node.socket, "ps", pid=victim.pid)[0]
    assert row["uid"] == ALICE and row["name"] == "steps"


def spawn_with_pid(pid, function):
    """A child process of this very number, or None where the kernel does not grant it."""
    class Arguments(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in ("flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack",
                                                         "stack_size", "tls", "set_tid", "set_tid_size", "cgroup")]
    wanted = (ctypes.c_int32 * 1)(pid)
    arguments = Arguments(exit_signal=signal.SIGCHLD, set_tid=ctypes.addressof(wanted), set_tid_size=1)
    libc = ctypes.CDLL(None, use_errno=True)
    child = libc.syscall(SYS_CLONE3, ctypes.byref(arguments), ctypes.sizeof(arguments))
    if child == 0:
        try:
            function()
        finally:
            os._exit(0)
    return child if child > 0 else None


SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>
int getsockopt(int fd, int level, int name, void *value, socklen_t *n)
{
	static int (*real)(int, int, int, void *, socklen_t *);
	if (!real)
		real = (int (*)(int, int, int, void *, socklen_t *))dlsym(RTLD_NEXT, "getsockopt");
	if (level == SOL_SOCKET && name == 77) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return real(fd, level, name, value, n);
}
"""


@pytest.mark.parametrize("kernel", ["this", "older"])
def test_a_recycled_pid(node, kernel):
    """Bob's process connects and dies; its child, which has the socket, says hello when Alice's process has got the number."""
    environment = []
    if kernel == "older":  # than 6.5: without SO_PEERPIDFD
        if not shutil.which("gcc") or "PROFD_DAEMON" in os.environ:
            pytest.skip("needs gcc, and a daemon without sanitizers")
        shim = node.programs / "older.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(shim), "-ldl"], input=SHIM.encode(), check=True)
        environment = [("LD_PRELOAD", str(shim))]
    node.start(environment=environment)
    reader, writer = os.pipe()
    go_reader, go_writer = os.pipe()
    first = os.fork()
    if first == 0:
        become(BOB)
        connection = fake.connect(node.socket)
        fake.ask(node.socket, "status")
        old = os.getpid()
        if os.fork():
            os._exit(0)
        started = int(os.read(go_reader, 100))
        fixed = struct.pack("<IHHHHiQQiiiIIIII", fake.MAGIC, fake.HELLO, 1440, 1, 0, old, fake.PID_NAMESPACE, started, -1, -1, -1,
                            1, 0, 2, 1, 0)
        connection.send(fixed + fake.text("0.1.0", 32) + fake.text("", 160) + fake.text("forged", 64) + fake.text("", 1120))
        os.write(writer, bytes([connection.recv(4096)[4]]))
        os._exit(0)
    os.waitpid(first, 0)

    def alice():
        become(ALICE)
        agent = fake.Agent(node.socket, name="victim")
        os.write(writer, b"r")
        time.sleep(60)
    victim = spawn_with_pid(first, alice)
    if not victim:
        os.write(go_writer, b"0")
        pytest.skip("this kernel gives nobody a pid of their choice (clone3 with set_tid)")
    try:
        assert victim == first and os.read(reader, 1) == b"r"
        os.write(go_writer, str(fake.start_time(victim)).encode())
        assert os.read(reader, 1)[0] == fake.REFUSE
        rows = fake.ask(node.socket, "ps")[:-1]
        assert [(row["pid"], row["uid"], row["name"]) for row in rows] == [(victim, ALICE, "victim")]
    finally:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        for fd in (reader, writer, go_reader, go_writer):
            os.close(fd)


def test_a_daemon_that_cannot_tell_users_apart(node):
    """In a user namespace that knows but one user all others look alike: they are told so, and are nobody's equal."""
    node.run_folder.chmod(0o777)
    log = open(node.daemon_log, "ab")
    node.daemon = subprocess.Popen(
        ["setpriv", f"--reuid={DAEMON}", f"--regid={DAEMON}", "--clear-groups", "unshare", "-U",
         f"--map-user={DAEMON}", str(node.programs / "profd-daemon"), "--dir", str(node.state), "--socket", str(node.socket)],
        env=node.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    time.sleep(0.5)
    if node.daemon.poll() is not None and "unshare failed" in node.journal():
        pytest.skip("this kernel gives users no user namespaces")
    wait_for(lambda: as_user(DAEMON, answers, node), 10, "the daemon")

    def ask():
        rows = fake.ask(node.socket, "ps")
        connection = fake.connect(node.socket)
        connection.send(fake.hello())
        return rows, connection.recv(4096)[4]
    for user in (ALICE, BOB):
        rows, kind = as_user(user, ask)
        assert error_of(rows) == "unavailable" and "user namespace" in rows[-1]["error"]["message"] and kind == fake.REFUSE


# --- the socket ---

def test_descriptors_that_nobody_wants(node):
    """Hundreds of descriptors with each packet, and connections closed in the middle of it: none stays open."""
    node.start()
    pid = node.daemon.pid
    count = lambda: len(os.listdir(f"/proc/{pid}/fd"))
    wait_for(lambda: count() == count(), 2)
    before = count()

    def attack():
        files = [os.open("/dev/null", os.O_RDONLY) for _ in range(200)]
        for first in (b'{"op":"status","major":1}', b"PRFD" + b"\0" * 60, b"{" * 60000):
            for _ in range(20):
                with fake.connect(node.socket) as connection:
                    socket.send_fds(connection, [first], files)
        for _ in range(50):
            with fake.connect(node.socket) as connection:
                for _ in range(20):
                    fake.send(connection, "captures")
        agent = fake.Agent(node.socket)
        for kind, size in ((fake.ARMED, 24), (fake.DONE, 88), (fake.OFFER, 24)):
            agent.say(kind, bytes(size), files[:100])
        return True
    assert as_user(BOB, attack)
    wait_for(lambda: count() <= before, 10, f"the daemon to have {before} descriptors again, not {count()}")


def test_captures_that_are_opened_and_not_taken(node):
    """A client that leaves its descriptors unread gets no more of them."""
    node.start()
    job = node.job(node.steps, "--step-ms=5", user=BOB)
    node.wait_steps(job.pid, 2)
    capture = record_once(node, job, "", BOB)
    pid = node.daemon.pid
    before = len(os.listdir(f"/proc/{pid}/fd"))
    ours, theirs = os.pipe()

    def hold():
        connections = [fake.connect(node.socket) for _ in range(50)]
        for connection in connections:
            connection.setblocking(False)
            try:
                for _ in range(200):
                    fake.send(connection, "open", capture_id=capture)
            except OSError:
                pass  # it takes no more, or the daemon has closed it
        os.write(theirs, b"x")
        time.sleep(60)
    start_as(node, BOB, hold)
    os.close(theirs)
    assert os.read(ours, 1) == b"x"
    time.sleep(1)
    held = len(os.listdir(f"/proc/{pid}/fd")) - before
    assert held <= 50 * 2 + 10, held
    os.close(ours)


def test_a_process_that_does_not_read_its_orders(node):
    """One unanswered ARM waits in its socket, with its segment; no second one is sent before it says something."""
    node.start()
    pid, line = agent_of(node, BOB, lambda agent, say: say("ready"))
    assert line() == "ready"
    trigger = fake.trigger_fields(targets={"pids": [pid]})
    began = time.monotonic()
    first = fake.ask(node.socket, "trigger", **trigger)
    waited = time.monotonic() - began
    assert error_of(first) == "failed" and "does not answer" in first[-1]["error"]["message"]
    began = time.monotonic()
    for _ in range(20):
        rows = fake.ask(node.socket, "trigger", **trigger)
        assert error_of(rows) == "failed" and "has not answered" in rows[-1]["error"]["message"]
    # Each at once, and not after the time in which the first one was waited for.
    assert (time.monotonic() - began) / 20 < waited / 2


# --- what occupies the daemon ---

def test_an_administrator_ends_a_finish(node):
    """What one user's capture takes to be put into order another user cannot end, and an administrator can."""
    disk = Disk(node.folder / "control")
    os.chown(node.folder / "control", DAEMON, DAEMON)
    library = shutil.copy(BUILD / "workloads" / "libfailing.so", node.programs)
    node.start(environment={"LD_PRELOAD": str(library), "FAILING_FOLDER": str(node.state / "captures"), "FAILING_CONTROL": str(node.folder / "control"),
                            "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"})
    id_at = node.folder / "id"
    id_at.touch()
    os.chown(id_at, BOB, BOB)

    def record():
        capture = Capture(node.socket, max_bytes=64 << 20)
        capture.ran(TORCH)
        slow_to_finish(capture)
        # It goes on until it has been ended: its twentieth write waits.
        disk.fail(20, 2**32 - 1, errno.EAGAIN, WRITE)
        capture.done()
        id_at.write_text(str(capture.agent.capture))
        capture.end()
        time.sleep(60)

    def row():
        found = [row for row in fake.ask(node.socket, "captures")[:-1] if row["capture_id"] == number]
        return found[0] if found else {"status": None}
    start_as(node, BOB, record)
    number = wait_for(id_at.read_text, 60, "the records")
    wait_for(lambda: disk.failed, 20, "the finish")
    assert row()["status"] == "finishing"
    denied = node.run("cancel", number, user=ALICE, check=False)
    assert denied.returncode == 6 and "another user" in denied.stderr, denied
    assert node.run("cancel", number).returncode == 0
    disk.heal()
    ended = wait_for(lambda: row()["finished_at"] and row(), 20, "the end of the finish")
    assert (ended["status"], ended["reason_code"]) == ("incomplete", "cancelled") and ended["events"] == 300_003, ended
    said = [(line["uid"], line["outcome"]) for line in node.audit(action="cancel")]
    assert said == [(0, "cancelled"), (ALICE, "not_permitted")], said
