"""A loop whose lines take known shares of the time: each goes on until its own time is up, however busy the machine is. After each
iteration it calls profd_step() and puts what each part has taken so far into FILE: a JSON object {part: seconds}; "all" is the whole of the loop.
FILE.steps has a line of it for each iteration.

    shares.py FILE

After SIGUSR2 a part takes a fiftieth of its time.
"""
import ctypes
import hashlib
import json
import os
import signal
import sys
import time

now = time.perf_counter
BLOCK = b"x" * 200000


def leaf(n):
    return n + 1


def calls(until):
    n = 0
    while now() < until:
        n = leaf(leaf(leaf(leaf(n))))  # calls


def spin(until):
    n = 0
    while now() < until: n += 1  # spin


def let_go(until):
    while now() < until:
        hashlib.sha256(BLOCK)  # let_go: without the GIL


def asleep(until):
    time.sleep(max(0, until - now()))  # asleep


def produce(until):
    while now() < until: yield 1  # generator


def generator(until):
    for _ in produce(until):
        pass


HURRIED = []
PARTS = [(spin, 0.012), (calls, 0.010), (asleep, 0.009), (let_go, 0.007), (generator, 0.005)]


def main(path):
    step = getattr(ctypes.CDLL(None), "profd_step", lambda: None)
    taken = {part.__name__: 0.0 for part, _ in PARTS}
    signal.signal(signal.SIGUSR2, lambda *_: HURRIED.append(1))
    steps, begin = open(path + ".steps", "w"), now()
    while True:
        for part, seconds in PARTS:
            begun = now()
            part(begun + seconds / (50 if HURRIED else 1))
            taken[part.__name__] += now() - begun
        step()
        taken["all"] = now() - begin
        text = json.dumps(taken)
        print(text, file=steps, flush=True)
        with open(path + ".new", "w") as file:
            file.write(text)
        os.replace(path + ".new", path)


main(sys.argv[1])
