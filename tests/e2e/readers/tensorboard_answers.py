"""Runs in a Python that has TensorBoard's plugin torch_tb_profiler: tensorboard_answers.py TRACE... prints for each what the plugin reckons
from it, without its web pages: steps by its priorities, operators, kernels, memory. Of Kineto's own files the words are put into those that the
plugin knows, and times are counted from the first: it keeps them as doubles, which have no more digits for today's dates."""
import decimal
import gzip
import json
import logging
import sys

logging.disable(logging.CRITICAL)

from torch_tb_profiler.profiler.data import RunProfileData  # noqa: E402
from torch_tb_profiler.profiler.event_parser import ProfileRole  # noqa: E402
from torch_tb_profiler.profiler.module_op import aggegate_module_view  # noqa: E402

WORDS = {"cuda_runtime": "Runtime", "cuda_driver": "Runtime"}


def load(path):
    opened = gzip.open(path, "rt", encoding="utf-8", errors="replace") if str(path).endswith(".gz") else open(path, encoding="utf-8")
    with opened as file:
        trace = json.load(file, parse_float=decimal.Decimal)
    trace = {"schemaVersion": 1, "traceEvents": trace} if isinstance(trace, list) else trace
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e.get("name") != "Record Window End" and e.get("ph") in ("X", "i", "M", "s", "f")]
    first = min(decimal.Decimal(e["ts"]) for e in trace["traceEvents"] if e["ph"] == "X" and e.get("cat") != "Trace")
    for event in trace["traceEvents"]:
        event["cat"] = WORDS.get(event.get("cat"), event.get("cat", ""))
        if "ts" in event:
            event["ts"] = float(decimal.Decimal(event["ts"]) - first)
        if "dur" in event:
            event["dur"] = float(event["dur"])
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e["ph"] != "X" or e["cat"] != "Trace"]
    return json.loads(json.dumps(trace, default=float))


def modules(rows):
    return [{"name": row.name, "id": row.id, "calls": row.occurences, "operators": row.operators, "host_us": row.host_duration,
             "self_host_us": row.self_host_duration, "device_us": row.device_duration, "children": modules(row.children)} for row in rows or []]


def answers(path):
    run = RunProfileData.from_json("worker", "1", load(path))
    roles = [role.name for role in ProfileRole]
    return {
        "steps": {str(name): dict(zip(roles, costs.costs)) for name, costs in zip(run.steps_names, run.steps_costs)},
        "operators": {op.name: [op.calls, op.host_duration, op.device_duration] for op in run.op_list_groupby_name or []},
        "kernels": {} if run.kernel_stat is None else {str(name): [int(row["count"]), float(row["sum"])]
                                                       for name, row in run.kernel_stat.iterrows()},
        # As its Kernel view has them: of a multiprocessor, means by time; the last by name.
        "launches": {} if run.kernel_stat is None else {str(name): [float(row["blocks_per_sm"]), float(row["occupancy"]), bool(row["tc_used"])]
                                                        for name, row in run.kernel_stat.iterrows()},
        "devices": run.used_devices,
        # As its Module view has them.
        "modules": modules(aggegate_module_view(run.tid2tree, run.events)),
        # Of each device: an operator's growth, bytes and blocks taken, itself and with what it calls, and its calls.
        "memory": run.memory_snapshot.get_memory_statistics(run.tid2tree) if run.memory_snapshot else {},
    }


print(json.dumps([answers(path) for path in sys.argv[1:]]))
