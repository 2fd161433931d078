"""Starts threads that stand still in known places, and prints what Python itself says of their stacks: one line of JSON,
{native id: [[name, line], ...]}, the innermost first. Then it waits for the end of its input."""
import json
import sys
import threading
import time

ready = threading.Barrier(8)


def rest():
    ready.wait()
    time.sleep(1000)


def deep(n):
    if n:
        deep(n - 1)
    else:
        rest()


class Model:
    def forward(self, x):
        return [self.inner(y) for y in x]

    def inner(self, y):
        (lambda: rest())()

    @staticmethod
    def löss():
        rest()


def generator():
    yield 1
    rest()


def long_lines():
    values = {
        "a": 1,
        "b": [
            2,
            rest(),
        ],
    }
    return values


def many_lines(x):
    # A gap of more than 127 lines, which tables of lines write otherwise.
























































































































































    try:
        raise ValueError(x)
    except ValueError:
        with threading.Lock():
            rest()


exec("def " + "n" * 600 + "():\n    rest()\nhuge = " + "n" * 600)

targets = [lambda: deep(200), lambda: Model().forward([1]), Model.löss, lambda: list(generator()), long_lines,
           lambda: many_lines(1), huge]  # noqa: F821
threads = [threading.Thread(target=target, daemon=True, name=f"worker {i}") for i, target in enumerate(targets)]
for thread in threads:
    thread.start()
ready.wait()


def stack(thread):
    rows, frame = [], sys._current_frames()[thread.ident]
    while frame:
        code = frame.f_code
        rows.append([getattr(code, "co_qualname", code.co_name), frame.f_lineno])
        frame = frame.f_back
    return rows


# Until each of them sleeps: the last bytecode of rest() is the call.
asleep = rest.__code__.co_firstlineno + 2
while not all(stack(t)[0] == ["rest", asleep] for t in threads):
    time.sleep(0.01)
print(json.dumps({t.native_id: stack(t) for t in threads}), flush=True)
sys.stdin.read()
