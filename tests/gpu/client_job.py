#!/usr/bin/env python3
"""client_job.py PROFD - a job on the CUDA driver API that captures itself, and is a client of CUPTI in between.

Under `profd run`. A thread sets 4096 bytes of device memory three times a step and waits for it, on and on; meanwhile:
    idle      is libcupti mapped?
    first     a capture of 3 steps
    after     cuptiSubscribe and cuptiUnsubscribe, as another tool would: their answers
    held      a capture while that other tool holds its subscription
    again     a capture after it has let go
Prints JSON: of each capture its id and status, and what else was asked. Needs Python alone."""
import ctypes
import json
import os
import subprocess
import sys
import threading

SETS, BYTES = 3, 4096


def check(result, what):
    if result:
        sys.exit(f"{what}: error {result}")


class Job:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.step = ctypes.CDLL(None).profd_step
        self.over = threading.Event()
        self.steps = 0
        check(self.cuda.cuInit(0), "cuInit")
        self.context, self.memory, device = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
        check(self.cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
        check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), device), "cuDevicePrimaryCtxRetain")
        check(self.cuda.cuCtxSetCurrent(self.context), "cuCtxSetCurrent")
        check(self.cuda.cuMemAlloc_v2(ctypes.byref(self.memory), ctypes.c_size_t(BYTES)), "cuMemAlloc")

    def work(self):
        check(self.cuda.cuCtxSetCurrent(self.context), "cuCtxSetCurrent")
        while not self.over.wait(0.01):
            for value in range(SETS):
                check(self.cuda.cuMemsetD8Async(self.memory, ctypes.c_ubyte(value), ctypes.c_size_t(BYTES), None), "cuMemsetD8Async")
            check(self.cuda.cuCtxSynchronize(), "cuCtxSynchronize")
            self.step()
            self.steps += 1


def mapped(what):
    with open("/proc/self/maps") as maps:
        return sorted({line.split()[-1] for line in maps if what in line.rsplit("/", 1)[-1]})


def capture(client):
    """Of three steps; the row of `profd trigger`."""
    environment = {k: v for k, v in os.environ.items()
                   if k not in ("LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")}
    done = subprocess.run([client, "trigger", "--pid", str(os.getpid()), "--steps", "3", "--format", "json"], env=environment,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    try:
        return json.loads(done.stdout)["captures"][0]
    except (ValueError, KeyError, IndexError):
        sys.exit(f"profd trigger: {done.returncode} {done.stderr}")


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint32, ctypes.c_void_p)


def main():
    client, job = sys.argv[1], Job()
    worker = threading.Thread(target=job.work)
    worker.start()
    said = {}
    try:
        while job.steps < 3:
            job.over.wait(0.01)
        said["idle"] = mapped("libcupti")
        said["first"] = capture(client)
        libraries = said["mapped"] = mapped("libcupti")
        if len(libraries) == 1:
            cupti = ctypes.CDLL(libraries[0])
            subscriber, nothing = ctypes.c_void_p(), CALLBACK(lambda *_: None)
            said["subscribe"] = cupti.cuptiSubscribe(ctypes.byref(subscriber), nothing, None)
            said["held"] = capture(client)
            said["unsubscribe"] = cupti.cuptiUnsubscribe(subscriber)
            said["again"] = capture(client)
    finally:
        job.over.set()
        worker.join()
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
