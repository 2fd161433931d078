"""The page of `profd report` on a capture of a million events: its seconds and its size."""
import kineto_trace
from bench_export import run

ROUNDS = 2
SECONDS = 3.0
BYTES = 2e6


def rows(env):
    _, events, capture = kineto_trace.capture(env)
    page = env.folder / "report.html"
    took = []
    for _ in range(ROUNDS):
        page.unlink(missing_ok=True)
        took.append(run(env.client, "report", capture, "--output", page)[0])
    yield f"report of {events:,} events", min(took), "s", "promised at most", SECONDS, min(took) / SECONDS, 1.0
    yield "its size", page.stat().st_size / 1e6, "MB", "promised at most", BYTES / 1e6, page.stat().st_size / BYTES, 1.0
