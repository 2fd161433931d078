"""Every view, comparison and format of a finished capture: the command line ends as it says. Under the address sanitizer (`./dev test sanitize`)
it also ends so that nothing it has taken is lost: a leak has an exit code of its own there."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROFD = pathlib.Path(os.environ.get("PROFD_BUILD", ROOT / "build")) / "bin" / "profd"
TRACES = ROOT / "tests" / "data" / "traces"


def run(*words, code=0):
    done = subprocess.run([PROFD, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
                          env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == code, (words, done.returncode, done.stderr[-4000:])
    return done.stdout


def words_of(verb, option):
    """What --help says that the option takes."""
    text = run(verb, "--help").split(f"\n{option} takes:\n")[1].split("\n\n")[0]
    return re.findall(r"^  (\S+)  ", text, re.M)


@pytest.fixture(scope="module", params=["a100_ddp_rank0of2_nccl_data", "gp100_gpu_user_annotation"])
def capture(request, tmp_path_factory):
    file = tmp_path_factory.mktemp("whole") / "capture.db"
    run("import", TRACES / f"{request.param}.json.gz", "--output", file)
    return file


def test_show(capture):
    assert json.loads(run("show", capture, "--format", "json"))["schema"] == "profd.show/2"
    assert run("show", capture) and run("show", capture, capture)
    for view in words_of("show", "--by"):
        run("show", capture, "--by", view)
        if view != "all":
            run("show", capture, "--by", view, "--format", "csv", "--limit", 0)
    for more in (["--step", 1], ["--phase", "train"], ["--range", "aten::*"], ["--device", 0], ["--group-by-shapes"],
                 ["--where", "(calls>2 or self_cpu<=1ms) and name~aten"], ["--sort-by", "count"]):
        run("show", capture, "--by", "kernels" if "--device" in more else "operators", *more)
        if "--where" not in more:
            run("show", capture, "--format", "json", *more)
    for condition in ("none>2", "(calls>2", "calls~aten", "name"):
        run("show", capture, "--by", "operators", "--where", condition, code=2)


def test_compare_and_write(capture, tmp_path):
    run("diff", capture, capture, code=0)
    json.loads(run("diff", capture, capture, "--format", "json"))
    for kind in words_of("diff", "--by"):
        run("diff", capture, capture, "--by", kind)
    run("ranks", capture, code=2)
    beside = tmp_path / "beside.db"
    shutil.copy(capture, beside)
    with contextlib.closing(sqlite3.connect(beside)) as db, db:
        db.execute("UPDATE meta SET value = 1 WHERE key = 'rank'")
    for more in ([], ["--format", "json"], ["--format", "csv"], ["--limit", 1]):
        assert run("ranks", capture, beside, *more)
    run("report", capture, "--output", tmp_path / "page.html")
    for form in words_of("export", "--format"):
        lacks = form in ("folded", "memory_viz")  # stacks and blocks, which these traces do not hold
        run("export", capture, "--format", form, "--output", tmp_path / f"{form}.out", code=1 if lacks else 0)


def test_refused(tmp_path):
    (tmp_path / "no.db").write_text("no capture")
    run("show", tmp_path / "no.db", code=1)
    run("import", tmp_path / "no.db", "--output", tmp_path / "out.db", code=1)
    run("show", "--none", code=2)
