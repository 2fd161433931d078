#!/usr/bin/env python3
"""Measures what profd promises, beside a floor or a peer.

    bench.py [--check] [MODULE ...]
    bench.py --against BUILD [--rounds N] [--check] [MODULE ...]

Each bench_NAME.py here has `rows(env)`, which yields
    (figure, value, unit, reference's name, reference's value, ratio, promised ratio)
with None where there is none. --check says which promised figure falls short, and exits 1 then. MODULE (NAME or
bench_NAME) selects. PROFD_BUILD names the build folder.

--against measures another build too, by turns in the same run, and shows the medians of both: an older one, before what was
changed. More than WORSE of it falls short, where the middle halves of both builds' rounds do not overlap: else it is the machine's noise.
"""
import argparse
import importlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORSE = 1.05


class Environment:
    """What the modules share: a folder, the build, a daemon of the bench's own."""

    def __init__(self, folder, build=None):
        self.folder = pathlib.Path(folder)
        self.build = pathlib.Path(build or os.environ.get("PROFD_BUILD", ROOT / "build")).resolve()
        self.client = self.build / "bin" / "profd"
        self.agent = self.build / "lib" / "libprofd_agent.so"
        self.socket = self.folder / "profd.sock"
        self.store = self.folder / "store"
        self.daemon = None
        self.notes = []

    def note(self, text):
        """Something the reader of the table must know: shown below it."""
        self.notes.append(text)
        print(f"note: {text}", file=sys.stderr)

    def without_agent(self):
        taken = ("LD_PRELOAD", "NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH")
        return {k: v for k, v in os.environ.items() if k not in taken and not k.startswith("PROFD_")}

    def with_agent(self):
        """The environment of a job that `profd run` would start, connected to the bench's daemon."""
        self.start_daemon()
        return {**self.without_agent(), "PROFD_SOCKET": str(self.socket), "LD_PRELOAD": str(self.agent),
                "NVTX_INJECTION64_PATH": str(self.agent), "CUDA_INJECTION64_PATH": str(self.agent)}

    def start_daemon(self, *arguments):
        if self.daemon and self.daemon.poll() is None:
            return
        log = open(self.folder / "daemon.log", "ab")
        self.daemon = subprocess.Popen([self.build / "bin" / "profd-daemon", "--user", "--dir", self.store, *arguments],
                                       env={**self.without_agent(), "PROFD_SOCKET": str(self.socket)},
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        self.wait(lambda: self.profd("status").returncode == 0, 10, "the daemon")

    def stop_daemon(self):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.terminate()
            self.daemon.wait(20)
        self.daemon = None

    @staticmethod
    def wait(condition, seconds, what):
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited {seconds} s for {what}")
            time.sleep(0.02)

    def profd(self, *arguments, timeout=120):
        return subprocess.run([self.client, *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL,
                              env={**self.without_agent(), "PROFD_SOCKET": str(self.socket), "NO_COLOR": "1"})

    def profd_json(self, *arguments, timeout=120):
        done = self.profd(*arguments, "--format", "json", timeout=timeout)
        if done.returncode != 0:
            raise RuntimeError(f"profd {' '.join(map(str, arguments))}: {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def process(self, pid):
        done = self.profd("ps", "--format", "json")
        if done.returncode != 0:
            return None
        return next((row for row in json.loads(done.stdout)["processes"] if row["pid"] == pid), None)

    def wait_registered(self, pid, seconds=30):
        return self.wait(lambda: self.process(pid), seconds, f"process {pid} to register")

    @staticmethod
    def nvtx_include():
        """The folder that holds nvtx3/: PROFD_NVTX_INCLUDE, or where the compiler finds it by itself; None."""
        given = os.environ.get("PROFD_NVTX_INCLUDE")
        if given:
            return given
        for folder in ("/usr/local/cuda/include", "/usr/local/include", "/usr/include"):
            if os.path.exists(os.path.join(folder, "nvtx3", "nvToolsExt.h")):
                return folder
        return None


def number(value, unit=""):
    if value is None:
        return ""
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{value:,.{digits}f}" + (f" {unit}" if unit else "")


def table(lines):
    head = ("figure", "value", "floor or peer", "ratio", "promised")
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    for line in [head, *lines]:
        print("  ".join(cell.ljust(width) if i in (0, 2) else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(line, widths))).rstrip())


def quarters(values):
    """The middle half of them."""
    return statistics.quantiles(values, n=4, method="inclusive")[::2] if len(values) > 1 else [values[0]] * 2


def by_turns(names, environments, rounds):
    """Per figure: its unit and each environment's values. Who begins alternates, as what runs second finds a warmer machine."""
    measured, broken = {}, set()
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            for name in names:
                print(f"{name}, round {turn + 1} of {rounds}, {environments[which].build} ...", file=sys.stderr)
                try:
                    for figure, value, unit, *_ in importlib.import_module(name).rows(environments[which]):
                        if value is not None:
                            measured.setdefault(figure, (unit, ([], [])))[1][which].append(value)
                except (RuntimeError, OSError, subprocess.SubprocessError, ValueError) as error:
                    broken.add(f"{name} of {environments[which].build}: {error}")
                finally:
                    environments[which].stop_daemon()
    return measured, sorted(broken)


def compare(names, other, rounds):
    """As told() takes them."""
    with tempfile.TemporaryDirectory(prefix="profd-bench-", ignore_cleanup_errors=True) as folder:
        environments = [Environment(pathlib.Path(folder) / word, build) for word, build in (("this", None), ("other", other))]
        for env in environments:
            env.folder.mkdir()
        measured, broken = by_turns(names, environments, rounds)
    lines, short = [], []
    for figure, (unit, (ours, theirs)) in measured.items():
        if not ours or not theirs:
            broken.append(f"{figure}: {'this' if not ours else 'the other'} build does not have it")
            continue
        value, before = statistics.median(ours), statistics.median(theirs)
        ratio = value / before if before else None
        lines.append((figure, number(value, unit), f"other build {number(before, unit)}", number(ratio), f"<= {WORSE:g}"))
        if ratio is not None and ratio > WORSE and quarters(ours)[0] > quarters(theirs)[1]:
            short.append(f"{figure}: {number(ratio)} of the other build, promised {WORSE:g}")
    return lines, short, broken, sorted({note for env in environments for note in env.notes})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 where a promised figure falls short")
    parser.add_argument("--against", metavar="BUILD", help="the folder of another build, measured by turns in the same run")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="with --against: how often each is measured (default: 5)")
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    arguments = parser.parse_args()
    sys.path.insert(0, str(HERE))
    names = sorted(p.stem for p in HERE.glob("bench_*.py"))
    if arguments.modules:
        wanted = {m if m.startswith("bench_") else f"bench_{m}" for m in arguments.modules}
        unknown = wanted - set(names)
        if unknown:
            parser.error(f"no such module: {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
        names = [n for n in names if n in wanted]
    if arguments.against:
        if not (pathlib.Path(arguments.against) / "bin" / "profd").exists():
            parser.error(f"{arguments.against} is no build folder: bin/profd is not there")
        if arguments.rounds < 1:
            parser.error("--rounds: at least 1")
        return told(*compare(names, arguments.against, arguments.rounds), arguments.check)
    lines, short, broken = [], [], []
    folder = tempfile.mkdtemp(prefix="profd-bench-")
    env = Environment(folder)
    try:
        for name in names:
            print(f"{name} ...", file=sys.stderr)
            try:
                for figure, value, unit, peer, peer_value, ratio, promised in importlib.import_module(name).rows(env):
                    reference = f"{peer} {number(peer_value, unit)}".strip() if peer else ""
                    lines.append((figure, number(value, unit), reference, number(ratio),
                                  f"<= {promised:g}" if promised is not None else ""))
                    if promised is not None and ratio > promised:
                        short.append(f"{figure}: {number(ratio)} against {peer or 'the promise'}, promised {promised:g}")
            except (RuntimeError, OSError, subprocess.SubprocessError, ValueError) as error:
                broken.append(f"{name}: {error}")
    finally:
        env.stop_daemon()
        shutil.rmtree(folder, ignore_errors=True)
    return told(lines, short, broken, env.notes, arguments.check)


def told(lines, short, broken, notes, check):
    """Prints what was measured; the exit code."""
    table(lines)
    for text in notes:
        print(f"note: {text}")
    for text in broken:
        print(f"not measured: {text}")
    if not check:
        return 1 if broken else 0
    for text in short:
        print(f"falls short: {text}")
    if not short and not broken:
        print("every promised figure that was measured holds")
    return 1 if short or broken else 0


if __name__ == "__main__":
    sys.exit(main())
