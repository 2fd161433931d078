#!/usr/bin/env python3
"""measure.py PART FOLDER - one measurement on the GPU (or the simulated one), printed as JSON. suite.py runs them all, each in a
process of its own. FOLDER takes files.

    machine   the machine, its driver, what profd's doctor says
    launches  what a launch costs the thread that makes it: without the agent, with it idle, while it records, and under bare CUPTI
    switching what becomes of a thread's kernels where CUPTI's kinds are switched beside its launches, and what a launch costs afterwards
    steps     of a training loop (PyTorch): before, during and after captures; memory; switching on and draining
    cycles    60 captures of one process: does anything grow, get slower, or drift?
    graphs    a CUDA graph of 200 kernels: step times alone, recorded by node, recorded as a whole
    sizes     bytes of CUPTI's records as they come, beside the agent's table for that release; fails where they differ
    answers   what this CUPTI answers to what cannot be known without a GPU
    traces    PyTorch jobs recorded by torch.profiler, as timelines for tests/replay, with what truth.py says of them
"""
import contextlib
import ctypes
import gzip
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import machine as machines
import shared

REPEATS = 20
ROUNDS = 5
# The kinds that a capture enables while the step thread stands, and all of them, in its order (agent/cupti/kinds.c).
SWITCHED_KINDS = "17,36,38,1,22,2,10,4,5"
AGENT_KINDS = SWITCHED_KINDS + ",8,9,37,27"
KERNELS_ALONE = "10"
SESSIONS = 200


@contextlib.contextmanager
def daemon():
    """A Gpu with a daemon of its own."""
    with tempfile.TemporaryDirectory(prefix="profd-gpu-") as folder:
        profd = shared.e2e.Profd(folder)
        profd.start_daemon()
        try:
            yield shared.Gpu(profd, shared.looked())
        finally:
            profd.close()


def session_of(gpu, capture):
    with gpu.database(capture) as db:
        row = db.execute("SELECT * FROM sessions").fetchone()
        return dict(row) if row else {}


def library_of(gpu):
    """The libcupti that the agent uses here."""
    job = gpu.steps()
    capture = gpu.profd.trigger(job.pid, "--steps", 1)
    with gpu.database(capture) as db:
        row = db.execute("SELECT s.text FROM sessions JOIN strings s ON s.id = library").fetchone()
    shared.counting.finish(job)
    if not row:
        raise RuntimeError(f"the agent did not record: {gpu.profd.show(capture['capture_id'])['collectors']}")
    return row[0]


def host_bytes(pid):
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def device_bytes():
    """Of all processes together, as nvidia-smi says; None without it."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
        return int(done.stdout) << 20
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


# ---------------------------------------------------------------- machine

def text_of(*command):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        return (done.stdout.strip() or done.stderr.strip())[:2000]
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


def part_machine(_):
    found = shared.looked()
    said = {"gpu": found.name, "driver": found.driver, "devices": found.devices, "system": platform.platform(),
            "glibc": " ".join(platform.libc_ver()), "processors": os.cpu_count(), "python": platform.python_version(),
            "library_path": found.env.get("LD_LIBRARY_PATH", os.environ.get("LD_LIBRARY_PATH", ""))}
    if found.state == machines.REAL:
        said["nvidia_smi"] = text_of("nvidia-smi", "--query-gpu=name,driver_version,memory.total,compute_cap,pstate",
                                     "--format=csv,noheader")
        python = os.environ.get("PROFD_GPU_PYTHON", sys.executable)
        said["torch"] = text_of(python, "-c", "import torch; print(torch.__version__, torch.version.cuda)")
    with daemon() as gpu:
        job = gpu.steps()
        capture = gpu.profd.trigger(job.pid, "--steps", 1)
        said["session"] = session_of(gpu, capture)
        said["library"] = gpu.profd.show(capture["capture_id"])["collectors"]
        done = gpu.profd.run("doctor", "--pid", job.pid, "--format", "json", check=False)
        said["doctor"] = json.loads(done.stdout) if done.stdout.startswith("{") else done.stdout + done.stderr
        shared.counting.finish(job)
    return said


# ---------------------------------------------------------------- launches

def flood(gpu, way, library, threads, folder):
    """One run of cuda_flood; what it prints, with what was lost of a capture."""
    options = ["--seconds=1", f"--threads={threads}"]
    if way.startswith("bare"):
        env = {"CUDA_INJECTION64_PATH": str(shared.WORKLOADS / "libcupti_bare.so"), "CUPTI_BARE_LIBRARY": library,
               "CUPTI_BARE_KINDS": KERNELS_ALONE if way == "bare_kernels" else AGENT_KINDS}
        job = gpu.job("cuda_flood", *options, agent=False, env=env)
    elif way == "none":
        job = gpu.job("cuda_flood", *options, agent=False)
    else:
        trigger = None
        if way == "recording":
            trigger = subprocess.Popen([str(gpu.profd.client), "trigger", "--name", "cuda_flood", "--wait-for", "20s", "--steps", "100000",
                                        "--max-bytes", "1G", "--timeout", "60s", "--format", "json"], env=gpu.profd.env,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            time.sleep(0.3)
        job = gpu.job("cuda_flood", *options)
        said = ended(job)
        if trigger:
            rows = json.loads(trigger.communicate(timeout=90)[0])["captures"]
            said.update(events=sum(row["events"] for row in rows), lost=sum(row["lost"] for row in rows))
        return said
    return ended(job)


def ended(job, seconds=60):
    out, err = job.communicate(timeout=seconds)
    if job.returncode:
        raise RuntimeError(f"{job.args}: {job.returncode} {err[-500:]}")
    return json.loads(out.strip().splitlines()[-1])


def part_launches(folder):
    said = {}
    with daemon() as gpu:
        library = library_of(gpu)
        for threads, rounds in ((1, ROUNDS), (4, 2)):
            runs = {way: [] for way in ("none", "idle", "recording", "bare_kernels", "bare")}
            for _ in range(rounds):
                for way, into in runs.items():
                    into.append(flood(gpu, way, library, threads, folder))
            said[f"threads_{threads}"] = {
                way: {"median_ns": statistics.median(run["ns_median"] for run in made), "least_ns": min(run["ns_least"] for run in made),
                      "launches": sum(run["launches"] for run in made), "lost": sum(run.get("lost", 0) for run in made),
                      "events": sum(run.get("events", 0) for run in made)} for way, made in runs.items()}
    return said


# ---------------------------------------------------------------- switching

def part_switching(_):
    with daemon() as gpu:
        library = library_of(gpu)

        def switch(mode, kinds, *options):
            return ended(gpu.job("cuda_switch", f"--library={library}", f"--mode={mode}", f"--kinds={kinds}", *options, agent=False), 40)
        sessions = [switch("sessions", kinds, f"--hold={hold}", f"--sessions={SESSIONS}")
                    for kinds, hold in ((SWITCHED_KINDS, "none"), (SWITCHED_KINDS, "both"), (KERNELS_ALONE, "none"), ("5,10", "none"))]
        costs = [switch("cost", kinds) for kinds in (SWITCHED_KINDS, KERNELS_ALONE, "4", "5")]
    return {"library": library, "sessions": sessions, "costs": costs}


# ---------------------------------------------------------------- steps

def torch_device():
    device = os.environ.get("PROFD_GPU_TORCH_DEVICE", "cuda")
    if device != "cpu" and shared.looked().state != machines.REAL:
        raise NotHere("PyTorch's CUDA does not run on the simulated driver")
    return device


class NotHere(Exception):
    """This part has nothing to measure here."""


def run_torch(gpu, part, model, folder, rounds=0, seconds=150):
    return gpu.run_python("torch_job.py", part, gpu.profd.client, gpu.profd.store, "--model", model, "--device", torch_device(),
                          "--folder", folder, "--rounds", rounds, python=os.environ.get("PROFD_GPU_PYTHON", sys.executable),
                          timeout=seconds, env={"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")})


def part_steps(folder):
    torch_device()
    said = {}
    for model in ("transformer", "cnn"):
        with daemon() as gpu:
            told = run_torch(gpu, "cost", model, folder, REPEATS)
        captures = told["captures"]

        def median(pick, of=captures):
            values = [pick(capture) for capture in of]
            values = [value for value in values if value is not None]
            return statistics.median(values) if values else None
        said[model] = {
            "step_ns": {when: median(lambda c, when=when: c[when + "_ns"]) for when in ("before", "during", "after")},
            "enable_ns": {"first": captures[0]["session"].get("enable"), "later": median(lambda c: c["session"].get("enable"), captures[1:])},
            "drain_ns": {"first": captures[0]["session"].get("drain"), "later": median(lambda c: c["session"].get("drain"), captures[1:])},
            "clock_error_ns": median(lambda c: c["session"].get("clock_error")),
            "early": sum(c["session"].get("early") or 0 for c in captures),
            "kernels_each": median(lambda c: c["kernels"]), "lost": sum(c["lost"] for c in captures),
            "memory": {"before": told["memory_before"], "after_first": captures[0]["memory"], "after_last": captures[-1]["memory"],
                       "most_during_one": told["memory_during"]},
            "captures": captures}
    return said


# ---------------------------------------------------------------- cycles and graphs

def part_cycles(_, captures=60):
    rows = []
    with daemon() as gpu:
        job = gpu.steps("--kernels=20", "--streams=2", rate=300)
        memory = {"before": [host_bytes(job.pid), device_bytes()]}
        for cycle in range(captures):
            start = time.monotonic()
            capture = gpu.profd.trigger(job.pid, "--steps", 3)
            took = time.monotonic() - start
            session, cost = session_of(gpu, capture), gpu.profd.show(capture["capture_id"])["cost"]
            rows.append([cycle, capture["status"], capture["lost"], session.get("enable"), session.get("drain"),
                         session.get("clock_error"), session.get("early"), session.get("buffer_bytes"), cost["step_before_ns"],
                         cost["step_during_ns"], host_bytes(job.pid), int(took * 1e9)])
            if cycle in (0, captures - 1):
                memory["after_first" if cycle == 0 else "after_last"] = [host_bytes(job.pid), device_bytes()]
        time.sleep(2)
        memory["idle_again"] = [host_bytes(job.pid), device_bytes()]
        said = shared.counting.finish(job)
    columns = ["cycle", "status", "lost", "enable_ns", "drain_ns", "clock_error_ns", "early", "buffer_bytes", "step_before_ns",
               "step_during_ns", "host_bytes", "trigger_ns"]
    return {"columns": columns, "rows": rows, "memory_host_and_device": memory, "wrong": said["wrong"]}


def part_graphs(_):
    said = {}
    with daemon() as gpu:
        for way, options in (("nodes", ["--graphs", "nodes"]), ("whole", ["--graphs", "whole"])):
            job = gpu.steps("--graph=200", "--kernels=1", "--duration-us=2", rate=0)
            runs = []
            for _ in range(5):
                time.sleep(0.2)
                capture = gpu.profd.trigger(job.pid, "--steps", 50, *options)
                cost = gpu.profd.show(capture["capture_id"])["cost"]
                with gpu.database(capture) as db:
                    runs.append({"before_ns": cost["step_before_ns"], "during_ns": cost["step_during_ns"], "lost": capture["lost"],
                                 "kernels": db.execute("SELECT count(*) FROM kernel_records").fetchone()[0],
                                 "graphs": db.execute("SELECT count(*) FROM graph_records").fetchone()[0]})
            said[way] = runs
            shared.counting.finish(job)
    return said


# ---------------------------------------------------------------- sizes

def table_of_sizes(version):
    """{kind: (name, bytes)} of the agent's table for this CUPTI, and the release that it takes it for."""
    places = [machines.ROOT / "agent", machines.ROOT / "sources" / "profd" / "agent"]
    text = next(p for p in (place / "cupti" / "records.def" for place in places) if p.exists()).read_text()
    releases = [(name, int(number)) for name, number in re.findall(r'^CUPTI_RELEASE\("([\d.]+)", (\d+)\)', text, re.M)]
    fitting = [i for i, (_, number) in enumerate(releases) if number <= version]
    if not fitting:
        raise RuntimeError(f"CUPTI {version} is older than the oldest release of the table")
    sizes = {name: [int(n) for n in numbers.split(",")] for name, numbers in re.findall(r"^CUPTI_SIZES\((\w+), ([\d, ]+)\)", text, re.M)}
    kinds = {int(number): name for number, name in re.findall(r"^CUPTI_KIND\((\d+), (\w+),", text, re.M)}
    return {kind: (name, sizes[name][fitting[-1]]) for kind, name in kinds.items() if name in sizes}, releases[fitting[-1]][0]


def part_sizes(folder):
    report = pathlib.Path(folder) / "sizes.json"
    with daemon() as gpu:
        library = library_of(gpu)
        env = {"CUDA_INJECTION64_PATH": str(shared.WORKLOADS / "libcupti_bare.so"), "CUPTI_BARE_LIBRARY": library,
               "CUPTI_BARE_KINDS": AGENT_KINDS + ",49,50", "CUPTI_BARE_REPORT": str(report)}
        job = gpu.job("cuda_steps", "--rate=500", "--seconds=2", "--streams=3", "--graph=8", "--async-alloc=2", "--sync=event", agent=False,
                      env=env)
        ended(job)
        job = gpu.job("cuda_steps", "--rate=500", "--seconds=2", "--graph=8", agent=False, env={
            **env, "CUPTI_BARE_KINDS": "51,4", "CUPTI_BARE_REPORT": str(report) + ".graphs"})
        ended(job)
    told = json.loads(report.read_text())
    told["records"].update({k: v for k, v in json.loads(pathlib.Path(str(report) + ".graphs").read_text())["records"].items() if k == "51"})
    table, release = table_of_sizes(told["version"])
    rows, wrong = {}, []
    for kind, seen in told["records"].items():
        name, bytes_expected = table.get(int(kind), (f"kind {kind}", 0))
        rows[name] = {"kind": int(kind), "count": seen["count"], "bytes": [seen["least_bytes"], seen["most_bytes"]], "table": bytes_expected}
        # One record that nothing followed has no distance.
        if seen["most_bytes"] and {seen["least_bytes"], seen["most_bytes"]} != {bytes_expected}:
            wrong.append(f"{name}: {seen['least_bytes']} to {seen['most_bytes']} bytes, the table of CUDA {release} says {bytes_expected}")
    return {"version": told["version"], "taken_for": release, "library": library, "records": rows, "enabled": told["enabled"],
            "wrong": wrong}


# ---------------------------------------------------------------- answers

class Asked:
    """Calls into libcupti, with what they answered and how long they took."""

    def __init__(self, library):
        self.library, self.said = ctypes.CDLL(library), {}

    def call(self, word, function, *arguments):
        try:
            found = getattr(self.library, function)
        except AttributeError:
            self.said[word] = {"missing": function}
            return None
        start = time.perf_counter_ns()
        result = found(*arguments)
        self.said[word] = {"result": result, "ns": time.perf_counter_ns() - start}
        return result

    def note(self, word, **facts):
        self.said[word].update(facts)


def ask_all(library):
    """In a process of its own, with the driver up."""
    cuda, u32, size = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint32, ctypes.c_size_t
    context, device = ctypes.c_void_p(), ctypes.c_int()
    cuda.cuInit(0)
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    cuda.cuCtxSetCurrent(context)
    ask = Asked(library)
    version = u32()
    ask.call("version", "cuptiGetVersion", ctypes.byref(version))
    ask.note("version", value=version.value)
    kind_of_id = ctypes.c_int(-1)
    ask.call("thread_id_type", "cuptiGetThreadIdType", ctypes.byref(kind_of_id))
    ask.note("thread_id_type", value=kind_of_id.value)
    for attribute, word in ((0, "device_buffer_size"), (2, "device_buffer_pool_limit"), (5, "zeroed_out"), (6, "pre_allocate"),
                            (9, "per_thread")):
        value, length = ctypes.c_uint64(0), size(1 if attribute in (5, 9) else 8)
        ask.call("attribute_" + word, "cuptiActivityGetAttribute", attribute, ctypes.byref(length), ctypes.byref(value))
        ask.note("attribute_" + word, value=value.value)
    stamp = ctypes.c_uint64()
    ask.call("timestamp_first", "cuptiGetTimestamp", ctypes.byref(stamp))
    before = time.clock_gettime_ns(time.CLOCK_REALTIME)
    ask.call("timestamp", "cuptiGetTimestamp", ctypes.byref(stamp))
    ask.note("timestamp", behind_realtime_ns=stamp.value - before)
    nothing = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint, u32, ctypes.c_void_p)(lambda *_: None)
    first, second = ctypes.c_void_p(), ctypes.c_void_p()
    ask.call("subscribe", "cuptiSubscribe", ctypes.byref(first), nothing, None)
    ask.call("subscribe_second", "cuptiSubscribe", ctypes.byref(second), nothing, None)

    class Parameters(ctypes.Structure):
        _fields_ = [("bytes", size), ("name", ctypes.c_char_p), ("other", ctypes.c_char_p), ("other_bytes", size),
                    ("multiple", ctypes.c_uint8), ("padding", ctypes.c_uint8 * 7)]
    other = ctypes.create_string_buffer(128)
    # The last member came with 13.2.
    wish = Parameters(ctypes.sizeof(Parameters) - (0 if version.value >= 130200 else 8), b"profd's test",
                      ctypes.cast(other, ctypes.c_char_p), 127, 0)
    ask.call("subscribe_v2_second", "cuptiSubscribe_v2", ctypes.byref(second), nothing, None, ctypes.byref(wish))
    if "result" in ask.said["subscribe_v2_second"]:
        ask.note("subscribe_v2_second", other=other.value.decode(errors="replace"))
    ask.call("unsubscribe", "cuptiUnsubscribe", first)
    wish.multiple = 1
    ask.call("subscribe_v2_multiple", "cuptiSubscribe_v2", ctypes.byref(first), nothing, None, ctypes.byref(wish))
    if ask.said["subscribe_v2_multiple"].get("result") == 0:
        ask.call("subscribe_v2_multiple_second", "cuptiSubscribe_v2", ctypes.byref(second), nothing, None, ctypes.byref(wish))
        if ask.said["subscribe_v2_multiple_second"]["result"] == 0:
            ask.call("unsubscribe_second", "cuptiUnsubscribe", second)
        ask.call("unsubscribe_multiple", "cuptiUnsubscribe", first)
    ask_kinds(ask, u32, size)
    return ask.said


def ask_kinds(ask, u32, size):
    buffers = []
    requested = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(size), ctypes.POINTER(size))
    completed = ctypes.CFUNCTYPE(None, ctypes.c_void_p, u32, ctypes.c_void_p, size, size)

    def on_request(buffer, length, most):
        buffers.append(ctypes.create_string_buffer((1 << 20) + 64))
        buffer[0] = (ctypes.addressof(buffers[-1]) + 63) & ~63
        length[0], most[0] = 1 << 20, 0
    keep = ask.kept = [requested(on_request), completed(lambda *_: None), buffers]
    ask.call("register", "cuptiActivityRegisterCallbacks", keep[0], keep[1])
    for kind in (8, 9, 37):
        ask.call(f"enable_and_dump_{kind}", "cuptiActivityEnableAndDump", kind)
    for kind in (10, 1, 22, 2, 38, 17, 36, 27, 4, 5, 49, 50, 51, 25):
        ask.call(f"enable_{kind}", "cuptiActivityEnable", kind)
    ask.call("one_call_off", "cuptiActivityEnableRuntimeApi", u32(1), ctypes.c_uint8(0))
    ask.call("one_driver_call_off", "cuptiActivityEnableDriverApi", u32(1), ctypes.c_uint8(0))
    length = size()
    ask.call("struct_size_of_kernel_9", "cuptiActivityGetStructSize", 10, u32(9), ctypes.byref(length))
    if "result" in ask.said["struct_size_of_kernel_9"]:
        ask.note("struct_size_of_kernel_9", value=length.value)
    running = u32()
    ask.call("enabled_kinds", "cuptiActivityGetEnabledKinds", None, None, None, ctypes.byref(running))
    if "result" in ask.said["enabled_kinds"]:
        ask.note("enabled_kinds", value=running.value)
    ask.call("flush", "cuptiActivityFlushAll", u32(0))
    for kind in (51, 50, 49, 25, 5, 4, 27, 36, 17, 38, 2, 22, 1, 10, 37, 9, 8):
        ask.call(f"disable_{kind}", "cuptiActivityDisable", kind)
    ask.call("flush_forced", "cuptiActivityFlushAll", u32(1))
    for kind in (10, 5):
        ask.call(f"enable_again_{kind}", "cuptiActivityEnable", kind)
        ask.call(f"disable_again_{kind}", "cuptiActivityDisable", kind)
    ask.call("flush_last", "cuptiActivityFlushAll", u32(1))


def part_answers(_):
    with daemon() as gpu:
        library = library_of(gpu)
        done = subprocess.run([sys.executable, __file__, "ask", library], env={**os.environ, **gpu.machine.env},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"the process that asked ended with {done.returncode}: {done.stderr[-500:]}")
    return {"library": library, "answers": json.loads(done.stdout.splitlines()[-1])}


# ---------------------------------------------------------------- traces

def part_traces(folder):
    rehearsal = torch_device() == "cpu"
    slug = "rehearsal" if rehearsal else re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?i)nvidia|geforce|tesla", "", shared.looked().name).lower()).strip("_")
    said, wrong = {}, []
    for model in ("transformer", "streams", "graph"):
        with daemon() as gpu:
            trace = pathlib.Path(run_torch(gpu, "traces", model, folder)["trace"])
        name = f"{slug}_torch_{model}"
        recording = trace.rename(trace.parent / f"{name}.json")
        said[model] = {"bytes": recording.stat().st_size, "files": []}
        for program, suffix in (("from_kineto.py", ".timeline.gz"), ("truth.py", ".truth.json.gz")):
            target = pathlib.Path(folder) / (name + suffix)
            done = subprocess.run([sys.executable, machines.HERE.parent / "replay" / program, recording, target],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
            if done.returncode == 0:
                said[model]["files"].append(target.name)
                continue
            # The recording itself is what says why.
            target.unlink(missing_ok=True)
            wrong.append(f"{program} of {name}: {done.stderr[-800:]}")
            target = pathlib.Path(folder) / (name + ".json.gz")
            target.write_bytes(gzip.compress(recording.read_bytes(), mtime=0))
            said[model]["files"].append(target.name)
    return {"models": said, "wrong": wrong}


PARTS = [name[5:] for name in list(globals()) if name.startswith("part_")]


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "ask":
        print(json.dumps(ask_all(arguments[1])), flush=True)
        # What the driver or CUPTI does at the end of this process is not asked here.
        os._exit(0)
    if len(arguments) != 2 or arguments[0] not in PARTS:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        said = globals()["part_" + arguments[0]](arguments[1])
    except NotHere as reason:
        said = {"not_here": str(reason)}
    except shared.pytest.fail.Exception as error:
        said = {"error": str(error)}
    except Exception as error:  # whatever it was, it is this part's answer
        said = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()[-3000:]}
    print(json.dumps(said), flush=True)
    return 1 if "error" in said or said.get("wrong") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
