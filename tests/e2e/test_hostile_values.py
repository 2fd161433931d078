"""Figures of a capture file that no capture can have: the client is built a second time with every overflow, shift and cast that
C does not define as a trap, and reads real captures whose values were changed."""

import random
import shutil
import sqlite3
import subprocess

import pytest

from conftest import BUILD, choices
from make_capture import Capture, gpu_capture, training_loop

CHECKED = BUILD / "tests" / "profd_checked"
EXTREMES = [-2**63, 2**63 - 1, -1, 2**47, 2**62 + 1, 2**32, 1e308, "x", b"\xff\0\xff"]
USES = [("show", "--format", "json"), ("show", "--group-by-shapes"), ("show", "--step", "1"),
        *(("export", "--format", f, "--output", "-") for f in choices("export", "format")), ("report", "--output", "-")]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Two captures with something in every table."""
    folder = tmp_path_factory.mktemp("plain")
    gpu_capture(folder / "gpu.db")
    training_loop(folder / "host.db", 300, shapes=True)
    for name in ("gpu", "host"):
        with sqlite3.connect(folder / f"{name}.db") as db:
            strings = db.execute("SELECT max(id) FROM strings").fetchone()[0]
            for word in ("torch", "cupti", "nvtx", "steps", "shapes", "memory", "python"):
                db.execute("INSERT OR REPLACE INTO collectors VALUES (?, 1, 1, 1, '')", [word])
            for table, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
                if table not in ("meta", "strings", "collectors") and not db.execute(f"SELECT 1 FROM {table}").fetchone():
                    for i in (1, 2):
                        values = [strings if c == "name" else "[]" if table == "inputs" and c != "id" else i for c in columns]
                        db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", values)
    return folder


def tables(capture):
    with sqlite3.connect(capture) as db:
        for table, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            yield table, [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


def use(capture, what, uses=USES):
    for words in uses:
        done = subprocess.run([str(CHECKED), words[0], str(capture), *words[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, timeout=60, text=True)
        assert done.returncode in (0, 1, 3), (what, words, done.returncode, done.stderr)
        assert done.returncode == 0 or done.stderr.startswith("profd: "), (what, words, done.stderr)


def change(db, table, column, value, where):
    try:
        db.execute(f'UPDATE {table} SET "{column}" = ? WHERE {where}', [value])
    except (sqlite3.IntegrityError, sqlite3.OperationalError):
        pass  # a key that is there already


def test_unchanged(plain):
    for name in ("gpu.db", "host.db"):
        use(plain / name, name)


@pytest.mark.parametrize("value", EXTREMES[:5])
@pytest.mark.parametrize("name", ["gpu.db", "host.db"])
def test_all_of_a_table(plain, tmp_path, name, value):
    """One value in all columns of a table, keys and names apart."""
    for table, columns in tables(plain / name):
        if table in ("meta", "strings", "inputs", "collectors", "losses"):
            continue
        capture = shutil.copy(plain / name, tmp_path / "changed.db")
        with sqlite3.connect(capture) as db:
            for column in columns:
                if column not in ("id", "step", "correlation", "range", "name", "thread"):
                    change(db, table, column, value, "1")
        use(capture, (table, value), (USES[0], USES[3]))


@pytest.mark.parametrize("seed", range(20))
def test_anywhere(plain, tmp_path, seed):
    """A few columns of each table at random, of one row or all."""
    draw = random.Random(seed)
    name = draw.choice(["gpu.db", "host.db"])
    capture = shutil.copy(plain / name, tmp_path / "changed.db")
    with sqlite3.connect(capture) as db:
        for table, columns in tables(plain / name):
            for column in draw.sample(columns, min(2, len(columns))) if draw.random() < 0.7 else ():
                if table == "meta":
                    keys = [row[0] for row in db.execute("SELECT key FROM meta WHERE key <> 'schema'")]
                    change(db, table, "value", draw.choice(EXTREMES), f"key = '{draw.choice(keys)}'")
                else:
                    change(db, table, column, draw.choice(EXTREMES), draw.choice(["1", "rowid % 2", "rowid = 1"])
                           if table != "step_devices" else "1")
    use(capture, seed)
