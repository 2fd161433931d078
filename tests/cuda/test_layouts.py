"""agent/cupti/records.def against the headers of every release, and the agent's size probe against the real libraries.

Needs gcc (or $CC) and what fetch.py needs; no GPU and no driver.
"""
import os
import re
import subprocess

import pytest

import fetch
import generate

ROOT = fetch.HERE.parent.parent
RELEASES = list(fetch.releases())
# From 13.2 on the library cannot be asked anything without a driver: 13.2 crashes, later ones refuse.
ASKABLE = [release for release in RELEASES if tuple(map(int, release.split("."))) <= (13, 1)]

PROBE = r"""
#include "agent/cupti/layout.h"
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments)
{
	void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
	if (!library)
		return 2;
	int (*get_version)(uint32_t *) = (int (*)(uint32_t *))dlsym(library, "cuptiGetVersion");
	cupti_next_record next = (cupti_next_record)dlsym(library, "cuptiActivityGetNextRecord");
	struct cupti_layout layout;
	uint32_t version;
	if (get_version(&version) || cupti_layout_choose(&layout, version))
		return 3;
	printf("version %u\n", version);
	for (unsigned kind = 0; kind < CUPTI_KIND_COUNT; kind++) {
		if (cupti_kind_name(kind))
			printf("chosen %s %zu\n", cupti_kind_name(kind), cupti_layout_size(&layout, kind));
	}
	if (cupti_layout_prove(&layout, next, NULL))
		return 4;
	for (unsigned kind = 0; kind < CUPTI_KIND_COUNT; kind++) {
		if (cupti_kind_name(kind))
			printf("proved %s %zu\n", cupti_kind_name(kind), cupti_layout_size(&layout, kind));
	}
	return 0;
}
"""


class Table:
    """The committed file, read without the generator."""

    def __init__(self):
        text = generate.TARGET.read_text()
        self.releases = re.findall(r'^CUPTI_RELEASE\("([\d.]+)", (\d+)\)$', text, re.M)
        self.kinds = re.findall(r"^CUPTI_KIND\((\d+), (\w+), (\w+)\)$", text, re.M)
        self.sizes = {name: [int(size) for size in row.split(", ")]
                      for name, row in re.findall(r"^CUPTI_SIZES\((\w+), ([\d, ]+)\)$", text, re.M)}
        self.fields = re.findall(r"^CUPTI_FIELD\((\w+), (\w+), (\d+), ([\w *]+), (\d+)\)$", text, re.M)
        self.constants = re.findall(r"^CUPTI_CONSTANT\((\w+), (\d+)u\)$", text, re.M)

    def size(self, kind, release):
        return self.sizes[kind][[name for name, _ in self.releases].index(release)]

    def read_kinds(self):
        return list(dict.fromkeys(field[0] for field in self.fields))


@pytest.fixture(scope="module")
def table():
    return Table()


@pytest.fixture(scope="module")
def headers():
    return generate.read_releases()


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    program = tmp_path_factory.mktemp("probe") / "probe"
    subprocess.run([os.environ.get("CC", "gcc"), "-std=gnu17", "-I", str(ROOT), "-o", str(program), "-x", "c", "-",
                    str(ROOT / "agent" / "cupti" / "layout.c"), "-ldl"], input=PROBE, text=True, check=True)
    return program


def paths(kind):
    """{name in the table: member as CUPTI writes it}"""
    return {name: path for path, _, name in generate.members(kind)}


def claims(table, release, kinds):
    """C that compiles where all that the table says of a release is so."""
    lines = ["#include <cupti.h>", "#include <stddef.h>", "#include <stdint.h>",
             f"_Static_assert(CUPTI_API_VERSION == {dict(table.releases)[release]}, \"version\");"]
    for number, kind, _ in table.kinds:
        size = table.size(kind, release)
        assert (size > 0) == (kind in kinds), f"{release}: {kind}"
        if size:
            lines.append(f"_Static_assert(CUPTI_ACTIVITY_KIND_{kind} == {number}, \"number of {kind}\");")
            lines.append(f"_Static_assert(sizeof({kinds[kind][1]}) == {size}, \"size of {kind}\");")
    for kind, name, offset, kept, needed in table.fields:
        if table.size(kind, release) < int(needed):
            continue
        struct, path = kinds[kind][1], paths(kind)[name]
        lines.append(f"_Static_assert(offsetof({struct}, {path}) == {offset}, \"offset of {kind}.{path}\");")
        if "[" not in path:
            member = f"(({struct} *)0)->{path}"
            lines.append(f"_Static_assert(sizeof({member}) == sizeof({kept}), \"size of {kind}.{path}\");")
    for name, value in table.constants:
        lines.append(f"_Static_assert((unsigned)CUPTI_{name} == {value}u, \"{name}\");")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("release", RELEASES)
def test_every_number_agrees_with_the_headers(table, release):
    include = fetch.fetch(release) / "include"
    kinds = generate.kinds_of((include / "cupti_activity.h").read_text(errors="replace"), release)
    source = claims(table, release, kinds)
    result = generate.compiler(["-I", str(include), "-fsyntax-only"], source, check=False)
    assert result.returncode == 0, result.stderr
    # And it is not that the compiler takes anything.
    wrong = source.replace("offsetof(CUpti_ActivityAPI, start) == 8", "offsetof(CUpti_ActivityAPI, start) == 9")
    assert wrong != source
    assert generate.compiler(["-I", str(include), "-fsyntax-only"], wrong, check=False).returncode != 0


@pytest.mark.core
def test_a_member_that_is_there_is_not_missed(table, headers):
    """What the table gates away in a release must be absent there: its size alone decides."""
    for release in headers:
        for kind, name, _, _, needed in table.fields:
            there = table.size(kind, release.name) >= int(needed)
            assert ((kind, name) in release.fields) == there, f"{release.name}: {kind}.{name}"


@pytest.mark.core
def test_the_committed_file_is_what_the_generator_writes(headers):
    assert generate.TARGET.read_text() == generate.render(headers)


@pytest.mark.parametrize("release", ASKABLE)
def test_the_real_library_proves_the_sizes(table, probe, release):
    library, = (fetch.fetch(release) / "lib").glob("libcupti.so*")
    result = subprocess.run([probe, library], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result
    said = {"chosen": {}, "proved": {}}
    for line in result.stdout.splitlines():
        what, *rest = line.split()
        if what == "version":
            assert rest == [dict(table.releases)[release]]
        else:
            said[what][rest[0]] = int(rest[1])
    read = table.read_kinds() + list(generate.SAME)
    for _, kind, _ in table.kinds:
        size = table.size(kind, release)
        # Releases that share a version are taken for the one with the smallest records until the library is asked.
        assert said["chosen"][kind] <= size, kind
        # The library may know a kind before its headers do, and may have given up one that its headers still have.
        if kind in read:
            assert said["proved"][kind] == size, kind
        else:
            assert said["proved"][kind] in (size, 0) or size == 0, kind
    assert sum(size > 0 for size in said["proved"].values()) >= 30


def test_releases_and_sizes_as_a_table(table, capsys):
    names = [name for name, _ in table.releases]
    assert names == RELEASES
    with capsys.disabled():
        print("\n\nbytes of a record by release; * = the library itself says so here")
        print(f"{'':24}" + "".join(f"{name:>6}" for name in names))
        for kind in sorted(table.read_kinds()):
            row = [f"{table.size(kind, name)}{'*' if name in ASKABLE else ' '}" for name in names]
            print(f"{kind:24}" + "".join(f"{cell:>6}" for cell in row))
        print(f"{len(table.fields)} fields of {len(table.read_kinds())} kinds, sizes of {len(table.kinds)} kinds")


@pytest.mark.parametrize("release", RELEASES)
def test_the_headers_are_the_releases_own(release, tmp_path):
    """A CUDA toolkit on this machine must not fill in for what the fetched folder lacks: another machine has none."""
    folder = fetch.fetch(release)
    source = tmp_path / "headers.c"
    source.write_text("#include <cupti.h>\n#include <cuda.h>\n")
    done = subprocess.run([os.environ.get("CC", "cc"), "-M", "-isystem", folder / "include", source], capture_output=True,
                          text=True, check=True)
    others = [path for path in done.stdout.replace("\\\n", " ").split()[1:]
              if "cuda" in path and not path.startswith(str(folder)) or "/crt/" in path and not path.startswith(str(folder))]
    assert not others, others
    assert str(folder / "include" / "crt" / "host_defines.h") in done.stdout
