"""Ports of tests' own servers. They lie below those that the kernel gives to whoever wants any, so that nobody else's connection has one
meanwhile; and each of the processes that run tests at once has a part of its own."""
import itertools
import os
import re
import socket

FIRST, OF_A_PROCESS = 20000, 500
_worker = int(re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "")) or 0) % 16
# Each turn begins elsewhere: one that was just given up may still be held by the kernel, or by another run of the tests.
_numbers = itertools.count(os.getpid())


def free_port():
    """A port that nobody has."""
    for _ in range(OF_A_PROCESS):
        port = FIRST + _worker * OF_A_PROCESS + next(_numbers) % OF_A_PROCESS
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
