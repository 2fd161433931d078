"""The page of `profd report` in a browser: on a phone, on a desk, light, dark, on paper. Nothing is wider than what it is shown on."""
import base64
import json
import re

import pytest
from readers.browser import Browser
from readers.perfetto import chromium  # noqa: F401 (a fixture)
from test_import import TRACES, imported, run

WIDTHS = [320, 400, 760, 1280]
PAPER = 718  # A4 with Chromium's margins, in pixels of CSS
# Of what is not in a box that scrolls by itself nothing may end behind the window.
ASKED = """(() => {
  const wide = document.documentElement.clientWidth, over = [];
  for (const one of document.body.querySelectorAll("*")) {
    let boxed = false;
    for (let up = one.parentElement; up && up !== document.body; up = up.parentElement)
      boxed = boxed || ["auto", "scroll", "hidden"].includes(getComputedStyle(up).overflowX);
    if (!boxed && one.getBoundingClientRect().right > wide + 1) over.push(`${one.tagName} ${one.className} ${one.textContent.slice(0, 40)}`);
  }
  const style = getComputedStyle(document.body);
  return JSON.stringify({width: wide, scroll: document.scrollingElement.scrollWidth, over: over.slice(0, 5), back: style.backgroundColor, front: style.color,
                         canvases: [...document.querySelectorAll("canvas")].filter(one => one.width && one.height).length,
                         findings: document.querySelectorAll(".finding").length});
})()"""


@pytest.fixture(scope="module", params=[trace for trace in TRACES if trace.name.startswith(("a100_ddp", "a100_alexnet"))], ids=lambda trace: trace.name[:12])
def page(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    run("report", imported(request.param, folder), "--output", folder / "page.html")
    return folder / "page.html"


def brightness(color):
    return sum(map(int, re.findall(r"\d+", color)[:3])) / 3


def shown(browser, page, width, media="screen", scheme="light"):
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
    browser.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Emulation.setScrollbarsHidden", hidden=True)
    asked = f"?{width}-{media}-{scheme}"
    browser.open(f"file://{page}{asked}")
    # Not the page as it was before.
    browser.wait_for(f"location.search === '{asked}' && document.readyState === 'complete' && document.querySelectorAll('.finding').length > 0")
    told = json.loads(browser.evaluate(ASKED))
    assert told["width"] == width and told["scroll"] <= width and not told["over"], told
    assert told["canvases"] >= 2, told
    return told


def test_it_is_no_wider_than_what_it_is_shown_on(chromium, page):  # noqa: F811
    with Browser(chromium) as browser:
        for scheme in ("light", "dark"):
            for width in WIDTHS:
                told = shown(browser, page, width, scheme=scheme)
                back, front = brightness(told["back"]), brightness(told["front"])
                assert (back < 60 and front > 190) if scheme == "dark" else (back > 230 and front < 60), told
        assert browser.errors == []


def test_it_can_be_printed(chromium, page):  # noqa: F811
    with Browser(chromium) as browser:
        shown(browser, page, PAPER, "print")
        data = base64.b64decode(browser.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"])
        assert browser.errors == []
    assert data.startswith(b"%PDF-") and 1 <= len(re.findall(rb"/Type\s*/Page\b", data)) <= 60
