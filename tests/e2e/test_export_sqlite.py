"""`profd export --format sqlite`: plain tables with nsys's names, equal to what the capture holds; parts of a capture; several in one
file. Read by SQLite, by DuckDB where PROFD_DUCKDB names a python that has it, and by nsys where PROFD_NSYS names one."""
import collections
import contextlib
import csv
import io
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess

import pytest

from conftest import BUILD
from gpu_capture import gpu_loop
from make_capture import Capture
from readers.readers import nsys_reports
from test_export_gpu_readers import export, python_of

RECORDED = pathlib.Path(__file__).parents[1] / "data" / "traces" / "a100_alexnet_critical_path.json.gz"
TABLES = {"kernel_records": "KERNEL", "copy_records": "MEMCPY", "set_records": "MEMSET", "syncs": "SYNCHRONIZATION"}


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    """(Loop, path of its capture): three steps on two devices."""
    folder = tmp_path_factory.mktemp("loop")
    return gpu_loop(folder / "loop.db", steps=3, layers=4, devices=2, rank=0, world_size=2), folder / "loop.db"


def rows(path, sql, *values):
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute(sql, values).fetchall()


def kernels(path):
    return rows(path, 'SELECT start, "end", deviceId, streamId, correlationId, value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds '
                      "ON id = mangledName ORDER BY start, deviceId, value")


def refused(*words):
    done = subprocess.run([BUILD / "bin" / "profd", "export", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 2 and not done.stdout, (words, done)
    return done.stderr


def test_it_is_a_plain_file(loop, tmp_path):
    made, capture = loop
    path = export(capture, tmp_path / "plain.sqlite")
    assert {kind for kind, in rows(path, "SELECT DISTINCT type FROM sqlite_master")} == {"table"}
    for name, sql in rows(path, "SELECT name, sql FROM sqlite_master"):
        assert rows(path, f'SELECT min(rowid) FROM "{name}"') and "WITHOUT ROWID" not in sql, name
        for _, column, kind, *_ in rows(path, f'PRAGMA table_info("{name}")'):
            assert kind in ("INTEGER", "REAL", "TEXT"), (name, column)
            wrong = f'SELECT count(*) FROM "{name}" WHERE "{column}" IS NOT NULL AND typeof("{column}") <> ?'
            assert rows(path, wrong, kind.lower()) == [(0,)], (name, column)
    for table, word in TABLES.items():
        assert rows(path, f"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_{word}") == rows(capture, f"SELECT count(*) FROM {table}"), word
    assert kernels(path) == sorted(((o["start"], o["end"], o["device"], o["stream"], o["correlation"], o["name"])
                                    for o in made.device if o["kind"] == "kernel"), key=lambda r: (r[0], r[2], r[5]))
    # By the names of threads and of the process, as nsys's reports join them.
    assert rows(path, "SELECT DISTINCT value FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN ThreadNames t ON t.globalTid = r.globalTid JOIN "
                      "StringIds s ON s.id = t.nameId") == [("python3",), ("pt_autograd_0",)]
    assert rows(path, "SELECT DISTINCT p.pid, p.name FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN PROCESSES p ON p.globalPid = k.globalPid") \
        == [(4242, "python3")]
    assert rows(path, "SELECT c.cudaId, g.smCount FROM TARGET_INFO_GPU g JOIN TARGET_INFO_CUDA_DEVICE c ON c.gpuId = g.id") == [(0, 108), (1, 108)]


def test_to_a_pipe(loop, tmp_path):
    _, capture = loop
    path = export(capture, tmp_path / "plain.sqlite")
    done = subprocess.run([BUILD / "bin" / "profd", "export", capture, "--format", "sqlite", "--output", "-"], capture_output=True)
    assert done.returncode == 0 and done.stdout == path.read_bytes()
    assert "leave out .gz" in refused(capture, "--format", "sqlite", "--output", tmp_path / "x.sqlite.gz")


def test_duckdb(loop, tmp_path):
    """It lists all tables, reads each, and adds up what SQLite adds up."""
    python = python_of("PROFD_DUCKDB", "duckdb")
    _, capture = loop
    path = export(capture, tmp_path / "plain.sqlite")
    found = json.loads(subprocess.run([python, pathlib.Path(__file__).parent / "readers" / "duckdb_answers.py", path],
                                      capture_output=True, text=True, check=True).stdout)
    assert found["tables"] == {name: rows(path, f'SELECT count(*) FROM "{name}"')[0][0]
                               for name, in rows(path, "SELECT name FROM sqlite_master")}
    assert found["kernel_ns"] == rows(path, 'SELECT sum("end" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL')[0][0]


# ---- every report that `nsys stats` makes by default

# Of what a capture has no record, and why.
NOT_RECORDED = {
    "osrtsum": "OS Runtime trace",  # calls of libc: where threads wait is told by samples of their stacks
    "openmpevtsum": "OpenMP event", "openaccsum": "OpenACC event",  # torch has its own threads, and launches kernels itself
    # How pages of unified memory move: torch does not allocate of it.
    "unifiedmemory": "CPU page faults", "unifiedmemorytotals": "CPU page faults", "umcpupagefaults": "CPU page faults",
    # What draws.
    "khrdebugsum": "KHR_DEBUG", "khrdebuggpusum": "KHR_DEBUG", "vulkanmarkerssum": "Vulkan Debug Util",
    "vulkangpumarkersum": "Vulkan Debug markers",
    # Windows.
    "dx11pixsum": "DX11", "dx12gpumarkersum": "DX12 GPU", "dx12pixsum": "DX12 CPU", "wddmqueuesdetails": "WDDM",
}


def shown(capture, view):
    """Rows of `profd show --by VIEW`."""
    text = subprocess.run([BUILD / "bin" / "profd", "show", capture, "--by", view, "--format", "csv", "--limit", "0"],
                          capture_output=True, text=True, check=True).stdout
    return list(csv.DictReader(io.StringIO(text)))


def added(rows, name, count, total):
    """{name: [count, total]}: nsys has a row for each shape of a kernel, profd for each direction and memory of a copy."""
    sums = collections.defaultdict(lambda: [0, 0])
    for row in rows:
        sums[name(row)][0] += int(row[count])
        sums[name(row)][1] += int(row[total])
    return dict(sums)


def check_nsys(reports, capture):
    def by_nsys(report, name, count="Instances", total="Total Time (ns)"):
        return added(reports[report], lambda row: row[name], count, total)

    def by_profd(view, name=lambda row: row["name"], total="total_ns"):
        return added(shown(capture, view), name, "calls", total)

    assert by_nsys("gpukernsum", "Name") == by_profd("kernels")
    assert by_nsys("cudaapisum", "Name", "Num Calls") == by_profd("api")
    assert by_nsys("nvtxsum", "Range") == by_profd("ranges")
    moved = {**by_profd("copies", lambda row: "[CUDA memcpy %s]" % row["kind"]), **by_profd("memsets", lambda row: "[CUDA memset]")}
    assert by_nsys("gpumemtimesum", "Operation", "Count") == moved
    sizes = {**by_profd("copies", lambda row: "[CUDA memcpy %s]" % row["kind"], "bytes"),
             **by_profd("memsets", lambda row: "[CUDA memset]", "bytes")}
    assert {row["Operation"]: (int(row["Count"]), row["Total (MB)"]) for row in reports["gpumemsizesum"]} == {
        name: (count, "%.3f" % (total / 1e6)) for name, (count, total) in sizes.items()}


@pytest.mark.parametrize("which", ["loop", "recorded"])
def test_nsys(loop, tmp_path, which):
    """What nsys adds up of our file is what profd shows of the capture; and it skips what is not recorded, nothing else."""
    program = os.environ.get("PROFD_NSYS")
    if not program:
        pytest.skip("PROFD_NSYS is not set; ./dev test e2e sets it where the distribution has a package of nsys")
    capture = loop[1]
    if which == "recorded":
        capture = tmp_path / "recorded.db"
        subprocess.run([BUILD / "bin" / "profd", "import", RECORDED, "--output", capture], check=True, stdout=subprocess.DEVNULL)
    reports = nsys_reports(program, export(capture, tmp_path / "plain.sqlite"), tmp_path)
    skipped = {name: found for name, found in reports.items() if isinstance(found, str)}
    assert set(skipped) == set(NOT_RECORDED) and len(reports) == len(NOT_RECORDED) + 5, reports.keys()
    for name, sentence in skipped.items():
        assert "does not contain" in sentence and NOT_RECORDED[name] in sentence, (name, sentence)
    check_nsys(reports, capture)


# ---- parts


def reaches(start, end, spans):
    return any(start < b and end > a for a, b in spans)


def expected(made, spans, devices=(0, 1)):
    return sorted((o["start"], o["device"], o["name"]) for o in made.device if o["kind"] == "kernel" and o["device"] in devices
                  and (reaches(o["start"], o["end"], spans) or reaches(*o["launch"], spans)))


def found(path):
    return [(start, device, name) for start, _, device, _, _, name in kernels(path)]


def test_parts(loop, tmp_path):
    made, capture = loop
    steps = {step: (start, start + length) for step, start, length in rows(capture, "SELECT step, start, duration FROM steps")}
    forward = [(start, start + length) for start, length in rows(
        capture, "SELECT r.start, r.duration FROM ranges r JOIN strings s ON s.id = r.name WHERE s.text = 'forward' ORDER BY 1")]
    first = min(start for start, _ in steps.values())
    middle = (steps[2][0] + steps[2][1]) // 2
    cases = [
        (("--step", 2), [steps[2]], (0, 1)),
        (("--step", 102), [steps[2]], (0, 1)),
        (("--step", "2-3"), [steps[2], steps[3]], (0, 1)),
        (("--device", 1), [(0, 10**18)], (1,)),
        (("--step", 1, "--device", "0,7"), [steps[1]], (0,)),
        (("--range", "forw*"), forward, (0, 1)),
        (("--range", "forward", "--step", 3), [(a, b) for a, b in forward if reaches(a, b, [steps[3]])], (0, 1)),
        (("--time", f"0-{middle - first}ns"), [(first, middle)], (0, 1)),
    ]
    for number, (words, spans, devices) in enumerate(cases):
        path = export(capture, tmp_path / f"{number}.sqlite", *map(str, words))
        assert found(path) == expected(made, spans, devices), words
        assert 0 < len(found(path)) < len(expected(made, [(0, 10**18)])), words
        # The host's side: what reaches into it.
        assert rows(path, "SELECT count(*) FROM PROFD_OPERATORS") == [(sum(
            reaches(start, start + length, spans) for start, length in rows(capture, "SELECT start, duration FROM operators")),)], words
    assert sorted(step for step, in rows(tmp_path / "2.sqlite", "SELECT number FROM PROFD_STEPS")) == [102, 103]


def test_parts_that_are_not_there(loop, tmp_path):
    _, capture = loop
    path = tmp_path / "none.sqlite"
    for words, sentence in ((("--step", 9), "no step 9"), (("--step", 0), "a step is wanted"), (("--step", "3-2"), "a step is wanted"),
                            (("--range", "nobody"), "no range and no operator named nobody"), (("--time", "5ms"), "two times"),
                            (("--time", "9h-10h"), "the recording ends"), (("--device", "one"), "numbers of devices"),
                            (("--step", 3, "--time", "0-1ns"), "no moment in common")):
        for more in ((), ("--dry-run",)):
            assert sentence in refused(capture, "--output", path, *words, *more), words
    assert not path.exists() and not list(tmp_path.iterdir())


# ---- several


def test_several_ranks(loop, tmp_path):
    """On one clock, with names and processes apart though both have the same pid."""
    made, capture = loop
    other = shutil.copy(capture, tmp_path / "other.db")
    with contextlib.closing(sqlite3.connect(other)) as db, db:
        base = int(db.execute("SELECT value FROM meta WHERE key = 'base_realtime'").fetchone()[0])
        db.execute("UPDATE meta SET value = ? WHERE key = 'base_realtime'", (base + 5000,))
        db.execute("UPDATE strings SET text = '_Z5otherv' WHERE text = '_Z6layer0Pf'")
    path = tmp_path / "both.sqlite"
    subprocess.run([BUILD / "bin" / "profd", "export", capture, other, "--output", path], check=True, stdout=subprocess.DEVNULL)
    own = kernels(export(capture, tmp_path / "one.sqlite"))
    shifted = [(start + 5000, end + 5000, *place, name.replace("_Z6layer0Pf", "_Z5otherv")) for start, end, *place, name in own]
    assert sorted(kernels(path)) == sorted(own + shifted)
    processes = rows(path, "SELECT globalPid, pid FROM PROCESSES")
    assert len(set(processes)) == 2 and {pid for _, pid in processes} == {4242} == {(g >> 24) & 0xFFFFFF for g, _ in processes}
    assert rows(path, "SELECT capture, count(*) FROM PROFD_STEPS GROUP BY 1") == [(0, 3), (1, 3)]


# ---- its size


def test_the_size_is_told_first(tmp_path):
    """Of a recorded trace, and of many operators: all of it, and a part."""
    subprocess.run([BUILD / "bin" / "profd", "import", RECORDED, "--output", tmp_path / "recorded.db"], check=True, stdout=subprocess.DEVNULL)
    with Capture(tmp_path / "big.db") as c:
        name = c.string("aten::addmm")
        c.add("steps", step=1, start=0, duration=10**9, number=1, thread=4242, source=2, collectors=7)
        c.add_operators([(1, 0, n * 100, 100, 100, n + 1, None, name, 4242, 0, 0, None, -1, 0, 0) for n in range(30000)])
    for name, suffix, *words in (("recorded", "sqlite"), ("recorded", "json"), ("recorded", "json.gz"), ("big", "sqlite"), ("big", "json"),
                                 ("big", "sqlite", "--time", "0-1ms")):
        source, path = tmp_path / f"{name}.db", tmp_path / f"{name}{len(words)}.{suffix}"
        done = subprocess.run([BUILD / "bin" / "profd", "export", source, "--output", path, "--dry-run", *words],
                              capture_output=True, text=True)
        assert done.returncode == 0 and "nothing was written" in done.stdout and not path.exists(), done
        figure, unit = done.stdout.split(": about ")[1].split(",")[0].split()
        told = float(figure) * {"KiB": 1 << 10, "MiB": 1 << 20, "B": 1}[unit]
        size = export(source, path, "--force", *words).stat().st_size
        assert told / 2 < size < told * 2, (name, words, suffix, told, size)
