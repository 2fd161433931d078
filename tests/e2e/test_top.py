"""`profd top`: the jobs as they are, without a cost for them; on a terminal live, and the terminal is as before whatever ends it."""
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from conftest import Patient, quiet, wait_for
from proc import of_threads
from test_snapshot import start

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """`profd top` on a terminal of its own, in a session of its own."""

    def __init__(self, profd, *words, rows=24, columns=100):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.output = b""
        self.process = Patient([profd.client, "top", *words], stdin=self.slave, stdout=self.slave, stderr=self.slave,
                               start_new_session=True, env={**profd.env, "TERM": "xterm"}, preexec_fn=self.on_a_terminal)

    @staticmethod
    def on_a_terminal():
        """In the child. Whoever runs the tests by nohup has it ignore SIGHUP."""
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.output += os.read(self.master, 65536)
            except OSError:
                break
        return self.output

    def until(self, text, count=1):
        wait_for(lambda: self.read().count(text) >= count, 20, f"{count} times {text} in {self.output[-600:]}")

    def press(self, keys):
        os.write(self.master, keys)

    def is_restored(self):
        now = termios.tcgetattr(self.slave)
        return self.read().rfind(LEAVE) > self.output.rfind(ENTER) >= 0 and now[3] == self.before[3]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(profd):
    opened = []

    def make(*words, **more):
        opened.append(Terminal(profd, *words, **more))
        return opened[-1]
    yield make
    for one in opened:
        one.close()


def agent_switches(pid):
    """How often the agent's threads of a process have run."""
    total = 0
    for text in of_threads(pid, "status").values():
        if text.startswith("Name:\tprofd"):
            total += sum(int(line.split()[1]) for line in text.splitlines() if "ctxt_switches" in line)
    return total


def test_once(profd):
    """Ranks of a job are one row, with the first one's figures; nobody is woken."""
    fast = start(profd, "--step-ms=5", job="7", name="llama", rank=1)
    slow = start(profd, "--step-ms=100", job="7", name="llama", rank=0)
    alone = start(profd, "--step-ms=10", name="eval")
    for pid in (fast, slow, alone):
        profd.wait_steps(pid, 20)

    def switches():
        return [agent_switches(pid) for pid in (fast, slow, alone)]
    quiet(switches, 0.5)  # what came with their beginning is over
    before = switches()
    answer = profd.json("top")
    assert answer["schema"] == "profd.top/1"
    eval_, llama = sorted(answer["jobs"], key=lambda j: j["name"])
    assert (llama["job"], llama["ranks"], llama["pids"]) == ("7", 2, [slow, fast])
    # How long a step takes at least the job decides, at most the machine.
    assert llama["step_ns"] > 50e6 and 0 < llama["steps_per_second"] < 20 and len(llama["step_times_ns"]) == 16
    assert eval_["pids"] == [alone] and eval_["job"] is None and eval_["verdict"] is None and eval_["captures"] == []
    done = profd.run("top")
    assert done.stdout.splitlines()[0].split()[:3] == ["PID", "JOB", "NAME"]
    assert "llama" in done.stdout and "eval" in done.stdout and ENTER.decode() not in done.stdout
    by_name = profd.run("top", "--once", "--sort", "name").stdout.splitlines()
    assert "eval" in by_name[1] and "llama" in by_name[2]
    by_time = profd.run("top", "--sort", "time").stdout.splitlines()
    assert "llama" in by_time[1]
    assert switches() == before


@pytest.mark.parametrize("slow", [0, 1])
def test_a_rank_that_hangs(profd, slow):
    """It is named whichever rank's figures are shown, and however short its steps were; the figures are the first rank's."""
    hangs = 1 - slow
    ranks = {slow: start(profd, "--step-ms=20", job="7", name="llama", rank=slow),
             hangs: start(profd, "--step-ms=5", job="7", name="llama", rank=hangs)}
    profd.wait_steps(ranks[hangs], 300)
    before = profd.process(ranks[0])["step"]
    llama, = profd.json("top")["jobs"]
    assert llama["pids"] == [ranks[0], ranks[1]]
    assert before <= llama["step"] <= profd.process(ranks[0])["step"]
    os.kill(ranks[hangs], signal.SIGSTOP)
    # On a full machine the other one may stand still for a while, too.
    llama = wait_for(lambda: next((job for job in profd.json("top")["jobs"] if job["idle_pid"] == ranks[hangs]), None), what="a rank that hangs")
    assert llama["idle_rank"] == hangs and llama["idle_ns"] > 0
    wait_for(lambda: f"rank {hangs}: no step for " in profd.run("top").stdout, what="the rank in the table")


def test_nothing(profd, tmp_path):
    assert profd.json("top")["jobs"] == [] and "no process is registered" in profd.run("top").stderr
    gone = subprocess.run([profd.client, "top"], env={**profd.env, "PROFD_SOCKET": str(tmp_path / "none")}, capture_output=True)
    assert gone.returncode == 7


def test_live(profd, terminal):
    """Frames follow each other; keys sort and end it; what is recorded is said."""
    pid = start(profd, "--step-ms=5", name="train")
    screen = terminal("--interval", "100ms")
    screen.until(b"train")
    screen.until(b"profd top", 3)
    assert screen.output.startswith(ENTER)
    begun = profd.json("trigger", "--pid", pid, "--duration", "30s", "--no-wait")["captures"][0]["capture_id"]
    screen.until(f"ing {begun}".encode())
    profd.run("cancel", begun, check=False)
    screen.press(b"t")
    frames = screen.read().count(b"profd top")
    screen.until(b"profd top", frames + 2)
    screen.press(b"q")
    assert screen.process.wait(10) == 0
    wait_for(screen.is_restored)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_give_the_terminal_back(profd, terminal, number):
    screen = terminal()
    screen.until(b"q ends")
    assert termios.tcgetattr(screen.slave)[3] & termios.ICANON == 0
    screen.process.send_signal(number)
    assert screen.process.wait(10) == -number
    wait_for(screen.is_restored)


def test_stopped_and_continued(profd, terminal):
    screen = terminal()
    screen.until(b"q ends")
    screen.process.send_signal(signal.SIGTSTP)
    wait_for(lambda: open(f"/proc/{screen.process.pid}/stat").read().rpartition(")")[2].split()[0] == "T")
    wait_for(screen.is_restored)
    screen.process.send_signal(signal.SIGCONT)
    screen.until(ENTER, 2)
    screen.until(b"q ends", 2)
    screen.press(b"q")
    assert screen.process.wait(10) == 0
    wait_for(screen.is_restored)


def test_a_small_terminal(profd, terminal):
    """Lines and columns beyond the terminal are left out, and a daemon that goes and comes back is no end."""
    for i in range(6):
        start(profd, "--step-ms=20", name=f"job-with-a-rather-long-name-{i}")
    screen = terminal("--interval", "100ms", rows=6, columns=60)
    screen.until(b"STEP TIME")
    screen.until(b"profd top", 2)
    frame = screen.output.split(b"\x1b[H")[1]
    lines = frame.replace(b"\x1b[K", b"").replace(b"\x1b[J", b"").split(b"\r\n")
    assert len(lines) <= 6
    profd.stop_daemon()
    screen.until(b"no profd daemon")
    profd.start_daemon()
    seen = screen.read().count(b"STEP TIME")
    screen.until(b"STEP TIME", seen + 1)
    screen.press(b"q")
    assert screen.process.wait(10) == 0
