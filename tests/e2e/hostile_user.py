"""One user who means harm to the daemon for as long as it is told: `hostile_user.py SOCKET SECONDS PROCESSES`.

Each process registers as an agent, triggers itself, and writes what costs the daemon most: records of one id, deep threads, names
that break a demangler, keys that collide, steps that lie, segments that are scribbled on; ends its captures in every way there
is, and begins anew. Prints one line of JSON at its end: what was begun, and how it ended.
"""
import collections
import json
import os
import random
import struct
import sys
import time

import device_records as records
import fake_agent as fake
from hostile_capture import CUPTI, Capture, colliding_kernels, one_id, overflowing_name, steps


def joined(capture, noise):
    capture.put(one_id(capture.begun, noise.randrange(1000, 60000)))


def deep(capture, noise):
    capture.put([records.operator_of(1, capture.begun + 5, 10, 10, i + 1, 7, 1, 1023, i + 1) for i in range(30000)])


def named(capture, noise):
    slow = ["_ZN1AcvT_" + "IT_" * 60 + "E" * 61 + f"v{'i' * i}" for i in range(100)]
    names = list(capture.agent.strings([overflowing_name(noise.randrange(2500, 4000)) for _ in range(20)] + slow).values())
    capture.put([records.kernel(capture.begun + 100 + i, 10, i + 1, name=name) for i, name in enumerate(names)])


def colliding(capture, noise):
    capture.put(colliding_kernels(capture.begun, 60000))


def groups(capture, noise):
    """Names, threads, domains and steps, all of them many."""
    capture.put([records.range_of(noise.randrange(100000), capture.begun + i, 50, 1, i + 1, noise.randrange(i + 1), noise.randrange(2**32),
                                  noise.randrange(1024), noise.randrange(2**32), domain=noise.randrange(2**32)) for i in range(40000)])


def displaced(capture, noise):
    capture.put([records.operator_of(99, capture.begun + noise.randrange(3000), 50, 1, i + 1, i, i % 1000, i % 1000, 42)
                 for i in range(60000)])


def launches(capture, noise):
    capture.put([records.call(1, capture.begun + i, 5, i + 1, thread=i % 7) for i in range(30000)] +
                [records.kernel(capture.begun + i, 50, noise.randrange(1, 40000), stream=noise.randrange(2**32),
                                device=noise.randrange(2**32)) for i in range(30000)])


def scribbled(capture, noise):
    agent, until = capture.agent, time.monotonic() + 1
    while time.monotonic() < until:
        index = noise.randrange(min(4, agent.chunk_count))
        agent.chunk(index, noise.randbytes(noise.randrange(0, 4096, 8)), noise.randrange(2**32), noise.choice((1, 2)))
        for _ in range(20):
            start, size = noise.choice(((agent.table_at, 256), (agent.strings_at, 2048), (fake.SEQUENCE, 8), (fake.PHASE, 64),
                                        (fake.LOST, 4096)))
            at = start + noise.randrange(size - 7)
            agent.map[at:at + 8] = noise.randbytes(8)


ATTACKS = (joined, deep, named, colliding, groups, displaced, launches, scribbled)


def ended(capture, noise, seen):
    how = noise.randrange(4)
    if how == 0:
        capture.close()  # without a word
        seen["left"] += 1
        return
    capture.done(steps=noise.choice((0, 3, 2**32 - 1)))
    if how == 1:
        capture.close()
        seen["not waited for"] += 1
        return
    try:
        seen[capture.end()["status"]] += 1
    finally:
        capture.close()


def harm(socket_path, seconds, seed):
    noise, seen, until = random.Random(seed), collections.Counter(), time.monotonic() + seconds
    while time.monotonic() < until:
        attack = noise.choice(ATTACKS)
        try:
            capture = Capture(socket_path, max_bytes=noise.choice((1, 8, 64)) << 20, timeout=20 * 10**9)
            capture.ran(CUPTI)
            seen[attack.__name__] += 1
            attack(capture, noise)
            capture.put(steps(capture.begun))
            ended(capture, noise, seen)
        except (AssertionError, OSError, EOFError, ValueError, struct.error, KeyError) as error:
            seen[type(error).__name__] += 1  # refused, or ended: it tries again
            time.sleep(0.1)
    return seen


def main():
    socket_path, seconds, processes = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    pipes = []
    for seed in range(processes):
        ours, theirs = os.pipe()
        if os.fork() == 0:
            os.write(theirs, json.dumps(harm(socket_path, seconds, seed)).encode())
            os._exit(0)
        os.close(theirs)
        pipes.append(ours)
    seen = collections.Counter()
    for pipe in pipes:
        with os.fdopen(pipe) as lines:
            seen.update(json.loads(lines.read() or "{}"))
        os.wait()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
