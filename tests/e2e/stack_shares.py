"""A Python whose time is at known places: three functions and a sleep, and a thread that rests. It writes a line as soon as it goes
round, and where its time has been, in seconds, on each line that it reads. What it forks to `exec` begins another program with SIGUSR1."""
import json
import os
import signal
import sys
import threading
import time

spent = {"slow": 0.0, "quick": 0.0, "rest": 0.0}


def spin(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def slow():
    spin(0.012)


def quick():
    spin(0.004)


def rest():
    time.sleep(0.02)


def idle():
    threading.Event().wait()


def tell():
    for _ in sys.stdin:
        print(json.dumps(spent), flush=True)


def go_round():
    while True:
        for function in (slow, quick, rest):
            began = time.perf_counter()
            function()
            spent[function.__name__] += time.perf_counter() - began


def main():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    threading.Thread(target=idle, name="idle", daemon=True).start()
    threading.Thread(target=tell, name="tell", daemon=True).start()
    for how in sys.argv[1:]:
        if how == "fork" and os.fork() == 0:
            go_round()
        elif how == "exec" and os.fork() == 0:
            signal.sigwait({signal.SIGUSR1})
            os.execv(sys.executable, [sys.executable, __file__])
        elif how == "sh" and os.fork() == 0:
            os.execvp("sleep", ["sleep", "60"])
    print("ready", flush=True)
    go_round()


if __name__ == "__main__":
    main()
