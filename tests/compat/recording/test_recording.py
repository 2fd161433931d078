#!/usr/bin/env python3
"""The same recording makes the same capture: its file, its JSON and its exports, line by line as an earlier build made them.

    test_recording.py BUILD             compares; exit code 1 where there is a difference that differences.txt does not list
    test_recording.py BUILD --freeze    writes the results of this build into frozen/; by hand, and with differences.txt emptied

perform.c makes the recordings. frozen/ was made at first by the release before the store became a library. What may differ
since stands in differences.txt, each difference with its reason; one that is listed and does not occur is a failure too.
Times that a clock of this machine told, and versions, are left out of the comparison.
"""
import argparse
import collections
import difflib
import json
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FROZEN = HERE / "frozen"
RECORDINGS = ("gpu", "host")
FORMATS = ("chrome", "tensorboard", "critical-path")
# What this machine's clocks told, and what a new release changes by its name alone.
CHANGING_META = ("derive", "profd_version", "summary")
CHANGING_KEYS = ("derive_ns", "profd_version", "trace_id", "file")
# Columns that are new since, and what they hold where nobody asked for what they tell.
NEW_COLUMNS = {"entered": 0, "collections_0": 0, "collections_1": 0, "collections_2": 0, "collections_known": 0, "collected": 0}


def steady(value):
    """A JSON value without what changes from run to run."""
    if isinstance(value, dict):
        return {k: steady(v) for k, v in value.items() if k not in CHANGING_KEYS}
    return [steady(v) for v in value] if isinstance(value, list) else value


def lines_of_json(value, path=""):
    """A line for each value, with the way to it: what is new or gone then is a line of its own."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from lines_of_json(inner, f"{path}.{key}")
        if not value:
            yield f"{path} {{}}"
    elif isinstance(value, list) and any(isinstance(v, (dict, list)) for v in value):
        for i, inner in enumerate(value):
            yield from lines_of_json(inner, f"{path}[{i}]")
    else:
        yield f"{path} {json.dumps(value)}"


def dump(path):
    """A line for each row of each table and view. Tables of events keep their order, which is that of arrival."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    db.row_factory = sqlite3.Row
    for name, kind in db.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE "
                                 "'sqlite%' ORDER BY name").fetchall():
        rows = []
        for row in db.execute(f'SELECT * FROM "{name}"'):
            if name == "meta" and row["key"] in CHANGING_META:
                continue
            # Columns without a value are left out, so that a new column is no difference where nothing is in it.
            rows.append(" ".join(f"{k}={json.dumps(row[k])}" for k in row.keys() if row[k] not in (None, NEW_COLUMNS.get(k))))
        events = kind == "table" and rows and "flags=" in rows[0]
        yield from (f"{name}: {row}" for row in (rows if events else sorted(rows)))
    summary = db.execute("SELECT value FROM meta WHERE key = 'summary'").fetchone()[0]
    yield from lines_of_json(steady(json.loads(summary)), "summary")


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout


def perform(build, recording, folder):
    where = pathlib.Path(folder, recording)
    where.mkdir()
    run(build / "tests/perform_recording", recording, where)
    return where / "1.db"


def results(build, folder):
    """{file: lines} of this build"""
    made = {}
    for recording in RECORDINGS:
        capture = perform(build, recording, folder)
        made[f"{recording}.capture"] = list(dump(capture))
        shown = steady(json.loads(run(build / "bin/profd", "show", capture, "--format", "json")))
        made[f"{recording}.show"] = list(lines_of_json(shown))
        for step in ("1", "4"):
            shown = steady(json.loads(run(build / "bin/profd", "show", capture, "--format", "json", "--step", step)))
            made[f"{recording}.show-step-{step}"] = list(lines_of_json(shown))
        for export in FORMATS:
            trace = json.loads(run(build / "bin/profd", "export", capture, "--format", export, "--output", "-"))
            events = [json.dumps(e) for e in trace.pop("traceEvents")]
            made[f"{recording}.{export}"] = list(lines_of_json(steady(trace))) + events
    return made


def allowed_differences():
    """[(reason, file pattern, line pattern)] of differences.txt: lines of "# reason" and "FILE-PATTERN: REGULAR EXPRESSION"."""
    found, reason = [], None
    for line in (HERE / "differences.txt").read_text().splitlines():
        if line.startswith("#"):
            reason = line[1:].strip()
        elif line.strip():
            files, pattern = line.split(": ", 1)
            found.append((reason, re.compile(files), re.compile(pattern)))
    return found


def compare(build):
    allowed, used, bad = allowed_differences(), collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        made = results(build, folder)
        # A capture that another daemon went on with is summed by SQL, and holds the same.
        adopted = list(dump(perform(build, "adopted", folder)))
    for line in difflib.unified_diff(made["gpu.capture"], adopted, "whole", "adopted", lineterm="", n=0):
        bad += 1
        print(line[:400])
    assert set(made) == {f.stem for f in FROZEN.glob("*.txt")}, "frozen/ has other files than this test makes"
    for name, lines in made.items():
        frozen = (FROZEN / f"{name}.txt").read_text().splitlines()
        for line in difflib.unified_diff(frozen, lines, lineterm="", n=0):
            if line.startswith(("---", "+++", "@@")):
                continue
            match = next((i for i, (_, files, pattern) in enumerate(allowed)
                          if files.fullmatch(name) and pattern.search(line)), None)
            if match is None:
                bad += 1
                if bad <= 40:
                    print(f"{name}: {line[:400]}")
            else:
                used[match] += 1
    for i, (reason, files, pattern) in enumerate(allowed):
        if not used[i]:
            bad += 1
            print(f"differences.txt: {files.pattern}: {pattern.pattern}: no such difference ({reason})")
    total = sum(len(lines) for lines in made.values())
    print(f"{total} lines of {len(made)} results, {sum(used.values())} differ as listed, {bad} otherwise")
    return bad != 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--freeze", action="store_true")
    options = parser.parse_args()
    if not options.freeze:
        return compare(options.build)
    FROZEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in results(options.build, folder).items():
            (FROZEN / f"{name}.txt").write_text("".join(line + "\n" for line in lines))
    return 0


sys.exit(main())
