"""What a capture of a million events costs at its end for the breakdown and the verdict; every view of `profd show` on it, the slowest of
them by name, and all at once."""
import re
import subprocess

import kineto_trace
from bench_export import run

ROUNDS = 2
VIEW_SECONDS = 1.0
VERDICT_ROUNDS = 3
VERDICT_SECONDS = 0.3  # of a processor, more than the summary without them


def rows(env):
    _, events, capture = kineto_trace.capture(env)
    cost = min(float(subprocess.run([env.build / "tests/verdict_cost", capture], check=True, capture_output=True, text=True).stdout)
               for _ in range(VERDICT_ROUNDS))
    yield (f"breakdown and verdict of {events:,} events, CPU", cost, "s", "promised at most", VERDICT_SECONDS, cost / VERDICT_SECONDS, 1.0)
    text = subprocess.run([env.client, "show", "--help"], check=True, capture_output=True, text=True).stdout
    views = re.findall(r"^  ([a-z_]+) ", text.split("\n--by takes:\n")[1].split("\n\n")[0], re.M)
    took = {view: min(run(env.client, "show", capture, "--by", view)[0] for _ in range(ROUNDS)) for view in views}
    slowest = sorted(views, key=lambda view: -took[view])
    if "all" in took:
        slowest.remove("all")
        yield f"show of {events:,} events, all tables", took["all"], "s", "", None, took["all"], None
    for view in slowest[:5]:
        yield f"show --by {view} of {events:,} events", took[view], "s", "promised at most", VIEW_SECONDS, took[view] / VIEW_SECONDS, 1.0
    env.note(f"show: {len(slowest)} views; those that are not listed take {took[slowest[5]]:.2f} s at most")
