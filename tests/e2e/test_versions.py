"""Peers of other releases: who speaks another protocol, or has another layout of the segment, is told so in a sentence, and nothing else happens."""
import fcntl
import os
import re
import socket
import struct

import pytest

import fake_agent as fake
from conftest import BUILD, ROOT

VERSIONS = dict(re.findall(r"#define (\w+) (\S+)", (ROOT / "proto" / "version.h").read_text()))
MAJOR, SEGMENT = int(VERSIONS["PROTOCOL_MAJOR"]), int(VERSIONS["SEGMENT_VERSION"])
FROZEN = ROOT / "tests" / "compat"  # packets as earlier releases send them


@pytest.mark.parametrize("major", [MAJOR - 1, MAJOR + 1, 65535])
def test_an_agent_of_another_protocol(profd, major):
    with fake.connect(profd.socket) as connection:
        connection.send(fake.hello(major=major))
        packet = connection.recv(4096)
        assert struct.unpack_from("<IHH", packet)[:2] == (fake.MAGIC, fake.REFUSE)
        sentence = packet[16:].split(b"\0")[0].decode()
        assert f"the agent speaks protocol {major}," in sentence and f"protocol {MAJOR};" in sentence
        assert sentence.endswith("start the job with the agent of the daemon's release")
        assert connection.recv(4096) == b""  # and that was all
    assert profd.process(os.getpid()) is None
    # Whoever wonders why the process is not there finds it in the audit log.
    assert f"the agent speaks protocol {major}," in profd.run("audit").stdout


def test_an_agent_of_a_later_minor(profd):
    agent = fake.Agent(profd.socket, minor=9999)
    assert profd.process(os.getpid())["agent_version"] == VERSIONS["PROFD_VERSION"].strip('"')
    agent.close()


@pytest.mark.parametrize("major", [MAJOR - 1, MAJOR + 1])
def test_a_client_of_another_protocol(profd, major):
    row, = fake.ask(profd.socket, "ps", major=major)
    assert row["error"]["code"] == "version"
    assert f"the client speaks protocol {major}," in row["error"]["message"]
    assert fake.ask(profd.socket, "ps", minor=9999)[-1].get("error") is None


def sealed(data):
    fd = os.memfd_create("profd", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


class OtherDaemon:
    """Says WELCOME to an agent, and arms it with a segment whose layout has this version."""

    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path))
        self.listener.listen()
        self.listener.settimeout(80)

    def welcome(self):
        while True:
            self.agent, _ = self.listener.accept()
            self.agent.settimeout(80)
            packet, fds, _, _ = socket.recv_fds(self.agent, 4096, 4)
            for fd in fds:
                os.close(fd)
            if packet:
                break
            self.agent.close()  # `profd run` only looks whether a daemon is there
        assert struct.unpack_from("<IH", packet) == (fake.MAGIC, fake.HELLO)
        page = sealed(STATUS)
        socket.send_fds(self.agent, [(FROZEN / "0.1.0" / "message-welcome.bin").read_bytes()], [page])
        os.close(page)

    def arm(self, version):
        chunks, table, strings, first = 16, 1 << 16, 1 << 17, 1 << 18  # how many, and where they lie
        total = first + chunks * CHUNK_BYTES
        segment = sealed(struct.pack("<QIIQQIIQQQI", SEGMENT_MAGIC, version, table, total, 1, CHUNK_BYTES, chunks, table, strings, first,
                                     first - strings).ljust(total, b"\0"))
        # As long as in the first release: a window of a second, of which nothing is recorded.
        arm = struct.pack("<IHHQQQ6I3Q", fake.MAGIC, fake.ARM, 336, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 10**9, 0).ljust(336, b"\0")
        socket.send_fds(self.agent, [arm], [segment])
        os.close(segment)

    def wait_for(self, kind):
        while True:
            packet = self.agent.recv(4096)
            assert packet, "the agent has closed its connection"
            if struct.unpack_from("<IH", packet)[1] == kind:
                return packet
            assert struct.unpack_from("<IH", packet)[1] not in (fake.ARMED, fake.DECLINED), packet

    def close(self):
        self.listener.close()
        self.agent.close()


def number(header, name):
    return int(re.search(rf"#define {name} (\w+?)(?:ull)?\b", (ROOT / "proto" / header).read_text())[1], 0)


SEGMENT_MAGIC = number("segment.h", "SEGMENT_MAGIC")
CHUNK_BYTES = 1 << 16
STATUS = struct.pack("<QI", number("status.h", "STATUS_MAGIC"), 1).ljust(4096, b"\0")


@pytest.mark.parametrize("version", [SEGMENT - 1, SEGMENT, SEGMENT + 1])
def test_a_daemon_with_another_segment(empty_profd, version):
    daemon = OtherDaemon(empty_profd.socket)
    job = empty_profd.job(BUILD / "workloads" / "steps")
    try:
        daemon.welcome()
        daemon.arm(version)
        if version == SEGMENT:
            daemon.wait_for(fake.ARMED)
            return
        said = daemon.wait_for(fake.DECLINED)
        assert said[24:].split(b"\0")[0].decode() == ("the agent in this process is of another version than the daemon; start the job "
                                                      "again with the agent of this version")
        assert job.poll() is None
    finally:
        daemon.close()
