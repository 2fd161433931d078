#!/usr/bin/env python3
"""fetch.py RELEASE... | all: CUPTI's headers and library of CUDA releases, from their PyPI wheels, into a cache.

Prints one line a release: its name and a folder with include/ (cupti.h, cuda.h, generated_*_meta.h, crt/, ...) and lib/
(libcupti.so.N). The folder is CACHE/cupti-RELEASE-VERSION, CACHE being $PROFD_CACHE, else ~/.cache/profd; whoever comes
first makes it, the others wait. Run it with the Python of a venv, as ./dev does: the system's Python may have no pip.
"""
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
# crt/host_defines.h, which every release's headers include, is in a wheel of its own: macros for the compiler alone, the same
# for all releases as far as a C compiler reads them. Before CUDA 13 it comes with nvcc, in wheels of 20 to 40 MB.
CRT = "nvidia-cuda-crt==13.0.88"


def cache_folder():
    if os.environ.get("PROFD_CACHE"):
        return pathlib.Path(os.environ["PROFD_CACHE"])
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path(os.environ.get("HOME", "/tmp"), ".cache")
    return pathlib.Path(base, "profd")


def releases():
    """{release: (version of the cupti wheel, version of the runtime wheel)}, oldest first."""
    rows = {}
    for line in (HERE / "releases.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            release, cupti, runtime = line.split()
            rows[release] = (cupti, runtime)
    return rows


def wheel_suffix(release):
    major = int(release.split(".")[0])
    return f"-cu{major}" if major < 13 else ""


def download(requirement, folder):
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
               "--only-binary=:all:", "-d", str(folder), requirement]
    for _ in range(3):
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode == 0:
            return
    sys.exit(f"fetch.py: {requirement} could not be fetched from PyPI; is the network there?")


def unpack(wheel, target):
    """What lies under any include/ or lib/ folder of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            parts = pathlib.PurePosixPath(name).parts
            for part in ("include", "lib"):
                if part in parts[:-1] and not name.endswith("/"):
                    kept = target.joinpath(part, *parts[parts.index(part) + 1:])
                    if part == "lib" and not parts[-1].startswith("libcupti.so"):
                        break
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    kept.write_bytes(archive.read(name))
                    break


def crt():
    """The folder with include/crt/."""
    folder = cache_folder() / CRT.replace("==", "-")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "include" / "crt" / "host_defines.h").exists():
            with tempfile.TemporaryDirectory() as wheels:
                download(CRT, wheels)
                for wheel in pathlib.Path(wheels).glob("*.whl"):
                    unpack(wheel, folder)
    return folder


def fetch(release):
    """The folder of one release."""
    cupti, runtime = releases()[release]
    folder = cache_folder() / f"cupti-{release}-{cupti}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / ".complete").exists():
            if not (folder / "include" / "crt" / "host_defines.h").exists():  # a cache that was made without it
                shutil.copytree(crt() / "include" / "crt", folder / "include" / "crt", dirs_exist_ok=True)
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        with tempfile.TemporaryDirectory() as wheels:
            suffix = wheel_suffix(release)
            download(f"nvidia-cuda-cupti{suffix}=={cupti}", wheels)
            download(f"nvidia-cuda-runtime{suffix}=={runtime}", wheels)
            for wheel in pathlib.Path(wheels).glob("*.whl"):
                unpack(wheel, folder)
        shutil.copytree(crt() / "include" / "crt", folder / "include" / "crt", dirs_exist_ok=True)
        if not (folder / "include" / "cupti.h").exists() or not (folder / "include" / "cuda.h").exists():
            sys.exit(f"fetch.py: the wheels of {release} hold no cupti.h or cuda.h")
        (folder / ".complete").touch()
    return folder


def main():
    known = releases()
    wanted = sys.argv[1:]
    if not wanted or wanted == ["all"]:
        wanted = list(known)
    for release in wanted:
        if release not in known:
            sys.exit(f"fetch.py: {release} is not one of {' '.join(known)}")
        print(release, fetch(release), flush=True)


if __name__ == "__main__":
    main()
