"""Compilations by torch.compile, as torch lists them, in the steps of a live job."""
import sqlite3
import statistics

import pytest

from conftest import WORKLOADS, wait_for
from test_evaluation import notes_of

STEPS = 9  # of three the batch is of another size


def capture(profd, python, how, *options, backend="aot_eager"):
    # What an earlier run has compiled is loaded, not compiled: and torch lists no backward then.
    job = profd.job(python, WORKLOADS / "compile.py", how, backend, env={"TORCHINDUCTOR_CACHE_DIR": str(profd.folder / "inductor")})
    profd.wait_steps(job.pid)
    found = profd.trigger(job.pid, "--steps", STEPS, *options)
    job.kill()  # it would go on compiling
    job.wait()
    return found


def shown(profd, found):
    return profd.show(found["capture_id"], "--by", "compiles", "--by", "breakdown", "--by", "steps", "--by", "findings", "--by", "dropped")


def line_of(text):
    lines = (WORKLOADS / "compile.py").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def check_listed(answer):
    compiles = answer["compiles"]
    assert not answer["losses"], answer["losses"]
    assert [c["part"] for c in compiles].count("forward") == [c["part"] for c in compiles].count("backward") == STEPS // 3, compiles
    assert len({c["step"] % 3 for c in compiles}) == 1 and len({c["step"] for c in compiles}) == 3
    steps = {s["step"]: s for s in answer["steps"]}
    for one in compiles:
        assert one["function"] == "forward" and one["file"].endswith("workloads/compile.py") and one["line"] == line_of("def forward")
        step = steps[one["step"]]
        assert step["start_ns"] <= one["start_ns"] and one["start_ns"] + one["duration_ns"] <= step["start_ns"] + step["wall_ns"]
        assert one["whole_ns"] == one["duration_ns"] > 1e6 and one["failure"] is None
        assert int(one["id"].split("/")[1]) > 0
        if one["part"] == "forward":
            assert "size mismatch at index 0. expected" in one["reason"] and one["operators"] > 0


def covered(intervals):
    """ns in at least one of the intervals, instant by instant."""
    borders = sorted({time for one in intervals for time in one})
    return sum(to - from_ for from_, to in zip(borders, borders[1:]) if any(a <= from_ and to <= b for a, b in intervals))


def by_definition(path):
    """ns of each step in which its thread compiled, and of the row, slowly, by the definition in docs/breakdown.md."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    text = dict(db.execute("SELECT id, text FROM strings"))
    steps = db.execute("SELECT step, start, start + duration, thread FROM steps ORDER BY start").fetchall()
    thread = steps[0][3]
    ops = [(start, end, text[name]) for start, end, name in
           db.execute("SELECT start, start + duration, name FROM operators WHERE thread = ? AND flags & 2 = 0", (thread,))]
    own = []
    for start, end, part in db.execute("SELECT start, start + duration, part FROM compile_events"):
        if any(start < step[1] < end for step in steps):
            continue
        before = [op for op in ops if op[0] < start]
        if part == 0:
            mine = bool(before) and max(before)[2] == "TorchDynamo Cache Lookup"
        else:
            mine = any(op[1] >= end and op[2].startswith(("CompiledFunction", "Torch-Compiled Region")) for op in before)
        if mine:
            own.append((start, end))
    looked = [op[:2] for op in ops if op[2].startswith("TorchDynamo")]  # in the row, and no compilation
    return [{step: covered([(max(a, start), min(b, end)) for a, b in times if a < end and b > start]) for step, start, end, _ in steps}
            for times in (own, own + looked)]


def agrees(profd, found, answer):
    wanted, row = by_definition(profd.store / "captures" / f"{found['capture_id'].lstrip('u')}.db")
    assert {s["step"]: s["compile_ns"] for s in answer["steps"]} == wanted
    for step, told in zip(answer["breakdown"]["steps"], answer["steps"]):
        rows = step["host"]["rows"]
        assert sum(rows.values()) == step["wall_ns"]
        assert told["compile_ns"] <= rows.get("compile", 0) == row[told["step"]]


def recompilation(answer):
    """(its number, the finding), the first but for those of a machine without a processor to spare: a step may wait for one longer than all compile."""
    number, one = next((number, one) for number, one in enumerate(answer["findings"], 1) if one["finding"] not in ("processor", "step_unlike"))
    assert one["finding"] == "recompilation", answer["findings"]
    return number, one


def check_left_out(profd, found, answer):
    agrees(profd, found, answer)
    usual = [s["wall_ns"] for s in answer["steps"] if not s["compile_ns"]]
    assert len(usual) == STEPS - STEPS // 3
    assert abs(found["step_ns"] - statistics.median(usual)) <= 1
    note = notes_of(answer)[0]
    assert f"3 of {STEPS} steps hold compilations by torch.compile" in note and "left out of the median" in note, answer["notes"]
    number, finding = recompilation(answer)
    assert finding["subject"] == "forward", answer["findings"]
    # What the others lose, such as torch's search for compiled code where the processor is taken meanwhile, is another finding.
    assert not any(one["finding"] == "step_unlike" and one["step"] in {c["step"] for c in answer["compiles"]} for one in answer["findings"])
    assert f"compiles again in 3 of {STEPS} steps" in finding["what"]
    assert f"(compile.py:{line_of('def forward')}) 3 times" in finding["evidence"] and "size mismatch at index 0. expected" in finding["evidence"]
    assert "mark_dynamic" in finding["try"] and "dynamic=True" in finding["try"]
    assert abs(finding["ns"] - sum(s["compile_ns"] for s in answer["steps"]) / STEPS) <= 1
    evidence = profd.show(found["capture_id"], "--finding", number)["findings"][0]["intervals"]
    assert len(evidence) == len(answer["compiles"])
    assert [(one["start_ns"], one["end_ns"] - one["start_ns"]) for one in evidence] == [(c["start_ns"], c["duration_ns"]) for c in answer["compiles"]]
    rows = sqlite3.connect(profd.store / "captures" / f"{found['capture_id'].lstrip('u')}.db").execute(finding["sql"]).fetchall()
    assert len(rows) == len(answer["compiles"]) and {row[3] for row in rows} == {"forward"}


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.wide)])
def test_compiled_again(profd, torch_newest, backend):
    """Each compilation is listed; the steps that hold one are left out of the median, and of a comparison with a job that compiles none."""
    changing = capture(profd, torch_newest, "changing", backend=backend)
    answer = shown(profd, changing)
    check_listed(answer)
    check_left_out(profd, changing, answer)
    if backend == "aot_eager":
        steady = capture(profd, torch_newest, "steady")
        check_steady(shown(profd, steady))
        check_comparison(profd, changing["capture_id"], steady["capture_id"])


@pytest.mark.wide
def test_generated_code_is_not_the_jobs_own(profd, torch_newest):
    """What Inductor has generated is torch's code, also in a folder that TORCHINDUCTOR_CACHE_DIR names: the lines are the job's."""
    folder = str(profd.folder / "inductor")
    job = profd.job(torch_newest, WORKLOADS / "compile.py", "steady", "inductor", env={"TORCHINDUCTOR_CACHE_DIR": folder})
    profd.wait_steps(job.pid)

    def sampled():
        found = profd.trigger(job.pid, "--steps", 500, "--stacks", "--stacks-rate", 1000)
        answer = profd.show(found["capture_id"], "--by", "functions", "--by", "lines", "--limit", 0)
        return answer if any(one["file"].startswith(folder) for one in answer["functions"]) else None
    lines = wait_for(sampled, 100, "a sample in generated code")["lines"]
    assert not [one for one in lines if one["file"].startswith(folder)]
    assert any(one["line"] == line_of("model(batch).sum().backward()") for one in lines if one["file"].endswith("compile.py")), lines


def check_steady(answer):
    assert answer["compiles"] == [] and not notes_of(answer), answer["notes"]
    assert all(s["compile_ns"] is None for s in answer["steps"])
    assert not any(one["finding"] in ("recompilation", "compilation") for one in answer["findings"])


def check_comparison(profd, changing, steady):
    text = profd.run("diff", changing, steady).stdout
    assert "3 steps of A hold a compilation by torch.compile, and are left out" in " ".join(text.split())
    assert f"{STEPS - 3} steps" in text and f"{STEPS} steps" in text


def test_where_all_steps_compile(profd, torch_newest):
    found = capture(profd, torch_newest, "every")
    answer = shown(profd, found)
    agrees(profd, found, answer)
    assert not notes_of(answer) and all(s["compile_ns"] for s in answer["steps"])
    assert f"compiles again in {STEPS} of {STEPS} steps" in recompilation(answer)[1]["what"]
    assert not any(one["finding"] == "compilation" for one in answer["findings"])


def test_another_thread_compiles(profd, torch_newest):
    """Nothing is said of the steps, whose thread goes on."""
    found = capture(profd, torch_newest, "beside")
    answer = shown(profd, found)
    assert answer["compiles"]
    assert all(s["compile_ns"] is None for s in answer["steps"]), answer["steps"]
    assert not any("compil" in note for note in answer["notes"])
    assert not any(one["finding"] == "recompilation" for one in answer["findings"])
