"""A daemon that says what none says: the client, built so that what C leaves undefined ends it, is told figures beyond all
bounds, and lists without an end."""

import json

import pytest

from cli import *  # noqa: F401,F403 (fixtures)
from conftest import BUILD
from fake_daemon import END, Client, capture_row, process_row, summary_row


@pytest.fixture
def checked(fake, folder):
    return Client(str(BUILD / "tests" / "profd_checked"), fake.path, folder)


def beyond(row, figure):
    return {k: figure if isinstance(v, (int, float)) and not isinstance(v, bool) else v for k, v in row.items()}


@pytest.mark.parametrize("figure", [1e300, -1e300, 9.3e18, -1, 0.5])
def test_figures(fake, checked, figure):
    process, capture = beyond(process_row(), figure), beyond(capture_row(), figure)
    status = dict(row="daemon", version="0.1.0", socket="x", pid=figure, processes=figure, captures=figure, uptime_ns=figure,
                  user=True, bytes=figure)
    fake.answers = {"ps": [process, END], "captures": [capture, END], "status": [status, END],
                    "doctor": [process, dict(row="collector", collector="torch", available=True, sentence="x", pid=figure), END],
                    "summary": [summary_row(capture, steps_total=figure, operators_total=figure, derive_ns=figure), END]}
    for words in (("ps",), ("captures",), ("status",), ("doctor",), ("doctor", "--pid", "4242"), ("show",), ("history",)):
        for form in ("table", "json"):
            done = checked.run(*words, "--format", form)
            assert done.returncode >= 0, (words, form, done)


def without_end(packet):
    packet = json.dumps(packet).encode()

    def answer(connection, request):
        while True:
            connection.send(packet)
    return answer


# Few large ones, which no table shows, so that a client which takes them all does not take the machine's memory; many small ones.
ENDLESS = [dict(row="other", x=[0] * 20_000), dict(row="other")]


@pytest.mark.parametrize("packet", ENDLESS, ids=["large", "small"])
def test_a_list_without_an_end(fake, client, packet):
    fake.answers["ps"] = without_end(packet)
    done = client.run("ps", timeout=90)
    assert done.returncode == 1 and done.stdout == ""
    assert "sent a list without an end" in done.stderr and "--limit" in done.stderr and done.stderr.count("profd: ") == 1


@pytest.mark.parametrize("row", [dict(row="target", pid=1, name="x", outcome="left_out", message="worker"),
                                 dict(row="together", job="x", processes=2, at_step=1)], ids=["left_out", "together"])
def test_a_trigger_without_an_end(fake, client, row):
    fake.answers["trigger"] = without_end(row)
    done = client.run("trigger", "--all", "--format", "json", timeout=90)
    assert done.returncode == 1 and "sent a list without an end" in done.stderr.splitlines()[-1]


def test_a_daemon_that_ends_in_a_snapshot(fake, checked):
    """Its connection closed is no packet."""
    fake.answers.update(ps=[process_row(last_step_at=None), END], captures=[END], trigger=lambda connection, request: connection.close())
    done = checked.run("snapshot", "--all", "--format", "json")
    assert done.returncode in (1, 7) and "closed the connection" in done.stdout + done.stderr
