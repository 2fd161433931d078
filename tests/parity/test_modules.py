"""--modules of models of all kinds: its tree is that of the modules which torch's own hooks see called."""
import json
import sqlite3
import time

import plan
import pytest
from job import MODELS, SECONDS, Job, python_for
from test_unharmed import Pace

NO_OPERATOR = {"Identity"}
# What torch.compile makes of a model does not call the modules within.
COMPILED = {"compile": {"", "_orig_mod"}}
SQL = """WITH RECURSIVE paths(id, path, class) AS (
    SELECT m.id, json_array(c.text), c.text FROM nn_modules m JOIN strings c ON c.id = m.class WHERE m.parent = 0 UNION ALL
    SELECT m.id, json_insert(p.path, '$[#]', coalesce(n.text, '(' || c.text || ')')), c.text FROM paths p JOIN nn_modules m ON m.parent = p.id
    LEFT JOIN strings n ON n.id = m.name JOIN strings c ON c.id = m.class) SELECT path, class FROM paths"""


def seen(profd, capture):
    """{(class of the outermost, name, ...): class}"""
    with sqlite3.connect(f"file:{profd.file(capture)}?mode=ro", uri=True) as db:
        return {(json.loads(path)[0], *".".join(json.loads(path)[1:]).split(".")): name for path, name in db.execute(SQL)}


@pytest.mark.parametrize("model", MODELS)
def test_modules(profd, model, record_property):
    python = python_for(model, ["transformer"])
    pace = Pace(profd.folder / model)
    pace.set(plan.UNWATCHED)
    job = Job(profd, python, model, "paced", "modules", folder=pace.folder)
    for process in job.jobs:
        profd.wait_steps(process.pid, 2, SECONDS)
    client = job.armed("--steps", plan.ACTIVE, "--modules")
    while client.poll() is None:
        pace.set(pace.allowed + 1)
        time.sleep(0.03)
    captures = [row["capture_id"] for row in job.captured(client)]
    pace.set(pace.allowed + 2, pace.allowed + 2)
    job.end()
    for folder, capture in zip(job.folders, captures):
        ours = seen(profd, capture)
        theirs = {(path[0], *".".join(path[1:]).split(".")): name for *path, name in json.loads((folder / "called").read_text())}
        print(profd.run("show", capture, "--by", "modules").stdout)
        theirs = {path: name for path, name in theirs.items() if model not in COMPILED or path[1] in COMPILED[model]}
        missing = {path: name for path, name in theirs.items() if path not in ours and name not in NO_OPERATOR}
        extra = {path: name for path, name in ours.items() if theirs.get(path) != name}
        record_property("modules", f"{model}: {len(ours)} modules, those that torch's hooks see called")
        assert len(ours) and not missing and not extra, (missing, extra)
