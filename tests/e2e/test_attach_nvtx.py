"""NVTX of a process that was started without the agent: objects that have used NVTX before `profd attach`, that have not, that come later;
another tool's; and what only looks like NVTX's data."""
import os
import pathlib
import struct
import subprocess

import pytest

from conftest import BUILD, wait_for
from test_attach import bare
from test_nvtx_capture import MARKS, MIX, RANGES, query

LATE = BUILD / "workloads" / "nvtx_late"
STEPS = 5
# What one step of the program makes; the two ranges of the library beside.
RANGES_OF_STEP = {"step": 1, "inner": 3, "started": 1, "of a domain": 1}
pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone"),
              pytest.mark.skipif(not MIX.exists(), reason="workloads with NVTX were not built (PROFD_NVTX_INCLUDE)")]


class Job:
    """The program, which runs until it is told to end."""

    def __init__(self, profd, folder, how, program=LATE, agent=False, **env):
        self.profd = profd
        self.stay, self.go = folder / "stay", folder / "go"
        self.stay.touch()
        self.command = [str(program), how, "3"]
        self.env = {**(profd.env if agent else bare(profd)), "GO": str(self.go), **env}
        self.job = subprocess.Popen([*([profd.client, "run", "--"] if agent else []), *self.command], env={**self.env, "STAY": str(self.stay)},
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        profd.jobs.append(self.job)
        assert self.job.stdout.readline() == "ready\n", self.job.communicate()
        self.pid = self.job.pid

    def attach(self):
        self.profd.run("attach", "--pid", self.pid)

    def doctor(self):
        rows = self.profd.json("doctor", "--pid", self.pid, codes=range(10))["collectors"]
        return next((row["available"], row["sentence"]) for row in rows if row["collector"] == "nvtx")

    def capture(self, *arguments):
        return self.profd.trigger(self.pid, *(arguments or ("--step-range", "step", "--steps", STEPS)))

    def exact(self, capture, with_library=False):
        """Each range and mark of each step, and nothing else."""
        assert capture["status"] == "complete" and capture["steps_recorded"] == STEPS, capture
        assert capture["lost"] == 0
        wanted = {**RANGES_OF_STEP, **({"part": 2} if with_library else {})}
        got = {name: n for name, n in query(self.profd, capture, RANGES)}
        assert got == {name: STEPS * n for name, n in wanted.items()}
        assert query(self.profd, capture, MARKS) == [("mark", STEPS)]

    def ends_like_one_that_was_left_alone(self, **env):
        self.stay.unlink()
        out, err = self.job.communicate(timeout=60)
        alone = subprocess.run(self.command, env={**self.env, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert (self.job.returncode, "ready\n" + out, err) == (alone.returncode, alone.stdout, alone.stderr)
        assert (alone.returncode, out, err) == (0, "3 steps\n", "")


def notes(profd, capture):
    return profd.show(capture["capture_id"])["notes"]


@pytest.fixture(scope="module")
def stripped(tmp_path_factory):
    """Without any symbol but those that the loader needs."""
    folder = tmp_path_factory.mktemp("stripped")
    for name in ("nvtx_late", "libnvtx_part.so"):
        subprocess.run(["strip", "-o", folder / name, BUILD / "workloads" / name], check=True)
    return folder / "nvtx_late"


def slots(job):
    """(state, functions) of the program's nvtxGlobals."""
    symbols = subprocess.run(["nm", LATE], capture_output=True, text=True, check=True).stdout.splitlines()
    offset = next(int(line.split()[0], 16) for line in symbols if line.endswith(" nvtxGlobals_v3"))
    base = next(int(line.split("-")[0], 16) for line in pathlib.Path(f"/proc/{job.pid}/maps").read_text().splitlines() if line.endswith("/nvtx_late"))
    with open(f"/proc/{job.pid}/mem", "rb") as memory:
        memory.seek(base + offset)
        words = struct.unpack("<70Q", memory.read(560))
    return words[0], words[6:]


def maps_of(pid):
    return pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()


@pytest.mark.parametrize("how", ["used", "with"])
def test_used_before(profd, tmp_path, how):
    job = Job(profd, tmp_path, how)
    assert slots(job) == (2, (0,) * 64)
    job.attach()
    count = "2 loaded objects that use" if how == "with" else "1 loaded object that uses"
    assert job.doctor() == (True, f"ranges and marks of {count} NVTX")
    for _ in range(2):
        capture = job.capture()
        job.exact(capture, how == "with")
        assert not any("NVTX" in note for note in notes(profd, capture))
    job.ends_like_one_that_was_left_alone()


def test_without_symbols(profd, tmp_path, stripped):
    job = Job(profd, tmp_path, "with", program=stripped)
    job.attach()
    job.exact(job.capture(), with_library=True)
    job.ends_like_one_that_was_left_alone()


def test_never_used_so_far(profd, tmp_path):
    job = Job(profd, tmp_path, "unused")
    state, functions = slots(job)
    assert state == 0 and all(functions)
    job.attach()
    assert job.doctor() == (True, "ranges and marks of 1 loaded object that uses NVTX")
    job.go.touch()
    job.exact(job.capture())
    job.ends_like_one_that_was_left_alone()


def test_a_library_that_comes_later(profd, tmp_path):
    """Before a capture: it is found when that begins."""
    job = Job(profd, tmp_path, "later")
    job.attach()
    job.go.touch()
    wait_for(lambda: "libnvtx_part.so" in pathlib.Path(f"/proc/{job.pid}/maps").read_text(), what="the library")
    job.exact(job.capture(), with_library=True)
    job.ends_like_one_that_was_left_alone()


def test_a_library_that_comes_while_recording(profd, tmp_path):
    """Its ranges until it was noticed are missing, which the capture says."""
    job = Job(profd, tmp_path, "churn")
    job.attach()
    job.go.touch()
    capture = job.capture("--step-range", "step", "--steps", 60)
    count = dict(query(profd, capture, RANGES))
    assert (count["step"], count["inner"]) == (60, 180)
    assert count.get("part", 0) < 120
    assert any(note.startswith("NVTX: libraries were loaded in the recording; their NVTX ranges are missing") for note in notes(profd, capture))
    job.ends_like_one_that_was_left_alone()


def test_out_and_in_again(profd, tmp_path):
    job = Job(profd, tmp_path, "with")
    for _ in range(3):
        job.attach()
        state, functions = slots(job)
        assert state == 2 and sum(map(bool, functions)) == 11  # what makes handles and names
        job.exact(job.capture(), with_library=True)
        profd.run("detach", "--pid", job.pid)
        assert slots(job) == (2, (0,) * 64)
    job.ends_like_one_that_was_left_alone()


def test_detach_from_one_that_never_used_it(profd, tmp_path):
    """It has no tool then, whatever comes."""
    job = Job(profd, tmp_path, "unused")
    job.attach()
    profd.run("detach", "--pid", job.pid)
    assert slots(job) == (2, (0,) * 64)
    job.go.touch()
    job.attach()
    job.exact(job.capture())
    job.ends_like_one_that_was_left_alone()


TOOL = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef void (*function)(void);
struct callbacks { size_t size; int (*get)(int module, function ***table, unsigned *size); };
static long pushed;
static int push(const char *name) { (void)name; return (int)pushed++; }
static void __attribute__((destructor)) told(void)
{
	FILE *file = fopen(getenv("TOLD"), "w");
	fprintf(file, "%ld", pushed);
	fclose(file);
}
int InitializeInjectionNvtx2(const void *(*get)(uint32_t id))
{
	const struct callbacks *callbacks = get(1);
	function **table;
	unsigned size;
	if (callbacks->get(1, &table, &size))
		*table[9] = (function)push; /* nvtxRangePushA */
	return 1;
}
"""


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tool")
    (folder / "tool.c").write_text(TOOL)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libtool.so", folder / "tool.c"], check=True)
    return folder / "libtool.so"


def test_another_tool_has_it(profd, tmp_path, tool):
    told = {"NVTX_INJECTION64_PATH": str(tool), "TOLD": str(tmp_path / "told")}
    job = Job(profd, tmp_path, "used", **told)
    job.attach()
    said = "1 object's NVTX is held by another tool (libtool.so) and left to it"
    assert job.doctor() == (False, said)
    before = slots(job)
    capture = job.capture("--duration", "100ms")
    assert slots(job) == before and sum(map(bool, before[1])) == 1
    assert f"NVTX not recorded: {said}" in notes(profd, capture)
    assert query(profd, capture, "select count(*) from ranges where source in (1, 2)") == [(0,)]
    job.ends_like_one_that_was_left_alone(TOLD=str(tmp_path / "told alone"))
    assert int((tmp_path / "told").read_text()) > int((tmp_path / "told alone").read_text()) > 0


def test_another_tool_will_have_it(profd, tmp_path, tool):
    told = {"NVTX_INJECTION64_PATH": str(tool), "TOLD": str(tmp_path / "told")}
    job = Job(profd, tmp_path, "unused", **told)
    before = slots(job)
    job.attach()
    assert slots(job) == before
    assert job.doctor() == (False, "1 object's NVTX is left to the tool that NVTX_INJECTION64_PATH names (libtool.so)")
    job.go.touch()
    wait_for(lambda: slots(job)[0] == 2, what="the first call")
    assert "is held by another tool (libtool.so)" in job.doctor()[1]
    job.ends_like_one_that_was_left_alone(TOLD=str(tmp_path / "told alone"))
    assert int((tmp_path / "told").read_text()) > 0


def test_data_that_cannot_be_written(profd, tmp_path):
    """The program's own NVTX is recorded, the library's is not, and the capture says so."""
    job = Job(profd, tmp_path, "fixed")
    job.attach()
    assert job.doctor() == (True, "ranges and marks of 1 loaded object that uses NVTX; 1 object's NVTX could not be taken in")
    capture = job.capture()
    job.exact(capture)
    assert "NVTX: 1 object's NVTX could not be taken in" in notes(profd, capture)
    job.ends_like_one_that_was_left_alone()


@pytest.mark.parametrize("agent", [False, True])
@pytest.mark.parametrize("how", ["locked", "hidden"])
def test_data_that_is_protected_later(profd, tmp_path, how, agent):
    """What the job has protected since it was taken in is left as it is, and the captures say so; the job goes on."""
    job = Job(profd, tmp_path, how, agent=agent)
    if agent:
        profd.wait_registered(job.pid)
    else:
        job.attach()
    job.exact(job.capture(), with_library=True)
    job.go.touch()
    wait_for(lambda: not any(" rw-p " in line and "libnvtx_part" in line for line in maps_of(job.pid)), what="the data to be protected")
    for _ in range(2):
        capture = job.capture()
        job.exact(capture)
        assert any("1 object's NVTX lies in data that the job has protected since" in note for note in notes(profd, capture)), notes(profd, capture)
    assert "that the job has protected since" in job.doctor()[1]
    job.ends_like_one_that_was_left_alone()


def test_what_only_looks_like_it(profd, tmp_path):
    """148 copies, of which each differs from the real thing in one word, or that lie elsewhere: none is written to."""
    job = Job(profd, tmp_path, "forged")
    job.attach()
    said = job.doctor()
    # Those with a function of somebody else's in a slot are right in all else.
    assert said == (True, "ranges and marks of 1 loaded object that uses NVTX; 64 objects' NVTX is held by another tool (libc.so.6) and left to it")
    job.exact(job.capture())
    profd.run("detach", "--pid", job.pid)
    job.ends_like_one_that_was_left_alone()


def test_a_process_without_nvtx(profd):
    """It is not recorded, rather than recorded as nothing."""
    job = subprocess.Popen([BUILD / "workloads" / "steady", "sleep", "60"], env=bare(profd), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    profd.jobs.append(job)
    job.stdout.readline()
    profd.run("attach", "--pid", job.pid)
    capture = profd.trigger(job.pid, "--duration", "100ms")
    assert "NVTX not recorded: no object that is loaded carries NVTX (version 3)" in notes(profd, capture)


def test_taken_out_of_one_that_was_started_with_it(profd, tmp_path):
    job = Job(profd, tmp_path, "with", agent=True)
    wait_for(lambda: profd.process(job.pid), what="the agent")
    job.exact(job.capture(), with_library=True)
    profd.run("detach", "--pid", job.pid)
    assert slots(job) == (2, (0,) * 64)
    job.attach()
    job.exact(job.capture(), with_library=True)
    job.ends_like_one_that_was_left_alone()


# Stands in for NVTX 2, which NVIDIA no longer ships: its name, and some of what it exports. Without a tool the real one's do nothing either.
OLD_NVTX = """
int nvtxRangePushA(const char *text) { (void)text; return -2; }
int nvtxRangePop(void) { return -2; }
void nvtxMarkA(const char *text) { (void)text; }
"""
OLD_JOB = """
import ctypes, os, sys, time
stay, go, path = sys.argv[1:]
library = None
print("ready", flush=True)
while os.path.exists(stay):
    if not library and os.path.exists(go):
        library = ctypes.CDLL(path)
    if library:
        library.nvtxRangePushA(b"old"), library.nvtxMarkA(b"old"), library.nvtxRangePop()
    time.sleep(0.01)
print("the end")
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_of_before_version_3(profd, tmp_path, when):
    """libnvToolsExt.so (a stand-in) in the process, or loaded once the agent is there: nothing of it is recorded, and that is said."""
    library, stay, go = tmp_path / "libnvToolsExt.so.1", tmp_path / "stay", tmp_path / "go"
    (tmp_path / "old.c").write_text(OLD_NVTX)
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libnvToolsExt.so.1", "-o", library, tmp_path / "old.c"], check=True)
    stay.touch()
    job = subprocess.Popen(["/usr/bin/python3", "-c", OLD_JOB, stay, go, library], env=bare(profd), stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    profd.jobs.append(job)
    assert job.stdout.readline() == "ready\n"

    def load():
        go.touch()
        wait_for(lambda: library.name in pathlib.Path(f"/proc/{job.pid}/maps").read_text(), what="the library")

    if when == "before":
        load()
    profd.run("attach", "--pid", job.pid)
    if when == "after":
        load()
    capture = profd.trigger(job.pid, "--duration", "0.3s")
    assert capture["status"] == "complete", capture
    words = "libnvToolsExt.so (NVTX before version 3) cannot be given a tool any more"
    assert any(note.startswith("NVTX not recorded") and words in note for note in notes(profd, capture)), notes(profd, capture)
    assert query(profd, capture, RANGES) == query(profd, capture, MARKS) == []
    nvtx = next(row for row in profd.json("doctor", "--pid", job.pid, codes=range(10))["collectors"] if row["collector"] == "nvtx")
    assert not nvtx["available"] and words in nvtx["sentence"], nvtx
    stay.unlink()
    assert job.communicate(timeout=60) == ("the end\n", "") and job.returncode == 0
