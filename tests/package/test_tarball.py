"""The tarball of ./dev static: what is in it, what it asks of a machine, and that it works where nothing else is installed."""
import base64
import gzip
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import time

import pytest

from conftest import OUTSIDE, ROOT, wanted

OLDEST_GLIBC = (2, 17)
# The parts of a C library, whichever glibc.
LIBC = re.compile(r"(libc\.so\.6|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1|ld-linux-[\w-]+\.so\.\d)$")
PROGRAMS = ("bin/profd", "bin/profd-daemon")
AGENT = "lib/profd/libprofd_agent.so"


@pytest.fixture(scope="module")
def tarball():
    return wanted("PROFD_TARBALL")


@pytest.fixture(scope="module")
def machine(tarball):
    return tarball.name.split("-linux-")[1].split(".")[0]


@pytest.fixture(scope="module")
def unpacked(tarball, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tarball")
    subprocess.run(["tar", "-C", folder, "-xzf", tarball], check=True)
    (top,) = folder.iterdir()
    assert tarball.name == top.name + ".tar.gz"
    return top


@pytest.fixture
def own_machine(machine):
    if machine != platform.machine():
        pytest.skip(f"programs for {machine}; this is {platform.machine()}")


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], check=True, capture_output=True, text=True).stdout


def test_what_is_in_it(tarball, unpacked):
    with tarfile.open(tarball) as archive:
        members = archive.getmembers()
    names = [member.name for member in members]
    assert names == sorted(names), "sorted, so that the same commit makes the same bytes"
    assert {(member.uid, member.gid) for member in members} == {(0, 0)} and len({member.mtime for member in members}) == 1
    files = {member.name.split("/", 1)[1]: member for member in members if member.isfile()}
    documents = [f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")]
    assert "docs/reading.md" in documents
    for name in (*PROGRAMS, AGENT, "include/profd.h", "README", "LICENSE", "THIRD-PARTY", "README.md", "CHANGELOG.md", *documents):
        assert name in files, f"{name} is missing"
    for name, member in files.items():
        assert member.mode in (0o644, 0o755), f"{name}: {member.mode:o}"
    assert not [name for name in files if name.endswith((".a", ".cmake", ".pc"))]
    notices = (unpacked / "THIRD-PARTY").read_text()
    for word in ("libuv", "SQLite", "cJSON", "zlib", "yajl", "libiberty", "unlimited permission to link", "disclaims copyright"):
        assert word in notices


def test_nothing_of_the_machine_that_built_it(unpacked):
    places = [str(ROOT).encode(), os.path.expanduser("~/.cache").encode()]
    for path in unpacked.rglob("*"):
        if path.is_file():
            text = path.read_bytes()
            # README.md tells where ./dev keeps what it fetches: ~/.cache/profd.
            for place in places + ([] if path.suffix == ".md" else [b"/.cache/"]):
                assert place not in text, f"{path.name} holds {place.decode()}"


@pytest.mark.parametrize("name", [*PROGRAMS, AGENT])
def test_asks_for_an_old_libc_alone(unpacked, machine, name):
    path = unpacked / name
    head = readelf("--file-header", path)
    assert {"x86_64": "X86-64", "aarch64": "AArch64"}[machine] in head
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", path))
    assert needed and all(LIBC.match(library) for library in needed), needed
    versions = set(re.findall(r"@GLIBC_(\d+)\.(\d+)", readelf("--dyn-syms", path)))
    assert versions
    newer = [version for version in versions if (int(version[0]), int(version[1])) > OLDEST_GLIBC]
    assert not newer, f"{name} asks for glibc {newer}"
    others = [version for version in re.findall(r" UND \S+@([A-Z]\w+?)_[\d.]+", readelf("--dyn-syms", path)) if version != "GLIBC"]
    assert not others, f"{name} asks for symbols of {others}"
    if name != AGENT:
        assert "Shared object file" in head or "Position-Independent" in head, "not position independent"
        assert "GNU_RELRO" in readelf("--segments", path) and "NOW" in readelf("--dynamic", path)
    assert not re.search(r"GNU_STACK.*RWE", readelf("--segments", path))
    assert "RPATH" not in readelf("--dynamic", path) and "RUNPATH" not in readelf("--dynamic", path)


def test_the_agent_keeps_its_rules(unpacked):
    """What tests/lint asks of the agent that is built here, asked of the one that is handed out."""
    result = subprocess.run([sys.executable, ROOT / "tests/lint/lint.py", "--agent", unpacked / AGENT], capture_output=True, text=True,
                            check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_starts_emulated(unpacked, machine, tmp_path):
    """Another machine's programs: they start, and the client finds its daemon."""
    if machine == platform.machine():
        pytest.skip("they are run as they are, in the tests below")
    qemu = [f"qemu-{machine}", "-L", f"/usr/{machine}-linux-gnu"]
    env = {**os.environ, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    os.chmod(tmp_path, 0o700)

    def run(*words):
        return subprocess.run([*qemu, *map(str, words)], env=env, capture_output=True, text=True, timeout=60, check=False)

    version = unpacked.name.split("-")[1]
    assert run(unpacked / "bin/profd", "version").stdout == f"profd {version}\n"
    with subprocess.Popen([*qemu, unpacked / "bin/profd-daemon", "--user"], env=env, stderr=subprocess.DEVNULL) as daemon:
        try:
            for _ in range(100):
                status = run(unpacked / "bin/profd", "status", "--format", "json")
                if status.returncode == 0:
                    break
                time.sleep(0.1)
            (one,) = json.loads(status.stdout)["daemons"]
            assert one["version"] == version and one["pid"] == daemon.pid
        finally:
            daemon.terminate()
            assert daemon.wait(20) == 0
    # A job with the agent in it does what it does without.
    steps = wanted("PROFD_STEPS")
    plain = subprocess.run([*qemu, steps, "--steps=20"], env=env, capture_output=True, text=True, timeout=60, check=True)
    injected = subprocess.run([*qemu, "-E", f"LD_PRELOAD={unpacked / AGENT}", steps, "--steps=20"], env=env, capture_output=True, text=True,
                              timeout=60, check=True)
    assert json.loads(injected.stdout)["agent"] and not json.loads(plain.stdout)["agent"]
    assert json.loads(injected.stdout)["checksum"] == json.loads(plain.stdout)["checksum"] and injected.stderr == ""


def test_a_job_from_an_unpacked_folder(tarball, own_machine, bare):
    """In a bare root file system, for a user of it, from a folder that is nobody's installation."""
    machine = bare(tarball, wanted("PROFD_STEPS"))
    machine.run(f"mkdir -p /srv/tools && tar -C /srv/tools -xzf {OUTSIDE}/{tarball.name}")
    assert machine.run("command -v gcc make python3", check=False).stdout == "", "the root is not bare"
    profd = f"/srv/tools/{tarball.name.removesuffix('.tar.gz')}/bin/profd"

    def run(*words, code=0):
        done = machine.run([profd, *words], user="alice", check=False)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    assert run("version").startswith("profd ")
    run("ps", code=7)
    daemon = machine.popen([profd, "daemon", "--user"], user="alice")
    machine.wait(lambda: machine.run([profd, "status"], user="alice", check=False).returncode == 0, 20, "the daemon")
    job = machine.popen([profd, "run", "--name", "bare", "--", f"{OUTSIDE}/steps", "--steps=2000"], user="alice")
    (process,) = machine.wait(lambda: json.loads(run("ps", "--format", "json"))["processes"], 20, "the job")
    assert (process["name"], process["pid"], process["user"]) == ("bare", job.pid, "alice")
    (capture,) = json.loads(run("trigger", "--pid", job.pid, "--steps", 3, "--format", "json"))["captures"]
    assert (capture["status"], capture["steps_recorded"], capture["lost"]) == ("complete", 3, 0)
    shown = json.loads(run("show", capture["capture_id"], "--format", "json"))
    assert len(shown["steps"]) == 3 and {"work 0", "step"} <= {one["name"] for one in shown["ranges"]}
    run("export", capture["capture_id"], "--output", "/tmp/trace.json.gz")
    trace = machine.run("base64 /tmp/trace.json.gz", user="alice").stdout
    events = json.loads(gzip.decompress(base64.b64decode(trace)))["traceEvents"]
    assert sum(event.get("name") == "work 0" for event in events) == 3
    # The one library that it takes from the machine.
    there = machine.run("ls /usr/lib/*/libdw.so.1", check=False).returncode == 0
    said = machine.run([profd, "stack", "--native", "--pid", job.pid], user="alice", check=False)
    assert (said.returncode, ("runs no Python" if there else "libdw1") in said.stderr) == (3 if there else 1, True), said.stderr
    status, out, error = job.finish()
    assert status == 0, error
    plain = machine.run([f"{OUTSIDE}/steps", "--steps=2000", "--step-ms=0"], user="alice").stdout
    assert json.loads(out)["checksum"] == json.loads(plain)["checksum"]
    daemon.signal()
    assert daemon.finish()[0] == 0
