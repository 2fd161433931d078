"""Files that a user serves: whoever asks such a file anything, or closes it, waits for as long as that user likes."""
import ctypes
import os
import select
import signal
import struct
import time

import pytest

import fake_agent as fake
from proc import opened
from test_hostile import alive

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_NAMESPACE = 0x00020000
INIT, GETATTR, LOOKUP, OPEN, FORGET, FLUSH, RELEASE = 26, 3, 1, 14, 2, 25, 18


def attributes(inode, mode):
    return struct.pack("<QQQQQQIIIIIIIIII", inode, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 0, 0)


class Served:
    """A file system with one file, served by this process in a mount namespace of its own. `answers` as long as it likes."""

    def __init__(self, folder):
        self.fuse = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.fuse},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        if LIBC.unshare(NEW_NAMESPACE) or LIBC.mount(None, b"/", None, 0x44000, None) or \
                LIBC.mount(b"served", str(folder).encode(), b"fuse", 0, options.encode()):
            raise OSError(ctypes.get_errno(), "mount")
        child = os.fork()
        if child == 0:
            try:
                self.serve()
            finally:
                os._exit(0)
        self.server = child
        # The server alone holds it: the file system ends with it, and nobody waits for an answer on the way out.
        os.close(self.fuse)
        self.file = os.open(folder / "file", os.O_RDONLY)

    def serve(self):
        opened = False
        while True:
            request = os.read(self.fuse, 1 << 17)
            _, what, number, node = struct.unpack_from("<IIQQ", request)
            if what == INIT:
                body = struct.pack("<IIIIHHIIHHIIII", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0) + bytes(16)
            elif what == LOOKUP:
                body = struct.pack("<QQQQII", 2, 0, 0, 0, 0, 0) + attributes(2, 0o100644)
            elif what == OPEN:
                body, opened = struct.pack("<QII", 1, 0, 0), True
            elif what == GETATTR and not (opened and node == 2):
                body = struct.pack("<QII", 0, 0, 0) + attributes(node, 0o40755 if node == 1 else 0o100644)
            elif what == FORGET:
                continue
            else:
                continue  # of the file, once it is open, nothing is ever told; nor is it ever closed
            os.write(self.fuse, struct.pack("<IiQ", 16 + len(body), 0, number) + body)


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="needs root and FUSE")
def test_a_file_that_is_served_by_nobody(profd):
    """Sent with HELLO, with OFFER, with a request: the daemon answers others meanwhile, and takes no more of it."""
    alive(profd)
    folder = profd.folder / "served"
    folder.mkdir()
    ours, theirs = os.pipe()
    attacker = os.fork()
    if attacker == 0:
        os.setsid()
        try:
            served = Served(folder)
            agent = fake.Agent(profd.socket)
            agent.say(fake.OFFER, struct.pack("<QQII", 1, 1, 1, 0), [served.file])
            for _ in range(10):
                with fake.connect(profd.socket) as connection:
                    fake.socket.send_fds(connection, [b'{"op":"status","major":1,"minor":0}'], [served.file] * 4)
                    connection.recv(100)
        except OSError as error:
            os.write(theirs, f"{error}\n".encode())
        os.write(theirs, b"sent\n")
        time.sleep(60)
        os._exit(0)
    os.close(theirs)
    try:
        said = b""
        while not said.endswith(b"sent\n"):
            assert select.select([ours], [], [], 30)[0], said
            said += os.read(ours, 1000) or b"ended: sent\n"
        if b"mount" in said:
            pytest.skip(f"this kernel lets nobody serve files: {said.decode()}")
        held = sum(path.endswith("/file") for path in opened(f"/proc/{profd.daemon.pid}/fd").values())
        assert 0 < held <= 100, said
        for _ in range(5):
            alive(profd)
    finally:
        os.close(ours)
        os.killpg(attacker, signal.SIGKILL)
        os.waitpid(attacker, 0)
