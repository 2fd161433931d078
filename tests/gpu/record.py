"""record.py - a pytest plugin (-p record) that writes a line of JSON for each test as it ends into PROFD_GPU_RECORD, and for each
that was found before the first begins: so a run that is cut short still says what passed, and what it did not reach."""
import json
import os

import pytest


def write(**facts):
    with open(os.environ["PROFD_GPU_RECORD"], "a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")


def pytest_collection_finish(session):
    for item in session.items:
        write(test=item.nodeid.rsplit("/", 1)[-1], outcome="not reached")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """What daemon and agent said stands with a failure: their folder is gone afterwards."""
    made = yield
    report, profd = made.get_result(), getattr(item, "funcargs", {}).get("profd")
    for path in (profd.daemon_log, profd.folder / "agent.log") if report.failed and profd else ():
        if path.exists():
            report.sections.append((path.name, path.read_text(errors="replace")[-2000:]))


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed":
        return
    text = ""
    if report.skipped and isinstance(report.longrepr, tuple):
        text = report.longrepr[2]
    elif report.failed:
        text = report.longreprtext[-5000:] + "".join(f"\n--- {name}\n{content[-2000:]}" for name, content in report.sections)
    outcome = "error" if report.failed and report.when != "call" else report.outcome
    write(test=report.nodeid.rsplit("/", 1)[-1], outcome=outcome, seconds=round(report.duration, 2), text=text)
