"""A client and an agent in Python, which say to the daemon what they like. Message and segment layouts are those of
release 0.1.0 (proto/messages.def, proto/segment.h), which later ones keep.

As a program: `fake_agent.py SOCKET` registers, prints its pid, answers ARM with ARMED and forks a child that keeps its socket
open; it waits for its end then.
"""
import json
import mmap
import os
import socket
import struct
import sys
import time

MAGIC = 0x44465250
HELLO, WELCOME, REFUSE, ARM, ARMED, DECLINED, CANCEL, COLLECTOR, DONE, AFTER, OFFER, PROBE, FINISH = range(1, 14)
FREE, OWNED, FULL = range(3)
ENTRY_ATTACH, ENTRY_NEW = 32, 64
RECORD, DRAIN, END = 2, 3, 4
PID_NAMESPACE = os.stat("/proc/self/ns/pid").st_ino

# Offsets in struct segment_header.
CHUNK_BYTES, TABLE_AT, READY, SEQUENCE, PHASE, BASE, LOST = 32, 40, 128, 256, 320, 336, 384
HEADER_BYTES = 384 + 16 * 32 * 8


def connect(path, timeout=80):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(str(path))  # blocking: a full backlog is waited for
    connection.settimeout(timeout)
    return connection


def send(connection, op, **more):
    with open("/proc/self/ns/pid") as namespace:  # read again: a child may have one of its own
        socket.send_fds(connection, [json.dumps({"op": op, "major": 1, "minor": 0, **more}).encode()], [namespace.fileno()])


def rows(connection, descriptors=None):
    """The rows of one reply, its end included."""
    while True:
        packet, fds, _, _ = socket.recv_fds(connection, 70000, 4)
        for fd in fds:
            descriptors.append(fd) if descriptors is not None else os.close(fd)
        if not packet:
            raise EOFError
        row = json.loads(packet)
        yield row
        if row.get("end"):
            return


def ask(path, op, descriptors=None, **more):
    with connect(path) as connection:
        send(connection, op, **more)
        return list(rows(connection, descriptors))


def start_time(pid="self"):
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[19])


def text(value, size):
    value = value if isinstance(value, bytes) else value.encode()
    return value[:size - 1].ljust(size, b"\0")


def hello(name="fake", job="", rank=-1, source=2, start=None, major=1, minor=0, orphans=0, entry=1):
    fixed = struct.pack("<IHHHHiQQiiiIIIII", MAGIC, HELLO, 1440, major, minor, os.getpid(), PID_NAMESPACE,
                        start_time() if start is None else start, rank, -1, -1, 1, 0, source, entry, orphans)
    return fixed + (text("0.1.0", 32) + text("", 32) + text(job, 128) + text(name, 64) + text("fake agent", 1024) +
                    text("", 32) + text("host", 64))


def trigger_fields(**more):
    fields = {"targets": {"pids": [os.getpid()]}, "wait_for": 0, "at_step": 0, "duration": 0, "step_range": "",
              "schedule": {"skip_first": 0, "wait": 0, "warmup": 1, "active": 3, "repeat": 1}, "step_operator": "",
              "collectors": ["steps", "torch"], "label": "", "timeout": 20 * 10**9, "max_events": 0, "max_bytes": 0,
              "follow": True}
    return {**fields, **more}


def operator(step, start, duration, own, identity, parent, name, depth=0, thread=42):
    return struct.pack("<HBBIQQQQQIIHBBIqII", 80, 2, 0, step, start, duration, own, identity, parent, name, thread, depth,
                       0, 0, 0, -1, 1, 0)


def step(ordinal, start, duration):
    return struct.pack("<HBBIQQQIHH", 40, 4, 0, ordinal, start, duration, 100 + ordinal, 42, 2, 7)


class Agent:
    """One registered process: this one."""

    def __init__(self, path, **more):
        self.connection = connect(path)
        with open("/proc/self/ns/pid") as namespace:
            socket.send_fds(self.connection, [hello(**more)], [namespace.fileno()])
        kind, _, fds = self.receive()
        assert kind == WELCOME and len(fds) == 1
        self.page = mmap.mmap(fds[0], 4096)
        os.close(fds[0])

    def receive(self, timeout=40):
        self.connection.settimeout(timeout)
        packet, fds, _, _ = socket.recv_fds(self.connection, 4096, 4)
        return (struct.unpack_from("<IHH", packet)[1] if packet else 0), packet, fds

    def wait_for(self, wanted):
        while True:
            kind, packet, fds = self.receive()
            if kind == wanted:
                return packet, fds
            for fd in fds:
                os.close(fd)
            if not kind:
                raise EOFError

    def arm(self):
        """Waits for ARM, maps the segment, answers."""
        packet, (self.fd,) = self.wait_for(ARM)
        self.capture, self.trigger = struct.unpack_from("<QQ", packet, 8)
        self.map = mmap.mmap(self.fd, os.fstat(self.fd).st_size)
        self.chunk_bytes, self.chunk_count = struct.unpack_from("<II", self.map, CHUNK_BYTES)
        self.table_at, self.strings_at, self.chunks_at = struct.unpack_from("<QQQ", self.map, TABLE_AT)
        self.say(ARMED, struct.pack("<QQII", self.capture, 0, 2, 0))

    def say(self, kind, body, fds=()):
        packet = struct.pack("<IHH", MAGIC, kind, 8 + len(body)) + body
        socket.send_fds(self.connection, [packet], list(fds)) if fds else self.connection.send(packet)

    def begin(self, ready=1):
        now = time.monotonic_ns()
        struct.pack_into("<QQQQ", self.map, BASE, now, time.time_ns(), now, 0)
        self.phase(RECORD, warmup=1)
        until = time.monotonic() + 60
        while struct.unpack_from("<I", self.map, READY)[0] < ready:
            assert time.monotonic() < until, "the daemon makes no chunk ready"
            time.sleep(0.001)
        return now

    def phase(self, phase, steps=0, warmup=0):
        struct.pack_into("<III", self.map, PHASE, phase, steps, warmup)

    def strings(self, texts):
        at, ids = 8, {}
        for value in texts:
            data = value if isinstance(value, bytes) else value.encode()
            start = self.strings_at + at
            self.map[start:start + 8 + len(data)] = struct.pack("<II", len(data), 1) + data
            ids[value] = at // 8
            at += (len(data) + 7) // 8 * 8 + 8
        struct.pack_into("<I", self.map, SEQUENCE + 4, at)
        return ids

    def chunk(self, index, records, sequence, state=FULL, used=None, thread=42):
        start = self.chunks_at + index * self.chunk_bytes
        self.map[start:start + len(records)] = records
        struct.pack_into("<I", self.map, SEQUENCE, max(sequence, struct.unpack_from("<I", self.map, SEQUENCE)[0]))
        struct.pack_into("<III", self.map, self.table_at + 64 * index + 4, len(records) if used is None else used, sequence,
                         thread)
        struct.pack_into("<I", self.map, self.table_at + 64 * index, state)

    def hand_over(self, index):
        """A chunk that was written while it was the agent's own is the daemon's from now on."""
        struct.pack_into("<I", self.map, self.table_at + 64 * index, FULL)

    def state(self, index):
        return struct.unpack_from("<I", self.map, self.table_at + 64 * index)[0]

    def done(self, reason=0, steps=3, capture=None, first=101):
        self.say(DONE, struct.pack("<QIIQQQQQQQIIQ", self.capture if capture is None else capture, reason, steps, first, 1000,
                                   2000, 3, 4, 5, 6, 0, 2, 0))

    def close(self):
        self.connection.close()


def main():
    agent = Agent(sys.argv[1], name="parent")
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    print(os.getpid(), flush=True)
    agent.arm()
    begun = agent.begin()
    agent.chunk(0, step(1, begun, 1000), 1)
    agent.phase(RECORD, steps=1, warmup=1)
    print("recording", flush=True)
    time.sleep(60)


if __name__ == "__main__":
    main()
