"""A hostile peer cannot crash, block or grow the daemon, sees nothing of others, and spoils nobody's capture.

Each test attacks while an honest job is recorded; `guarded` proves afterwards (and `alive` meanwhile) that the daemon answers
within a second, has not grown, holds no more descriptors than before, and that the honest capture is right.
"""
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time

import pytest

import fake_agent as fake
from conftest import BUILD, wait_for

STEPS = BUILD / "workloads" / "steps"
NOBODY = 65534
# Of the daemon's own memory; a sanitizer's shadow comes on top.
GROWTH_MAX = (256 if "PROFD_DAEMON" in os.environ else 64) << 20
# A sanitizer's daemon keeps what was freed: not 256 MiB of it.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8:thread_local_quarantine_size_kb=64"


def memory(pid):
    """Bytes of the process's own (segments are shared memory, bounded by --max-bytes)."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    return 0


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def alive(profd):
    """Another client is answered within a second; the quickest of three answers counts, as other tests use the processors too."""
    took = []
    for _ in range(3):
        began = time.monotonic()
        assert fake.ask(profd.socket, "status")[0]["row"] == "daemon"
        took.append(time.monotonic() - began)
    assert min(took) < 1, took


@pytest.fixture
def guarded(profd):
    job = profd.job(STEPS, "--step-ms=5")
    profd.wait_steps(job.pid, 2)
    profd.trigger(job.pid)
    pid = profd.daemon.pid
    settled = lambda: fake.ask(profd.socket, "status")[0]["running"] == 0
    wait_for(settled, what="the first capture to settle")
    time.sleep(0.2)
    before_fds, before_memory = descriptors(pid), memory(pid)
    client = profd.follow("--pid", job.pid, "--steps", 200)
    profd.honest = job
    yield profd
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    capture = json.loads(out)["captures"][0]
    assert capture["status"] == "complete" and capture["steps_recorded"] == 200 and capture["lost"] == 0
    shown = profd.show(capture["capture_id"])
    assert {r["name"]: r["calls"] for r in shown["ranges"]} == {"step": 200, **{f"work {i}": 200 for i in range(4)}}
    alive(profd)
    assert profd.daemon.poll() is None and profd.daemon.pid == pid
    wait_for(lambda: descriptors(pid) <= before_fds, 15, f"the daemon to give its descriptors back ({before_fds} before)")
    grown = memory(pid) - before_memory
    assert grown < GROWTH_MAX, f"the daemon has grown by {grown >> 20} MiB"


def closed(connection, seconds=60):
    """Has the other side ended the connection?"""
    connection.settimeout(seconds)
    try:
        while connection.recv(70000):
            pass
        return True
    except ConnectionError:
        return True
    except socket.timeout:
        return False


# --- messages of agents ---

def mutations():
    whole = fake.hello()
    yield whole[:7]
    yield whole[:100]
    yield whole[:-1]
    yield whole + b"\0" * 8
    yield b"\0" * 64
    yield b"PRFD" + b"\xff" * 100
    yield whole.replace(b"fake agent", b"\xff" * 10)[:1440].replace(b"\0", b"x")  # texts without an end
    for kind in (0, 2, 3, 4, 7, 12, 13, 99, 65535):
        yield struct.pack("<IHH", fake.MAGIC, kind, 1440) + whole[8:]
    for size in (0, 8, 65535):
        yield struct.pack("<IHH", fake.MAGIC, fake.HELLO, size) + whole[8:]
    yield fake.hello(major=9)
    yield fake.hello(start=1)
    for kind in (fake.ARMED, fake.DONE, fake.COLLECTOR, fake.OFFER, fake.AFTER):
        yield struct.pack("<IHH", fake.MAGIC, kind, 400) + b"\0" * 392  # before a hello
    # Drawn once: what begins with "{" is a request of a client, who is told that it is none and may send another.
    yield random.Random(1).randbytes(60000)


def test_messages_that_no_agent_sends(guarded):
    for packet in mutations():
        connection = fake.connect(guarded.socket)
        connection.send(packet)
        assert closed(connection), packet[:40]
        connection.close()
    alive(guarded)
    for packet in mutations():  # from a process that has registered
        agent = fake.Agent(guarded.socket)
        agent.connection.send(packet)
        alive(guarded)
        agent.close()


def test_oversized_packets(guarded):
    for first in (b"{", b"P"):
        for size in (65536, 65537, 100000, 200000):
            connection = fake.connect(guarded.socket)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            try:
                connection.send(first + b"x" * (size - 1))
            except OSError:
                pass
            assert closed(connection) if first == b"P" or size > 65536 else True
            connection.close()
    alive(guarded)


def test_wrong_capture_ids(guarded):
    """An agent speaks of captures that are not its own: the honest one's too."""
    agent = fake.Agent(guarded.socket)
    for number in [*range(6), 2**31, 2**63, 2**64 - 1]:
        agent.say(fake.ARMED, struct.pack("<QQII", number, 0, 2, 0))
        agent.say(fake.DECLINED, struct.pack("<QII", number, 12, 0) + fake.text("no", 248))
        agent.say(fake.COLLECTOR, struct.pack("<QIIQ", number, 2**32 - 1, 1, 5) + fake.text("x", 248))
        agent.say(fake.DONE, struct.pack("<QIIQQQQQQQIIQ", number, 4, 2**32 - 1, *[2**64 - 1] * 7, 1, 99, 2**64 - 1))
        agent.say(fake.AFTER, struct.pack("<QQII", number, 2**64 - 1, 3, 0))
        alive(guarded)
    agent.close()


def test_a_flood_of_hellos(guarded):
    agent = fake.Agent(guarded.socket)
    until = time.monotonic() + 2
    sent = 0
    agent.connection.settimeout(60)  # where the daemon gets no processor the queue is full
    while time.monotonic() < until or sent <= 500:
        agent.connection.send(fake.hello(name=f"name {sent}"))
        sent += 1
        if sent % 500 == 0:
            alive(guarded)
    agent.close()
    for _ in range(200):  # and of registrations
        fake.Agent(guarded.socket).close()
    alive(guarded)


def test_foreign_segments(guarded):
    agent = fake.Agent(guarded.socket)
    memfd = os.memfd_create("mine", 2)
    os.ftruncate(memfd, 1 << 20)
    sparse = os.memfd_create("large", 2)
    os.ftruncate(sparse, 1 << 40)
    folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    pipe, other = os.pipe()
    null = os.open("/dev/zero", os.O_RDWR)
    for fd in (memfd, sparse, folder, pipe, null, agent.connection.fileno()):
        for number in (0, 1, 2, 3, 2**64 - 1):
            agent.say(fake.OFFER, struct.pack("<QQII", number, 1, 1, 0), [fd])
    agent.say(fake.OFFER, struct.pack("<QQII", 1, 1, 1, 0))
    for kind in (fake.ARMED, fake.DONE):  # descriptors where none belong
        agent.say(kind, b"\0" * {fake.ARMED: 24, fake.DONE: 88}[kind], [memfd] * 4)
    alive(guarded)
    agent.close()
    for fd in (memfd, sparse, folder, pipe, other, null):
        os.close(fd)


# --- segments ---

def finish(connection):
    """The capture that a followed trigger ends with."""
    for row in fake.rows(connection):
        if row["row"] == "captured" if "row" in row else False:
            captured = row
    return captured


def record(profd, **more):
    """A fake agent in the middle of a capture, and the connection that follows it."""
    agent = fake.Agent(profd.socket)
    connection = fake.connect(profd.socket, 60)
    fake.send(connection, "trigger", **fake.trigger_fields(**more))
    agent.arm()
    return agent, connection


def test_lying_chunk_table(guarded):
    """used, sequence, state, thread and the header's offsets say what they like; nothing outside is read."""
    agent, connection = record(guarded, max_bytes=8 << 20)
    begun = agent.begin()
    good = b"".join(fake.operator(1, begun + i, 1, 1, i + 1, 0, 1) for i in range(10))
    for index, (used, sequence, state) in enumerate([(2**32 - 1, 7, 2), (2**31, 7, 2), (len(good) + 7, 1, 2), (3, 2, 2),
                                                     (0, 3, 2), (len(good), 0, 2), (len(good), 2**32 - 1, 2)]):
        if index < agent.chunk_count:
            agent.chunk(index, good, sequence, state, used)
            time.sleep(0.02)
    for state in (3, 2**32 - 1):
        agent.chunk(0, good, 9, state)
    # Constants of the header, which the daemon has written itself.
    struct.pack_into("<QIIQQIIQQQI", agent.map, 0, 0, 0, 0, 0, 2**64 - 1, 2**32 - 1, 2**32 - 1, 2**63, 2**63, 2**63, 2**32 - 1)
    struct.pack_into("<II", agent.map, fake.READY, 2**32 - 1, 2**32 - 1)
    struct.pack_into("<i", agent.map, 192, -2**31)
    struct.pack_into("<II", agent.map, fake.SEQUENCE, 2**32 - 1, 2**32 - 1)
    struct.pack_into("<IIII", agent.map, fake.PHASE, 2, 2**32 - 1, 2**32 - 1, 2**32 - 1)
    struct.pack_into("<QQQQ", agent.map, fake.BASE, *[2**64 - 1] * 4)
    for i in range(16 * 32):
        struct.pack_into("<Q", agent.map, fake.LOST + 8 * i, 2**64 - 1)
    alive(guarded)
    agent.phase(fake.END, 2**32 - 1)
    agent.done(steps=2**32 - 1)
    captured = finish(connection)
    assert captured["status"] in ("incomplete", "failed") and captured["lost"] <= 2**53
    alive(guarded)
    agent.close()
    connection.close()


def test_hostile_records(guarded):
    """Records with every field wrong are counted as unreadable, and the whole ones around them are kept."""
    agent, connection = record(guarded, max_bytes=8 << 20)
    begun = agent.begin()
    ids = agent.strings(["good", b"\xff\xfe\x00\x1b[2J", "x" * 16000])
    good = fake.operator(1, begun + 5, 10, 10, 1, 0, ids["good"])
    bad = [fake.operator(1, 2**64 - 1, 2**64 - 1, 2**64 - 1, 2, 0, 1), fake.operator(1, begun, 5, 6, 3, 0, 1),
           fake.operator(1, begun, 3, 3, 4, 0, 1, thread=2**32 - 1), fake.operator(1, begun, 3, 3, 4, 0, 2**32 - 1),
           fake.operator(2**32 - 1, begun, 3, 3, 4, 0, 1), fake.operator(1, begun + 2**45, 3, 3, 4, 0, 1),
           struct.pack("<HBBI", 8, 200, 0, 0), struct.pack("<HBBI", 16, 0, 255, 0) + b"\0" * 8]
    cycle = (fake.operator(1, begun + 6, 3, 3, 10, 11, ids["good"], 60000) +
             fake.operator(1, begun + 6, 3, 3, 11, 10, ids["good"], 65535, thread=2**22) +
             fake.operator(100000, begun + 6, 3, 3, 11, 11, 2**21))
    agent.chunk(0, good + b"".join(bad) + good + cycle + b"".join(fake.step(i + 1, begun + i, 1) for i in range(3)), 1)
    for size in (0, 4, 9, 65535):  # what follows a broken length is lost with it
        wait_for(lambda: agent.state(0) == fake.FREE, what="the chunk to be taken")
        agent.chunk(0, good + struct.pack("<HBBI", size, 2, 0, 1) + good, 2 + size)
    wait_for(lambda: agent.state(0) == fake.FREE, what="the chunk to be taken")
    agent.phase(fake.END, 3)
    agent.done()
    captured = finish(connection)
    assert captured["status"] == "complete" and captured["steps_recorded"] == 3
    with sqlite3.connect(f"file:{guarded.file(captured['capture_id'])}?mode=ro", uri=True) as db:
        # A record that says it has 65535 bytes does not end within its chunk.
        assert db.execute("SELECT count(*) FROM operators WHERE id = 1").fetchone()[0] == 6
        assert db.execute("SELECT count FROM losses WHERE loss = 'unreadable' AND kind = 'operator'").fetchone()[0] == 6
        texts = [row[0] for row in db.execute("SELECT text FROM strings")]
        assert "good" in texts and not any("\x1b" in t or "\0" in t for t in texts)
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    guarded.show(captured["capture_id"])
    agent.close()
    connection.close()


def test_a_segment_rewritten_while_it_is_read(guarded):
    agent, connection = record(guarded, max_bytes=8 << 20, timeout=4 * 10**9)
    begun = agent.begin()
    agent.strings([f"name {i}" for i in range(100)])
    good = b"".join(fake.operator(1, begun + i, 1, 1, i + 1, 0, 2) for i in range(50))
    stop = threading.Event()
    noise = random.Random(5)

    def scribble():
        sequence = 1
        while not stop.is_set():
            index = noise.randrange(min(4, agent.chunk_count))
            agent.chunk(index, good, sequence, noise.choice((1, 2, 2)))
            sequence += 1
            for _ in range(20):
                start, size = noise.choice(((agent.table_at, 256), (agent.strings_at, 2048), (agent.chunks_at, 8192),
                                            (fake.SEQUENCE, 8), (fake.PHASE, 64), (fake.LOST, 4096)))
                at = start + noise.randrange(size - 7)
                agent.map[at:at + 8] = noise.randbytes(8)

    writers = [threading.Thread(target=scribble) for _ in range(2)]
    for writer in writers:
        writer.start()
    for _ in range(10):
        time.sleep(0.15)
        alive(guarded)
    agent.done()
    captured = finish(connection)  # while it is still scribbled on
    stop.set()
    for writer in writers:
        writer.join()
    assert captured["status"] in ("complete", "incomplete", "failed")
    if captured["status"] != "failed":
        with sqlite3.connect(f"file:{guarded.file(captured['capture_id'])}?mode=ro", uri=True) as db:
            assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        guarded.show(captured["capture_id"])
    agent.close()
    connection.close()


def test_a_flood_of_rows(guarded):
    """What a capture may grow to is bounded by the segment; rows without end by the deadline."""
    agent, connection = record(guarded, max_bytes=1 << 20, timeout=3 * 10**9)
    begun = agent.begin()
    identity, sequence = 1, 1
    per = agent.chunk_bytes // 80
    rows = b"".join(fake.operator(1, begun + i, 1, 1, 0, 0, i, i % 200, thread=i) for i in range(per))
    until = time.monotonic() + 6
    connection.settimeout(0.001)
    while time.monotonic() < until:
        for index in range(min(4, agent.chunk_count)):
            if agent.state(index) == fake.FREE:
                agent.chunk(index, rows, sequence)
                sequence += 1
        if sequence % 50 == 0:
            alive(guarded)
    connection.settimeout(120)
    captured = finish(connection)
    assert captured["status"] == "incomplete" and captured["reason_code"] == "deadline"
    agent.close()
    connection.close()


# --- connections ---

def test_who_never_reads(guarded):
    silent = []
    for op, more in (("status", {}), ("captures", {}), ("ps", {})):
        connection = fake.connect(guarded.socket)
        connection.setblocking(False)
        try:
            for _ in range(5000):
                fake.send(connection, op, **more)
        except BlockingIOError:
            pass
        silent.append(connection)
    agent = fake.Agent(guarded.socket)  # an agent that never reads its PROBEs
    connections = []
    for _ in range(300):
        connection = fake.connect(guarded.socket)
        fake.send(connection, "doctor", pid=os.getpid())
        connections.append(connection)
    alive(guarded)
    for connection in (*silent, *connections, agent):
        connection.close()


def test_a_thousand_connections(guarded):
    connections = []
    for _ in range(1000):
        connections.append(fake.connect(guarded.socket))
    alive(guarded)
    for connection in connections[::2]:
        connection.send(b"{")
    alive(guarded)
    for connection in connections:
        connection.close()


def test_clients_that_vanish(guarded):
    agent = fake.Agent(guarded.socket)
    for op, more in (("status", {}), ("ps", {}), ("captures", {}), ("doctor", {"pid": os.getpid()}),
                     ("summary", {"capture_id": "u1"}), ("open", {"capture_id": "u1"}), ("rm", {"capture_ids": ["u999"]}),
                     ("cancel", {"trigger_id": "ut99"}),
                     ("trigger", fake.trigger_fields(targets={"name": "nobody"}, wait_for=10**9))):
        for _ in range(20):
            connection = fake.connect(guarded.socket)
            fake.send(connection, op, **more)
            connection.close()
        alive(guarded)
    agent.close()


# --- JSON ---

VALID = {
    "status": {}, "ps": {"pid": 1}, "doctor": {"pid": 1}, "trigger": fake.trigger_fields(), "cancel": {"capture_id": "u99"},
    "captures": {"limit": 5, "pid": 1, "job": "j", "name": "n", "label": "l"}, "summary": {"capture_id": "u99"},
    "open": {"capture_id": "u99"}, "rm": {"capture_ids": ["u99"]},
}
WRONG = [None, True, -1, 0.5, 1e308, -1e308, 2**64, "", "x" * 5000, "\x1b[2J", [], [1], ["x"], {}, {"pids": []},
         {"pids": ["x"]}, {"pids": [-1]}, {"pids": [2**40]}, {"name": 5}, {"pids": [1] * 3000}, {"warmup": -1, "active": 0},
         {"active": 2**40}, [[[[]]]]]


def reply(profd, packet):
    """The last row of the reply, None where the connection was closed instead."""
    with fake.connect(profd.socket) as connection:
        try:
            connection.send(packet)
            return list(fake.rows(connection))[-1]
        except (EOFError, ConnectionError):
            return None


def test_every_field_with_every_wrong_type(guarded):
    envelope = {"major": 1, "minor": 0, "pid_namespace": str(fake.PID_NAMESPACE)}
    connection = fake.connect(guarded.socket)
    sent = 0
    for op, fields in VALID.items():
        for field in [*fields, "op", "major", "pid_namespace"]:
            for wrong in [*WRONG, "absent"]:
                request = {"op": op, **envelope, **fields}
                if wrong == "absent":
                    del request[field]
                else:
                    request[field] = wrong
                if op == "trigger":
                    # Not a real one: nothing is to be armed, however wide the mutation makes its targets.
                    request.setdefault("targets", {"name": "no such process"})
                    if request["targets"] == fields["targets"]:
                        request["targets"] = {"name": "no such process"}
                    if field != "wait_for":
                        request["wait_for"] = 0
                connection.send(json.dumps(request).encode())
                end = list(fake.rows(connection))[-1]
                assert end["end"] is True
                if "error" in end:
                    assert end["error"]["code"] and end["error"]["message"]
                    assert "\x1b" not in end["error"]["message"]
                sent += 1
    assert sent > 500
    connection.close()
    alive(guarded)


def test_json_bombs(guarded):
    deep = b'{"op":' + b"[" * 30000 + b"]" * 30000 + b"}"
    objects = b'{"op":"ps","x":' + b'{"a":' * 12000
    for packet in (b"{", b"{}", b"{]", b"{" * 60000, deep, objects, b'{"op":"ps","major":1' + b" " * 65000,
                   b'{"op":"ps","major":NaN}', b'{"op":"ps","major":Infinity}', b'{"op":"ps","major":1e999}',
                   b'{"op":"ps","major":' + b"9" * 60000 + b"}", b'{"op":"ps","major":-0}',
                   b'{"op":"\xff\xfe","major":1}', b'{"op":"\\u0000ps","major":1}', b'{"op":"\\ud800","major":1}',
                   b'{"op":"ps","major":1}' * 2000, b'{"op":"ps","op":5,"major":1,"major":"x"}',
                   b'{"op":"trigger","major":1,"targets":{"pids":[' + b"1," * 30000 + b"1]}}",
                   b'{"op":"rm","major":1,"capture_ids":[' + b'"u1",' * 12000 + b'"u1"]}',
                   b'{"op":"captures","major":1,"name":"' + b"*" * 60 + b"x" * 60 + b'"}', b"{\0" * 100):
        end = reply(guarded, packet)
        assert end is None or "error" in end or packet.startswith((b'{"op":"ps","op"', b'{"op":"captures"')), packet[:60]
        alive(guarded)


# --- processes that are not what they seem ---

def test_a_child_that_holds_the_socket(profd):
    """No EOF comes when the parent dies: its death is seen all the same."""
    parent = subprocess.Popen([sys.executable, fake.__file__, str(profd.socket)], stdout=subprocess.PIPE, text=True,
                              start_new_session=True)
    try:
        pid = int(parent.stdout.readline())
        profd.wait_registered(pid)
        connection = fake.connect(profd.socket, 20)
        fake.send(connection, "trigger", **fake.trigger_fields(targets={"pids": [pid]}))
        assert parent.stdout.readline().strip() == "recording"
        time.sleep(0.2)
        parent.kill()
        parent.wait()
        captured = finish(connection)
        assert captured["status"] == "incomplete" and captured["reason_code"] == "died"
        assert captured["steps_recorded"] == 1
        assert profd.process(pid) is None
    finally:
        os.killpg(parent.pid, signal.SIGKILL)


def test_a_second_hello_of_the_same_process(profd):
    """After exec: same pid, same start time, another agent. The old capture ends, the new agent can be triggered."""
    first, connection = record(profd)
    begun = first.begin()
    first.chunk(0, fake.step(1, begun, 1000), 1)
    second = fake.Agent(profd.socket, name="after exec")
    captured = finish(connection)
    assert captured["status"] == "incomplete" and captured["steps_recorded"] == 1
    row = profd.process(os.getpid())
    assert row["name"] == "after exec" and row["state"] == "idle"
    with fake.connect(profd.socket) as connection:
        fake.send(connection, "trigger", **fake.trigger_fields(follow=False))
        second.arm()
        assert list(fake.rows(connection))[0]["outcome"] == "armed"
    first.close()
    second.close()


as_root = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
GROUP = 54321


@pytest.fixture
def system(empty_profd):
    """A daemon of the system's kind, whose socket everybody reaches. It alone sees a group profd of number GROUP."""
    profd = empty_profd
    folder = profd.for_all_users(fake.__file__)
    groups = folder / "group"
    groups.write_text(pathlib.Path("/etc/group").read_text() + f"profd:x:{GROUP}:\n")
    profd.socket = folder / "profd.sock"
    profd.env["PROFD_SOCKET"] = str(profd.socket)
    daemon = os.environ.get("PROFD_DAEMON", str(BUILD / "bin" / "profd-daemon"))
    with open(profd.daemon_log, "ab") as log:
        profd.daemon = subprocess.Popen(["unshare", "-m", "sh", "-c", 'mount --bind "$1" /etc/group && shift && exec "$@"', "sh",
                                         str(groups), daemon, "--dir", str(profd.store), "--socket", str(profd.socket)],
                                        env=profd.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    wait_for(lambda: profd.run("status", check=False).returncode == 0, 10, "the daemon")
    return profd


def as_stranger(profd, code, group=None):
    """What `code` gives in a process of the user nobody; last(op, **fields) asks the daemon."""
    script = (f"import sys, json; sys.path.insert(0, {str(profd.socket.parent)!r})\n"
              f"import fake_agent as fake\n"
              f"def last(op, **more): return fake.ask({str(profd.socket)!r}, op, **more)\nprint(json.dumps({code}))")
    groups = f"--groups={group}" if group else "--clear-groups"
    done = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", groups, sys.executable, "-c", script],
                          capture_output=True, text=True, timeout=120, cwd="/")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@as_root
def test_another_user(system):
    """A stranger sees and touches nothing of others."""
    job = system.job(STEPS, "--step-ms=5")
    system.wait_steps(job.pid, 2)
    mine = system.trigger(job.pid)["capture_id"]
    busy = subprocess.Popen([str(system.client), "trigger", "--pid", str(job.pid), "--steps", "100000"], env=system.env,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: system.process(job.pid)["state"] == "recording", what="the recording")
    running = system.process(job.pid)["capture_id"]
    stranger = lambda code: as_stranger(system, code)
    assert [row.get("row") for row in stranger('last("ps")')] == [None]
    assert [row.get("row") for row in stranger('last("captures")')] == [None]
    status = stranger('last("status")')[0]
    assert [status[key] for key in ("processes", "running", "captures", "store_bytes")] == [0] * 4
    for request in (f'last("ps", pid={job.pid})', f'last("doctor", pid={job.pid})', f'last("open", capture_id="{mine}")',
                    f'last("summary", capture_id="{mine}")', f'last("cancel", pid={job.pid})',
                    f'last("cancel", capture_id="{running}")',
                    f'last("trigger", **fake.trigger_fields(targets={{"pids": [{job.pid}]}}))'):
        rows = stranger(request)
        assert rows[-1]["error"]["code"] == "not_permitted", (request, rows)
        assert str(STEPS) not in json.dumps(rows)
    assert stranger('last("cancel", all=True)')[-1]["error"]["code"] in ("not_permitted", "no_such_capture")
    for targets in ({"all": True}, {"name": "*"}):
        rows = stranger(f'last("trigger", **fake.trigger_fields(targets={targets}))')
        assert rows[-1]["error"]["code"] == "no_such_target"
    kept = stranger(f'last("rm", capture_ids=["{mine}"])')[0]
    assert kept["row"] == "kept" and kept["error"]["code"] == "not_permitted"
    assert system.process(job.pid)["capture_id"] == running and busy.poll() is None
    system.run("cancel", running)
    assert busy.wait(60) == 5
    assert system.show(mine)["capture"]["status"] == "complete"


@as_root
def test_the_group_profd(system):
    """Its members see, trigger and read what is others'."""
    job = system.job(STEPS, "--step-ms=5")
    system.wait_steps(job.pid, 2)
    member = lambda code: as_stranger(system, code, GROUP)
    assert member('last("ps")')[0]["pid"] == job.pid
    rows = member(f'last("trigger", **fake.trigger_fields(targets={{"pids": [{job.pid}]}}))')
    captured = [row for row in rows if row.get("row") == "captured"][0]
    assert captured["status"] == "complete"
    assert member(f'last("summary", capture_id="{captured["capture_id"]}")')[0]["row"] == "summary"
    assert member(f'last("rm", capture_ids=["{captured["capture_id"]}"])')[0]["row"] == "removed"
    assert member('last("status")')[0]["captures"] == 0


# --- how captures end ---

def captured_by(profd, pid, during=None, **more):
    with fake.connect(profd.socket, 60) as connection:
        fake.send(connection, "trigger", **fake.trigger_fields(targets={"pids": [pid]}, collectors=["steps", "nvtx"], **more))
        for row in fake.rows(connection):
            if during and row.get("row") == "progress" and row["step"] > 2:
                during()
                during = None
            if row.get("row") == "captured":
                return row
    return None


def test_reasons(profd):
    """Each end has its word, in the reply and in the file."""
    job = profd.job(STEPS, "--step-ms=10")
    profd.wait_steps(job.pid, 2)
    many = {"skip_first": 0, "wait": 0, "warmup": 1, "active": 10000, "repeat": 1}
    ends = [("none", captured_by(profd, job.pid)),
            ("deadline", captured_by(profd, job.pid, timeout=1500 * 10**6, schedule=many)),
            ("cancelled", captured_by(profd, job.pid, lambda: profd.run("cancel", "--pid", job.pid), schedule=many)),
            ("exit", captured_by(profd, job.pid, lambda: job.send_signal(signal.SIGTERM), schedule=many))]
    for word, captured in ends:
        assert captured["reason_code"] == word, captured
        assert captured["status"] == ("complete" if word == "none" else "incomplete")
        assert (captured["reason"] is None) == (word == "none")
        with sqlite3.connect(f"file:{profd.file(captured['capture_id'])}?mode=ro", uri=True) as db:
            assert db.execute("SELECT value FROM meta WHERE key = 'reason_code'").fetchone() == (word,)
            sentences = dict(db.execute("SELECT collector, sentence FROM collectors"))
        assert all(sentences.values()), sentences
    # It has answered in time: that is not silence.
    assert ends[1][1]["reason"].startswith("the time limit of 1500 ms came after "), ends[1][1]["reason"]
    assert {row["capture_id"]: row["reason_code"] for row in fake.ask(profd.socket, "captures")[:-1]} == {
        captured["capture_id"]: word for word, captured in ends}


def test_shapes_have_a_row_of_their_own(profd):
    agent = fake.Agent(profd.socket)
    with fake.connect(profd.socket) as connection:
        fake.send(connection, "doctor", pid=os.getpid())
        agent.wait_for(fake.PROBE)
        for bit, available, sentence in ((0, 1, "steps"), (2, 0, "this torch is too old"), (0, 2, "")):
            agent.say(fake.COLLECTOR, struct.pack("<QIIQ", 0, bit, available, 0) + fake.text(sentence, 248))
        answers = {row["collector"]: row for row in fake.rows(connection) if row.get("row") == "collector"}
    assert answers["shapes"]["available"] is False and answers["shapes"]["sentence"] == "this torch is too old"
    assert answers["steps"]["available"] is True
    agent.close()
