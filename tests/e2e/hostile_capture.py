"""A user who means harm: captures whose records nobody's agent would write, as fast as the daemon takes them."""
import os
import struct
import time

import device_records as records
import fake_agent as fake


def overflowing_name(size=3817):
    """A right mangled name for which libiberty wants an array of (references to template parameters) x (templates) on its
    stack: of 3,817 bytes 15 MB. The substitution at its end counts all of them twice."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    room = size - len("_Z1fIiEvPFvE" "i" "SZZZ_")
    references = room // 2 // len("RT_")
    templates = (room - references * len("RT_")) // len("1aIE")
    function, identity = 2 * references + 2 * templates, ""
    while function:
        identity, function = digits[function % 36] + identity, function // 36
    return "_Z1fIiEvPFv" + "RT_" * references + "1aI" * templates + "i" + "E" * templates + f"ES{identity}_"
STEPS, TORCH, CUPTI = 0, 2, 4  # bits of collectors


def peak(pid):
    """The most memory that a process has ever had, bytes."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))


def steps(begun, count=3):
    return [records.step_of(i + 1, begun + i * 1000, 1000) for i in range(count)]


def one_id(begun, count):
    """Operators of one id, parent, name and thread, and one beyond the depth that is followed in memory: each was joined with each."""
    return [records.operator_of(1, begun + 5, 10, 10, 7, 7, 1, 0, 42)] * count + \
        [records.operator_of(1, begun + 5, 10, 10, 8, 8, 1, 1024, 42)]


def colliding_kernels(begun, count):
    """Kernels whose name, device and stream together fell on one place of a table, when it was known where that is."""
    first, second, mask = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 2**64 - 1
    inverse = pow(second, -1, 2**64)
    rows = []
    for i in range(1, count + 1):
        rest = ((((i << 32) | 1) * first - 1) & mask) * inverse & mask
        rows.append(records.kernel(begun + 5, 1, i, device=rest >> 32, stream=rest & 0xffffffff, name=i))
    return rows


class Capture:
    """One capture of a process that is told from outside what it recorded; follows the trigger too."""

    def __init__(self, socket_path, max_bytes=8 << 20, timeout=120 * 10**9, steps=3, hello=None, **more):
        self.agent = fake.Agent(socket_path, **(hello or {}))
        self.connection = fake.connect(socket_path, 300)
        fake.send(self.connection, "trigger", **fake.trigger_fields(
            max_bytes=max_bytes, timeout=timeout, targets={"pids": [os.getpid()]},
            schedule={"skip_first": 0, "wait": 0, "warmup": 1, "active": steps, "repeat": 1}, **more))
        self.agent.arm()
        self.begun = self.agent.begin()
        self.chunk_bytes = self.agent.chunk_bytes
        self.sequence = 1

    def ran(self, *collectors):
        """Says that these ran; by their bits."""
        for bit in collectors:
            self.agent.say(fake.COLLECTOR, struct.pack("<QIIQ", self.agent.capture, bit, 1, 1000) + fake.text("", 248))

    def put(self, rows, thread=42, seconds=60):
        """Hands over whole records, a list of bytes, in as many chunks as they take."""
        at, until = 0, time.monotonic() + seconds
        while at < len(rows):
            chunk, end = [], at
            size = 0
            while end < len(rows) and size + len(rows[end]) <= self.chunk_bytes:
                size += len(rows[end])
                end += 1
            body = b"".join(rows[at:end])
            index = next((i for i in range(min(self.ready(), self.agent.chunk_count))
                          if self.agent.state(i) == fake.FREE), None)
            if index is None:
                assert time.monotonic() < until, "the daemon takes nothing"
                time.sleep(0.001)
                continue
            self.agent.chunk(index, body, self.sequence, thread=thread)
            self.sequence += 1
            at = end

    def ready(self):
        return struct.unpack_from("<I", self.agent.map, fake.READY)[0]

    def drained(self, seconds=60):
        """Waits until the daemon has taken all chunks."""
        until = time.monotonic() + seconds
        while any(self.agent.state(i) == fake.FULL for i in range(min(self.ready(), self.agent.chunk_count))):
            assert time.monotonic() < until, "the daemon does not take what is there"
            time.sleep(0.002)

    def done(self, steps=3):
        self.agent.phase(fake.END, steps)
        self.agent.done(steps=steps)

    def end(self):
        """The row CAPTURED of the trigger."""
        found = None
        for row in fake.rows(self.connection):
            if row.get("row") == "captured":
                found = row
        assert found, "the trigger ended without a capture"
        return found

    def id(self):
        return f"u{self.agent.capture}"

    def close(self):
        self.agent.close()
        self.connection.close()
        if not self.agent.map.closed:
            self.agent.map.close()
            os.close(self.agent.fd)


def slow_to_finish(capture, count=300_000):
    """Much to be put into order, none of it wrong: what takes a second or so of a processor."""
    one = [records.operator_of(1, capture.begun + 5, 10, 10, i + 1, i, 1 + i % 1000, 1024, 42) for i in range(1000)]
    for _ in range(count // 1000):
        capture.put(one)
    capture.put(steps(capture.begun))
    capture.drained()
