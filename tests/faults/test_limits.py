"""Jobs near a limit of their process: the agent takes only memory that they do not need."""
import json
import pathlib
import re
import threading
import time

import gpu
from house import BUILD

LIMITS = BUILD / "workloads" / "limits"
LINE = [LIMITS, "--steps=60", "--step-ms=10"]


def in_status(pid, word):
    """A figure of /proc/PID/status, in MiB."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{word}:\s+(\d+) kB", text, re.M).group(1)) / 1024


def highest(pid, word, while_running):
    """The highest value of a figure while something is done."""
    seen, over = [in_status(pid, word)], threading.Event()

    def look():
        while not over.is_set():
            seen.append(in_status(pid, word))
            time.sleep(0.002)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        return while_running(), max(seen)
    finally:
        over.set()
        thread.join()


def complete(row, capture, steps):
    assert capture["status"] == "complete", capture
    row.counts(capture["steps_recorded"], capture["lost"], steps)


def test_little_address_space(row, profd):
    row.does("may map 400 MiB more (ulimit -v) and needs 240 of them")

    def during(job):
        profd.wait_steps(job.pid, 5)
        cycles = profd.json("trigger", "--pid", job.pid, "--steps", 5, "--repeat", 2)["captures"]
        return profd.trigger(job.pid, "--steps", 20), cycles

    capture, cycles = row.twice(profd, [*LINE, "--limit=as", "--room-mib=400", "--need-mib=240"], during)
    complete(row, capture, 20)
    # The segment of the next one comes while the first is recorded. A third one may find no room while the daemon still reads the first.
    assert [c["status"] for c in cycles] == ["complete"] * 2, cycles


def test_share_of_all_kinds(row, profd):
    """The segment, CUPTI's buffers, NVTX's tables and that of blocks have one quarter together, and so has the capture after it."""
    row.does("may map 400 MiB more (ulimit -v), and needs 270 of them from the middle of a capture on (--memory, and a GPU)")
    go = profd.folder / "go"

    def during(job):
        profd.wait_steps(job.pid, 5)
        capture = profd.follow("--pid", job.pid, "--memory", "--steps", 100000)
        profd.wait_recorded(job.pid, 3)
        go.touch()
        profd.wait_recorded(job.pid, 10)
        profd.run("cancel", "--pid", job.pid)
        capture.communicate(timeout=120)
        go.unlink()
        profd.wait_steps(job.pid, profd.process(job.pid)["step"] + 2)
        return profd.trigger(job.pid, "--memory", "--steps", 20)

    # Each thread of the process has malloc reserve 64 MiB, CUPTI's too: these are not profd's to count.
    env = {**gpu.environment(gpu.NEWEST), "MALLOC_ARENA_MAX": "1"}
    line = [*LINE, "--limit=as", "--room-mib=400", "--need-mib=270", "--gpu=1", f"--torch={LIMITS.parent}", f"--go={go}"]
    capture = row.twice(profd, line, during, env=env)
    complete(row, capture, 20)
    with gpu.open_file(profd.file(capture["capture_id"])) as db:
        sets, blocks = gpu.rows(db, "SELECT (SELECT count(*) FROM sets), (SELECT count(*) FROM framework_allocations)")[0]
    assert sets >= 20 * 4 and blocks >= 20 * 8, (sets, blocks)


def test_no_address_space(row, profd):
    row.does("may map 8 MiB more (ulimit -v)")

    def during(job):
        profd.wait_steps(job.pid, 5)
        return profd.json("trigger", "--pid", job.pid, "--steps", 20, codes=(1,))

    answer = row.twice(profd, [*LINE, "--limit=as", "--room-mib=8", "--need-mib=4"], during)
    assert "ulimit -v" in json.dumps(answer), answer
    row.nothing_recorded("refused: ulimit -v")


def test_little_memory_of_its_own(row, profd):
    row.does("may make 300 MiB its own (ulimit -d) and needs 240 of them")

    def during(job):
        profd.wait_steps(job.pid, 5)
        return profd.trigger(job.pid, "--steps", 20)

    complete(row, row.twice(profd, [*LINE, "--limit=data", "--room-mib=300", "--need-mib=240"], during), 20)


def test_all_memory_locked(row, profd):
    row.does("locks all memory that it maps (mlockall)")

    def during(job):
        profd.wait_steps(job.pid, 5)
        before = in_status(job.pid, "VmLck")
        capture, locked = highest(job.pid, "VmLck", lambda: profd.trigger(job.pid, "--steps", 20))
        return capture, locked - before

    capture, more = row.twice(profd, [*LINE, "--lock=1"], during)
    complete(row, capture, 20)
    assert more < 8, f"{more} MiB more are locked during a capture"


def test_all_memory_locked_and_no_more_allowed(row, profd):
    row.does("locks all memory that it maps, and may lock 16 MiB")

    def during(job):
        profd.wait_steps(job.pid, 5)
        return profd.trigger(job.pid, "--steps", 20)

    complete(row, row.twice(profd, [*LINE, "--lock=1", "--limit=lock", "--room-mib=16"], during), 20)
