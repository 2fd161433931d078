"""page_run.py PAGE.html: runs the program of a page that `profd report` wrote, on a stub of a browser, moves and clicks in it, and
prints as JSON what it drew. Needs the package quickjs."""
import json
import pathlib
import re
import sys

import quickjs

STUB = pathlib.Path(__file__).with_name("page_stub.js").read_text()
page = pathlib.Path(sys.argv[1]).read_text()
data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1)
program = re.findall(r"<script>\n(.*?)</script>", page, re.S)[-1]
context = quickjs.Context()
context.set_max_stack_size(8 << 20)
context.eval(STUB)
context.eval("ids.data.textContent = " + json.dumps(data))
context.eval(program)
result = {"text": {name: context.eval(f"ids.{name}.textContent") for name in ("head", "verdict", "breakdown", "tables", "how", "foot")},
          "hidden": [name for name in ("verdict", "breakdown", "steps", "strip", "tree") if context.eval(f"ids.{name}.hidden")]}


def drawn(section):
    return json.loads(context.eval(f"JSON.stringify(canvasesOf('{section}').map(one => ({{rects: one.rects, texts: one.texts}})))"))


for section in ("steps", "strip", "tree"):
    result[section] = drawn(section)
# What a reader does: looks at a step, zooms and moves, points, goes into an operator and out, sorts and filters.
context.eval("""
for (const canvas of canvasesOf("steps")) { canvas.dispatch("mousemove", {clientX: 300, clientY: 100}); canvas.dispatch("click", {clientX: 300, clientY: 100}); }
for (const canvas of canvasesOf("strip")) {
  for (let i = 0; i < 30; i++) canvas.dispatch("wheel", {ctrlKey: true, deltaY: -1, clientX: 500, clientY: 30});
  for (let y = 0; y < 200; y += 4) canvas.dispatch("pointermove", {clientX: 500, clientY: y});
  canvas.dispatch("pointerdown", {clientX: 500, pointerId: 1}); canvas.dispatch("pointermove", {clientX: 300, clientY: 30}); canvas.dispatch("pointerup");
  for (const key of ["+", "-", "ArrowLeft", "ArrowRight", "Home"]) canvas.dispatch("keydown", {key});
}
for (const canvas of canvasesOf("tree")) { canvas.dispatch("mousemove", {clientX: 10, clientY: 25}); canvas.dispatch("click", {clientX: 10, clientY: 25}); canvas.dispatch("click", {clientX: 10, clientY: 5}); }
for (const button of ids.tables.querySelectorAll("button")) { button.dispatch("click"); button.dispatch("click"); }
for (const input of ids.tables.querySelectorAll("input")) { input.value = "aten"; input.dispatch("input"); }
""")
result["after"] = {"chosen": context.eval("ids.breakdown.querySelectorAll('select').map(one => one.value).join()"), "strip": drawn("strip")}
json.dump(result, sys.stdout)
