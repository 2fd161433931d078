"""The fault matrix: a row is a test, and what it found is printed as a table at the end.

A row starts a job twice, bare and under `profd run`, does to it (or lets it do) what the row is about, and then holds
three things: the job's output, errors and exit code are bit-identical to those of the bare run; the daemon lives and
answers; what was recorded and what was lost is what was produced. Fixtures `row`, and `profd`, `empty_profd`, `torch_newest`,
... of tests/e2e.
"""
import json
import pathlib
import resource
import shutil
import sqlite3
import sys

import pytest

E2E = pathlib.Path(__file__).resolve().parents[1] / "e2e"
sys.path.insert(0, str(E2E))

import house  # noqa: E402

empty_profd, profd = house.empty_profd, house.profd
# Modules of e2e that are imported here take these from `conftest`, which is this one.
BUILD, ROOT, WORKLOADS, Profd, wait_for = house.BUILD, house.ROOT, house.WORKLOADS, house.Profd, house.wait_for
asleep, hurry, naps, quiet, stop = house.asleep, house.hurry, house.naps, house.quiet, house.stop
torch_newest, torch_debian, torch = house.torch_newest, house.torch_debian, house.torch

LIMITS = {"descriptors": resource.RLIMIT_NOFILE, "memory": resource.RLIMIT_AS}
EXHAUSTED = {"descriptors": "may open no further descriptor", "memory": "gets no further memory"}


def exhaust(pid, of):
    """From now on the process may open no descriptor, or map no memory; the function that is returned takes that back."""
    def held():
        pages, *_ = pathlib.Path(f"/proc/{pid}/statm").read_text().split()
        return int(pages) * resource.getpagesize()

    before = resource.prlimit(pid, LIMITS[of])
    resource.prlimit(pid, LIMITS[of], (3 if of == "descriptors" else held(), before[1]))
    return lambda: resource.prlimit(pid, LIMITS[of], before)


BARE = {}  # what a command gave in its bare run: many rows run the same one


def same_job(text):
    """What a job printed, without what may differ between two runs of it: its pid, and whether an agent is there."""
    lines = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            lines.append(line)
            continue
        lines.append({k: v for k, v in value.items() if k not in ("pid", "agent")} if isinstance(value, dict) else value)
    return lines


class Row:
    """One row of the table. What it has not been told is printed as `not looked at` and fails the row."""

    def __init__(self, name):
        self.name, self.what = name, ""
        self.identical = self.counted = None
        self.daemon = None
        self.bare = self.watched = None  # how the last two jobs ended
        self.verdict = "FAILED"

    def does(self, what):
        """What the job does, or what is done to it, in a few words."""
        self.what = what

    def same(self, bare, watched, mask=same_job):
        """Holds two ended jobs against each other: each a (returncode, stdout, stderr)."""
        self.bare, self.watched = bare, watched
        self.identical = (bare[0] == watched[0] and mask(bare[1]) == mask(watched[1]) and mask(bare[2]) == mask(watched[2]))
        assert self.identical, f"bare: {bare}\nwatched: {watched}"

    def twice(self, profd, command, during=None, mask=same_job, env=None, timeout=90, before=lambda: None, **more):
        """Runs the job bare, then under `profd run` while during(job) acts. Returns what during returned. A workload that knows STAY
        (workload.h) goes on after its steps until during() has returned, on however busy a machine. before() is called when the
        bare job has ended and the watched one has not begun: files that tell a job to go on are taken away there."""
        asked = repr((command, env, sorted(more)))
        if asked not in BARE:
            plain = profd.job(*command, agent=False, env=env, **more)
            out, err = plain.communicate(timeout=timeout)
            BARE[asked] = (plain.returncode, out, err)
        bare = BARE[asked]
        stay = profd.folder / "stay"
        stay.touch()
        before()
        job = profd.job(*command, env={"STAY": str(stay), **(env or {})}, **more)
        found = during(job) if during else None
        stay.unlink()
        out, err = job.communicate(timeout=timeout)
        self.same(bare, (job.returncode, out, err), mask)
        return found

    def counts(self, recorded, lost, produced):
        """Recorded + lost = produced. lost: a number, or rows of kind, loss, count."""
        self.counted = recorded + (lost if isinstance(lost, int) else sum(count for _, _, count in lost)) == produced
        assert self.counted, f"{recorded} recorded + {lost} lost, of {produced} produced"

    def counts_file(self, profd, capture_id, produced):
        """The same for the host events of a capture of the workload `steps`: produced(db) tells how many there were."""
        copy = shutil.copy(profd.file(capture_id), profd.folder / "counted.db")  # SQLite does not open what another mount holds
        with sqlite3.connect(copy) as db:
            recorded, = db.execute("SELECT (SELECT count(*) FROM ranges) + (SELECT count(*) FROM marks)").fetchone()
            lost, = db.execute("SELECT coalesce(sum(count), 0) FROM losses WHERE is_loss").fetchone()
            self.counts(recorded, lost, produced(db))

    def nothing_recorded(self, why):
        """The row has no capture whose events could be counted; `why` is printed."""
        self.counted = why

    def alive(self, profd):
        """The daemon is the one that was started, and answers."""
        self.daemon = profd.daemon is not None and profd.daemon.poll() is None and \
            profd.run("status", check=False).returncode == 0
        assert self.daemon, "the daemon is gone"


def _word(value):
    return {None: "not looked at", True: "yes", False: "NO"}.get(value, value)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if call.when == "call":
        item.profd_outcome = report.outcome


@pytest.fixture
def row(request, empty_profd):
    it = Row(request.node.name.removeprefix("test_"))
    yield it
    # What it found travels as the test's property: several processes may run the rows.
    outcome = getattr(request.node, "profd_outcome", "failed")
    if outcome == "skipped":
        return
    try:
        if outcome == "failed":
            return
        if it.identical is None or it.counted is None:
            pytest.fail("the row did not look at all that a row holds")
        it.alive(empty_profd)
        it.verdict = "held"
    finally:
        request.node.user_properties.append(("row", [it.what or it.name, _word(it.identical), _word(it.daemon),
                                                     _word(it.counted), it.verdict]))


def pytest_terminal_summary(terminalreporter):
    rows = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "teardown":
                rows.update({report.nodeid: row for name, row in report.user_properties if name == "row"})
    if not rows:
        return
    terminalreporter.section("the fault matrix")
    lines = [("#", "what the job does, or what is done to it", "job identical", "daemon lives", "counted", "row")]
    lines += [(str(number), *rows[key]) for number, key in enumerate(sorted(rows), 1)]
    widths = [max(len(line[column]) for line in lines) for column in range(6)]
    for line in lines:
        terminalreporter.write_line("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())
    terminalreporter.write_line(f"{sum(row[-1] == 'held' for row in rows.values())} of {len(rows)} rows held")
