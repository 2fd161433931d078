"""Writes capture files without a job, an agent or a daemon: what reads captures is tested on what is in them.

The schema is expanded from proto/schema.def and proto/events.def, so it stands in one place. Use as a module:

    with Capture(path, rank=0) as c:
        name = c.string("aten::addmm")
        c.add("operators", start=0, duration=10, id=1, name=name, thread=4242, depth=0, scope=0, sequence=-1)

or as a program: make_capture.py OUT.db [--operators N] [--shapes]  writes a training loop of about N operators.
"""
import argparse
import pathlib
import random
import re
import sqlite3

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
STRING = r'"((?:[^"\\]|\\.)*)"'


def _plain(path):
    """Text of a .def file without its comments."""
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)


def capture_schema():
    """(user_version, SQL statements of a capture file, {table: [columns of an event kind]})"""
    events = _plain(PROTO / "events.def")
    tables = {}
    for name, table in re.findall(r'^EVENT\(\d+, (\w+), \w+, "(\w+)"', events, re.M):
        columns = ["step", "flags"]
        for role, column in re.findall(r'^FIELD\(%s, \w+, \d+, \w+, \w+, (\w+), "(\w*)"' % name, events, re.M):
            if role != "SKIP":
                columns.append(column)
        tables[table] = columns
    statements = []
    for table, columns in tables.items():
        rest = ", ".join('"%s" INTEGER' % c for c in columns[2:])
        statements.append("CREATE TABLE %s (step INTEGER, flags INTEGER NOT NULL, %s)" % (table, rest))
    schema = _plain(PROTO / "schema.def")
    for body in re.findall(r"^CAPTURE_SQL\((.*?)\)$", schema, re.M | re.S):
        sql = "".join(re.findall(STRING, body))
        if sql:
            statements.append(sql.replace('\\"', '"'))
    version = int(re.search(r"CAPTURE_SCHEMA_VERSION (\d+)", (PROTO / "version.h").read_text()).group(1))
    return version, statements, tables


class Capture:
    """One capture file in the making. Keyword arguments are entries of `meta` over the usual ones; None: no entry."""

    def __init__(self, path, **meta):
        pathlib.Path(path).unlink(missing_ok=True)
        self.db = sqlite3.connect(path, isolation_level=None)
        self.version, statements, self.tables = capture_schema()
        self.db.execute("PRAGMA journal_mode = OFF")
        self.db.execute("PRAGMA synchronous = OFF")
        self.db.execute("PRAGMA user_version = %d" % self.version)
        self.db.execute("BEGIN")
        for statement in statements:
            self.db.execute(statement)
        self.meta = {
            "schema": self.version, "profd_version": "0.1.0", "agent_version": "0.1.0", "capture_id": 7,
            "trigger_id": 3, "cycle": 0, "base_monotonic": 123456789000, "base_realtime": 1767225600123456789,
            "record_start": 0, "record_end": 0, "pid": 4242, "uid": 1000, "start_time": 99, "host": "node-1",
            "name": "python3", "command": "python3 train.py --lr 0.1", "status": "complete", "steps_wanted": 3,
            "step_source": 2, "other_thread_steps": 0, "late_steps": 0, "enable": 1000, "drain": 1000,
            "agent_cpu": 1000, "agent_bytes": 4096, "events": 0, "lost": 0, "derive": 1000,
        }
        self.meta.update(meta)
        self.strings = {}
        self.events = 0

    def string(self, text):
        """Id of an interned text; `bytes` go in as they are, valid UTF-8 or not."""
        if text not in self.strings:
            self.strings[text] = 8 + len(self.strings)
            value = "CAST(? AS TEXT)" if isinstance(text, bytes) else "?"
            self.db.execute("INSERT INTO strings VALUES (?, %s)" % value, (self.strings[text], text))
        return self.strings[text]

    def inputs(self, identity, dims, types, strides, concrete):
        self.db.execute("INSERT INTO inputs VALUES (?, ?, ?, ?, ?)", (identity, dims, types, strides, concrete))
        return identity

    def add(self, table, /, **columns):
        """One event; columns that are not named are NULL, flags 0."""
        columns.setdefault("flags", 0)
        self.db.execute(
            "INSERT INTO %s (%s) VALUES (%s)"
            % (table, ", ".join('"%s"' % c for c in columns), ", ".join("?" * len(columns))),
            tuple(columns.values()),
        )
        self.events += 1

    def add_operators(self, rows):
        """Many operators; a row has the columns of the table, in its order."""
        marks = ", ".join("?" * len(self.tables["operators"]))
        cursor = self.db.executemany("INSERT INTO operators VALUES (%s)" % marks, rows)
        self.events += cursor.rowcount

    def loss(self, kind, loss, count, is_loss=1, sentence="dropped"):
        self.db.execute("INSERT INTO losses VALUES (?, ?, ?, ?, ?)", (kind, loss, count, is_loss, sentence))

    def collector(self, word, wanted=1, ran=1, sentence=""):
        self.db.execute("INSERT INTO collectors VALUES (?, ?, ?, NULL, ?)", (word, wanted, ran, sentence))

    def close(self):
        if not self.meta.get("events"):
            self.meta["events"] = self.events
        rows = [(k, v) for k, v in self.meta.items() if v is not None]
        self.db.executemany("INSERT INTO meta VALUES (?, ?)", rows)
        self.db.execute("DROP TABLE ingested")
        self.db.execute("COMMIT")
        self.db.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def training_loop(path, operators=1000, shapes=False, steps=3, **meta):
    """About `operators` operators in `steps` steps of a loop as torch writes them: forward and optimizer on the thread
    that steps, backward on the engine's thread, records in the order in which they close. Returns their number."""
    main, engine = 4242, 4250
    ops = ["aten::linear", "aten::addmm", "aten::relu", "aten::conv2d", "aten::convolution", "aten::batch_norm",
           "aten::native_batch_norm", "aten::empty", "aten::add_", "aten::mul", "aten::sum", "aten::copy_"]
    chooser = random.Random(1)
    with Capture(path, **meta) as c:
        c.collector("steps")
        c.collector("torch")
        c.collector("shapes", wanted=int(shapes), ran=int(shapes))
        c.add("threads", thread=main, name=c.string("python3"), torch_id=1, pthread=1)
        c.add("threads", thread=engine, name=c.string("pt_autograd_0"), torch_id=2, pthread=2)
        names = [c.string(n) for n in ops]
        nodes = [c.string(n[6:].title() + "Backward0") for n in ops]
        engines = [c.string("autograd::engine::evaluate_function: " + n[6:].title() + "Backward0") for n in ops]
        optimizer = c.string("Optimizer.step#SGD.step")
        inputs = None
        if shapes:
            inputs = c.inputs(1, "[[64, 3, 224, 224], [], [[2, 3]]]", '["float", "Scalar", "TensorList"]',
                              "[[150528, 50176, 224, 1], [], [[3, 1]]]", '["", "1", ""]')
        now, identity, sequence, rows, made = 1000, 0, 0, [], 0

        def operator(start, end, own, name, thread, depth, parent, seq=-1, forward=None, scope=0):
            nonlocal made
            made += 1
            rows.append((step, 0, start, end - start, own, identity, parent, name, thread, depth, scope, inputs,
                         seq, forward, None))

        layers = max(1, operators // steps // 6)
        for step in range(1, steps + 1):
            opened = now
            forward = []
            for _ in range(layers):  # two operators a layer
                kind = chooser.randrange(len(ops))
                sequence += 1
                identity += 2
                outer = identity
                inner_start, inner_end = now + 900, now + 900 + chooser.randrange(2000, 9000)
                identity += 1
                operator(inner_start, inner_end, inner_end - inner_start, names[kind], main, 1, outer, sequence)
                identity = outer
                operator(now, inner_end + 700, 1600, names[kind - 1], main, 0, None, sequence)
                identity += 1
                forward.append((sequence, kind))
                now = inner_end + 1200
            for seq, kind in reversed(forward):  # three a layer
                start, end = now, now + chooser.randrange(8000, 20000)
                identity += 3
                top = identity - 2
                for depth in (2, 1, 0):
                    identity = top + depth
                    node = depth == 1  # which alone has the number
                    operator(start + 300 * depth, end - 300 * depth, 600, (engines, nodes, names)[depth][kind], engine,
                             depth, top + depth - 1 if depth else None, seq if node else -1, 1 if node else None,
                             int(node))
                identity = top + 2
                now = end + 500
            start = now
            now += 100
            update = identity + 1
            identity += 1
            for _ in range(layers):  # one a layer
                identity += 1
                operator(now, now + 1500, 1500, names[8], main, 1, update)
                now += 1600
            c.add("ranges", step=step, start=start, duration=now - start, self=100 + 100 * layers, id=update,
                  name=optimizer, thread=main, depth=0, source=4)
            c.add("steps", step=step, start=opened, duration=now - opened, number=100 + step, thread=main, source=2,
                  collectors=7)
            if len(rows) > 20000:
                c.add_operators(rows)
                rows.clear()
        c.add_operators(rows)
        c.meta["record_start"], c.meta["record_end"] = 1000, now
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--operators", type=int, default=1000)
    parser.add_argument("--shapes", action="store_true")
    given = parser.parse_args()
    print(training_loop(given.path, given.operators, given.shapes), "operators")
