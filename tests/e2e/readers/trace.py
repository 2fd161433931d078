"""A Chrome trace as a test sees it."""
import collections
import gzip
import json


TRACKS = 990000000  # the process of the breakdown's tracks


def load(path):
    opened = gzip.open(path, "rt", encoding="utf-8") if str(path).endswith(".gz") else open(path, encoding="utf-8")
    with opened as file:
        return json.load(file)


def events(trace, phase, category=None):
    return [e for e in trace["traceEvents"] if e["ph"] == phase and category in (None, e.get("cat"))]


def is_step(event):
    return event["name"].startswith("ProfilerStep#") and event["cat"] == "user_annotation"


def is_track(event):
    """Of the breakdown: a slice, a counter or the name of one, of any capture in the file."""
    return event["pid"] >= TRACKS


def nanoseconds(micros):
    """Of a time with three decimals, exactly."""
    return round(micros * 1000)


def interval(event):
    start = nanoseconds(event["ts"])
    return start, start + nanoseconds(event["dur"])


def ranges(trace):
    """Every interval with a name but steps and operators: slices, and asynchronous pairs by their beginning."""
    found = [e for e in events(trace, "X", "user_annotation") if not is_step(e)]
    return found + events(trace, "b", "user_annotation")


def count(found):
    return dict(collections.Counter(e["name"] for e in found))


def crossings(trace):
    """Pairs of slices of one track that overlap without one holding the other. None: the viewers show all."""
    tracks = collections.defaultdict(list)
    for event in events(trace, "X"):
        tracks[event["pid"], event["tid"]].append((*interval(event), event["name"]))
    found = []
    for slices in tracks.values():
        slices.sort(key=lambda s: (s[0], -s[1]))
        opened = []
        for one in slices:
            while opened and opened[-1][1] <= one[0]:
                opened.pop()
            if opened and one[1] > opened[-1][1]:
                found.append((opened[-1], one))
            opened.append(one)
    return found
