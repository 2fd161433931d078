#!/usr/bin/env python3
"""coverage.py --build FOLDER COUNTERS - lines, branches and functions by folder, from clang's counters of a run of tests.

COUNTERS is the folder with the counters (*.profraw) of all processes. Prints a table, and then the functions that nothing reached.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = ("lib/libprofd_agent.so", "bin/profd-daemon", "bin/profd")
COUNTED = ("lines", "branches", "functions")
AT_A_TIME = 500  # files of counters, which may be many thousands


def merge(folder):
    """One file of all counters."""
    merged = folder / "merged.profdata"
    files = sorted(folder.glob("*.profraw"))
    if not files:
        raise SystemExit(f"coverage: there are no counters in {folder}")
    for at in range(0, len(files), AT_A_TIME):
        before = [merged] if merged.exists() else []
        subprocess.run(["llvm-profdata", "merge", "-sparse", "--failure-mode=all", "-o", str(merged), *map(str, before + files[at:at + AT_A_TIME])],
                       check=True, stderr=subprocess.DEVNULL)  # a process that was killed while it opened its file leaves half of one
    return merged


def export(build, merged):
    objects = [str(build / PROGRAMS[0])] + [f"--object={build / program}" for program in PROGRAMS[1:]]
    done = subprocess.run(["llvm-cov", "export", f"--instr-profile={merged}", *objects], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["data"][0]


def room(path):
    """The folder that a file counts for: daemon/ops, but agent/ for what lies in it itself."""
    return str(path.parent) + "/"


def inside(name):
    path = pathlib.Path(name)
    return path.relative_to(ROOT) if ROOT in path.parents and (ROOT / "tests") not in path.parents else None


def table(files):
    sums = collections.defaultdict(lambda: collections.Counter())
    for file in files:
        path = inside(file["filename"])
        if not path:
            continue
        for where in {room(path), path.parts[0] + "/ (all)", "all"}:
            for what in COUNTED:
                sums[where][what, "count"] += file["summary"][what]["count"]
                sums[where][what, "covered"] += file["summary"][what]["covered"]
    print(f"{'FOLDER':26}{'LINES':>16}{'BRANCHES':>18}{'FUNCTIONS':>18}")
    for where in sorted(sums, key=lambda w: (w == "all", w)):
        cells = [f"{100 * sums[where][what, 'covered'] / max(1, sums[where][what, 'count']):.1f} % of {sums[where][what, 'count']}" for what in COUNTED]
        print(f"{where:26}{cells[0]:>16}{cells[1]:>18}{cells[2]:>18}")


def unreached(functions):
    """{file: [functions that no process has entered]}; one of a header counts where one of its copies was reached."""
    calls = collections.Counter()
    for function in functions:
        path = inside(function["filenames"][0])
        if path:
            calls[path, function["name"].split(":")[-1]] += function["count"]
    found = collections.defaultdict(list)
    for (path, name), count in sorted(calls.items()):
        if not count:
            found[path].append(name)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("counters", type=pathlib.Path)
    arguments = parser.parse_args()
    found = export(arguments.build.resolve(), merge(arguments.counters))
    table(found["files"])
    names = unreached(found["functions"])
    print(f"\nfunctions that no test reaches: {sum(map(len, names.values()))}")
    for path, functions in names.items():
        print(f"  {path}: {', '.join(functions)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
