#!/usr/bin/env python3
"""Twenty programs that stand still, each with other stacks: `standing.py NAME` prints "ready" once it stands, and ends with its input. Without a name
it lists them."""
import asyncio
import concurrent.futures
import contextlib
import ctypes
import functools
import queue
import re
import socket
import sys
import threading
import time

TURN = threading.local()


def stand():
    print("ready", flush=True)
    sys.stdin.read()


def recursion(depth=200):
    if not depth:
        return stand()
    return recursion(depth - 1)


def mutual(depth=40):
    def even(n):
        return stand() if not n else odd(n - 1)

    def odd(n):
        return even(n - 1)
    even(depth)


def generator():
    def inner():
        yield 1
        stand()

    def outer():
        yield from inner()
    for _ in outer():
        pass


def comprehension():
    return [[stand() for _ in range(1)] for _ in range(1)]


def generator_expression():
    return sum(stand() or 0 for _ in range(1))


def coroutines():
    async def innermost():
        stand()

    async def middle():
        await innermost()

    async def first():
        await asyncio.gather(middle())
    asyncio.run(first())


def async_generator():
    async def source():
        stand()
        yield 1

    async def first():
        async for _ in source():
            pass
    asyncio.run(first())


class Shape:
    @property
    def area(self):
        return self.compute()

    @classmethod
    def make(cls):
        return cls().area

    @staticmethod
    def helper():
        stand()

    def compute(self):
        return self.helper()


def methods():
    Shape.make()


def decorated():
    def twice(function):
        @functools.wraps(function)
        def wrapper(*arguments, **named):
            return function(*arguments, **named)
        return wrapper

    @twice
    @twice
    def work():
        stand()
    work()


def c_calls_python():
    return sorted([2, 1], key=lambda n: stand() if n == 2 else n)


def through_re():
    return re.sub("x", lambda match: stand() or "", "axb")


def through_ctypes():
    called = ctypes.CFUNCTYPE(None)(stand)
    called()


def exec_of_text():
    exec(compile("def made(f):\n    # a comment\n\n    f(\n    )\nmade(stand)\n", "<made up>", "exec"), {"stand": stand})


def special_methods():
    class Odd:
        def __getattr__(self, name):
            return stand()

        def __lt__(self, other):
            return self.missing
    return Odd() < 1


def context_managers():
    @contextlib.contextmanager
    def held():
        try:
            yield
        finally:
            stand()
    with held():
        pass


def handled():
    try:
        raise ValueError
    except ValueError:
        try:
            raise KeyError
        except KeyError:
            stand()


def threads():
    event = threading.Event()
    lock = threading.Lock()
    lock.acquire()
    for target in (event.wait, lock.acquire, lambda: time.sleep(1000), queue.Queue().get):
        threading.Thread(target=target, daemon=True).start()
    time.sleep(0.3)
    stand()


def pool():
    with concurrent.futures.ThreadPoolExecutor(4) as workers:
        list(workers.map(lambda n: n, range(8)))
        time.sleep(0.3)
        stand()


def server():
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=listening.accept, daemon=True).start()
    time.sleep(0.3)
    stand()


def größe():
    class Ümlaut:
        def übung(self):
            stand()
    (lambda: Ümlaut().übung(
    ))()


PROGRAMS = {function.__name__: function for function in (
    recursion, mutual, generator, comprehension, generator_expression, coroutines, async_generator, methods, decorated, c_calls_python,
    through_re, through_ctypes, exec_of_text, special_methods, context_managers, handled, threads, pool, server, größe)}

if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAMS[sys.argv[1]]()
    else:
        print("\n".join(PROGRAMS))
