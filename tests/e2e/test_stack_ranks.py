"""`profd stack --job` and `--name`: the ranks of a job side by side, the one that stands elsewhere first."""
import contextlib
import errno
import json
import os
import pathlib
import subprocess

import pytest

from cli import *  # noqa: F401,F403 (fixtures)
from conftest import BUILD, asleep, naps, wait_for
from proc import processor_seconds
from test_disk_full import LOOK, Disk
from test_stack import process

TORCH = os.environ.get("PROFD_TORCH_NEWEST")

HANG = """
import sys, threading, torch, torch.distributed as dist
def next_batch(rank):
    if rank == 1:
        threading.Event().wait()
    return torch.ones(4)
def train(rank):
    for step in range(5):
        batch = next_batch(rank) if step == 3 else torch.ones(4)
        dist.all_reduce(batch)
        open(f"{sys.argv[1]}.{rank}", "a").write(f"{step}\\n")
dist.init_process_group("gloo")
train(dist.get_rank())
"""

# Ranks without torch: each waits where its argument says.
PLACES = """
import os, sys, time
def there():
    print(flush=True)
    sys.stdin.read()
def elsewhere():
    there()
def moves():
    print(flush=True)
    while True:
        for i in range(100):
            time.sleep(0.0001) if i % 2 else step()
def step():
    time.sleep(0.001)
def naps():
    print(flush=True)
    while True: time.sleep(0.01)
def spins():
    print(flush=True)
    while True: pow(3, 1 << 20)
if sys.argv[1] == "forks":
    if os.fork() == 0:
        there()
        os._exit(0)
    there()
globals()[sys.argv[1]]()
"""


@pytest.fixture
def ranks(tmp_path):
    """Starts ranks 0, 1, ... of a job of this test's own, one for each word; yields the job's name and their pids."""
    script = tmp_path / f"ranks{os.getpid()}.py"
    script.write_text(PLACES)
    job = f"stack-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        def start(*words, numbers=None):
            found = []
            for rank, word in enumerate(words):
                env = {**os.environ, "PROFD_JOB": job, "RANK": str(numbers[rank] if numbers else rank), "WORLD_SIZE": str(len(words))}
                found.append(stack.enter_context(process("/usr/bin/python3", script, word, env=env)))
                assert found[-1].stdout.readline() == "\n"
            # Whoever has printed its line may have to wait for a processor before it comes to the next.
            for word, one in zip(words, found):
                if word in ("naps", "moves"):
                    slept = naps(one.pid)
                    wait_for(lambda: naps(one.pid) > slept + 1, what=f"a nap of {one.pid}")
                elif word == "spins":
                    ran = processor_seconds(f"/proc/{one.pid}")
                    wait_for(lambda: processor_seconds(f"/proc/{one.pid}") > ran + 0.02, what=f"a turn of {one.pid}")
                else:
                    wait_for(lambda: asleep(pathlib.Path(f"/proc/{one.pid}/task/{one.pid}")), what=f"{one.pid} to wait")
            return job, [one.pid for one in found]
        yield start


def side_by_side(client, *arguments, code=0):
    done = client.run("stack", *arguments, "--format", "json", timeout=90)
    assert done.returncode == code, done
    return json.loads(done.stdout)["processes"]


@pytest.mark.skipif(not TORCH, reason="no torch")
def test_the_rank_that_the_others_wait_for(lonely, tmp_path):
    (tmp_path / "hang.py").write_text(HANG)
    job = f"hang-{os.getpid()}"
    launcher = subprocess.Popen([TORCH, "-m", "torch.distributed.run", "--nproc-per-node", "3", "--rdzv-id", job, "--rdzv-backend", "c10d",
                                 "--rdzv-endpoint", "127.0.0.1:0", tmp_path / "hang.py", tmp_path / "steps"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(lambda: all((tmp_path / f"steps.{rank}").exists() and "2" in (tmp_path / f"steps.{rank}").read_text() for rank in range(3)),
                 120, what="three steps of three ranks")

        def hangs():
            rows = side_by_side(lonely, "--job", job)
            return [row["place"] for row in rows] == [1, 2, 2] and not any(row["moved"] for row in rows) and rows
        rows = wait_for(hangs, 30, what="the hang")
        assert [row["rank"] for row in rows] == [1, 0, 2]  # and the launcher is none of them
        assert [frame["name"] for frame in rows[0]["threads"][0]["frames"]][-3:] == ["next_batch", "train", "<module>"]
        assert "all_reduce" in [frame["name"] for frame in rows[1]["threads"][0]["frames"]]
        text = lonely.run("stack", "--job", job).stdout
        assert f"job {job}: 3 processes, whose main threads stand in 2 places" in text
        first, second = text.index("rank 1 (pid"), text.index("ranks 0, 2 (pids")
        assert first < text.index("next_batch (hang.py:5)") < second < text.index("all_reduce (distributed_c10d.py:") and "have not moved for" in text
    finally:
        launcher.terminate()
        launcher.wait(60)


def test_one_of_four(lonely, ranks):
    job, pids = ranks("there", "there", "elsewhere", "there")
    rows = side_by_side(lonely, "--job", job)
    assert [(row["rank"], row["pid"], row["place"], row["moved"]) for row in rows] == [
        (2, pids[2], 1, False), (0, pids[0], 2, False), (1, pids[1], 2, False), (3, pids[3], 2, False)]
    text = lonely.run("stack", "--job", job).stdout
    assert f"\nrank 2 (pid {pids[2]}) waits, has not moved for " in text, text
    assert f"\nranks 0, 1, 3 (pids {pids[0]}, {pids[1]}, {pids[3]}) wait, have not moved for " in text
    assert text.count("there (ranks") == 2  # the place of three is printed once
    # The same by name; a job that is not there, and a name.
    assert [row["pid"] for row in side_by_side(lonely, "--name", f"ranks{os.getpid()}.p?")] == [row["pid"] for row in rows]
    for what in (("--job", job + "0"), ("--name", "nothing-has-this-name")):
        done = lonely.run("stack", *what)
        assert done.returncode == 3 and "that you may look into" in done.stderr and not done.stdout, done


def test_one_that_moves(lonely, ranks):
    job, pids = ranks("moves", "there")
    rows = wait_for(lambda: (rows := {row["rank"]: row for row in side_by_side(lonely, "--job", job)})[0]["moved"] and rows, what="a move")
    assert not rows[1]["moved"] and rows[0]["place"] != rows[1]["place"]


@pytest.mark.parametrize("word", ["naps", "spins"])
def test_one_that_runs_in_one_line(lonely, ranks, word):
    """It stands in the same lines at both looks, and does not hang: the kernel says that it had a processor."""
    job, pids = ranks(word, "there")
    rows = {row["rank"]: row for row in side_by_side(lonely, "--job", job)}
    assert [(rows[rank]["same_lines"], rows[rank]["moved"]) for rank in range(2)] == [(True, True), (True, False)], rows
    text = lonely.run("stack", "--job", job).stdout
    mine = [line for line in text.splitlines() if line.startswith(f"rank 0 (pid {pids[0]}) ")][0]
    assert ", stood here " in mine and mine.endswith(" before, too, but has run in between:"), text
    assert f"rank 1 (pid {pids[1]}) waits, has not moved for " in text


def test_one_whose_thread_the_kernel_does_not_know(lonely):
    """It is not known whether it has moved, and nothing else is said."""
    job = f"stack-{os.getpid()}"
    with process(BUILD / "workloads" / "fake_python", "nobody", env={**os.environ, "PROFD_JOB": job, "RANK": "0"}) as fake:
        assert fake.stdout.readline() == "ready\n"
        row = side_by_side(lonely, "--job", job)[0]
        assert (row["pid"], row["same_lines"], row["moved"]) == (fake.pid, True, None), row
        assert "is not known to have moved:" in lonely.run("stack", "--job", job).stdout


def test_all_in_one_place(lonely, ranks):
    job, _ = ranks("there", "there", numbers=[7, 3])
    assert [(row["rank"], row["place"]) for row in side_by_side(lonely, "--job", job)] == [(3, 1), (7, 1)]
    assert "2 processes, whose main threads stand in 1 place\n" in lonely.run("stack", "--job", job).stdout


def test_what_belongs_to_a_rank_is_left_out(lonely, ranks):
    """A forked worker; --pid shows it."""
    job, pids = ranks("forks", "there")
    assert [row["pid"] for row in side_by_side(lonely, "--job", job)] in (pids, pids[::-1])


def test_by_pid_nothing_is_compared(lonely, ranks):
    _, pids = ranks("elsewhere", "there")
    rows = side_by_side(lonely, "--pid", f"{pids[1]},{pids[0]}")
    assert [(row["pid"], row["rank"], row["place"], row["moved"]) for row in rows] == [(pids[1], None, None, None), (pids[0], None, None, None)]


def test_one_of_pid_job_and_name(lonely):
    for what in ((), ("--pid", "1", "--job", "2"), ("--job", "1", "--name", "x")):
        done = lonely.run("stack", *what)
        assert done.returncode == 2 and "Give one of --pid PID, --job JOB and --name GLOB" in done.stderr, done


def test_a_rank_that_keeps_its_readers_waiting(lonely, ranks):
    """The others are shown all the same, and what went wrong is told."""
    job, pids = ranks("there", "elsewhere", "there")
    with process(BUILD / "workloads" / "fake_python", "held", env={**os.environ, "PROFD_JOB": job, "RANK": "3"}) as held:
        if held.stdout.readline() != "ready\n":
            pytest.skip("this kernel gives no userfaultfd to programs")
        done = lonely.run("stack", "--job", job, "--format", "json", timeout=90)
        rows = {row["rank"]: row for row in json.loads(done.stdout)["processes"]}
        # Some kernels refuse such a read at once, on others it waits.
        assert "keeps whoever reads its memory waiting" in rows[3]["error"] if done.returncode == 4 else \
            (rows[3]["place"], rows[3]["moved"]) == (None, None) and rows[3]["threads"][0]["reading"] == "torn"
        assert done.returncode in (0, 4) and list(rows) == [3, 1, 0, 2], done


def test_many_that_keep_their_readers_waiting(lonely, ranks, tmp_path):
    """The client is held at the first sixty processes that it looks at, as if each of them kept it waiting; the others are looked at meanwhile."""
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(process("sleep", "300"))
        job, pids = ranks("there")
        disk = Disk(tmp_path / "control")
        disk.fail(1, 60, errno.EAGAIN, LOOK)
        done = subprocess.run([BUILD / "bin" / "profd", "stack", "--job", job, "--format", "json"], capture_output=True, text=True, timeout=90,
                              env={**os.environ, "LD_PRELOAD": str(BUILD / "workloads" / "libfailing.so"),
                                   "FAILING_CONTROL": str(tmp_path / "control"), "FAILING_FOLDER": "/proc/"})
        assert disk.failed == 60 and done.returncode == 0, done
        assert [row["pid"] for row in json.loads(done.stdout)["processes"]] == pids
        assert done.stderr.count("keeps whoever reads its memory waiting") == 3 and "profd: and so do 57 more, or there was no time left" in done.stderr, done


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_another_users_job_is_not_seen(lonely, ranks, tmp_path):
    job, _ = ranks("there", "there")
    binary = f"/tmp/profd-ranks-{os.getpid()}"
    with open(binary, "wb") as copy:
        copy.write((BUILD / "bin" / "profd").read_bytes())
    os.chmod(binary, 0o755)
    try:
        done = subprocess.run([binary, "stack", "--job", job], user=65534, group=65534, extra_groups=[], capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin"}, cwd="/")
    finally:
        os.unlink(binary)
    assert done.returncode == 3 and not done.stdout, done
