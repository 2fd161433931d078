"""`profd ranks`: for which rank of a job the others wait, against planted times and a slow second count; and of real jobs over gloo."""
import csv
import io
import json
import os
import random
import re
import sqlite3
import subprocess

import pytest

import rank_traces
from conftest import BUILD, WORKLOADS
from rank_traces import MS, Call, Rank, Step

PROFD = BUILD / "bin" / "profd"
LENGTH = 40 * MS


def run(*words, code=0, **env):
    done = subprocess.run([PROFD, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
                          env={**os.environ, "NO_COLOR": "1", **env})
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done


def written(folder, ranks, **more):
    """Their capture files."""
    files = []
    for number, rank in enumerate(ranks):
        path = folder / f"{number}.json"
        path.write_text(json.dumps(rank_traces.trace(rank, len({r.rank for r in ranks}), **more)))
        files.append(folder / f"{number}.db")
        run("import", path, "--output", files[-1], "--force")
    return files


def answer_of(files):
    return json.loads(run("ranks", *files, "--format", "json").stdout)


def reduced(members, begins, transfer=2 * MS, **more):
    """One operation as each rank has it: done on all of them at nearly the same time. Clocks and ends differ by as much as they really do."""
    end = max(begins.values()) + transfer
    return {rank: Call(members=members, begin=begin, end=end, **{"operation": "all_reduce", **more}) for rank, begin in begins.items()}


def job(size, late, steps=8, offsets=True, compute=10 * MS):
    """Ranks that compute, reduce and compute again; late(rank, step): what a rank computes longer."""
    ranks = [Rank(rank, [], offset=(rank * 7919 * MS + rank * 333) * offsets) for rank in range(size)]
    for number in range(steps):
        start = 1000 * MS + number * LENGTH
        begins = {r: start + MS + compute + late(r, number) for r in range(size)}
        calls = reduced(tuple(range(size)), {r: begin + 1000 * r for r, begin in begins.items()})
        for rank in ranks:
            call = calls[rank.rank]
            rank.steps.append(Step(number + 3, start, LENGTH, [call], [(start + MS, begins[rank.rank]), (call.end, call.end + 3 * MS)]))
    return ranks


@pytest.mark.parametrize("size", [2, 4, 8])
def test_one_is_late(tmp_path, size):
    """It computes 8 ms longer in every step. Its own clock, like everybody's, is off by seconds."""
    ranks = job(size, lambda rank, step: 8 * MS * (rank == 1))
    files = written(tmp_path, ranks)
    answer = answer_of(files)
    rank_traces.check(answer, ranks)
    last = answer["last"]
    assert last["rank"] == 1 and last["row"] == "compute" and last["row_ns"] - last["others_row_ns"] == 8 * MS
    assert abs(last["waited_for_ns"] - 8 * MS) < 10_000 and answer["world_size"] == size and answer["left_out"] == 0
    assert [row["last"] for row in answer["ranks"]] == [8 * (r == 1) for r in range(size)]
    assert [row["capture_id"] for row in answer["ranks"]] == [None] * size and answer["ranks"][1]["label"] == "1.json"
    sentence = "The others wait for rank 1: " if size > 2 else "The other rank waits for rank 1: "
    assert answer["answer"].startswith(sentence) and 'ms a step, 20 % of it. It is last in 8 of 8' in answer["answer"] and '"compute"' in answer["answer"]
    text = run("ranks", *files, COLUMNS="200").stdout
    assert sentence in text and "Collective operations" in text and "are not here" not in text and "left out" not in text
    rows = list(csv.DictReader(io.StringIO(run("ranks", *files, "--format", "csv").stdout)))
    assert [row["waits_ns"] for row in rows] == [str(row["waits_ns"]) for row in answer["ranks"]]
    # The order in which they are named is all the same.
    rank_traces.check(answer_of(files[::-1]), ranks)


def test_together_and_in_turn(tmp_path):
    ranks = job(4, lambda rank, step: 1000 * (rank == step % 4))
    answer = answer_of(written(tmp_path, ranks))
    rank_traces.check(answer, ranks)
    assert answer["last"] is None and answer["answer"].startswith("The ranks come together")
    ranks = job(4, lambda rank, step: 8 * MS * (rank == step % 4))
    answer = answer_of(written(tmp_path, ranks))
    rank_traces.check(answer, ranks)
    assert answer["last"] is None and "now for one and now for another" in answer["answer"] and "6.000 ms a step" in answer["answer"]


def test_hidden_waits_are_none(tmp_path):
    """What computes on another stream while its communication waits does not stand still."""
    ranks = job(2, lambda rank, step: 8 * MS * (rank == 1))
    for step in ranks[0].steps:
        step.compute.append((step.calls[0].begin - MS, step.calls[0].begin + 9 * MS))
    answer = answer_of(written(tmp_path, ranks))
    rank_traces.check(answer, ranks)
    assert answer["last"] is None and answer["ranks"][0]["waits_ns"] == 0 and answer["operations"][0]["max_wait_ns"] > 7 * MS


def test_groups(tmp_path):
    """Tensor parallel [0, 1], [2, 3], data parallel [0, 2], [1, 3]: in each the n-th call is one operation."""
    ranks = [Rank(r, [], offset=r * 1234567) for r in range(4)]
    for number in range(6):
        start = 500 * MS + number * LENGTH
        calls = {r: [] for r in range(4)}
        for at, groups, description in ((5, ((0, 1), (2, 3)), "tp"), (15, ((0, 2), (1, 3)), "dp"), (25, ((0, 1), (2, 3)), "tp")):
            for members in groups:
                begins = {r: start + at * MS + r * 10_000 + (4 * MS if r == 3 and description == "dp" else 0) for r in members}
                for r, call in reduced(members, begins, description=description, operation="all_gather" if at == 25 else "all_reduce").items():
                    calls[r].append(call)
        for rank in ranks:
            rank.steps.append(Step(number + 1, start, LENGTH, calls[rank.rank]))
    answer = answer_of(written(tmp_path, ranks))
    rank_traces.check(answer, ranks)
    assert answer["alone"] == 0 and {(row["group"], row["calls"]) for row in answer["operations"]} == {("tp", 12), ("dp", 12)}
    assert answer["ranks"][1]["waits_ns"] > 4 * MS > 100_000 > answer["ranks"][0]["waits_ns"] and answer["last"]["rank"] == 3


def test_missing_calls(tmp_path):
    """One call less on a rank in a step; one whose kernel is lost; sending and receiving, and a broadcast, whose sender goes on before others have it: none of
    them is guessed."""
    ranks = job(4, lambda rank, step: 8 * MS * (rank == 2))
    for rank in ranks:
        for step in rank.steps:
            begin = step.start + 30 * MS
            step.calls.append(Call("all_gather", begin + rank.rank * MS // 2, begin + 3 * MS, (0, 1, 2, 3)))
            step.calls.append(Call("send" if rank.rank % 2 else "recv", begin + 4 * MS, begin + 7 * MS, (0, 1, 2, 3), stream=21))
            step.calls.append(Call("broadcast", begin + 8 * MS, begin + (12 if rank.rank else 9) * MS, (0, 1, 2, 3), stream=21))
    del ranks[3].steps[2].calls[0]
    ranks[1].steps[4].calls[1].begin = None
    files = written(tmp_path, ranks)
    answer = answer_of(files)
    rank_traces.check(answer, ranks)
    assert answer["alone"] == 3 and answer["unknown"] == 4 and {row["operation"] for row in answer["operations"]} == {"all_reduce", "all_gather"}
    text = run("ranks", *files).stdout
    assert "  3 calls are left out" in text and "  4 calls are left out" in text


def test_behind_the_step_that_asked(tmp_path):
    """The host runs ahead: what a step asks for the device does in the next one. A wait is where it is."""
    ranks = job(2, lambda rank, step: 8 * MS * (rank == 1))
    for rank in ranks:
        for step in rank.steps:
            step.calls = [Call("all_reduce", call.begin + LENGTH, call.end + LENGTH, call.members) for call in step.calls]
            step.compute = [(begin + LENGTH, end + LENGTH) for begin, end in step.compute]
    answer = answer_of(written(tmp_path, ranks))
    rank_traces.check(answer, ranks)
    assert answer["last"]["rank"] == 1 and abs(answer["last"]["waited_for_ns"] - 7 * MS) < 10_000


def test_steps_of_some(tmp_path):
    """Shifted by one: the same numbers are the same steps. A rank that is not there may be the one for which all wait."""
    ranks = job(3, lambda rank, step: 8 * MS * (rank == 1))
    for rank in ranks:
        rank.world_size = 16
    del ranks[0].steps[0], ranks[2].steps[-1]
    files = written(tmp_path, ranks)
    answer = answer_of(files)
    rank_traces.check(answer, ranks)
    assert answer["steps"] == 6 and answer["left_out"] == 2 and answer["world_size"] == 16
    text = run("ranks", *files, COLUMNS="200").stdout
    assert "2 steps that not all of these ranks have recorded are left out" in text and "13 of the job's 16 ranks are not here" in text
    # No step in common.
    far = [ranks[0], Rank(1, [Step(step.number + 100, step.start, step.wall, step.calls, step.compute) for step in ranks[1].steps])]
    done = run("ranks", *written(tmp_path, far), code=3)
    assert "have recorded no step together" in done.stderr and not done.stdout


def test_not_all_who_take_part(tmp_path):
    """Two of four ranks: who came last to what all four did is not known."""
    ranks = job(4, lambda rank, step: 8 * MS * (rank == 1))
    for rank in ranks:
        rank.world_size = 4
    files = written(tmp_path, ranks[:2])
    answer = answer_of(files)
    rank_traces.check(answer, ranks[:2])
    assert answer["alone"] == 16 and answer["last"] is None
    assert answer["answer"].endswith(": no collective operation was recorded on all ranks that took part.")
    assert re.search("^  2 of the job's 4 ranks are not here$", run("ranks", *files).stdout, re.M)


def test_two_recordings(tmp_path):
    """Two files of each rank, of other steps: a rank is one row. The same file twice counts once."""
    ranks = job(2, lambda rank, step: 8 * MS * (rank == 1))
    files = written(tmp_path, [Rank(r.rank, r.steps[part * 4:part * 4 + 4], r.offset + part * 12345) for part in (0, 1) for r in ranks])
    answer = answer_of(files)
    rank_traces.check(answer, ranks)
    assert answer["last"]["rank"] == 1 and [row["label"] for row in answer["ranks"]] == ["0.json,2.json", "1.json,3.json"]
    once = answer_of(files[:2])
    twice = answer_of([*files[:2], files[1]])
    assert twice["left_out"] == 4 and twice["last"] == once["last"] and twice["operations"] == once["operations"]
    assert [{**row, "label": None} for row in twice["ranks"]] == [{**row, "label": None} for row in once["ranks"]]


def told(file, **meta):
    with sqlite3.connect(file) as db:
        db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())


def test_several_machines(tmp_path):
    """Each has triggers of its own, and a clock of its own: ranks of one job are matched by the numbers of their steps. Another job's are not."""
    ranks = job(4, lambda rank, step: 8 * MS * (rank == 1))
    del ranks[2].steps[:2], ranks[3].steps[:2]
    files = written(tmp_path, ranks)
    for number, file in enumerate(files):
        told(file, trigger_id=str(7 - number // 2), host=f"node{number // 2}", job="lm", base_monotonic=ranks[number].steps[0].start)
    answer = answer_of(files)
    rank_traces.check(answer, ranks)
    assert answer["last"]["rank"] == 1 and answer["steps"] == 6 and answer["left_out"] == 2
    assert [row["host"] for row in answer["ranks"]] == ["node0", "node0", "node1", "node1"]
    for file in files[2:]:
        told(file, job="another")
    assert "have recorded no step together" in run("ranks", *files, code=3).stderr


def test_steps_at_the_same_time(tmp_path):
    """On one machine the clock tells which steps are one, and not the numbers: a rank may have begun to count later."""
    ranks = job(2, lambda rank, step: 8 * MS * (rank == 1))
    files = written(tmp_path, ranks)
    for number, file in enumerate(files):
        with sqlite3.connect(file) as db:
            db.execute("UPDATE steps SET number = number + 3 * ?", (number,))
        told(file, trigger_id="7", host="node", base_monotonic=ranks[number].steps[0].start)
    answer = answer_of(files)
    rank_traces.check(answer, ranks)
    assert answer["steps"] == 8 and answer["left_out"] == 0 and answer["last"]["rank"] == 1


def test_refused(tmp_path):
    ranks = job(2, lambda rank, step: 0)
    files = written(tmp_path, ranks)
    assert "is of one rank; name the files of the other ranks, too" in run("ranks", files[0], code=2).stderr
    assert "is of one rank alone" in run("ranks", files[0], files[0], code=3).stderr
    assert "cannot be opened" in run("ranks", files[0], tmp_path / "none.db", code=3).stderr
    trace = rank_traces.trace(ranks[1], 2)
    del trace["distributedInfo"]
    (tmp_path / "nameless.json").write_text(json.dumps(trace))
    run("import", tmp_path / "nameless.json", "--output", tmp_path / "nameless.db")
    assert "of 1 of 2 captures it is not known which rank they are of" in run("ranks", files[0], tmp_path / "nameless.db", code=3).stderr


def test_a_window_of_time(tmp_path):
    """Without steps a trace is one window."""
    ranks = job(2, lambda rank, step: 8 * MS * (rank == 1), offsets=False)
    files = written(tmp_path, ranks, windows=True)
    answer = answer_of(files)
    assert answer["steps"] == 1 and answer["last"]["rank"] == 1 and abs(answer["last"]["waited_for_ns"] - 8 * 8 * MS) < 100_000
    assert " a window, " in answer["answer"] and " a step" not in answer["answer"]
    assert "1 window of " in run("ranks", *files).stdout


def test_nothing_is_known(tmp_path):
    """No operators; operators of another profiler; a capture of an earlier release, without the table."""
    ranks = job(2, lambda rank, step: 8 * MS * (rank == 1))
    files = written(tmp_path, ranks, collectives=False)
    for change in (None, "DROP TABLE collectives"):
        for file in files:
            with sqlite3.connect(file) as db:
                db.execute(change or "SELECT 1")
        answer = answer_of(files)
        assert answer["last"] is None and answer["operations"] == [] and answer["steps"] == 8
        assert answer["answer"] == "It is not known how long the ranks wait for each other: no collective operation was recorded."
        for row in answer["ranks"]:
            assert all(row[key] is None for key in ("waits_ns", "waits_percent", "waited_for_ns", "last", "operations")) and row["step_ns"] == LENGTH
        assert answer["answer"] in run("ranks", *files, COLUMNS="200").stdout


@pytest.mark.parametrize("seed", range(6))
def test_at_random(tmp_path, seed):
    """Every figure, whatever overlaps: operations of several streams at once, waits under compute, kernels that end in later steps."""
    dice = random.Random(seed)
    size = dice.choice([2, 4, 8])
    everybody = tuple(range(size))
    groups = [everybody, *((a, a + 1) for a in range(0, size, 2))]
    ranks = [Rank(r, [], offset=dice.randrange(10 ** 10)) for r in everybody]
    straggler = dice.choice([None, *everybody])
    for number in range(dice.randrange(3, 9)):
        start = 1000 * MS + number * LENGTH
        steps = [Step(number + 1, start, LENGTH) for _ in everybody]
        for step in steps:
            at = start
            for _ in range(3):
                at += dice.randrange(6 * MS)
                step.compute.append((at, at := at + dice.randrange(1, 6 * MS)))
        for n in range(dice.randrange(1, 6)):
            members = dice.choice(groups)
            at = start + n * 9 * MS
            begins = {r: at + dice.randrange(3 * MS) + (r == straggler) * 5 * MS for r in members}
            operation = dice.choice(["all_reduce", "all_gather", "reduce_scatter", "broadcast"])
            elements = len(members) << dice.randrange(4, 22)
            for r, call in reduced(members, begins, dice.randrange(1, 3 * MS), operation=operation, elements=elements, stream=20 + n % 2,
                                   description=f"of {members}").items():
                call.end += dice.randrange(30_000)
                if dice.random() > 0.02:
                    steps[r].calls.append(call)
        for rank, step in zip(ranks, steps):
            rank.steps.append(step)
    rank_traces.check(answer_of(written(tmp_path, ranks)), ranks)


# ---------------------------------------------------------------- broken and hostile files

LAST = 2 ** 63 - 1
HOSTILE = {
    "ends before it begins": "UPDATE collectives SET begun = ended + 1000",
    "endless": f"UPDATE collectives SET begun = {-LAST}, ended = {LAST}",
    "starts at the end of time": f"UPDATE collectives SET begun = {LAST - 1}, ended = {LAST}, start = {LAST}",
    "of the library's threads": f"UPDATE collectives SET device = 0, start = {-LAST}, ended = {LAST}",
    "large numbers": f"UPDATE collectives SET bytes = {LAST}, group_size = {-LAST}, sequence = {LAST}",
    "a group that is too large": f"UPDATE collectives SET group_size = {LAST}",
    "texts for numbers": "UPDATE collectives SET begun = 'a', ended = x'00ff', bytes = 'b', group_size = 1e300, device = 'yes', step = '1'",
    "no texts": "UPDATE collectives SET operation = x'00fffe', dtype = x'80', group_name = 7, group_description = x'1b5b33316d0a', group_ranks = ''",
    "a key of a megabyte": "UPDATE collectives SET group_name = hex(zeroblob(500000)), group_description = NULL",
    "none": "DELETE FROM collectives",
    "other columns": "DROP TABLE collectives; CREATE TABLE collectives (id)",
    "steps that overlap": "UPDATE steps SET start = 0, duration = 1000000000000",
    "endless steps": f"UPDATE steps SET start = {-LAST}, duration = {LAST}",
    "one number": "UPDATE steps SET number = 5",
    "large step numbers": f"UPDATE steps SET number = iif(step = 1, {-LAST}, {LAST})",
    "no steps": "DELETE FROM steps",
    "a large rank": f"UPDATE meta SET value = {LAST} WHERE key = 'rank'",
    "a large world": f"UPDATE meta SET value = {LAST} WHERE key = 'world_size'",
    "a rank without a number": "UPDATE meta SET value = '0x' WHERE key = 'rank'",
    "a label for the terminal": "UPDATE meta SET value = char(27) || '[31m' || char(10) || value WHERE key IN ('label', 'name', 'job', 'host')",
    "100,000 calls": "WITH RECURSIVE n(i) AS (SELECT 1000000 UNION ALL SELECT i + 1 FROM n WHERE i < 1100000) INSERT INTO collectives (id, step, thread, start, "
                     "duration, operation, begun, ended, device, group_size) SELECT i, 1 + i % 8, 70, i, 1, 'all_reduce', i * 1000, i * 1000 + 90000000, 1, 2 FROM n",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile(tmp_path, what):
    """One rank's file, and then both, are not what they should be: an answer that holds together, or a sentence."""
    ranks = job(2, lambda rank, step: 8 * MS * (rank == 1))
    files = written(tmp_path, ranks)
    for file in files:
        with sqlite3.connect(file) as db:
            db.executescript(HOSTILE[what])
        for form in (["--format", "json"], [], ["--format", "csv"]):
            done = subprocess.run([PROFD, "ranks", *files, *form], capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
            assert done.returncode in (0, 1, 3), (what, done.returncode, done.stderr)
            assert (done.returncode == 0) != bool(done.stderr) and b"\x1b" not in done.stdout + done.stderr, done.stderr
            if done.returncode == 0 and "json" in form:
                answer = json.loads(done.stdout)
                for row in answer["ranks"]:
                    assert row["waits_ns"] is None or 0 <= row["waits_ns"] <= row["step_ns"]


# ---------------------------------------------------------------- real jobs

def start(profd, python, folder, slow, name, ms=200, size=3):
    """Steps are so long that one for which a full machine had no processor for a second does not outweigh what the slow rank does in all of them."""
    env = {"WORLD_SIZE": str(size), "PROFD_NAME": name, "PROFD_JOB": name, "PYTHONWARNINGS": "ignore"}
    jobs = [profd.job(python, WORKLOADS / "waits.py", folder / name, slow, ms, env={**env, "RANK": str(rank)}) for rank in range(size)]
    for job in jobs:
        profd.wait_steps(job.pid)
    return jobs


def consistent(answer, size=3):
    """What holds of any job, however loaded the machine is."""
    assert answer["steps"] > 0 and answer["world_size"] == size and [row["rank"] for row in answer["ranks"]] == list(range(size))
    for row in answer["ranks"]:
        assert row["steps"] == answer["steps"] and row["operations"] >= row["last"] >= 0 and row["capture_id"]
        assert 0 <= row["waits_ns"] <= row["step_ns"] and row["waited_for_ns"] <= answer["step_ns"]
    # What they wait they wait for somebody: for each one on average of the others.
    assert abs(sum(row["waits_ns"] - row["waited_for_ns"] * (size - 1) for row in answer["ranks"])) <= 2 * size
    for row in answer["operations"]:
        assert row["calls"] > 0 and row["transfer_ns"] >= 0 and 0 <= row["wait_ns"] <= row["max_wait_ns"]
        assert row["operation"] == "all_reduce"


def test_a_job_with_one_slow_rank(profd, torch, tmp_path):
    start(profd, torch, tmp_path, 1, "slow")
    # A rank whose collectors come late begins some steps later than the others.
    done = profd.run("trigger", "--name", "slow", "--steps", 24)
    said = re.findall(r"^  profd ranks (u\d+) +which rank the others wait for$", done.stdout, re.M)
    assert len(said) == 1 and "\nThe others wait for rank 1: " in done.stdout, done.stdout
    answer = profd.json("ranks", said[0])
    consistent(answer)
    last = answer["last"]
    assert last["rank"] == 1 and last["row"] == "outside of operators" and last["row_ns"] - last["others_row_ns"] >= 25 * MS, answer
    assert last["waited_for_ns"] > 25 * MS and answer["answer"].startswith("The others wait for rank 1: ")
    assert last["capture_id"] == answer["ranks"][1]["capture_id"]
    text = profd.run("ranks", said[0]).stdout
    assert "The others wait for rank 1: " in text and "\nRanks\n" in text and "\nCollective operations\n" in text
    # The same captures, whatever they are called.
    trigger = profd.show(said[0])["capture"]["trigger_id"]
    for words in ([], [f"trigger:{trigger}"], ["job:slow"], [row["capture_id"] for row in answer["ranks"]]):
        assert profd.json("ranks", *words) == answer, words
    # By their places in each capture: where one began a step later, fewer are the same.
    part = profd.json("ranks", f"{said[0]}@2-19")
    assert 1 < part["steps"] <= 18 and part["last"]["rank"] == 1
    # Of two ranks alone it is told that one is not here.
    two = profd.json("ranks", *(answer["ranks"][i]["capture_id"] for i in (0, 1)))
    assert two["last"]["rank"] == 1 and two["world_size"] == 3
    # A file of a capture does not stand for its trigger: it may be of another machine.
    assert "name the files of the other ranks" in profd.run("ranks", profd.file(said[0]), check=False).stderr
    files = [profd.file(row["capture_id"]) for row in answer["ranks"]]
    assert profd.json("ranks", *files) == answer


@pytest.mark.wide
def test_cycles_and_one_rank(profd, torch, tmp_path):
    """Several recordings of one trigger: each rank is a row. One rank alone is no comparison, and nothing is proposed."""
    jobs = start(profd, torch, tmp_path, 2, "again")
    captures = profd.json("trigger", "--name", "again", "--steps", 10, "--repeat", 2)["captures"]
    assert len(captures) == 6
    answer = profd.json("ranks", captures[0]["capture_id"])
    consistent(answer)
    assert answer["last"]["rank"] == 2 and answer["ranks"][2]["capture_id"].count(",") == 1
    done = profd.run("trigger", "--pid", jobs[0].pid, "--steps", 2)
    assert not re.search(r"^  profd ranks u", done.stdout, re.M)
    assert "is of one rank alone" in profd.run("ranks", check=False).stderr


def test_a_job_without_a_slow_rank(profd, torch, tmp_path):
    """Whatever the machine's load makes of it, the figures hold together. All sleep a little: a rank that comes late has steps with the others."""
    start(profd, torch, tmp_path, -1, "even", ms=50)
    profd.run("trigger", "--name", "even", "--steps", 20)
    consistent(profd.json("ranks"))
