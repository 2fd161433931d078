"""Budgets, pins, the floor of free space; a list tells what was deleted; a capture that is being read can be read to the end."""
import csv
import io
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

import fake_agent as fake
from conftest import BUILD, Patient, quiet, wait_for
from recorder import Recorder

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")
ALICE, BOB = 61001, 61002


def can_mount():
    return os.geteuid() == 0 and shutil.which("unshare") and subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], stderr=subprocess.DEVNULL).returncode == 0


needs_mount = pytest.mark.skipif(not can_mount(), reason="needs root that may mount")


def configure(profd, **settings):
    path = profd.folder / "profd.conf"
    path.write_text("".join(f"{key} = {value}\n" for key, value in {"free_space": 0, **settings}.items()))
    return "--config", str(path)


@pytest.fixture
def start(empty_profd):
    """start(key=value, ...) starts a daemon with these settings; again: another on the same store."""
    recorders = []

    def run(**settings):
        if empty_profd.daemon:
            empty_profd.stop_daemon()
        empty_profd.start_daemon(*configure(empty_profd, **settings))
        return empty_profd

    def recorder(**more):
        recorders.append(Recorder(empty_profd, **more))
        return recorders[-1]

    run.recorder = recorder
    run.profd = empty_profd
    yield run
    for one in recorders:
        one.close()


@pytest.fixture
def shared(start):
    """The system's daemon, which serves all users, in a folder of the test's own."""
    profd = start.profd
    profd.folder.chmod(0o755)

    def run(**settings):
        daemon = os.environ.get("PROFD_DAEMON", str(BUILD / "bin" / "profd-daemon"))
        with open(profd.daemon_log, "ab") as log:
            profd.daemon = Patient([daemon, "--dir", str(profd.store), "--socket", str(profd.socket), *configure(profd, **settings)],
                                   env=profd.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: profd.run("status", check=False).returncode == 0, 10, "the daemon")
        return profd

    run.recorder = start.recorder
    return run


def ids(profd):
    """Ids of all captures, oldest first."""
    return [c["capture_id"] for c in profd.json("captures")["captures"]][::-1]


def deleted(profd, *arguments):
    answer = profd.json("captures", "--deleted", *arguments)
    assert answer["schema"] == "profd.deleted/1"
    return answer["deleted"]


def settle(profd, wanted, what="retention"):
    wait_for(lambda: ids(profd) == wanted, 10, f"{what}: {wanted}, not {ids(profd)}")


def as_user(profd, uid, *arguments):
    client = profd.for_all_users(profd.client) / "profd"
    return subprocess.run(["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", str(client), *arguments],
                          env=profd.env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=240, cwd="/")


def audit(profd):
    with sqlite3.connect(f"file:{profd.store}/catalogue.db?mode=ro", uri=True) as db:
        return db.execute("SELECT action, subject, outcome FROM audit ORDER BY id").fetchall()


def test_count(start):
    profd, recorder = start(store_captures=3), start.recorder()
    made = [recorder.capture()["capture_id"] for _ in range(5)]
    settle(profd, made[2:])
    assert sorted(p.name for p in (profd.store / "captures").iterdir()) == sorted(f"{i[1:]}.db" for i in made[2:])
    rows = deleted(profd)
    assert [row["capture_id"] for row in rows] == [made[1], made[0]]
    assert rows[0]["by_uid"] is None and rows[0]["by"] == "the daemon"
    assert "store_captures is 3" in rows[0]["reason"] and rows[0]["status"] == "complete" and rows[0]["bytes"] > 0
    assert rows[0]["deleted_at"] > rows[0]["finished_at"] > rows[0]["started_at"]
    # Counted, and in the audit log.
    status = profd.json("status")["daemons"][0]
    assert status["captures"] == 3 and status["store_bytes"] == sum(c["bytes"] for c in profd.json("captures")["captures"])
    wait_for(lambda: [a for a in audit(profd) if a[0] == "delete"] == [("delete", made[0], "store_captures"),
                                                                       ("delete", made[1], "store_captures")], what="the audit log")
    # Whoever asks for one that is gone is told so, in every verb that takes one.
    for verb in ("show", "export"):
        gone = profd.run(verb, made[0], check=False)
        assert gone.returncode == 3 and "deleted it at" in gone.stderr and "store_captures is 3" in gone.stderr, gone.stderr
    # The same as a table and as CSV.
    table = profd.run("captures", "--deleted").stdout
    assert "store_captures" in table and "the daemon" in table
    rows = list(csv.DictReader(io.StringIO(profd.run("captures", "--deleted", "--format", "csv").stdout)))
    assert [row["capture_id"] for row in rows] == [made[1], made[0]] and rows[0]["by"] == "the daemon"


def test_bytes_and_pins(start):
    profd = start()
    recorder = start.recorder()
    sizes = {}
    for _ in range(4):
        capture = recorder.capture()
        sizes[capture["capture_id"]] = capture["bytes"]
    made = list(sizes)
    assert profd.json("pin", made[0])["pinned"] == [made[0]]
    assert [c["pinned"] for c in profd.json("captures")["captures"]] == [False, False, False, True]
    recorder.close()
    # Settings that are tighter after a restart hold from the start.
    start(store_bytes=sum(sizes.values()) - 1)
    settle(profd, [made[0], made[2], made[3]])
    start(store_bytes=sizes[made[0]] + sizes[made[3]] + 1)
    settle(profd, [made[0], made[3]])
    assert "store_bytes" in deleted(profd)[0]["reason"]
    # A pin outlives restarts; without it the capture goes when its time comes.
    assert "PINNED" in profd.run("captures").stdout
    assert profd.json("unpin", made[0])["unpinned"] == [made[0]]
    start(store_bytes=sizes[made[3]])
    settle(profd, [made[3]])
    # Nothing to pin.
    missing = profd.run("pin", "u999", made[0], check=False)
    assert missing.returncode == 3 and "there is no capture u999" in missing.stderr
    kept = profd.json("pin", "u999", codes=(3,))["kept"]
    assert kept[0]["code"] == "no_such_capture"


def test_pinned_captures_take_the_budget(start):
    """A trigger whose capture would be deleted at once is refused, with what to do."""
    profd = start(store_captures_user=2)
    recorder = start.recorder()
    made = [recorder.capture()["capture_id"] for _ in range(2)]
    profd.run("pin", *made)
    refused = profd.run("trigger", "--pid", recorder.pid, check=False)
    assert refused.returncode == 1 and "pinned 2 captures of the 2" in refused.stderr and "profd unpin" in refused.stderr
    profd.run("unpin", made[1])
    third = recorder.capture()["capture_id"]
    settle(profd, [made[0], third])
    # rm deletes pinned ones too, and counts them out.
    profd.run("pin", third)
    assert profd.run("trigger", "--pid", recorder.pid, check=False).returncode == 1
    profd.run("rm", made[0])
    assert recorder.capture()["status"] == "complete"
    rows = deleted(profd)
    assert rows[0]["capture_id"] == made[0] and rows[0]["by_uid"] == os.getuid() and "profd rm" in rows[0]["reason"]


def test_age(start):
    """To the second, and without a timer where no age is set."""
    profd = start(store_age="6s")
    recorder = start.recorder()
    began = time.monotonic()
    first, second = recorder.capture()["capture_id"], recorder.capture()["capture_id"]
    profd.run("pin", first)
    time.sleep(2)
    third = recorder.capture()["capture_id"]
    assert ids(profd) == [first, second, third] or time.monotonic() > began + 6
    # Each when its own time is over: on however busy a machine none before, and the younger one after the older one.
    settle(profd, [first])
    gone = deleted(profd)
    assert [row["capture_id"] for row in gone] == [third, second] and all("store_age" in row["reason"] for row in gone), gone
    stamp = lambda text: time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    ages = [stamp(row["deleted_at"]) - stamp(row["finished_at"]) for row in gone]
    assert all(5 <= age <= 60 for age in ages), ages
    # What is pinned is no reason to wake up.
    stat = pathlib.Path(f"/proc/{profd.daemon.pid}/status")
    switches = lambda: sum(int(line.split()[1]) for line in stat.read_text().splitlines() if "ctxt_switches" in line)
    quiet(switches, 2)
    profd.run("unpin", first)
    settle(profd, [])


def test_what_is_followed_stays_until_it_is_read(start):
    profd = start(store_captures=1)
    recorder = start.recorder()
    other = start.recorder(name="other")
    with fake.connect(profd.socket, 60) as connection:
        held = recorder.capture(connection)["capture_id"]
        last = other.capture()["capture_id"]
        time.sleep(1.5)
        assert ids(profd) == [held, last]
        fake.send(connection, "summary", capture_id=held)
        assert [row for row in fake.rows(connection)][0]["row"] == "summary"
    settle(profd, [last])


def test_a_reader_keeps_its_file(start):
    """A descriptor that was handed out reads on after retention, and `rm`, deleted the capture."""
    profd = start(store_captures=1)
    recorder = start.recorder(operators=20000)
    first = recorder.capture()
    whole = profd.run("export", first["capture_id"], "--output", "-", timeout=60).stdout
    descriptors = []
    fake.ask(profd.socket, "open", descriptors, capture_id=first["capture_id"])
    # A client that is stopped in the middle of its export.
    reader, writer = os.pipe()
    export = Patient([str(profd.client), "export", first["capture_id"], "--output", "-"], env=profd.env,
                     stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    head = os.read(reader, 1000)
    second = recorder.capture()["capture_id"]
    settle(profd, [second])
    assert not profd.file(first["capture_id"]).exists()
    with os.fdopen(reader, "rb") as rest:
        text = head + rest.read()
    assert export.wait(60) == 0
    assert json.loads(text)["traceEvents"] == json.loads(whole)["traceEvents"]
    copy = profd.folder / "copy.db"
    with os.fdopen(descriptors[0], "rb") as source:
        copy.write_bytes(source.read())
    assert copy.stat().st_size == first["bytes"]
    with sqlite3.connect(copy) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT count(*) FROM operators").fetchone() == (20000,)


def test_what_runs_is_not_touched(start):
    profd = start(store_captures=1, store_age="1s")
    agent = fake.Agent(profd.socket)
    recorder = start.recorder()
    with fake.connect(profd.socket, 60) as connection:
        fake.send(connection, "trigger", **fake.trigger_fields())
        agent.arm()
        begun = agent.begin()
        agent.chunk(0, fake.step(1, begun, 10**6), 1)
        agent.phase(fake.RECORD, 1, 1)
        for _ in range(3):
            recorder.capture()
        time.sleep(1.2)
        rows = wait_for(lambda: rows if len(rows := profd.json("captures")["captures"]) <= 2 else None, what="the others to go")
        assert "recording" in [row["status"] for row in rows]
        agent.phase(fake.END, 1, 1)
        agent.done(steps=1)
        captured = [row for row in fake.rows(connection) if row.get("row") == "captured"][0]
        assert captured["events"] == 1
        assert profd.file(captured["capture_id"]).exists()
    agent.close()


def test_deleted_lines_are_bounded(start):
    profd = start(store_captures=1, deleted_lines=100)
    recorder = start.recorder(operators=1)
    made = [recorder.capture()["capture_id"] for _ in range(3)]
    settle(profd, made[2:])
    recorder.close()
    profd.stop_daemon()
    with sqlite3.connect(profd.store / "catalogue.db") as db:
        db.executemany("INSERT INTO deleted (id, uid, pid, status, started, finished, bytes, at, reason) VALUES "
                       "(?, ?, 1, 'complete', 1, 2, 3, ?, 'old')", [(10**6 + i, os.getuid(), i + 1) for i in range(150)])
    start(store_captures=1, deleted_lines=100)
    wait_for(lambda: len(deleted(profd)) == 100, 10, "the bound")
    assert [row["capture_id"] for row in deleted(profd)][:2] == [made[1], made[0]]
    # The default of a terminal, a filter, and one that matches nothing.
    assert len(deleted(profd, "--limit", "7")) == 7
    assert {row["name"] for row in deleted(profd, "--name", "rec*")} == {"recorder"}
    assert profd.run("captures", "--deleted", "--name", "nobody", check=False).returncode == 3


@needs_root
def test_users_have_budgets_of_their_own(shared):
    profd = shared(store_captures_user=3)
    alice, bob = shared.recorder(uid=ALICE), shared.recorder(uid=BOB)
    few = [bob.capture()["capture_id"] for _ in range(2)]
    many = [alice.capture()["capture_id"] for _ in range(6)]
    settle(profd, few + many[3:])
    # Each sees their own ones, root all.
    seen = json.loads(as_user(profd, ALICE, "captures", "--deleted", "--format", "json").stdout)["deleted"]
    assert [row["capture_id"] for row in seen] == many[2::-1]
    assert json.loads(as_user(profd, BOB, "captures", "--deleted", "--format", "json").stdout)["deleted"] == []
    assert len(deleted(profd)) == 3
    # Whose it was is told to its owner, not to others; nor may others pin.
    assert "any more" in as_user(profd, ALICE, "show", many[0]).stderr
    told = as_user(profd, BOB, "show", many[0])
    assert told.returncode == 3 and "any more" not in told.stderr and "there is no capture" in told.stderr
    for verb in ("pin", "unpin", "rm"):
        refused = as_user(profd, BOB, verb, many[5])
        assert refused.returncode == 6 and "belongs to another user" in refused.stderr
    assert as_user(profd, ALICE, "pin", *many[3:]).returncode == 0
    # Their pins stop the one who set them, not the other.
    refused = as_user(profd, ALICE, "trigger", "--pid", str(alice.pid))
    assert refused.returncode == 1 and "profd unpin" in refused.stderr
    assert bob.capture()["status"] == "complete"


@needs_root
def test_a_flood_costs_the_flooder(shared):
    """The budget of all is exceeded by one user: the captures that go are theirs, however old the others' are."""
    profd = shared(store_captures=6)
    alice, bob = shared.recorder(uid=ALICE), shared.recorder(uid=BOB)
    few = [bob.capture()["capture_id"] for _ in range(3)]
    many = [alice.capture()["capture_id"] for _ in range(10)]
    settle(profd, few + many[7:])
    assert {row["uid"] for row in deleted(profd)} == {ALICE}
    assert "its user had most" in deleted(profd)[0]["reason"]


def small_store(profd, size, **settings):
    """A daemon whose store is a file system of its own that it alone sees; profd.inside is the way there."""
    profd.store.mkdir(exist_ok=True)
    daemon = os.environ.get("PROFD_DAEMON", str(BUILD / "bin" / "profd-daemon"))
    with open(profd.daemon_log, "ab") as log:
        profd.daemon = Patient(["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o mode=0700,size={size} none "$1" && shift && exec "$@"',
                                "sh", str(profd.store), daemon, "--user", "--dir", str(profd.store), *configure(profd, **settings)],
                               env=profd.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    wait_for(lambda: profd.run("status", check=False).returncode == 0, 10, "the daemon")
    profd.inside = pathlib.Path(f"/proc/{profd.daemon.pid}/root{profd.store}")


@needs_mount
def test_floor(start):
    """Captures go for the floor; when none are left a trigger is refused, and served again once there is room."""
    profd = start.profd
    small_store(profd, "32m", free_space="8M", free_space_percent=50)
    recorder = start.recorder()
    made = [recorder.capture()["capture_id"] for _ in range(3)]
    profd.run("pin", made[0])
    room = lambda: os.statvfs(profd.inside).f_bavail * os.statvfs(profd.inside).f_frsize
    (profd.inside / "filler").write_bytes(b"x" * (room() - (8 << 20) + 4096))
    # Somebody else filled the disk: the next trigger makes room first, and no more than is needed.
    last = recorder.capture()["capture_id"]
    wait_for(lambda: ids(profd) in ([made[0], last], [made[0], made[2], last]), what="room to be made")
    assert "free_space" in deleted(profd)[0]["reason"]
    with open(profd.inside / "filler2", "wb") as filler:
        filler.write(b"x" * (room() - (2 << 20)))
    refused = profd.run("trigger", "--pid", recorder.pid, check=False)
    assert refused.returncode == 1 and "are to stay free (free_space of profd.conf)" in refused.stderr, refused.stderr
    assert "profd rm" in refused.stderr
    rows = recorder.rows()
    assert rows[0]["outcome"] == "no_space" and rows[-1]["error"]["code"] == "no_space"
    assert ids(profd) == [made[0]]
    (profd.inside / "filler2").unlink()
    (profd.inside / "filler").unlink()
    assert recorder.capture()["status"] == "complete"


@needs_mount
def test_floor_in_mid_capture(start):
    """What is under way ends with what it has when the disk falls below the floor; nothing is lost by it."""
    profd = start.profd
    small_store(profd, "64m", free_space="24M", free_space_percent=50)
    agent = fake.Agent(profd.socket)
    with fake.connect(profd.socket, 60) as connection:
        fake.send(connection, "trigger", **fake.trigger_fields())
        agent.arm()
        begun = agent.begin(4)
        per, sent = agent.chunk_bytes // 80, 0
        (profd.inside / "filler").write_bytes(b"x" * (36 << 20))
        agent.connection.setblocking(False)
        for sequence in range(1, 2000):
            index = sequence % 4
            wait_for(lambda: agent.state(index) == fake.FREE, 10, "a free chunk")
            agent.chunk(index, b"".join(fake.operator(1, begun + i, 1, 1, sent + i + 1, 0, 0) for i in range(per)), sequence)
            sent += per
            try:
                if agent.receive(0)[0] == fake.CANCEL:
                    break
            except BlockingIOError:
                pass
        else:
            pytest.fail("it was not ended")
        agent.phase(fake.END, 1)
        agent.done(reason=7, steps=0)
        captured = [row for row in fake.rows(connection) if row.get("row") == "captured"][0]
    assert captured["status"] == "incomplete" and captured["reason_code"] == "daemon"
    assert "above the floor" in captured["reason"] and "24.0 MiB are to stay free" in captured["reason"]
    assert captured["events"] == sent and captured["lost"] == 0
    # What was going on was not a full disk: summary and all are there.
    summary = fake.ask(profd.socket, "summary", capture_id=captured["capture_id"])[0]
    assert summary["operators"][0]["calls"] == sent
    agent.close()


def test_sighup_takes_over_budgets(start):
    """Where a reload is built in (a daemon without one would die of the signal)."""
    profd = start()
    recorder = start.recorder()
    made = [recorder.capture()["capture_id"] for _ in range(4)]
    if int(pathlib.Path(f"/proc/{profd.daemon.pid}/status").read_text().split("SigCgt:")[1].split()[0], 16) & 1 == 0:
        pytest.skip("this daemon does not reload")
    configure(profd, store_captures=2)
    profd.daemon.send_signal(signal.SIGHUP)
    settle(profd, made[2:])
