"""Run by test_python_frames.py with each CPython: the frames of the calling thread as the agent reads them, beside what Python says of them, in the
middle of all that makes frames come and go."""
import asyncio
import ctypes
import gc
import signal
import sys
import threading
import traceback
import weakref

try:
    import greenlet
except ImportError:
    greenlet = None

MOST = 512
library = ctypes.CDLL(sys.argv[1])
MINOR = sys.version_info[1]
looks = cut = 0
wrong = []  # what a finalizer raises is dropped


def look():
    global looks, cut
    codes, instructions = (ctypes.c_uint64 * MOST)(), (ctypes.c_int64 * MOST)()
    count = library.frames_look(codes, instructions)
    found = [(codes[i], max(instructions[i], -1)) for i in range(max(count, 0))]
    frame, told = sys._getframe(), []
    while frame and len(told) < MOST:
        told.append((id(frame.f_code), frame.f_lasti))
        frame = frame.f_back
    looks += 1
    cut += len(told) == MOST
    # The innermost one has gone on meanwhile.
    same = found[0][0] == told[0][0] and found[1:] == told[1:] if count > 0 else False
    if not same:
        wrong.append((count, len(told), found[:5], told[:5], [line.name for line in traceback.extract_stack(limit=5)]))
    return looks


class Held:
    """Looks when it is dropped."""
    def __del__(self):
        look()


def plain():
    look()
    sorted(range(5), key=lambda _: look())
    exec("look()", globals())

    class Body:
        look()


def kept(held):
    other = held
    del held
    look()
    return other is not None


def unwound(n):
    held = Held()
    if n:
        return unwound(n - 1), held
    raise ValueError(n)


def drops():
    kept(Held())
    for n in (0, 1, 5, 60):
        try:
            unwound(n)
        except ValueError as error:
            caught = error
            look()
        caught.__traceback__.tb_frame
        del caught
    [Held() for _ in range(3)]


def one(n):
    held = Held()
    try:
        for i in range(n):
            look()
            yield i
    finally:
        look()


def through(n):
    held = Held()
    yield from one(n)
    look()


def generators():
    list(through(3))
    for ends in ("close", "throw", "drop"):
        first, second = one(9), through(9)
        for generator in (first, second):
            next(generator)
            next(generator)
            if ends == "close":
                generator.close()
            if ends == "throw":
                try:
                    generator.throw(KeyError())
                except KeyError:
                    look()
        del first, second, generator
    sum(x for x in one(4))


async def waits(n):
    held = Held()
    look()
    await asyncio.sleep(0)
    look()
    if n:
        await asyncio.gather(waits(n - 1), waits(n - 1))
    async for _ in counts(2):
        look()


async def counts(n):
    for i in range(n):
        look()
        yield i
        await asyncio.sleep(0)


def coroutines():
    asyncio.run(waits(3))


def down(n):
    if n:
        down(n - 1)
    if n % 7 == 0:
        look()


def deep():
    """Over the borders of the chunks in which frames lie, and beyond what is read."""
    for n in (40, 130, 250, 700):
        down(n)


def made():
    for i in range(60):
        space = {"look": look}
        exec(compile(f"def made_{i % 5}(x):\n" + "\n" * (i % 40) + "    look()\n    return x", f"<made {i}>", "exec"), space)
        space[f"made_{i % 5}"](1)
        del space
        if i % 20 == 0:
            gc.collect()


def cycles():
    class Ring:
        def __del__(self):
            look()
    for _ in range(30):
        ring = Ring()
        ring.own = ring
        weakref.finalize(ring, look)
        del ring
        [[] for _ in range(800)]
    gc.collect()


def traced():
    def trace(*_):
        look()
        return trace
    for put in (sys.settrace, sys.setprofile):
        put(trace)
        list(one(2))
        kept(1)
        put(None)


def signals():
    old = signal.signal(signal.SIGALRM, lambda *_: look())
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    at = looks
    while looks < at + 10:
        sum(range(2000))
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, old)


def aside():
    for _ in range(20):
        kept(1)
        list(through(2))
    # Memory that the stack before lay in is there no more.
    deep()
    made()


def threads():
    """One at a time, as they share what they read into."""
    for _ in range(4):
        thread = threading.Thread(target=aside)
        thread.start()
        thread.join()


def watched():
    """While another thread looks at these frames, as a debugger does."""
    ends, main = threading.Event(), threading.main_thread().ident

    def watch():
        while not ends.is_set():
            frame = sys._current_frames()[main]
            while frame:
                frame.f_locals, frame.f_lineno
                frame = frame.f_back
            gc.collect(0)
    thread = threading.Thread(target=watch)
    thread.start()
    for _ in range(5):
        down(60)
        drops()
        list(through(2))
    ends.set()
    thread.join()


def greenlets():
    """Each has frames and a part of the C stack of its own."""
    def other(n):
        held = Held()
        down(n)
        greenlet.getcurrent().parent.switch()
        list(through(2))
        if n:
            greenlet.greenlet(other).switch(n // 2)
        look()
    for n in (0, 7, 140):
        some = [greenlet.greenlet(other) for _ in range(3)]
        for one in some + some:
            one.switch(n)
            look()
        del some, one
        gc.collect()


def gil():
    """Where the GIL is held with a state, 3.9 does not say by which thread."""
    assert library.frames_still() == 1
    assert ctypes.PyDLL(sys.argv[1]).frames_still() == (MINOR != 9)


def main():
    assert library.frames_open() == 0
    gil()
    for turn in range(3):
        for part in (plain, drops, generators, coroutines, deep, made, cycles, traced, signals, threads, watched,
                     *([greenlets] if greenlet else [])):
            part()
            gc.collect()
            assert not wrong, (part.__name__, wrong[0], len(wrong))
    assert cut > 10 and looks > 2000, (cut, looks)
    print(looks, "looks, greenlets among them" if greenlet else "looks")


main()
