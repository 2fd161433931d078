#!/usr/bin/env python3
"""from_kineto.py TRACE.json[.gz] TIMELINE[.gz] - a trace of torch.profiler (Kineto's Chrome JSON) as a timeline.

Takes over: operators and user annotations of host threads, calls of the CUDA runtime and driver with what they
launched, and ProfilerStep#N as steps. The category names of 2021 (Operator, Runtime, Kernel, Memcpy, Memset) are
understood as well as today's. What is left out is counted in the timeline's head."""
import collections
import decimal
import json
import re
import sys

from timeline import COPY_KINDS, MEMORY_KINDS, Interval, Operation, convert_command, open_text

CATEGORIES = {"cpu_op": "o", "operator": "o", "user_annotation": "+", "cuda_runtime": "c", "runtime": "c", "cuda_driver": "d",
              "kernel": "k", "gpu_memcpy": "m", "memcpy": "m", "gpu_memset": "z", "memset": "z"}


def ns(microseconds):
    return int((decimal.Decimal(microseconds) * 1000).to_integral_value())


def operation(event, kind, start, end):
    a = event["args"]
    stream = (int(a["device"]), int(a["context"]), int(a["stream"]))
    name, facts, more = event["name"], (), []
    if kind == "k":
        # Kineto adds up static and dynamic shared memory.
        facts = (*a["grid"], *a["block"], a["registers per thread"], 0, a["shared memory"])
        if a.get("queued"):
            more.append(("q", ns(a["queued"])))
    else:
        words = re.match(r"(?:Memcpy|Memset) ?(\w*) \((.*?)(?: -> (.*?))?\)$", name)
        if kind == "m":
            facts = (int(a["bytes"]), COPY_KINDS[words.group(1)], MEMORY_KINDS[words.group(2)], MEMORY_KINDS[words.group(3)])
        else:
            facts = (int(a["bytes"]), MEMORY_KINDS[words.group(2)])
    if a.get("graph node id"):
        more.append(("g", f"{a.get('graph id', 0)}/{a['graph node id']}"))
    if "fromDevice" in a and "toDevice" in a:
        more.append(("p", f"{a['fromDevice']}/{a['toDevice']}"))
    return Operation(kind, start, end, stream, name, facts, more)


def convert(path, writer):
    with open_text(path) as file:
        trace = json.load(file, parse_float=decimal.Decimal, strict=False)
    for device in trace.get("deviceProperties", []):
        writer.devices[device["id"]] = device["name"]
    names, calls, operations, steps = {}, {}, [], []
    for order, event in enumerate(trace["traceEvents"]):
        category = str(event.get("cat", ""))
        kind = CATEGORIES.get(category.lower()) if event.get("ph") == "X" else None
        if event.get("ph") == "M" and event.get("name") == "thread_name":
            names[(str(event["pid"]), str(event["tid"]))] = event["args"]["name"]
        if kind is None:
            if event.get("ph") != "M":
                writer.leave(f"events {event.get('ph')} {category or event.get('name')}")
            continue
        start = ns(event["ts"])
        end = start + ns(event["dur"])
        if kind in "kmz":
            operations.append((event["args"]["correlation"], operation(event, kind, start, end)))
            continue
        key = (str(event["pid"]), str(event["tid"]))
        item = Interval(kind, start, end, event["name"], order)
        if kind in "cd":
            # From CUDA 13.0 on the launches that the compiler writes are __cudaLaunchKernel.
            item.name = re.sub("^__", "", item.name)
            # Of calls that seem to begin together the correlation id tells the order.
            item.order = event["args"]["correlation"]
            calls.setdefault(event["args"]["correlation"], []).append((key, item))
        else:
            writer.thread(key, key[1])[2].append(item)
        step = re.match(r"ProfilerStep\s*#(\d+)$", event["name"])
        if step and kind in "+o":
            steps.append((key, (start, end, int(step.group(1)), event["name"])))
    for correlation, found in operations:
        if correlation in calls:
            # A driver call inside of a runtime call has its correlation id; the runtime's is the one that is kept.
            calls[correlation][0][1].operations.append(found)
        else:
            writer.unlaunched.append(found)
            writer.leave("calls of operations whose call is not in the trace (the operations are carried over)")
    for correlation, found in calls.items():
        for key, item in found[1:]:
            writer.leave(f"calls inside of others: {item.name}")
        key, item = found[0]
        if item.kind == "d" and not item.operations:
            writer.leave(f"driver calls that launch nothing: {item.name}")
        elif item.name == "INVALID":
            writer.leave("calls whose name the trace does not know")
        else:
            item.operations.sort(key=lambda o: o.start)
            writer.thread(key, key[1])[2].append(item)
    for key, thread in writer.threads.items():
        thread[1] = names.get(key, "")
    steppers = collections.Counter(key for key, _ in steps)
    if steppers:
        key = steppers.most_common(1)[0][0]
        writer.steps(key, [step for k, step in steps if k == key])
    return writer


if __name__ == "__main__":
    sys.exit(convert_command(sys.argv[1:], __doc__, convert))
