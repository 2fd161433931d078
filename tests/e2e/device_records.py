"""Records of the device side, packed as proto/events.def lays them out, for agents in Python."""
import struct

KERNEL, COPY, SET, API_CALL, SYNC, OVERHEAD, DEVICE, SESSION, CUDA_EVENT, ALLOCATION, GRAPH, COUNTER = 16, 17, 18, 19, 20, 24, 25, 15, 29, 21, 31, 23
MASK = 0xffffffff
CLIPPED, ASYNC, DOUBTFUL, TIMELESS, UNFINISHED = 1, 2, 4, 8, 16
RUNTIME, DRIVER = 2, 1


def head(size, kind, step=0, flags=0):
    return struct.pack("<HBBI", size, kind, flags, step)


def kernel(start, duration, correlation, device=0, stream=7, name=0, flags=0, context=1, queued=0):
    return head(144, KERNEL, flags=flags) + struct.pack(
        "<QQQQQIIIIII6iiiIIQIiIIIHBB", start, duration, queued, 0, 0, correlation, device, context, stream, 0, name, 8, 1, 1, 256, 1, 1,
        0, 4096, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0)


def copy(start, duration, correlation, device=0, stream=7, kind=1, source=1, target=3, bytes=4096, flags=0, context=1):
    return head(80, COPY, flags=flags) + struct.pack(
        "<QQQIIIIIIQIIIBBBB", start, duration, 0, correlation, device, context, stream, 0, device, bytes, 0, device, 0, kind, source,
        target, 1)


def memory_set(start, duration, correlation, device=0, stream=7, memory=3, bytes=4096, flags=0, context=1):
    return head(72, SET, flags=flags) + struct.pack("<QQQIIIIIIQBBHI", start, duration, 0, correlation, device, context, stream, 0,
                                                    0, bytes, memory, 1, 0, 0)


def graph(start, duration, correlation, device=0, stream=7, identity=5, flags=0, context=1):
    return head(48, GRAPH, flags=flags) + struct.pack("<QQIIIIII", start, duration, correlation, device, context, stream, identity, 0)


def call(step, start, duration, correlation, name=0, thread=42, domain=RUNTIME, result=0, flags=0):
    return head(48, API_CALL, step, flags) + struct.pack("<QQIIIIiHH", start, duration, correlation, name, thread, 211, result, domain, 0)


def sync(start, duration, correlation, kind=3, context=1, stream=7):
    return head(48, SYNC) + struct.pack("<QQIIIIIHH", start, duration, correlation, context, stream, 0, 0, kind, 0)


def cuda_event(time, correlation, context=1, stream=7):
    return head(40, CUDA_EVENT) + struct.pack("<QIIIIII", time, correlation, context, stream, 1, 0, 0)


def allocation(time, bytes, thread=42):
    return head(80, ALLOCATION) + struct.pack("<QQQQQQIIIIIBBBB", time, 4096, bytes, 0, 0, 0, 0, 0, 1, 7, thread, 1, 1, 3, 0)


def counter(time, value, name, device=MASK, thread=0):
    return head(40, COUNTER) + struct.pack("<QdIIII", time, value, name, 0, device, thread)


def overhead(start, duration):
    return head(40, OVERHEAD) + struct.pack("<QQIIII", start, duration, 0, 1, 0, 0)


def device(identity, name):
    return head(96, DEVICE) + struct.pack("<QQQQ14I", 1, 2, 80 << 30, 0, identity, name, 132, 9, 0, 32, 1024, 2048, 32, 65536, 65536,
                                          49152, 233472, 1980000)


def session(clock_error=800, library=0):
    return head(96, SESSION) + struct.pack("<8QIiIIIi", clock_error, 0, 4 << 20, 0, 0, 0, 1000, 1000, 24, 12040, library, 0, 9, 12040)


def range_of(step, start, duration, own, identity, parent, name, depth, thread, source=1, domain=0, flags=0):
    return head(88, 1, step, flags) + struct.pack("<QQQQQIIHBBIIIQII", start, duration, own, identity, parent, name, thread, depth,
                                                  source, 0, domain, 0, 0, 0, 0, 0)


def operator_of(step, start, duration, own, identity, parent, name, depth, thread, flags=0):
    return head(80, 2, step, flags) + struct.pack("<QQQQQIIHBBIqII", start, duration, own, identity, parent, name, thread, depth, 0, 0,
                                                  0, -1, 1, 0)


def step_of(ordinal, start, duration, collectors=0b10111):
    return head(40, 4, ordinal) + struct.pack("<QQQIHH", start, duration, 100 + ordinal, 42, 2, collectors)
