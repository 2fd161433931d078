"""`profd report`: one page, that holds what the capture holds, loads nothing, and draws itself."""
import collections
import gzip
import json
import os
import pathlib
import re
import subprocess

import pytest
from test_import import PROFD, TRACES, imported, run, show

RUN = pathlib.Path(__file__).with_name("readers") / "page_run.py"


def page_of(capture, folder, *more):
    page = folder / "page.html"
    done = run("report", capture, "--output", page, "--force", *more)
    assert done.stdout == f"{page}\n"
    return page.read_text()


def data_of(page):
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert len(found) == 1
    return json.loads(found[0])


def drawn(folder):
    python = os.environ.get("PROFD_QUICKJS")
    if not python:
        pytest.skip("quickjs is not there: ./dev test fetches it")
    done = subprocess.run([python, RUN, folder / "page.html"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def pieces(track):
    """(start, end, row) of each."""
    now = track["start"]
    for letter, digits in re.findall(r"([A-Z_])([0-9a-z]+)", track["pieces"]):
        length = int(digits, 36)
        yield now, now + length, None if letter == "_" else track["rows_of"][ord(letter) - 65]
        now += length


def sums_of(track, steps):
    sums = [collections.Counter() for _ in steps]
    for start, end, row in pieces(track):
        for index, step in enumerate(steps):
            part = min(end, step["end"]) - max(start, step["start"])
            if part > 0:
                sums[index][row] += part
    return [{row: ns for row, ns in one.items() if row} for one in sums]


def wanted(data, step, device):
    if device is None:
        return {row["word"]: ns for row, ns in zip(data["host_rows"], step["host"]) if ns}
    side = step["devices"][device]
    rows = {row["word"]: ns for row, ns in zip(data["device_rows"], side["rows"]) if ns and row["word"] != "idle"}
    rows.update({f"idle {row['word']}": ns for row, ns in zip(data["idle_rows"], side["idle"]) if ns})
    return rows


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.name.split(".")[0])
def test_page(trace, tmp_path):
    """Its rows are those of `profd show`, and the timeline's pieces add up to them; it refers to nothing outside of itself."""
    capture = imported(trace, tmp_path)
    page = page_of(capture, tmp_path)
    assert len(page) < 2e6
    assert not re.search(r"https?://|src=|@import|url\(|<link|fetch\(|XMLHttp|WebSocket", page.replace(data_text(page), ""))
    data = data_of(page)
    rows = [row for row in show(capture, "breakdown") if row["side"] == "host"]
    for row in rows:
        index = [one["word"] for one in data["host_rows"]].index(row["row"])
        assert sum(step["host"][index] for step in data["steps"]) == int(row["total_ns"])
    tracks = data["strip"]["tracks"]
    assert [track["title"] for track in tracks] == [f"device {number}" for number in data["devices"]] + ["host"]
    for number, track in enumerate(tracks):
        device = number if number < len(data["devices"]) else None
        if not track["gathered"]:
            assert sums_of(track, data["steps"]) == [wanted(data, step, device) for step in data["steps"]]
        for start, length, name, lane in track["labels"]:
            assert length >= 0 and 0 <= name < len(data["strip"]["names"]) and lane < 12 and start >= 0
    if data["tree"]["nodes"]:
        for index, (parent, name, calls, *_) in enumerate(data["tree"]["nodes"]):
            assert -1 <= parent < index and calls > 0 and data["tree"]["names"][name]
    shows = drawn(tmp_path)
    assert "capture import" in shows["text"]["head"] and "loads nothing from a network" in shows["text"]["foot"]
    assert shows["strip"][0]["rects"] and shows["after"]["strip"][0]["rects"]
    verdict = json.loads(run("show", capture, "--format", "json").stdout)["findings"]
    assert [one["what"] for one in data["verdict"]["findings"]] == [one["what"] for one in verdict]
    assert data["verdict"]["verdict"] in shows["text"]["verdict"]
    for finding in verdict:
        assert finding["what"] in shows["text"]["verdict"] and finding["try"] in shows["text"]["verdict"]
    for row in rows:
        assert row["percent"] and {one["word"]: one["title"] for one in data["host_rows"]}[row["row"]] in shows["text"]["breakdown"]
    if len(data["steps"]) > 1:
        assert shows["steps"][0]["rects"] and shows["after"]["chosen"] != "-1"


def data_text(page):
    return re.search(r'id="data">(.*?)</script>', page, re.S).group(1)


def trace_of(names, path, count=0):
    """A small trace of one step, with operators of these names."""
    events = [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 7, "tid": 7, "ts": 0, "dur": 1000000}]
    for index, name in enumerate(names):
        events.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": 7, "ts": 10 + 100 * index, "dur": 50})
    for index in range(count):
        start = 20000 + index * 3
        events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": start, "dur": 2})
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": start, "dur": 1,
                       "args": {"correlation": index + 1}})
        events.append({"ph": "X", "cat": "kernel", "name": f"gemm_{index % 7}", "pid": 0, "tid": 7, "ts": start + 1 + index % 3 / 4,
                       "dur": 0.25 + index % 5 / 4, "args": {"device": 0, "stream": 7, "correlation": index + 1}})
    with gzip.open(path, "wt") as file:
        json.dump({"traceEvents": events}, file)


def test_hostile_names(tmp_path):
    """A name cannot end the data, or become part of the page."""
    names = ["</script><script>alert(1)</script>", "<!--<script>", "]]>", "a\u2028b", "@DATA@", "\u202egnp.exe", "\"quote'&amp;"]
    trace_of(names, tmp_path / "t.json.gz")
    page = page_of(imported(tmp_path / "t.json.gz", tmp_path), tmp_path)
    assert page.count("</script>") == 2 and "<!--" not in page and page.count("alert(1)") >= 1
    data = data_of(page)
    assert set(names) <= set(data["tree"]["names"])
    drawn(tmp_path)


def test_redact(tmp_path):
    """Paths lose all but their last part; what is no path stays."""
    trace_of(["/home/ann/secret/train.py(12): step", "aten::add", "loads /data/ann/x.bin and ~/y.bin", "a/b", "12 tokens/s"], tmp_path / "t.json.gz")
    capture = imported(tmp_path / "t.json.gz", tmp_path)
    page = page_of(capture, tmp_path, "--redact")
    data = data_of(page)
    assert not re.search(r"\bann\b|secret", data_text(page))
    assert {"train.py(12): step", "aten::add", "loads x.bin and y.bin", "a/b", "12 tokens/s"} <= set(data["tree"]["names"])
    assert not {"command", "host", "user", "uid"} & set(data["about"]) and data["redacted"]
    whole = data_of(page_of(capture, tmp_path))
    assert "/home/ann/secret/train.py(12): step" in whole["tree"]["names"] and "host" in whole["about"]


def test_fine_pieces(tmp_path):
    """More pieces than a page can hold are gathered: it stays small, and its sums true."""
    trace_of([], tmp_path / "t.json.gz", count=60000)
    page = page_of(imported(tmp_path / "t.json.gz", tmp_path), tmp_path)
    data = data_of(page)
    device = data["strip"]["tracks"][0]
    assert len(page) < 2e6 and device["gathered"] and len(list(pieces(device))) <= 60000
    whole = collections.Counter()
    for start, end, row in pieces(device):
        whole[row] += end - start
    step = wanted(data, data["steps"][0], 0)
    assert whole["compute"] == step["compute"]
    assert sum(ns for row, ns in whole.items()) == device_span(device)
    drawn(tmp_path)


def test_many_devices_and_long_names(tmp_path):
    """60,000 events of 8 devices in 1,000 steps, whose 3,000 names are long: it stays small, and says what it left out."""
    names = [f"void kernel_{i}<" + ", ".join(f"std::integral_constant<int, {(i * 7 + k) % 97}>" for k in range(7)) + ">(float *)" for i in range(3000)]
    events = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 1, "tid": 1, "ts": n * 60, "dur": 60} for n in range(1000)]
    for number in range(24000):
        at, device = number * 2.5, number % 8
        events.append({"ph": "X", "cat": "cpu_op", "name": names[number % 3000][5:], "pid": 1, "tid": 1, "ts": at, "dur": 2})
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 0.5, "dur": 1, "args": {"correlation": number + 1}})
        events.append({"ph": "X", "cat": "kernel", "name": names[number * 11 % 3000], "pid": 0, "tid": 7, "ts": at + 1 + number % 5 / 8, "dur": 3 + number % 7,
                       "args": {"device": device, "context": 1, "stream": 7, "correlation": number + 1}})
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    page = page_of(imported(tmp_path / "t.json", tmp_path), tmp_path)
    data = data_of(page)
    assert len(events) > 60000 and len(page.encode()) < 2e6, len(page.encode())
    assert len(data["devices"]) == 8 and data["step_count"] == 1000 > len(data["steps"]) > 100
    kernels = next(table for table in data["tables"] if table["heading"] == "Kernels")
    assert kernels["total"] == 3000 > len(kernels["rows"]) >= 50
    for known in (data["strip"]["names"], data["tree"]["names"]):
        assert len(set(known)) == len(known) > 0
    written = {event["name"] for event in events}
    assert not written.issuperset(data["tree"]["names"]) and data["tree"]["shortened"]
    # There kernels have their short names, which leave room enough.
    assert (written | {f"kernel_{i}" for i in range(3000)}).issuperset(data["strip"]["names"]) and "long ones are shortened" not in data["strip"]["sentence"]


def device_span(track):
    every = list(pieces(track))
    return every[-1][1] - every[0][0]


def test_files(tmp_path):
    """What is there is left alone, a folder is made, and a pipe gets the page."""
    trace_of(["aten::add"], tmp_path / "t.json.gz")
    capture = imported(tmp_path / "t.json.gz", tmp_path)
    page = tmp_path / "page.html"
    page.write_text("mine")
    assert "exists" in run("report", capture, "--output", page, code=2).stderr and page.read_text() == "mine"
    done = run("report", capture, "--output", f"{tmp_path}/new/", cwd=tmp_path)
    assert pathlib.Path(done.stdout.strip()).parent == tmp_path / "new" and pathlib.Path(done.stdout.strip()).suffix == ".html"
    assert run("report", capture, cwd=tmp_path).stdout.strip().endswith(".html")
    assert run("report", capture, "--output", "-").stdout.startswith("<!doctype html>")
    assert "cannot" in run("report", capture, "--output", "/proc/nothing/page.html", code=1).stderr
    assert subprocess.run([PROFD, "report", str(page)], capture_output=True, text=True, stdin=subprocess.DEVNULL).returncode != 0
