"""The audit log: who did what to whose process, when, and what came of it; in the journal and in the catalogue."""
import csv
import io
import json
import os
import pty
import re
import signal
import sqlite3
import subprocess

import pytest

import fake_agent as fake
from conftest import BUILD, wait_for
from shared_node import ALICE, BOB, CAROL, GROUP, as_user, error_of, needs_root, node, record_once, start_as

pytestmark = needs_root
LINE = re.compile(r'^profd-daemon: audit: action=(\S+) outcome=(\S+) uid=(\d+) user="([^"]*)" pid=(\d+)'
                  r'(?: target_pid=(\d+))?(?: target_uid=(\d+))? subject="((?:[^"\\]|\\.)*)" at=(\S+)$')


def lines_of(node):
    """The journal's audit lines, each checked to be whole."""
    found = []
    for line in node.journal().splitlines():
        if "audit:" in line:
            match = LINE.match(line)
            assert match, line
            found.append(match.groups())
    return found


def logged(node, **wanted):
    """Waits until a row of the audit log is like this."""
    def look():
        return [row for row in node.audit() if all(row[key] == value for key, value in wanted.items())]
    return wait_for(look, 5, f"an audit line {wanted}")


@pytest.fixture
def shared(node):
    node.start()
    node.theirs = node.job(node.steps, "--step-ms=5", user=ALICE)
    node.wait_steps(node.theirs.pid, 2)
    node.capture = record_once(node, node.theirs, "", ALICE)
    yield node


def test_a_line_for_everything(shared):
    """trigger, open, cancel, rm, and what is refused: with who, what, whose, which pid and the outcome, in both places."""
    pid, capture = shared.theirs.pid, shared.capture
    target = {"target_pid": pid, "target_uid": ALICE, "target_user": "alice"}
    ended = {"uid": ALICE, "user": "alice", **target}
    row = logged(shared, action="trigger", outcome="armed", **ended)[0]
    assert row["subject"] == "t1: 1 armed, 0 refused" and row["pid"] > 0
    shared.run("export", capture, "--output", "-", user=ALICE)
    for op in ("pin", "unpin"):
        shared.run(op, capture, user=ALICE)
        logged(shared, action=op, outcome=op + "ned", subject=capture, **ended)
    logged(shared, action="open", outcome="opened", subject=capture, **ended)

    bob = {"uid": BOB, "user": "bob", "outcome": "not_permitted"}
    for op, fields in (("doctor", {"pid": pid}), ("cancel", {"pid": pid}), ("ps", {"pid": pid}),
                       ("open", {"capture_id": capture}), ("summary", {"capture_id": capture}),
                       ("rm", {"capture_ids": [capture]}), ("pin", {"capture_ids": [capture]}),
                       ("trigger", fake.trigger_fields(targets={"pids": [pid]}))):
        as_user(BOB, lambda: fake.ask(shared.socket, op, **fields))
        found = logged(shared, action=op, **bob, **target)
        assert len(found) == 1, found
    # An administrator's act on another's process, which that one sees.
    as_user(CAROL, lambda: fake.ask(shared.socket, "trigger", **fake.trigger_fields(targets={"all": True})), groups=[GROUP])
    logged(shared, action="trigger", outcome="armed", uid=CAROL, user="carol", **target)
    as_user(CAROL, lambda: fake.ask(shared.socket, "rm", capture_ids=[capture]), groups=[GROUP])
    logged(shared, action="rm", outcome="removed", uid=CAROL, subject=capture, **target)
    # Of several, what was refused has a line of its own.
    rows = as_user(BOB, lambda: fake.ask(shared.socket, "trigger", **fake.trigger_fields(targets={"pids": [pid, 1]})))
    assert error_of(rows) == "not_permitted"
    assert len(logged(shared, action="trigger", subject="t4", **bob)) == 2
    # Cancelled by its owner.
    as_user(ALICE, lambda: fake.ask(shared.socket, "trigger", **fake.trigger_fields(
        targets={"pids": [pid]}, follow=False, schedule={"skip_first": 0, "wait": 0, "warmup": 1, "active": 9999, "repeat": 1})))
    as_user(ALICE, lambda: fake.ask(shared.socket, "cancel", all=True))
    logged(shared, action="cancel", outcome="cancelled", **ended)

    stored, journal = shared.audit(), lines_of(shared)
    assert len(stored) == len(journal)
    for row, line in zip(reversed(stored), journal):
        assert (row["action"], row["outcome"], str(row["uid"]), row["user"], str(row["pid"]), row["subject"], row["at"]) == (
            line[0], line[1], line[2], line[3], line[4], line[7], line[8])
        assert (row["target_pid"], row["target_uid"]) == tuple(int(x) if x else None for x in line[5:7])


def test_who_has_attached(shared):
    """The caller as the kernel names them, where they have announced it and may; what only the process says is called a claim."""
    def announces(user, pid):
        return as_user(user, lambda: (os.getpid(), error_of(fake.ask(shared.socket, "attach", pid=pid))))

    def registers():
        """As one that was attached to."""
        fake.Agent(shared.socket, name="train.py", entry=fake.ENTRY_ATTACH | fake.ENTRY_NEW)
        return os.getpid()
    claims = as_user(ALICE, registers)
    row = logged(shared, action="attach", outcome="claimed", target_pid=claims)[0]
    assert (row["uid"], row["pid"], row["target_uid"]) == (ALICE, claims, ALICE) and "only the process itself says so" in row["subject"], row

    waits, goes = os.pipe()
    job = start_as(shared, ALICE, lambda: (os.read(waits, 1), registers(), signal.pause()))
    wait_for(lambda: os.stat(f"/proc/{job}").st_uid == ALICE, what="Alice's process")
    assert announces(BOB, job)[1] == "not_permitted"
    logged(shared, action="attach", outcome="not_permitted", uid=BOB, target_pid=job)
    client, error = announces(ALICE, job)
    assert not error
    asked = logged(shared, action="attach", outcome="asked", target_pid=job)[0]
    os.write(goes, b"1")
    done = logged(shared, action="attach", outcome="attached", target_pid=job)[0]
    assert {(row["uid"], row["pid"], row["target_uid"]) for row in (asked, done)} == {(ALICE, client, ALICE)}, (asked, done)
    assert announces(ALICE, 4194303)[1] == "no_such_process"


def test_who_sees_which_lines(shared):
    """A user sees what they did and what was done to their processes; an administrator all."""
    pid = shared.theirs.pid
    as_user(BOB, lambda: fake.ask(shared.socket, "doctor", pid=pid))
    as_user(BOB, lambda: fake.ask(shared.socket, "trigger", **fake.trigger_fields(targets={"name": "none"})))
    look = lambda: fake.ask(shared.socket, "audit")[:-1]
    assert {(row["uid"], row["action"]) for row in as_user(ALICE, look)} >= {(ALICE, "trigger"), (BOB, "doctor")}
    assert all(ALICE in (row["uid"], row["target_uid"]) for row in as_user(ALICE, look))
    assert {row["uid"] for row in as_user(BOB, look)} == {BOB}
    assert as_user(CAROL, look) == []
    assert {row["uid"] for row in as_user(CAROL, look, groups=[GROUP])} == {ALICE, BOB}
    # Nor by asking for somebody.
    assert as_user(CAROL, lambda: fake.ask(shared.socket, "audit", uid=ALICE))[:-1] == []


def test_the_verb(shared):
    as_user(BOB, lambda: fake.ask(shared.socket, "doctor", pid=shared.theirs.pid))
    answer = shared.json("audit")
    assert answer["schema"] == "profd.audit/1" and len(answer["lines"]) >= 2
    ats = [line["at"] for line in answer["lines"]]
    assert ats == sorted(ats, reverse=True)
    rows = list(csv.DictReader(io.StringIO(shared.run("audit", "--format", "csv", "--action", "doctor").stdout)))
    assert [(row["user"], row["outcome"], row["target_user"], int(row["target_pid"])) for row in rows] == [
        ("bob", "not_permitted", "alice", shared.theirs.pid)]
    assert "not_permitted" in shared.run("audit").stdout
    assert len(shared.json("audit", "--user", BOB)["lines"]) == 1
    assert len(shared.json("audit", "--limit", 1)["lines"]) == 1
    assert shared.json("audit", "--since", "1h")["lines"] == answer["lines"]
    none = wait_for(lambda: (done := shared.run("audit", "--since", "100ms", check=False)).returncode == 3 and done, what="the lines to be older")
    assert "no line" in none.stderr
    unknown = shared.run("audit", "--user", "no-such-user", check=False)
    assert unknown.returncode == 2 and "no user of that name" in unknown.stderr
    assert "left_out" in shared.run("audit", "--help").stdout and "profd.audit/1" in shared.run("help", "json").stdout
    assert shared.run("audit", user=CAROL, check=False).returncode == 3


FLOOD = 500  # so few that they come within a minute on a slow machine, too


def test_a_flood_of_refusals(shared):
    """One user's noise fills neither the journal nor the disk, and what was left out is counted and told."""
    def flood():
        with fake.connect(shared.socket) as connection:
            for _ in range(FLOOD):
                fake.send(connection, "doctor", pid=shared.theirs.pid)
                list(fake.rows(connection))
    before = len(lines_of(shared))
    as_user(BOB, flood)
    assert fake.ask(shared.socket, "status")[0]["row"] == "daemon"
    added = wait_for(lambda: len(lines := lines_of(shared)[before:]) >= 60 and lines, 5, "the lines")
    # Nobody else's are left out meanwhile; and all of this user's are there when that is.
    as_user(CAROL, lambda: fake.ask(shared.socket, "doctor", pid=shared.theirs.pid))
    logged(shared, uid=CAROL, action="doctor")
    added = [line for line in lines_of(shared)[before:] if line[2] == str(BOB)]
    assert 60 <= len(added) <= 70, len(added)
    # Told when the minute is over, and when the daemon ends.
    shared.stop_daemon()
    told = [line for line in lines_of(shared) if line[1] == "left_out"]
    assert [(line[0], line[2], line[7]) for line in told] == [
        ("audit", str(BOB), f"{FLOOD - len(added)} more lines of this user in a minute: doctor not_permitted x {FLOOD - len(added)}")]
    shared.start()
    assert [row["uid"] for row in shared.audit() if row["outcome"] == "left_out"] == [BOB]


def test_the_log_is_bounded_while_it_runs(node):
    """audit_lines holds, and the noise of one displaces nobody else's lines."""
    node.start("audit_lines = 300\ntriggers_user = 100000\n")
    as_user(ALICE, lambda: fake.ask(node.socket, "trigger", **fake.trigger_fields(targets={"name": "x"})))

    def noise():
        with fake.connect(node.socket) as connection:
            for _ in range(3000):
                fake.send(connection, "trigger", **fake.trigger_fields(targets={"name": "none"}))
                list(fake.rows(connection))
    noise()  # root's lines are never left out
    rows = wait_for(lambda: (r := node.audit()) and len(r) < 600 and r, 10, "the log to be cut")
    assert 300 <= len(rows) < 600
    assert [row["action"] for row in rows if row["uid"] == ALICE] == ["trigger"]
    assert rows[0]["subject"].startswith("t3001:")
    node.stop_daemon()
    with sqlite3.connect(node.state / "catalogue.db") as db:
        assert db.execute("SELECT count(*) FROM audit").fetchone()[0] < 600


def test_a_line_stays_a_line(node):
    """What a peer says cannot make up lines of the journal."""
    node.start()
    forged = 'x\nprofd-daemon: audit: action=rm outcome=removed uid=0 user="root" pid=1 subject="17" at=now'

    def attack():
        fake.ask(node.socket, "cancel", capture_id='1\n" at=n')
        fake.ask(node.socket, "trigger", **fake.trigger_fields(targets={"name": "none"}, label=forged[:100]))
        fake.ask(node.socket, "cancel", trigger_id='t1" uid=0\n<0>')
        agent = fake.Agent(node.socket, name="honest")
        connection = fake.connect(node.socket)
        fake.send(connection, "trigger", **fake.trigger_fields(label=forged[:100]))
        packet, fds = agent.wait_for(fake.ARM)
        agent.say(fake.DECLINED, packet[8:16] + (1).to_bytes(4, "little") + bytes(4) + fake.text(forged, 248))
        list(fake.rows(connection))
        agent.connection.send(b"\n<0>profd-daemon: audit: x")
    as_user(BOB, attack)
    logged(node, action="connection", outcome="protocol", uid=BOB)
    assert all(line[2] == str(BOB) for line in lines_of(node))
    assert not any(line.startswith("<") for line in node.journal().splitlines())


def test_the_priority_in_a_journal(node):
    """Run by systemd, which says so, an audit line carries its priority; else it does not."""
    node.daemon_log.touch()
    facts = os.stat(node.daemon_log)
    node.start(environment=[("JOURNAL_STREAM", f"{facts.st_dev}:{facts.st_ino}")])
    as_user(BOB, lambda: fake.ask(node.socket, "trigger", **fake.trigger_fields(targets={"name": "none"})))
    wait_for(lambda: "<5>profd-daemon: audit: action=trigger outcome=no_such_target uid=61003" in node.journal(), 5, "the line")


@pytest.mark.parametrize("options", [(), ("--verbose",)])
def test_a_daemon_on_a_terminal(empty_profd, options):
    """Who has started one by hand gets the audit lines on asking, not between their own; `profd audit` has them anyway."""
    profd = empty_profd
    ours, theirs = pty.openpty()
    daemon = os.environ.get("PROFD_DAEMON", str(BUILD / "bin" / "profd-daemon"))
    profd.daemon = subprocess.Popen([daemon, "--user", "--dir", str(profd.store), *options], env=profd.env,
                                    stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    wait_for(lambda: profd.run("status", check=False).returncode == 0, 10, "the daemon")
    job = profd.job(BUILD / "workloads" / "steps", "--step-ms=5")
    profd.wait_steps(job.pid, 2)
    profd.trigger(job.pid)
    assert profd.run("audit").stdout.count("trigger") >= 1
    profd.daemon.terminate()
    profd.daemon.wait(20)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:
        pass  # the other end has been closed
    os.close(ours)
    assert (b"audit: action=trigger" in said) == bool(options), said
