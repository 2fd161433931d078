#!/usr/bin/env python3
"""walk.py LIBRARY records FILE... | sizes | calls: asks a libcupti, real or simulated, without a driver.

records: walks each file, bytes of a buffer, with cuptiActivityGetNextRecord: "file NAME", "OFFSET KIND SIZE" a line, "end CODE".
sizes: how long records of the kinds 0 to 255 are: "KIND SIZE", or "KIND eCODE" where the walk does not know it.
calls: what each function answers where there is no driver: "NAME ANSWER", each in a process of its own.
"""
import ctypes
import os
import resource
import signal
import sys

PROBE_BYTES = 4096
STACK_BYTES = 1 << 20


def step(library, buffer, valid, record):
    return library.cuptiActivityGetNextRecord(ctypes.byref(buffer), ctypes.c_size_t(valid), ctypes.byref(record))


def offsets(library, buffer, valid):
    """([offset of each record], how the walk ended)."""
    record, found = ctypes.c_void_p(), []
    while True:
        answer = step(library, buffer, valid, record)
        if answer:
            return found, answer
        found.append(record.value - ctypes.addressof(buffer))


def walk_file(library, path):
    with open(path, "rb") as file:
        data = file.read()
    buffer = (ctypes.c_uint64 * (len(data) // 8 + 1))()
    ctypes.memmove(buffer, data, len(data))
    found, answer = offsets(library, buffer, len(data))
    print("file", os.path.basename(path))
    for at, after in zip(found, found[1:] + [len(data)]):
        print(at, int.from_bytes(data[at:at + 4], "little"), after - at)
    print("end", answer)


def print_sizes(library):
    for kind in range(256):
        buffer = (ctypes.c_uint64 * (PROBE_BYTES // 8))(*([kind] * (PROBE_BYTES // 8)))
        found, answer = offsets(library, buffer, PROBE_BYTES)
        print(kind, found[1] - found[0] if len(found) > 1 else f"e{answer}")


def answers(library):
    """[(name, what to call)]."""
    ref, callback = ctypes.byref, ctypes.CFUNCTYPE(None)(lambda: None)
    word, byte = ctypes.c_size_t, ctypes.c_uint8
    return [
        ("cuptiGetVersion", lambda f: f(ref(ctypes.c_uint32()))),
        ("cuptiGetTimestamp", lambda f: f(ref(ctypes.c_uint64()))),
        ("cuptiSubscribe", lambda f: f(ref(ctypes.c_void_p()), callback, None)),
        ("cuptiActivityEnable", lambda f: f(10)),
        ("cuptiActivityDisable", lambda f: f(10)),
        ("cuptiActivityEnableAndDump", lambda f: f(8)),
        ("cuptiActivityRegisterCallbacks", lambda f: f(callback, callback)),
        ("cuptiActivityFlushAll", lambda f: f(0)),
        ("cuptiActivityFlush", lambda f: f(None, 0, 0)),
        ("cuptiActivityFlushPeriod", lambda f: f(100)),
        ("cuptiActivityGetNumDroppedRecords", lambda f: f(None, 0, ref(word()))),
        ("cuptiActivityGetAttribute", lambda f: f(0, ref(word(8)), ref(word()))),
        ("cuptiActivitySetAttribute", lambda f: f(5, ref(word(1)), ref(byte(1)))),
        ("cuptiGetThreadIdType", lambda f: f(ref(ctypes.c_int()))),
        ("cuptiSetThreadIdType", lambda f: f(1)),
        ("cuptiActivityPushExternalCorrelationId", lambda f: f(3, ctypes.c_uint64(5))),
        ("cuptiActivityPopExternalCorrelationId", lambda f: f(3, None)),
        ("cuptiGetResultString", lambda f: f(15, ref(ctypes.c_char_p()))),
        ("cuptiGetLastError", lambda f: f()),
        ("cuptiGetCallbackName", lambda f: name_of(f, 1, 307) + name_of(f, 2, 211) + name_of(f, 2, 99999)),
        ("cuptiSupportedDomains", lambda f: f(ref(word()), ref(ctypes.c_void_p()))),
        ("cuptiFinalize", lambda f: f()),
        ("cuptiActivityEnableLatencyTimestamps", lambda f: f(0)),
        ("cuptiActivityEnableLaunchAttributes", lambda f: f(0)),
        ("cuptiActivityRegisterTimestampCallback", lambda f: f(None)),
        ("cuptiUnsubscribe", lambda f: f(None)),
        ("cuptiActivityEnableRuntimeApi", lambda f: f(20, 0)),
        ("cuptiActivityEnableDriverApi", lambda f: f(20, 0)),
        ("cuptiActivityGetStructSize", lambda f: f(10, 0, ref(word()))),
        ("cuptiIsTracingSessionRunning", lambda f: f(ref(byte()))),
        ("cuptiActivityGetEnabledKinds", lambda f: f(None, None, None, ref(ctypes.c_uint32()))),
        ("cuptiActivityGetNextRecord", lambda f: f(None, word(0), ref(ctypes.c_void_p()))),
    ]


def name_of(function, domain, cbid):
    text = ctypes.c_char_p()
    return f"[{function(domain, cbid, ctypes.byref(text))} {text.value and text.value.decode()}]"


def print_calls(library):
    for name, call in answers(library):
        if not hasattr(library, name):
            print(name, "absent")
            continue
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, STACK_BYTES))  # 13.2 overflows it: be quick
            os.write(writing, str(call(getattr(library, name))).encode())
            os._exit(0)
        os.close(writing)
        status = os.waitpid(child, 0)[1]
        text = os.read(reading, 1000).decode()
        os.close(reading)
        print(name, f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else text)


def main():
    library = ctypes.CDLL(sys.argv[1])
    if sys.argv[2] == "records":
        for path in sys.argv[3:]:
            walk_file(library, path)
    elif sys.argv[2] == "sizes":
        print_sizes(library)
    else:
        print_calls(library)


if __name__ == "__main__":
    main()
