"""How long a thread stands still for `profd attach`: a C program with threads that sleep, Python with its main thread busy, asleep,
and with threads that wait. Beside it what is promised of the median; the worst has no promise."""
import statistics
import subprocess
import sys

TIMES = 30
PROMISED_US = 1000.0
PYTHON = """
import sys, threading, time
print("ready", flush=True)
if sys.argv[1] == "threads":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
x = 0
while True:
    if sys.argv[1] == "sleeps":
        time.sleep(0.01)
    for i in range(1000):
        x = (x * 31 + i) % 1000003
"""


def stood(env, command):
    """us that each of so many processes had a thread standing; one that ended in between is left out."""
    figures = []
    for _ in range(TIMES):
        job = subprocess.Popen(command, env=env.without_agent(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        try:
            job.stdout.readline()
            figures.append(env.profd_json("attach", "--pid", job.pid)["stood_ns"] / 1000)
        finally:
            job.kill()
            job.communicate()
    return figures


def rows(env):
    env.start_daemon()
    python = [sys.executable, "-c", PYTHON]
    steady = env.build / "workloads" / "steady"
    for name, command in (("C, threads that sleep", [steady, "crowd", "60"]), ("Python, busy", [*python, "busy"]),
                          ("Python, asleep", [*python, "sleeps"]), ("Python, threads that wait", [*python, "threads"])):
        figures = stood(env, list(map(str, command)))
        median = statistics.median(figures)
        yield f"attach to {name}: a thread stood, median", median, "us", "promised at most", PROMISED_US, median / PROMISED_US, 1.0
        yield f"attach to {name}: a thread stood, worst", max(figures), "us", "median", median, max(figures) / median, None
