"""Captures of a training loop on devices, made without one, whose figures are known by how they are made."""
import itertools

from make_capture import Capture

HTOD, DTOH, DTOD, PTOP = 1, 2, 8, 10
PAGEABLE, PINNED, DEVICE = 1, 2, 3
DRIVER = 1
EVENT_SYNC, STREAM_WAIT, STREAM_SYNC, CONTEXT_SYNC = 1, 2, 3, 4
CLIPPED, DOUBTFUL, TIMELESS, UNFINISHED = 1, 4, 8, 16
MAIN, ENGINE = 4242, 4250
GRAPH = 5


def contexts(c, devices, simulated=False):
    """`devices` devices with a context each: that of device n has the id n + 1."""
    for number in range(devices):
        c.device(number, "Simulated A100" if simulated else "NVIDIA A100-SXM4-40GB")
        c.add("context_records", id=number + 1, device=number, default_stream=7, api=1)


def threads(c):
    c.add("threads", thread=MAIN, name=c.string("python3"), torch_id=1, pthread=1)
    c.add("threads", thread=ENGINE, name=c.string("pt_autograd_0"), torch_id=2, pthread=2)


class Loop:
    """Writes the loop, and keeps what is in it in `device`: dicts with kind, name, device, stream, start, end, launch
    (its start and end), step and correlation."""

    def __init__(self, capture, lag):
        self.c, self.lag = capture, lag
        self.identities = itertools.count(1)
        self.correlations = itertools.count(1001)
        self.free = {}  # (device, stream) -> when it is
        self.device = []
        self.calls = 0
        self.step = 1

    def call(self, name, start, duration, **more):
        self.calls += 1
        correlation = next(self.correlations)
        self.c.call(name, start, duration, correlation, step=self.step, **more)
        return correlation

    def launch(self, kind, name, put, api, start, length, duration, device, stream, **more):
        """A call, and what it has the device do: put(start, correlation, **place)."""
        correlation = self.call(api, start, length, **more)
        self.operate(kind, name, put, correlation, (start, start + length), duration, device, stream)

    def operate(self, kind, name, put, correlation, launch, duration, device, stream):
        start = max(launch[0] + self.lag, self.free.get((device, stream), 0))
        self.free[device, stream] = start + duration
        self.device.append(dict(kind=kind, name=name, device=device, stream=stream, start=start, end=start + duration,
                                launch=launch, step=self.step, correlation=correlation))
        put(start, correlation, device=device, context=device + 1, stream=stream)

    def kernel(self, name, api, start, length, duration, device, thread=MAIN, **shape):
        self.launch("kernel", name, lambda at, own, **place: self.c.kernel(name, at, duration, own, **place, **shape),
                    api, start, length, duration, device, 7, thread=thread,
                    domain=DRIVER if api.startswith("cuLaunch") else 2)

    def iteration(self, now, layers, device):
        """One device's part of a step; returns when the host is done with it."""
        c, begun, around = self.c, now, next(self.identities)
        self.launch("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)",
                    lambda at, own, **place: c.copy(HTOD, PINNED, DEVICE, 65536, at, 5000, own, **place),
                    "cudaMemcpyAsync", now + 100, 900, 5000, device, 20)
        self.launch("gpu_memset", "Memset (Device)",
                    lambda at, own, **place: c.set(DEVICE, 4096, at, 800, own, **place),
                    "cudaMemsetAsync", now + 1200, 400, 800, device, 7)
        now += 2000
        for layer in range(layers):
            self.kernel("_Z6layer%dPf" % layer, "cudaLaunchKernel", now + 300, 700, 1500, device, grid_x=216,
                        registers=40)
            c.add("operators", step=self.step, start=now, duration=1500, self=1500, id=next(self.identities),
                  parent=around, name=c.string("aten::addmm"), thread=MAIN, depth=1, scope=0, sequence=-1)
            now += 2000
        c.add("ranges", step=self.step, start=begun, duration=now - begun, self=0, id=around,
              name=c.string("forward"), thread=MAIN, depth=0, source=4)
        for layer in range(layers):
            self.kernel("_Z8backwardILi%dEEvPf" % layer, "cuLaunchKernel", now + 300, 600, 1700, device, thread=ENGINE)
            c.add("operators", step=self.step, start=now, duration=1400, self=1400, id=next(self.identities),
                  name=c.string("AddmmBackward0"), thread=ENGINE, depth=0, scope=0, sequence=-1)
            now += 2000
        correlation = self.call("cudaGraphLaunch", now, 1000)
        for node in range(3):
            name = "_Z4node%dv" % node
            self.operate("kernel", name, lambda at, own, **place: c.kernel(
                name, at, 500, own, graph=GRAPH, graph_node=(GRAPH << 32) + node, **place),
                correlation, (now, now + 1000), 500, device, 7)
        return now + 3000


def gpu_loop(path, steps=3, layers=4, devices=1, lag=3000, **meta):
    """A training loop of `steps` steps on `devices` devices, each on stream 7, with copies in on stream 20: a forward of
    `layers` operators that launch a kernel each, a backward on the engine's thread, a CUDA graph of three kernels, and two
    waits at the end, of which the first lasts as long as the work. An operation begins `lag` ns behind its launch at the earliest. Returns the Loop."""
    with Capture(path, **meta) as c:
        for word in ("steps", "torch", "cupti"):
            c.collector(word)
        c.session()
        contexts(c, devices, bool(meta.get("simulated")))
        threads(c)
        loop = Loop(c, lag)
        now = 1000
        for step in range(1, steps + 1):
            loop.step, opened = step, now
            for device in range(devices):
                now = loop.iteration(now, layers, device)
            done = max(loop.free.values())
            wait = max(done - now, 100)
            for api, kind, stream in (("cudaStreamSynchronize", STREAM_SYNC, 7),
                                      ("cudaDeviceSynchronize", CONTEXT_SYNC, 0xFFFFFFFF)):
                c.add("syncs", start=now + 50, duration=wait + 100, correlation=loop.call(api, now, wait + 200),
                      context=1, stream=stream, event=0, event_sync=0, kind=kind, result=0)
                now += wait + 5000
            c.add("steps", step=step, start=opened, duration=now - opened, number=100 + step, thread=MAIN, source=2,
                  collectors=0x17)
        c.derive_device()
        c.meta["record_start"], c.meta["record_end"] = 1000, now
    return loop
