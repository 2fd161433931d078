"""Recorded jobs, performed again under the simulated driver and captured: what comes back is what the recording says.

tests/data has the timelines, and what truth.py computed from the recordings themselves. PROFD_TRACES=FOLDER takes
recordings (Kineto's .json and .json.gz, nsys's .sqlite) from there as well: they are converted first.
PROFD_RELEASE=12.4 plays all of them under the CUPTI of one release; else each has the next one in turn, and the
commit says with which the turn begins. The rest of the environment is that of tests/e2e."""
import contextlib
import math
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "e2e")]

import compare  # noqa: E402
import house as e2e  # noqa: E402
import test_convert  # noqa: E402
import timeline  # noqa: E402

profd, empty_profd = e2e.profd, e2e.empty_profd

REPLAY = e2e.BUILD / "workloads" / "replay"
SIMULATOR = e2e.BUILD / "sim"
DATA = ROOT / "tests" / "data"
RELEASES = sorted((p.parent.name for p in SIMULATOR.glob("*/libcupti.so*")), key=lambda r: tuple(map(int, r.split("."))))
RELEASES = list(dict.fromkeys(RELEASES))
# Time in which no device works passes so many times as fast: of a recording that waits for half a minute.
SPEED = {"a100_alexnet_critical_path": 100}
# Releases before do not know this call of the runtime.
SINCE = {"cudaLaunchKernelExC": (11, 8)}

pytestmark = [
    pytest.mark.skipif(not REPLAY.exists(), reason="the replay was not built (PROFD_NVTX_INCLUDE)"),
    pytest.mark.skipif(not RELEASES, reason="there is no simulated GPU (PROFD_CUDA_HEADERS)"),
]


def stem(path):
    return re.sub(r"(\.pt\.trace)?\.(timeline\.gz|json|json\.gz|sqlite)$", "", path.name)


def recordings():
    found = sorted(DATA.glob("*.timeline.gz"))
    folder = os.environ.get("PROFD_TRACES")
    if folder:
        originals = [p for p in sorted(pathlib.Path(folder).iterdir()) if re.search(r"\.(json|json\.gz|sqlite)$", p.name)]
        assert originals, f"PROFD_TRACES={folder} holds no recordings"
        found += originals
    return [pytest.param(p, id=stem(p) + ("" if p.parent == DATA else "-original")) for p in found]


def release(path, line):
    """Under which the timeline is played: what it calls has to be there."""
    if os.environ.get("PROFD_RELEASE"):
        return os.environ["PROFD_RELEASE"]
    names = {i.get("name") for t in line.threads.values() for i in t.items}
    oldest = max(since for name, since in {**SINCE, None: (0, 0)}.items() if name in names or not name)
    known = [r for r in RELEASES if tuple(map(int, r.split("."))) >= oldest]
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=6", "HEAD"], capture_output=True, text=True).stdout
    turn = int(commit.strip() or "0", 16)
    return known[(turn + [p.values[0] for p in recordings()].index(path)) % len(known)]


def prepare(path, folder):
    """The timeline as plain text, and the truth, of a recording or of what tests/data has of it."""
    plain = folder / (stem(path) + ".timeline")
    if path.parent == DATA:
        with timeline.open_text(path) as source:
            plain.write_text(source.read(), encoding="utf-8")
        return plain, DATA / (stem(path) + ".truth.json.gz")
    converter = "from_nsys.py" if path.suffix == ".sqlite" else "from_kineto.py"
    truth = folder / (stem(path) + ".truth.json")
    subprocess.run([sys.executable, HERE / converter, path, plain], check=True, capture_output=True)
    subprocess.run([sys.executable, HERE / "truth.py", path, truth], check=True)
    return plain, truth


class Job:
    """A replay under `profd run` and the simulated driver of a release."""

    def __init__(self, profd, folder, plain, line, version, *options, script=()):
        self.profd, self.output, self.timeline = profd, folder / "output", line
        operations = [o for t in self.timeline.threads.values() for i in t.items for o in i.get("operations", [])]
        devices = 1 + max(d for o in operations for d in (o["device"], *o["peers"]))
        script = ",".join([f"driver={version}", f"devices={devices}", *script])
        env = {"LD_LIBRARY_PATH": f"{SIMULATOR / version}:{SIMULATOR}", "SIMCUDA": script}
        with open(self.output, "wb") as out:
            self.process = profd.job(REPLAY, f"--timeline={plain}", *options, env=env, stdout=out)
        self.pid = self.process.pid

    def text(self):
        return self.output.read_text(encoding="utf-8")

    def wait_for(self, text, seconds):
        def look():
            assert self.process.poll() is None or text in self.text(), self.process.communicate()[1]
            return text in self.text()
        e2e.wait_for(look, seconds, f"the replay to say {text!r}")

    def finish(self):
        """Ends it; the driver's own count has to be that of what was played."""
        self.process.send_signal(signal.SIGTERM)
        _, error = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, error
        facts = e2e.json.loads(self.text().splitlines()[-1])
        for kind, count in facts["launched"].items():
            assert facts["counted"][kind] == count, facts

    def seconds(self, speed):
        """How long one play takes, about."""
        ends = [i.get("end", i.get("start", 0)) for t in self.timeline.threads.values() for i in t.items]
        spans = [(o["start"], o["start"] + o["duration"]) for t in self.timeline.threads.values() for i in t.items
                 for o in i.get("operations", [])]
        busy = sum(b - a for a, b in spans) / 1e9 if speed != 1 else 0
        # The replay is quiet for 0.6 ms around the end of each step.
        return max(ends + [s[1] for s in spans]) / 1e9 / speed + busy + 0.6e-3 * len(self.timeline.steps)

    def record_steps(self, speed):
        """A capture of all steps of the file, from its first on."""
        steps = len(self.timeline.steps)
        self.profd.wait_steps(self.pid, 1)
        # Warm-up is half a second, or a play: its last steps may be too short to switch collectors on in.
        warmup = math.ceil(0.5 / self.seconds(speed))
        for lead in (2.5, 10):
            ahead = math.ceil(lead / self.seconds(speed)) + warmup + 1
            first = (self.profd.process(self.pid)["step"] // steps + ahead) * steps + 1
            done = self.profd.run("trigger", "--pid", self.pid, "--at-step", first, "--steps", steps, "--warmup", warmup * steps,
                                  "--api", "all", "--format", "json", check=False, timeout=300)
            # On a full machine the trigger may come when the step has passed, which is refused.
            if done.returncode != 1:
                break
        assert done.returncode == 0, (done.stdout, done.stderr)
        capture, = e2e.json.loads(done.stdout)["captures"]
        return capture

    def record_window(self, speed):
        """A capture of a window of time, and the file played once in it."""
        self.wait_for("thread 1 =", 30)
        self.profd.wait_registered(self.pid)
        window = math.ceil(1.5 * self.seconds(speed) + 5)
        command = [str(self.profd.client), "trigger", "--pid", str(self.pid), "--duration", f"{window}s", "--api", "all",
                   "--format", "json"]
        client = subprocess.Popen(command, env=self.profd.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        e2e.wait_for(lambda: (self.profd.process(self.pid) or {}).get("state") == "recording", 30, "the recording to begin")
        self.process.send_signal(signal.SIGUSR1)
        self.wait_for("played 1", window)
        out, error = client.communicate(timeout=window + 60)
        assert client.returncode == 0, (out, error)
        return e2e.json.loads(out)["captures"][0]


def replay(profd, folder, plain, truth, version, line, speed=1, script=()):
    """Plays, captures, compares."""
    options = [f"--speed={speed}", "--repeat=0"] + ([] if line.steps else ["--wait"])
    job = Job(profd, folder, plain, line, version, *options, script=script)
    capture = job.record_steps(speed) if line.steps else job.record_window(speed)
    job.finish()
    shown = profd.show(capture["capture_id"], "--limit", 0)
    return compare.Comparison(profd.file(capture["capture_id"]), line, truth, job.text(), shown).run()


@pytest.mark.parametrize("path", recordings())
def test_replay(profd, tmp_path, capsys, path):
    plain, truth = prepare(path, tmp_path)
    line = timeline.Timeline(plain)
    version = release(path, line)
    comparison = replay(profd, tmp_path, plain, truth, version, line, SPEED.get(stem(path), 1))
    with capsys.disabled():
        devices = ", ".join(sorted(set(line.devices.values())))
        print("\n" + comparison.table(f"{stem(path)} ({devices}), under CUPTI {version}"))
    assert not comparison.problems
    # CUPTI's clock counts ns here, so that nothing is rounded.
    assert comparison.deviation == 0 and comparison.exact == comparison.compared > 0


@pytest.mark.parametrize("script", ["clock=tsc", "drift=20", "late=50ms,shuffle", "deliver=caller,foreign=5",
                                    "correlation=4294964000", "unknown=7", "grow=10:24+5:8"])
def test_nasty_but_lossless(profd, tmp_path, script):
    """What CUPTI may do without anything being lost changes nothing."""
    path = DATA / "a100_ddp_rank0of2_nccl_data.timeline.gz"
    plain, truth = prepare(path, tmp_path)
    line = timeline.Timeline(plain)
    comparison = replay(profd, tmp_path, plain, truth, release(path, line), line, script=script.split(","))
    assert not comparison.problems, comparison.table(script)


def test_the_comparison_finds(profd, tmp_path):
    """A capture in which one thing is changed is not equal any more, whatever it is."""
    path = DATA / "gp100_gpu_user_annotation.timeline.gz"
    plain, truth = prepare(path, tmp_path)
    line = timeline.Timeline(plain)
    good = replay(profd, tmp_path, plain, truth, release(path, line), line)
    assert not good.problems
    output = (tmp_path / "output").read_text(encoding="utf-8")
    some = "rowid = (select rowid from kernel_records order by start limit 1 offset 20)"
    changes = {
        "delete from kernel_records where " + some: "kernels by name",
        f"update kernel_records set duration = duration + {3 * good.clock_error + 3} where " + some: "launching calls",
        "update kernel_records set duration = duration + 100000": "kernels, ns in all",
        "update kernel_records set stream = 20 where " + some: "kernels by name",
        "update kernel_records set registers = registers + 1 where " + some: "launching calls",
        "update kernel_records set correlation = (select max(correlation) from kernel_records) where " + some: "launching",
        "update copy_records set bytes = bytes + 1 where rowid = 3": "copies, bytes",
        "update launches set range = null where correlation = (select correlation from kernel_records where " + some + ")":
            "ranges and operators",
        "update range_devices set total = total + 5000 where rowid = (select max(rowid) from range_devices)": "device time of",
        "delete from ranges where rowid = 30": "ranges and operators",
        "delete from api_calls where rowid = (select max(a.rowid) from api_calls a join kernel_records k using (correlation))": "calls of the runtime",
        "update api_calls set result = 1": "launching calls",
        "update step_devices set busy = busy + 5000": "device busy",
        "insert into losses values ('kernel', 'dropped', 1, 1, '')": "losses",
    }
    for sql, what in changes.items():
        changed = tmp_path / "changed.db"
        shutil.copy(good.path, changed)
        with contextlib.closing(sqlite3.connect(changed)) as db, db:
            assert db.execute(sql).rowcount > 0, sql
        problems = compare.Comparison(changed, line, truth, output).run().problems
        assert any(p.startswith(what) for p in problems), (sql, problems)


@pytest.mark.parametrize("version", RELEASES)
def test_what_recordings_lack(profd, tmp_path, version):
    """Graphs, a peer copy, a launch by the driver's own call, an operation without its call."""
    recording, plain, truth = tmp_path / "made.json", tmp_path / "made.timeline", tmp_path / "made.truth"
    events = [e for e in test_convert.kineto_events() if (e["name"], e["ts"]) != ("cuLaunchKernel", 107.5)]
    recording.write_text(e2e.json.dumps({"traceEvents": events}), encoding="utf-8")
    subprocess.run([sys.executable, HERE / "from_kineto.py", recording, plain], check=True, capture_output=True)
    subprocess.run([sys.executable, HERE / "truth.py", recording, truth], check=True)
    comparison = replay(profd, tmp_path, plain, truth, version, timeline.Timeline(plain))
    assert not comparison.problems, comparison.table(version)
