"""A trace of a million events for the modules that import and show one: a recorded trace of a GPU (tests/data/traces), over and over, each
time later and with correlation ids of its own, a step a time."""
import gzip
import json
import pathlib
import subprocess

RECORDED = pathlib.Path(__file__).resolve().parents[1] / "data" / "traces" / "gp100_gpu_user_annotation.json.gz"
EVENTS = 1_000_000


def write(path, events):
    """The trace with at least so many events. Returns how many."""
    with gzip.open(RECORDED, "rt") as file:
        data = json.load(file)
    once = [e for e in data["traceEvents"] if e.get("ph") == "M"]
    slices = [e for e in data["traceEvents"] if e.get("ph") == "X" and e.get("cat") not in (None, "Trace")]
    begin, end = min(e["ts"] for e in slices), max(e["ts"] + e["dur"] for e in slices)
    host = next(e for e in slices if e.get("cat") == "cpu_op")
    base = round(begin)
    written = 0
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write('{"schemaVersion": 1, "deviceProperties": %s, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [\n'
                   % json.dumps(data.get("deviceProperties", [])))
        file.write(",\n".join(map(json.dumps, once)))
        number = 0
        while written < events:
            shift, lines = number * (end - begin + 1000), []
            for event in slices:
                event = dict(event, ts=round(event["ts"] - base + shift, 3))
                if "correlation" in event.get("args", {}):
                    event["args"] = dict(event["args"], correlation=event["args"]["correlation"] % 100000 + number * 100000)
                lines.append(json.dumps(event))
            lines.append(json.dumps(dict(ph="X", cat="user_annotation", name=f"ProfilerStep#{number}", pid=host["pid"], tid=host["tid"],
                                         ts=round(begin - base + shift, 3), dur=round(end - begin, 3), args={})))
            file.write(",\n" + ",\n".join(lines))
            written += len(lines)
            number += 1
        file.write("\n]}\n")
    return written


def capture(env):
    """(the trace, how many events it has, the capture file that was imported from it), once for all modules."""
    path, db = env.folder / "kineto.json.gz", env.folder / "kineto.db"
    if not path.exists():
        env.kineto_events = write(path, EVENTS)
    if not db.exists():
        subprocess.run([env.client, "import", path, "--output", db], check=True, stdout=subprocess.DEVNULL)
    return path, env.kineto_events, db
