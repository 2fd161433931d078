"""`profd stack` beside py-spy's `dump`: the same threads, frames, files and lines of twenty programs, for less of the processor. PROFD_PYSPY names
py-spy's program; `./dev test attach` fetches it."""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys

import pytest

from cli import *  # noqa: F401,F403 (fixtures)
from conftest import WORKLOADS, wait_for
from proc import of_threads
from pythons import PYTHONS
from test_stack import process

sys.path.insert(0, str(WORKLOADS))
from standing import PROGRAMS

PYSPY = os.environ.get("PROFD_PYSPY")
STANDING = WORKLOADS / "standing.py"
pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone"),
              pytest.mark.skipif(not PYSPY, reason="py-spy is not there: PROFD_PYSPY names it")]


def ours(client, pid):
    threads = json.loads(client.run("stack", "--pid", pid, "--format", "json").stdout)["processes"][0]["threads"]
    assert all(thread["reading"] == "whole" for thread in threads), threads
    return {thread["tid"]: [(f["name"].rsplit(".", 1)[-1], f["file"], f["line"]) for f in thread["frames"]] for thread in threads}


def theirs(pid):
    done = subprocess.run([PYSPY, "dump", "--json", "--pid", str(pid)], capture_output=True, text=True, timeout=60, check=True)
    return {thread["os_thread_id"]: [(f["name"].rsplit(".", 1)[-1], f["filename"], f["line"]) for f in thread["frames"]]
            for thread in json.loads(done.stdout)}


def processor():
    """Seconds of all programs that have been waited for, to the microsecond."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_there_are_twenty():
    assert len(PROGRAMS) == 20


@pytest.mark.wide
@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_as_py_spy(lonely, version):
    spent, frames = [0.0, 0.0], 0
    for name in PROGRAMS:
        with process(PYTHONS[version], STANDING, name) as job:
            assert job.stdout.readline() == "ready\n"
            wait_for(lambda: pathlib.Path(f"/proc/{job.pid}/syscall").read_text().startswith("0 "), what="its read()")
            found = []
            for i, look in enumerate((lambda: ours(lonely, job.pid), lambda: theirs(job.pid))):
                before = processor()
                found.append(look())
                spent[i] += processor() - before
            assert found[0] == found[1], name
            frames += sum(map(len, found[0].values()))
    print(f"\nPython {version}: {len(PROGRAMS)} programs, {frames} frames, the same as py-spy's; processor: {spent[0]:.2f} s, py-spy {spent[1]:.2f} s")
    assert spent[0] < spent[1]


INTERPRETER = re.compile(r"/(lib)?python3[^/]*$")


def loaded_at(pid):
    """{file: where its beginning is mapped}"""
    rows = [line.split(maxsplit=5) for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {row[5]: int(row[0].split("-")[0], 16) for row in rows if len(row) == 6 and int(row[2], 16) == 0}


def plain(name):
    """A function may have several names: select() and __select(), and those of the parts that a compiler makes of it."""
    return name.split(".")[0].lstrip("_")


def ours_native(client, pid):
    threads = json.loads(client.run("stack", "--pid", pid, "--native", "--format", "json").stdout)["processes"][0]["threads"]
    assert all(thread["native_whole"] and thread["native_why"] is None for thread in threads), threads
    ret = {}
    for thread in threads:
        ret[thread["tid"]] = frames = []
        for f in thread["frames"]:
            if not f["native"]:
                frames.append((f["name"], f["file"], f["line"]))
            # What begins a program is not shown by py-spy.
            elif not INTERPRETER.search(f["file"]) and f["name"] not in ("__libc_start_main", "_start"):
                frames.append((f["name"] and plain(f["name"]), f["file"], f["address"] if f["name"] is None else 0))
    return ret


def theirs_native(pid, ours):
    done = subprocess.run([PYSPY, "dump", "--native", "--json", "--pid", str(pid)], capture_output=True, text=True, timeout=60, check=True)
    at = loaded_at(pid)
    ret = {}
    for thread in json.loads(done.stdout):
        ret[thread["os_thread_id"]] = frames = []
        for f in thread["frames"]:
            frame = (plain(f["name"]), f["module"], 0)
            if f["module"] is None:
                frames.append((f["name"], f["filename"], f["line"]))
            elif INTERPRETER.search(f["module"]):
                pass
            elif f["name"].startswith("0x"):
                # Behind a call, unless it is where the thread itself stands.
                frames.append((None, f["module"], int(f["name"], 16) - at[f["module"]] - (f is not thread["frames"][0])))
            # By debug information, which has the functions that the compiler has put into others, too.
            elif f["line"] == 0 or frame in ours[thread["os_thread_id"]]:
                frames.append(frame)
    return ret


@pytest.mark.wide
@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_native_as_py_spy(lonely, version):
    """py-spy stops the process for it, and so has all registers."""
    frames = 0
    for name in PROGRAMS:
        with process(PYTHONS[version], STANDING, name) as job:
            assert job.stdout.readline() == "ready\n"
            wait_for(lambda: all(text[0].isdigit() for text in of_threads(job.pid, "syscall").values()) and
                     pathlib.Path(f"/proc/{job.pid}/syscall").read_text().startswith("0 "), what="its read(), and the waits of its threads")
            found = ours_native(lonely, job.pid)
            assert found == theirs_native(job.pid, found), name
            frames += sum(map(len, found.values()))
    print(f"\nPython {version}: {len(PROGRAMS)} programs, {frames} frames outside of the interpreter, the same as py-spy's")
