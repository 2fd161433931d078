#!/usr/bin/env python3
"""slow_files.py FOLDER FILE - mounts a file system (FUSE, without its library) at FOLDER that has a copy of FILE, and says "ready". From a line on
standard input on it takes requests and answers none, as a server does that is away: who asks then waits, and no signal ends the wait."""
import ctypes
import os
import select
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 15, 18, 26, 36, 42
ROOT, FILE = 1, 2
ENOENT, ENOSYS = 2, 38
FOR_ALWAYS = 3600


def attributes(node, size):
    mode = 0o40755 if node == ROOT else 0o100755
    return struct.pack("<6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, node, body, name, content):
    """The bytes, or a negative errno; None: such a request has no answer."""
    if opcode == INIT:
        return struct.pack("<4I2H2I2H2I6I", 7, 31, 65536, 0, 16, 12, 65536, 1, 16, 0, 0, 0, *[0] * 6)
    if opcode == LOOKUP:
        # Names are not kept: who comes later asks again.
        return struct.pack("<4Q2I", FILE, 0, 0, FOR_ALWAYS, 0, 0) + attributes(FILE, len(content)) if body.rstrip(b"\0") == name else -ENOENT
    if opcode == GETATTR:
        return struct.pack("<Q2I", FOR_ALWAYS, 0, 0) + attributes(node, len(content))
    if opcode == OPEN:
        return struct.pack("<Q2I", 0, 0, 0)
    if opcode == READ:
        _, offset, size = struct.unpack_from("<2QI", body)
        return content[offset:offset + size]
    if opcode == RELEASE:
        return b""
    return None if opcode in (FORGET, INTERRUPT, BATCH_FORGET) else -ENOSYS


def serve(device, name, content):
    is_away = False
    while True:
        ready, _, _ = select.select([device] + [sys.stdin] * (not is_away), [], [])
        if sys.stdin in ready:
            is_away = True
            sys.stdin.readline()
            print("away", flush=True)
        if device not in ready:
            continue
        request = os.read(device, 1 << 17)
        length, opcode, unique, node = struct.unpack_from("<2I2Q", request)
        said = answer(opcode, node, request[40:length], name, content)
        if said is None or is_away:
            continue
        error, more = (said, b"") if isinstance(said, int) else (0, said)
        os.write(device, struct.pack("<IiQ", 16 + len(more), error, unique) + more)


def main(folder, file):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(file, "rb") as source:
        content = source.read()
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        sys.exit(f"no FUSE here: {error}")
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    if libc.mount(b"slow_files", folder.encode(), b"fuse", 0, options.encode()):
        sys.exit(f"no FUSE here: {os.strerror(ctypes.get_errno())}")
    print("ready", flush=True)
    serve(device, os.path.basename(file).encode(), content)


if __name__ == "__main__":
    main(*sys.argv[1:])
