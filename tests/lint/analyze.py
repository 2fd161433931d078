#!/usr/bin/env python3
"""Static analysis of the programs: gcc -fanalyzer and clang-tidy (.clang-tidy says what it asks) over every source file.

analyze.py --build DIR [FILE]...   prints each finding and a summary; exit code 1 where there is any. FILE: only these, or folders.

A finding is mended, or explained at its place, for both programs in the same way:

    /* NOLINTNEXTLINE(cert-err33-c): the reason */

What is right wherever it stands is explained in EXPLAINED instead. A row there, or a comment for gcc, that explains nothing any
more is a finding, too.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("agent", "proto", "store", "daemon", "client")
CLANG_TIDY = 14  # others know other checks

# A check, a pattern of files, a pattern that the line or the finding's text matches, and why that is right there.
EXPLAINED = [
    ("cert-err33-c", r"", r"\bv?snprintf\(", "a text that is too long is cut, and is meant to be"),
    ("cert-err33-c", r"", r"\b(fprintf|fputs|fputc)\(", "the stream is asked once, before it is closed"),
    ("cert-err33-c", r"client/", r"\bfflush\(", "puts two streams into order; main.c asks stdout at the end"),
    ("cert-err33-c", r"", r"\bfclose\(file\)", "files that are called `file` are read, and reading has ended"),
    ("concurrency-mt-unsafe", r"", r"\b(strerror|getenv)\(",
     "safe in glibc while nobody changes the locale or the environment: no program of ours does once it has threads"),
    ("concurrency-mt-unsafe", r"", r"\breaddir\(", "safe for a folder that one thread alone has open"),
    ("concurrency-mt-unsafe", r"client/", r"", "only exports have threads, and those run workers.c's callbacks alone"),
    ("concurrency-mt-unsafe", r"daemon/(main|run|core/manager|setup/\w+)\.c", r"", "runs before the first thread starts"),
    ("bugprone-macro-parentheses", r"store/breakdown/devices\.c", r"\b(i|part)\b", "variables that a macro declares"),
    ("bugprone-macro-parentheses", r"proto/events\.c", r"\bfunction\b", "the name in a function's own definition"),
    ("-Wanalyzer-malloc-leak", r"", r"leak of '<unknown>'", "gcc 12 has lost sight of a pointer that lies in a list or an array"),
]

Finding = collections.namedtuple("Finding", "file line check text")


def commands(build, wanted):
    """One compiler command for each source file of the programs."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = os.path.relpath(os.path.realpath(entry["file"]), ROOT)
        if file.split("/")[0] in FOLDERS and (not wanted or any(file == w or file.startswith(w.rstrip("/") + "/") for w in wanted)):
            found.setdefault(file, entry)
    return sorted(found.items())


def findings_in(text, pattern):
    for line in text.splitlines():
        match = re.match(r"(\S+?):(\d+):\d+: (?:warning|error): (.*) \[(" + pattern + r")\]$", line)
        if match:
            yield Finding(os.path.relpath(os.path.realpath(match.group(1)), ROOT), int(match.group(2)), match.group(4), match.group(3))


def gcc(entry):
    command = shlex.split(entry["command"])
    command = command[next(i for i, word in enumerate(command) if not word.endswith("ccache")):]
    command[command.index("-o") + 1] = os.devnull
    # In CI warnings are errors, and an analysis ends at the first of them, explained or not.
    command = [word for word in command if word != "-Werror"]
    # The analyzer is one of the last passes: -fsyntax-only ends before it.
    command[command.index("-c")] = "-S"
    result = subprocess.run(["gcc", *command[1:], "-fanalyzer", "-fdiagnostics-plain-output", "-fdiagnostics-path-format=none"],
                            cwd=entry["directory"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    found = list(findings_in(result.stderr, "-Wanalyzer[a-z-]*"))
    if result.returncode and not found:
        raise SystemExit(f"analyze: {shlex.join(command)} failed: {result.stderr.strip()[-2000:]}")
    return found


def clang_tidy(entry, build):
    result = subprocess.run(["clang-tidy", "-p", build, "--quiet", entry["file"]], capture_output=True, text=True)
    found = list(findings_in(result.stdout, r"[a-z][\w.,-]*"))
    if result.returncode and not found:
        raise SystemExit(f"analyze: clang-tidy {entry['file']} failed: {result.stdout[-1000:]}{result.stderr[-1000:]}")
    return found


class Explanations:
    """The comments at the places, and the table above; each notes whether something needed it."""

    def __init__(self, files):
        self.lines = {}
        self.comments = {}  # (file, line that is explained) -> [checks, used, line of the comment]
        self.used = [False] * len(EXPLAINED)
        self.bare = []
        for file in files:
            self.read(file)

    def read(self, file):
        if file in self.lines:
            return self.lines[file]
        self.lines[file] = (ROOT / file).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(self.lines[file], 1):
            match = re.search(r"NOLINT(NEXTLINE)?\b(?:\(([^)]*)\)(: \S)?)?", line)
            if not match:
                continue
            if not match.group(2) or not match.group(3):
                self.bare.append(Finding(file, number, "nolint", "names no check, or no reason"))
            checks = [c.strip() for c in (match.group(2) or "").split(",")]
            self.comments[file, number + bool(match.group(1))] = [checks, False, number]
        return self.lines[file]

    def explain(self, finding):
        lines = self.read(finding.file)
        comment = self.comments.get((finding.file, finding.line))
        names = finding.check.split(",")
        if comment and any(c in comment[0] for c in names):
            comment[1] = True
            return True
        line = lines[finding.line - 1] if finding.line <= len(lines) else ""
        for i, (check, files, pattern, _) in enumerate(EXPLAINED):
            if check in names and re.match(files, finding.file) and re.search(pattern, line + "\n" + finding.text):
                self.used[i] = True
                return True
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    began = time.monotonic()
    version = re.search(r"version (\d+)", subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True).stdout)
    tidy = version and int(version.group(1)) == CLANG_TIDY
    if not tidy:
        print(f"clang-tidy: not asked, it is {version.group(1) if version else 'missing'} and .clang-tidy is for {CLANG_TIDY}")
    sources = commands(build, arguments.files)
    if not sources:
        raise SystemExit("analyze: no such file")
    explanations = Explanations([f for f, _ in sources])
    found = set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        waiting = [pool.submit(gcc, entry) for _, entry in sources]
        if tidy:
            waiting += [pool.submit(clang_tidy, entry, build) for _, entry in sources]
        for future in waiting:
            found.update(future.result())
    left = sorted(f for f in found if not explanations.explain(f)) + explanations.bare
    for (file, _), (checks, used, number) in sorted(explanations.comments.items()):
        # clang-tidy obeys its comments itself; gcc's are obeyed here, and so it is seen which are of no use.
        if not used and any(c.startswith("-W") for c in checks):
            left.append(Finding(file, number, "nolint", "explains nothing"))
    for used, row in zip(explanations.used, EXPLAINED):
        if not used and not arguments.files and (tidy or row[0].startswith("-W")):
            left.append(Finding("tests/lint/analyze.py", 1, "nolint", f"nothing needs the row {row[0]} {row[1]} {row[2]}"))
    for finding in left:
        print(f"{finding.file}:{finding.line}: {finding.text} [{finding.check}]")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"analyze: {len(sources)} files, {len(found) - len([f for f in found if f in left])} explained, {len(left)} findings, "
          f"{time.monotonic() - began:.0f} s ({used.ru_utime + used.ru_stime:.0f} s of processor time)")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
