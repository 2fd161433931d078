"""`profd trigger` from the request to the exit code."""

import gzip
import json
import os
import signal
import threading

import pytest

from cli import *  # noqa: F401,F403 (fixtures)
from fake_daemon import END, CaptureFile, capture_row, error, process_row, summary_row


def target(pid, capture_id, rank=None):
    return {"row": "target", "pid": pid, "name": "train.py", "rank": rank, "outcome": "armed", "capture_id": capture_id,
            "step_source": "optimizer"}


def play(*captures, refused=()):
    """An answer that records these CAPTUREs."""
    def answer(connection, request):
        for capture in captures:
            connection.send(target(capture["pid"], capture["capture_id"], capture["rank"]))
        for row in refused:
            connection.send(row)
        connection.send({"row": "accepted", "trigger_id": "9", "armed": len(captures), "refused": len(refused)})
        if request["follow"]:
            for k in range(1, 4):
                for capture in captures:
                    connection.send({"row": "progress", "capture_id": capture["capture_id"], "pid": capture["pid"],
                                     "rank": capture["rank"], "status": "recording", "step": k, "of": 3, "warmup_step": 1, "elapsed": 0})
            for capture in captures:
                connection.send(dict(capture, row="captured"))
        connection.send({"end": True, "trigger_id": "9"})
    return answer


def summaries(connection, request):
    connection.send(summary_row(capture_row(request["capture_id"])))
    connection.send(END)


def test_request(client, fake):
    fake.answers["trigger"] = [error("busy", "no")]
    client.run("trigger", "--pid", "5,6", "--pid=7", "--pid", "6", "--steps", "4", "--skip-first", "1", "--wait-steps", "2", "--warmup", "0",
               "--repeat", "3", "--label", "a b", "--shapes", "--max-events", "1000", "--max-bytes", "64M", "--timeout", "1m30s")
    request = fake.of("trigger")[0]
    assert request["targets"] == {"pids": [5, 6, 7]}
    assert request["schedule"] == {"skip_first": 1, "wait": 2, "warmup": 0, "active": 4, "repeat": 3}
    assert request["collectors"] == ["steps", "nvtx", "torch", "shapes", "cupti", "compile"]
    assert (request["graphs"], request["api"]) == ("nodes", "launches")
    assert (request["label"], request["max_events"], request["max_bytes"], request["timeout"]) == ("a b", 1000, 64 << 20, 90 * 10**9)
    assert request["follow"] is True and request["duration"] == 0 and request["major"] == 1
    client.run("trigger", "--name", "tr*", "--duration", "500ms", "--wait-for", "2s", "--no-wait")
    request = fake.of("trigger")[1]
    assert request["targets"] == {"name": "tr*"} and request["duration"] == 500_000_000 and request["wait_for"] == 2_000_000_000
    assert request["follow"] is False and "shapes" not in request["collectors"]
    client.run("trigger", "--all", "--step-range", "it*", "--at-step", "900")
    request = fake.of("trigger")[2]
    assert request["collectors"] == ["steps", "nvtx", "torch", "cupti", "compile"]
    assert request["targets"] == {"all": True} and request["step_range"] == "it*" and request["at_step"] == 900


def test_request_for_the_gpu(client, fake):
    fake.answers["trigger"] = [error("busy", "no")]
    for words, collectors, graphs, api in (
            (["--no-gpu"], ["steps", "nvtx", "torch", "compile"], "nodes", "launches"),
            (["--memory"], ["steps", "nvtx", "torch", "cupti", "memory", "allocations", "compile"], "nodes", "launches"),
            (["--no-gpu", "--memory"], ["steps", "nvtx", "torch", "allocations", "compile"], "nodes", "launches"),
            (["--activities", "gpu"], ["steps", "cupti"], "nodes", "launches"),
            (["--activities", "cpu"], ["steps", "nvtx", "torch", "compile"], "nodes", "launches"),
            (["--preset", "light"], ["steps", "nvtx", "cupti"], "nodes", "launches"),
            (["--preset", "light", "--graphs", "whole"], ["steps", "nvtx", "cupti"], "whole", "launches"),
            (["--graphs", "whole", "--api=all"], ["steps", "nvtx", "torch", "cupti", "compile"], "whole", "all")):
        client.run("trigger", "--pid", "5", *words)
        request = fake.of("trigger")[-1]
        assert (request["collectors"], request["graphs"], request["api"]) == (collectors, graphs, api)


def test_recipe(client, fake, folder):
    """What is asked of the daemon is what the options of the command line would ask; these go before the recipe's."""
    fake.answers["trigger"] = [error("busy", "no")]
    (folder / "r.json").write_text('{"wait": 1, "active": 4, "repeat": 2, "record_shapes": true, "with_stack": true,\n"activities": ["cpu"], "label": "r"}')
    client.run("trigger", "--pid", 5, "--recipe", folder / "r.json", "--repeat", 3)
    client.run("trigger", "--pid", 5, "--wait-steps", 1, "--steps", 4, "--repeat", 3, "--shapes", "--stacks=operators", "--no-gpu", "--label", "r")
    asked, plain = fake.of("trigger")
    assert asked == plain and asked["schedule"]["active"] == 4 and "cupti" not in asked["collectors"]


def test_one(client, fake):
    fake.answers.update(trigger=play(capture_row()), summary=summaries)
    done = client.run("trigger", "--pid", "4242")
    assert done.returncode == 0, done.stderr
    for text in ("capture 17", "3 of 3 steps", "aten::addmm", "forward", "Dropped or incomplete events\n  none", "next:", "profd show 17", "profd export 17", "STEP BEFORE"):
        assert text in done.stdout, text
    assert "recording 3 steps" in done.stderr and "\x1b" not in done.stdout + done.stderr
    answer = json.loads(client.run("trigger", "--pid", "4242", "--format", "json").stdout)
    assert answer["schema"] == "profd.trigger/1" and answer["refused"] == [] and answer["trigger_id"] == "9"
    assert answer["captures"][0]["capture_id"] == "17" and answer["captures"][0]["status"] == "complete"
    assert "row" not in answer["captures"][0]


def test_several_ranks(client, fake):
    rows = [capture_row(str(20 + r), pid=100 + r, rank=r, step_ns=10_000_000 + (r == 2) * 5_000_000) for r in range(4)]
    fake.answers.update(trigger=play(*reversed(rows)), summary=summaries)
    done = client.run("trigger", "--all")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:5]] == [[str(r), str(100 + r)] for r in range(4)]
    # Ranks wait for each other: a longer step does not tell who is slow.
    assert "slowest" not in done.stdout.replace("SLOWEST STEP", "").replace("the slowest step alone", "")
    assert "capture 20, pid 100, rank 0:" in lines and "profd show 20" in done.stdout


def test_not_recorded_is_not_none(client, fake):
    fake.answers.update(trigger=play(capture_row()), summary=[summary_row(
        operators=[], operators_total=0, collectors=[{"collector": "torch", "on": False, "sentence": "no libtorch", "enable_ns": 0}]), END])
    assert "not recorded: no libtorch" in client.run("trigger", "--pid", 4242).stdout


@pytest.mark.parametrize("capture, code, words", [
    (dict(status="incomplete", reason="the process exited", reason_code="exit"), 5, "the process exited"),
    (dict(status="incomplete", reason="the time limit of 1 s came", reason_code="deadline"), 4, "--duration"),
    (dict(status="failed", reason="the disk is full", reason_code="daemon"), 1, "the disk is full"),
    (dict(status="incomplete", reason="of a daemon that says no more"), 5, "no more"),
])
def test_not_complete(client, fake, capture, code, words):
    fake.answers.update(trigger=play(capture_row(**capture)), summary=summaries)
    done = client.run("trigger", "--pid", "4242")
    assert done.returncode == code and words in done.stderr
    done = client.run("trigger", "--pid", "4242", "--format", "json")
    assert done.returncode == code and json.loads(done.stdout)["captures"][0]["reason"] == capture["reason"]


def test_worst_code_wins(client, fake):
    refused = [{"row": "target", "pid": 7, "name": "x", "rank": None, "outcome": "busy", "message": "process 7 is being recorded"}]
    fake.answers.update(trigger=play(capture_row(), refused=refused), summary=summaries)
    done = client.run("trigger", "--pid", "4242,7", "--format", "json")
    assert done.returncode == 8
    assert json.loads(done.stdout)["refused"] == [{"pid": 7, "code": "busy", "message": "process 7 is being recorded"}]
    fake.answers["trigger"] = play(capture_row(), capture_row("18", status="incomplete", reason="x"), refused=refused)
    assert client.run("trigger", "--pid", "4242,7").returncode == 5


def test_no_wait(client, fake):
    fake.answers["trigger"] = play(capture_row(), capture_row("18", pid=5))
    done = client.run("trigger", "--all", "--no-wait")
    assert (done.returncode, sorted(done.stdout.split())) == (0, ["17", "18"])
    assert json.loads(client.run("trigger", "--all", "--no-wait", "--format", "json").stdout)["captures"][0]["status"] == "armed"


def test_ctrl_c(client, fake):
    cancelled = threading.Event()

    def record(connection, request):
        connection.send(target(4242, "17"))
        connection.send({"row": "accepted", "trigger_id": "9", "armed": 1, "refused": 0})
        assert cancelled.wait(60)
        connection.send(capture_row(row="captured", status="incomplete", reason="cancelled", steps_recorded=1))
        connection.send({"end": True})

    def cancel(connection, request):
        connection.send({"row": "cancelled", "capture_id": "17"})
        connection.send(END)
        cancelled.set()
    fake.answers.update(trigger=record, cancel=cancel, summary=summaries)
    process = client.start("trigger", "--pid", "4242", "--format", "json")
    fake.wait_for("trigger")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 130, err
    assert fake.of("cancel")[0]["trigger_id"] == "9"
    assert json.loads(out)["captures"][0]["status"] == "incomplete"


def test_ctrl_c_twice_leaves(client, fake):
    left = threading.Event()

    def record(connection, request):
        connection.send(target(4242, "17"))
        connection.send({"row": "accepted", "trigger_id": "9", "armed": 1, "refused": 0})
        left.wait(120)
    fake.answers.update(trigger=record, cancel=[END])
    process = client.start("trigger", "--pid", "4242")
    fake.wait_for("trigger")
    process.send_signal(signal.SIGINT)
    fake.wait_for("cancel")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=240)
    left.set()
    assert process.returncode == 130


def test_daemon_dies_in_mid_capture(client, fake):
    def record(connection, request):
        connection.send(target(4242, "17"))
        connection.close()
    fake.answers["trigger"] = record
    done = client.run("trigger", "--pid", "4242", "--format", "json")
    assert done.returncode == 1 and "closed the connection" in done.stderr
    assert json.loads(done.stdout)["captures"][0]["status"] == "armed"


def test_output(client, fake, folder):
    capture = CaptureFile(folder / "17.db")
    capture.collector("torch")
    capture.step(1, 101, 0, 10_000_000)
    capture.operator("aten::mm", 0, 1000, 1000)
    fake.answers.update(trigger=play(capture_row(rank=0), capture_row("18", pid=5, rank=1)), summary=summaries)
    fake.serve_file(capture.finish())
    done = client.run("trigger", "--all", "--output", folder / "t.x.json", "--format", "json")
    assert done.returncode == 0, done.stderr
    paths = [row["output"] for row in json.loads(done.stdout)["captures"]]
    assert paths == [str(folder / "t.x.rank0.json"), str(folder / "t.x.rank1.json")]
    for path in paths:
        with open(path) as file:
            assert any(event.get("name") == "aten::mm" for event in json.load(file)["traceEvents"])


def test_output_into_a_folder(client, fake, folder):
    """It is made where it is not there, as torch's handlers make it, and each capture's file has a name of its own."""
    capture = CaptureFile(folder / "17.db")
    capture.collector("torch")
    capture.step(1, 101, 0, 10_000_000)
    capture.operator("aten::mm", 0, 1000, 1000)
    fake.answers.update(trigger=play(capture_row(rank=0), capture_row("18", rank=1)), summary=summaries)
    path = capture.finish()

    def give(connection, request):
        fd = os.open(path, os.O_RDONLY)
        connection.send(dict(capture_row(request["capture_id"]), row="file"), [fd])
        os.close(fd)
        connection.send(END)
    fake.answers["open"] = give
    for round in range(2):
        done = client.run("trigger", "--all", "--output", f"{folder}/logs/job{'/' if not round else ''}", "--format", "json", *(["--force"] * round))
        assert done.returncode == 0, done.stderr
        paths = [row["output"] for row in json.loads(done.stdout)["captures"]]
        assert paths == [f"{folder}/logs/job/train.py_4242.{n}.pt.trace.json.gz" for n in (17, 18)]
        for one in paths:
            with gzip.open(one) as file:
                assert any(event.get("name") == "aten::mm" for event in json.load(file)["traceEvents"])
    # What cannot be is said before anything is recorded for it.
    done = client.run("trigger", "--all", "--output", f"{folder}/17.db/job/")
    assert done.returncode == 1 and "Not a directory" in done.stderr and len(fake.of("trigger")) == 2
