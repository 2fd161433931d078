#!/usr/bin/env python3
"""from_nsys.py REPORT.sqlite TIMELINE[.gz] - an SQLite export of Nsight Systems as a timeline.

Takes over: push/pop ranges and marks of NVTX (the domain is left out), calls of the CUDA runtime and driver with what
they launched. Several processes become threads of one. There are no steps in such a file. Tables and columns that an
export lacks count as empty. What is left out is counted in the timeline's head."""
import pathlib
import re
import sqlite3
import sys

from timeline import Interval, Operation, convert_command

PUSH_POP, MARK = 59, 34
RUNTIME, DRIVER = 0, 1  # ENUM_NSYS_EVENT_CLASS, of table CUPTI_ACTIVITY_KIND_RUNTIME


def rows(db, table, *columns):
    """Rows of a table as tuples of the columns; None for a column that it has not; nothing without the table."""
    has = {row[1] for row in db.execute(f"pragma table_info({table})")}
    if not has:
        return []
    wanted = ", ".join(f'"{c}"' if c in has else "NULL" for c in columns)
    return db.execute(f"select {wanted} from {table} order by rowid")


def memory_kind(number):
    """nsys counts from 0 with unknown last, CUPTI from 1 with unknown 0."""
    return 0 if number is None or number >= 7 else number + 1


def operations(db, strings):
    """(process, correlation id, Operation) of all."""
    for start, end, d, c, s, correlation, pid, short, long, mangled, *facts, node, graph in rows(
            db, "CUPTI_ACTIVITY_KIND_KERNEL", "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid",
            "shortName", "demangledName", "mangledName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
            "registersPerThread", "staticSharedMemory", "dynamicSharedMemory", "graphNodeId", "graphId"):
        name = strings.get(mangled) or strings.get(long) or strings.get(short)
        more = [("g", f"{graph or 0}/{node}")] if node else []
        yield (pid or 0) >> 24, correlation, Operation("k", start, end, (d, c, s), name, facts, more)
    for start, end, d, c, s, correlation, pid, size, kind, source, target, node, d1, d2 in rows(
            db, "CUPTI_ACTIVITY_KIND_MEMCPY", "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid",
            "bytes", "copyKind", "srcKind", "dstKind", "graphNodeId", "srcDeviceId", "dstDeviceId"):
        more = [("g", f"0/{node}")] if node else []
        if kind == 10 and d1 is not None and d2 is not None:
            more.append(("p", f"{d1}/{d2}"))
        facts = (size, kind, memory_kind(source), memory_kind(target))
        yield (pid or 0) >> 24, correlation, Operation("m", start, end, (d, c, s), None, facts, more)
    for start, end, d, c, s, correlation, pid, size, kind, node in rows(
            db, "CUPTI_ACTIVITY_KIND_MEMSET", "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid",
            "bytes", "memKind", "graphNodeId"):
        more = [("g", f"0/{node}")] if node else []
        yield (pid or 0) >> 24, correlation, Operation("z", start, end, (d, c, s), None, (size, memory_kind(kind)), more)


def convert(path, writer):
    db = sqlite3.connect(f"{pathlib.Path(path).resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    strings = dict(rows(db, "StringIds", "id", "value"))
    for number, name in rows(db, "TARGET_INFO_GPU", "id", "name"):
        writer.devices[number] = name
    names = {tid: strings.get(name, "") for name, tid in rows(db, "ThreadNames", "nameId", "globalTid")}
    calls = {}

    def thread(tid):
        return writer.thread(tid, tid & 0xffffff, names.get(tid, ""))[2]

    for start, end, kind, tid, correlation, name, result in rows(
            db, "CUPTI_ACTIVITY_KIND_RUNTIME", "start", "end", "eventClass", "globalTid", "correlationId", "nameId",
            "returnValue"):
        # From CUDA 13.0 on the launches that the compiler writes are __cudaLaunchKernel.
        plain = re.sub(r"^__|_v\d+$", "", strings[name])
        item = Interval("d" if kind == DRIVER else "c", start, end, plain, correlation, result or 0)
        calls.setdefault((tid >> 24, correlation), []).append((tid, item))
    for process, correlation, operation in operations(db, strings):
        found = calls.get((process, correlation))
        if found:
            found[0][1].operations.append(operation)
        else:
            writer.unlaunched.append(operation)
            writer.leave("calls of operations whose call is not in the report (the operations are carried over)")
    for found in calls.values():
        tid, item = found[0]
        for _, inner in found[1:]:
            writer.leave(f"calls inside of others: {inner.name}")
        if item.kind == "d" and not item.operations:
            writer.leave(f"driver calls that launch nothing: {item.name}")
            continue
        item.operations.sort(key=lambda o: o.start)
        thread(tid).append(item)
    for order, (start, end, kind, tid, text, name, domain) in enumerate(rows(
            db, "NVTX_EVENTS", "start", "end", "eventType", "globalTid", "text", "textId", "domainId")):
        text = text if text is not None else strings.get(name, "")
        if kind == PUSH_POP and end is not None:
            thread(tid).append(Interval("+", start, end, text, order))
        elif kind == MARK:
            thread(tid).append(Interval("i", start, start, text, order))
        else:
            writer.leave(f"NVTX events of type {kind}")
            continue
        if domain:
            writer.leave("domains of NVTX ranges and marks")
    for table in ("SYNCHRONIZATION", "OVERHEAD"):
        writer.leave(f"rows of CUPTI_ACTIVITY_KIND_{table}", sum(1 for _ in rows(db, f"CUPTI_ACTIVITY_KIND_{table}", "start")))
    return writer


if __name__ == "__main__":
    sys.exit(convert_command(sys.argv[1:], __doc__, convert))
