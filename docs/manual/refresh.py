#!/usr/bin/env python3
"""Writes into the documents what the programs' own tables say, so that it stands in one place and can be read in both:

    docs/json.md      the text of `profd help json`
    docs/reading.md   the tables of `profd show --by`, and what cuts them: `profd help filters`
    docs/formats.md   the formats of `profd export`

refresh.py --build DIR [--check]   prints the documents that change. --check changes nothing; exit code 1 where one would.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def output(build, *words):
    return subprocess.run([build / "bin" / "profd", *words], check=True, capture_output=True, text=True).stdout


def words_of(build, verb, option):
    """[(word, sentence)] of an option, as the help has them."""
    listed = output(build, verb, "--help").split(f"\n--{option} takes:\n")[1].split("\n\n")[0]
    joined = re.sub(r"\n {3,}", " ", listed)
    return [re.match(r"  (\S+) +(.*)", line).groups() for line in joined.splitlines()]


def with_table(text, head, rows):
    """The Markdown table that begins with `head` has these rows now."""
    before, found, behind = text.partition(head)
    if not found:
        sys.exit(f"refresh: no table begins with {head!r}")
    rest = re.sub(r"\A(\|[^\n]*\n)*", "", behind)
    return before + head + "".join(f"| {word} | {sentence} |\n" for word, sentence in rows) + rest


def filters(build):
    """[(table, options)] of `profd help filters`."""
    return re.findall(r"^- (\w+): (.*)$", output(build, "help", "filters"), re.M)


def documents(build):
    reading, formats = ROOT / "docs/reading.md", ROOT / "docs/formats.md"
    yield ROOT / "docs/json.md", output(build, "help", "json")
    views = [row for row in words_of(build, "show", "by") if row[0] != "all"]
    text = with_table(reading.read_text(), "| `show --by` | |\n|---|---|\n", views)
    yield reading, with_table(text, "| table | is cut by |\n|---|---|\n", filters(build))
    yield formats, with_table(formats.read_text(), "| `export --format` | |\n|---|---|\n", words_of(build, "export", "format"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    changed = [(path, text) for path, text in documents(options.build.resolve()) if path.read_text() != text]
    for path, text in changed:
        print(path.relative_to(ROOT))
        if not options.check:
            path.write_text(text)
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
