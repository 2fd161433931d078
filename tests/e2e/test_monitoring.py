"""systemd/monitoring: alerts, dashboard and scrape configuration speak of metrics that the daemon has, in Prometheus' language."""
import json
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT
from prometheus import Metrics, program

FOLDER = ROOT / "systemd" / "monitoring"
TESTS = ROOT / "tests" / "e2e" / "monitoring"
NAME = re.compile(r"\bprofd_[a-z_]+")


def promtool(*arguments):
    done = subprocess.run([program("promtool"), *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dashboard():
    """(panel, expression) of all of them."""
    page = json.loads((FOLDER / "profd-dashboard.json").read_text())
    panels = [panel for panel in page["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in page["panels"]}) == len(page["panels"])
    return [(panel["title"], target["expr"]) for panel in panels for target in panel["targets"]], page


@pytest.fixture
def seen(empty_profd):
    """The metrics of a daemon that has something to say of everything."""
    config = empty_profd.folder / "profd.conf"
    config.write_text("store_captures = 100\n")
    empty_profd.start_daemon("--config", config)
    job = empty_profd.job(BUILD / "workloads" / "steps", "--step-ms=5")
    empty_profd.wait_steps(job.pid, 2)
    return Metrics(empty_profd.run("metrics").stdout)


def test_every_metric_named_is_one_that_there_is(seen):
    known = {name for name, _ in seen}
    expressions, page = dashboard()
    expressions += [("variable", variable["query"]["query"]) for variable in page["templating"]["list"]
                    if variable["type"] == "query"]
    rules = [line for line in (FOLDER / "profd.rules.yml").read_text().splitlines() if not line.lstrip().startswith("#")]
    assert len(expressions) > 30
    for where, text in expressions + [("rules", line) for line in rules]:
        for name in NAME.findall(text):
            assert name in known, f"{where}: {name}"


def test_every_metric_is_shown_somewhere(seen):
    """What nobody looks at is not worth its series."""
    shown = {re.sub("_bucket$", "", name) for _, text in dashboard()[0] for name in NAME.findall(text)}
    shown |= set(NAME.findall((FOLDER / "profd.rules.yml").read_text()))
    assert set(seen.types) - shown <= {"profd_processes", "profd_store_size_bytes", "profd_process_threads"}


def test_rules(tmp_path):
    promtool("check", "rules", FOLDER / "profd.rules.yml")
    for file in (FOLDER / "profd.rules.yml", TESTS / "profd.rules.test.yml"):
        shutil.copy(file, tmp_path)
    promtool("test", "rules", tmp_path / "profd.rules.test.yml")
    alerts = set(re.findall(r"alert: (\w+)", (FOLDER / "profd.rules.yml").read_text()))
    tested = (TESTS / "profd.rules.test.yml").read_text()
    assert alerts == {name for name in alerts if f"alertname: {name}" in tested}


def test_dashboard_expressions(tmp_path):
    lines = ["groups:", "- name: dashboard", "  rules:"]
    for number, (_, expression) in enumerate(dashboard()[0]):
        text = expression.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$job", ".*")
        assert "$" not in text, expression
        lines += [f"  - record: panel:{number}", f"    expr: {json.dumps(text)}"]
    (tmp_path / "panels.yml").write_text("\n".join(lines) + "\n")
    promtool("check", "rules", tmp_path / "panels.yml")


@pytest.mark.parametrize("name", ["prometheus.yml"])
def test_scrape_configuration(name):
    promtool("check", "config", FOLDER / name)
