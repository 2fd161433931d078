#!/usr/bin/env python3
"""pack.py FOLDER BUILD NAME=SOURCE... - makes the folder of `./dev gpu --pack`, which is called here and nowhere else.

BUILD is a build folder with PROFD_STATIC. NAME=SOURCE say where the libraries' sources lie: cjson (cJSON.c), uv (libuv's root),
sqlite (sqlite3.c), zlib, yajl, iberty (libiberty's root). Everything is copied; the folder must not exist, or be one of these."""
import os
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 48 << 20
MARK = "packed by ./dev gpu --pack"
WORKLOADS = ["cuda_steps", "cuda_exits", "cuda_flood", "cuda_switch", "libcupti_bare.so"]
TESTS = ["gpu", "e2e/conftest.py", "e2e/house.py", "e2e/proc.py", "e2e/sums.py", "e2e/breakdown_reference.py", "e2e/gpu.py", "e2e/training.py", "workloads/train.py", "workloads/without_compiler.py",
         "replay/from_kineto.py", "replay/timeline.py", "replay/truth.py"]


def copy(source, target, patterns=("*",)):
    """A file, or what a folder holds of these patterns, with its subfolders."""
    source, target = pathlib.Path(source), pathlib.Path(target)
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
        return
    found = sorted(path for pattern in patterns for path in source.rglob(pattern)
                   if path.is_file() and "__pycache__" not in path.parts)
    if not found:
        sys.exit(f"pack: {source} holds no {' '.join(patterns)}")
    for path in found:
        copy(path, target / path.relative_to(source))


def copy_flat(source, target, *patterns):
    """Only the files of the folder itself."""
    found = [path for pattern in patterns for path in pathlib.Path(source).glob(pattern)]
    if not found:
        sys.exit(f"pack: {source} holds no {' '.join(patterns)}")
    for path in found:
        copy(path, pathlib.Path(target) / path.name)


def uv_sources(root):
    """The .c files below src/unix that libuv's own build takes on Linux."""
    text = (root / "CMakeLists.txt").read_text()
    common = re.search(r"list\(APPEND uv_sources\s+(src/unix/async\.c[^)]*)\)", text)
    linux = re.search(r"CMAKE_SYSTEM_NAME STREQUAL \"Linux\"\)(.*?)endif\(\)", text, re.S)
    names = re.findall(r"src/unix/[\w-]+\.c", common.group(1) + linux.group(1)) if common and linux else []
    if len(names) < 20:
        sys.exit("pack: libuv's CMakeLists.txt is not as it was")
    return [root / name for name in dict.fromkeys(names + ["src/unix/proctitle.c"])]


def pack_sources(to, build, libraries):
    copy(ROOT / "tests" / "gpu" / "build.sh", to / "build.sh")
    for part in ("proto", "store", "agent", "daemon", "client"):
        copy(ROOT / part, to / "profd" / part, ("*.c", "*.h", "*.def", "*.map"))
    # What CMake makes of docs/json.md, and of the files of client/page/.
    for made in ("json_reference.c", "template.c"):
        copy(build / "client" / made, to / "profd" / "client" / made)
    copy(ROOT / "cmake" / "old_glibc.h", to / "profd" / "cmake" / "old_glibc.h")
    copy(ROOT / "LICENSE", to / "profd" / "LICENSE")
    for name in WORKLOADS:
        source = f"{name.split('.')[0]}.c"
        copy(ROOT / "tests" / "workloads" / source, to / "profd" / "tests" / "workloads" / source)
    copy(ROOT / "tests" / "workloads" / "workload.h", to / "profd" / "tests" / "workloads" / "workload.h")
    copy(ROOT / "tests" / "sim" / "simcuda.h", to / "profd" / "tests" / "sim" / "simcuda.h")
    copy(ROOT / "tests" / "workloads" / "cuda", to / "profd" / "tests" / "workloads" / "cuda")
    third, include = to / "third", to / "third" / "include"
    copy(libraries["cjson"] / "cJSON.c", third / "cjson" / "cJSON.c")
    copy(libraries["cjson"] / "cJSON.h", include / "cjson" / "cJSON.h")
    copy(libraries["sqlite"] / "sqlite3.c", third / "sqlite" / "sqlite3.c")
    copy(libraries["sqlite"] / "sqlite3.h", include / "sqlite3.h")
    copy_flat(libraries["zlib"], third / "zlib", "*.c", "*.h")
    copy_flat(libraries["zlib"], include, "zlib.h", "zconf.h")
    yajl = libraries["yajl"]
    for part in ("yajl", "yajl_alloc", "yajl_buf", "yajl_encode", "yajl_lex", "yajl_parser"):
        copy(yajl / "src" / f"{part}.c", third / "yajl" / f"{part}.c")
    copy_flat(yajl / "src", third / "yajl", "*.h")
    copy_flat(yajl / "src" / "api", third / "yajl" / "api", "*.h")
    copy_flat(yajl / "src" / "api", include / "yajl", "*.h")
    uv = libraries["uv"]
    copy(uv / "include", include, ("*.h",))
    copy_flat(uv / "src", third / "uv" / "src", "*.c", "*.h")
    copy_flat(uv / "src" / "unix", third / "uv" / "src" / "unix", "*.h")
    for path in uv_sources(uv):
        copy(path, third / "uv" / "src" / "unix" / path.name)
    iberty = libraries["iberty"]
    for name in ("cp-demangle.c", "cp-demangle.h"):
        copy(iberty / "libiberty" / name, third / "iberty" / name)
    for name in ("ansidecl.h", "libiberty.h", "demangle.h"):
        copy(iberty / "include" / name, include / "libiberty" / name)
    for name, folder in libraries.items():
        licences = [path for pattern in ("LICENSE*", "COPYING*", "README*") for path in folder.glob(pattern) if path.is_file()]
        for path in licences:
            copy(path, third / "licences" / name / path.name)


def main(arguments):
    to, build = pathlib.Path(arguments[0]).resolve(), pathlib.Path(arguments[1]).resolve()
    libraries = {name: pathlib.Path(path) for name, path in (word.split("=", 1) for word in arguments[2:])}
    if to.exists():
        if not (to / "PACKED").exists() and any(to.iterdir()):
            sys.exit(f"pack: {to} is there, and none of these folders: it is left alone")
        shutil.rmtree(to)
    to.mkdir(parents=True)
    (to / "PACKED").write_text(f"{MARK}; ./run [FOLDER] runs it\n")
    for name in ("profd", "profd-daemon"):
        copy(build / "bin" / name, to / "bin" / name)
    copy(build / "lib" / "libprofd_agent.so", to / "lib" / "libprofd_agent.so")
    for name in WORKLOADS:
        copy(build / "workloads" / name, to / "workloads" / name)
    for name in TESTS:
        copy(ROOT / "tests" / name, to / "tests" / name)
    copy(ROOT / "tests" / "gpu" / "run.sh", to / "run")
    pack_sources(to / "sources", build, libraries)
    os.chmod(to / "run", 0o755)
    total = sum(path.stat().st_size for path in to.rglob("*") if path.is_file())
    if total > MOST_BYTES:
        sys.exit(f"pack: {to} has {total} bytes, more than {MOST_BYTES}")
    print(f"{to}: {total / 1e6:.1f} MB; {to}/run [FOLDER] tests and measures on a machine with a GPU")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
