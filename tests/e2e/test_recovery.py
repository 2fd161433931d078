"""What a daemon finds at its start, whatever ended the last one: half-written files, rows without files, files without rows,
damage, older and newer schemas. Nothing that may be somebody's data is deleted without a word."""
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import tarfile

import pytest

import fake_agent as fake
from conftest import BUILD, ROOT, wait_for
from recorder import Recorder

DAEMON = os.environ.get("PROFD_DAEMON", str(BUILD / "bin" / "profd-daemon"))


@pytest.fixture
def stored(profd):
    """Three captures in the store of a daemon that has ended; stored.made are their facts, oldest first."""
    recorder = Recorder(profd, operators=500, name="job-of-a-test", job="77")
    profd.made = [recorder.capture(label=f"number {i}") for i in range(3)]
    recorder.close()
    assert profd.stop_daemon() == 0
    return profd


def numbers(profd):
    return {c["capture_id"]: c for c in profd.json("captures")["captures"]}


def lost(profd):
    return sorted(p.name for p in (profd.store / "lost").iterdir()) if (profd.store / "lost").exists() else []


def log_of(profd):
    return profd.daemon_log.read_text()


def catalogue(profd):
    return sqlite3.connect(profd.store / "catalogue.db")


def same(one, other):
    """The same capture, as far as its own file knows; its end is the file's time then. A user's name may come later than the row."""
    drop = ("finished_at", "daemon", "row", "pinned", "user")
    one, other = ({k: v for k, v in row.items() if k not in drop} for row in (one, other))
    assert one == other


def test_file_without_row(stored):
    first, second, third = stored.made
    with catalogue(stored) as db:
        db.execute("DELETE FROM captures WHERE id = ?", (int(second["capture_id"][1:]),))
    stored.start_daemon()
    found = numbers(stored)
    assert list(found) == [third["capture_id"], second["capture_id"], first["capture_id"]]
    same(found[second["capture_id"]], second)
    assert found[second["capture_id"]]["label"] == "number 1" and found[second["capture_id"]]["job"] == "77"
    assert stored.show(second["capture_id"])["capture"]["events"] == 501
    assert "1 captures had a file and no row" in log_of(stored) and lost(stored) == []


def test_row_without_file(stored):
    first, second, third = stored.made
    stored.file(second["capture_id"]).unlink()
    stored.start_daemon()
    assert list(numbers(stored)) == [third["capture_id"], first["capture_id"]]
    gone = stored.json("captures", "--deleted")["deleted"]
    assert [row["capture_id"] for row in gone] == [second["capture_id"]]
    assert gone[0]["by_uid"] is None and "not there any more when the daemon started" in gone[0]["reason"]
    assert stored.json("status")["daemons"][0]["captures"] == 2
    # Back again, it is a capture again.
    stored.stop_daemon()
    shutil.copy(stored.file(first["capture_id"]), stored.file(second["capture_id"]))
    stored.start_daemon()
    assert list(numbers(stored)) == [third["capture_id"], first["capture_id"]]
    assert lost(stored) == [f"{second['capture_id'][1:]}.db"] and f"it holds capture {first['capture_id']}" in log_of(stored)


def test_damaged_files(stored):
    """Cut off, overwritten, emptied: moved aside and said, whether there is a row or not."""
    cut, overwritten, bare = (stored.file(c["capture_id"]) for c in stored.made)
    with open(cut, "r+b") as file:
        file.truncate(100000)
    with open(overwritten, "r+b") as file:
        file.write(b"\0" * 4096)
    bare.write_bytes(b"")
    with catalogue(stored) as db:
        db.execute("DELETE FROM captures WHERE id = ?", (int(bare.stem),))
    stored.start_daemon()
    found = numbers(stored)
    assert [c["status"] for c in found.values()] == ["failed", "failed"]
    reason = found[stored.made[0]["capture_id"]]["reason"]
    assert "its file is damaged" in reason and "bytes are missing" in reason and str(stored.store / "lost") in reason
    assert "not a SQLite database" in found[stored.made[1]["capture_id"]]["reason"]
    assert lost(stored) == sorted(p.name for p in (cut, overwritten, bare))
    assert (stored.store / "lost" / cut.name).stat().st_size == 100000
    assert list((stored.store / "captures").iterdir()) == []
    shown = stored.run("export", stored.made[0]["capture_id"], check=False)
    assert shown.returncode == 1 and "its file is damaged" in shown.stderr
    # The numbers of the damaged ones are not given again, and a second file of the same name finds a place.
    recorder = Recorder(stored)
    assert int(recorder.capture()["capture_id"][1:]) > int(bare.stem)
    recorder.close()
    stored.stop_daemon()
    bare.write_bytes(b"not a capture")
    stored.start_daemon()
    assert f"{bare.name}.1" in lost(stored)


def test_leftovers(stored):
    """What is temporary goes; what is strange is left alone and named."""
    captures = stored.store / "captures"
    for name in ("90.reserve", "etilqs_0123456789abcdef", "sort-17-0x55.temporary", "91.partial-journal"):
        (captures / name).write_bytes(b"x" * 100)
    (captures / "notes.txt").write_text("mine")
    (captures / "92.db").symlink_to("/etc/passwd")
    (captures / "93.db").mkdir()
    (captures / "1.db-wal").write_bytes(b"x")
    stored.start_daemon()
    left = sorted(p.name for p in captures.iterdir())
    assert left == sorted([f"{c['capture_id'][1:]}.db" for c in stored.made] + ["92.db", "93.db", "notes.txt"])
    for name in ("notes.txt", "92.db", "93.db"):
        assert f"{name} is no file of profd's: it is left alone" in log_of(stored)
    assert lost(stored) == ["1.db-wal"] and len(numbers(stored)) == 3
    refused = stored.run("show", "u92", check=False)
    assert refused.returncode == 3 and "root:" not in refused.stdout


def test_half_written_files(stored):
    """Nothing recorded yet: gone, and said. Damaged: put aside, and the row says so. Of a newer release: left alone."""
    captures = stored.store / "captures"
    empty, damaged, newer = (captures / f"{n}.partial" for n in (70, 71, 72))
    empty.write_bytes(b"")
    damaged.write_bytes(b"SQLite format 3\0" + random.Random(1).randbytes(20000))
    (captures / "71.partial-journal").write_bytes(b"\0" * 512)
    with sqlite3.connect(newer) as db:
        db.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value)")
        db.execute("PRAGMA user_version=999")
    with catalogue(stored) as db:
        for number in (70, 71, 72):
            db.execute("INSERT INTO captures (id, trigger, cycle, pid, start_time, uid, status, started, steps_wanted) VALUES "
                       "(?, 1, 0, 1, 1, ?, 'recording', 1, 3)", (number, os.getuid()))
    stored.start_daemon()
    found = numbers(stored)
    assert {i: found[i]["status"] for i in ("u70", "u71", "u72")} == dict.fromkeys(("u70", "u71", "u72"), "failed")
    assert "before anything of it was stored" in found["u70"]["reason"] and not empty.exists()
    assert "half-written file is damaged" in found["u71"]["reason"] and "lost/71.partial" in found["u71"]["reason"]
    assert lost(stored) == ["71.partial", "71.partial-journal"]
    assert "newer release" in found["u72"]["reason"] and newer.exists() and "left alone" in found["u72"]["reason"]


def test_died_before_its_row(stored):
    """The file is finished, the row was not: it is what the file says."""
    second = stored.made[1]
    with catalogue(stored) as db:
        db.execute("UPDATE captures SET status = 'finishing', finished = NULL, events = 0, bytes = 0, step_ns = NULL, "
                   "steps_recorded = 0 WHERE id = ?", (int(second["capture_id"][1:]),))
    stored.start_daemon()
    same(numbers(stored)[second["capture_id"]], second)


@pytest.mark.parametrize("damage", ["not a database", "torn", "empty", "in the middle"])
def test_damaged_catalogue(stored, damage):
    """Moved aside and made anew from the captures' files: no capture is lost, and no number is given twice."""
    path = stored.store / "catalogue.db"
    with catalogue(stored) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if damage == "not a database":
        path.write_bytes(b"# catalogue\n" * 1000)
    elif damage == "torn":
        with open(path, "r+b") as file:
            file.truncate(path.stat().st_size // 2 + 100)
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        bytes_of = random.Random(1)
        with open(path, "r+b") as file:
            for page in range(1, path.stat().st_size // 4096):
                file.seek(page * 4096)
                file.write(bytes_of.randbytes(64))
    stored.start_daemon()
    found = numbers(stored)
    for capture in stored.made:
        same(found[capture["capture_id"]], capture)
    if damage != "empty":
        assert "was damaged" in log_of(stored) and "made from the captures' files" in log_of(stored)
        assert len([name for name in lost(stored) if name.startswith("catalogue-")]) >= 1
    recorder = Recorder(stored)
    new = recorder.capture()
    recorder.close()
    assert new["status"] == "complete" and new["capture_id"] not in found
    assert int(new["trigger_id"].lstrip("ut")) > max(int(c["trigger_id"].lstrip("ut")) for c in stored.made)


def test_newer_catalogue_is_refused(stored):
    with catalogue(stored) as db:
        db.execute("PRAGMA user_version=999")
    started = subprocess.run([DAEMON, "--user", "--dir", str(stored.store)], env=stored.env, capture_output=True, text=True, timeout=20)
    assert started.returncode == 1 and "newer release" in started.stderr and "use that release" in started.stderr
    assert all(stored.file(c["capture_id"]).exists() for c in stored.made)
    # So is a capture of a newer release, alone.
    with catalogue(stored) as db:
        db.execute("PRAGMA user_version=2")
        db.execute("DELETE FROM captures WHERE id = 2")
    with sqlite3.connect(stored.file("u2")) as db:
        db.execute("PRAGMA user_version=999")
    stored.start_daemon()
    assert sorted(numbers(stored)) == ["u1", "u3"] and stored.file("u2").exists()
    assert "a newer release of profd wrote it (schema 999" in log_of(stored)


@pytest.mark.skipif(os.geteuid() != 0, reason="the captures in it are root's")
def test_store_of_the_first_schemas(empty_profd):
    """A store as the release with capture and catalogue schemas of 1 left it when it was killed: u1 is finished, u2 was deleted, u3 was
    being recorded."""
    profd = empty_profd
    with tarfile.open(ROOT / "tests" / "data" / "store-schema-1.tar.gz") as archive:
        archive.extractall(profd.store)
    with sqlite3.connect(f"file:{profd.store}/captures/3.partial?mode=ro", uri=True) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        ranges = db.execute("SELECT count(*) FROM ranges").fetchone()[0]
        steps = db.execute("SELECT count(*) FROM steps").fetchone()[0]
    assert ranges > 0 and steps > 0
    profd.start_daemon()
    wait_for(lambda: profd.json("captures")["captures"][0]["status"] == "incomplete", 20, "the end of what was half-written")
    found = numbers(profd)
    assert list(found) == ["u3", "u1"] and found["u1"]["status"] == "complete" and found["u1"]["label"] == "first"
    assert found["u3"]["steps_recorded"] == steps and "restarted" in found["u3"]["reason"]
    shown = profd.show("u3")
    assert sum(r["calls"] for r in shown["ranges"]) == ranges
    assert {c["collector"]: c["on"] for c in shown["collectors"]}.get("cupti") is False
    assert profd.show("u1")["capture"]["steps_recorded"] == 3
    with sqlite3.connect(f"file:{profd.store}/catalogue.db?mode=ro", uri=True) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        assert db.execute("SELECT count(*) FROM audit").fetchone()[0] > 0
    assert "of schema 1 is now of schema 2" in log_of(profd)
    # And it is used on.
    profd.run("pin", "u1")
    recorder = Recorder(profd)
    assert recorder.capture()["capture_id"] == "u4"
    recorder.close()


def test_killed_at_any_moment(empty_profd):
    """SIGKILL in the middle of triggers, ends and deletions: after each the store is whole, and nothing that was answered is lost."""
    profd = empty_profd
    settings = profd.folder / "profd.conf"
    settings.write_text("free_space = 0\nstore_captures = 4\n")
    answered = set()
    for round_ in range(6):
        profd.start_daemon("--config", str(settings))
        listed = numbers(profd)
        gone = {row["capture_id"] for row in profd.json("captures", "--deleted")["deleted"]}
        assert answered <= set(listed) | gone, (answered, listed, gone)
        for capture_id, row in listed.items():
            if row["status"] in ("complete", "incomplete"):
                assert profd.file(capture_id).exists()
        for path in (profd.store / "captures").glob("*.db"):
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
                assert db.execute("PRAGMA quick_check").fetchone() == ("ok",)
        recorder = Recorder(profd, operators=2000)
        for _ in range(3):
            answered.add(recorder.capture()["capture_id"])
        with fake.connect(profd.socket) as connection:
            fake.send(connection, "trigger", **fake.trigger_fields(targets={"pids": [recorder.pid]}))
            # A little later each round: while it is asked, recorded, derived, stored.
            connection.settimeout(0.002 + 0.012 * round_)
            try:
                list(fake.rows(connection))
            except TimeoutError:
                pass
        profd.stop_daemon(signal.SIGKILL)
        recorder.close()
