#!/usr/bin/env python3
"""Trains with a cause that is changed while it runs, and writes of each step what that cost, as it measured it itself.

    planted.py MODE LOG [--gpu]     MODE: a file with the word of what to do; read before each step

With --gpu its operators launch kernels by the CUDA driver, from this process: operators, calls and kernels meet as in a real job. The
simulated driver has to be told what calls and kernels take: SIMCUDA of tests/e2e/test_findings_live.py.
A line of LOG is JSON: {"step": number, "mode": word, "wall": ns, "lost": ns, "taken": ns}. The modes are the functions below; what one loses is
what it gives back: ns that it measured, or REST, all of the step but what the device had to do. A pair is what was lost a little at a time, and
`taken`, what was lost a millisecond or more at a time, as where the processor was taken meanwhile.
"""
import contextlib
import ctypes
import gc
import io
import json
import pathlib
import sys
import time

if "--gpu" in sys.argv:
    # Those that LD_LIBRARY_PATH names, and not those that come with torch: a simulated driver has its own.
    for name in ("libcuda.so.1", "libcupti.so.13", "libcupti.so.12"):
        with contextlib.suppress(OSError):
            ctypes.CDLL(name)

import torch  # noqa: E402
from torch import library  # noqa: E402

US, MS = 1000, 1_000_000
REST = object()
PTX = b""".version 6.4
.target sm_52
.address_size 64
.visible .entry spin(
	.param .u64 spin_ns
)
{
	.reg .pred %p<2>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [spin_ns];
	mov.u64 %rd2, %globaltimer;
	add.s64 %rd3, %rd2, %rd1;
$again:
	mov.u64 %rd4, %globaltimer;
	setp.lt.u64 %p1, %rd4, %rd3;
	@%p1 bra $again;
	ret;
}
.visible .entry ncclDevKernel_AllReduce_Sum_f32_RING_LL() {
	ret;
}
.visible .entry ampere_sgemm_128x64_nn() {
	ret;
}
.visible .entry ampere_gemm_tensorop() {
	ret;
}
"""
# What SIMCUDA says of kernels that are not told how long they take, and of copies.
KERNEL_NS, BYTES_A_MS = 5 * MS, 100_000


class Device:
    """Kernels that take as long as they are told."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.asked = 0  # ns of kernels since the step began
        self.launches = []  # (when the call began, had returned, ns) of the step
        context, self.module, self.stream, self.other = (ctypes.c_void_p() for _ in range(4))
        for error in (self.driver.cuInit(0), self.driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0),
                      self.driver.cuModuleLoadData(ctypes.byref(self.module), PTX),
                      self.driver.cuStreamCreate(ctypes.byref(self.stream), 1), self.driver.cuStreamCreate(ctypes.byref(self.other), 1)):
            assert error == 0, error
        self.functions = {}
        self.spin = self.function(b"spin")
        self.memory, self.pinned = ctypes.c_void_p(), ctypes.c_void_p()
        self.pageable = ctypes.create_string_buffer(20 * BYTES_A_MS)
        self.call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(20 * BYTES_A_MS))
        self.call("cuMemHostAlloc", ctypes.byref(self.pinned), ctypes.c_size_t(20 * BYTES_A_MS), 0)
        self.ends = [ctypes.c_void_p(), ctypes.c_void_p()]  # of steps, in turn
        for end in self.ends:
            self.call("cuEventCreate", ctypes.byref(end), 2)

    def call(self, name, *arguments):
        """ns that it took."""
        start = time.monotonic_ns()
        error = getattr(self.driver, name)(*arguments)
        assert error == 0, (name, error)
        return time.monotonic_ns() - start

    def function(self, name):
        if name not in self.functions:
            self.functions[name] = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(self.functions[name]), self.module, name)
        return self.functions[name]

    def launch(self, ns, blocks=2048):
        self.asked += ns
        value = ctypes.c_uint64(ns)
        parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(value), ctypes.c_void_p))
        begun = time.monotonic_ns()
        self.call("cuLaunchKernel", self.spin, blocks, 1, 1, 256, 1, 1, 0, self.stream, parameters, None)
        self.launches.append((begun, time.monotonic_ns(), ns))

    def named(self, name, stream=None):
        """A kernel of that name: KERNEL_NS."""
        self.call("cuLaunchKernel", self.function(name), 2048, 1, 1, 256, 1, 1, 0, stream or self.stream, None, None)

    def late(self):
        """ns that the host was late with launches: (each time less than a millisecond, more)."""
        return split([after - before - ns for (_, before, ns), (_, after, _) in zip(self.launches, self.launches[1:])])

    def wait(self):
        return self.call("cuStreamSynchronize", self.stream)

    def end_step(self, number):
        self.call("cuEventRecord", self.ends[number % 2], self.stream)

    def wait_for_step(self, number):
        self.call("cuEventSynchronize", self.ends[number % 2])


class Host:
    """The same without a device: what is launched is done at once."""
    asked = 0

    def __init__(self):
        self.launches = []  # (when it began, was done)

    def launch(self, ns, blocks=0):
        self.asked += ns
        begun = time.monotonic_ns()
        spin(ns)
        self.launches.append((begun, time.monotonic_ns()))

    def late(self):
        return split([begun - ended for (_, ended), (begun, _) in zip(self.launches, self.launches[1:])])

    def wait(self):
        return 0


def spin(ns):
    """ns that it took."""
    start = time.monotonic_ns()
    while time.monotonic_ns() < start + ns:
        pass
    return time.monotonic_ns() - start


def split(times):
    return sum(ns for ns in times if 0 < ns < MS), sum(ns for ns in times if ns >= MS)


def timed(function):
    start = time.monotonic_ns()
    function()
    return time.monotonic_ns() - start


class Data(torch.utils.data.Dataset):
    """Items that cost what they are told to."""
    took, sleeps, computes = 0, 0, 0

    def __len__(self):
        return 1 << 40

    def __getitem__(self, index):
        start = time.monotonic_ns()
        if self.sleeps:
            time.sleep(self.sleeps / 1e9)
        while time.monotonic_ns() < start + self.computes:
            torch.ops.planted.transform(torch.zeros(1), MS)
        Data.took += time.monotonic_ns() - start
        return torch.zeros(1)


class Loader:
    """Batches of workers, which a mode sets up when it first wants one."""
    batches, sleeps = None, None

    @classmethod
    def next(cls, sleeps):
        if cls.sleeps != sleeps:
            data = Data()
            data.sleeps, cls.sleeps = sleeps, sleeps
            cls.batches = iter(torch.utils.data.DataLoader(data, batch_size=None, num_workers=1))
        return timed(lambda: next(cls.batches))


class Kept:
    """What a mode keeps from one step to the next."""
    garbage, optimizer, compiled, sizes = None, None, None, 1


class TensorByTensor(torch.optim.Optimizer):
    def __init__(self, count):
        super().__init__([torch.nn.Parameter(torch.zeros(1)) for _ in range(count)], {})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for one in group["params"]:
                one.add_(1)
                layers(1, 5 * US)
                spin(100 * US)


def layers(count=8, ns=2 * MS, blocks=2048):
    for _ in range(count):
        torch.ops.planted.layer(torch.zeros(1), ns, blocks)


# ---------------------------------------------------------------- causes

def loader(device, number):
    """What the step's batch took is not measured here: it is there already, as in all modes of main() that say so."""
    layers()
    device.wait()
    return 0


def transforms(device, number):
    return loader(device, number)


def workers(device, number):
    lost = Loader.next(40 * MS)
    layers(8, MS)
    return lost


def wait(device, number, way=lambda device: device.wait()):
    """For the device, and then does something else before the next launch. Lost is by how much later than the device it goes on, and then no more
    than it had waited, as it would have been no further ahead."""
    lost = 0
    for _ in range(4):
        layers(1, 6 * MS)
        begun = device.launches[-1][1]
        way(device)
        back = time.monotonic_ns()
        spin(5 * MS)
        layers(1, 0)
        lost += max(back - begun - 6 * MS, 0) + min(device.launches[-1][1] - back, 6 * MS)
    return lost


def item(device, number):
    """The same, of a value that is read."""
    return wait(device, number, lambda device: torch.ops.planted.read(torch.zeros(1)))


def stall(device, number):
    layers()
    spin(50 * MS)
    return REST


def operator(device, number):
    """One that does its work on the host."""
    layers()
    torch.ops.planted.transform(torch.zeros(1), 50 * MS)
    return REST


def outside(device, number):
    """Python between operators, a little each time; more where the processor was taken."""
    for _ in range(30):
        spin(600 * US)
        layers(1, 200 * US)
    return device.late()


def launches(device, number):
    for _ in range(60):
        layers(1, 50 * US)
        spin(300 * US)
    return device.late()


def save(device, number):
    layers()
    lost = timed(lambda: time.sleep(0.6)) if number % 12 == 0 else 0
    device.wait()
    return lost


def evaluation(device, number):
    """Instead of training on, in one step of twelve."""
    layers()
    device.wait()
    return timed(lambda: evaluate(device)) if number % 12 == 0 else 0


def evaluate(device):
    with torch.no_grad():
        layers(300)
        device.wait()


def garbage(device, number):
    gc.disable()
    if not Kept.garbage:
        Kept.garbage = [[i] for i in range(400_000)]
    layers()
    device.wait()
    return timed(gc.collect)


def recompilation(device, number):
    """Each batch is of another size."""
    if not Kept.compiled:
        torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10000
        Kept.compiled = torch.compile(lambda x: torch.relu(x * 2 + 1).sum(), backend="eager", dynamic=False)
    Kept.sizes += 1
    batch = torch.zeros(Kept.sizes)
    layers(4, MS)
    return timed(lambda: Kept.compiled(batch))


def optimizer(device, number):
    """Of torch, on the host: 400 tensors, one after the other."""
    if not Kept.optimizer:
        tensors = [torch.nn.Parameter(torch.zeros(8)) for _ in range(400)]
        for one in tensors:
            one.grad = torch.ones(8)
        Kept.optimizer = torch.optim.Adam(tensors, foreach=False)
    layers(4, MS)
    return timed(Kept.optimizer.step)


def tensor_by_tensor(device, number):
    """Updates and launches a little for each of 120 tensors."""
    if not Kept.optimizer:
        Kept.optimizer = TensorByTensor(120)
    layers(2, 200 * US)
    device.launches.clear()
    Kept.optimizer.step()
    return device.late()


def make(device, name, undo):
    """Something that the driver makes. What the call took, ns."""
    made = ctypes.c_void_p()
    # Pinned memory of device 0, as CUmemAllocationProp says it.
    properties = (ctypes.c_int * 8)(1, 0, 1, 0)
    arguments = {"cuMemCreate": (ctypes.c_size_t(2 << 20), properties, ctypes.c_ulonglong(0)), "cuMemAlloc_v2": (ctypes.c_size_t(1 << 20),), "cuModuleLoadData": (PTX,), "cuStreamCreate": (1,),
                 "cuMemHostAlloc": (ctypes.c_size_t(1 << 20), 0)}[name]
    took = device.call(name, ctypes.byref(made), *arguments)
    device.call(undo, made)
    return took


def making(*what):
    """The device has nothing to do meanwhile."""
    def mode(device, number):
        layers()
        device.wait()
        return make(device, *what)
    return mode


def copy_in(device, number):
    """Of pageable memory, by a call that blocks."""
    layers()
    device.wait()
    return device.call("cuMemcpyHtoD_v2", device.memory, device.pageable, ctypes.c_size_t(len(device.pageable)))


def copy_out(device, number):
    layers()
    device.wait()
    return device.call("cuMemcpyDtoHAsync_v2", device.pageable, device.memory, ctypes.c_size_t(len(device.pageable)), device.stream)


def copy_exposed(device, number):
    """Of pinned memory, in the stream that computes."""
    layers()
    device.call("cuMemcpyHtoDAsync_v2", device.memory, device.pinned, ctypes.c_size_t(20 * BYTES_A_MS), device.stream)
    device.wait()
    return 20 * MS


def collective(device, number):
    layers()
    for _ in range(4):
        device.named(b"ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    device.wait()
    return 4 * KERNEL_NS


def few_blocks(device, number):
    """A quarter of the device's 108 multiprocessors."""
    layers()
    layers(4, 5 * MS, 27)
    device.wait()
    return 20 * MS * 3 // 4


def no_tensor_cores(device, number):
    """At most 15 of 16 parts are to be won."""
    layers()
    for _ in range(4):
        device.named(b"ampere_sgemm_128x64_nn")
    device.wait()
    return 4 * KERNEL_NS * 15 // 16


# ---------------------------------------------------------------- nothing is lost

def well(device, number):
    layers(8, 6 * MS)
    device.wait()  # so that the host does not run ahead without end
    return 0


def ahead(device, number, meanwhile=None):
    """So much is queued that a host without a processor for a while is in time all the same."""
    layers(8, 10 * MS)
    device.end_step(number)
    if meanwhile:
        meanwhile(device)
    device.wait_for_step(number - 1)
    return 0


def behind(device, number):
    """The loader sleeps while the device still has the step before to do."""
    return ahead(device, number)


def free_wait(device, number):
    """It waits for the step before, four times, when this one is queued already."""
    return ahead(device, number, lambda device: [device.wait_for_step(number - 1) for _ in range(3)])


def python_behind(device, number):
    return ahead(device, number, lambda device: spin(25 * MS))


def operator_behind(device, number):
    return ahead(device, number, lambda device: torch.ops.planted.transform(torch.zeros(1), 25 * MS))


def allocation_behind(device, number):
    return ahead(device, number, lambda device: make(device, "cuMemAlloc_v2", "cuMemFree_v2"))


def copy_beside(device, number):
    """Of pinned memory, in a stream of its own."""
    return ahead(device, number, lambda device: device.call("cuMemcpyHtoDAsync_v2", device.memory, device.pinned,
                                                            ctypes.c_size_t(20 * BYTES_A_MS), device.other))


def collective_beside(device, number):
    return ahead(device, number, lambda device: [device.named(b"ncclDevKernel_AllReduce_Sum_f32_RING_LL", device.other) for _ in range(4)])


def two_streams(device, number):
    """What is launched into the other one runs beside."""
    return ahead(device, number, lambda device: [device.named(b"ampere_gemm_tensorop", device.other) for _ in range(8)])


def young_garbage(device, number):
    """The youngest objects are gone through in each step, which takes next to nothing."""
    layers(8, 6 * MS)
    gc.collect(0)
    device.wait()
    return 0


def validates(device, number):
    """In each step as much."""
    layers(6, 6 * MS)
    with torch.no_grad():
        layers(2, 6 * MS)
    device.wait()
    return 0


def a_value_at_the_end(device, number):
    """One is read in each step, behind much work."""
    layers(8, 6 * MS)
    torch.ops.planted.read(torch.zeros(1))
    return 0


def trains(device, number):
    """A layer of torch's own, with its backward and an optimizer that takes all tensors at once."""
    if not Kept.optimizer:
        model = torch.nn.Linear(256, 256)
        Kept.optimizer = model, torch.optim.SGD(model.parameters(), 1e-9)
    model, optimizer = Kept.optimizer
    layers(8, 6 * MS)
    model(torch.zeros(64, 256)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return 0


def workers_keep_up(device, number):
    Loader.next(MS)
    layers(8, 6 * MS)
    return 0


def saves_a_little(device, number):
    layers(8, 6 * MS)
    torch.save({"weights": torch.zeros(1000)}, io.BytesIO())
    return 0


MODES = {function.__name__: function for function in (
    loader, transforms, workers, wait, item, stall, operator, outside, launches, save, evaluation, garbage, recompilation, optimizer,
    tensor_by_tensor, copy_in, copy_out, copy_exposed, collective, few_blocks, no_tensor_cores, well, ahead, behind, free_wait, python_behind,
    operator_behind, allocation_behind, copy_beside, collective_beside, workers_keep_up, saves_a_little, two_streams, young_garbage,
    validates, a_value_at_the_end, trains)}
MODES |= {"allocation": making("cuMemAlloc_v2", "cuMemFree_v2"), "pinning": making("cuMemHostAlloc", "cuMemFreeHost"),
          "mapping": making("cuMemCreate", "cuMemRelease"), "module": making("cuModuleLoadData", "cuModuleUnload"), "stream": making("cuStreamCreate", "cuStreamDestroy_v2")}
# What the step's batch costs in them.
SLEEPS, COMPUTES = {"loader": 25 * MS, "behind": 25 * MS}, {"transforms": 25 * MS}


def main():
    mode_file, log = pathlib.Path(sys.argv[1]), open(sys.argv[2], "w", encoding="utf-8")
    device = Device() if "--gpu" in sys.argv else Host()
    library.define("planted::layer", "(Tensor x, int ns, int blocks) -> Tensor")
    library.define("planted::transform", "(Tensor x, int ns) -> Tensor")
    library.define("planted::read", "(Tensor x) -> Tensor")

    @library.impl("planted::layer", "CPU")
    def layer(x, ns, blocks):
        device.launch(ns, blocks)
        return x + 1

    @library.impl("planted::transform", "CPU")
    def transform(x, ns):
        spin(ns)
        return x

    @library.impl("planted::read", "CPU")
    def read(x):
        device.call("cuMemcpyDtoHAsync_v2", device.pageable, device.memory, ctypes.c_size_t(4), device.stream)
        return x
    step = ctypes.CDLL(None).profd_step
    batches = iter(torch.utils.data.DataLoader(Data(), batch_size=None))
    number, last, before = 0, time.monotonic_ns(), "well"
    print("ready", flush=True)
    while True:
        word = mode_file.read_text(encoding="utf-8").strip() or before  # it is just being written
        number += 1
        if word != before:
            Kept.garbage = Kept.optimizer = None
            before = word
        device.asked = Data.took = 0
        device.launches.clear()
        Data.sleeps, Data.computes = SLEEPS.get(word, 0), COMPUTES.get(word, 0)
        next(batches)
        lost = MODES[word](device, number)
        step()
        now = time.monotonic_ns()
        wall, last = now - last, now
        if word in ("loader", "transforms"):
            lost = Data.took
        elif lost is REST:
            lost = wall - device.asked
        lost, taken = lost if isinstance(lost, tuple) else (lost, 0)
        log.write(json.dumps({"step": number, "mode": word, "wall": wall, "lost": lost, "taken": taken}) + "\n")
        log.flush()


if __name__ == "__main__":
    main()
