"""`profd show`, `ps` and `captures`: what stands in the tables, in JSON and in CSV."""

import csv
import io
import json
import sqlite3

import pytest

from cli import *  # noqa: F401,F403 (fixtures)
from fake_daemon import END, CaptureFile, capture_row, error, process_row
from make_capture import gpu_capture


@pytest.fixture
def capture(folder):
    file = CaptureFile(folder / "17.db")
    for name in ("steps", "nvtx", "torch"):
        file.collector(name, sentence="records " + name)
    file.collector("shapes", ran=False, sentence="not asked for")
    file.thread(4242, "python3")
    for step in (1, 2, 3):
        start = (step - 1) * 10_000_000
        file.step(step, 100 + step, start, 10_000_000 + step)
        outer = file.operator("aten::addmm", start, 3000, 1000, step)
        file.operator("aten::mm", start, 2000, 2000, step, parent=outer)
        file.range("forward", start, 5_000_000, step, domain="train")
    return file


def served(client, fake, capture):
    fake.serve_file(capture.finish())
    done = client.run("show", "17", "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_json(client, fake, capture):
    capture.loss("operator", "no_space", 12, 1, "dropped: no free chunk")
    answer = served(client, fake, capture)
    assert answer["schema"] == "profd.show/2" and answer["capture"]["capture_id"] == "17"
    assert [(s["step"], s["number"], s["wall_ns"]) for s in answer["steps"]] == [(n, 100 + n, 10_000_000 + n) for n in (1, 2, 3)]
    assert [s["operators"] for s in answer["steps"]] == [2, 2, 2]
    names = {o["name"]: o for o in answer["operators"]}
    assert (names["aten::addmm"]["calls"], names["aten::addmm"]["self_cpu_ns"], names["aten::addmm"]["cpu_ns"]) == (3, 3000, 9000)
    assert [o["name"] for o in answer["operators"]] == ["aten::mm", "aten::addmm"]
    assert names["aten::mm"]["self_cpu_percent"] == 66.667
    assert answer["ranges"][0] == {"name": "forward", "domain": "train", "source": "nvtx", "calls": 3, "total_ns": 15_000_000, "wall_percent": 50,
                                   "self_ns": 15_000_000, "average_ns": 5_000_000, "min_ns": 5_000_000, "max_ns": 5_000_000,
                                   "self_device_ns": None, "device_ns": None, "device_percent": None, "device_average_ns": None,
                                   "device_span_ns": None}
    assert answer["losses"] == [{"kind": "operator", "loss": "no_space", "count": 12, "is_loss": True, "sentence": "dropped: no free chunk"}]
    assert answer["cost"]["step_before_ns"] == 10_000_000 and answer["cost"]["step_after_ns"] == 10_000_000
    assert answer["threads"][0]["name"] == "python3" and answer["threads"][0]["operators"] == 6
    assert {c["collector"]: c["on"] for c in answer["collectors"]} == {"steps": True, "nvtx": True, "torch": True, "shapes": False}


def test_several(client, fake, lonely, folder, capture):
    """Each in turn: tables one below the other, JSON an object a line; one that is not there does not hide the others."""
    first = capture.finish()
    other = CaptureFile(folder / "18.db", capture_id="18")
    second = other.finish()
    alone = [lonely.run("show", path) for path in (first, second)]
    both = lonely.run("show", first, second)
    assert both.returncode == 0, both.stderr
    assert both.stdout == alone[0].stdout + "\n" + alone[1].stdout
    lines = lonely.run("show", first, second, "--format", "json").stdout.splitlines()
    assert [json.loads(line)["capture"]["capture_id"] for line in lines] == ["17", "18"]
    assert lines[0] + "\n" == lonely.run("show", first, "--format", "json").stdout
    done = lonely.run("show", folder / "none.db", second)
    assert done.returncode == 3 and done.stderr.count("profd: ") == 1 and "capture 18" in done.stdout
    assert lonely.run("show", first, second, "--format", "csv").returncode == 2


def test_operators_are_the_totals_of_derive(client, fake, capture):
    """What torch folds into its parent is folded there, and not once more here."""
    path = capture.finish()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE operator_totals SET calls = 7, self = 70, total = 700 WHERE step = 2")
    fake.serve_file(path)
    for line, calls in (([], 9), (["--step", "2"], 7)):
        rows = json.loads(client.run("show", "17", "--format", "json", *line).stdout)["operators"]
        assert {row["name"]: row["calls"] for row in rows} == {"aten::addmm": calls, "aten::mm": calls}


def test_shapes_are_folded_as_torch_does(client, fake, capture):
    capture.db.execute("UPDATE collectors SET ran = 1 WHERE collector = 'shapes'")
    outside, inside = capture.inputs("[[2, 2]]"), capture.inputs("[[1024, 1024]]")
    outer = capture.operator("aten::copy_", 0, 900, 300, inputs=outside)
    middle = capture.operator("aten::copy_", 0, 600, 200, parent=outer, inputs=inside)
    capture.operator("aten::copy_", 0, 400, 400, parent=middle, inputs=inside)
    outer = capture.operator("aten::to", 0, 900, 100, inputs=outside)
    capture.operator("aten::to", 0, 300, 300, parent=outer, inputs=inside)
    capture.operator("aten::to", 0, 500, 500, parent=outer, inputs=inside)
    outer = capture.operator("aten::add", 0, 900, 100, inputs=outside)
    capture.operator("aten::add", 0, 800, 800, parent=outer, inputs=inside, thread=99)
    # A second child that takes no time at all is a child: a range, or an operator of the clock's grain.
    outer = capture.operator("aten::mul", 0, 900, 100, inputs=outside)
    capture.operator("aten::mul", 0, 800, 800, parent=outer, inputs=inside)
    capture.range("mark", 800, 0, parent=outer)
    outer = capture.operator("aten::sub", 0, 900, 900, inputs=outside)
    capture.operator("aten::sub", 0, 0, 0, parent=outer, inputs=inside)
    fake.serve_file(capture.finish())
    rows = json.loads(client.run("show", "17", "--group-by-shapes", "--format", "json").stdout)["operators"]
    found = {(r["name"], r["input_shapes"]): (r["calls"], r["self_cpu_ns"], r["cpu_ns"]) for r in rows if r["input_shapes"]}
    small, large = "[[2, 2]]", "[[1024, 1024]]"
    assert found == {("aten::copy_", small): (1, 900, 900), ("aten::to", small): (1, 100, 900), ("aten::to", large): (2, 800, 800),
                     ("aten::add", small): (1, 100, 900), ("aten::add", large): (1, 800, 800),
                     ("aten::mul", small): (1, 100, 900), ("aten::mul", large): (1, 800, 800), ("aten::sub", small): (1, 900, 900)}


def test_threads_add_up_to_the_totals(client, fake, capture):
    """An operator that is one call with its parent is no call of its thread either."""
    for step, thread in ((1, 4242), (1, 7), (2, 7)):
        outer = capture.operator("aten::copy_", 0, 900, 300, step, thread=thread)
        middle = capture.operator("aten::copy_", 0, 600, 200, step, parent=outer, thread=thread)
        capture.operator("aten::copy_", 0, 400, 400, step, parent=middle, thread=thread)
        outer = capture.operator("aten::copy_", 0, 900, 100, step, thread=thread)
        capture.operator("aten::copy_", 0, 300, 300, step, parent=outer, thread=thread)
        capture.operator("aten::mm", 0, 500, 500, step, parent=outer, thread=thread)
    name = capture.string("aten::copy_")
    path = capture.finish()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE operator_totals SET calls = calls * 3 / 5 WHERE name = ?", (name,))
    fake.serve_file(path)
    for line, counts in (([], {4242: 10, 7: 8}), (["--step", "1"], {4242: 6, 7: 4}), (["--step", "3"], {4242: 2, 7: 0})):
        answer = json.loads(client.run("show", "17", "--format", "json", *line).stdout)
        assert {t["thread"]: t["operators"] for t in answer["threads"] if t["operators"]} == {t: n for t, n in counts.items() if n}
        assert sum(t["operators"] for t in answer["threads"]) == answer["totals"]["operators"]
        assert sum(t["self_cpu_ns"] for t in answer["threads"]) == answer["totals"]["self_cpu_ns"]


def test_tables(client, fake, capture):
    fake.serve_file(capture.finish())
    done = client.run("show", "17", "--by", "all")
    assert done.returncode == 0 and done.stderr == ""
    for text in ("Totals", "Steps", "Operators", "Ranges", "Threads", "Dropped or incomplete events\n  none", "Cost of the capture", "aten::addmm", "told by optimizer"):
        assert text in done.stdout, text
    assert len(client.run("show", "17", "--by", "operators", "--limit", "1").stdout) < len(done.stdout)
    assert "... and 1 more" in client.run("show", "17", "--by", "operators", "--limit", "1").stdout


def test_step_and_sort(client, fake, capture):
    fake.serve_file(capture.finish())

    def names(*words):
        done = client.run("show", "17", "--format", "csv", "--by", "operators", *words)
        assert done.returncode == 0, done.stderr
        return [(row["name"], int(row["calls"])) for row in csv.DictReader(io.StringIO(done.stdout))]
    assert names("--step", "2") == [("aten::mm", 1), ("aten::addmm", 1)]
    assert names("--step", "102") == names("--step", "2")
    assert names("--sort-by", "cpu_time_total") == [("aten::addmm", 3), ("aten::mm", 3)]
    assert names("--sort-by", "name") == [("aten::addmm", 3), ("aten::mm", 3)]
    assert names("--limit", "1") == [("aten::mm", 3)]
    assert client.run("show", "17", "--step", "9").returncode == 3


def test_not_recorded(client, fake, folder):
    file = CaptureFile(folder / "18.db", step_before=None, step_during=None)
    file.collector("steps")
    file.collector("nvtx")
    file.collector("torch", ran=False, sentence="libtorch is not in the process")
    file.step(1, 101, 0, 10_000_000, collectors=0b011)
    file.range("r", 0, 10)
    answer = served(client, fake, file)
    assert answer["steps"][0]["operators"] is None and answer["steps"][0]["ranges"] == 1
    assert answer["totals"]["operators"] is None and answer["totals"]["self_cpu_ns"] is None and answer["totals"]["marks"] == 0
    assert answer["cost"]["step_before_ns"] is None
    table = client.run("show", "17", "--by", "all").stdout
    assert "Operators\n  not recorded" in table and "libtorch is not in the process" in table
    assert "operators: not recorded: libtorch is not in the process" in client.run("show", "17").stdout


def test_shapes(client, fake, capture):
    capture.db.execute("UPDATE collectors SET ran = 1 WHERE collector = 'shapes'")
    small, large = capture.inputs("[[2, 2]]"), capture.inputs("[[1024, 1024]]")
    capture.operator("aten::relu", 0, 10, 10, inputs=small)
    capture.operator("aten::relu", 0, 500, 500, inputs=large)
    fake.serve_file(capture.finish())
    rows = json.loads(client.run("show", "17", "--group-by-shapes", "--format", "json").stdout)["operators"]
    assert {(r["input_shapes"], r["calls"]) for r in rows if r["name"] == "aten::relu"} == {("[[2, 2]]", 1), ("[[1024, 1024]]", 1)}


def test_hostile_names(client, fake, capture):
    capture.operator("a\x1b[31m\u202eb\r\nc", 0, 10, 10)
    capture.db.execute("INSERT INTO strings VALUES (900, CAST(X'ff41fe' AS TEXT))")
    capture.db.execute("UPDATE operators SET name = 900 WHERE name = (SELECT id FROM strings WHERE text = 'aten::mm')")
    fake.serve_file(capture.finish())
    for words in (["show", "17"], ["show", "17", "--format", "csv", "--by", "operators"]):
        out = client.run(*words).stdout
        assert "\x1b" not in out and "\u202e" not in out and "\r" not in out
    names = [o["name"] for o in json.loads(client.run("show", "17", "--format", "json").stdout)["operators"]]
    assert "a\x1b[31m\u202eb\r\nc" in names and "\ufffdA\ufffd" in names
    fake.answers["ps"] = [process_row(name="x\x1b]0;y\x07"), END]
    assert "\x1b" not in client.run("ps").stdout


def test_newest(client, fake, capture):
    fake.answers["captures"] = [capture_row("30", started_at="2026-11-21T15:00:00.000000Z", status="recording"),
                                capture_row("17", started_at="2026-11-21T14:59:00.000000Z"), capture_row("16"), END]
    fake.serve_file(capture.finish())
    assert client.run("show").returncode == 0
    assert fake.of("open")[0]["capture_id"] == "17"


def test_a_file_that_was_copied_away(lonely, capture):
    path = capture.finish()
    answer = json.loads(lonely.run("show", path, "--format", "json").stdout)
    assert answer["capture"]["pid"] == 4242 and answer["capture"]["status"] == "complete" and len(answer["steps"]) == 3
    assert answer["capture"]["started_at"].endswith("Z")


def test_what_is_no_capture(client, fake, folder):
    (folder / "no.db").write_bytes(b"not SQLite at all" * 1000)
    fake.serve_file(folder / "no.db")
    done = client.run("show", "17")
    assert done.returncode == 1 and done.stdout == "" and done.stderr.startswith("profd: ")
    assert client.run("show", folder / "none.db").returncode == 3
    fake.answers["open"] = [error("no_such_capture", "there is no capture 5; `profd captures` lists them")]
    assert client.run("show", "5").returncode == 3


def test_export(client, fake, capture, folder):
    fake.serve_file(capture.finish())
    path = folder / "t.json"
    done = client.run("export", "17", "--output", path)
    assert done.returncode == 0 and done.stdout == str(path) + "\n", done.stderr
    events = json.loads(path.read_text())["traceEvents"]
    assert sum(event.get("name") == "aten::mm" for event in events) == 3
    assert client.run("export", "17", "--output", path).returncode == 2
    assert client.run("export", "17", "--output", path, "--force").returncode == 0
    assert client.run("export", "17", "--output", folder / "t.xyz").returncode == 2
    done = client.run("export", "17", "--output", folder)
    assert done.stdout.endswith("train.py_4242.17.pt.trace.json.gz\n")
    assert json.loads(client.run("export", "17", "--output", "-").stdout)["traceEvents"]


def test_ps_json(client, fake):
    fake.answers["ps"] = [process_row(rank=0, world_size=8), END]
    row = json.loads(client.run("ps", "--format", "json").stdout)["processes"][0]
    assert (row["pid"], row["uid"], row["command"], row["step"], row["step_source"]) == (4242, 1000, "python3 train.py", 100, "optimizer")


def test_captures_are_sorted_and_limited(client, fake):
    fake.answers["captures"] = [capture_row(str(n), started_at="2026-11-21T14:%02d:00.000000Z" % n) for n in range(30)] + [END]
    done = client.run("captures")
    lines = done.stdout.splitlines()
    assert len(lines) == 21 and lines[1].split()[0] == "29" and "--limit" in done.stderr
    assert len(json.loads(client.run("captures", "--format", "json").stdout)["captures"]) == 30


def test_late_steps_are_explained_where_there_are_any(lonely, folder):
    for late, words in ((0, None), (1, "1 step later than asked"), (3, "3 steps later than asked")):
        gpu_capture(folder / "17.db", late_steps=late)
        for line in (("show", "--by", "all"), ("show", "--by", "cost")):
            text = lonely.run(line[0], folder / "17.db", *line[1:]).stdout
            assert "LATE STEPS" in text and (words in text if words else "late steps:" not in text), (late, text)


def test_two_tables_are_not_one(lonely, folder):
    """Of two the last was shown, and nothing said."""
    gpu_capture(folder / "17.db")
    for form in ("table", "csv"):
        done = lonely.run("show", folder / "17.db", "--by", "steps", "--by", "kernels", "--format", form)
        assert done.returncode == 2 and "--by all prints every one" in done.stderr and not done.stdout
    both = json.loads(lonely.run("show", folder / "17.db", "--by", "steps", "--by", "kernels", "--format", "json").stdout)
    assert both["steps"] and both["kernels"]
