"""`profd stack --duration`: where the time of Python processes goes, looked at from outside: shares that a program itself knows, and those of
py-spy's `record`; children; ends of all kinds."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile

import pytest

from cli import *  # noqa: F401,F403 (fixtures)
from conftest import BUILD, wait_for
from proc import of_threads, opened
from pythons import PYTHONS
from test_stack import process

HERE = pathlib.Path(__file__).parent
SHARES = HERE / "stack_shares.py"
PYSPY = os.environ.get("PROFD_PYSPY")
NEWEST = max(PYTHONS, key=lambda version: int(version.split(".")[1]))


def looks(client, pid, *options, code=0):
    done = client.run("stack", "--pid", pid, "--format", "json", *options)
    assert done.returncode == code, (done.returncode, done.stderr)
    return json.loads(done.stdout)


def watch(client, pid, *options):
    """The client looks until it is told to end."""
    return client.start("stack", "--pid", pid, "--duration", "10m", *options)


def looks_into(watching):
    """The processes whose memory the client has open."""
    return {name.split("/")[2] for name in opened(f"/proc/{watching.pid}/fd").values() if re.fullmatch(r"/proc/\d+/mem", name)}


def looked(watching, count):
    """Waits for so many further looks, before each of which a thread of the client sleeps, and for Ctrl-C to be no end without an answer."""
    def slept():
        texts = [text for tid, text in of_threads(watching.pid, "status").items() if tid != watching.pid]
        return sum(int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", text, re.M)[1]) for text in texts)
    wait_for(lambda: looks_into(watching), what="the first look")
    before = slept()
    wait_for(lambda: slept() >= before + count, what=f"{count} looks")
    wait_for(lambda: int(re.search(r"^SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{watching.pid}/status").read_text(), re.M)[1], 16) & 1 << signal.SIGINT - 1,
             what="the client to wait for Ctrl-C")


def ended(watching):
    """Ctrl-C: what it prints."""
    watching.send_signal(signal.SIGINT)
    out, err = watching.communicate(timeout=120)
    assert watching.returncode == 0, (watching.returncode, err)
    return out


def seen(client, pid, *options, count=60):
    """What it prints of so many looks."""
    watching = watch(client, pid, *options)
    looked(watching, count)
    return ended(watching)


def spent(job):
    job.stdin.write("\n")
    job.stdin.flush()
    return json.loads(job.stdout.readline())


def command(pid):
    """Its command line; of one that is on its way to another program nothing."""
    return pathlib.Path(f"/proc/{pid}/cmdline").read_text()


def children(pid):
    return list(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def fits(one, functions, told):
    """The shares are those that the program has measured itself."""
    main = next(thread for thread in one["threads"] if thread["tid"] == one["pid"])
    of_main = main["running_ns"] + main["waiting_ns"]
    shares = {name: (functions[name]["running_ns"] + functions[name]["waiting_ns"]) / of_main for name in told if name in functions}
    return (one["looks"] > 50 and main["unread_ns"] <= one["duration_ns"] / 20 and len(shares) == len(told) and
            all(abs(shares[name] - seconds / sum(told.values())) < 0.1 for name, seconds in told.items()) and
            functions["rest"]["waiting_ns"] > functions["rest"]["running_ns"])


@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_where_the_time_goes(lonely, version):
    with process(PYTHONS[version], SHARES) as job:
        assert job.stdout.readline() == "ready\n"
        last = []

        def look():
            """While all of the machine stands still the program's time goes on, and nobody looks: then once more."""
            before = spent(job)
            found = looks(lonely, job.pid, "--duration", "2s", "--rate", 300)
            told = {name: seconds - before[name] for name, seconds in spent(job).items()}
            one = found["processes"][0]
            assert one["error"] is None and one["python"] == version and not one["ended"]
            # Nothing is lost: each look has each thread, in one line and in one stack.
            for thread in one["threads"]:
                assert thread["running_ns"] + thread["waiting_ns"] + thread["unread_ns"] <= one["duration_ns"] * 1.001, one
            for members in (found["lines"], found["stacks"]):
                assert sum(row["running_ns"] + row["waiting_ns"] for row in members) == pytest.approx(
                    sum(t["running_ns"] + t["waiting_ns"] for t in one["threads"]), rel=1e-3)
            functions = {row["function"].rsplit(".", 1)[-1]: row for row in found["functions"]}
            last[:] = told, one, functions
            return fits(one, functions, told) and (found, one, functions)
        try:
            found, one, functions = wait_for(look, what="shares that are those of the program")
        except pytest.fail.Exception as error:
            raise AssertionError(f"{error}: {last}") from error
        assert functions["spin"]["self_running_ns"] > functions["slow"]["self_running_ns"]
        # The one that rests is there, and asleep.
        assert functions["idle"]["waiting_ns"] > 0.9 * one["duration_ns"]
        lines = {(row["function"].rsplit(".", 1)[-1], row["line"]) for row in found["lines"] if row["file"] == str(SHARES)}
        assert {name for name, _ in lines} >= {"spin", "rest", "idle"}


def test_a_table_and_folded_stacks(lonely):
    with process(PYTHONS[NEWEST], SHARES) as job:
        assert job.stdout.readline() == "ready\n"
        text = seen(lonely, job.pid, "--limit", 2)
        assert re.search(r"looks? in \d+\.?\d* m?s", text) and "\nThreads\n" in text and "\nLines\n" in text and "\nFunctions\n" in text
        assert "stack_shares.py:" in text and "spin" in text and re.search(r"\.\.\. and \d+ more", text), text
        folded = seen(lonely, job.pid, "--format", "folded").splitlines()
        rows = [re.fullmatch(r"process (\d+);thread (\d+) [^;]*;(.*) (\d+)", line) for line in folded]
        assert rows and all(rows) and all(int(row[1]) == job.pid and int(row[4]) > 0 for row in rows), folded
        frames = [row[3].split(";") for row in rows if int(row[2]) == job.pid]
        assert all(re.fullmatch(r"<module> \(stack_shares\.py:\d+\)", stack[0]) for stack in frames), folded
        assert any(stack[-1].startswith("spin (") and stack[-2].startswith("slow (") for stack in frames), folded
        # Who rests is left out of what ran, and is there where it is asked for.
        assert not any(";idle (" in line for line in folded), folded
        whole = seen(lonely, job.pid, "--format", "folded", "--idle")
        assert ";idle (stack_shares.py:" in whole


def test_children(lonely):
    """A forked one, one that begins another program while it is looked at, one that is no Python."""
    with process(PYTHONS[NEWEST], SHARES, "fork", "exec", "sh") as job, contextlib.ExitStack() as end:
        assert job.stdout.readline() == "ready\n"
        started = sorted(children(job.pid))
        forked, other, shell = started
        end.callback(lambda: [os.kill(pid, signal.SIGKILL) for pid in started])
        wait_for(lambda: command(shell).startswith("sleep\0"), what="the one that is no Python")
        watching = watch(lonely, job.pid, "--children", "--format", "json")
        wait_for(lambda: looks_into(watching) >= {str(pid) for pid in (job.pid, forked, other)}, what="a look at each")
        os.kill(other, signal.SIGUSR1)
        assert job.stdout.readline() == "ready\n"  # the other program's
        looked(watching, 300)
        found = json.loads(ended(watching))
        rows = {row["pid"]: row for row in found["processes"]}
        assert set(rows) == {job.pid, forked, other}, rows
        assert all(row["error"] is None and row["looks"] > 5 for row in rows.values()), rows
        stacks = {pid: [[frame["name"] for frame in row["frames"]] for row in found["stacks"] if row["pid"] == pid] for pid in rows}
        for pid in (job.pid, forked, other):
            assert any("go_round" in names for names in stacks[pid]), (pid, stacks[pid])
        alone = looks(lonely, job.pid, "--duration", "200ms")
        assert [row["pid"] for row in alone["processes"]] == [job.pid]


def test_one_that_ends(lonely):
    with process(PYTHONS[NEWEST], SHARES) as job:
        assert job.stdout.readline() == "ready\n"
        watching = watch(lonely, job.pid, "--format", "json")
        looked(watching, 20)
        job.kill()
        job.wait()
        out, err = watching.communicate(timeout=120)
        row = json.loads(out)["processes"][0]
        assert watching.returncode == 0 and row["ended"] and row["looks"] > 0, (out, err)


def test_ctrl_c_ends_it_with_what_there_is(lonely):
    with process(PYTHONS[NEWEST], SHARES) as job:
        assert job.stdout.readline() == "ready\n"
        assert "spin" in seen(lonely, job.pid)
        assert job.poll() is None


@pytest.mark.parametrize("options, sentence", [
    (["--rate", "10"], "goes with --duration"),
    (["--children"], "goes with --duration"),
    (["--format", "folded"], "goes with --duration"),
    (["--duration", "1s", "--native"], "is of one look"),
    (["--duration", "1s", "--idle"], "is of --format folded"),
    (["--duration", "1s", "--rate", "100000"], "--rate"),
])
def test_what_does_not_go_together(lonely, options, sentence):
    done = lonely.run("stack", "--pid", os.getpid(), *options)
    assert done.returncode == 2 and sentence in done.stderr, done


def test_what_cannot_be_looked_at(lonely):
    with process("sleep", "60") as job:
        done = lonely.run("stack", "--pid", job.pid, "--duration", "10m", "--format", "json")
        assert done.returncode == 3 and "runs no Python" in done.stderr and "runs no Python" in json.loads(done.stdout)["processes"][0]["error"], done


@pytest.mark.parametrize("how", ["frames", "names"])
def test_a_fake_python(lonely, how):
    """Each of its looks costs as much as one look may; then there is no other."""
    with process(BUILD / "workloads" / "fake_python", how) as job:
        assert job.stdout.readline() == "ready\n"
        done = lonely.run("stack", "--pid", job.pid, "--duration", "1s", "--format", "json", timeout=150)
        assert done.returncode in (0, 1) and len(done.stdout) < 150 << 20, (done.returncode, done.stderr)
        json.loads(done.stdout)


@pytest.mark.wide
@pytest.mark.skipif(not PYSPY, reason="py-spy is not there: PROFD_PYSPY names it")
def test_as_py_spy_records(lonely):
    """The same program, one after the other: the same functions, with the same shares of what ran."""
    with process(PYTHONS["3.11"], SHARES) as job, tempfile.NamedTemporaryFile("r") as file:
        assert job.stdout.readline() == "ready\n"
        ours = lonely.run("stack", "--pid", job.pid, "--duration", "3s", "--format", "folded").stdout
        subprocess.run([PYSPY, "record", "--pid", str(job.pid), "--duration", "3", "--format", "raw", "--output", file.name],
                       capture_output=True, check=True, timeout=60)
        shares = []
        for text in (ours, file.read()):
            sums = {}
            for line in text.splitlines():
                stack, count = line.rsplit(" ", 1)
                for name in ("slow", "quick", "spin"):
                    sums[name] = sums.get(name, 0) + int(count) * bool(re.search(rf"[;.]{name} \(", stack))
            shares.append((sums["slow"] / sums["spin"], sums["quick"] / sums["spin"]))
        # Not of all: py-spy counts some waits as running.
        assert shares[0] == pytest.approx(shares[1], abs=0.15), shares
