"""A host and a GPU on paper: a training loop is written as a function that launches, copies and waits; what comes out is the trace that
torch.profiler would have written of it, to the nanosecond, and how long a step took.

The host has a thread for the loop and one for autograd. A stream does what it is given one after the other; a call that finds
QUEUE operations queued blocks, as CUDA's does. Nothing here knows of profd, or of a finding: how much a cause costs is told by
running the same loop without it.
"""
import contextlib
import json

QUEUE = 64
MAIN, AUTOGRAD = 4242, 4243
US, MS = 1000, 1000000
DEVICE = {"id": 0, "name": "A paper GPU (simulated)", "totalGlobalMem": 1 << 34, "computeMajor": 8, "computeMinor": 0, "maxThreadsPerBlock": 1024,
          "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "regsPerMultiprocessor": 65536, "warpSize": 32,
          "sharedMemPerBlock": 49152, "sharedMemPerMultiprocessor": 167936, "numSms": 108}


class Machine:
    def __init__(self, planted, gap=1000, queue=QUEUE):
        self.planted = planted  # is the cause there?
        self.now = 1_000_000_000
        self.thread = MAIN
        self.streams = {}       # when each has done what it was given
        self.queues = {}        # ends of what is queued in each
        self.queue = queue      # how many may be queued in a stream
        self.gap = gap          # between two operations of a stream
        self.events = []
        self.steps = []
        self.step = 0
        self.correlation = 100
        self.sequence = 0

    # --- the host ---

    def work(self, ns):
        """Of the thread that runs, in no operator."""
        self.now += ns

    def write(self, category, name, start, end, thread=None, **args):
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": 4242, "tid": thread or self.thread, "ts": start, "dur": end - start,
                            "args": args})

    @contextlib.contextmanager
    def op(self, name, ns=10 * US, category="cpu_op", **args):
        start, thread = self.now, self.thread
        self.now += ns // 2
        yield
        self.now += ns - ns // 2
        self.write(category, name, start, self.now, thread, **args)

    def plain(self, name, ns, **args):
        with self.op(name, ns, **args):
            pass

    def garbage(self, ns):
        """Python's collector of garbage runs, as torch.profiler tells with record_python_gc_info."""
        self.write("python_function", "Python GC", self.now, self.now + ns)
        self.now += ns

    def mark(self, name):
        """An annotation of the framework or of the user."""
        return self.op(name, 0, "user_annotation")

    def call(self, name, ns):
        """A call of the CUDA runtime that launches nothing. Returns its correlation id."""
        self.correlation += 1
        self.write("cuda_runtime", name, self.now, self.now + ns, correlation=self.correlation, cbid=211)
        self.now += ns
        return self.correlation

    # --- the device ---

    def give(self, category, name, ns, stream, host, call, after=None, until_done=False, **args):
        """An operation, and the call that launches it, which takes `host` ns. Returns the operation's end."""
        queue = self.queues.setdefault(stream, [])
        start = self.now
        while queue and queue[0] <= self.now:
            queue.pop(0)
        if len(queue) >= self.queue:
            self.now = queue[-self.queue]
        self.now += host
        begin = max(self.now + 1000 - host // 2 if not until_done else start + 3000, self.streams.get(stream, 0) + self.gap, after or 0)
        end = begin + ns
        self.streams[stream] = end
        queue.append(end)
        if until_done:
            self.now = max(self.now, end + 2000)
        self.correlation += 1
        self.write("cuda_runtime", call, start, self.now, correlation=self.correlation, cbid=211)
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": 0, "tid": stream, "ts": begin, "dur": ns,
                            "args": {"device": 0, "context": 1, "stream": stream, "correlation": self.correlation, **args}})
        return end

    def kernel(self, ns, name="gemm_kernel", stream=7, host=5 * US, blocks=2048, after=None):
        return self.give("kernel", name, ns, stream, host, "cudaLaunchKernel", after, grid=[blocks, 1, 1], block=[256, 1, 1],
                         **{"registers per thread": 32, "shared memory": 0})

    def graph(self, durations, stream=7, host=15 * US, graph=5):
        """A CUDA graph: one call, several kernels."""
        start = self.now
        queue = self.queues.setdefault(stream, [])
        while queue and queue[0] <= self.now:
            queue.pop(0)
        if len(queue) >= self.queue:
            self.now = queue[-self.queue]
        self.now += host
        self.correlation += 1
        self.write("cuda_runtime", "cudaGraphLaunch", start, self.now, correlation=self.correlation, cbid=311)
        begin = max(self.now, self.streams.get(stream, 0))
        for node, ns in enumerate(durations):
            begin += self.gap
            self.events.append({"ph": "X", "cat": "kernel", "name": "graph_kernel", "pid": 0, "tid": stream, "ts": begin, "dur": ns, "args": {
                "device": 0, "context": 1, "stream": stream, "correlation": self.correlation, "graph id": graph, "graph node id": node + 1,
                "grid": [2048, 1, 1], "block": [256, 1, 1], "registers per thread": 32, "shared memory": 0}})
            begin += ns
        queue.append(begin)
        self.streams[stream] = begin

    def copy(self, ns, kind="HtoD", memory="Pinned", stream=7, size=1 << 20, host=6 * US, after=None, wait=False):
        """A copy; one of pageable memory holds the call until it is done, as does one that `wait`s."""
        source, target = (memory, "Device") if kind == "HtoD" else ("Device", memory)
        pageable = memory == "Pageable"
        return self.give("gpu_memcpy", f"Memcpy {kind} ({source} -> {target})", ns, stream, host, "cudaMemcpyAsync" if pageable or not wait else "cudaMemcpy",
                         after, until_done=pageable or wait, bytes=size)

    def wait(self, name="cudaStreamSynchronize", stream=7):
        """Until the stream has done all that it was given."""
        start = self.now
        self.now = max(self.now + 2 * US, self.streams.get(stream, 0) + 3 * US)
        self.correlation += 1
        self.write("cuda_runtime", name, start, self.now, correlation=self.correlation, cbid=131)
        self.events.append({"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": stream, "ts": start + 500, "dur": self.now - start - 600,
                            "args": {"cuda_sync_kind": "Stream Sync", "stream": stream, "correlation": self.correlation, "device": 0, "context": 1}})

    def item(self):
        """loss.item(): a copy of four bytes, and a wait for it."""
        with self.op("aten::item", 4 * US), self.op("aten::_local_scalar_dense", 4 * US):
            self.copy(2 * US, "DtoH", "Pageable", size=4)
            self.wait()

    # --- parts of a loop ---

    def layers(self, count, ns, host=20 * US, name="aten::linear", **more):
        """Operators of a forward pass, each of which launches a kernel."""
        for _ in range(count):
            self.sequence += 1
            with self.op(name, host, **{"Sequence number": self.sequence, "Fwd thread id": 0}):
                self.kernel(ns, **more)
            self.work(2 * US)

    def backward(self, count, ns, host=20 * US, **more):
        """The same of the backward pass, on autograd's thread; the loop waits for it."""
        self.thread = AUTOGRAD
        for i in range(count):
            with self.op("autograd::engine::evaluate_function: AddmmBackward0", 4 * US), self.op(
                    "AddmmBackward0", 4 * US, **{"Sequence number": self.sequence - i, "Fwd thread id": 1}), self.op("aten::mm", host):
                self.kernel(ns, **more)
        self.thread = MAIN

    @contextlib.contextmanager
    def optimizer(self, name="AdamW"):
        with self.mark(f"Optimizer.step#{name}.step"):
            yield

    def fused_optimizer(self, ns=300 * US, kernels=4):
        with self.optimizer():
            for _ in range(kernels):
                with self.op("aten::_fused_adamw_", 20 * US):
                    self.kernel(ns // kernels, "multi_tensor_apply_kernel")


def run(loop, planted, steps=8, warmup=40, **more):
    """The steps of a loop behind the first `warmup`, which are not recorded. Returns (machine, ns of each step)."""
    machine = Machine(planted, **more)
    bounds = []
    for step in range(warmup + steps):
        machine.step = step - warmup
        bounds.append(machine.now)
        loop(machine)
    bounds.append(machine.now)
    machine.steps = bounds[warmup:]
    return machine, [b - a for a, b in zip(machine.steps, machine.steps[1:])]


def trace(machine, rank=None):
    """What torch.profiler would have written."""
    begin, end = machine.steps[0], machine.steps[-1]
    events = []
    for number, (start, stop) in enumerate(zip(machine.steps, machine.steps[1:])):
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number + 10}", "pid": 4242, "tid": MAIN, "ts": start,
                       "dur": stop - start, "args": {}})
    for event in machine.events:
        device = event["pid"] == 0
        if event["ts"] + event["dur"] <= begin or event["ts"] >= end or not device and event["ts"] < begin:
            continue
        events.append(event)
    events.sort(key=lambda e: (e["ts"], -e["dur"]))

    def us(ns):
        return f"{ns // 1000}.{ns % 1000:03d}"
    lines = []
    for event in events:
        fields = dict(event)
        start, duration = fields.pop("ts"), fields.pop("dur")
        lines.append(json.dumps(fields)[:-1] + f', "ts": {us(start)}, "dur": {us(duration)}}}')
    head = {"schemaVersion": 1, "deviceProperties": [DEVICE], "baseTimeNanoseconds": 0}
    if rank is not None:
        head["distributedInfo"] = {"rank": rank, "world_size": 8}
    return json.dumps(head)[:-1] + ', "traceEvents": [\n' + ",\n".join(lines) + "\n]}\n"
