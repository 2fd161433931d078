"""A capture file is a file that one can be sent: whoever made it must not be able to harm who reads it. The real client,
with files that profd did not make, or that were changed after it made them."""

import os
import resource
import sqlite3
import struct
import subprocess

import pytest

from cli import *  # noqa: F401,F403 (fixtures)
from conftest import BUILD, choices
from make_capture import Capture, gpu_capture

PROFD = BUILD / "bin" / "profd"
FORMATS = choices("export", "format")
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "


@pytest.fixture
def capture(tmp_path):
    gpu_capture(tmp_path / "capture.db")
    # So that its stacks are read, too.
    with sqlite3.connect(tmp_path / "capture.db") as db:
        db.execute("INSERT OR REPLACE INTO collectors VALUES ('python', 1, 1, NULL, ''), ('allocations', 1, 1, NULL, '')")
    db.close()
    return tmp_path / "capture.db"


def read(capture, *words, seconds=60):
    """The client with this file; the output of an export is thrown away. It may use two GB, and files of 200 MB in all."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (200 << 20, 200 << 20))
        resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
    files = [str(capture)] * (2 if words[0] == "diff" else 1)
    return subprocess.run([str(PROFD), words[0], *files, *words[1:]], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=seconds, preexec_fn=limit)


EVERY = [("show",), ("diff",), ("show", "--group-by-shapes"), ("show", "--format", "json"),
         *(("export", "--format", f, "--output", "-") for f in FORMATS), ("report", "--output", "-")]


def refused(capture, *sentences):
    for words in EVERY:
        done = read(capture, *words)
        assert done.returncode == 1, (words, done.returncode, done.stderr)
        assert any(s in done.stderr for s in sentences), (words, done.stderr)


def changed(capture, *statements):
    with sqlite3.connect(capture) as db:
        for statement in statements:
            db.execute(statement)
    db.close()
    return capture


def rewritten(capture, where, text):
    """Puts a statement into the schema as it is."""
    with sqlite3.connect(capture) as db:
        db.execute("PRAGMA writable_schema = ON")
        assert db.execute(f"UPDATE sqlite_schema SET {where}", [text] if text else []).rowcount == 1
    db.close()
    return capture


def test_what_profd_makes_is_read(capture):
    for words in EVERY:
        assert read(capture, *words).returncode == 0, words


@pytest.mark.parametrize("table", ["steps", "operators", "strings", "operator_totals", "kernel_records", "losses", "meta",
                                   "threads", "collectors"])
def test_a_view_in_the_place_of_a_table(capture, table):
    with sqlite3.connect(capture) as db:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    endless = ENDLESS + ", ".join(f'i AS "{c}"' for c in columns) + " FROM n"
    refused(changed(capture, f"DROP TABLE {table}", f"CREATE VIEW {table} AS {endless}"), f'the view "{table}" in the file is none that profd makes')


@pytest.mark.parametrize("what, statements", [
    ('the view "mine"', ["CREATE VIEW mine AS SELECT 1"]),
    ('the view "kernels"', ["DROP VIEW kernels", "CREATE VIEW kernels AS " + ENDLESS + "i AS id, i AS step, i AS name FROM n"]),
    ('the view "devices"', ["DROP VIEW devices", "CREATE VIEW devices AS " + ENDLESS + "i AS id, i AS name FROM n"]),
    ('the trigger "t"', ["CREATE TRIGGER t AFTER INSERT ON steps BEGIN DELETE FROM steps; END"]),
    ('the index "i"', ["CREATE INDEX i ON steps (abs(duration))"]),
    ('the table "more"', ["CREATE TABLE more (x)"]),
    ('the table "s"', ["CREATE VIRTUAL TABLE s USING fts5(x)"]),
    ('the table "steps"', ["ALTER TABLE steps ADD COLUMN x INTEGER GENERATED ALWAYS AS (duration * 2) VIRTUAL"]),
    ('the table "launches"', ["DROP TABLE launches", "CREATE TABLE launches (correlation, api, step, thread, range, start, "
                            "duration, device_time, operations)"]),
])
def test_what_profd_does_not_make(capture, what, statements):
    if "fts5" in statements[0]:
        # Its own tables may come first in the schema.
        what = "none that profd makes"
    refused(changed(capture, *statements), what)


@pytest.mark.parametrize("statement", ["CREATE VIEW strings AS " + ENDLESS + "i AS id, 'x' AS text FROM n",
                                       "CREATE TABLE strings (id INTEGER PRIMARY KEY, x, text TEXT AS (printf('%99999d', x)))"])
def test_an_older_file(capture, statement):
    """Older releases made other tables, but none that computes anything."""
    changed(capture, "PRAGMA user_version = 1", "UPDATE meta SET value = 1 WHERE key = 'schema'", "DROP TABLE strings", statement)
    refused(capture, '"strings" in the file is none that profd makes')


def test_a_schema_that_is_not_what_it_says(capture):
    """The statement is ours, the table another: SQLite goes by the statement, and so do we."""
    refused(rewritten(capture, "sql = ? WHERE name = 'marks'", "CREATE TABLE marks AS SELECT 1"), "marks")


def pages(capture):
    data = bytearray(capture.read_bytes())
    return data, struct.unpack(">H", data[16:18])[0]


def root(capture, table):
    with sqlite3.connect(capture) as db:
        return db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", [table]).fetchone()[0]


@pytest.mark.parametrize("table", ["operators", "strings", "kernel_records", "sqlite_schema", "threads", "ranges"])
def test_a_tree_whose_branches_meet(tmp_path, table):
    """Each page of the tree has its child two hundred times over: a scan of a few pages would never end."""
    capture = tmp_path / "meet.db"
    with Capture(capture) as c:
        for word in ("torch", "cupti", "nvtx", "steps"):
            c.collector(word)
        for i in range(2000):
            c.string("n%d" % i)
            c.add("operators", start=i * 10, duration=5, self=5, id=i + 1, name=8 + i, thread=1, depth=0, scope=0, sequence=-1)
            c.add("ranges", start=i * 10, duration=5, self=5, id=9000 + i, name=8 + i, thread=1, depth=0, source=1)
            c.kernel("k", i * 10, 5, i + 1)
            c.add("threads", thread=i, name=8)
    number = 1 if table == "sqlite_schema" else root(capture, table)
    data, size = pages(capture)
    levels, cells, count = 8, 200, len(data) // size
    chain = [number] + [count + 1 + i for i in range(levels)]
    # What the root was is the last level; of the schema's, in which the file's own head stands, an empty leaf.
    bottom = data[(number - 1) * size:number * size]
    if number == 1:
        bottom = bytearray(b"\x0d" + bytes(size - 1))
    data += bytearray(size * levels)
    for page, child in zip(chain, chain[1:]):
        start = (page - 1) * size
        head = start + (100 if page == 1 else 0)
        data[head:head + 12] = struct.pack(">BHHHBI", 5, 0, cells, size - cells * 5, 0, child)
        for cell in range(cells):
            offset = size - (cell + 1) * 5
            data[head + 12 + 2 * cell:head + 14 + 2 * cell] = struct.pack(">H", offset)
            data[start + offset:start + offset + 5] = struct.pack(">IB", child, 127)
    end = chain[-1]
    data[(end - 1) * size:end * size] = bottom
    data[28:32] = struct.pack(">I", count + levels)
    capture.write_bytes(data)
    for words in (("show",), ("export", "--output", "-")):
        done = read(capture, *words)
        # A page of nonsense may also be found to be what it is.
        assert done.returncode in (0, 1), (words, done.stderr)
        assert done.returncode == 0 or "capture file" in done.stderr, (words, done.stderr)


def test_one_id_for_all(tmp_path):
    """Rows that all join with all: refused when it has cost too much."""
    capture = tmp_path / "one.db"
    with Capture(capture) as c:
        c.collector("torch")
        c.collector("shapes")
        c.db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO operators (flags, "
                     "start, duration, self, id, parent, name, thread, depth, scope, sequence) SELECT 0, i, 1, 1, 7, 7, 8, 1, 0, "
                     "0, -1 FROM n")
    done = read(capture, "show", "--group-by-shapes")
    assert done.returncode == 1 and "takes more work than one of its size can" in done.stderr, done.stderr


@pytest.mark.parametrize("page_size", [1, 0, 3, 511, 513, 32769, 65535])
def test_page_sizes(capture, page_size):
    data, _ = pages(capture)
    data[16:18] = struct.pack(">H", page_size)
    capture.write_bytes(data)
    refused(capture, "this is not a capture file", "the capture file cannot be read", "cannot open")


@pytest.mark.parametrize("bytes_kept", [0, 1, 99, 100, 4096, 8192, 20000])
def test_a_file_that_was_cut(capture, bytes_kept):
    os.truncate(capture, bytes_kept)
    for words in EVERY:
        done = read(capture, *words)
        assert done.returncode == 1 and done.stderr.startswith("profd: "), (words, done.returncode, done.stderr)


def test_a_file_that_says_that_it_is_large(capture):
    """Nothing of what is not written takes memory, nor time."""
    os.truncate(capture, 1 << 42)
    for words in EVERY:
        assert read(capture, *words).returncode in (0, 1), words


def kinds(folder):
    os.mkfifo(folder / "fifo.db")
    (folder / "folder.db").mkdir()
    (folder / "device.db").symlink_to("/dev/zero")
    (folder / "terminal.db").symlink_to("/dev/ptmx")
    (folder / "null.db").symlink_to("/dev/null")
    return {"fifo.db": "a pipe", "folder.db": "a folder", "device.db": "a device", "terminal.db": "a device",
            "null.db": "a device"}


def test_what_is_no_file(tmp_path):
    for name, word in kinds(tmp_path).items():
        for words in EVERY:
            done = read(tmp_path / name, *words, seconds=10)
            assert done.returncode == 1 and f"not a capture file of profd but {word}" in done.stderr, (name, words, done.stderr)


def test_rows_out_of_their_order(tmp_path):
    """The third row says that it is the fifth of a table that begins with the millionth."""
    capture = tmp_path / "order.db"
    with Capture(capture) as c:
        c.collector("torch")
        for i in range(4):
            c.add("operators", start=i * 10, duration=5, self=5, id=i + 1, name=c.string("n"), thread=1, depth=0, scope=0, sequence=-1)
        c.db.execute("UPDATE operators SET rowid = rowid + 999999")
    data, size = pages(capture)
    start = (root(capture, "operators") - 1) * size
    data[start:start + size] = data[start:start + size].replace(b"\xbd\x84\x42", b"\x80\x80\x05")
    capture.write_bytes(data)
    for words in EVERY:
        done = read(capture, *words)
        assert done.returncode in (0, 1) or (words, done.returncode) == (("diff",), 3), (words, done)  # it has no step
        # What goes by the rows' numbers says so; the others do not need them.
        assert words[0] in ("show", "diff", "report") or {"sqlite", "folded", "memory_viz"} & set(words) or "the capture file cannot be read" in done.stderr, (words, done)
