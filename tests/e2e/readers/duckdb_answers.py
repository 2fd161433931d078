"""Runs in a Python that has duckdb with its extension for SQLite: duckdb_answers.py FILE prints what it reads, as JSON."""
import json
import sys

import duckdb
from duckdb_extensions import import_extension

connection = duckdb.connect()
import_extension("sqlite_scanner", con=connection)
connection.execute("ATTACH '%s' AS file (TYPE sqlite)" % sys.argv[1].replace("'", "''"))
names = [row[2] for row in connection.execute("SHOW ALL TABLES").fetchall() if row[0] == "file"]
known = {row[0] for row in connection.execute(
    "SELECT DISTINCT table_name FROM information_schema.columns WHERE table_catalog = 'file'").fetchall()}
assert known == set(names), (known, names)
print(json.dumps({
    "tables": {name: len(connection.execute('SELECT * FROM file."%s"' % name).fetchall()) for name in names},
    "kernel_ns": int(connection.execute('SELECT coalesce(sum("end" - start), 0) FROM file.CUPTI_ACTIVITY_KIND_KERNEL').fetchone()[0]),
    "version": duckdb.__version__,
}))
