"""The simulated CUPTI of each release that was built, and the real one to hold it against.

Environment: PROFD_BUILD, the build folder (PROFD_CUDA_HEADERS has to be set in it). Real libraries and headers come from
tests/cuda/fetch.py.
"""
import functools
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD", ROOT / "build"))
SIM = BUILD / "sim"
WALK = pathlib.Path(__file__).resolve().parent / "walk.py"


def number(release):
    major, minor = release.split(".")
    return int(major) * 100 + int(minor)


RELEASES = sorted((d.name for d in SIM.glob("*.*") if d.is_dir()), key=number) if SIM.is_dir() else []
if not RELEASES:
    pytest.skip(f"no simulated CUPTI in {SIM}: PROFD_CUDA_HEADERS was not set", allow_module_level=True)
# The real library can be called without a driver: later it crashes (13.2) or answers 999 to everything.
CALLABLE = [r for r in RELEASES if number(r) <= 1301]


def simulated(release):
    return next((SIM / release).glob("libcupti.so.*"))


@functools.lru_cache(maxsize=None)
def fetched(release):
    """The folder with include/ and lib/ of a release."""
    done = subprocess.run([sys.executable, ROOT / "tests" / "cuda" / "fetch.py", release], capture_output=True, text=True,
                          check=True)
    return pathlib.Path(done.stdout.split()[1])


def real(release):
    return next((fetched(release) / "lib").glob("libcupti.so.*"))


def walk(library, *words, seconds=240):
    """What walk.py prints about a library, in a process of its own: lines, and its exit status."""
    done = subprocess.run([sys.executable, WALK, library, *map(str, words)], capture_output=True, text=True,
                          timeout=seconds, check=False)
    return done.stdout.splitlines(), done.returncode


class Record:
    """A line "record KIND SIZE FIELD=VALUE..."."""

    def __init__(self, words):
        self.kind, self.size = int(words[1]), int(words[2])
        self.fields = {k: int(v) for k, v in (w.split("=") for w in words[3:])}

    def __getattr__(self, name):
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(name) from None


class Output:
    def __init__(self, done):
        self.returncode, self.text, self.error = done.returncode, done.stdout, done.stderr
        self.lines = [line.split() for line in done.stdout.splitlines()]

    def all(self, word):
        return [line for line in self.lines if line and line[0] == word]

    def records(self, kind=None):
        return [r for r in map(Record, self.all("record")) if kind in (None, r.kind)]

    def result(self, function):
        """What the calls of a function answered."""
        return [int(line[2]) for line in self.all("call") if line[1] == function]


def feed(release, words, script="", seconds=60):
    """Runs tests/sim/oracle/feed.c on the simulator of a release."""
    env = {k: v for k, v in os.environ.items() if k != "SIMCUDA"}
    if script:
        env["SIMCUDA"] = script
    for sanitizer in ("ASAN_OPTIONS", "TSAN_OPTIONS"):  # that a crash on demand is seen as one
        env[sanitizer] = env.get(sanitizer, "") + ":handle_segv=0:handle_abort=0"
    done = subprocess.run([SIM / "feed", simulated(release), *words.split()], env=env, capture_output=True, text=True,
                          timeout=seconds, check=False)
    return Output(done)


def headers_have(release, pattern):
    text = "".join(p.read_text(errors="replace") for p in sorted((fetched(release) / "include").glob("cupti*.h")))
    return re.findall(pattern, text)
