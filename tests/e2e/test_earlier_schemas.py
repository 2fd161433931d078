"""Capture files of earlier schemas are read by every verb that reads files, and what their release did not record is "not recorded", never 0.

tests/compat/schema-N has the recording of tests/compat/recording as the last build of that schema made a file of it (of schema 2, from before that
recording was written down, by its first version): 2 is 4233d3b5, 3 is c2d3d94f. That the collector of Python's stacks, which these releases did not
have, had run, which perform.c told them, was changed. A file of schema 1 is in test_cli_gpu.py.
"""
import gzip
import json
import pathlib
import sqlite3
import subprocess

import pytest

from conftest import BUILD, ROOT, choices

PROFD = BUILD / "bin" / "profd"
VIEWS = choices("show", "by")
FORMATS = choices("export", "format")
FILES = [(schema, name) for schema in (2, 3) for name in ("gpu", "host")]
# Keys of `show --format json` of what these releases could not record.
NEVER = {"collectives", "operator_memory", "memory_steps", "memory_peak", "memory_use", "memory_leaks", "modules", "lines", "functions", "compiles"}
# What CUPTI tells, which did not run in "host".
DEVICE = {"idle", "devices", "kernels", "copies", "sets", "graphs", "streams", "api", "syncs", "launches", "overlap", "memory", "memory_calls",
          "sessions"}

# Formats that hold nothing else than what these releases could not record: refused with a sentence.
WITHOUT = {"folded", "memory_viz"}


def run(*words, code=0):
    done = subprocess.run([PROFD, *map(str, words)], capture_output=True, stdin=subprocess.DEVNULL, timeout=240)
    assert done.returncode == code and b"damaged" not in done.stderr and (not code or b"not recorded" in done.stderr or code == 2), (words, done.returncode, done.stderr[-2000:])
    return done.stdout


@pytest.fixture(params=FILES, ids=lambda param: f"{param[0]}-{param[1]}")
def earlier(request, tmp_path):
    schema, name = request.param
    path = tmp_path / "capture.db"
    path.write_bytes(gzip.decompress((ROOT / "tests" / "compat" / f"schema-{schema}" / f"{name}.db.gz").read_bytes()))
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (schema,)
    return name, path


def test_what_was_not_recorded(earlier):
    name, path = earlier
    answer = json.loads(run("show", path, "--format", "json"))
    missing = NEVER | (DEVICE if name == "host" else set())
    assert {key for key in missing if answer[key] is not None} == set()
    assert [(step["wall_ns"], step["operators"]) for step in answer["steps"]] and answer["operators"] and answer["ranges"] and answer["threads"]
    assert bool(answer["kernels"]) == (name == "gpu")
    assert {step["device_busy_ns"] is None for step in answer["steps"]} == {name == "host"}


def test_views(earlier):
    name, path = earlier
    for view in VIEWS:
        text = run("show", path, "--by", view).decode()
        if view in ("collectives", "modules", "lines", "functions", "compiles", "memory_steps", "peak", "memory_use", "leaks"):
            assert "not recorded" in text, (view, text)
        if view != "all":
            run("show", path, "--by", view, "--format", "csv", "--limit", 0)
    for more in (["--step", 1], ["--range", "*"], ["--group-by-shapes"], ["--where", "calls>=1"], ["--thread", 4242]):
        assert b"aten::" in run("show", path, "--by", "operators", *more)


def test_other_verbs(earlier, tmp_path):
    name, path = earlier
    for format in FORMATS:
        run("export", path, "--format", format, "--output", tmp_path / "out", code=format in WITHOUT)
        (tmp_path / "out").unlink(missing_ok=True)
    run("report", path, "--output", tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 10000
    run("diff", path, path)
    # With what this build makes of the same recording.
    subprocess.run([BUILD / "tests" / "perform_recording", name, tmp_path], check=True, capture_output=True)
    for sides in ((path, tmp_path / "1.db"), (tmp_path / "1.db", path)):
        json.loads(run("diff", *sides, "--format", "json"))
        assert run("diff", *sides)
    assert len([json.loads(line) for line in run("show", path, tmp_path / "1.db", "--format", "json").splitlines()]) == 2
    run("ranks", path, code=2)
