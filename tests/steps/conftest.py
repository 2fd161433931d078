"""Training loops under a real daemon: what the loop counts beside what profd counts, printed as a table at the end.

The rest of the environment is that of tests/e2e; PROFD_LOOPS is a python that has torch and the frameworks.
"""
import pathlib
import sys

E2E = pathlib.Path(__file__).resolve().parents[1] / "e2e"
sys.path.insert(0, str(E2E))

import house  # noqa: E402

empty_profd, profd, torch_newest, torch = house.empty_profd, house.profd, house.torch_newest, house.torch


def pytest_terminal_summary(terminalreporter):
    # Rows travel as properties of the tests: several processes may run them.
    found = [tuple(row) for reports in terminalreporter.stats.values() for report in reports
             if getattr(report, "when", "") == "call" for name, row in report.user_properties if name == "loop"]
    if not found:
        return
    terminalreporter.section("steps")
    rows = [("LOOP", "SCRIPT", "PROFD", "STEP TIME", "RECORDED", "FOUND"), *sorted(found)]
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        terminalreporter.write_line("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip())
