"""What torch says of collective operations, of a real torch whose NCCL does not run here: its own macros say it, and its own profiler reads it."""
import functools
import json
import os
import subprocess

import pytest

from conftest import WORKLOADS
from torch_profiler import database

STEPS = 2
OTHERS = 4  # operators of that name, in a step, of which nothing is recorded: the wait, and what only looks like one
ASK = "import torch, os; print(os.path.dirname(torch.__file__), int(torch._C._GLIBCXX_USE_CXX11_ABI))"
RECORDS = """SELECT c.step, n.text AS name, g.text AS "group", d.text AS description, r.text AS ranks, t.text AS dtype, i.text AS in_split, u.text AS out_split, c.asynchronous, c.in_elements AS "in",
    c.out_elements AS out, c.sequence, c.group_size AS size, c.rank, c.point_to_point AS single, c.time = o.start AND o.step = c.step AS joined,
    (SELECT text FROM strings WHERE id = o.name) AS operator
    FROM collective_records c LEFT JOIN strings n ON n.id = c.name LEFT JOIN strings g ON g.id = c.group_name LEFT JOIN strings d
    ON d.id = c.group_description LEFT JOIN strings r ON r.id = c.group_ranks LEFT JOIN strings t ON t.id = c.dtype
    LEFT JOIN strings i ON i.id = c.in_split LEFT JOIN strings u ON u.id = c.out_split LEFT JOIN operators o ON o.id = c.operator ORDER BY c.time"""
# torch.profiler's words, and ours
WORDS = {"Collective name": "name", "dtype": "dtype", "In msg nelems": "in", "Out msg nelems": "out", "Group size": "size", "Rank": "rank",
         "Process Group Name": "group", "Process Group Description": "description", "Process Group Ranks": "ranks", "Seq": "sequence",
         "In split size": "in_split", "Out split size": "out_split", "Is asynchronized op": "asynchronous"}


def compiled(python, folder):
    """The library, for this torch; and has it what newer ones say at the end?"""
    where, new_strings = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=True).stdout.split()
    header = os.path.join(where, "include/torch/csrc/distributed/c10d/ParamCommsUtils.hpp")
    with open(header) as file:
        has_tail = "setSequenceInfo" in file.read()
    library = folder / "collectives.so"
    subprocess.run(["g++", "-std=c++20", "-O0", "-w", "-fPIC", "-shared", f"-D_GLIBCXX_USE_CXX11_ABI={new_strings}", *["-DSEQUENCE"] * has_tail,
                    f"-I{where}/include", f"-I{where}/include/torch/csrc/api/include", str(WORKLOADS / "collectives.cpp"), "-o", str(library),
                    f"-L{where}/lib", "-ltorch_cpu", "-lc10"], check=True)
    return library, has_tail


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The same, once for each torch."""
    return functools.lru_cache(lambda python: compiled(python, tmp_path_factory.mktemp("library")))


def recorded(profd, capture):
    with database(profd, capture) as db:
        cursor = db.execute(RECORDS)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor]


def listed(numbers):
    return json.dumps(list(numbers)[:30])


def expected(operation, has_tail):
    """What is to be recorded of what the job said, but for the dtype: that is a number there."""
    members = [operation["start"] + operation["stride"] * i for i in range(operation["size"])] if operation["stride"] > 0 else []
    return {**{key: operation[key] or None for key in ("name", "group", "description")}, **{key: operation[key] for key in ("in", "out", "size", "rank")},
            "ranks": listed(members) if members else None, "sequence": operation["sequence"] if has_tail else -1,
            "single": int(operation["name"] in ("send", "recv")), "in_split": listed(range(operation["splits"])),
            "out_split": listed(range(-1000, operation["splits"] - 1000)), "asynchronous": (1 if operation["waited"] else 2) if has_tail else 0}


def told_by_profiler(trace):
    """What a trace says of each."""
    events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["name"] == "record_param_comms" and e["ph"] == "X" and e["cat"] == "cpu_op"]
    return [e["args"] for e in sorted(events, key=lambda e: e["args"]["Ev Idx"]) if e["args"].get("Collective name") != "wait"]


def check_same(record, args):
    """torch.profiler says the same. Releases differ in what they say at all; of long lists all leave something out."""
    for word, column in WORDS.items():
        ours, told = record[column], args.get(word)
        if told in (None, "UNKNOWN_SCALAR"):
            continue
        if word == "Is asynchronized op":
            told = told + 1
        elif "..." in str(told):
            ours, told = ours.split(", ")[:29], told.split(", ")[:29]
        elif column == "ranks" and told == "[]":
            told = None
        assert ours == (told or None if isinstance(told, str) else told), (word, ours, told, record, args)


def check_exported(ours, theirs):
    """The trace that profd writes says what that of torch.profiler does."""
    for word in WORDS:
        if theirs.get(word) not in (None, "", "[]", "UNKNOWN_SCALAR") and "..." not in str(theirs[word]):
            assert ours.get(word) == theirs[word], (word, ours, theirs)


def capture_of(profd, torch, library, folder, *more):
    job = profd.job(torch, WORKLOADS / "collectives.py", library, folder, *more)
    profd.wait_steps(job.pid)
    capture = profd.trigger(job.pid, "--steps", STEPS)
    assert capture["status"] == "complete", capture
    operations = json.loads((folder / "operations.json").read_text())
    return capture, recorded(profd, capture), [operation for operation in operations if operation["name"] != "wait"]


def check_records(records, operations, has_tail):
    """Each operation of the steps, once, and nothing of what only looks like one."""
    assert [r["step"] for r in records] == [step for step in range(1, STEPS + 1) for _ in operations]
    for number, record in enumerate(records):
        wanted = expected(operations[number % len(operations)], has_tail)
        assert {key: record[key] for key in wanted} == wanted
    assert len({r["dtype"] for r in records}) == 47


def test_what_torch_says(profd, torch, library, tmp_path):
    path, has_tail = library(torch)
    capture, records, operations = capture_of(profd, torch, path, tmp_path)
    assert capture["lost"] == 0, capture
    check_records(records, operations, has_tail)
    assert all(r["joined"] == 1 and r["operator"] == "record_param_comms" for r in records), records
    said = told_by_profiler(tmp_path / "trace.json")
    assert len(said) == len(operations) and all("Process Group Ranks" in args and "dtype" in args for args in said)
    for number, record in enumerate(records):
        check_same(record, said[number % len(said)])
    trace = tmp_path / "exported.json"
    profd.run("export", capture["capture_id"], "--output", trace)
    exported = told_by_profiler(trace)
    assert len(exported) == STEPS * (len(said) + OTHERS)
    exported = [args for args in exported if "dtype" in args]
    assert len(exported) == STEPS * len(said)
    for number, args in enumerate(exported):
        check_exported(args, said[number % len(said)])


def test_deeper_than_the_recorder_follows(profd, torch_newest, library, tmp_path):
    """What is said is kept; the operator is not."""
    path, has_tail = library(torch_newest)
    capture, records, operations = capture_of(profd, torch_newest, path, tmp_path, 600)
    assert capture["lost"] > 0
    check_records(records, operations, has_tail)
    assert all(r["operator"] is None for r in records), records
