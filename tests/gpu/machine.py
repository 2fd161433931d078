"""machine.py - which GPU is there, and the daemon, jobs and captures of tests/e2e for the tests here.

    machine.py      prints what was found as JSON; exit code 0 a GPU (or a simulated one), 3 none, 1 one that cannot be used

PROFD_SIM=12.4 puts the simulated GPU of build/sim/12.4 before every job; else it is what a program finds by itself. A GPU that
is there by its device nodes or by nvidia-smi, and whose driver does not come up, is unusable, which is a failure.
PROFD_GPU_PYTHON names the python whose torch is asked where CUPTI lies; else it is the one that runs this.
"""
import collections
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD", ROOT / "build"))

# As tests/sim/simcuda.h.
SIMULATED_PREFIX = "Simulated "

Machine = collections.namedtuple("Machine", "state name driver devices reason env")
NONE, UNUSABLE, SIMULATED, REAL = "none", "unusable", "simulated", "real"

# Asks the driver in a process of its own: a driver that crashes or hangs is an answer too.
ASK = """
import ctypes, json, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    print(json.dumps({"loaded": 0, "reason": str(error)}))
    sys.exit()
result = cuda.cuInit(0)
count, version, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(128)
cuda.cuDriverGetVersion(ctypes.byref(version))
if not result:
    cuda.cuDeviceGetCount(ctypes.byref(count))
    if count.value:
        cuda.cuDeviceGetName(name, 128, 0)
print(json.dumps({"loaded": 1, "result": result, "devices": count.value, "driver": version.value,
                  "name": name.value.decode(errors="replace")}))
"""


def hardware():
    """What says that there is a GPU, driver or not: a sentence, or None."""
    for pattern in ("/proc/driver/nvidia/gpus/*", "/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/dxg"):
        found = sorted(glob.glob(pattern))
        if found:
            return f"{found[0]} is there"
    path = shutil.which("nvidia-smi")
    return f"{path} is there" if path else None


def cupti_folder():
    """A folder with the CUPTI of torch or of the toolkit, for programs that have neither; None where there is none."""
    python = os.environ.get("PROFD_GPU_PYTHON", sys.executable)
    ask = "import importlib.util as u; s = u.find_spec('nvidia'); print('\\n'.join(s.submodule_search_locations if s else []))"
    try:
        done = subprocess.run([python, "-c", ask], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        places = done.stdout.split("\n")
    except (OSError, subprocess.TimeoutExpired):
        places = []
    patterns = [f"{place}/*/lib" for place in places if place] + [
        "/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64", "/usr/local/cuda-*/extras/CUPTI/lib64"]
    for pattern in patterns:
        for folder in sorted(glob.glob(pattern), reverse=True):
            if glob.glob(folder + "/libcupti.so.*"):
                return folder
    return None


def with_paths(*folders):
    given = [p for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p]
    return {"LD_LIBRARY_PATH": ":".join([*folders, *given])}


def ask_driver(env):
    try:
        done = subprocess.run([sys.executable, "-c", ASK], env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return {"loaded": 1, "result": -1, "reason": "cuInit did not return within 60 s"}
    if done.returncode:
        return {"loaded": 1, "result": -1, "reason": f"the driver ended a process with {done.returncode}: {done.stderr[-300:]}"}
    return json.loads(done.stdout)


def look():
    """The Machine."""
    release = os.environ.get("PROFD_SIM")
    if release:
        folder = BUILD / "sim" / release
        if not folder.is_dir():
            return Machine(UNUSABLE, "", 0, 0, f"PROFD_SIM={release}: there is no {folder}; ./dev sim {release} makes it", {})
        env = {**with_paths(str(folder)), "SIMCUDA": os.environ.get("SIMCUDA", f"driver={release},devices=2")}
    else:
        env = {}
    said, sign = ask_driver(env), f"PROFD_SIM={release}" if release else hardware()
    if said["loaded"] and said["result"] == 0 and said["devices"]:
        state = SIMULATED if said["name"].startswith(SIMULATED_PREFIX) else REAL
        if state == REAL:
            folder = cupti_folder()
            env = with_paths(folder) if folder else {}
        return Machine(state, said["name"], said["driver"], said["devices"], "", env)
    if not said["loaded"]:
        reason = said["reason"]
    elif said["result"]:
        reason = said.get("reason", f"cuInit answers {said['result']}")
    else:
        reason = "the driver knows no device"
    if sign:
        return Machine(UNUSABLE, "", 0, 0, f"{sign}, but: {reason}", {})
    return Machine(NONE, "", 0, 0, f"no GPU: {reason}", {})


if __name__ == "__main__":
    found = look()
    print(json.dumps(found._asdict()))
    sys.exit({NONE: 3, UNUSABLE: 1}.get(found.state, 0))
