"""A node that several users share: the system's kind of daemon under a user of its own, a group profd, and processes of
others. Needs root.

The daemon alone sees a group profd (of number GROUP) and names for the users: an /etc/group and /etc/passwd of its own are
mounted over the machine's, in its own mount namespace. Its socket lies in a folder that is root's and that all can enter.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import pytest

import fake_agent as fake
from conftest import BUILD, Profd, wait_for

DAEMON, ALICE, BOB, CAROL, GROUP = 61001, 61002, 61003, 61004, 61000
NAMES = {DAEMON: "profd", ALICE: "alice", BOB: "bob", CAROL: "carol"}
needs_root = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv: other users")


class Node(Profd):
    """`profd` of conftest.py, with more users. What is started without a user is root's."""

    def __init__(self, folder):
        super().__init__(folder)
        self.folder.chmod(0o755)
        self.state = self.folder / "state"
        self.store = self.state
        self.run_folder = self.folder / "run"
        self.socket = self.run_folder / "profd.sock"
        self.config = self.folder / "profd.conf"
        # Others may be kept out of where we are built.
        programs = self.folder / "programs"
        programs.mkdir()
        for source in (BUILD / "bin" / "profd", BUILD / "lib" / "libprofd_agent.so", BUILD / "workloads" / "steps",
                       pathlib.Path(fake.__file__), os.environ.get("PROFD_DAEMON", BUILD / "bin" / "profd-daemon")):
            shutil.copy(source, programs)
        programs.chmod(0o755)
        self.programs = programs
        self.children = []
        self.client, self.agent = programs / "profd", programs / "libprofd_agent.so"
        self.steps = programs / "steps"
        self.env.update(PROFD_SOCKET=str(self.socket), PROFD_AGENT=str(self.agent), PROFD_DEBUG="")
        del self.env["PROFD_DEBUG"]
        for name, lines in (("group", [f"profd:x:{GROUP}:"]),
                            ("passwd", [f"{name}:x:{uid}:{uid}::/:/bin/sh" for uid, name in NAMES.items()])):
            (self.folder / name).write_text(pathlib.Path("/etc", name).read_text() + "\n".join(lines) + "\n")
            (self.folder / name).chmod(0o644)
        for made in (self.state, self.run_folder):
            made.mkdir()
            os.chown(made, DAEMON, DAEMON)
        self.state.chmod(0o750)

    def start(self, config="", environment=(), prefix=(), disk=""):
        """The daemon, with these lines as its configuration; with `disk` ("400m") its store is a file system of that size, which it alone
        sees."""
        self.config.write_text(config)
        os.chown(self.run_folder, DAEMON, DAEMON)
        program = pathlib.Path(os.environ.get("PROFD_DAEMON", "profd-daemon")).name
        script = ('mount --bind "$1/group" /etc/group && mount --bind "$1/passwd" /etc/passwd && '
                  'if [ -n "$2" ]; then mount -t tmpfs -o "mode=0750,uid=$3,gid=$3,size=$2" none "$1/state"; fi && shift 3 && exec "$@"')
        with open(self.daemon_log, "ab") as log:
            self.daemon = subprocess.Popen(
                ["unshare", "-m", "sh", "-c", script, "sh", str(self.folder), disk, str(DAEMON), "setpriv", f"--reuid={DAEMON}",
                 f"--regid={DAEMON}", "--clear-groups", *prefix, str(self.programs / program), "--dir", str(self.state),
                 "--socket", str(self.socket), "--config", str(self.config)],
                env={**self.env, **dict(environment)}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: self.daemon.poll() is not None or self.run("status", check=False).returncode == 0, 10, "the daemon")
        assert self.daemon.poll() is None, self.journal()
        os.chown(self.run_folder, 0, 0)
        return self.daemon

    def close(self):
        for child in self.children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        super().close()

    def stop_daemon(self, how=signal.SIGTERM):
        os.chown(self.run_folder, DAEMON, DAEMON)  # where it removes its socket
        return super().stop_daemon(how)

    def job(self, *command, user=0, **more):
        if not user:
            return super().job(*command, **more)
        return super().job(*command, user=user, group=user, extra_groups=[], **more)

    def run(self, *arguments, user=0, groups=(), **more):
        if not user:
            return super().run(*arguments, **more)
        return super().run(*arguments, user=user, group=user, extra_groups=list(groups), **more)

    def journal(self):
        return self.daemon_log.read_text(errors="replace")

    def audit(self, **more):
        """The audit log as root sees it, newest first."""
        return fake.ask(self.socket, "audit", limit=10000, **more)[:-1]


def become(user, groups=()):
    os.setgroups(list(groups))
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def as_user(user, function, *arguments, groups=(), timeout=240):
    """What function(*arguments) returns in a process of this user (by way of JSON)."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        try:
            become(user, groups)
            os.chdir("/")
            answer = {"returned": function(*arguments)}
        except BaseException:
            answer = {"raised": traceback.format_exc()}
        theirs.sendall(json.dumps(answer).encode())
        theirs.close()
        os._exit(0)
    theirs.close()
    ours.settimeout(timeout)
    text = b""
    try:
        while part := ours.recv(65536):
            text += part
    finally:
        ours.close()
        if not text:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    answer = json.loads(text)
    assert "raised" not in answer, answer["raised"]
    return answer["returned"]


def start_as(node, user, function, *arguments):
    """Calls the function in a process of this user, which ends with the test; returns its pid."""
    child = os.fork()
    if child == 0:
        try:
            become(user)
            os.chdir("/")
            function(*arguments)
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    node.children.append(child)
    return child


def error_of(rows):
    """The error's word of a reply, None where there is none."""
    return rows[-1].get("error", {}).get("code")


def record_once(node, job, label, user=0):
    done = node.run("trigger", "--pid", job.pid, "--steps", 2, "--label", label, "--format", "json", user=user)
    return json.loads(done.stdout)["captures"][0]["capture_id"]


@pytest.fixture
def node():
    folder = tempfile.mkdtemp(prefix="profd-node-")
    made = Node(folder)
    yield made
    made.close()
    log = made.journal() if made.daemon_log.exists() else ""
    shutil.rmtree(folder, ignore_errors=True)
    assert "ERROR: AddressSanitizer" not in log and "runtime error:" not in log, log
