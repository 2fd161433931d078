"""Real daemon, real jobs, real CLI.

Environment (set by ./dev test): PROFD_BUILD, PROFD_TORCH_NEWEST, PROFD_TORCH_OTHER, PROFD_TORCH_DEBIAN; PROFD_DAEMON
may name another daemon binary (a sanitizer build).
"""
import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time

import pytest

import proc
import sums

# A shell that starts us in the background has SIGINT ignored, and whoever is started by us would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD", ROOT / "build"))
WORKLOADS = ROOT / "tests" / "workloads"


def _help(*words):
    return subprocess.run([BUILD / "bin" / "profd", *words], check=True, capture_output=True, text=True).stdout


def verbs():
    """The verbs of the command line, as its help lists them."""
    return re.findall(r"^  ([a-z]+) {2,}", _help("help").split("\nVerbs:\n")[1].split("\n\n")[0], re.M)


def topics():
    return re.findall(r"^  help ([a-z-]+) ", _help("help"), re.M)


def choices(verb, option):
    """The words that an option takes, where the help says of each what it means."""
    return re.findall(r"^  ([a-z_-]+) {2,}", _help(verb, "--help").split(f"\n--{option} takes:\n")[1].split("\n\n")[0], re.M)


BUSY = 4  # times as long as on a machine that has nothing else to do: what takes that long does not come


def wait_for(condition, seconds=20.0, what="condition"):
    """The condition's first true value; fails the test where it does not come in so many seconds of an idle machine."""
    deadline = time.monotonic() + BUSY * seconds
    pause = 0.01
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"waited {BUSY * seconds:.0f} s for {what}")
        time.sleep(pause)
        # Most look by a program that they start: those that wait long leave the processor to the others.
        pause = min(1.2 * pause, 0.06)


def hurry(job):
    """From now on the job does its steps quickly (a workload that knows SIGUSR2): what was to come before they were over has come."""
    job.send_signal(signal.SIGUSR2)


def naps(pid):
    """A number that rises with each step of a job that sleeps in each, whether or not anybody counts them."""
    return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def asleep(task, seconds=0.1):
    """Does the thread of this folder in /proc sleep for so long without a break? One that waits for a processor does not sleep."""
    def look():
        try:
            status = (task / "status").read_text()
        except proc.OVER:
            return False
        return "\nState:\tS" in status and re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.M)[1]
    before = look()
    time.sleep(seconds)
    return before and look() == before


def line_of(stream):
    """The next line of a process's pipe, and nothing behind it: readline() reads ahead, and what it has taken is none that communicate() gives."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(stream.fileno(), 1)):
        line += byte
    return line.decode()


def stop(pid):
    """Stops a process; all its threads stand still then."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: (threads := proc.of_threads(pid, "status")) and all("\nState:\tT" in text for text in threads.values()),
             what=f"process {pid} to stop")


def quiet(count, seconds):
    """Waits for so long a time in which what is counted stays the same: what was asked for before has been done by then."""
    def look():
        before = count()
        time.sleep(seconds)
        return count() == before
    wait_for(look, what=f"{seconds} s in which nothing happens")


class Patient(subprocess.Popen):
    """A process that is waited for so many seconds of an idle machine."""

    def wait(self, timeout=None):
        return super().wait(timeout and BUSY * timeout)

    def communicate(self, input=None, timeout=None):
        return super().communicate(input, timeout and BUSY * timeout)


def drain(job):
    """Reads what a job that has ended left in its pipes. Kills who holds them open still, and returns them: each a (pid, command)."""
    try:
        job.communicate(timeout=30)
        return []
    except subprocess.TimeoutExpired:
        pipes = {os.readlink(f"/proc/self/fd/{file.fileno()}") for file in (job.stdout, job.stderr) if file and not file.closed}
        holders = [(pid, command) for pid, command in proc.holding(pipes) if pid != os.getpid()]
        for pid, _ in holders:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        job.communicate(timeout=30)
        return holders


class Profd:
    """A daemon of its own in a folder of its own, the CLI that talks to it, and the jobs that it sees."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.store = self.folder / "store"
        self.socket = self.folder / "profd.sock"
        self.client = BUILD / "bin" / "profd"
        self.agent = BUILD / "lib" / "libprofd_agent.so"
        self.daemon_log = self.folder / "daemon.log"
        self.jobs = []
        self.open_folders = []
        self.daemon = None
        # A user's own settings must not leak in, the sanitizers' must.
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("PROFD_")}
        for word in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "LD_PRELOAD"):
            self.env.pop(word, None)
        self.env.update(PROFD_SOCKET=str(self.socket), PROFD_AGENT=str(self.agent), NO_COLOR="1",
                        PROFD_DEBUG=str(self.folder / "agent.log"), OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

    def start_daemon(self, *arguments):
        daemon = os.environ.get("PROFD_DAEMON", str(BUILD / "bin" / "profd-daemon"))
        log = open(self.daemon_log, "ab")
        self.daemon = Patient([daemon, "--user", "--dir", str(self.store), *arguments], env=self.env,
                              stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        wait_for(self._answers, 10, "the daemon")
        return self.daemon

    def _answers(self):
        if self.daemon.poll() is not None:
            pytest.fail(f"the daemon ended with {self.daemon.returncode}: {self.daemon_log.read_text(errors='replace')[-500:]}")
        return self.run("status", check=False).returncode == 0

    def stop_daemon(self, how=signal.SIGTERM):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(how)
            self.daemon.wait(20)
        code = self.daemon.returncode if self.daemon else None
        self.daemon = None
        return code

    def run(self, *arguments, check=True, timeout=120, **more):
        """Runs `profd ARGUMENTS` and returns it with its output as text."""
        done = subprocess.run([str(self.client), *map(str, arguments)], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=BUSY * timeout, **more)
        if check:
            assert done.returncode == 0, f"profd {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments, codes=(0,), timeout=120):
        done = self.run(*arguments, "--format", "json", check=False, timeout=timeout)
        assert done.returncode in codes, f"profd {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def job(self, *command, agent=True, env=None, **more):
        """Starts a job under `profd run` (or bare)."""
        line = [str(self.client), "run", "--", *map(str, command)] if agent else list(map(str, command))
        job = Patient(line, env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL,
                      stdout=more.pop("stdout", subprocess.PIPE), stderr=more.pop("stderr", subprocess.PIPE),
                      text=True, **more)
        self.jobs.append(job)
        return job

    def process(self, pid):
        """The row of `profd ps` for a pid, None where it is not registered."""
        done = self.run("ps", "--format", "json", check=False)
        if done.returncode != 0:
            return None
        for row in json.loads(done.stdout)["processes"]:
            if row["pid"] == pid:
                return row
        return None

    def wait_registered(self, pid, seconds=30):
        return wait_for(lambda: self.process(pid), seconds, f"process {pid} to register")

    def wait_torch(self, pid):
        """Waits until the agent watches the process's torch: from then on every step counts."""
        def look():
            row = self.process(pid)
            if not row and any(job.pid == pid and job.poll() is not None for job in self.jobs):
                pytest.fail(f"process {pid} has ended")
            return row and row["torch_version"]
        return wait_for(look, 60, f"the agent to find torch in process {pid}")

    def wait_steps(self, pid, steps=2, seconds=60):
        """Waits until the process has ended so many steps. A job that ends before fails the test at once, with what it said."""
        def look():
            ended = next((job for job in self.jobs if job.pid == pid and job.poll() is not None), None)
            row = self.process(pid)
            if row and row["step"] >= steps:
                return row
            if ended:
                # Not all of it: a child may hold the other end.
                said = os.read(ended.stderr.fileno(), 4096) if ended.stderr and select.select([ended.stderr], [], [], 0)[0] else b""
                pytest.fail(f"process {pid} ended with {ended.returncode} before step {steps}: {said.decode(errors='replace')}")
            return None
        return wait_for(look, seconds, f"step {steps} of process {pid}")

    def wait_recorded(self, pid, steps=0, seconds=60):
        """Waits until a capture of the process is recorded and has that many whole steps; returns the process's row."""
        row = wait_for(lambda: (row := self.process(pid)) and row["state"] == "recording" and row, seconds, f"the recording of {pid}")
        # The step in which it was seen was recorded from its begin on.
        return self.wait_steps(pid, row["step"] + steps, seconds) if steps else row

    def follow(self, *arguments):
        """Starts `profd trigger ... --format json`, which prints its answer at the captures' end."""
        return Patient([str(self.client), "trigger", *map(str, arguments), "--format", "json"], env=self.env,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def trigger(self, pid, *arguments, codes=(0,), timeout=120):
        """`profd trigger --pid PID ...`; returns its only capture."""
        answer = self.json("trigger", "--pid", pid, *arguments, codes=codes, timeout=timeout)
        assert answer["schema"] == "profd.trigger/1"
        assert len(answer["captures"]) == 1, answer
        return answer["captures"][0]

    def show(self, capture_id, *arguments):
        answer = self.json("show", capture_id, *arguments)
        assert answer["schema"] == "profd.show/2"
        return answer

    def file(self, capture_id):
        """The capture's SQLite file."""
        return self.store / "captures" / f"{capture_id.lstrip('u')}.db"

    def step_times(self, capture_id):
        """(begin, end) of each recorded step, ns of CLOCK_MONOTONIC."""
        with contextlib.closing(sqlite3.connect(f"file:{self.file(capture_id)}?mode=ro", uri=True)) as db:
            return db.execute("SELECT start + base, start + duration + base FROM steps, (SELECT CAST(value AS INTEGER) AS base FROM meta "
                              "WHERE key = 'base_monotonic') ORDER BY start").fetchall()

    def for_all_users(self, *files):
        """Copies of these files in a folder that every user can enter; where we are built they may be kept out of."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="profd-open-"))
        self.open_folders.append(folder)
        folder.chmod(0o755)
        for file in files:
            shutil.copy(file, folder)
        return folder

    def close(self):
        crashed, left = [], []
        for job in self.jobs:
            if job.poll() is None:
                job.kill()
            elif job.returncode in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL) and "segv" not in str(job.args):
                crashed.append(job.args)
            left += drain(job)
        self.stop_daemon(signal.SIGTERM)
        for folder in self.open_folders:
            shutil.rmtree(folder, ignore_errors=True)
        assert not crashed, crashed
        assert not left, f"children of jobs that had ended held their output open, and were killed: {left}"


@pytest.fixture
def matrix(request):
    """put(behaviour, release, text) writes a cell of the table of layouts and behaviours that is printed at the end. Cells travel as
    the test's properties: several processes may run the tests."""
    import gpu
    return gpu.Matrix(lambda *cell: request.node.user_properties.append(("matrix", cell)))


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    cells = [cell for report in reports if getattr(report, "when", "") == "call"
             for name, cell in report.user_properties if name == "matrix"]
    if cells:
        import gpu
        terminalreporter.section("simulated CUPTI: layouts and behaviours")
        for line in gpu.Matrix.lines(cells):
            terminalreporter.write_line(line)

    added = [found for report in terminalreporter.stats.get("", []) if getattr(report, "when", "") == "teardown"
             for name, found in report.user_properties if name == "added up"]
    if any(files for files, _, _ in added):
        files, steps, judged = map(sum, zip(*added))
        terminalreporter.section("breakdowns of the captures that tests left")
        terminalreporter.write_line(f"{steps} steps in {files} files add up; {judged} of them equal the slow reference, row by row")

    rows = [row for report in reports if getattr(report, "when", "") == "call"
            for name, row in report.user_properties if name == "finding"]
    if rows:
        terminalreporter.section("what was planted, and what was found first (of a step)")
        for workload, kind, planted, size, found, won in sorted(rows, key=lambda row: (row[1], row[0])):
            sizes = [f"{ns / 1e6:9.3f} ms" if ns is not None else " " * 12 for ns in (size, won)]
            terminalreporter.write_line(f"{workload:<44}{kind:<16}{planted:<22}{sizes[0]}   {found:<22}{sizes[1]}")


@pytest.fixture
def told(request):
    """told(kind, planted, ns, findings): a row of the table that is printed at the end; ns of a step."""
    def put(kind, planted, ns, found, name=None):
        first = found[0] if found else None
        request.node.user_properties.append(("finding", (name or request.node.name.split("[")[-1].rstrip("]"), kind, planted, ns,
                                                         first["finding"] if first else "-", first["win_ns"] if first else None)))
    return put


@pytest.fixture
def empty_profd(request):
    """Everything but a running daemon. Every capture that a test leaves has a breakdown that adds up, and equals the slow reference's."""
    folder = tempfile.mkdtemp(prefix="profd-e2e-")
    profd = Profd(folder)
    yield profd
    try:
        profd.close()
        log = profd.daemon_log.read_text(errors="replace") if profd.daemon_log.exists() else ""
        request.node.user_properties.append(("added up", sums.all_added_up(profd.store / "captures")))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert "ERROR: AddressSanitizer" not in log and "runtime error:" not in log, log


@pytest.fixture
def profd(empty_profd):
    empty_profd.start_daemon()
    return empty_profd


def _torch(variable, what):
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"{variable} is not set ({what}); ./dev test sets it")
    return python


def minor_of(python):
    """3.N"""
    return int(subprocess.run([python, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True, check=True).stdout)


@pytest.fixture
def torch_newest():
    return _torch("PROFD_TORCH_NEWEST", "python with the newest torch")


@pytest.fixture
def torch_debian():
    return _torch("PROFD_TORCH_DEBIAN", "python with Debian's torch")


@pytest.fixture(params=["NEWEST"] + ["OTHER"] * ("PROFD_TORCH_OTHER" in os.environ))
def torch(request):
    """Python with the newest torch, and with another that profd supports where ./dev test long names one."""
    return _torch("PROFD_TORCH_" + request.param, "python with torch")
