"""`profd diff`: what moved between two captures is named, what did not is not; rows add up; what differs besides is said."""
import contextlib
import csv
import gzip
import io
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess

import pytest

import terminal
from conftest import BUILD, ROOT, wait_for

PROFD = BUILD / "bin" / "profd"
TRACES = ROOT / "tests" / "data" / "traces"
KINDS = ["operators", "launched", "kernels", "copies", "sets", "api", "ranges", "modules", "lines"]


def run(*words, code=0):
    done = subprocess.run([PROFD, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
                          env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done


def diff(*words, code=0):
    answer = json.loads(run("diff", *words, "--format", "json", code=code).stdout)
    assert answer["schema"] == "profd.diff/1"
    sums_hold(answer)
    return answer


def sums_hold(answer):
    """Each side's rows add up to the step, and the causes of idle time to it; so do their differences."""
    step = answer["breakdown"][0]
    assert step["row"] == "step" and step["difference_ns"] == answer["step"]["difference_ns"]
    rows = answer["breakdown"][1:]
    for side in {row["side"] for row in rows}:
        for key in ("a_ns", "b_ns", "difference_ns"):
            own = [row for row in rows if row["side"] == side]
            assert sum(row[key] for row in own if not row["parent"]) == step[key], (side, key)
            idle = [row[key] for row in own if row["row"] == "idle" and not row["parent"]]
            assert sum(row[key] for row in own if row["parent"]) == sum(idle), (side, key)


def row_of(answer, key, name, column="name"):
    [row] = [row for row in answer[key] if row[column] == name]
    return row


def moved(rows):
    return {row.get("name") or row["row"] for row in rows or () if row["change"]}


# --- traces that are made here: steps of known length ---

def trace(path, seed, steps=6, load=20.0, extra=False, template=4, gpu="NVIDIA A100-SXM4-40GB", batch=32, odd=0.0, trade=0.0):
    """A loop that loads, runs two operators that launch a kernel each, and steps; us, each varied by 1 %. In step 3 aten::relu and its kernel take `odd` ms
    more. So much of the loader's time (a part, at random) it takes from aten::relu, or gives to it."""
    noise, events, now, flow = random.Random(seed), [], 1_000_000.0, 1
    args = {"Input Dims": [[batch, 8]], "Input type": ["float"]}

    def span(category, name, start, length, **more):
        events.append({"ph": "X", "cat": category, "name": name, "pid": 7, "tid": 7, "ts": start, "dur": length, **more})

    for number in range(1, steps + 1):
        begun = now
        length = load * 1000 * noise.uniform(0.99, 1.01)
        given = length * noise.uniform(0, trade) if trade else 0
        length -= given
        span("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", now + 10, length)
        now += length + 20
        for name in ["aten::mm", "aten::relu"] + (["aten::cumsum"] if extra else []):
            length = 2000 * noise.uniform(0.99, 1.01) + (given + odd * 1000 * (number == 3) if name == "aten::relu" else 0)
            span("cpu_op", name, now, length, args=args)
            span("cuda_runtime", "cudaLaunchKernel", now + 20, 15, args={"correlation": flow})
            kernel = f"void elementwise<{template}, {name[6:]}>(float*)"
            span("kernel", kernel, now + 60, max(length / 2, length - 1050), args={"device": 0, "stream": 7, "correlation": flow})
            now, flow = now + length + 30, flow + 1
        span("user_annotation", "Optimizer.step#SGD.step", now, 500)
        now += 600
        span("user_annotation", f"ProfilerStep#{number}", begun, now - begun)
    data = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": gpu, "totalGlobalMem": 1 << 35}], "traceEvents": events}
    with gzip.open(path, "wt") as file:
        json.dump(data, file)
    capture = path.parent / (path.name.split(".")[0] + ".db")
    run("import", path, "--output", capture, "--force")
    return capture


def test_a_slower_loader_and_an_operator(tmp_path):
    """20 % more in the loader and one operator more are named, with their sizes; nothing else is."""
    before, after = trace(tmp_path / "a.json.gz", 1), trace(tmp_path / "b.json.gz", 2, load=24.0, extra=True)
    answer = diff(before, after)
    assert answer["tested"] and answer["step"]["change"] == "more" and answer["step"]["p"] <= 0.05
    assert abs(answer["step"]["difference_ns"] - 6_030_000) < 400_000
    assert answer["answer"].startswith("a step takes ") and " more (+" in answer["answer"] and "waiting for input +" in answer["answer"]
    loader = next(r for r in answer["breakdown"] if r["side"] == "host" and r["row"] == "input")
    assert loader["change"] == "more" and abs(loader["difference_ns"] - 4_000_000) < 400_000
    assert moved(answer["operators"]) == {"aten::cumsum"} and row_of(answer, "operators", "aten::cumsum")["change"] == "new"
    assert row_of(answer, "operators", "aten::cumsum")["b_calls"] == 1
    assert moved(answer["kernels"]) == {"void elementwise<4, cumsum>(float*)"}
    assert moved(answer["ranges"]) == {"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "ProfilerStep#"}
    assert answer["differences"] == []
    # The other way round: less, and gone.
    back = diff(after, before)
    assert back["step"]["change"] == "less" and row_of(back, "operators", "aten::cumsum")["change"] == "gone"
    assert back["step"]["difference_ns"] == -answer["step"]["difference_ns"]
    text = run("diff", before, after).stdout
    assert text.splitlines()[0] == answer["answer"] and "aten::cumsum" in text and "new" in text and "aten::relu" not in text
    rows = list(csv.DictReader(io.StringIO(run("diff", before, after, "--format", "csv", "--by", "operators").stdout)))
    assert {r["name"] for r in rows} >= {"aten::mm", "aten::cumsum"}


def test_the_answer_names_what_has_moved_alone(tmp_path):
    """The loader is slower in each step; a kernel took longer in one step, which makes a mean, and no change."""
    before, after = trace(tmp_path / "a.json.gz", 1), trace(tmp_path / "b.json.gz", 2, load=24.0, odd=9.0)
    answer = diff(before, after)
    compute = next(row for row in answer["breakdown"] if row["row"] == "compute")
    assert answer["step"]["change"] == "more" and compute["change"] is None and compute["difference_ns"] > 0.1 * answer["step"]["difference_ns"]
    assert "waiting for input +" in answer["answer"] and "compute" not in answer["answer"], answer["answer"]
    # The whole has moved, and none of its rows by itself.
    before, after = trace(tmp_path / "c.json.gz", 1, trade=0.9), trace(tmp_path / "d.json.gz", 2, load=22.0, trade=0.9)
    answer = diff(before, after)
    assert answer["step"]["change"] == "more" and answer["answer"].endswith("; none of its rows has moved beyond the spread of the steps by itself"), answer["answer"]
    before, after = tmp_path / "a.db", tmp_path / "b.db"
    # Where nothing is tested what differs most is named, and that it was not tested.
    alone = diff(f"{before}@3", f"{after}@3")["answer"]
    assert "compute +" in alone and "too few steps" in alone


def test_for_scripts(tmp_path):
    before, after = trace(tmp_path / "a.json.gz", 1), trace(tmp_path / "b.json.gz", 2, load=24.0)
    assert "takes 16" in run("diff", before, after, "--fail-if-slower", 5, code=10).stderr
    run("diff", before, after, "--fail-if-slower", 30)
    run("diff", after, before, "--fail-if-slower", 0)
    run("diff", before, before, "--fail-if-slower", 0)
    assert "too few" in run("diff", f"{before}@1", f"{after}@1", "--fail-if-slower", 5, code=1).stderr
    assert run("diff", before, code=2).stderr and run("diff", before, after, "--format", "csv", "--by", "all", code=2).stderr
    assert "no such step" in run("diff", f"{before}@7", after, code=3).stderr
    run("diff", before, tmp_path / "none.db", code=3)
    assert "between the commas" in run("diff", f"{before},", after, code=2).stderr


def test_steps_of_one(tmp_path):
    """Steps of one capture; a single step cannot be tested, and it says so."""
    capture = trace(tmp_path / "a.json.gz", 1)
    answer = diff(f"{capture}@1-3", f"{capture}@4,5-6")
    assert answer["tested"] and answer["a"]["steps"] == answer["b"]["steps"] == 3
    answer = diff(f"{capture}@2", f"{capture}@5")
    assert not answer["tested"] and answer["step"]["p"] is None and answer["step"]["change"] is None
    assert not moved(answer["breakdown"]) and "too few steps" in answer["answer"]
    assert "not tested" in run("diff", f"{capture}@2", f"{capture}@5").stdout
    [wall] = [r["wall_ns"] for r in json.loads(run("show", capture, "--format", "json").stdout)["steps"] if r["step"] == 5]
    assert answer["b"]["walls_ns"] == [wall]


def test_equal_runs(tmp_path):
    """The same loop with another seed: of 20 pairs a step is said to have moved in a few at the most, and nothing in the same file."""
    captures = [trace(tmp_path / f"{seed}.json.gz", seed) for seed in range(21)]
    alarms = sum(bool(diff(captures[i], captures[i + 1])["step"]["change"]) for i in range(20))
    # The level is 10 %: more than 6 of 20 happens once in 400 times, and the seeds are fixed.
    assert alarms <= 6, alarms
    answer = diff(captures[0], captures[0])
    assert "same time" in answer["answer"] and not any(moved(answer[key]) for key in [*KINDS, "breakdown"])


def test_what_differs_besides(tmp_path):
    """GPU and shapes; kernels that differ in their template arguments alone are one row."""
    before = trace(tmp_path / "a.json.gz", 1)
    after = trace(tmp_path / "b.json.gz", 2, gpu="NVIDIA H100 80GB HBM3", template=8, batch=64)
    answer = diff(before, after)
    assert {d["what"] for d in answer["differences"]} == {"gpu", "input_shapes"}
    assert answer["differences"][0]["b"] == "NVIDIA H100 80GB HBM3" and "[[64, 8]]" in answer["differences"][1]["b"]
    [kernel] = answer["kernels"]
    assert kernel["name"] == "elementwise<...>" and kernel["joined"] and kernel["a_calls"] == kernel["b_calls"] == 2
    text = run("diff", before, after).stdout
    assert "the GPU differs: NVIDIA A100-SXM4-40GB in A, NVIDIA H100 80GB HBM3 in B" in text and "input shapes of operators differ" in text


def test_ranks_are_averaged(tmp_path):
    """Two files of one run, ranks 0 and 1: a unit is a step of both."""
    captures = [trace(tmp_path / f"{i}.json.gz", i, load=20.0 + 4 * (i % 2)) for i in range(4)]
    for i, capture in enumerate(captures):
        with contextlib.closing(sqlite3.connect(capture)) as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES ('rank', ?), ('trigger_id', ?)", [i % 2, str(i // 2)])
            db.commit()
    one, other = f"{captures[0]},{captures[1]}", f"{captures[2]},{captures[3]}"
    answer = diff(one, other)
    assert answer["a"]["steps"] == answer["b"]["steps"] == 6 and len(answer["a"]["captures"]) == 2
    walls = [diff(c, c)["a"]["walls_ns"] for c in captures[:2]]
    assert answer["a"]["walls_ns"] == [pytest.approx(sum(pair) / 2, abs=1) for pair in zip(*walls)]
    # Two recordings of the same rank are not one: their steps count one by one.
    assert diff(f"{captures[0]},{captures[2]}", other)["a"]["steps"] == 12


def test_real_traces(tmp_path):
    """An A100 and a GP100, one step each: sums hold, nothing is said to be tested."""
    captures = []
    for name in ("a100_alexnet_critical_path", "gp100_gpu_user_annotation"):
        captures.append(tmp_path / f"{name}.db")
        run("import", TRACES / f"{name}.json.gz", "--output", captures[-1])
    answer = diff(*captures)
    assert not answer["tested"] and "gpu" in {d["what"] for d in answer["differences"]}
    assert {r["change"] for r in answer["kernels"]} <= {"new", "gone", None}


# --- live ---

LOOP = """
import signal, time, torch
slow = False
def slower(*_):
    global slow
    slow = True
signal.signal(signal.SIGUSR1, slower)
class Data(torch.utils.data.Dataset):
    def __len__(self): return 100000
    def __getitem__(self, i):
        time.sleep(0.120 if slow else 0.040)
        return torch.ones(8)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
print("ready", flush=True)
for batch in torch.utils.data.DataLoader(Data(), batch_size=1):
    optimizer.zero_grad()
    out = model(batch)
    if slow:
        out = out.cumsum(1)
    out.sum().backward()
    optimizer.step()
"""


def undisturbed(profd, pid, label):
    """A capture of steps that are alike: one that waited for a processor would be as much as what has moved. Another one is deleted again."""
    def look():
        capture = profd.trigger(pid, "--steps", 8, "--label", label, "--stacks", "--stacks-rate", 500, "--modules")
        walls = [step["wall_ns"] for step in profd.show(capture["capture_id"])["steps"]]
        if max(walls) - min(walls) < 40e6:
            return capture
        profd.run("rm", capture["capture_id"])
        return None
    return wait_for(look, 60, "eight steps that are alike")


def test_a_live_loop(profd, torch_newest, tmp_path):
    """A loader that becomes slower by 80 ms, and an operator that is added: the diff of two captures names both."""
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    job = profd.job(torch_newest, script, env={"PYTHONWARNINGS": "ignore"})
    profd.wait_steps(job.pid, 3)
    before = undisturbed(profd, job.pid, "before")
    os.kill(job.pid, signal.SIGUSR1)
    at = profd.process(job.pid)["step"]
    wait_for(lambda: profd.process(job.pid)["step"] > at + 2)
    after = undisturbed(profd, job.pid, "after")
    answer = profd.json("diff", before["capture_id"], after["capture_id"])
    sums_hold(answer)
    loader = next(r for r in answer["breakdown"] if r["side"] == "host" and r["row"] == "input")
    assert answer["step"]["change"] == "more" and loader["change"] == "more", answer["answer"]
    assert 60e6 < loader["difference_ns"] < 160e6 and "input +" in answer["answer"], answer["answer"]
    assert row_of(answer, "operators", "aten::cumsum")["change"] == "new"
    slept = next(f"loop.py:{number} Data.__getitem__" for number, line in enumerate(LOOP.splitlines(), 1) if "sleep" in line)
    line = row_of(answer, "lines", slept)
    assert line["change"] == "more" and 60e6 < line["difference_ns"] < 160e6 and line["a_calls"] is None and not line["joined"]
    module = row_of(answer, "modules", "Linear")
    assert module["change"] not in ("new", "gone") and module["a_ns"] > 0 and module["a_calls"] == 1
    # The lines of a script to which three lines were added; in a file of an earlier release, which has fewer columns.
    added = tmp_path / "added.db"
    shutil.copy(profd.file(after["capture_id"]), added)
    with contextlib.closing(sqlite3.connect(added)) as db, db:
        db.execute("UPDATE line_totals SET line = line + 3 WHERE line > 0")
        for column in ("calls", "device_estimate", "device_total"):
            db.execute(f"ALTER TABLE line_totals DROP COLUMN {column}")
    rows = profd.json("diff", after["capture_id"], added, "--by", "lines")["lines"]
    [line] = [row for row in rows if "__getitem__" in row["name"]]
    assert line["name"] == "loop.py Data.__getitem__" and line["joined"] and line["a_ns"] == line["b_ns"] > 0
    assert answer["a"]["captures"] == [before["capture_id"]] and answer["a"]["torch_version"]
    # `profd top` has the verdict of the last capture.
    [row] = profd.json("top")["jobs"]
    assert row["verdict"] and row["verdict_of"] == after["capture_id"]
    # By label and by trigger; for scripts.
    named = profd.json("diff", "label:before", f"trigger:{after['trigger_id']}")
    assert named["step"] == answer["step"]
    assert profd.run("diff", "label:before", "label:after", "--fail-if-slower", 5, check=False).returncode == 10
    assert profd.run("diff", "label:after", "label:before", "--fail-if-slower", 5, check=False).returncode == 0
    done = profd.run("diff", "label:before", "label:none", check=False)
    assert done.returncode == 3 and "label none" in done.stderr


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Two real captures whose names are long, and unlike each other in much."""
    folder = tmp_path_factory.mktemp("real")
    made = []
    for name in ("a100_ddp_rank0of2_nccl_data", "a100_alexnet_critical_path"):
        made.append(folder / f"{name}.db")
        run("import", TRACES / f"{name}.json.gz", "--output", made[-1])
    return made


@pytest.mark.parametrize("width", [80, 100, 132, None])
@pytest.mark.parametrize("kind", ["all", "kernels", "operators", "copies"])
def test_it_fits(real, kind, width):
    """No line is wider than the terminal, or than 119 columns in a pipe; names that are not the same are not shown alike."""
    words = ["diff", *real, "--by", kind, "--limit", "20"]
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm"}
    text = terminal.on_terminal([PROFD, *words], width, environment) if width else run(*words).stdout
    wide = [line for line in text.split("\n") if len(line) > (width or 119)]
    assert not wide, wide
    if kind == "kernels":
        names = [line.split("  ")[0] for line in text.split("NAME")[1].split("\n")[1:] if " ms" in line or " us" in line]
        assert len(names) == len(set(names)) >= 10


def test_names_are_shortened_by_meaning_and_whole_where_asked_for(real):
    answer = json.loads(run("diff", *real, "--by", "kernels", "--format", "json").stdout)
    names = [row["name"] for row in answer["kernels"]]
    long = max(names, key=len)
    assert len(long) > 119
    short = run("diff", *real, "--by", "kernels", "--limit", 0).stdout
    whole = run("diff", *real, "--by", "kernels", "--limit", 0, "--full-names").stdout
    assert all(name in whole for name in names) and long not in short
    # Arguments and namespaces go first: what a kernel is called is there.
    assert "void " not in short and "ncclKernel_AllReduce" in short
