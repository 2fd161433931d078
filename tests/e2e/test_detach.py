"""`profd detach`: afterwards nothing of the agent runs in the process, which goes on as if it had never been there."""
import json
import os
import pathlib
import re
import signal
import struct
import time

import pytest

import fake_agent as fake
from conftest import BUILD, stop, wait_for
from proc import of_threads, opened
from test_attach import TRAIN, begin, counted, trains
from test_nvtx_capture import RANGES, query

TORCH = os.environ.get("PROFD_TORCH_NEWEST")
pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone")
needs_torch = pytest.mark.skipif(not TORCH, reason="no torch")

# What torch calls at each operator: it says so whenever that changes.
HOOKED = TRAIN.replace("losses = []", """losses = []
import ctypes, glob
library = ctypes.CDLL(glob.glob(os.path.dirname(torch.__file__) + "/lib/libtorch_cpu.so")[0])
has = library._ZN2at18hasGlobalCallbacksEv
has.restype = ctypes.c_bool
hooked = []
""").replace("    losses.append", """    if not hooked or hooked[-1] != has():
        hooked.append(has())
        open(sys.argv[2], "a").write(f"{hooked[-1]}\\n")
    losses.append""")


def threads(pid):
    return sorted(name.strip() for name in of_threads(pid, "comm").values() if name.startswith("profd"))


def descriptors(pid):
    """Of all tables: a thread may have its own."""
    return sorted({row for task in pathlib.Path(f"/proc/{pid}/task").glob("*") for row in opened(task / "fd").items()})


def settled(look):
    """What it sees twice in a row: a job that has just begun loads libraries still."""
    def twice():
        seen = look()
        time.sleep(0.2)
        return seen if look() == seen else None
    return wait_for(twice, what="a job at rest")


def libraries(pid):
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    return sum("libprofd_agent" in line and line.split()[2] == "00000000" for line in lines)


def shared_pages(pid):
    return [line for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
            if "/memfd:" in line and "libprofd_agent" not in line]


def nothing_runs(profd, pid):
    assert not threads(pid) and not shared_pages(pid)
    done = profd.run("ps", "--pid", pid, check=False)
    assert done.returncode == 3 and f"the agent of process {pid} was detached; `profd attach --pid {pid}`" in done.stderr, done
    done = profd.run("doctor", "--pid", pid, check=False)
    assert "the agent was detached: its library is mapped, and nothing of it runs" in " ".join(done.stdout.split()), done


@pytest.mark.core
@needs_torch
def test_nothing_is_left(profd, tmp_path):
    (tmp_path / "train.py").write_text(HOOKED)
    stay = tmp_path / "stay"
    stay.touch()
    hooked = tmp_path / "hooked"
    job = begin(profd, [TORCH, tmp_path / "train.py", stay, hooked])
    wait_for(lambda: hooked.exists() and hooked.read_text(), what="a step without a callback")
    before = settled(lambda: descriptors(job.pid))
    for _ in range(2):
        profd.run("attach", "--pid", job.pid)
        row = profd.wait_steps(job.pid, 5)
        assert "counted from its attachment on" in row["step_note"]
        captured = profd.trigger(job.pid, "--steps", "2")
        assert captured["status"] == "complete"
        assert threads(job.pid) and libraries(job.pid) == 1
        assert "the agent has left" in profd.run("detach", "--pid", job.pid).stdout
        nothing_runs(profd, job.pid)
        wait_for(lambda: hooked.read_text().split()[-1] == "False", what="a step without a callback")
        assert descriptors(job.pid) == before
    assert hooked.read_text().split() == ["False", "True", "False", "True", "False"]
    trains(job, stay, lambda steps: begin(profd, [TORCH, tmp_path / "train.py", steps, tmp_path / "untouched"]))
    lines = profd.json("audit")["lines"]
    lines = [line for line in reversed(lines) if line["action"] in ("attach", "detach")]
    assert [(line["action"], line["outcome"], line["target_pid"], line["subject"]) for line in lines] == 2 * [
        ("attach", "asked", job.pid, ""), ("attach", "attached", job.pid, "train.py"), ("detach", "asked", job.pid, "train.py")]
    # By the client, each time another process.
    assert all(line["uid"] == os.getuid() and line["pid"] not in (0, job.pid) for line in lines)
    assert lines[0]["pid"] == lines[1]["pid"] != lines[2]["pid"]


@needs_torch
def test_in_the_middle_of_a_capture(profd, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    stay = tmp_path / "stay"
    stay.touch()
    job = begin(profd, [TORCH, tmp_path / "train.py", stay])
    profd.run("attach", "--pid", job.pid)
    profd.wait_steps(job.pid, 3)
    trigger = profd.follow("--pid", job.pid, "--steps", 90000)
    recording = wait_for(lambda: (row := profd.process(job.pid)) and row["state"] == "recording" and row, what="the recording")
    # A detachment within the first step leaves no whole step.
    profd.wait_steps(job.pid, recording["step"] + 3)
    profd.run("detach", "--pid", job.pid)
    out, err = trigger.communicate(timeout=60)
    assert trigger.returncode == 5, err
    captured = json.loads(out)["captures"][0]
    assert (captured["status"], captured["reason_code"]) == ("incomplete", "detached"), captured
    assert captured["steps_recorded"] > 0
    nothing_runs(profd, job.pid)
    trains(job, stay, lambda steps: begin(profd, [TORCH, tmp_path / "train.py", steps]))


# It has layers, ranges of NVTX, and gives memory back. What it tells at its end are hooks of Python's.
ALL_KINDS = (HOOKED.replace("losses = []", """losses = []
import gc, threading
hooks = lambda: (gc.callbacks, gc.get_threshold(), sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile())
first = hooks()
""").replace("    loss.backward()", """    torch.cuda.nvtx.range_push("of NVTX")
    loss.backward()
    torch.cuda.nvtx.range_pop()""")
    .replace("print(len(losses)", """print("its hooks are", "the same" if hooks() == first else hooks())
print(len(losses)"""))


def length_in_memory(path):
    """Of a library, with what has no place in its file, as its program headers say it."""
    header = struct.Struct("<IIQQQQQQ")  # type, flags, offset, virtual address, physical address, bytes in the file, bytes in memory, alignment
    with open(path, "rb") as library:
        start = library.read(64)
        at, (size, count) = struct.unpack_from("<Q", start, 32)[0], struct.unpack_from("<HH", start, 54)
        assert start[:5] == b"\x7fELF\x02" and size == header.size
        library.seek(at)
        return max(row[3] + row[6] for row in header.iter_unpack(library.read(size * count)) if row[0] == 1)


def agents_words(pid):
    """{where: value} of all words of torch's libraries' data (slots, tables of functions) that lead into the agent's library."""
    rows = [line.split(maxsplit=5) + [""] for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()]
    places = [(*(int(end, 16) for end in row[0].split("-")), row[1], row[5].strip()) for row in rows]
    agent = [place[:2] for place in places if "libprofd_agent" in place[3]]
    low, high = min(start for start, _ in agent), max(end for _, end in agent)
    # All but the lowest three bytes of an address in there.
    upper = re.compile(b"|".join(re.escape(part.to_bytes(5, "little")) for part in range(low >> 24, (high >> 24) + 1)))
    found, ends = {}, {path: start + length_in_memory(path) for start, _, _, path in reversed(places) if "/torch/lib/" in path}
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for start, end, rights, path in places:
            # Behind the data that have a name lie those of 0, and behind these maybe a thread's stack, where the agent's callbacks ran.
            owner = path if path in ends else next((one for one, until in ends.items() if not path and start < until <= end), None)
            if owner and rights[0] == "r" and "x" not in rights:
                words = words_at(memory, start, min(end, ends[owner]))
                numbers = (seen.start() // 8 for seen in upper.finditer(words) if seen.start() % 8 == 3)
                found.update((start + 8 * n, word) for n in numbers if low <= (word := int.from_bytes(words[8 * n:8 * n + 8], "little")) < high)
    return found


def words_at(memory, start, end):
    memory.seek(start)
    return memory.read(end - start)


def words_of(pid, places):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        return {place: words_at(memory, place, place + 8) for place in places}


def told_of(profd, captured):
    """What is the same in each recording of the same steps."""
    def rows(sql):
        return query(profd, captured, sql)
    shown = profd.show(captured["capture_id"], "--by", "modules", "--limit", "0")["modules"]
    return {"operators": counted(profd, captured), "modules": sorted((row["path"], row["calls"]) for row in shown), "ranges": rows(RANGES),
            "memory": rows("select taken, taken_bytes, given_back, given_back_bytes from memory_steps where step > 0 order by step"),
            "stacks": rows("select count(*) from operators where step > 0 and stack is not null")}


@needs_torch
def test_all_kinds_in_the_middle_of_a_capture(profd, tmp_path):
    """--preset full: neither callbacks, slots of torch's libraries, tables of NVTX, threads nor descriptors are left, and the next recording tells what the
    first one told."""
    (tmp_path / "train.py").write_text(ALL_KINDS)
    stay = tmp_path / "stay"
    stay.touch()
    hooked = tmp_path / "hooked"
    job = begin(profd, [TORCH, tmp_path / "train.py", stay, hooked])
    wait_for(lambda: hooked.exists() and hooked.read_text(), what="a step without a callback")
    opened_before, told = settled(lambda: descriptors(job.pid)), []
    for turn in range(2):
        profd.run("attach", "--pid", job.pid)
        profd.wait_steps(job.pid, 5)
        captured = profd.trigger(job.pid, "--preset", "full", "--steps", "3")
        assert captured["status"] == "complete", captured
        told.append(told_of(profd, captured))
        idle = agents_words(job.pid)
        trigger = profd.follow("--pid", job.pid, "--preset", "full", "--steps", 90000)
        wait_for(lambda: trigger.poll() is not None or (profd.process(job.pid) or {}).get("state") == "recording", what="the recording")
        assert trigger.poll() is None, trigger.communicate()
        held = agents_words(job.pid)
        assert len(held) > len(idle), "no slot of torch's leads to the agent"
        profd.run("detach", "--pid", job.pid)
        assert trigger.wait(60) == 5, trigger.communicate()
        nothing_runs(profd, job.pid)
        wait_for(lambda: hooked.read_text().split()[-1] == "False", what="a step without a callback")
        assert agents_words(job.pid) == {} and descriptors(job.pid) == opened_before
        left = words_of(job.pid, held)
        assert not turn or left == first_left, "another function in a slot than after the first time"
        first_left = left
    assert told[0] == told[1] and all(told[0].values()) and told[0]["stacks"] != [(0,)], told
    trains(job, stay, lambda steps: begin(profd, [TORCH, tmp_path / "train.py", steps, tmp_path / "untouched"]))


@needs_torch
def test_one_that_was_there_from_the_start(profd, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    job = profd.job(TORCH, tmp_path / "train.py", tmp_path)
    profd.wait_steps(job.pid, 5)
    profd.run("detach", "--pid", job.pid)
    nothing_runs(profd, job.pid)
    assert profd.trigger(job.pid, "--attach", "--steps", "2")["status"] == "complete"
    assert libraries(job.pid) == 1
    job.send_signal(signal.SIGTERM)
    assert job.wait(20) == -signal.SIGTERM


def test_what_cannot_be_detached(profd):
    job = begin(profd, ["/usr/bin/python3", "-c", "print('ready', flush=True)\nimport time\ntime.sleep(60)"])
    done = profd.run("detach", "--pid", job.pid, check=False)
    assert done.returncode == 3 and "runs without the profd agent" in done.stderr
    done = profd.run("detach", "--pid", "4194303", check=False)
    assert done.returncode == 3
    assert profd.run("detach", check=False).returncode == 2
    job.kill()


@needs_torch
def test_again_and_again(profd, tmp_path):
    """Each time all of it goes: neither threads, descriptors nor memory add up."""
    (tmp_path / "train.py").write_text(TRAIN)
    job = begin(profd, [TORCH, tmp_path / "train.py", tmp_path])
    profd.run("attach", "--pid", job.pid)
    profd.run("detach", "--pid", job.pid)
    before = pathlib.Path(f"/proc/{job.pid}/maps").read_text().count("\n"), descriptors(job.pid)
    times = 20
    for _ in range(times):
        profd.run("attach", "--pid", job.pid)
        profd.run("detach", "--pid", job.pid)
    after = pathlib.Path(f"/proc/{job.pid}/maps").read_text().count("\n"), descriptors(job.pid)
    assert after[1] == before[1] and after[0] - before[0] <= 2 * times, (before[0], after[0])
    job.kill()


STEPS = BUILD / "workloads" / "steps"


def ranks(profd, job, count=3):
    """Processes of one job, which have had the agent from their start."""
    started = [profd.job(STEPS, "--step-ms=2", env={"PROFD_JOB": job, "PROFD_NAME": f"{job}-rank", "RANK": str(rank)}) for rank in range(count)]
    for one in started:
        profd.wait_steps(one.pid, 2)
    return started


def goes_on(job):
    """It works, and ends as it ends without an agent."""
    assert job.poll() is None
    job.send_signal(signal.SIGTERM)
    out, _ = job.communicate(timeout=60)
    assert job.returncode == 0 and json.loads(out)["steps"] > 0


def test_all_of_a_job(profd):
    mine, other = ranks(profd, "one"), ranks(profd, "another", 1)
    done = profd.run("detach", "--job", "one")
    assert sorted(done.stdout.splitlines()[:-2]) == sorted(f"the agent has left process {job.pid} (one-rank, rank {rank})" for rank, job in enumerate(mine))
    assert done.stdout.splitlines()[-2:] == ["No thread, hook or descriptor of it is there. Its library stays in memory, unused.",
                                             "If it recorded a GPU, CUPTI stays loaded too, and each launch costs a little more."]
    for job in mine:
        nothing_runs(profd, job.pid)
    assert [row["pid"] for row in profd.json("ps")["processes"]] == [other[0].pid]
    lines = [line for line in profd.json("audit", "--action", "detach")["lines"] if line["outcome"] == "asked"]
    assert sorted(line["target_pid"] for line in lines) == sorted(job.pid for job in mine) and all(line["subject"] == "one-rank" for line in lines)
    # Nothing of it is left that has an agent.
    for words in (("--job", "one"), ("--name", "one*"), ("--job", "another-rank"), ("--name", "another")):
        done = profd.run("detach", *words, check=False)
        assert done.returncode == 3 and f"no registered process matches {words[0][2:]} {words[1]};" in done.stderr and not done.stdout, done
    for job in (*mine, *other):
        goes_on(job)


def test_all_of_a_name(profd):
    mine, other = ranks(profd, "one", 2), ranks(profd, "another", 1)
    answer = profd.json("detach", "--name", "on?-r*")
    assert sorted((row["pid"], row["name"], row["job"], row["rank"]) for row in answer["detached"]) == sorted(
        (job.pid, "one-rank", "one", rank) for rank, job in enumerate(mine))
    assert answer["kept"] == []
    for job in mine:
        nothing_runs(profd, job.pid)
        goes_on(job)
    assert profd.json("detach", "--pid", other[0].pid)["detached"] == [{"pid": other[0].pid, "name": None, "job": None, "rank": None}]


def test_one_that_does_not_leave(profd):
    """It is stopped: the others are rid of theirs, it is said which one is not, and once it goes on its agent leaves, too."""
    mine = ranks(profd, "one")
    stop(mine[1].pid)
    answer = profd.json("detach", "--job", "one", codes=(4,))
    assert sorted(row["pid"] for row in answer["detached"]) == sorted((mine[0].pid, mine[2].pid))
    assert [(row["pid"], row["rank"], row["code"]) for row in answer["kept"]] == [(mine[1].pid, 1, "timed_out")], answer
    assert f"the agent of process {mine[1].pid} has not left yet" in answer["kept"][0]["message"]
    mine[1].send_signal(signal.SIGCONT)
    wait_for(lambda: not threads(mine[1].pid), what="its end")
    for job in mine:
        nothing_runs(profd, job.pid)
        goes_on(job)


def test_one_that_has_no_agent_among_several(profd):
    mine = ranks(profd, "one", 2)
    bare = begin(profd, ["/usr/bin/python3", "-c", "print('ready', flush=True)\nimport time\ntime.sleep(600)"])
    done = profd.run("detach", "--pid", f"{mine[0].pid},{bare.pid}", "--pid", mine[1].pid, check=False)
    assert done.returncode == 3 and f"process {bare.pid} runs without the profd agent" in done.stderr, done
    assert [f"process {job.pid}" in done.stdout for job in (*mine, bare)] == [True, True, False]
    for job in mine:
        nothing_runs(profd, job.pid)


def test_what_to_detach_is_said_once(profd):
    for words in ((), ("--pid", 1, "--job", "one"), ("--job", "one", "--name", "one"), ("--pid", "0")):
        assert profd.run("detach", *words, check=False).returncode == 2


def answer_of(connection, op, **more):
    fake.send(connection, op, **more)
    return list(fake.rows(connection))


def test_one_answer_for_each_request(profd):
    """Also where it is refused, where the process ends meanwhile, and in the middle of a capture: what is asked next on that connection is answered by its
    own answer, and by nothing that is left of the one before."""
    job, records, ends = ranks(profd, "one")
    bare = begin(profd, ["/usr/bin/python3", "-c", "print('ready', flush=True)\nimport time\ntime.sleep(600)"])
    trigger = profd.follow("--pid", records.pid, "--steps", 90000)
    profd.wait_recorded(records.pid)
    stop(ends.pid)
    with fake.connect(profd.socket) as connection:
        def status():
            for _ in range(2):
                assert [row.get("row") for row in answer_of(connection, "status")] == ["daemon", None]
        for pid in (job.pid, records.pid):
            assert answer_of(connection, "detach", pid=pid) == [{"row": "detached", "pid": pid}, {"end": True}]
            status()
        for pid in (bare.pid, job.pid):
            assert [row["error"]["code"] for row in answer_of(connection, "detach", pid=pid)] == ["no_agent"]
            status()
        fake.send(connection, "detach", pid=ends.pid)
        ends.kill()
        assert [row["error"]["code"] for row in fake.rows(connection)] == ["gone"]
        status()
    assert trigger.wait(60) == 5
    trigger.communicate()
