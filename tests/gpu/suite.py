#!/usr/bin/env python3
"""suite.py [--out FOLDER] [--deadline SECONDS] [--only tests|measurements] - all that is asked of a GPU, in order of worth.

Finds a python whose torch uses CUDA (PROFD_GPU_PYTHON; else python3, conda's and others that lie about) and one with pytest, runs
the tests here and then measure.py's parts, each in a process of its own with a limit of time, and writes after each of them

    FOLDER/gpu.json   everything
    FOLDER/gpu.txt    the same for people
    FOLDER/*.timeline.gz, *.truth.json.gz   recorded PyTorch jobs, for tests/data

What SECONDS (460) did not suffice for is said in them. Exit code: 0 all tests passed and all parts answered, 1 not, 3 there is no
GPU. PROFD_BUILD is the folder with bin/, lib/ and workloads/; PROFD_SIM as in machine.py: everything is labelled simulated then.
"""
import argparse
import datetime
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import machine as machines
import report

HERE = machines.HERE
TEST_SHARE = 0.55  # of the deadline
MOST_FILE_BYTES = 16 << 20

# What runs side by side where there are processors for it: (name, file, -k)
GROUPS = [
    ("workloads", "test_gpu_workloads.py", ""),
    ("torch: what is recorded", "test_gpu_torch.py", "counts or operators or device_times"),
    ("torch: who is beside it", "test_gpu_torch.py", "not (counts or operators or device_times)"),
    ("jobs: training goes on", "test_gpu_jobs.py", "goes_on"),
    ("jobs: the rest", "test_gpu_jobs.py", "not goes_on and not planted"),
]
# What wants the GPU for itself, after those, and how many seconds it gets.
ALONE = ("jobs: causes", "test_gpu_jobs.py", "planted")
ALONE_SECONDS = 70
# (part, seconds at the most), in order of worth.
PARTS = [("machine", 40), ("sizes", 40), ("launches", 90), ("switching", 60), ("steps", 120), ("traces", 120), ("cycles", 90),
         ("answers", 40), ("graphs", 60)]


def say(text):
    print(text, flush=True)


class Deadline:
    def __init__(self, seconds):
        self.start, self.end = time.monotonic(), time.monotonic() + seconds

    def left(self):
        return self.end - time.monotonic()

    def passed(self):
        return round(time.monotonic() - self.start, 1)


def candidates():
    named = os.environ.get("PROFD_GPU_PYTHON")
    if named:
        return [named]
    found = [shutil.which("python3"), shutil.which("python"), sys.executable]
    for folder in (os.environ.get("VIRTUAL_ENV"), os.environ.get("CONDA_PREFIX"), "/opt/conda", "/opt/venv", "/opt/*/.venv", "/opt/*",
                   os.path.expanduser("~/miniconda3"), os.path.expanduser("~/.cache/profd/torch-*")):
        found += sorted(glob.glob(f"{folder}/bin/python3"), reverse=True) if folder else []
    return list(dict.fromkeys(path for path in found if path))


def choose_pythons():
    """(python whose torch uses CUDA or None, python with pytest or None, what was found of each)."""
    ask = ("import json, importlib.util as u\n"
           "said = {'pytest': bool(u.find_spec('pytest')), 'torch': None, 'cuda': False}\n"
           "try:\n import torch; said.update(torch=torch.__version__, cuda=torch.cuda.is_available())\n"
           "except Exception as error: said['error'] = repr(error)\n"
           "print(json.dumps(said))")
    notes, torch_python, test_python = {}, None, None
    for python in candidates():
        try:
            done = subprocess.run([python, "-c", ask], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            said = json.loads(done.stdout.splitlines()[-1])
        except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
            notes[python] = {"error": repr(error)[:200]}
            continue
        notes[python] = said
        torch_python = torch_python or (python if said["cuda"] else None)
        # That with both is the one for both.
        if said["pytest"] and (test_python is None or python == torch_python):
            test_python = python
        if torch_python and test_python:
            break
    return torch_python, test_python, notes


def run_limited(command, env, seconds, log):
    """Its exit code, None where the time did not suffice. Whatever it started is ended with it."""
    with open(log, "ab") as out:
        child = subprocess.Popen([str(word) for word in command], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=out,
                                 start_new_session=True)
        try:
            text = child.communicate(timeout=max(seconds, 1))[0].decode(errors="replace")
            code = child.returncode
        except subprocess.TimeoutExpired:
            code = None
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if code is None:
            text = child.communicate()[0].decode(errors="replace")
        out.write(text.encode())
    return code, text


class Suite:
    def __init__(self, options, found):
        self.out = pathlib.Path(options.out)
        self.deadline, self.found, self.only = Deadline(options.deadline), found, options.only
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="profd-gpu-suite-"))
        self.log = self.work / "log"
        self.torch_python, self.test_python, notes = choose_pythons()
        self.env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(HERE), "PROFD_BUILD": str(machines.BUILD)}
        self.env.pop("PROFD_SOCKET", None)
        self.env["PROFD_GPU_PYTHON"] = self.torch_python or os.environ.get("PROFD_GPU_PYTHON") or self.test_python or sys.executable
        self.said = {
            "schema": "profd.gpu/1", "simulated": found.state == machines.SIMULATED, "gpu": found.name, "driver": found.driver,
            "at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "pythons": notes,
            "torch_python": self.torch_python, "test_python": self.test_python, "tests": {}, "measured": {}, "not_reached": [],
            "files": [], "problems": []}
        if os.environ.get("PROFD_GPU_TORCH_DEVICE", "cuda") != "cuda":
            self.said["rehearsed"] = "PyTorch ran on the CPU: a rehearsal, which says nothing of a GPU"

    def write(self):
        self.said["seconds"] = self.deadline.passed()
        self.said["verdict"] = report.verdict(self.said)
        for name, text in (("gpu.json", json.dumps(self.said, indent=1)), ("gpu.txt", report.text(self.said))):
            part = self.out / (name + ".part")
            part.write_text(text + "\n", encoding="utf-8")
            part.rename(self.out / name)

    def test_group(self, name, file, selected, seconds):
        record = self.work / f"record-{file}-{len(selected)}"
        command = [self.test_python, "-m", "pytest", "-q", "-p", "record", "-p", "no:cacheprovider", "--rootdir", HERE, HERE / file]
        code, text = run_limited(command + (["-k", selected] if selected else []), {**self.env, "PROFD_GPU_RECORD": str(record)}, seconds,
                                 self.work / f"log-{record.name}")
        tests = {}
        for line in record.read_text(encoding="utf-8").splitlines() if record.exists() else []:
            row = json.loads(line)
            known = tests.get(row["test"], {}).get("outcome")
            if known not in ("failed", "error"):
                tests[row["test"]] = row
        self.said["tests"][name] = {"file": file, "exit_code": code, "tests": list(tests.values())}
        # 5: no test was selected. All skipped ends with 0.
        if code not in (0, 1, None) or not tests:
            self.said["problems"].append(f"{name}: pytest ended with {code}: {text[-1500:]}")
        counts = report.counts(tests.values())
        say(f"  {name}: " + ", ".join(f"{n} {word}" for word, n in counts.items()))

    def run_tests(self):
        if not self.test_python:
            self.said["problems"].append("no python with pytest was found: no test was run; PROFD_GPU_PYTHON names one")
            return
        limit = self.deadline.left() * TEST_SHARE
        say(f"== tests, {limit:.0f} s at the most")
        end = time.monotonic() + limit
        side_by_side = (os.cpu_count() or 1) >= 6
        threads = [threading.Thread(target=lambda g=group: self.test_group(*g, end - time.monotonic())) for group in GROUPS]
        for thread in threads:
            thread.start()
            if not side_by_side:
                thread.join()
        for thread in threads:
            thread.join()
        self.test_group(*ALONE, min(ALONE_SECONDS, self.deadline.left()))
        self.write()

    def measure(self):
        say("== measurements")
        python = self.test_python or sys.executable
        for part, limit in PARTS:
            seconds = min(limit, self.deadline.left() - 3)
            if seconds < 10:
                self.said["not_reached"].append(part)
                say(f"  {part}: not reached")
                continue
            start = time.monotonic()
            folder = self.work / part
            folder.mkdir()
            code, text = run_limited([python, HERE / "measure.py", part, folder], self.env, seconds, self.log)
            try:
                told = json.loads(text.strip().splitlines()[-1])
            except (ValueError, IndexError):
                told = {"error": f"no answer within {seconds:.0f} s" if code is None else f"ended with {code}: {self.tail()}"}
            self.said["measured"][part] = {"seconds": round(time.monotonic() - start, 1), **told}
            say(f"  {part}: {told['error'] if 'error' in told else told.get('not_here', 'done')}")
            self.take_files(folder)
            self.write()

    def tail(self):
        return self.log.read_text(errors="replace")[-1000:]

    def take_files(self, folder):
        for path in sorted(folder.glob("*.gz")):
            if path.stat().st_size >= MOST_FILE_BYTES:
                self.said["problems"].append(f"{path.name} has {path.stat().st_size} bytes and was left behind")
                continue
            shutil.copyfile(path, self.out / path.name)
            self.said["files"].append(path.name)

    def run(self):
        self.out.mkdir(parents=True, exist_ok=True)
        try:
            say(f"== {self.found.name}" + (" (simulated)" if self.said["simulated"] else "") + f", driver {self.found.driver}")
            if self.found.state == machines.REAL and not self.torch_python:
                self.said["problems"].append("no python was found whose torch uses CUDA (PROFD_GPU_PYTHON names one); looked at: "
                                             + "; ".join(f"{p}: {n}" for p, n in self.said["pythons"].items()))
            if self.only != "measurements":
                self.run_tests()
            if self.only != "tests":
                self.measure()
            self.write()
            say("")
            say(report.text(self.said))
            return 0 if self.said["verdict"] == "passed" else 1
        finally:
            shutil.rmtree(self.work, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default="profd-gpu")
    parser.add_argument("--deadline", type=float, default=460)
    parser.add_argument("--only", choices=["tests", "measurements"])
    parser.add_argument("--find-python", action="store_true", help="print a python whose torch uses the GPU, or fail")
    options = parser.parse_args()
    found = machines.look()
    if options.find_python:
        python = choose_pythons()[0] if found.state != machines.SIMULATED else sys.executable
        print(python or "")
        return 0 if python else 1
    if found.state == machines.NONE:
        print(f"{found.reason}; nothing was run", file=sys.stderr)
        return 3
    if found.state == machines.UNUSABLE:
        print(f"there is a GPU, and it cannot be used: {found.reason}", file=sys.stderr)
        pathlib.Path(options.out).mkdir(parents=True, exist_ok=True)
        said = {"schema": "profd.gpu/1", "verdict": "failed", "problems": [f"the GPU cannot be used: {found.reason}"]}
        (pathlib.Path(options.out) / "gpu.json").write_text(json.dumps(said) + "\n")
        (pathlib.Path(options.out) / "gpu.txt").write_text(said["problems"][0] + "\n")
        return 1
    return Suite(options, found).run()


if __name__ == "__main__":
    sys.exit(main())
