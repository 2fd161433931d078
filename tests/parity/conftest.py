"""profd beside torch.profiler: models of all kinds, the same steps by both; a table of each model at the end. And whether they are harmed.

The rest of the environment is that of tests/e2e; PROFD_LOOPS is a python that has torch and the frameworks. PROFD_PARITY names
the models to look at (default: those that a test run has time for).
"""
import pathlib
import sys

E2E = pathlib.Path(__file__).resolve().parents[1] / "e2e"
sys.path.insert(0, str(E2E))

import house  # noqa: E402

empty_profd, profd, torch_newest = house.empty_profd, house.profd, house.torch_newest


def pytest_terminal_summary(terminalreporter):
    # What was found travels as properties of the tests: several processes may run them.
    found = [(name, value) for reports in terminalreporter.stats.values() for report in reports
             if getattr(report, "when", "") == "call" for name, value in report.user_properties]
    for model in (value for name, value in found if name == "parity"):
        terminalreporter.section(f"{model['title']}: profd beside torch.profiler")
        for line in model["lines"]:
            terminalreporter.write_line(line)
    for model in (value for name, value in found if name == "modules"):
        terminalreporter.write_line(model)
    if unharmed := [value for name, value in found if name == "unharmed"]:
        terminalreporter.section("parameters, optimizers' state and random state")
        for line in unharmed:
            terminalreporter.write_line(line)
