#!/usr/bin/env python3
"""torch_job.py PART PROFD STORE [--model M] [--device D] [--folder F] [--rounds N] - a training loop that captures itself.

Under `profd run`. PROFD is the client, STORE the daemon's folder, M one of cnn, transformer, lstm, streams (copies and a second
branch on streams of their own), graph (a CUDA graph of the whole step, captured before any profiler), compiled (by torch.compile). Every step ends with a
synchronisation, so that what runs in a step was launched in it. --device cpu runs all of it without a GPU: a rehearsal.

    windows     windows of STEPS steps, by torch.profiler and by profd in turns
    neighbours  torch.profiler before a capture, during one, and after; all windows of the same steps
    cost        step times before, during and after each of N captures, memory of device and host, what switching took
    traces      windows of torch.profiler alone, into FOLDER/MODEL.json
Prints JSON. A window is {"kernels": {NAME: n}, "streams": {STREAM: {NAME: n}}, "copies": {KIND: [n, bytes]}, "sets": [n, bytes],
"operators": {OPERATOR: {KERNEL: n}}, "device_ns": {NAME: ns}, "calls": {NAME: n}} (of the runtime's API); names of kernels are demangled."""
import argparse
import collections
import ctypes
import json
import os
import pathlib
import re
import sqlite3
import statistics
import subprocess
import sys
import time

import torch
from torch.nn import functional

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "replay"), str(TESTS / "workloads")]
import train  # noqa: E402
import truth  # noqa: E402

STEPS, BATCH = 3, 64
COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}


class Branches(torch.nn.Module):
    """Two branches, the second on a stream of its own where there are streams."""

    def __init__(self, cuda):
        super().__init__()
        self.left, self.right = torch.nn.Linear(256, 10), torch.nn.Sequential(torch.nn.Linear(256, 64), torch.nn.GELU(),
                                                                              torch.nn.Linear(64, 10))
        self.stream = torch.cuda.Stream() if cuda else None

    def forward(self, x):
        if not self.stream:
            return self.left(x) + self.right(x)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            other = self.right(x)
        mine = self.left(x)
        torch.cuda.current_stream().wait_stream(self.stream)
        return mine + other


class Loop:
    """step() is one training step on batches that come from the host."""

    def __init__(self, model, device):
        self.cuda = device != "cpu"
        torch.manual_seed(1)
        make, shape = {**train.MODELS, "streams": (lambda: Branches(self.cuda), (256,)), "graph": train.MODELS["transformer"],
                       "compiled": train.MODELS["transformer"]}[model]
        self.device = device
        self.model = make().to(device)
        if model == "compiled":
            self.model = torch.compile(self.model)
        self.host_x, self.host_y = torch.randn(BATCH, *shape), torch.randint(0, 10, (BATCH,))
        if self.cuda:
            self.host_x, self.host_y = self.host_x.pin_memory(), self.host_y.pin_memory()
        self.copying = torch.cuda.Stream() if self.cuda and model == "streams" else None
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, capturable=self.cuda and model == "graph")
        self.tell = ctypes.CDLL(None).profd_step if model == "graph" and os.environ.get("LD_PRELOAD") else lambda: None
        self.done = 0
        self.graph = None
        for _ in range(5):
            self.step()
        if model == "graph" and self.cuda:
            self.capture_graph()

    def batch(self):
        if not self.copying:
            return self.host_x.to(self.device, non_blocking=True), self.host_y.to(self.device, non_blocking=True)
        with torch.cuda.stream(self.copying):
            x, y = self.host_x.to(self.device, non_blocking=True), self.host_y.to(self.device, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.copying)
        x.record_stream(torch.cuda.current_stream())
        y.record_stream(torch.cuda.current_stream())
        return x, y

    def train(self, x, y):
        self.optimizer.zero_grad(set_to_none=not self.graph)
        loss = functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()

    def capture_graph(self):
        self.x, self.y = self.batch()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.train(self.x, self.y)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            functional.cross_entropy(self.model(self.x), self.y).backward()
            self.optimizer.step()
        torch.cuda.synchronize()
        self.graph = graph

    def step(self):
        if self.graph:
            self.x.copy_(self.host_x, non_blocking=True)
            self.graph.replay()
        else:
            self.train(*self.batch())
        if self.cuda:
            torch.cuda.synchronize()
        self.tell()
        self.done += 1


# ---------------------------------------------------------------- names of kernels, as libstdc++ reads them

def demangler():
    library = ctypes.CDLL("libstdc++.so.6")
    library.__cxa_demangle.restype = ctypes.c_void_p
    free, known = ctypes.CDLL(None).free, {}
    free.argtypes = [ctypes.c_void_p]

    def demangle(name):
        if name not in known:
            status = ctypes.c_int()
            text = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status)) if name.startswith("_Z") else None
            known[name] = ctypes.string_at(text).decode(errors="replace") if text else name
            free(text)
        return known[name]
    return demangle


demangle = demangler()


# ---------------------------------------------------------------- windows

def window():
    nested = lambda: collections.defaultdict(collections.Counter)  # noqa: E731
    return {"kernels": collections.Counter(), "streams": nested(), "copies": {}, "sets": [0, 0], "operators": nested(),
            "device_ns": collections.Counter(), "calls": collections.Counter()}


def add_copy(into, kind, count, size):
    there = into["copies"].setdefault(kind, [0, 0])
    there[0] += count
    there[1] += size


def innermost(ranges, calls):
    """{id of a call: name of the smallest range that held its begin}; both of one thread."""
    ranges = sorted((r for r in ranges if not r.name.startswith("ProfilerStep#")), key=lambda r: (r.start, -r.end, r.order))
    found, open_now, at = {}, [], 0
    for call in sorted(calls, key=lambda c: c.start):
        while at < len(ranges) and ranges[at].start <= call.start:
            open_now.append(ranges[at])
            at += 1
        open_now = [r for r in open_now if r.end > call.start]
        found[id(call)] = max(open_now, key=lambda r: (r.start, -r.end, r.order)).name if open_now else ""
    return found


def read_trace(path):
    """A window out of what torch.profiler wrote."""
    recording, into = truth.read_kineto(path), window()
    by_thread = collections.defaultdict(list)
    for operation in recording.operations:
        if operation.call and operation.kind == "kernel":
            by_thread[operation.call.thread].append(operation.call)
    operators = {}
    for thread, calls in by_thread.items():
        operators.update(innermost(recording.ranges[thread], calls))
    for operation in recording.operations:
        if operation.kind == "kernel":
            name = demangle(operation.key)
            into["kernels"][name] += 1
            into["streams"][str(operation.stream)][name] += 1
            into["device_ns"][name] += operation.end - operation.start
            if operation.call:
                into["operators"][operators[id(operation.call)]][name] += 1
        elif operation.kind == "copy":
            add_copy(into, operation.key.split(" ")[0], 1, operation.bytes)
        else:
            into["sets"] = [into["sets"][0] + 1, into["sets"][1] + operation.bytes]
    for call in recording.calls:
        if not call.driver:
            into["calls"][re.sub(r"_v\d+$", "", call.name)] += 1
    return into


def read_capture(path):
    """A window out of a capture's file."""
    into = window()
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    owner = ("coalesce((SELECT s.text FROM operators o JOIN strings s ON s.id = o.name WHERE o.id = k.range), "
             "(SELECT s.text FROM ranges r JOIN strings s ON s.id = r.name WHERE r.id = k.range), '')")
    for mangled, stream, operator, count, ns in db.execute(
            f"SELECT s.text, k.stream, {owner} AS owner, count(*), sum(k.duration) FROM kernels k JOIN strings s ON s.id = k.mangled "
            "WHERE k.step IS NOT NULL GROUP BY 1, 2, 3"):
        name = demangle(mangled)
        into["kernels"][name] += count
        into["streams"][str(stream)][name] += count
        into["operators"][operator][name] += count
        into["device_ns"][name] += ns
    for kind, count, size in db.execute("SELECT kind, count(*), sum(bytes) FROM copies WHERE step IS NOT NULL GROUP BY 1"):
        add_copy(into, COPY_KINDS.get(kind, str(kind)), count, size)
    into["sets"] = list(db.execute("SELECT count(*), coalesce(sum(bytes), 0) FROM sets WHERE step IS NOT NULL").fetchone())
    for name, count in db.execute("SELECT s.text, count(*) FROM api_calls a JOIN strings s ON s.id = a.name "
                                  "WHERE a.domain = 2 GROUP BY 1"):
        into["calls"][name] += count
    # What the capture's own names are beside those of libstdc++.
    into["misread"] = [[name, demangle(mangled)] for mangled, name in db.execute(
        "SELECT DISTINCT m.text, n.text FROM kernel_names k JOIN strings m ON m.id = k.mangled JOIN strings n ON n.id = k.name")
        if demangle(mangled) != name]
    return into


class Client:
    """profd, called by the job itself."""

    def __init__(self, options, loop):
        self.options, self.loop = options, loop
        self.environment = {k: v for k, v in os.environ.items()
                            if k not in ("LD_PRELOAD", "NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH")}

    def call(self, *arguments, working=False, each=lambda: None):
        child = subprocess.Popen([self.options.profd, *map(str, arguments), "--format", "json"], env=self.environment,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        while working and child.poll() is None:
            self.loop.step()
            each()
        out = child.communicate()[0]
        try:
            return json.loads(out)
        except ValueError:
            sys.exit(f"profd {arguments}: {child.returncode}")

    def wait_registered(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            self.loop.step()
            rows = self.call("ps").get("processes", [])
            if any(row["pid"] == os.getpid() and row["step"] > 2 for row in rows):
                return
        sys.exit("the agent did not register, or counts no steps")

    def capture(self, steps=STEPS, each=lambda: None):
        """The capture's row, its file, and what `profd show` says; meanwhile each() after each step."""
        row = self.call("trigger", "--pid", os.getpid(), "--steps", steps, working=True, each=each)["captures"][0]
        path = pathlib.Path(self.options.store) / "captures" / (row["capture_id"].lstrip("u") + ".db")
        return row, path, self.call("show", row["capture_id"])

    def window(self):
        row, path, shown = self.capture()
        into = read_capture(path)
        into["state"] = {"status": row["status"], "lost": row["lost"], "steps": row["steps_recorded"],
                         "collectors": {c["collector"]: [c["on"], c["sentence"]] for c in shown["collectors"]}}
        return into


def activities(loop):
    wanted = [torch.profiler.ProfilerActivity.CPU]
    return wanted + [torch.profiler.ProfilerActivity.CUDA] if loop.cuda else wanted


def torch_trace(loop, path):
    for _ in range(3):
        loop.step()
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=STEPS, repeat=1)
    with torch.profiler.profile(activities=activities(loop), schedule=schedule,
                                on_trace_ready=lambda p: p.export_chrome_trace(str(path))) as profiler:
        for _ in range(STEPS + 1):
            loop.step()
            profiler.step()


def torch_window(loop, folder):
    path = pathlib.Path(folder) / "window.json"
    torch_trace(loop, path)
    return read_trace(path)


# ---------------------------------------------------------------- parts

def part_windows(options):
    loop = Loop(options.model, options.device)
    client = Client(options, loop)
    client.wait_registered()
    said = {"torch": [], "profd": []}
    for _ in range(options.rounds or 2):
        said["torch"].append(torch_window(loop, options.folder))
        said["profd"].append(client.window())
    return said


def part_neighbours(options):
    """"during": profd is asked while torch.profiler records; how many steps that takes is counted, and told as "steps"."""
    loop = Loop(options.model, options.device)
    client = Client(options, loop)
    client.wait_registered()
    said = {"before": torch_window(loop, options.folder), "first": client.window()}
    path = pathlib.Path(options.folder) / "during.json"
    profiler = torch.profiler.profile(activities=activities(loop))
    profiler.start()
    begun = loop.done
    loop.step()
    said["held"] = client.window()
    loop.step()
    steps = loop.done - begun
    profiler.stop()
    profiler.export_chrome_trace(str(path))
    said["during"], said["steps"] = read_trace(path), steps
    said["after"], said["again"] = torch_window(loop, options.folder), client.window()
    return said


def memory(loop):
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[1])
    free, total = torch.cuda.mem_get_info() if loop.cuda else (0, 0)
    return {"device_bytes": total - free, "host_bytes": pages * os.sysconf("SC_PAGE_SIZE")}


def timed(loop, steps):
    times = []
    for _ in range(steps):
        start = time.perf_counter_ns()
        loop.step()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times)


def part_cost(options):
    loop = Loop(options.model, options.device)
    client = Client(options, loop)
    client.wait_registered()
    timed(loop, 20)
    said = {"memory_before": memory(loop), "captures": []}
    for _ in range(options.rounds or 20):
        before = timed(loop, 20)
        row, path, shown = client.capture(10)
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        during = [d for (d,) in db.execute("SELECT duration FROM steps")]
        session = db.execute("SELECT clock_error, records, buffer_bytes, enable, drain, early FROM sessions").fetchone()
        enabled = dict(db.execute("SELECT collector, enable FROM collectors").fetchall())
        kernels = db.execute("SELECT count(*) FROM kernel_records").fetchone()[0]
        said["captures"].append({
            "status": row["status"], "lost": row["lost"], "before_ns": before, "during_ns": statistics.median(during),
            "after_ns": timed(loop, 20), "kernels": kernels, "enable_ns": enabled, "cost": shown["cost"],
            "session": dict(zip(("clock_error", "records", "buffer_bytes", "enable", "drain", "early"), session or ())),
            "memory": memory(loop)})
    during = []
    client.capture(50, lambda: during.append(memory(loop)))
    said["memory_during"] = {word: max(row[word] for row in during) for word in during[0]}
    return said


def part_traces(options):
    loop = Loop(options.model, options.device)
    path = pathlib.Path(options.folder) / f"{options.model}.json"
    torch_trace(loop, path)
    return {"trace": str(path), "bytes": path.stat().st_size}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=["windows", "neighbours", "cost", "traces"])
    parser.add_argument("profd")
    parser.add_argument("store")
    parser.add_argument("--model", default="transformer", choices=["cnn", "transformer", "lstm", "streams", "graph", "compiled"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--folder", default=".")
    parser.add_argument("--rounds", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    said = globals()["part_" + options.part](options)
    said["torch_version"], said["cuda"] = torch.__version__, torch.version.cuda
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
