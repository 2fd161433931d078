"""`profd history`: a job over its snapshots, oldest to newest, against their median."""
import csv
import io
import os
import signal

from conftest import WORKLOADS, wait_for
from test_snapshot import start


def snapshots(profd, count, *options):
    """Of five steps: the median is as always where one of them got no processor for a while."""
    for _ in range(count):
        profd.json("snapshot", "--all", "--steps", 5, *options)


def test_one_job(profd):
    """Five as always, two slow: the slow ones are marked, the figures are the captures' own."""
    pid = start(profd, "--step-ms=20", "--slow-ms=80", job="77", name="llama", rank=0)
    snapshots(profd, 5)
    os.kill(pid, signal.SIGUSR1)
    wait_for(lambda: profd.process(pid)["step_ns"] > 70e6)
    snapshots(profd, 2)
    profd.json("snapshot", "--all", "--steps", 1, "--label", "other")
    answer = profd.json("history", "--job", "77")
    assert answer["schema"] == "profd.history/1" and answer["label"] == "snapshot"
    [series] = answer["series"]
    assert (series["job"], series["name"], series["rank"], series["pid"]) == ("77", "llama", 0, None)
    rows = series["snapshots"]
    captured = profd.json("captures", "--label", "snapshot")["captures"]
    assert [r["capture_id"] for r in rows] == [c["capture_id"] for c in reversed(captured)]
    assert [r["step_ns"] for r in rows] == [c["step_ns"] for c in reversed(captured)]
    assert 15e6 < series["step_median_ns"] < 40e6 and series["device_busy_median_percent"] is None
    assert all(r["device_busy_percent"] is None and r["kernels"] is None and r["operators"] is None for r in rows)
    assert series["change"]["since"] == rows[5]["capture_id"] and series["change"]["word"] == "slower" and series["change_p"] <= 0.1
    assert series["change"]["before_ns"] < 40e6 < series["change"]["since_ns"]
    assert {"step", "work 0"} <= {n["name"] for n in rows[0]["ranges"]}
    assert all(r["step_change_percent"] > 100 for r in rows[5:])
    for word in ("LANG", "LC_CTYPE"):
        profd.env.pop(word, None)
    profd.env["LC_ALL"] = "C"
    text = profd.run("history", "--job", "77").stdout
    assert text.startswith("llama (job 77, rank 0): 7 snapshots, 20")
    assert text.count("x, slower") == 2 and f"slower since capture {rows[5]['capture_id']}: " in text and "device busy  not recorded" in text and "kernels: not recorded" in text
    # Not a UTF-8 terminal: five low ones, two high ones.
    trend = [line for line in text.splitlines() if line.startswith("step time")][0].split()[2]
    assert len(trend) == 7 and trend[-1] in "+*#" and sum(c in "_.-" for c in trend[:5]) >= 3, trend
    profd.env["LC_ALL"] = "C.UTF-8"
    text = profd.run("history", "--job", "77").stdout
    trend = [line for line in text.splitlines() if line.startswith("step time")][0].split()[2]
    assert len(trend) == 7 and trend[-1] in "▆▇█" and sum(c in "▁▂▃" for c in trend[:5]) >= 3, trend
    # Others on request; the newest only.
    assert len(profd.json("history", "--job", "77", "--any-label")["series"][0]["snapshots"]) == 8
    assert len(profd.json("history", "--label", "other")["series"][0]["snapshots"]) == 1
    # Two cannot show a change.
    assert "too few to tell a change" in profd.run("history", "--limit", 2).stdout
    limited = profd.json("history", "--limit", 2)["series"][0]["snapshots"]
    assert [r["capture_id"] for r in limited] == [r["capture_id"] for r in rows[5:]]


def test_several(profd):
    """A line for each; told apart by rank, and by pid where nothing else does."""
    start(profd, "--step-ms=10", job="1", name="t", rank=0)
    start(profd, "--step-ms=10", job="1", name="t", rank=1)
    twins = [start(profd, "--step-ms=5", name="same") for _ in range(2)]
    snapshots(profd, 3)
    lines = profd.run("history").stdout.splitlines()
    assert lines[0].split()[:2] == ["JOB", "NAME"] and lines[5:] == ["", "device busy: not recorded"], lines
    answer = profd.json("history")["series"]
    assert sorted((s["job"], s["rank"]) for s in answer if s["job"]) == [("1", 0), ("1", 1)]
    assert sorted(s["pid"] for s in answer if not s["job"]) == sorted(twins)
    assert all(len(s["snapshots"]) == 3 for s in answer)
    assert profd.run("history", "--job", "1", "--rank", 1).stdout.startswith("t (job 1, rank 1): 3 snapshots")
    assert profd.run("history", "--pid", twins[0]).stdout.startswith(f"same (pid {twins[0]}): 3 snapshots")
    assert len(profd.json("history", "--name", "s*")["series"]) == 2
    rows = list(csv.DictReader(io.StringIO(profd.run("history", "--job", "1", "--format", "csv").stdout)))
    assert len(rows) == 6 and {r["rank"] for r in rows} == {"0", "1"}
    assert all(float(r["step_ns"]) > 0 and r["device_busy_percent"] == "" for r in rows)


def test_nothing(profd):
    done = profd.run("history", "--job", "none", check=False)
    assert done.returncode == 3 and "no snapshot matches" in done.stderr
    assert profd.json("history", codes=(3,))["series"] == []
    assert profd.run("history", "--label", "a", "--any-label", check=False).returncode == 2


def test_operators(profd, torch_newest):
    """Top operators over the snapshots, by CPU time where there is no GPU."""
    job = profd.job(torch_newest, WORKLOADS / "train.py", "--steps=0", "--model=lstm", "--pad-ms=5")
    profd.wait_steps(job.pid, 3, 120)
    snapshots(profd, 3)
    text = profd.run("history").stdout
    assert "Operators by self CPU time a step" in text and "aten::" in text
    [series] = profd.json("history")["series"]
    assert all(any(o["name"].startswith("aten::") and o["self_cpu_ns"] > 0 for o in r["operators"])
               for r in series["snapshots"])
    row = next(csv.DictReader(io.StringIO(profd.run("history", "--format", "csv").stdout)))
    assert row["top_operator"] and float(row["top_operator_step_ns"]) > 0 and row["top_kernel"] == ""
