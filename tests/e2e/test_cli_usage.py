"""Command lines that make no sense, help, and the exit codes of what cannot be had."""

import json
import os
import re
import subprocess

import pytest

from cli import *  # noqa: F401,F403 (fixtures)
from conftest import ROOT, choices, topics, verbs
from fake_daemon import END, Client, FakeDaemon, capture_row, error, process_row
from make_capture import gpu_capture



def sentence(done, *words):
    """Exactly one sentence on standard error, nothing on standard output; after a usage error, where to read on."""
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    if done.returncode == 2:
        assert re.search(r"`profd (\w+ --help|help)`", lines[-1]), done.stderr
        if len(lines) > 1:
            lines.pop()
    assert len(lines) == 1 and lines[0].startswith("profd: "), done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_help_lists_every_verb(lonely):
    """Of each verb there is one function, in a file of its own."""
    done = lonely.run()
    assert done.returncode == 0
    sources = [re.search(r"^int command_(\w+)\(", path.read_text(), re.M) for path in (ROOT / "client/command").glob("*.c")]
    assert sorted(verbs()) == sorted(found.group(1) for found in sources if found)
    for verb in verbs():
        one = lonely.run(verb, "--help")
        assert one.returncode == 0 and one.stdout.startswith("usage: profd " + verb) and one.stderr == ""
        assert [line for line in one.stdout.splitlines() if len(line) > 80] == []
        assert lonely.run("help", verb).stdout == one.stdout
    assert lonely.run("--help").stdout == done.stdout
    for topic in topics():
        text = lonely.run("help", topic).stdout
        assert text and [line for line in text.splitlines() if len(line) > 80] == []
    assert re.fullmatch(r"profd \d+\.\d+\.\d+\n", lonely.run("--version").stdout)


def keys_of(text):
    """Names of the documented keys: what stands in parentheses explains them."""
    while "(" in text:
        text = re.sub(r"\([^()]*\)", "", text)
    return [word.strip(" []") for word in text.split(",")]


def test_the_documented_keys_are_those_of_the_tables(lonely, folder):
    gpu_capture(folder / "17.db", graphs="whole", memory=True)
    shown = json.loads(lonely.run("show", folder / "17.db", "--format", "json").stdout)
    section = lonely.run("help", "json").stdout.split("## Tables of profd.show/2\n\n")[1].split("\n\n")[0]
    documented = {}
    for entry in re.sub(r"\n  ", " ", section).splitlines():
        key, text = entry[2:].split(": ", 1)
        documented[key] = keys_of(text)
    assert set(shown) - set(documented) == {"schema", "capture", "notes", "uncut", "collectors", "verdict"}
    for key, names in documented.items():
        rows = shown[key] if isinstance(shown[key], list) else [shown[key]]
        # No process of the job was looked at.
        if key == "workers" and rows == [None]:
            continue
        # There was no torch: test_memory.py and others look at them.
        if key in ("operator_memory", "memory_steps", "memory_peak", "memory_use", "memory_leaks", "flops", "modules", "lines", "functions", "compiles") and rows == [None]:
            continue
        assert rows != [None], key
        for row in rows:
            # Those of --group-by-shapes and --group-by-stack alone.
            assert [name for name in names if name not in ("input_shapes", "stack")] == list(row), key
    assert sum(bool(shown[key]) for key in documented) >= 15


@pytest.mark.parametrize("line, words", [
    ("triger", ["profd trigger"]),
    ("xyzzy", ["profd help"]),
    ("help xyzzy", ["profd help"]),
    ("trigger", ["--pid", "profd ps"]),
    ("trigger --pid 1 --step 3", ["--steps"]),
    ("trigger --pid 1 --max-event 3", ["--max-events"]),
    ("trigger --pid 1 --xyzzy", ["trigger --help"]),
    ("trigger --pid one", ["--pid one"]),
    ("trigger --pid 1,,2", ["process id"]),
    ("trigger --pid", ["--pid"]),
    ("trigger --pid 1 --steps 0", ["at least 1"]),
    ("trigger --pid 1 --steps 3x", ["whole number"]),
    ("trigger --pid 1 --duration 2", ["2s"]),
    ("trigger --pid 1 --max-bytes 1Q", ["64M"]),
    ("trigger --pid 1 --duration 2s --steps 3", ["--steps"]),
    ("trigger --pid 1 --all", ["not several"]),
    ("trigger --pid 1 --wait-for 5s", ["--name"]),
    ("trigger --pid 1 --output t.xyz", [".json"]),
    ("trigger --pid 1 --output t.json --no-wait", ["--no-wait"]),
    ("trigger --pid 1 --no-wait=yes", ["no value"]),
    ("trigger --pid 1 --graphs some", ["nodes|whole"]),
    ("trigger --pid 1 --api none", ["launches|all"]),
    ("trigger --pid 1 --no-gpu --graphs whole", ["--no-gpu", "--graphs"]),
    ("trigger --pid 1 --no-gpu --api all", ["--no-gpu", "--api"]),
    ("trigger --pid 1 --preset heavy", ["light|default|full"]),
    ("trigger --pid 1 --activities host", ["cpu,gpu|gpu|cpu"]),
    ("trigger --pid 1 --activities gpu --shapes", ["device alone", "--shapes"]),
    ("trigger --pid 1 --activities gpu --memory", ["device alone", "--memory"]),
    ("trigger --pid 1 --activities gpu --api all", ["device alone", "--api all"]),
    ("trigger --pid 1 --activities cpu,gpu --no-gpu", ["--activities cpu,gpu", "--no-gpu"]),
    ("trigger --pid 1 --look 2s --preset light", ["--look", "--preset"]),
    ("snapshot --all --activities gpu --no-gpu", ["--activities gpu", "--no-gpu"]),
    ("ps --format yaml", ["table|json|csv"]),
    ("ps extra", ["extra"]),
    ("rm", ["usage"]),
    ("cancel", ["--all"]),
    ("set", ["of what?", "--trigger ID"]),
    ("set 17", ["+WORD", "profd set --help"]),
    ("set 17 +nothing", ["+nothing", "stacks=operators"]),
    ("set 17 -memory +memory", ["leave one of them out"]),
    ("export 1 2 --format tensorboard --output x.pt.trace.json", ["the format tensorboard holds one capture a file"]),
    ("export 1 --step 3-2 --output x.json", ["a step is wanted"]),
    ("show 1 2 --format csv", ["CSV holds one table"]),
    ("show --sort-by speed", ["self_cpu_time_total", "cuda_time", "name is wanted"]),
    ("show --by kernel", ["kernels", "cost is wanted"]),
    ("run", ["usage"]),
    ("daemon", ["--user"]),
])
def test_usage(lonely, line, words):
    done = lonely.run(*line.split())
    assert done.returncode == 2, done
    sentence(done, *words)


@pytest.mark.parametrize("text, words", [
    ('{"steps": 3,\n"stepz": 4}', ["line 2", "stepz", "no such key"]),
    ('{\n"label": "steps",\n"steps": "4"}', ["line 3", "whole number"]),
    ('{"steps": 3,\n\n"timeout": 4}', ["line 3", "text in quotes"]),
    ('{"graphs": "some"}', ["line 1", "nodes|whole"]),
    ('{"steps": 3,\n"shapes" true}', ["line 2", "not JSON"]),
    ('{"a\x1b[31m": 3}', ["line 1"]),
    ("[" * 60000, ["not JSON"]),
    (" " * 65537, ["64 KiB"]),
    ('{"activities": ["xpu"]}', ["activities", "cuda"]),
    ('{"steps": 2,\n"preset": "heavy"}', ["line 2", "light|default|full"]),
])
def test_recipe(lonely, folder, text, words):
    (folder / "r.json").write_text(text)
    done = lonely.run("trigger", "--pid", 1, "--recipe", folder / "r.json")
    assert done.returncode == 2 and "\x1b" not in done.stderr
    sentence(done, "r.json", *words)


def test_recipe_that_is_no_file(lonely, folder):
    os.mkfifo(folder / "fifo")
    for path, word in ((folder / "fifo", "no regular file"), (folder, "no regular file"), (folder / "none", "No such file"),
                       ("/dev/zero", "no regular file"), ("/proc/self/mem", "cannot be read")):
        done = lonely.run("snapshot", "--all", "--recipe", path)
        assert done.returncode == 2
        sentence(done, word)


def test_output_is_not_overwritten(lonely, folder):
    (folder / "t.json").write_text("mine")
    done = lonely.run("trigger", "--pid", 1, "--output", folder / "t.json")
    assert done.returncode == 2
    sentence(done, "--force")
    assert (folder / "t.json").read_text() == "mine"


@pytest.mark.parametrize("line", ["ps", "trigger --pid 1", "captures", "show", "show 3", "export 3", "rm 3", "status", "cancel --all"])
def test_no_daemon(lonely, line):
    done = lonely.run(*line.split())
    assert done.returncode == 7, done
    sentence(done, "profd daemon --user", "profd.sock")


def test_distrusted_socket(client, fake, folder):
    (folder / "d").chmod(0o777)
    done = client.run("ps")
    assert done.returncode == 7
    sentence(done, "not to be trusted")
    assert fake.requests == []


@pytest.mark.parametrize("code, exit_code", [
    ("no_such_process", 3), ("no_agent", 3), ("gone", 3), ("no_such_target", 3), ("not_permitted", 6), ("busy", 8),
    ("no_step_source", 9), ("at_step_unseen", 9), ("timed_out", 4), ("usage", 2), ("version", 1), ("quota", 8),
    ("a_word_of_a_newer_daemon", 1),
])
def test_daemon_errors(client, fake, code, exit_code):
    """Of the whole request, and of its one target."""
    fake.answers["trigger"] = [error(code, "this is why; do that", 5)]
    done = client.run("trigger", "--pid", 5)
    assert done.returncode == exit_code
    sentence(done, "this is why; do that")
    fake.answers["trigger"] = [
        {"row": "target", "pid": 5, "name": "x", "rank": None, "outcome": code, "message": "this is why; do that"},
        {"row": "accepted", "trigger_id": "1", "armed": 0, "refused": 1},
        error(code, "this is why; do that", 5)]
    done = client.run("trigger", "--pid", 5)
    assert done.returncode == exit_code
    sentence(done, "this is why; do that")


@pytest.mark.parametrize("packet", [b"no json", b"[]", b"{\"row\":", b"\xff\xfe{}", b"{\"error\":1,\"end\":true}", b"{\"row\":5,\"end\":true}"])
def test_hostile_answers(client, fake, packet):
    fake.answers["ps"] = [packet]
    done = client.run("ps", "--format", "json")
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr
    fake.answers["trigger"] = [packet]
    assert client.run("trigger", "--pid", 5).returncode in (1, 3)


def test_a_daemon_that_dies(client, fake):
    fake.answers["ps"] = lambda connection, request: connection.close()
    done = client.run("ps")
    assert done.returncode == 1
    sentence(done, "closed the connection", "profd status")


def test_nothing_matched_is_never_0(client, fake):
    fake.answers.update(ps=lambda c, r: c.send(error("no_such_process", "there is no process; see") if "pid" in r else END), captures=[END])
    assert client.run("ps").returncode == 0
    assert "profd run" in client.run("ps").stderr
    assert client.run("captures").returncode == 0
    for line in ("ps --name x", "ps --job x", "ps --pid 4", "captures --label x", "captures --pid 4", "show"):
        done = client.run(*line.split())
        assert done.returncode == 3, line
        sentence(done)


def test_ps_says_which_pid_is_missing(client, fake):
    def answer(connection, request):
        connection.send(error("no_agent", "process 77 runs without", 77) if "pid" in request else process_row())
        if "pid" not in request:
            connection.send(END)
    fake.answers["ps"] = answer
    done = client.run("ps", "--pid", "4242,77")
    assert done.returncode == 3 and "4242" in done.stdout and "77" in done.stderr


def test_rm_and_cancel(client, fake):
    def remove(connection, request):
        for one in request["capture_ids"]:
            connection.send({"row": "removed", "capture_id": one} if one == "1" else
                            {"row": "kept", "capture_id": one, "error": {"code": "busy", "message": "it is being recorded"}})
        connection.send(END)
    fake.answers.update(rm=remove, cancel=[error("no_such_capture", "there is no capture 5")])
    assert client.run("rm", "1").returncode == 0
    done = client.run("rm", "1", "2")
    assert done.returncode == 8 and done.stdout == "1\n" and "recorded" in done.stderr
    assert client.run("cancel", "5").returncode == 3
    assert client.run("cancel", "--pid", "5").returncode == 3


def test_options_anywhere(client, fake):
    fake.answers["captures"] = [capture_row(), END]
    one = client.run("captures", "--format=json", "--limit", "5")
    assert one.returncode == 0 and one.stdout == client.run("captures", "--limit=5", "--format", "json").stdout
    assert fake.of("captures")[0]["limit"] == 6


@pytest.fixture
def both(folder):
    """The system's daemon and the user's own. /run/profd is a folder of ours in a mount namespace."""
    system, own = FakeDaemon(folder / "system"), FakeDaemon(folder / "profd")
    stage = "mount -t tmpfs none /run && mkdir /run/profd && mount --bind %s /run/profd && exec \"$@\"" % (folder / "system")
    namespace = ["unshare", "-r", "-m", "sh", "-c", stage, "sh"]
    if subprocess.run(namespace + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("this machine allows no user and mount namespaces")

    def run(*words):
        client = Client(str(PROFD), "", folder)
        return subprocess.run(namespace + [str(PROFD), *words], env=client.environment, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    yield system, own, run
    system.close()
    own.close()


def test_two_daemons_are_asked_and_merged(both):
    system, own, run = both

    def listing(*rows):
        def answer(connection, request):
            found = [row for row in rows if request.get("pid", row["pid"]) == row["pid"]]
            for row in found:
                connection.send(row)
            connection.send(END if found or "pid" not in request else error("no_agent", "process runs without", request["pid"]))
        return answer
    system.answers.update(ps=listing(process_row(1)), captures=[capture_row("17"), END])
    own.answers.update(ps=listing(process_row(2)), captures=[capture_row("u3", started_at="2026-11-21T15:00:00.000000Z"), END],
                       open=[error("no_such_capture", "there is no capture 17")])
    done = run("ps", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [row["pid"] for row in json.loads(done.stdout)["processes"]] == [1, 2]
    assert [row["capture_id"] for row in json.loads(run("captures", "--format", "json").stdout)["captures"]] == ["u3", "17"]
    # Each process is triggered where it is registered.
    for daemon in (system, own):
        daemon.answers["trigger"] = lambda connection, request: connection.send(error("busy", "busy", request["targets"]["pids"][0]))
    assert run("trigger", "--pid", "1,2").returncode == 8
    assert system.of("trigger")[0]["targets"] == {"pids": [1]} and own.of("trigger")[0]["targets"] == {"pids": [2]}
    # What only one of them knows is the answer.
    own.answers["trigger"] = [error("no_such_target", "no registered process matches x")]
    system.answers["trigger"] = [{"row": "target", "pid": 1, "name": "x", "rank": None, "outcome": "armed", "capture_id": "18"},
                                 {"row": "accepted", "trigger_id": "4", "armed": 1, "refused": 0}, END]
    done = run("trigger", "--name", "x", "--no-wait")
    assert (done.returncode, done.stdout, done.stderr.count("matches")) == (0, "18\n", 0)
    system.answers["trigger"] = own.answers["trigger"]
    assert run("trigger", "--name", "x").returncode == 3


def test_export_makes_the_folder(lonely, folder):
    """As torch does; but not where there is nothing to be put there."""
    gpu_capture(folder / "17.db")
    done = lonely.run("export", folder / "17.db", "--output", f"{folder}/logs/job/")
    assert done.returncode == 0 and os.path.dirname(done.stdout.strip()) == f"{folder}/logs/job" and os.path.exists(done.stdout.strip())
    assert lonely.run("export", folder / "18.db", "--output", f"{folder}/more/job/").returncode == 3
    assert not os.path.exists(folder / "more")
    done = lonely.run("export", folder / "17.db", "--output", f"{folder}/17.db/job/")
    assert done.returncode == 1 and "cannot be made or written: Not a directory" in done.stderr
