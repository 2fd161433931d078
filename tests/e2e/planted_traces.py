"""Real traces with a delay, or a long operation, put into them: what is planted is known to the microsecond, and all else is as it was recorded.

Times are those of the trace, us. Traces are those of tests/data/traces.
"""
import bisect
import functools
import gzip
import json
import pathlib

TRACES = pathlib.Path(__file__).resolve().parents[1] / "data" / "traces"
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync"}
CALLS = {"cuda_runtime", "cuda_driver", "runtime"}
OPERATORS = {"cpu_op", "operator"}


@functools.lru_cache(maxsize=2)
def text_of(name):
    (path,) = TRACES.glob(name + "*")
    with gzip.open(path, "rt") as file:
        return file.read()


def category(event):
    """As torch 1.12 and later write it."""
    word = event.get("cat", "").lower()
    return {"memcpy": "gpu_memcpy", "memset": "gpu_memset"}.get(word, word)


class Trace:
    def __init__(self, name):
        self.data = json.loads(text_of(name))
        self.events = self.data["traceEvents"]
        self.correlation = max((e["args"]["correlation"] for e in self.events if "correlation" in e.get("args", {})), default=0)
        self.launched = {e["args"]["correlation"]: e["ts"] for e in self.events
                         if category(e) in CALLS and "correlation" in e.get("args", {})}
        (self.pid, self.tid), _ = max(self.threads().items(), key=lambda item: item[1])

    def threads(self):
        counts = {}
        for event in self.events:
            if category(event) in OPERATORS:
                key = event["pid"], event["tid"]
                counts[key] = counts.get(key, 0) + 1
        return counts

    def named(self, begins):
        return sorted((e for e in self.events if e.get("ph") == "X" and e["name"].startswith(begins)), key=lambda e: e["ts"])

    def clearings(self, least=4):
        """[(start, end)] in which the thread of most operators is in none; and (start, end) of operators that launch nothing."""
        spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in self.events
                       if e.get("ph") == "X" and category(e) in OPERATORS | CALLS and e["tid"] == self.tid)
        launches = sorted(e["ts"] for e in self.events if category(e) in CALLS and e["name"].startswith("cudaLaunch"))
        outside, inside, last = [], [], spans[0][1]
        for start, end in spans:
            if start >= last + least:
                outside.append((last, start))
            first = bisect.bisect_left(launches, start)
            if end - start > 10 and (first == len(launches) or launches[first] >= end):
                inside.append((start, end))
            last = max(last, end)
        middle = launches[len(launches) // 4], launches[-len(launches) // 4]
        return tuple([one for one in found if middle[0] < one[0] < middle[1]] for found in (outside, inside))

    def delay(self, delays):
        """{at: us}: everything behind `at` is so much later, as if the host had stood still there, and what is under way on the host lasts
        longer. Device work that was launched before `at` is not moved."""
        at = sorted(delays)
        sums = [0]
        for time in at:
            sums.append(sums[-1] + delays[time])
        for event in self.events:
            if "ts" not in event:
                continue
            start = event["ts"]
            begun = self.launched.get(event.get("args", {}).get("correlation"), start) if category(event) in DEVICE else start
            shift = sums[bisect.bisect_right(at, begun)]
            event["ts"] = start + shift
            if "dur" in event and category(event) not in DEVICE:
                event["dur"] += max(sums[bisect.bisect_left(at, start + event["dur"])] - shift, 0)
        self.launched = {key: time + sums[bisect.bisect_right(at, time)] for key, time in self.launched.items()}

    def longer(self, kernels, us):
        """The device takes so much longer for these, and the host stands still meanwhile; what comes behind them is later."""
        ends = sorted(e["ts"] + e["dur"] for e in kernels)
        chosen = {id(e) for e in kernels}
        for event in self.events:
            if "ts" not in event:
                continue
            start, end = event["ts"], event["ts"] + event.get("dur", 0)
            shift = us * bisect.bisect_right(ends, start)
            event["ts"] = start + shift
            if id(event) in chosen:
                event["dur"] += us
            elif "dur" in event and category(event) not in DEVICE:
                event["dur"] += us * bisect.bisect_left(ends, end) - shift if end > start else 0

    def busy(self, at, us, **args):
        """The device does one long kernel that is launched at `at`; what is launched behind it runs behind it, and the host goes on."""
        for event in self.events:
            if category(event) in DEVICE and self.launched.get(event.get("args", {}).get("correlation"), event["ts"]) >= at:
                event["ts"] += us
        self.launch("kernel", "void gemm<float, 128, 128>(int)", at, 5, at + 8, us, **args)

    def host(self, kind, name, start, us, **args):
        self.events.append({"ph": "X", "cat": kind, "name": name, "pid": self.pid, "tid": self.tid, "ts": start, "dur": us, "args": args})

    def launch(self, kind, name, call_start, call_us, start, us, call="cudaLaunchKernel", **args):
        """A call, and what the device does for it."""
        self.correlation += 1
        self.host("cuda_runtime", call, call_start, call_us, correlation=self.correlation, cbid=211)
        shape = {"grid": [2048, 1, 1], "block": [256, 1, 1], "registers per thread": 32, "shared memory": 0} if kind == "kernel" else {}
        self.events.append({"ph": "X", "cat": kind, "name": name, "pid": 0, "tid": 7, "ts": start, "dur": us,
                            "args": {"device": 0, "context": 1, "stream": 7, "correlation": self.correlation, **shape, **args}})

    def text(self):
        return json.dumps(self.data)


# ---------------------------------------------------------------- what is planted: (id, finding, function); the function gives (text, us planted)

GP100, V100, DDP = "gp100_gpu_user_annotation", "v100_resnet50_nw0", "a100_ddp_rank0of2"
CAUSES, QUIET = [], []


def cause(finding, says=""):
    """`says`: a word of the finding or its evidence, that tells this cause from others that have the same finding."""
    def add(plant):
        CAUSES.append((plant.__name__, finding, says, plant))
        return plant
    return add


def quiet(kind):
    def add(plant):
        QUIET.append((plant.__name__, kind, plant))
        return plant
    return add


def window(us, kind=None, name=None, where=0):
    """A GP100's training steps, one window of 10 ms, in which the host stands still once: outside of operators (where 0), or inside of one (1)."""
    trace = Trace(GP100)
    start, end = trace.clearings()[where][0]
    at = start + (end - start) // 2
    trace.delay({at: us})
    if kind:
        trace.host(kind, name, at, us)
    return trace, at


def over(kind, name, us=80_000):
    return window(us, kind, name)[0].text(), us


@cause("stall", "no operator")
def python_once(us=40_000):
    return window(us)[0].text(), us


@cause("stall", "no operator")
def python_once_long(us=160_000):
    return window(us)[0].text(), us


@cause("stall")
def in_an_operator(us=40_000):
    return window(us, where=1)[0].text(), us


@cause("stall")
def in_an_operator_long(us=160_000):
    return window(us, where=1)[0].text(), us


# (id, finding, a word of it, category and name of the event that lies over the pause)
for _id, _finding, _says, *_event in (
    ("an_operator_on_the_host", "stall", "torchvision::nms", "cpu_op", "torchvision::nms"),
    ("loader", "input", "loads the batches itself", "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
    ("loader_of_workers", "input", "do not keep up", "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
    ("own_range", "input", "gets its input", "user_annotation", "load_batch"),
    ("garbage", "garbage_collection", "", "python_function", "Python GC"),
    ("module_load", "compilation", "", "cuda_driver", "cuModuleLoadData"),
    ("dynamo", "compilation", "", "cpu_op", "TorchDynamo: compile"),
    ("allocation", "allocation", "cudaMalloc", "cuda_runtime", "cudaMalloc"),
    ("pinning", "allocation", "cudaHostAlloc", "cuda_runtime", "cudaHostAlloc"),
    ("stream_create", "setup", "cudaStreamCreateWithPriority", "cuda_runtime", "cudaStreamCreateWithPriority"),
    ("synchronise", "sync", "cudaDeviceSynchronize", "cuda_runtime", "cudaDeviceSynchronize"),
):
    CAUSES.append((_id, _finding, _says, functools.partial(over, *_event)))


def operation(us, kind, name, call="cudaLaunchKernel", holds=False, **args):
    """On the device alone; the host waits for it, in its call where it `holds`."""
    trace, at = window(us, *(() if holds else ("cuda_runtime", "cudaStreamSynchronize")))
    trace.launch(kind, name, at, us if holds else 3, at + 5, us - 7, call, **args)
    return trace.text(), us


@cause("pageable_copy")
def pageable(us=80_000):
    return operation(us, "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", "cudaMemcpyAsync", True, bytes=1 << 30)


@cause("exposed_copies")
def pinned(us=80_000):
    return operation(us, "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "cudaMemcpyAsync", bytes=1 << 30)


@cause("communication")
def all_reduce(us=80_000):
    return operation(us, "kernel", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)")


@cause("few_blocks")
def few_blocks(us=200_000):
    """Of 56 multiprocessors a quarter; the host is far ahead meanwhile."""
    trace = Trace(GP100)
    trace.busy(trace.clearings()[0][0][0] + 1, us, grid=[14, 1, 1])
    return trace.text(), us * 3 // 4


@cause("launch_bound")
def launches(us=800, of_itself=7_200):
    """Before many a launch, and never twice before one. It is launch-bound already, by so much."""
    trace = Trace(GP100)
    calls = sorted(trace.launched.values())
    delays = {bisect.bisect_left(calls, start): start + (end - start) // 2 for start, end in trace.clearings(2)[0]}
    trace.delay(dict.fromkeys(delays.values(), us))
    return trace.text(), us * len(delays) + of_itself


def steps_of_v100(us, inside_loader=False, only=None, kind=None, name=None):
    """In each step, right behind the loader, as the device has nothing to do; or in it."""
    trace = Trace(V100)
    loaders = trace.named("enumerate(DataLoader)")
    at = [one["ts"] + one["dur"] + (-2 if inside_loader else 2) for one in loaders]
    at = at if only is None else [at[only]]
    trace.delay(dict.fromkeys(at, us))
    for number, time in enumerate(at if kind else []):
        trace.host(kind, name, time + number * us, us)
    return trace.text(), us if only is None else us // len(loaders)


@cause("stall", "no operator")
def python_in_each_step(us=150_000):
    return steps_of_v100(us)


@cause("input", "loads the batches itself")
def slower_loader(us=600_000):
    return steps_of_v100(us, inside_loader=True)


@cause("step_unlike", "of 6 steps")
def checkpoint(us=1_200_000):
    return steps_of_v100(us, only=3)


@cause("garbage_collection")
def garbage_in_each_step(us=150_000):
    return steps_of_v100(us, kind="python_function", name="Python GC")


@cause("communication")
def a_peer_is_late(us=250_000):
    """In each step one of the collectives waits for the other rank; with it the host."""
    trace = Trace(DDP)
    steps, kernels = trace.named("ProfilerStep"), [e for e in trace.named("nccl") if category(e) == "kernel"]
    last = [[k for k in kernels if s["ts"] <= k["ts"] < s["ts"] + s["dur"] * 0.9][-1] for s in steps]
    trace.longer(last, us)
    return trace.text(), us


# ---------------------------------------------------------------- nothing to find: (id, kind, function); the function gives the text

BUSY = 400_000


def behind(us=None, kind=None, name=None):
    """The device works on one long kernel; the host stands still for a part of it."""
    trace = Trace(GP100)
    start, end = trace.clearings()[0][0]
    trace.busy(start + 1, BUSY)
    at = start + 2 + (end - start) // 2
    if us:
        trace.delay({at: us})
        if kind:
            trace.host(kind, name, at, us)
    return trace.text()


@quiet("well, recorded")
def one_big_gemm():
    return behind()


@quiet("well, recorded")
def slower_device():
    """Each operation is of larger tensors, and takes 200 times as long: the host is far ahead."""
    trace = Trace(GP100)
    ends = {}
    for event in sorted((e for e in trace.events if category(e) in DEVICE and "dur" in e), key=lambda e: e["ts"]):
        stream = category(event), event["tid"]
        event["ts"] = max(event["ts"], ends.get(stream, 0))
        event["dur"] *= 200
        event["args"]["grid"] = [2048, 1, 1]
        ends[stream] = event["ts"] + event["dur"]
    return trace.text()


for word, *what in (("python_behind_a_busy_device",),
                    ("loader_behind_a_busy_device", "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
                    ("operator_behind_a_busy_device", "cpu_op", "torchvision::nms"),
                    ("garbage_behind_a_busy_device", "python_function", "Python GC"),
                    ("module_load_behind_a_busy_device", "cuda_driver", "cuModuleLoadData"),
                    ("allocation_behind_a_busy_device", "cuda_runtime", "cudaMalloc"),
                    ("stream_create_behind_a_busy_device", "cuda_runtime", "cudaStreamCreateWithPriority"),
                    ("wait_that_costs_nothing", "cuda_runtime", "cudaEventSynchronize")):
    QUIET.append((word, "only looks ill, recorded", functools.partial(behind, 200_000, *what)))
