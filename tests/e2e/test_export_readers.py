"""Exported traces of host events in Perfetto's trace processor and its user interface: see readers/perfetto.py."""
import signal

import pytest

from conftest import BUILD, WORKLOADS
from make_capture import Capture, training_loop
from readers import trace
from readers.perfetto import check, chromium, query, see, web  # noqa: F401 (fixtures)


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


@pytest.mark.wide
def test_perfetto_shows_a_torch_job(web, chromium, torch_trace):
    see(web, chromium, torch_trace, "torch.png")


def test_perfetto_shows_an_nvtx_job(web, chromium, nvtx_trace):
    titles = see(web, chromium, nvtx_trace, "nvtx.png")
    # Start/end ranges are tracks of the process, and a thread's overlapping ranges stand right below it.
    assert {"started", "started elsewhere", "started ex"} <= set(titles)
    at = next(i for i, title in enumerate(titles) if title.endswith("overlapping") or ", overlapping" in title)
    assert titles[at - 1].startswith(titles[at].split(",")[0])
