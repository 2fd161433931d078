"""The daemon under a service manager that this test plays: the socket that it is handed, what it tells, and how it ends."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from conftest import BUILD, WORKLOADS, Profd, asleep, hurry, stop, wait_for

STEPS = BUILD / "workloads" / "steps"


class Manager:
    """Hands over sockets and listens to what the daemon tells."""

    def __init__(self, folder, watchdog=None):
        self.folder = folder
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(f"{folder}/notify")
        self.notify.setblocking(False)
        self.watchdog = watchdog
        self.told = []
        self.daemon = None

    def socket(self, kind=socket.SOCK_SEQPACKET, name="handed.sock", listen=True):
        handed = socket.socket(socket.AF_UNIX, kind)
        handed.bind(name if name.startswith("\0") else f"{self.folder}/{name}")
        if listen:
            handed.listen(16)
        return handed

    def start(self, env, *sockets, arguments=("--user",)):
        # As systemd does it: descriptors from 3 on, and the pid of the daemon itself.
        moves = " ".join(f"{3 + n}<&{s.fileno()}" for n, s in enumerate(sockets))
        line = f'LISTEN_PID=$$ exec "$@" {moves}'
        settings = {**env, "LISTEN_FDS": str(len(sockets)), "NOTIFY_SOCKET": f"{self.folder}/notify"}
        if self.watchdog:
            settings["WATCHDOG_USEC"] = str(self.watchdog)
        settings.pop("PROFD_SOCKET", None)
        self.daemon = subprocess.Popen(
            ["bash", "-c", line, "manager", BUILD / "bin" / "profd-daemon", *arguments, "--dir", self.folder / "store"],
            env=settings, pass_fds=[s.fileno() for s in sockets], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, start_new_session=True)
        return self.daemon

    def listen(self):
        """All that has been told until now, one NAME=VALUE each."""
        while True:
            try:
                self.told += self.notify.recv(4096).decode().split("\n")
            except BlockingIOError:
                return self.told

    def wait_told(self, what, seconds=15):
        wait_for(lambda: any(line.startswith(what) for line in self.listen()), seconds, f"the daemon to tell {what}")

    def end(self, how=signal.SIGTERM):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(how)
        return self.daemon.communicate(timeout=30)[1]


@pytest.fixture
def profd():
    folder = tempfile.mkdtemp(prefix="profd-e2e-")
    profd = Profd(folder)
    yield profd
    profd.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def manager(profd):
    manager = Manager(profd.folder)
    yield manager
    if manager.daemon and manager.daemon.poll() is None:
        manager.daemon.kill()
        manager.daemon.communicate()


def test_a_socket_is_handed_over(profd, manager):
    """It is taken with its path, what the daemon is at is told, and the socket outlives the daemon."""
    handed = manager.socket()
    profd.env["PROFD_SOCKET"] = f"{profd.folder}/handed.sock"
    # A client that comes before there is a daemon waits for it.
    early = subprocess.Popen([profd.client, "ps"], env=profd.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: early.poll() is not None or asleep(pathlib.Path(f"/proc/{early.pid}/task/{early.pid}"), 0.3), what="the client to wait")
    assert early.poll() is None
    manager.start(profd.env, handed)
    assert "no process is registered" in early.communicate(timeout=80)[1] and early.returncode in (0, 3)
    manager.wait_told("READY=1")
    assert "STATUS=0 processes, 0 captures under way, 0 stored (0 bytes)" in manager.told
    assert profd.json("status")["daemons"][0]["socket"] == f"{profd.folder}/handed.sock"
    job = profd.job(STEPS, "--step-ms=5")
    profd.wait_steps(job.pid)
    assert profd.trigger(job.pid)["status"] == "complete"
    manager.wait_told("STATUS=1 process, 0 captures under way, 1 stored")
    # Told when something has changed and a second has passed, not at each change.
    assert sum(line.startswith("STATUS=") for line in manager.listen()) < 12
    manager.end()
    manager.wait_told("STOPPING=1")
    assert manager.daemon.returncode == 0
    assert os.path.exists(f"{profd.folder}/handed.sock")


def test_what_is_handed_over_must_be_right(profd, manager):
    def refusal(*sockets):
        manager.start(profd.env, *sockets)
        err = manager.daemon.communicate(timeout=20)[1]
        assert manager.daemon.returncode == 1
        return err
    assert "2 sockets, one is wanted" in refusal(manager.socket(name="a"), manager.socket(name="b"))
    assert "ListenSequentialPacket= with a path" in refusal(manager.socket(socket.SOCK_STREAM, "c"))
    assert "not Accept=yes" in refusal(manager.socket(name="d", listen=False))
    assert "a socket without a path" in refusal(manager.socket(name=f"\0profd-{os.getpid()}"))
    with open(os.devnull) as other:
        assert "is not a socket" in refusal(other)


def test_the_watchdog_is_fed(profd, manager):
    manager.watchdog = 600_000
    manager.start(profd.env, manager.socket())
    manager.wait_told("READY=1")
    began, before = time.monotonic(), manager.listen().count("WATCHDOG=1")
    wait_for(lambda: manager.listen().count("WATCHDOG=1") >= before + 10, what="the watchdog to be fed")
    fed, waited = manager.listen().count("WATCHDOG=1") - before, time.monotonic() - began
    assert fed <= waited / 0.3 + 3, f"{fed} times in {waited:.1f} s, every 0.3 s is wanted"
    # Nothing of it from a daemon that is stopped.
    stop(manager.daemon.pid)
    before = manager.listen().count("WATCHDOG=1")
    time.sleep(1)
    assert manager.listen().count("WATCHDOG=1") == before
    manager.daemon.send_signal(signal.SIGCONT)
    wait_for(lambda: manager.listen().count("WATCHDOG=1") > before, 10, "the watchdog to be fed again")


def test_reload(profd, manager):
    settings = profd.folder / "profd.conf"
    settings.write_text("verbose = no\n")
    manager.start(profd.env, manager.socket(), arguments=("--user", "--config", str(settings)))
    manager.wait_told("READY=1")
    settings.write_text("verbose = yes\nconnections = few\n")
    manager.daemon.send_signal(signal.SIGHUP)
    manager.wait_told("STATUS=0 processes, 0 captures under way, 0 stored (0 bytes); settings refused, the old ones hold: "
                      f"{settings}:2:15: connections:")
    settings.write_text("verbose = yes\nmetrics_port = 9999\n")
    manager.daemon.send_signal(signal.SIGHUP)
    wait_for(lambda: manager.listen().count("READY=1") == 3, 10, "the second reload")
    assert manager.told.count("RELOADING=1") == 2
    assert manager.told[-1] == "STATUS=0 processes, 0 captures under way, 0 stored (0 bytes)"
    err = manager.end()
    assert "settings read anew; what takes a restart: metrics_port" in err


def test_a_managed_daemon_leaves_captures_to_the_next(profd, manager):
    """And one that nobody starts again ends them, as Ctrl-C does with both."""
    handed = manager.socket()
    profd.env["PROFD_SOCKET"] = f"{profd.folder}/handed.sock"
    manager.start(profd.env, handed)
    job = profd.job(STEPS, "--step-ms=100")
    profd.wait_steps(job.pid)

    def record(steps):
        client = profd.follow("--pid", job.pid, "--steps", steps)
        wait_for(lambda: profd.process(job.pid)["state"] == "recording", 20, "the recording")
        return client

    client = record(150)
    manager.end()
    manager.start(profd.env, handed)
    hurry(job)
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0
    (capture,) = json.loads(out)["captures"]
    assert capture["status"] == "complete" and capture["steps_recorded"] == 150
    assert err.count("has ended; waiting for it to come back") == 1

    client = record(100000)
    manager.end(signal.SIGINT)
    out, err = client.communicate(timeout=60)
    assert client.returncode == 5 and json.loads(out)["captures"][0]["status"] == "incomplete"

    profd.env["PROFD_SOCKET"] = str(profd.socket)
    shutil.rmtree(profd.folder / "store")
    profd.start_daemon()
    wait_for(lambda: profd.json("status"), 10, "the daemon")
    job = profd.job(STEPS, "--step-ms=10")
    profd.wait_steps(job.pid)
    client = record(100000)
    profd.stop_daemon(signal.SIGTERM)
    assert client.communicate(timeout=60) and client.returncode == 5
