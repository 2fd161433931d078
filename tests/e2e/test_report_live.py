"""The page of `profd report` as people use it: of a live capture, given away; and in a browser, with its strip and its tables."""
import getpass
import json
import platform
import re
import shutil

import pytest
from conftest import BUILD
from readers.browser import Browser
from readers.perfetto import chromium  # noqa: F401 (a fixture)
from test_import import TRACES, imported, run
from test_report import data_of, data_text, page_of, pieces, trace_of

ZOOM = """(() => {
  const view = document.querySelector("#strip canvas"), shown = () => view.toDataURL(), seen = [shown()];
  for (const word of ["zoom in", "zoom out", "all"]) {
    [...document.querySelectorAll("#strip button")].find(one => one.textContent === word).click();
    seen.push(shown());
  }
  view.dispatchEvent(new KeyboardEvent("keydown", {key: "+"}));
  seen.push(shown());
  view.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}));
  seen.push(shown());
  view.dispatchEvent(new KeyboardEvent("keydown", {key: "Home"}));
  seen.push(shown());
  return JSON.stringify(seen.map(one => seen.indexOf(one)));
})()"""
# Of a column: its cells, and how its head says that it is sorted.
SORT = """(() => {
  const box = [...document.querySelectorAll("details")].find(one => one.querySelector("summary").firstChild.textContent === "%s");
  const heads = [...box.querySelectorAll("th")], at = heads.findIndex(head => head.textContent === "%s"), found = [];
  for (let i = 0; i < 2; i++) {
    heads[at].querySelector("button").click();
    found.push([heads[at].getAttribute("aria-sort"), [...box.querySelectorAll("tbody tr")].map(row => row.children[at].textContent)]);
  }
  const filter = box.querySelector("input");
  filter.value = "%s";
  filter.dispatchEvent(new Event("input"));
  found.push([...box.querySelectorAll("tbody tr")].map(row => row.textContent));
  return JSON.stringify(found);
})()"""

# What is told at so much of the strip's width, in the lane of a track or of its names.
HOVER = """(() => {
  const view = document.querySelector("#strip canvas"), box = view.getBoundingClientRect();
  view.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + 64 + (box.width - 64) * %f, clientY: box.top + %d}));
  const tip = document.getElementById("tip");
  return tip.hidden ? null : tip.textContent;
})()"""
# The strip's measures in page.js: a ruler, then each track's lane, and a line for each name that lies under another one.
RULER, LANE = 20, 22


def test_nothing_private_of_a_live_capture(profd):
    folder = profd.folder / "ann-private"
    folder.mkdir()
    shutil.copy(BUILD / "workloads" / "steps", folder / "loop")
    job = profd.job(folder / "loop", "--step-ms=5", cwd=folder)
    profd.wait_steps(job.pid, 1)
    capture = profd.trigger(job.pid, "--steps", 3)["capture_id"]
    pages = [profd.folder / "whole.html", profd.folder / "redacted.html"]
    profd.run("report", capture, "--output", pages[0])
    profd.run("report", capture, "--redact", "--output", pages[1])
    whole, redacted = (page.read_text() for page in pages)
    about = data_of(whole)["about"]
    # What it would tell.
    assert "ann-private" in whole and about["host"] == platform.node() and "--step-ms=5" in about["command"]
    for private in ("ann-private", "--step-ms=5", str(profd.folder), profd.folder.name):
        assert private not in redacted, private
    told = data_text(redacted)
    # Short names may stand in other words: as whole strings.
    for private in (platform.node(), getpass.getuser()):
        assert f'"{private}"' not in told, private
    assert not {"command", "host", "user", "uid"} & set(data_of(redacted)["about"])


@pytest.mark.wide
def test_zoom_sort_and_filter(chromium, tmp_path):  # noqa: F811
    page = tmp_path / "page.html"
    run("report", imported(next(trace for trace in TRACES if trace.name.startswith("a100_ddp")), tmp_path), "--output", page)
    table = next(table for table in data_of(page.read_text())["tables"] if table["heading"] == "Kernels")
    calls = sorted(row[[column["title"] for column in table["columns"]].index("CALLS")] for row in table["rows"])
    with Browser(chromium) as browser:
        browser.open(f"file://{page}")
        browser.wait_for("document.readyState === 'complete' && document.querySelectorAll('#strip canvas').length > 0")
        # Another picture, the first one again, and that; the key's, moved by a tenth, and all again.
        assert json.loads(browser.evaluate(ZOOM)) == [0, 1, 0, 0, 1, 5, 0]
        down, up, kept = json.loads(browser.evaluate(SORT % ("Kernels", "CALLS", "nccl")))
        assert browser.errors == []
    assert down == ["descending", [f"{count:,}" for count in reversed(calls)]]
    assert up == ["ascending", [f"{count:,}" for count in calls]]
    assert len(kept) == sum("nccl" in row[0].lower() for row in table["rows"]) > 0 and all("nccl" in row.lower() for row in kept)


@pytest.mark.wide
def test_hover_tells_what_it_is(chromium, tmp_path):  # noqa: F811
    """Of 60,000 events, which are gathered: the piece that is pointed at, or its name where this is among the longest."""
    trace_of(["loss.backward"], tmp_path / "t.json.gz", count=20000)
    data = data_of(page_of(imported(tmp_path / "t.json.gz", tmp_path), tmp_path))
    strip, track = data["strip"], data["strip"]["tracks"][0]
    assert track["gathered"] and track["title"] == "device 0"
    start, end, row = max(pieces(track), key=lambda piece: piece[1] - piece[0])
    label = max(track["labels"], key=lambda one: one[1])

    def share(time):
        return (time - strip["start"]) / (strip["end"] - strip["start"])
    with Browser(chromium) as browser:
        browser.open(f"file://{tmp_path / 'page.html'}")
        browser.wait_for("document.readyState === 'complete' && document.querySelectorAll('#strip canvas').length > 0")
        told = browser.evaluate(HOVER % (share((start + end) / 2), RULER + LANE / 2)).splitlines()
        named = browser.evaluate(HOVER % (share(label[0] + label[1] / 2), RULER + LANE + 5)).splitlines()
        nothing = browser.evaluate(HOVER % (-0.01, RULER + LANE / 2))
        assert browser.errors == []
    title = track["titles"][track["rows_of"].index(row)]
    assert re.fullmatch(re.escape(title) + r": [\d.,]+ \w+ \(pieces under [\d.,]+ \w+ are gathered\)", told[0]), told
    assert named[0].startswith(strip["names"][label[2]] + ": ") and named[-1].startswith("at "), named
    assert nothing is None
