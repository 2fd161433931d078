"""Prometheus' text format, read strictly; and Prometheus' own programs, where there are any (./dev test fetches them)."""
import os
import pathlib
import re
import shutil

import pytest

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)')
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)$")
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def program(name):
    """The path of prometheus, promtool or prometheus-node-exporter; skips the test without it."""
    folder = os.environ.get("PROFD_PROMETHEUS")
    found = str(pathlib.Path(folder) / name) if folder else shutil.which(name)
    if not found or not os.access(found, os.X_OK):
        pytest.skip(f"{name} cannot be had here (PROFD_PROMETHEUS)")
    return found


class Metrics(dict):
    """{(name, frozenset of label pairs): number}, and the families' types and helps."""

    def __init__(self, text):
        super().__init__()
        self.text, self.types, self.helps = text, {}, {}
        assert text.endswith("\n")
        family = None
        for line in text.split("\n")[:-1]:
            if line.startswith("# HELP "):
                name, _, words = line[7:].partition(" ")
                assert name not in self.helps and words, line
                self.helps[name], family = words, name
            elif line.startswith("# TYPE "):
                name, kind = line[7:].split(" ")
                assert name == family and name not in self.types, line
                self.types[name] = kind
            else:
                match = SAMPLE.match(line)
                assert match, line
                name, labels, value = match.groups()
                base = re.sub("_(bucket|sum|count)$", "", name) if self.types.get(family) == "histogram" else name
                assert base == family, f"{line} is not of {family}"
                key = (name, frozenset(self.labels(labels or "", line)))
                assert key not in self, f"twice: {line}"
                self[key] = float(value)
        assert set(self.types) == set(self.helps)

    @staticmethod
    def labels(text, line):
        at = 0
        while at < len(text):
            match = LABEL.match(text, at)
            assert match, line
            yield match.group(1), re.sub(r"\\.", lambda m: ESCAPES[m.group(0)], match.group(2))
            at = match.end()

    def value(self, name, **labels):
        """None where there is no such series."""
        return self.get((name, frozenset(labels.items())))

    def sum(self, name, **labels):
        wanted = set(labels.items())
        return sum(value for (own, pairs), value in self.items() if own == name and wanted <= pairs)

    def series(self, name):
        return [dict(pairs) for own, pairs in self if own == name]
