"""Absurd settings: files that are none, values that no machine has, folders that are no store. The daemon ends with a sentence and
without having made anything, or it takes them and works."""
import json
import os
import re
import stat
import subprocess

import pytest

from conftest import BUILD, ROOT, wait_for

STEPS = BUILD / "workloads" / "steps"
KEYS = re.compile(r"^CONFIG_(NUMBER|SIZE|DURATION)\((\w+), \"(\w+)\", (\d+), (\w+), ", re.M)
LARGEST = 2**63 - 1
LARGEST_WRITTEN = {"NUMBER": str(9 * 10**18), "SIZE": "8000000T", "DURATION": "104000d"}  # 9e18 is the most that is taken
TABLE = [(kind, key, int(least), LARGEST if most == "INT64_MAX" else int(most))
         for kind, key, _, least, most in KEYS.findall((ROOT / "daemon" / "core" / "config.def").read_text())]


def start(profd, *arguments, seconds=20):
    """The daemon with these arguments, which is expected to end at once."""
    daemon = os.environ.get("PROFD_DAEMON", str(BUILD / "bin" / "profd-daemon"))
    return subprocess.run([daemon, "--user", *map(str, arguments)], env=profd.env, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=seconds)


def refused(profd, *arguments):
    """It does not start, and says why in one line of UTF-8; the line."""
    done = start(profd, *arguments)
    said = done.stderr.decode()
    assert done.returncode not in (0, -11, -6) and b"Sanitizer" not in done.stderr, done
    assert len(said.strip().splitlines()) == 1 and len(said) < 2000 and said.isprintable() or said.strip().isprintable(), said
    return said


def configured(profd, content, *more):
    """The arguments of a daemon with a file of this content."""
    file = profd.folder / "profd.conf"
    file.write_bytes(content)
    return "--config", file, "--dir", profd.store, *more


def records(profd):
    job = profd.job(STEPS, "--step-ms=10")
    profd.wait_steps(job.pid, 2)
    capture = profd.trigger(job.pid)
    assert capture["status"] == "complete" and capture["lost"] == 0, capture
    profd.show(capture["capture_id"])
    job.kill()


# --- values ---

def test_there_are_keys_to_try():
    assert len(TABLE) >= 15 and any(most == LARGEST for *_, most in TABLE)


VALUES = [b"", b"-1", b"-9223372036854775808", b"9223372036854775808", b"18446744073709551616", b"9" * 200, b"1e30", b"inf", b"nan", b"0x10",
          b"1.5.5", b"yes", b"\xff\xfe", "½".encode(), b"1 2", b"+", b"T", b"8192P"]


@pytest.mark.parametrize("kind, key, least, most", TABLE, ids=[row[1] for row in TABLE])
def test_values_that_are_none(empty_profd, kind, key, least, most):
    units = {"NUMBER": [b""], "SIZE": [b"", b"T"], "DURATION": [b"s", b"d"]}[kind]
    for value in VALUES:
        for unit in units if value.isdigit() else [b""]:
            said = refused(empty_profd, *configured(empty_profd, key.encode() + b" = " + value + unit + b"\n"))
            assert "profd.conf:1:" in said and key in said, (value, said)
    assert not empty_profd.store.exists()


@pytest.mark.parametrize("which", ["least", "most"])
def test_all_values_at_their_bounds(empty_profd, which):
    """The largest number of every kind overflows nothing, and what is recorded under them is whole. (A sanitizer's daemon looks.)"""
    def written(kind, bound):
        return LARGEST_WRITTEN[kind] if bound == LARGEST else f"{bound}{'ns' if kind == 'DURATION' else ''}"
    lines = [f"{key} = {written(kind, least if which == 'least' else most)}" for kind, key, least, most in TABLE
             # A port of the machine's; and the floor under which nothing is recorded has a test of its own.
             if key not in ("metrics_port", "free_space", "free_space_percent")]
    file = empty_profd.folder / "profd.conf"
    file.write_text("\n".join(lines) + "\n")
    empty_profd.start_daemon("--config", str(file))
    for _ in range(3):
        records(empty_profd)
    empty_profd.json("status")
    assert empty_profd.stop_daemon() == 0


def test_a_floor_that_no_disk_has(empty_profd):
    """More free space than the file system has, or nine tenths of it: nothing is recorded, and the sentence says why."""
    facts = os.statvfs(empty_profd.folder)
    if facts.f_bavail > 0.85 * facts.f_blocks:
        pytest.skip("this file system is nearly empty")
    file = empty_profd.folder / "profd.conf"
    file.write_text("free_space = 8000000T\nfree_space_percent = 90\n")
    empty_profd.start_daemon("--config", str(file))
    job = empty_profd.job(STEPS, "--step-ms=10")
    empty_profd.wait_steps(job.pid, 2)
    done = empty_profd.run("trigger", "--pid", job.pid, check=False)
    assert done.returncode != 0 and "free" in done.stderr, done


# --- files ---

LINES = {
    "a megabyte in a line": b"x" * (1 << 20) + b"\n",
    "more than a megabyte": b"# \n" * (1 << 19),
    "a value of a megabyte": b"store_bytes = " + b"9" * ((1 << 20) - 20),
    "a name of a megabyte": b"y" * ((1 << 20) - 10) + b"= 1",
    "no UTF-8": b"\xc3\x28\xff\xfe = 1\n",
    "an escape": b"verb\x1b[31mose = yes\n",
    "a NUL": b"verbose = yes\0\n",
    "the same key twice": b"verbose = yes\nverbose = no\n",
    "no sign": b"verbose\n" * 1000,
    "signs": b"=" * 100000,
    "UTF-16": "store_bytes = 1G\n".encode("utf-16"),
}


@pytest.mark.parametrize("what", LINES)
def test_a_file_that_is_none(empty_profd, what):
    said = refused(empty_profd, *configured(empty_profd, LINES[what]))
    assert "profd.conf" in said and not empty_profd.store.exists()


def test_a_path_that_is_no_utf8(empty_profd):
    """A path may be any bytes; what the daemon says of it is text all the same."""
    profd = empty_profd
    folder = os.fsencode(profd.folder) + b"/text\xff\xc3("
    os.mkdir(folder)
    file = profd.folder / "profd.conf"
    file.write_bytes(b"metrics_textfile = " + folder + b"/profd.prom\nmetrics_interval = 1s\n")
    profd.start_daemon("--config", str(file))
    wait_for(lambda: os.path.exists(folder + b"/profd.prom"), 20, "the metrics' file")
    for verb in ("status", "ps", "captures"):
        json.loads(subprocess.run([str(profd.client), verb, "--format", "json"], env=profd.env, capture_output=True, check=True).stdout.decode())
    records(profd)
    profd.daemon_log.read_bytes().decode()


def odd_files(folder):
    """{what: path} of things that are no regular file."""
    found = {"folder": folder / "folder", "pipe": folder / "pipe", "socket": folder / "socket", "nowhere": folder / "nowhere",
             "loop": folder / "loop", "zero": "/dev/zero", "full": "/dev/full", "terminal": "/dev/tty", "nothing": folder / "not-there"}
    found["folder"].mkdir()
    os.mkfifo(found["pipe"])
    os.mknod(found["socket"], stat.S_IFSOCK | 0o600)
    found["nowhere"].symlink_to(folder / "not-there")
    found["loop"].symlink_to(found["loop"])
    return found


ODD = ["folder", "pipe", "socket", "nowhere", "loop", "zero", "full", "terminal", "nothing"]


@pytest.mark.parametrize("what", ODD)
def test_what_is_no_file(empty_profd, what):
    path = odd_files(empty_profd.folder)[what]
    said = refused(empty_profd, "--config", path, "--dir", empty_profd.store)
    assert str(path) in said and not empty_profd.store.exists()


# --- stores ---

@pytest.mark.parametrize("what", [what for what in ODD if what not in ("folder", "nothing")])
def test_what_is_no_folder(empty_profd, what):
    path = odd_files(empty_profd.folder)[what]
    said = refused(empty_profd, "--dir", path)
    assert str(path) in said and not (empty_profd.folder / "not-there").exists(), said


@pytest.mark.parametrize("inside", ["lock", "captures", "catalogue.db", "catalogue.db-wal", "reserve"])
@pytest.mark.parametrize("what", ["folder", "pipe", "socket", "zero"])
def test_what_stands_where_it_writes(empty_profd, what, inside):
    """It ends with a sentence, or puts it aside and works; it hangs in nothing, and writes to none of them."""
    profd = empty_profd
    profd.start_daemon()
    profd.stop_daemon()
    path = profd.store / inside
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    if what == "zero":
        if os.geteuid() != 0:
            pytest.skip("only root makes a device")
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    else:
        odd = odd_files(profd.folder)[what]
        odd.rename(path)
    if inside == "captures" and what == "folder":
        pytest.skip("it is what it should be")
    kind = stat.S_IFMT(os.lstat(path).st_mode)
    try:
        profd.start_daemon()
    except AssertionError:
        pass
    except pytest.fail.Exception:
        assert profd.daemon.wait(20) == 1
        said = profd.daemon_log.read_text().splitlines()[-1]
        assert "cannot" in said or "is no" in said or "damaged" in said, said
        assert stat.S_IFMT(os.lstat(path).st_mode) == kind
        return
    records(profd)


@pytest.mark.parametrize("length", [300, 450, 600, 5000])
def test_a_folder_with_a_long_path(empty_profd, length):
    """It is the store, or it is refused; never another folder whose name is its beginning."""
    profd = empty_profd
    path = str(profd.folder)
    while len(path) + 101 < length:
        path += "/" + "a" * 100
    path += "/" + "b" * (length - len(path) - 1)
    beginning = profd.folder / ("a" * 100)
    daemon = subprocess.Popen([os.environ.get("PROFD_DAEMON", str(BUILD / "bin" / "profd-daemon")), "--user", "--dir", path], env=profd.env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    profd.daemon = daemon
    wait_for(lambda: daemon.poll() is not None or profd.run("status", check=False).returncode == 0, 20, "the daemon")
    if daemon.poll() is None:
        assert profd.json("status")["daemons"][0]["directory"] == path
        records(profd)
        assert os.path.exists(path + "/captures/1.db")
    else:
        said = daemon.stderr.read().decode()
        assert len(said) < 2000 and "--dir" in said and said.strip().isprintable(), said
        assert not beginning.exists(), "it made a folder that nobody named"


@pytest.mark.parametrize("variable, length", [("XDG_STATE_HOME", 250), ("XDG_STATE_HOME", 320), ("XDG_STATE_HOME", 700), ("HOME", 700)])
def test_a_home_with_a_long_path(empty_profd, variable, length):
    """So with the folder that it chooses itself."""
    profd = empty_profd
    home = profd.folder / "home"
    path = str(home)
    while len(path) < length:
        path += "/" + "a" * min(100, max(1, length - len(path) - 1))
    profd.env.pop("XDG_STATE_HOME", None)
    profd.env[variable] = path
    daemon = subprocess.Popen([os.environ.get("PROFD_DAEMON", str(BUILD / "bin" / "profd-daemon")), "--user"], env=profd.env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    profd.daemon = daemon
    wait_for(lambda: daemon.poll() is not None or profd.run("status", check=False).returncode == 0, 20, "the daemon")
    if daemon.poll() is None:
        assert profd.json("status")["daemons"][0]["directory"].startswith(path + "/")
    else:
        assert "--dir" in daemon.stderr.read().decode() and not home.exists()
