#!/usr/bin/env python3
"""Trains with a cause that is changed while it runs, and writes of each step what that cost, as it measured it itself.

    planted.py MODE LOG [--gpu]     MODE: a file with the word of what to do; read before each step

With --gpu its operators launch kernels by the CUDA driver, from this process: operators, calls and kernels meet as in a real job.
A line of LOG is JSON: {"step": number, "mode": word, "wall": ns, "lost": ns}. lost: for
    loader    in the dataset's __getitem__
    wait      from the return of a wait for the device to the next launch
    stall     of the step, without what the device had to do
    save      in what is done in one step of twelve alone
    well      0
    behind    0: the loader sleeps while the device still has the step before to do
    free_wait 0: it waits for the step before, four times, when this one is queued already
"""
import contextlib
import ctypes
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

MS = 1_000_000
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
"""


class Device:
    """Kernels that take as long as they are told."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.asked = 0  # ns of kernels since the step began
        context, module, self.spin, self.stream = (ctypes.c_void_p() for _ in range(4))
        for error in (self.driver.cuInit(0), self.driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0),
                      self.driver.cuModuleLoadData(ctypes.byref(module), PTX),
                      self.driver.cuModuleGetFunction(ctypes.byref(self.spin), module, b"spin"),
                      self.driver.cuStreamCreate(ctypes.byref(self.stream), 1)):
            assert error == 0, error
        self.ends = [ctypes.c_void_p(), ctypes.c_void_p()]  # of steps, in turn
        for end in self.ends:
            assert self.driver.cuEventCreate(ctypes.byref(end), 2) == 0

    def launch(self, ns):
        self.asked += ns
        value = ctypes.c_uint64(ns)
        parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(value), ctypes.c_void_p))
        error = self.driver.cuLaunchKernel(self.spin, 2048, 1, 1, 256, 1, 1, 0, self.stream, parameters, None)
        assert error == 0, error

    def wait(self):
        assert self.driver.cuStreamSynchronize(self.stream) == 0

    def end_step(self, number):
        assert self.driver.cuEventRecord(self.ends[number % 2], self.stream) == 0

    def wait_for_step(self, number):
        assert self.driver.cuEventSynchronize(self.ends[number % 2]) == 0


class Host:
    """The same without a device: what is launched is done at once."""
    asked = 0

    def launch(self, ns):
        self.asked += ns
        spin(ns)

    def wait(self):
        pass


def spin(ns):
    until = time.monotonic_ns() + ns
    while time.monotonic_ns() < until:
        pass


class Data(torch.utils.data.Dataset):
    took, wanted = 0, 0

    def __len__(self):
        return 1 << 40

    def __getitem__(self, index):
        start = time.monotonic_ns()
        if self.wanted:
            time.sleep(self.wanted / 1e9)
        Data.took += time.monotonic_ns() - start
        return torch.zeros(1)


def main():
    mode_file, log = pathlib.Path(sys.argv[1]), open(sys.argv[2], "w", encoding="utf-8")
    device = Device() if "--gpu" in sys.argv else Host()
    library.define("planted::layer", "(Tensor x, int ns) -> Tensor")

    @library.impl("planted::layer", "CPU")
    def layer(x, ns):
        device.launch(ns)
        return x + 1
    step = ctypes.CDLL(None).profd_step
    batches = iter(torch.utils.data.DataLoader(Data(), batch_size=None))
    number, last = 0, time.monotonic_ns()
    print("ready", flush=True)
    while True:
        mode = mode_file.read_text(encoding="utf-8").strip()
        number += 1
        lost = device.asked = Data.took = 0
        Data.wanted = 25 * MS if mode in ("loader", "behind") else 0
        x = next(batches)
        if mode == "wait":
            x = torch.ops.planted.layer(x, 8 * MS)
            for _ in range(4):
                device.wait()
                start = time.monotonic_ns()
                spin(5 * MS)
                x = torch.ops.planted.layer(x, 0)
                lost += time.monotonic_ns() - start
                x = torch.ops.planted.layer(x, 6 * MS)
        elif mode in ("behind", "free_wait"):
            # So much is queued that a host without a processor for a while is in time all the same.
            for _ in range(8):
                x = torch.ops.planted.layer(x, 10 * MS)
            device.end_step(number)
            for _ in range(4 if mode == "free_wait" else 1):
                device.wait_for_step(number - 1)
        else:
            for _ in range(8):
                x = torch.ops.planted.layer(x, (6 if mode == "well" else 2) * MS)
        if mode == "save" and number % 12 == 0:
            start = time.monotonic_ns()
            time.sleep(0.6)
            lost = time.monotonic_ns() - start
        if mode == "stall":
            spin(50 * MS)
        if mode in ("well", "loader", "save"):
            # So that the host does not run ahead without end.
            device.wait()
        step()
        now = time.monotonic_ns()
        wall, last = now - last, now
        if mode == "loader":
            lost = Data.took
        elif mode == "stall":
            lost = wall - device.asked
        log.write(json.dumps({"step": number, "mode": mode, "wall": wall, "lost": lost}) + "\n")
        log.flush()


if __name__ == "__main__":
    main()
