"""`profd doctor --pid` looks at processes that the caller does not trust, often as root: by a path that such a process chooses
nothing is opened that its user could not have read."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

import pytest

from cli import *  # noqa: F401,F403 (fixtures)

SECRET = "__version__ = 'a line that only its owner can read'\n"
NOBODY = 65534
JOB = "import mmap, sys; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print(flush=True); input()"


@pytest.fixture
def place():
    """A folder that every user can enter, with a libtorch_cpu.so of sorts, and a secret beside it."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="profd-doctor-"))
    path.chmod(0o755)
    (path / "torch" / "lib").mkdir(parents=True)
    (path / "torch" / "lib" / "libtorch_cpu.so").write_bytes(bytes(4096))
    (path / "secret").mkdir(mode=0o700)
    (path / "secret" / "file").write_text(SECRET)
    (path / "secret" / "file").chmod(0o600)
    yield path
    shutil.rmtree(path)


@contextlib.contextmanager
def job(place, *before, user=None):
    library = place / "torch" / "lib" / "libtorch_cpu.so"
    process = subprocess.Popen([*before, "/usr/bin/python3", "-c", JOB, str(library)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               user=user)
    try:
        assert process.stdout.readline() == b"\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def doctor(client, process):
    done = client.run("doctor", "--pid", process.pid, timeout=60)
    assert done.returncode == 7, done  # there is no daemon
    return " ".join((done.stdout + done.stderr).split())


def a_link(place, version):
    version.symlink_to(place / "secret" / "file")


def a_pipe(place, version):
    os.mkfifo(version, 0o666)


def a_folder(place, version):
    version.mkdir()


def a_device(place, version):
    os.mknod(version, 0o666 | 0o020000, os.makedev(1, 5))  # /dev/zero


def a_socket(place, version):
    socket.socket(socket.AF_UNIX).bind(str(version))


def roots_own(place, version):
    version.write_text(SECRET)
    version.chmod(0o600)


def a_hard_link(place, version):
    (place / "secret" / "file").chmod(0o644)
    os.link(place / "secret" / "file", version)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's processes are for root to look at")
@pytest.mark.parametrize("made", [a_link, a_pipe, a_folder, a_device, a_socket, roots_own, a_hard_link])
def test_of_another_user(lonely, place, made):
    made(place, place / "torch" / "version.py")
    with job(place, user=NOBODY) as process:
        said = doctor(lonely, process)
    assert "only its owner" not in said and "torch of a version that cannot be read" in said, said


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's processes are for root to look at")
@pytest.mark.parametrize("owner, mode", [(NOBODY, 0o600), (0, 0o644)])
def test_what_its_user_could_read(lonely, place, owner, mode):
    version = place / "torch" / "version.py"
    version.write_text("__version__ = '2.15.0+cpu'\n")
    version.chmod(mode)
    os.chown(version, owner, owner)
    with job(place, user=NOBODY) as process:
        assert "torch 2.15.0+cpu" in doctor(lonely, process)


@pytest.mark.parametrize("made", [a_pipe, a_folder])
def test_of_the_same_user(lonely, place, made):
    made(place, place / "torch" / "version.py")
    with job(place) as process:
        assert "torch of a version that cannot be read" in doctor(lonely, process)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a mount namespace")
def test_a_root_of_its_own(lonely, place):
    """A container's path is looked up in the container: there, and not here, this is the version."""
    (place / "torch" / "version.py").write_text("__version__ = '2.2.2'\n")
    inner = place / "inner"
    inner.mkdir()
    mounts = f"mount -t tmpfs none {inner} && cp -r {place}/torch {inner} && echo \"__version__ = '2.7.1'\" > {inner}/torch/version.py && " \
             f"mount --bind {inner}/torch {place}/torch && exec \"$@\""
    with job(place, "unshare", "-m", "sh", "-c", mounts, "sh") as process:
        assert "torch 2.7.1" in doctor(lonely, process)


@pytest.mark.parametrize("version, recorded", [("1.13.1", False), ("2.0.1", False), ("2.3.1+cu121", False), ("2.4.0", True), ("2.15.0+cpu", True)])
def test_what_a_torch_gives(lonely, place, version, recorded):
    """As the agent itself would answer: it records no operators of a torch before 2.4."""
    (place / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
    with job(place) as process:
        said = doctor(lonely, process)
    assert f"torch {version}" in said, said
    assert ("operators need torch 2.4 or later" in said) != recorded, said
    assert ("operators, user ranges and optimizer steps could be recorded; input shapes too" in said) == recorded, said
