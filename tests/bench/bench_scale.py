"""A crowded node: 10, 100 and 1,000 processes with the agent in them, and what they cost the daemon.

The floor is an otherwise empty libuv loop with as many processes connected to it (loop_floor.c). Run as root, the agents are
those of 20 users, as on a shared node, and a stranger's connections are tried too; else all are one's own.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

from bench_nvtx import compile_program
from bench_trigger import FIELDS, Client

COUNTS = (10, 100, 1000)
USERS = 20
FIRST_USER = 61000
STRANGERS = 1000
IDLE_SECONDS = 10
STEP_MS = 100
# A step is waited for, recorded, and its capture derived: with a thousand of them on two cores it takes its time.
CAPTURE_SECONDS = 300


class Node:
    """A daemon of its own, in a folder that others may look into, and the processes that it sees."""

    def __init__(self, env):
        self.env = env
        self.root = os.geteuid() == 0
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="profd-scale-"))
        self.folder.chmod(0o755)
        self.socket = self.folder / "profd.sock"
        self.jobs = []
        log = open(self.folder / "daemon.log", "ab")
        # The system's kind where there are several users; its own where there is one.
        kind = [] if self.root else ["--user"]
        self.daemon = subprocess.Popen([env.build / "bin" / "profd-daemon", *kind, "--dir", self.folder / "store", "--socket",
                                        self.socket], env=env.without_agent(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)
        log.close()
        env.wait(self.socket.exists, 10, "the daemon")

    def start(self, count):
        # Not below a folder that other users cannot enter.
        for name in ("libprofd_agent.so", "steps"):
            if not (self.folder / name).exists():
                shutil.copy(self.env.build / ("lib" if name.startswith("lib") else "workloads") / name, self.folder)
        environment = {**self.env.without_agent(), "PROFD_SOCKET": str(self.socket),
                       "LD_PRELOAD": str(self.folder / "libprofd_agent.so")}
        for i in range(len(self.jobs), count):
            as_user = {}
            if self.root:
                user = FIRST_USER + i % USERS
                as_user = {"user": user, "group": user, "extra_groups": []}
            self.jobs.append(subprocess.Popen([self.folder / "steps", f"--step-ms={STEP_MS}"], env=environment,
                                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/", **as_user))
        self.env.wait(lambda: self.ask("status")[0]["processes"] >= count, 120, f"{count} agents")
        self.env.wait(lambda: all(row["step"] >= 2 for row in self.ask("ps")[:-1]), 60, "their steps")

    def ask(self, op, **more):
        client = Client(self)
        try:
            return list(client.rows(op, **more))
        finally:
            client.close()

    def close(self):
        for job in self.jobs:
            job.kill()
        for job in self.jobs:
            job.wait()
        self.daemon.terminate()
        try:
            self.daemon.wait(30)
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            self.daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def cpu_seconds(pid):
    """Time on a processor of all threads, in ns of the scheduler's own books."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def memory(pid):
    """MiB: of its own (PSS without shared memory), shared memory that it has made, mapped or not, and what RSS says."""
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    pss = int(re.search(r"^Pss:\s*(\d+)", rollup, re.M)[1])
    shared = int((re.search(r"^Pss_Shmem:\s*(\d+)", rollup, re.M) or [0, "0"])[1])
    rss = int(re.search(r"^VmRSS:\s*(\d+)", status, re.M)[1])
    blocks = 0
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(entry).startswith("/memfd:"):
                blocks += entry.stat().st_blocks
        except OSError:
            pass
    return (pss - shared) / 1024, blocks * 512 / 1048576, rss / 1024


def floor_of(env, program, count):
    path = env.folder / "floor.sock"
    path.unlink(missing_ok=True)
    done = subprocess.run([program, str(count), path], capture_output=True, text=True, check=True, timeout=120,
                          start_new_session=True)
    return json.loads(done.stdout)


def ms_of_ps(node):
    times = []
    for _ in range(5):
        began = time.perf_counter()
        done = subprocess.run([node.env.client, "ps", "--format", "csv"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env={**node.env.without_agent(), "PROFD_SOCKET": str(node.socket)})
        times.append((time.perf_counter() - began) * 1e3)
        if done.returncode != 0 or done.stdout.count("\n") != len(node.jobs) + 1:
            raise RuntimeError(f"profd ps lists {done.stdout.count(chr(10)) - 1} of {len(node.jobs)}: {done.stderr.strip()}")
    return statistics.median(times)


def wait_idle(node):
    node.env.wait(lambda: node.ask("status")[0]["running"] == 0, 120, "the captures to end")


def one_armed(node):
    """ms from the request until the row that says armed, of a trigger on one process in the crowd."""
    times = []
    for job in node.jobs[:5]:
        began = time.perf_counter()
        client = Client(node)
        replies = client.rows("trigger", targets={"pids": [job.pid]}, follow=False, **FIELDS)
        row = next(replies)
        times.append((time.perf_counter() - began) * 1e3)
        if row.get("outcome") != "armed":
            raise RuntimeError(f"not armed: {row}")
        list(replies)
        client.close()
        wait_idle(node)
    return statistics.median(times)


def all_armed(node):
    """Seconds from the request until the first and the last process are armed, and until all are captured; MiB at most."""
    began = time.perf_counter()
    client = Client(node)
    client.connection.settimeout(CAPTURE_SECONDS)
    armed, captured, peak = [], [], (0, 0, 0)
    looked = began
    for row in client.rows("trigger", targets={"all": True}, follow=True, **{**FIELDS, "timeout": CAPTURE_SECONDS * 10**9}):
        at = time.perf_counter() - began
        if row.get("row") == "target":
            if row["outcome"] != "armed":
                raise RuntimeError(f"not armed: {row}")
            armed.append(at)
        elif row.get("row") == "captured":
            if row["status"] != "complete" or row["steps_recorded"] != 3:
                raise RuntimeError(f"capture {row['capture_id']}: {row['status']}: {row['reason']}")
            captured.append(at)
        if len(armed) == len(node.jobs) and time.perf_counter() > looked + 0.5:
            looked = time.perf_counter()
            peak = max(peak, memory(node.daemon.pid), key=lambda m: m[0] + m[1])
    client.close()
    if len(armed) != len(node.jobs) or len(captured) != len(node.jobs):
        raise RuntimeError(f"{len(armed)} armed and {len(captured)} captured of {len(node.jobs)}")
    return armed[0], armed[-1], captured[-1], peak


def strangers(node):
    """ms until armed, while one user holds as many connections as it is let have: idle, half a request, and rubbish."""
    script = ("import socket, sys, time\nheld = []\n"
              f"for i in range({STRANGERS}):\n"
              "    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n    s.settimeout(5)\n"
              "    try:\n        s.connect(sys.argv[1])\n"
              "        if i % 3 == 1: s.send(b'{\"op\":')\n        if i % 3 == 2: s.send(bytes(range(256)))\n"
              "    except OSError: pass\n    held.append(s)\nprint('ready', flush=True)\n"
              "while True:\n    for s in held[::3]:\n        time.sleep(0.001)\n"
              "        try: s.send(b'{\"op\": \"ps\"')\n        except OSError: pass\n")
    crowd = subprocess.Popen(["/usr/bin/python3", "-c", script, node.socket], user=FIRST_USER + USERS, group=FIRST_USER + USERS,
                             extra_groups=[], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, cwd="/")
    try:
        crowd.stdout.readline()
        return one_armed(node)
    finally:
        crowd.kill()
        crowd.wait()


def rows(env):
    program = compile_program(env, "loop_floor", "-luv")
    for count in COUNTS:
        floor = floor_of(env, program, count) if program else dict.fromkeys(("pss_kb", "cpu_percent", "first_ms", "last_ms"))
        name = f"{count:,} agents"
        promised = count == COUNTS[-1]
        node = Node(env)
        try:
            node.start(count)
            time.sleep(2)
            before = cpu_seconds(node.daemon.pid)
            time.sleep(IDLE_SECONDS)
            percent = (cpu_seconds(node.daemon.pid) - before) * 100 / IDLE_SECONDS
            own, shared, rss = memory(node.daemon.pid)

            def beside(value, key, scale=1.0):
                reference = floor[key] and floor[key] / scale
                return ("an empty loop", reference, value / reference if reference else None) if program else (None, None, None)
            yield (f"{name}: idle CPU of the daemon", percent, "%", *beside(percent, "cpu_percent"), None)
            yield (f"{name}: PSS of the daemon without memfds", own, "MiB", *beside(own, "pss_kb", 1024), None)
            yield (f"{name}: and its memfds, mapped or not", shared, "MiB", None, None, None, None)
            yield (f"{name}: its RSS", rss, "MiB", None, None, None, None)
            if promised:
                yield (f"{name}: idle CPU of the daemon", percent, "%", "promised", 0.1, percent / 0.1, 1.0)
                yield (f"{name}: its memory with memfds", own + shared, "MiB", "promised", 64.0, (own + shared) / 64, 1.0)
            yield (f"{name}: profd ps", ms_of_ps(node), "ms", None, None, None, None)
            armed = one_armed(node)
            yield (f"{name}: a trigger on one of them, armed", armed, "ms", None, None, None, None)
            first, last, captured, peak = all_armed(node)
            yield (f"{name}: a trigger on all, first armed", first * 1e3, "ms", *beside(first * 1e3, "first_ms"), None)
            yield (f"{name}: a trigger on all, last armed", last * 1e3, "ms", *beside(last * 1e3, "last_ms"), None)
            if promised:
                yield (f"{name}: a trigger on all, answered", last, "s", "promised", 2.0, last / 2, 1.0)
            yield (f"{name}: three steps of all captured", captured, "s", None, None, None, None)
            yield (f"{name}: memory without memfds meanwhile", peak[0], "MiB", None, None, None, None)
            yield (f"{name}: memfds meanwhile", peak[1], "MiB", None, None, None, None)
            wait_idle(node)
            own, shared, _ = memory(node.daemon.pid)
            yield (f"{name}: memory with memfds after it", own + shared, "MiB", None, None, None, None)
            if promised and node.root:
                crowded = strangers(node)
                yield (f"{name}: armed beside {STRANGERS} hostile connections", crowded, "ms", "without them", armed,
                       crowded / armed, None)
        finally:
            node.close()
