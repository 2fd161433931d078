"""The page of `profd report` as people use it: of a live capture, given away; and in a browser, with its strip and its tables."""
import getpass
import json
import platform
import shutil

import pytest
from conftest import BUILD
from readers.browser import Browser
from readers.perfetto import chromium  # noqa: F401 (a fixture)
from test_import import TRACES, imported, run
from test_report import data_of, data_text

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
