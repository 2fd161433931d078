"""Every view of `profd show` on a capture of a million events, the slowest of them by name, and all at once."""
import re
import subprocess

import kineto_trace
from bench_export import run

ROUNDS = 2
VIEW_SECONDS = 1.0


def rows(env):
    _, events, capture = kineto_trace.capture(env)
    text = subprocess.run([env.client, "show", "--help"], check=True, capture_output=True, text=True).stdout
    views = re.findall(r"^  ([a-z]+) ", text.split("\n--by takes:\n")[1].split("\n\n")[0], re.M)
    took = {view: min(run(env.client, "show", capture, "--by", view)[0] for _ in range(ROUNDS)) for view in views}
    slowest = sorted(views, key=lambda view: -took[view])
    if "all" in took:
        slowest.remove("all")
        yield f"show of {events:,} events, all tables", took["all"], "s", "", None, took["all"], None
    for view in slowest[:5]:
        yield f"show --by {view} of {events:,} events", took[view], "s", "promised at most", VIEW_SECONDS, took[view] / VIEW_SECONDS, 1.0
    env.note(f"show: {len(slowest)} views; those that are not listed take {took[slowest[5]]:.2f} s at most")
