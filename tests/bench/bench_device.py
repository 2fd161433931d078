"""A capture of a busy GPU: from the last record to the summary on the terminal, for 1, 3 and 10 million device events (kernels
and the API calls that launched them), and the daemon's memory meanwhile. device_events.c plays the agent.

The events come as fast as the daemon gives room, as they do when a GPU's buffers are drained at the end; "in step with the
job" spreads the first million over its launches, 5 us each. The floor is what SQLite takes to insert as many rows of 18
columns, one statement a row.
"""
import json
import os
import pathlib
import sqlite3
import subprocess
import threading
import time

import bench_nvtx

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MILLION = 1_000_000
SIZES = (1, 3, 10)
STEPS = 5
SUMMARY_SECONDS = 2.0
MEMORY_BYTES = 300e6


class Memory:
    """The most that the daemon had in memory while this lives."""

    def __init__(self, pid):
        self.pid, self.peak, self.over = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.over.wait(0.02):
            for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    self.peak = max(self.peak, int(line.split()[1]) * 1024)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def play(env, program, events, pace=0):
    """Seconds from the last record to the summary, those of the whole, and those of them that the daemon had a processor; its
    peak; the capture."""
    player = subprocess.Popen([program, str(env.socket), str(events // 2), str(STEPS), str(pace)], stdout=subprocess.PIPE, text=True)
    try:
        env.wait_registered(player.pid)
        with Memory(env.daemon.pid) as memory:
            before = processor_seconds(env.daemon.pid)
            began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            client = subprocess.run([env.client, "trigger", "--pid", str(player.pid), "--steps", str(STEPS)], capture_output=True,
                                    text=True, timeout=570, stdin=subprocess.DEVNULL,
                                    env={**env.without_agent(), "PROFD_SOCKET": str(env.socket), "NO_COLOR": "1"})
            ended = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        if client.returncode != 0:
            raise RuntimeError(f"profd trigger: {client.returncode}: {client.stderr.strip()}")
        told = json.loads(player.stdout.readline())
    finally:
        player.kill()
        player.communicate()
    capture = env.profd_json("captures")["captures"][0]
    if capture["status"] != "complete" or capture["lost"] or capture["events"] != told["events"]:
        raise RuntimeError(f"the capture is {capture['status']}, {capture['events']} events of {told['events']}, {capture['lost']} lost")
    if "vectorized_elementwise_kernel" not in client.stdout:
        raise RuntimeError("the summary shows no kernel")
    used = processor_seconds(env.daemon.pid) - before
    return (ended - told["last"]) / 1e9, (ended - began) / 1e9, used, memory.peak, capture


def floor(env, rows):
    """Seconds of processor time in which SQLite inserts as many rows of 18 columns into a file, all in one transaction."""
    path = env.folder / "floor.db"
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=OFF")
    db.execute("PRAGMA synchronous=OFF")
    db.execute("PRAGMA page_size=16384")
    db.execute("CREATE TABLE t (%s)" % ", ".join(f"c{i} INTEGER" for i in range(18)))
    row = tuple(range(1000, 1000 + 18 * 13, 13))
    from_s = time.process_time()
    db.execute("BEGIN")
    db.executemany("INSERT INTO t VALUES (%s)" % ", ".join("?" * 18), (row for _ in range(rows)))
    db.execute("COMMIT")
    took = time.process_time() - from_s
    db.close()
    path.unlink()
    return took


def rows(env):
    library = env.build / "proto" / "libproto.a"
    program = bench_nvtx.compile_program(env, "device_events", "-I", str(ROOT), str(library))
    if not program:
        return
    env.start_daemon()
    used, whole, most, seen = {}, {}, 0, None
    for size in SIZES:
        after, whole[size], used[size], peak, capture = play(env, program, size * MILLION)
        most = max(most, peak)
        if size == SIZES[0]:
            seen = capture["events"]
            paced, _, _, _, other = play(env, program, MILLION, 5000)
            env.profd("rm", other["capture_id"])
            yield ("1 M device events in step with the job: last record to summary", paced, "s", "promised at most", SUMMARY_SECONDS,
                   paced / SUMMARY_SECONDS, 1.0)
        yield f"{size} M device events at once: last record to summary", after, "s", "", None, None, None
        yield (f"{size} M device events at once: each, of the daemon's processor time", used[size] / size / MILLION * 1e9, "ns",
               "of all time", whole[size] / size / MILLION * 1e9, None, None)
        env.profd("rm", capture["capture_id"])
    least = floor(env, seen)
    yield (f"1 M device events at once: processor time, {seen:,} rows", used[1], "s", "inserting as many of 18 columns", least,
           used[1] / least, None)
    yield ("10 M device events against 1 M: processor time", used[10] / used[1], "times", "linear", 10.0, used[10] / used[1] / 10, 1.3)
    yield "most memory of the daemon", most / 1e6, "MB", "promised at most", MEMORY_BYTES / 1e6, most / MEMORY_BYTES, 1.0
