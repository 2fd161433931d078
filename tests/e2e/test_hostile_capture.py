"""What one user's records can do to the daemon and to other users' captures: nothing. Each test writes what no agent would."""
import errno
import os
import pathlib
import signal
import sqlite3
import time

import pytest

import device_records as records
import fake_agent as fake
from conftest import wait_for
from hostile_capture import CUPTI, TORCH, Capture, colliding_kernels, one_id, overflowing_name, peak, slow_to_finish, steps
from proc import processor_seconds
from test_disk_full import WRITE, failing, settings  # noqa: F401 (failing is a fixture)


def query(profd, capture_id, sql):
    with sqlite3.connect(f"file:{profd.file(capture_id)}?mode=ro", uri=True) as db:
        return db.execute(sql).fetchall()


# --- names ---

def readers(pid):
    """The daemon's children."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def test_a_name_that_needs_a_stack(profd):
    """Kernels' names for which the demangler wants 15 MB of stack: each stays mangled, and is counted; the others are read."""
    capture = Capture(profd.socket)
    capture.ran(CUPTI)
    begun, pid = capture.begun, profd.daemon.pid
    bad = [overflowing_name(size) for size in (3817, 3000, 2500)]
    ids = capture.agent.strings([*bad, "_Z4gemmPf", "triton_poi_fused_0"])
    names = list(ids.values())
    capture.put([records.call(1, begun + i * 10, 5, i + 1) for i in range(len(names))] +
                [records.kernel(begun + 100 + i * 10, 10, i + 1, name=name) for i, name in enumerate(names)] + steps(begun))
    capture.drained()
    capture.done()
    assert capture.end()["status"] == "complete"
    assert profd.daemon.poll() is None and profd.daemon.pid == pid
    shown = {row["name"] for row in profd.show(capture.id())["kernels"]}
    assert shown == {*bad, "gemm(float*)", "triton_poi_fused_0"}
    assert query(profd, capture.id(), "SELECT kind, count, is_loss FROM losses WHERE loss = 'mangled'") == [("kernel", 3, 0)]
    assert readers(pid) == []
    capture.close()


def test_what_reads_names_can_do_nothing(profd):
    """The process that reads names: no descriptor but its socket, no system call that could open one, no new privileges."""
    capture = Capture(profd.socket)
    begun, pid = capture.begun, profd.daemon.pid
    # Each takes the 20 ms that a name is given.
    slow = ["_ZN1AcvT_" + "IT_" * 60 + "E" * 61 + f"v{'i' * i}" for i in range(40)]
    names = list(capture.agent.strings(slow).values())
    capture.put([records.kernel(begun + 100 + i * 10, 10, i + 1, name=name) for i, name in enumerate(names)] + steps(begun))
    capture.drained()
    capture.done()
    facts, until = None, time.monotonic() + 20
    while not facts and time.monotonic() < until:
        for child in readers(pid):
            try:
                status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{child}/status").read_text().splitlines())
                files = os.listdir(f"/proc/{child}/fd")
                limits = pathlib.Path(f"/proc/{child}/limits").read_text()
            except OSError:
                continue
            if status["Seccomp"].strip() == "2":
                facts = status, files, limits
    assert facts, "no reader was seen"
    status, files, limits = facts
    assert status["NoNewPrivs"] == "1" and files == ["0"], facts
    assert "Max core file size        0" in limits and "Max stack size            8388608" in limits, limits
    assert capture.end()["status"] == "complete"
    assert query(profd, capture.id(), "SELECT count FROM losses WHERE loss = 'mangled'")[0][0] >= len(slow) - 1
    assert readers(pid) == []
    capture.close()


# --- memory and time ---

@pytest.mark.serial
def test_many_threads_that_are_deep(profd):
    """65,000 records, 5 MB, of which each claims to lie a thousand ranges deep in a thread of its own: 2.6 GB, when every depth
    above had its place."""
    capture = Capture(profd.socket, max_bytes=64 << 20)
    before = peak(profd.daemon.pid)
    capture.put([records.operator_of(1, capture.begun + 5, 10, 10, i + 1, 7, 1, 1023, i + 1) for i in range(65000)] +
                steps(capture.begun))
    capture.drained()
    capture.done()
    assert capture.end()["status"] == "complete"
    assert peak(profd.daemon.pid) - before < (128 << 20 if "PROFD_DAEMON" not in os.environ else 1 << 30)
    assert query(profd, capture.id(), "SELECT sum(calls) FROM operator_totals") == [(65000,)]
    capture.close()


def taken_by_sums(profd, memory_user):
    """How many bytes a daemon with that limit takes at most for a capture whose records have nothing in common, so that each wants a sum of
    its own; and the capture."""
    config = profd.folder / "profd.conf"
    config.write_text(f"memory_user = {memory_user}\n")
    profd.start_daemon("--config", str(config))
    before = peak(profd.daemon.pid)
    capture = Capture(profd.socket)
    capture.ran(CUPTI, TORCH)
    kernels = colliding_kernels(capture.begun, 60000)
    for _ in range(6):
        capture.put(kernels)
    operators = [records.operator_of(1, capture.begun + 5, 10, 10, i + 1, 7, i + 1, 1023, i + 1) for i in range(30000)]
    for _ in range(2):
        capture.put(operators)
    capture.put(steps(capture.begun))
    capture.drained()
    capture.done()
    row = capture.end()
    taken = peak(profd.daemon.pid) - before
    capture.close()
    profd.stop_daemon()
    return taken, row


@pytest.mark.serial
@pytest.mark.skipif("PROFD_DAEMON" in os.environ, reason="a sanitizer's own memory is not the user's")
def test_memory_of_a_user_is_all_that_is_held(empty_profd):
    """What ingest and derive hold for a capture counts in its user's memory: a sixteenth of 64 MiB here. Where that does not suffice
    they read the file instead, and find the same. Beside it there are the segment's 8 MiB and SQLite's caches, whatever the limit is."""
    little, bounded = taken_by_sums(empty_profd, "64M")
    much, free = taken_by_sums(empty_profd, "8G")
    print(f"{little >> 20} MiB, {much >> 20} MiB where memory_user is large")
    for row in (bounded, free):
        assert row["status"] == "complete" and row["events"] == 420_003 and row["lost"] == 0, row
    # The same is found, by whichever way.
    sums = [query(empty_profd, row["capture_id"], "SELECT (SELECT count(*) FROM kernel_totals), (SELECT sum(calls) FROM operator_totals)")
            for row in (bounded, free)]
    assert sums == [[(60000, 60000)]] * 2, sums
    assert little < 56 << 20, "something is held that does not count"
    assert much > little + (16 << 20), "the records want no memory: the test shows nothing"


@pytest.mark.serial
def test_operators_of_one_id(profd):
    """20,000 of them, 1.6 MB, took 48 s of the threads that finish everybody's captures."""
    capture = Capture(profd.socket, max_bytes=64 << 20)
    capture.put(one_id(capture.begun, 20000) + steps(capture.begun))
    capture.drained()
    began = processor_seconds(f"/proc/{profd.daemon.pid}")
    capture.done()
    row = capture.end()
    assert row["status"] == "complete" and row["events"] == 20004
    assert processor_seconds(f"/proc/{profd.daemon.pid}") - began < 10
    capture.close()


@pytest.mark.serial
def test_colliding_names_of_streams(profd):
    """120,000 kernels that fell on one place of a table took 17 s."""
    capture = Capture(profd.socket, max_bytes=64 << 20)
    capture.put(colliding_kernels(capture.begun, 120000) + steps(capture.begun))
    capture.drained()
    began = processor_seconds(f"/proc/{profd.daemon.pid}")
    capture.done()
    assert capture.end()["status"] == "complete"
    assert processor_seconds(f"/proc/{profd.daemon.pid}") - began < 8
    assert query(profd, capture.id(), "SELECT count(*) FROM kernel_totals") == [(120000,)]
    capture.close()


def given_up(profd, row, why, reason_code):
    """What is there is there, what is not is not shown as 0."""
    assert row["status"] == "incomplete" and row["reason_code"] == reason_code and why in row["reason"], row
    assert row["steps_recorded"] == 3 and row["events"] == 300_003
    shown = profd.show(row["capture_id"])
    assert shown["operators"] is None
    torch, = [c for c in shown["collectors"] if c["collector"] == "torch"]
    assert not torch["on"] and "not put into order" in torch["sentence"]
    assert "not put into order" in " ".join(profd.run("show", row["capture_id"]).stdout.split())
    assert query(profd, row["capture_id"], "SELECT count(*) FROM operators") == [(300_000,)]
    profd.run("export", row["capture_id"], "--output", profd.folder / "out.json")
    profd.run("rm", row["capture_id"])


@pytest.fixture
def impatient(empty_profd):
    config = empty_profd.folder / "profd.conf"
    config.write_text("finish_time = 20ms\n")
    empty_profd.start_daemon("--config", str(config))
    return empty_profd


@pytest.mark.serial
def test_a_finish_that_takes_too_long(impatient):
    """It ends after finish_time, with the records as they came."""
    capture = Capture(impatient.socket, max_bytes=64 << 20)
    capture.ran(TORCH)
    slow_to_finish(capture)
    capture.done()
    given_up(impatient, capture.end(), "finish_time", "daemon")
    capture.close()


def attempts(partial):
    """Of a file that the daemon has locked."""
    with sqlite3.connect(f"file:{partial}?immutable=1", uri=True) as db:
        return db.execute("SELECT value FROM meta WHERE key = 'finish_attempts'").fetchall()


@pytest.fixture
def finishing(failing):  # noqa: F811
    """A daemon, and a capture whose finish has begun and does not end: of its 323 writes the twentieth waits until the disk is healed."""
    profd = failing("/nowhere")
    profd.stop_daemon()
    profd = failing(profd.store / "captures")
    capture = Capture(profd.socket, max_bytes=64 << 20)
    capture.ran(TORCH)
    slow_to_finish(capture)
    profd.disk.fail(20, 2**32 - 1, errno.EAGAIN, WRITE)
    capture.done()
    wait_for(lambda: profd.disk.failed, 20, "the finish")
    assert [row["status"] for row in fake.ask(profd.socket, "captures")[:-1]] == ["finishing"]
    assert attempts(profd.file(capture.id()).with_suffix(".partial")) == [(1,)]
    yield profd, capture
    profd.disk.heal()
    capture.close()


def test_cancel_ends_a_finish(finishing):
    """`rm` says that the capture is under way and to be cancelled; `cancel` of it does that, and it keeps its records."""
    profd, capture = finishing
    refused = profd.run("rm", capture.id(), check=False)
    assert refused.returncode == 8 and f"profd cancel {capture.id()}" in refused.stderr, refused
    # All that is under way, without a number, is what still records.
    assert profd.run("cancel", capture.id()).returncode == 0
    profd.disk.heal()
    given_up(profd, capture.end(), "cancelled", "cancelled")


def test_a_finish_that_ends_the_daemon(finishing):
    """What has ended the daemon three times is not tried once more."""
    profd, capture = finishing
    profd.stop_daemon(signal.SIGKILL)
    profd.disk.heal()
    with sqlite3.connect(profd.file(capture.id()).with_suffix(".partial")) as db:
        assert db.execute("SELECT value FROM meta WHERE key = 'finish_attempts'").fetchall() == [(1,)]
        db.execute("UPDATE meta SET value = 3 WHERE key = 'finish_attempts'")
    capture.close()
    profd.start_daemon(*settings(profd))
    # The process that it was of is this one, and lives: the daemon waits for its agent, and then knows that it has nothing.
    agent = fake.Agent(profd.socket)
    row = wait_for(lambda: [row for row in fake.ask(profd.socket, "captures")[:-1] if row["finished_at"]], 60)[0]
    given_up(profd, row, "ended 3 times", "daemon")
    agent.close()


def test_too_many_records(empty_profd):
    """Records beyond capture_events are counted, and the capture ends."""
    config = empty_profd.folder / "profd.conf"
    config.write_text("capture_events = 5000\n")
    empty_profd.start_daemon("--config", str(config))
    capture = Capture(empty_profd.socket, max_bytes=64 << 20)
    capture.put(steps(capture.begun) + [records.operator_of(1, capture.begun + 5, 10, 10, i + 1, 0, 1, 0, 42) for i in range(20000)])
    packet, _ = capture.agent.wait_for(fake.CANCEL)
    capture.done()
    row = capture.end()
    assert row["status"] in ("incomplete", "complete") and row["events"] + row["lost"] == 20003 and row["events"] <= 5000
    assert query(empty_profd, capture.id(), "SELECT count FROM losses WHERE loss = 'limit' AND kind = 'operator'")[0][0] >= 15000
    capture.close()
