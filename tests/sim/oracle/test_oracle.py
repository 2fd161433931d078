"""The simulated CUPTI against the real library of the same release: its exports, its answers without a driver, the sizes of its
records, and its buffers, record for record."""
import re
import subprocess

import pytest

from simulator import CALLABLE, RELEASES, feed, fetched, headers_have, number, real, simulated, walk

EVERYTHING = ("up register 65536 0 dump 8 dump 9 dump 37 enable 1 enable 2 enable 4 enable 5 enable 10 enable 17 enable 22 "
              "enable 36 enable 38 enable 39 enable 49 enable 50 push 7 kernel 40 copy 5 peer 3 set 4 sync 3 event 2 memory "
              "graph 6 threads 3 20 flush 0 disable 10 enable 51 enable 10 graph 4 begin 2 flush 1")
KINDS = {1, 2, 4, 5, 8, 9, 10, 17, 22, 36, 37, 38, 39, 49, 50, 51}


def exports(library):
    """{name: version node}, without versions' own names."""
    table = subprocess.run(["readelf", "-W", "--dyn-syms", library], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in table.splitlines():
        match = re.search(r"(?:FUNC|IFUNC) .* (\w+)@@?(\S+)$", line)
        if match and " UND " not in line:
            found[match.group(1)] = match.group(2)
    return found


@pytest.fixture(scope="module")
def ours():
    """Every function that some release's simulator has."""
    return set().union(*(exports(simulated(r)) for r in RELEASES))


@pytest.mark.parametrize("release", RELEASES)
def test_exports(release, ours):
    theirs, mine = exports(real(release)), exports(simulated(release))
    assert set(mine) == {f for f in theirs if f in ours}
    assert len(mine) > 35
    assert {mine[f] for f in mine} == {theirs[f] for f in mine}


@pytest.mark.parametrize("release", RELEASES)
def test_soname(release):
    def soname(library):
        table = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
        return re.search(r"soname: \[(.*)\]", table).group(1)

    assert soname(simulated(release)) == soname(real(release)) == simulated(release).name


@pytest.mark.core
@pytest.mark.parametrize("release", RELEASES)
def test_answers_without_driver(release):
    theirs, mine = walk(real(release), "calls"), walk(simulated(release), "calls")
    assert mine == theirs
    assert len(mine[0]) > 25


@pytest.mark.parametrize("release", CALLABLE)
def test_sizes(release):
    theirs, mine = walk(real(release), "sizes"), walk(simulated(release), "sizes")
    assert mine == theirs
    assert theirs[1] == 0 and len(theirs[0]) == 256


# Kinds that the simulator writes, and the struct of each.
STRUCTS = {1: "Memcpy", 2: "Memset", 4: "API", 5: "API", 8: "Device", 9: "Context", 10: "Kernel", 17: "Overhead", 22: "MemcpyPtoP",
           27: "Module", 36: "CudaEvent", 37: "Stream", 38: "Synchronization", 39: "ExternalCorrelation", 49: "Memory",
           50: "MemoryPool", 51: "GraphTrace"}


@pytest.mark.parametrize("release", RELEASES)
def test_sizes_by_headers(release, tmp_path):
    """Beside the real library, and instead of it where that cannot be called without a driver."""
    lines = []
    for kind, struct in STRUCTS.items():
        versions = [int(v or 1) for v in headers_have(release, rf"\}} CUpti_Activity{struct}(\d*);")]
        newest = max(versions)
        lines.append(f'printf("%d %zu\\n", {kind}, sizeof(CUpti_Activity{struct}{newest if newest > 1 else ""}));')
    source = tmp_path / "sizes.c"
    source.write_text("#include <cupti.h>\n#include <stdio.h>\nint main(void) {" + "\n".join(lines) + " return 0; }\n")
    subprocess.run(["cc", "-isystem", fetched(release) / "include", "-o", tmp_path / "sizes", source], check=True)
    expected = dict(line.split() for line in subprocess.run([tmp_path / "sizes"], capture_output=True, text=True,
                                                            check=True).stdout.splitlines())
    seen = {str(r.kind): str(r.size) for r in feed(release, EVERYTHING).records() if r.kind != 27}
    assert seen == {k: v for k, v in expected.items() if k != "27"}


@pytest.mark.parametrize("script", ["", "shuffle,seed=7", "zero=3,long_name=4,null_name=5"])
@pytest.mark.parametrize("release", CALLABLE)
def test_records(release, script, tmp_path):
    out = feed(release, EVERYTHING, f"dump={tmp_path},{script}")
    assert out.returncode == 0, out.error
    files = sorted(tmp_path.glob("*.buffer"))
    assert len(files) >= (5 if number(release) >= 1203 else 2)  # one a thread, from 12.3 on
    lines, status = walk(real(release), "records", *files)
    assert status == 0
    expected, kinds, count = [], set(), 0
    for path in files:
        put, *records = path.with_suffix(".records").read_text().splitlines()
        assert int(put) == len(records)
        expected += [f"file {path.name}", *records, "end 12"]
        kinds |= {int(r.split()[1]) for r in records}
        count += len(records)
    assert lines == expected
    assert kinds == KINDS
    assert count == len(out.records())


@pytest.mark.parametrize("release", [r for r in CALLABLE if number(r) in (1107, 1203, 1204, 1301)])
def test_walk_ends_alike(release, tmp_path):
    """At a record that is cut off, and at a kind that nobody knows."""
    feed(release, "up register 8192 0 enable 10 kernel 3 flush 0", f"dump={tmp_path}")
    whole = next(tmp_path.glob("*.buffer"))
    size = whole.stat().st_size
    for name, data in (("cut", whole.read_bytes()[:size - 8]), ("kind", whole.read_bytes() + b"\xff\xff\0\0" * 64),
                       ("zero", whole.read_bytes() + bytes(256)), ("short", whole.read_bytes() + bytes(4)),
                       ("empty", b"")):
        (tmp_path / name).write_bytes(data)
        assert walk(simulated(release), "records", tmp_path / name) == walk(real(release), "records", tmp_path / name), name


@pytest.mark.parametrize("release", RELEASES)
def test_version(release):
    defined = headers_have(release, r"#define CUPTI_API_VERSION (\d+)")[0]
    assert feed(release, "up version").all("version") == [["version", "0", defined]]
