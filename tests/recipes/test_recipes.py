"""The recipes of CONTRIBUTING.md, followed: for each a dummy is added to a copy of the repository at the places that the page
lists and nowhere else. The copy is built, and each dummy is seen to work in the programs.

A place is a hunk: lines that stand together in one file, or a new file. New files lie in new/RECIPE; recipes.py says which lines
are added where. A recipe that needs more places than MOST allows fails, and so does a list of the page that names other places."""
import collections
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "e2e")]

import house  # noqa: E402
from recipes import MOST, RECIPES  # noqa: E402

TARGETS = ("profd", "profd-daemon", "profd_agent", "workload_steps")


def run(*command, cwd, **more):
    done = subprocess.run([str(c) for c in command], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
    told = [line for line in done.stdout.splitlines() if not re.match(r"\[\d+/\d+\] ", line)]  # ninja's list of what is built
    assert done.returncode == 0, "\n".join([f"{command}: {done.returncode}", *told[-40:], done.stderr[-4000:]])
    return done.stdout


def git(folder, *arguments):
    identity = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    for who in ("AUTHOR", "COMMITTER"):
        identity.update({f"GIT_{who}_NAME": "recipes", f"GIT_{who}_EMAIL": "recipes@localhost"})
    return run("git", "-c", "core.autocrlf=false", *arguments, cwd=folder, env=identity)


def copy_repository(to):
    """What git knows or would take, without recordings and without what only tests of other parts need."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    for name in filter(None, listed):
        if name.startswith(("tests/data/", "tests/recipes/", "tests/replay/")) or not (ROOT / name).is_file():
            continue
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, to / name)


def add(folder, recipe):
    """Adds the dummy of one recipe. The places that this took: how many hunks in each file."""
    new = HERE / "new" / recipe.name
    for file in sorted(new.rglob("*")) if new.is_dir() else ():
        if file.is_file():
            target = folder / file.relative_to(new)
            assert not target.exists(), f"{target} is no new file"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    for row in recipe.rows:
        path = folder / row.file
        text = path.read_text(encoding="utf-8")
        match = re.search(row.before or row.after, text, re.M)
        assert match, f"{row.file} has nothing like {row.before or row.after}"
        at = match.start() if row.before else match.end()
        path.write_text(text[:at] + row.text + text[at:], encoding="utf-8")
    git(folder, "add", "-A")
    places = collections.Counter()
    file = None
    for line in git(folder, "diff", "--cached", "--unified=0", "--no-renames", "--no-color").splitlines():
        if line.startswith("+++ "):
            file = line[len("+++ b/"):]
        elif line.startswith("@@ "):
            places[file] += 1
    git(folder, "commit", "-q", "-m", recipe.name)
    return places


class Copy:
    def __init__(self, folder):
        self.folder = folder
        self.build = folder / "build"
        self.places = {}
        git(folder, "init", "-q")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", "as it is")
        for recipe in RECIPES:
            self.places[recipe.name] = add(folder, recipe)

    def compile(self):
        # Without optimisation it takes a third of the time. Paths that are relative let ccache know the next copy's files.
        environment = {**os.environ, "CCACHE_BASEDIR": str(self.folder), "CCACHE_NOHASHDIR": "1"}
        run("cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O0", cwd=self.folder,
            env=environment)
        run("ninja", "-C", "build", *TARGETS, cwd=self.folder, env=environment)


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipes") / "profd"
    folder.mkdir()
    copy_repository(folder)
    return Copy(folder)


@pytest.fixture(scope="module")
def built(copied):
    copied.compile()
    return copied


@pytest.fixture(scope="module")
def profd(built, tmp_path_factory):
    """A daemon of the copy's, its command line, and one capture of a job that ran with its agent."""
    house.BUILD = built.build
    profd = house.Profd(tmp_path_factory.mktemp("daemon"))
    try:
        profd.start_daemon()
        job = profd.job(built.build / "workloads" / "steps")
        profd.wait_steps(job.pid)
        profd.capture = profd.trigger(job.pid, "--steps", "3")["capture_id"]
        yield profd
    finally:
        for job in profd.jobs:
            job.kill()
            job.communicate()
        profd.stop_daemon()


def page_lists(word="dummy"):
    """Headings of recipes in CONTRIBUTING.md, and the first path of each numbered line below them."""
    found, heading = {}, None
    for line in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.strip("# ")
        match = re.match(r"\d+\. `([^`]+)`", line)
        if match and heading and heading.startswith("To add"):
            found.setdefault(heading, []).append(re.sub(r"\b[A-Z]{2,}\b", word, match.group(1)))
    return found


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_places(copied, recipe):
    """The recipe needs no more places than agreed, and the page lists exactly these."""
    places = copied.places[recipe.name]
    assert sum(places.values()) <= MOST[recipe.name], dict(places)
    listed = collections.Counter(path for heading in recipe.headings for path in page_lists(recipe.word)[heading])
    assert listed == places, f"CONTRIBUTING.md, {' and '.join(recipe.headings)}"


def test_all_recipes_are_followed():
    followed = {heading for recipe in RECIPES for heading in recipe.headings}
    assert followed == set(page_lists())


@pytest.mark.core
def test_configuration_key(built):
    printed = run(built.build / "bin" / "profd-daemon", "--print-config", cwd=built.folder)
    assert re.search(r"^#?dummy_key = 7", printed, re.M)


def test_verb(built):
    client = built.build / "bin" / "profd"
    assert re.search(r"^ *dummy +does nothing, as a test", run(client, "help", cwd=built.folder), re.M)
    assert run(client, "dummy", cwd=built.folder) == "a dummy\n"


def test_verb_with_an_op(profd):
    assert profd.run("asking").stdout == "the daemon answers\n"


def operator(name, start, duration, *types):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": duration,
            "args": {"External id": start, "Input Dims": [[2]] * len(types), "Input type": list(types)}}


def test_view(built, tmp_path):
    """Operators by dtype, in less than 30 lines. An operator that calls itself is one call, as in the table of operators."""
    lines = (HERE / "new/view/client/report/dtypes.c").read_text(encoding="utf-8").splitlines()
    assert len(lines) + 3 < 30, "with its row"
    trace, capture = tmp_path / "trace.json", tmp_path / "trace.db"
    trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 100, "dur": 1000},
        operator("aten::add", 110, 30, "float", "float"), operator("aten::add", 150, 20, "float", "float"),
        operator("aten::add", 200, 40, "c10::BFloat16", "float"),
        operator("aten::mul", 300, 90, "long int"), operator("aten::mul", 310, 70, "long int"),
    ]}))
    client = built.build / "bin" / "profd"
    run(client, "import", trace, "--output", capture, cwd=tmp_path)
    rows = json.loads(run(client, "show", capture, "--format", "json", cwd=tmp_path))["dtypes"]
    wanted = [("aten::add", ["float", "float"], 2, 50000), ("aten::add", ["c10::BFloat16", "float"], 1, 40000),
              ("aten::mul", ["long int"], 1, 90000)]
    assert [(row["name"], json.loads(row["input_types"]), row["calls"], row["cpu_ns"]) for row in rows] == wanted
    shown = run(client, "show", capture, "--by", "dtypes", cwd=tmp_path)
    assert re.search(r"^aten::add +\[.*float.*\] +2 ", shown, re.M), shown


def test_format(profd):
    path = profd.folder / "exported.dummy"
    profd.run("export", profd.capture, "--format", "dummy", "--output", path)
    assert path.read_text() == "dummy of 3 steps\n"
    path.unlink()
    profd.run("export", profd.capture, "--output", path)
    assert path.read_text() == "dummy of 3 steps\n"


def test_collector(profd):
    rows = [row for row in profd.show(profd.capture)["collectors"] if row["collector"] == "dummy"]
    assert len(rows) == 1 and rows[0]["on"], rows


def test_event_kind(profd):
    """The collector's record went through the sink, the segment and the daemon's checks into a table of its own."""
    with sqlite3.connect(f"file:{profd.file(profd.capture)}?mode=ro", uri=True) as file:
        assert file.execute("SELECT time, value FROM dummies").fetchall() == [(0, 2.5)]
