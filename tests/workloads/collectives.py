"""A loop of training whose steps have collective operations of NCCL's, as torch tells of them; nothing is sent.

    collectives.py LIBRARY FOLDER [RANGES]     the library: collectives.cpp; so many ranges are open around them

It leaves in FOLDER what torch.profiler says of one step's operations (trace.json), and then the operations of a step (operations.json)."""
import contextlib
import ctypes
import json
import sys

import torch

library, folder, ranges = ctypes.CDLL(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0
TEXTS, LONG, INTS = ("group", "description", "name"), ("in", "out", "sequence"), ("rank", "size", "start", "stride", "dtype", "single", "splits", "waited")
WIDE = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 8)  # numbers of elements
DTYPES = 47


class Operation(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in TEXTS] + [(name, ctypes.c_int64) for name in LONG] + [(name, ctypes.c_int) for name in INTS]


def operations():
    def one(name, group="0", description="default_pg", size=2, **more):
        made.append({"group": group, "description": description, "name": name, "in": 1000, "out": 1000, "sequence": len(made), "rank": 1,
                     "size": size, "start": 0, "stride": 1, "dtype": 6, "single": 0, "splits": 0, "waited": 0, **more})
    made = []
    one("allreduce")
    one("_allgather_base", "11", "mesh_tp", 100, start=3, stride=2, dtype=15, out=100000, rank=99)
    for size in (1, 29, 30, 31, 32):
        one("_reduce_scatter_base", "12", "mesh_dp", size, start=1000000000, stride=7, rank=0)
    for name in ("send", "recv"):
        one(name, "13", "a description of " + "many letters " * 40, single=1)
    one("wait")
    one("broadcast", "", "", 3, start=-1, stride=-1)
    one("barrier", "one of fifteen", "one of sixteen..", dtype=0, **{"in": 0, "out": 0})
    one("", "gr\u00fc\u00dfe", sequence=(1 << 62) + 1)
    one("all_to_all", **{"in": (1 << (40 if WIDE else 30)) + 1, "out": (1 << (41 if WIDE else 29)) + 1})
    for splits in (1, 2, 29, 30, 31, 1000):
        one("alltoallv", splits=splits, waited=1)
    for dtype in range(DTYPES):
        one("reduce", dtype=dtype)
    return made


OPERATIONS = operations()
made = [Operation(**{key: value.encode() if isinstance(value, str) else value for key, value in one.items()}) for one in OPERATIONS]


def step():
    for one in made:
        library.collective(ctypes.byref(one))


with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
    step()
profiler.export_chrome_trace(folder + "/trace.json")
with open(folder + "/operations.json", "w") as out:
    json.dump(OPERATIONS, out)

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    model(torch.ones(2, 2)).sum().backward()
    with contextlib.ExitStack() as stack:
        for _ in range(ranges):
            stack.enter_context(torch.profiler.record_function("around"))
        step()
        library.others()
    optimizer.step()
