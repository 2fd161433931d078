"""The order in which tests run, wherever they stand: the slow ones first, and each process takes the next test when it is free. So no
process is left with a slow test at the end.

A test that takes TURNS[0] seconds or longer runs by turns, unless it is marked `core`; so does one that is marked `wide`, however quick it is.
Of these ./dev test runs a part, which the commit draws (PROFD_TURN, a number); named parts, ./dev test long wide, and pytest by
itself run all. The longer a test takes the more seldom is its turn, so that a run spends about as much on each, and about the same time
whatever is added. They come last where there is a time (PROFD_TEST_UNTIL, seconds since
1970) after which those that have not begun are left out: CI has so much time, however slow its machine is.

durations.txt says how many seconds tests take that are slow; `./dev test PART -- --keep-durations` writes there what it measured.
"""
import collections
import os
import pathlib
import resource
import time

import pytest

DURATIONS = pathlib.Path(__file__).with_name("durations.txt")
SLOW = 4.0  # seconds from which on a test is kept
TURNS = {10.0: 4, 20.0: 8, 40.0: 16}  # seconds from which on a test runs in one of so many
BEFORE = pytest.StashKey()


def kept():
    """Seconds by test."""
    lines = DURATIONS.read_text().splitlines() if DURATIONS.exists() else []
    return {test: float(seconds) for seconds, test in (line.split(maxsplit=1) for line in lines)}


def pytest_addoption(parser):
    parser.addoption("--keep-durations", action="store_true", help=f"write to {DURATIONS.name} how long each test took")


def leave_out(config, items, seconds):
    """Those of the other turns. Slow ones are dealt out first, so that turns take about the same time."""
    turn, dealt, others = int(os.environ["PROFD_TURN"]), collections.Counter(), set()
    for item in sorted(items, key=lambda item: (-seconds.get(item.nodeid, 0), item.nodeid)):
        if not item.get_closest_marker("wide"):
            continue
        of = next((count for least, count in reversed(TURNS.items()) if seconds.get(item.nodeid, 0) >= least), min(TURNS.values()))
        if dealt[of] % of != turn % of:
            others.add(item.nodeid)
        dealt[of] += 1
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in others])
    items[:] = [item for item in items if item.nodeid not in others]


@pytest.hookimpl(tryfirst=True)  # before pytest's own chooses by marks
def pytest_collection_modifyitems(config, items):
    seconds = kept()
    for item in items:
        if seconds.get(item.nodeid, 0) >= min(TURNS) and not item.get_closest_marker("core"):
            item.add_marker(pytest.mark.wide)
    if "PROFD_TURN" in os.environ:
        leave_out(config, items, seconds)
    limited = bool(os.environ.get("PROFD_TEST_UNTIL"))
    items.sort(key=lambda item: (limited and item.get_closest_marker("wide") is not None, -seconds.get(item.nodeid, 0)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScheduling

    class NextWhenFree(LoadScheduling):
        """Tests in their order, each process has the one that it runs and one more (it needs to know the next)."""

        def check_schedule(self, node, duration=0):
            if node.shutting_down:
                return
            if not self.pending:
                node.shutdown()
            elif len(self.node2pending[node]) < 2:
                self._send_tests(node, 1)

        def schedule(self):
            assert self.collection_is_completed
            if self.collection is None and self._check_nodes_have_same_collection():
                self.collection = list(self.node2collection.values())[0]
                self.pending[:] = range(len(self.collection))
                for node in self.nodes + self.nodes[::-1]:  # who has the slowest has the least slow one next
                    self._send_tests(node, 1)
            if self.collection is not None:
                for node in self.nodes:
                    self.check_schedule(node)

    return NextWhenFree(config, log) if config.getvalue("dist") == "load" else None


def processor_seconds():
    """Of this process, and of all that it has started and waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[BEFORE] = processor_seconds()
    if item.get_closest_marker("wide") and time.time() > float(os.environ.get("PROFD_TEST_UNTIL") or "inf"):
        pytest.skip("left out: the time is over; ./dev test long wide runs it")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    if call.when == "teardown":
        item.user_properties.append(("processor", processor_seconds() - item.stash[BEFORE]))
    yield


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter, config):
    if hasattr(config, "workerinput"):
        return
    measured, processor = collections.Counter(), collections.Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration") and hasattr(report, "when"):
                measured[report.nodeid] += report.duration
                if report.when == "teardown":
                    processor[report.nodeid] = dict(report.user_properties)["processor"]
    if "PROFD_TEST_TIMES" in os.environ:  # ./dev test names the slowest of all parts, and those that need most of a processor
        rows = "".join(f"{seconds:7.1f} s {processor[test]:7.1f} s  {test}\n" for test, seconds in measured.items())
        pathlib.Path(os.environ["PROFD_TEST_TIMES"], str(os.getpid())).write_text(rows)
    if config.getoption("--keep-durations"):
        slow = {test: seconds for test, seconds in {**kept(), **measured}.items() if seconds >= SLOW}
        DURATIONS.write_text("".join(f"{slow[test]:.0f} {test}\n" for test in sorted(slow, key=lambda t: (-slow[t], t))))
