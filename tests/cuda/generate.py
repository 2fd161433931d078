#!/usr/bin/env python3
"""generate.py [--check]: agent/cupti/records.def from the CUPTI headers of every release in releases.txt.

The compiler is the only source of a number: for each release two small programs are compiled against its headers, one
to learn which of the wanted members its newest structs have, one to print sizes, offsets and types. A release in which
a member lies elsewhere than in the others, or has another type, ends the run: the agent reads a member at one offset.

Without an argument the file is written. With --check nothing is written, and exit code 1 says that the committed file
is not what the headers give. Needs gcc (or $CC) and what fetch.py needs.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import fetch

TARGET = fetch.HERE.parent.parent / "agent" / "cupti" / "records.def"

# What the agent reads: the kind that stands for the record, and its members as CUPTI names them.
WANTED = {
    "MEMCPY": "copyKind srcKind dstKind flags bytes start end deviceId contextId streamId correlationId graphNodeId "
              "graphId",
    "MEMSET": "value bytes start end deviceId contextId streamId correlationId flags memoryKind graphNodeId graphId",
    "RUNTIME": "cbid start end threadId correlationId returnValue",
    "DEVICE": "globalMemoryBandwidth globalMemorySize numThreadsPerWarp coreClockRate numMultiprocessors "
              "maxWarpsPerMultiprocessor maxBlocksPerMultiprocessor maxSharedMemoryPerMultiprocessor "
              "maxRegistersPerMultiprocessor maxRegistersPerBlock maxSharedMemoryPerBlock maxThreadsPerBlock "
              "computeCapabilityMajor computeCapabilityMinor id uuid.bytes[0]:uint64_t uuid.bytes[8]:uint64_t name",
    "CONTEXT": "contextId deviceId computeApiKind nullStreamId",
    "CONCURRENT_KERNEL": "cacheConfig.both registersPerThread start end deviceId contextId streamId gridX gridY gridZ "
                         "blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread "
                         "localMemoryTotal correlationId name queued submitted launchType sharedMemoryExecuted "
                         "graphNodeId graphId channelID clusterX clusterY clusterZ localMemoryTotal_v2 priority",
    "OVERHEAD": "overheadKind objectKind objectId.pt.threadId start end correlationId",
    "MEMCPY2": "copyKind srcKind dstKind flags bytes start end deviceId contextId streamId srcDeviceId srcContextId "
               "dstDeviceId dstContextId correlationId graphNodeId graphId",
    "UNIFIED_MEMORY_COUNTER": "counterKind value start end address srcId dstId flags",
    "MODULE": "contextId id cubinSize",
    "CUDA_EVENT": "correlationId contextId streamId eventId deviceId deviceTimestamp cudaEventSyncId",
    "STREAM": "contextId streamId priority flag",
    "SYNCHRONIZATION": "type start end correlationId contextId streamId cudaEventId cudaEventSyncId returnValue",
    "MEMORY2": "memoryOperationType memoryKind correlationId address bytes timestamp deviceId contextId streamId "
               "isAsync memoryPoolConfig.memoryPoolType memoryPoolConfig.address memoryPoolConfig.pool.size "
               "memoryPoolConfig.utilizedSize",
    "MEMORY_POOL": "memoryPoolOperationType memoryPoolType correlationId deviceId minBytesToKeep address size "
                   "timestamp utilizedSize",
    "GRAPH_TRACE": "correlationId start end deviceId graphId contextId streamId",
}
# Kinds whose records are read as those of another.
SAME = {"KERNEL": "CONCURRENT_KERNEL", "DRIVER": "RUNTIME", "INTERNAL_LAUNCH_API": "RUNTIME"}
# Values, without CUPTI_.
CONSTANTS = ("ACTIVITY_FLAG_MEMCPY_ASYNC ACTIVITY_FLAG_MEMSET_ASYNC ACTIVITY_OBJECT_THREAD "
             "ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE "
             "ACTIVITY_MEMORY_POOL_TYPE_LOCAL ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED "
             "ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED "
             "ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING "
             "ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP CB_DOMAIN_DRIVER_API CB_DOMAIN_RUNTIME_API "
             "INVALID_CHANNEL_ID SYNCHRONIZATION_INVALID_VALUE").split()
TYPES = ("uint8_t", "uint16_t", "uint32_t", "int32_t", "uint64_t", "int64_t")


def compiler(arguments, source, check=True):
    command = [os.environ.get("CC", "gcc"), "-std=gnu17", "-w", "-fmax-errors=0", "-x", "c", *arguments, "-"]
    result = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
    if check and result.returncode:
        sys.exit(f"generate.py: {' '.join(command)}\n{result.stderr}")
    return result


def kinds_of(text, release):
    """{kind: (number, its newest struct)} by the comments of the enum and the structs that are there."""
    body = re.search(r"CUPTI_ACTIVITY_KIND_INVALID\s*=\s*0,(.*?)}\s*CUpti_ActivityKind;", text, re.S).group(1)
    kinds = {}
    entry = r"((?:/\*.*?\*/|//[^\n]*|\s)*)CUPTI_ACTIVITY_KIND_(\w+)\s*=\s*(\d+)\s*,"
    for comment, name, number in re.findall(entry, body, re.S):
        words = re.sub(r"[\s*/]+", " ", comment)
        named = re.search(r"structure is (?:\\ref )?(CUpti_Activity[A-Za-z0-9]+)", words) or \
            re.search(r"(CUpti_Activity[A-Za-z]+[A-Za-z0-9]+)", words)
        if not named:
            sys.exit(f"generate.py: {release}: no struct is named for CUPTI_ACTIVITY_KIND_{name}")
        kinds[name] = (int(number), named.group(1))
    for name, (number, struct) in kinds.items():
        # The older MEMORY has the plain struct, its successor MEMORY2 the numbered ones of the same name.
        if name == "MEMORY":
            continue
        family = struct.rstrip("0123456789")
        versions = [int(v or 1) for v in re.findall(r"}\s*" + family + r"(\d*)\s*;", text)]
        if not versions:
            sys.exit(f"generate.py: {release}: CUPTI_ACTIVITY_KIND_{name}: there is no {family}")
        kinds[name] = (number, family + (str(max(versions)) if max(versions) > 1 else ""))
    return kinds


def members(kind):
    """[(member as CUPTI writes it, type that it is read as or None, name in the table)]"""
    rows = []
    for word in WANTED[kind].split():
        path, _, forced = word.partition(":")
        rows.append((path, forced or None, re.sub(r"\W+", "_", path).strip("_")))
    return rows


class Release:
    """What the headers of one release say."""

    def __init__(self, name, folder):
        self.name = name
        include = pathlib.Path(folder, "include")
        text = (include / "cupti_activity.h").read_text(errors="replace")
        self.kinds = kinds_of(text, name)
        arguments = ["-I", str(include)]
        for kind, model in SAME.items():
            if self.kinds[kind][1] != self.kinds[model][1]:
                sys.exit(f"generate.py: {name}: the records of {kind} and {model} differ")
        fields = [(kind, *row) for kind in WANTED for row in members(kind)]
        lines = ["#include <cupti.h>", "#include <stddef.h>", "#include <stdint.h>"]
        lines += [f"char probe{i}[sizeof ((({self.kinds[kind][1]} *)0)->{path})];"
                  for i, (kind, path, _, _) in enumerate(fields)]
        wrong = compiler([*arguments, "-fsyntax-only"], "\n".join(lines) + "\n", check=False).stderr
        absent = {int(line) - 4 for line in re.findall(r"^<stdin>:(\d+):\d+: error:", wrong, re.M)}
        there = [field for i, field in enumerate(fields) if i not in absent]
        self.numbers(arguments, there)

    def numbers(self, arguments, fields):
        types = ", ".join(f'{t}: "{t}"' for t in (*TYPES, "const char *"))
        show = [f'printf("version x %u\\n", (unsigned)CUPTI_API_VERSION);']
        for kind, (number, struct) in self.kinds.items():
            show.append(f'printf("size {kind} %zu\\n", sizeof({struct}));')
            show.append(f'printf("kind {kind} %d\\n", CUPTI_ACTIVITY_KIND_{kind});')
        for name in CONSTANTS:
            show.append(f'printf("constant {name} %u\\n", (unsigned)CUPTI_{name});')
        for kind, path, forced, name in fields:
            struct = self.kinds[kind][1]
            kept = f'"{forced}"' if forced else f"_Generic((({struct} *)0)->{path}, {types})"
            show.append(f'printf("field {kind}.{name} %zu %s\\n", offsetof({struct}, {path}), {kept});')
        source = "\n".join(["#include <cupti.h>", "#include <stddef.h>", "#include <stdint.h>", "#include <stdio.h>",
                            "int main(void) {", *show, "return 0;", "}", ""])
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "numbers")
            compiler([*arguments, "-o", str(program)], source)
            output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        self.version, self.sizes, self.constants, self.fields = 0, {}, {}, {}
        for line in output.splitlines():
            what, name, number, *rest = line.split(" ", 3)
            if what == "version":
                self.version = int(number)
            elif what == "size":
                self.sizes[name] = int(number)
            elif what == "kind" and int(number) != self.kinds[name][0]:
                sys.exit(f"generate.py: {self.name}: CUPTI_ACTIVITY_KIND_{name} is {number}")
            elif what == "constant":
                self.constants[name] = int(number)
            elif what == "field":
                self.fields[tuple(name.split("."))] = (int(number), rest[0])


def read_releases():
    return [Release(name, fetch.fetch(name)) for name in fetch.releases()]


def one(values, what):
    """The value that all of {release: value} have."""
    if len(set(values.values())) != 1:
        sys.exit(f"generate.py: the releases do not agree on {what}: {values}")
    return next(iter(values.values()))


def gate(releases, field):
    """The smallest record that has the field. Releases whose record is not smaller and that lack it would make the size
    say too little: then the next larger size at which all have it."""
    kind = field[0]
    lacking = [r.sizes[kind] for r in releases if kind in r.sizes and field not in r.fields]
    having = [r.sizes[kind] for r in releases if field in r.fields]
    usable = [size for size in having if size > max(lacking, default=0)]
    if not usable:
        sys.exit(f"generate.py: no record size tells whether {kind}.{field[1]} is there")
    return min(usable)


def table(releases):
    """[(kind, member, offset, type, smallest size that has it)] in the order of WANTED."""
    rows = []
    for kind in WANTED:
        for _, _, name in members(kind):
            field = (kind, name)
            found = {r.name: r.fields[field] for r in releases if field in r.fields}
            if not found:
                sys.exit(f"generate.py: no release has {kind}.{name}")
            offset, kept = one(found, f"{kind}.{name}")
            rows.append((kind, name, offset, kept, gate(releases, field)))
    return rows


HEAD = """\
/* records.def - CUPTI's activity records as the headers of these releases have them. Generated by
 * tests/cuda/generate.py from the headers in the wheels that tests/cuda/releases.txt names: not to be edited.
 *
 *   CUPTI_RELEASE(release, version)               oldest first; version: CUPTI_API_VERSION, what cuptiGetVersion gives
 *   CUPTI_KIND(number, NAME, struct)              CUpti_ActivityKind, and its struct in the newest release
 *   CUPTI_SIZES(NAME, ...)                        bytes of its record by release, 0 = the release has no such kind
 *   CUPTI_FIRST(NAME, size)                       the smallest record that any release has, of a kind that is read
 *   CUPTI_FIELD(NAME, member, offset, type, from) from: the smallest record that has it
 *   CUPTI_CONSTANT(NAME, value)
 */
/* clang-format off */
"""
MACROS = ("RELEASE(release, version)", "KIND(number, NAME, record)", "SIZES(NAME, ...)", "FIRST(NAME, size)",
          "FIELD(NAME, member, offset, type, from)", "CONSTANT(NAME, value)")


def render(releases):
    out = [HEAD]
    for macro in MACROS:
        out.append(f"#ifndef CUPTI_{macro.split('(')[0]}\n#define CUPTI_{macro}\n#endif\n")
    out.append("\n")
    for r in releases:
        out.append(f'CUPTI_RELEASE("{r.name}", {r.version})\n')
    numbers = {}
    for r in releases:
        for kind, (number, struct) in r.kinds.items():
            numbers.setdefault(number, {})[r.name] = (kind, struct)
    order = []
    out.append("\n")
    for number in sorted(numbers):
        kind = one({name: pair[0] for name, pair in numbers[number].items()}, f"kind {number}")
        order.append(kind)
        struct = list(numbers[number].values())[-1][1]
        out.append(f"CUPTI_KIND({number}, {kind}, {struct})\n")
    out.append("\n")
    for kind in order:
        sizes = ", ".join(str(r.sizes.get(kind, 0)) for r in releases)
        out.append(f"CUPTI_SIZES({kind}, {sizes})\n")
    last = None
    for kind, name, offset, kept, size in table(releases):
        if kind != last:
            first = min(r.sizes[kind] for r in releases if kind in r.sizes)
            out.append(f"\nCUPTI_FIRST({kind}, {first})\n")
            last = kind
        out.append(f"CUPTI_FIELD({kind}, {name}, {offset}, {kept}, {size})\n")
    out.append("\n")
    for name in CONSTANTS:
        value = one({r.name: r.constants[name] for r in releases if name in r.constants}, name)
        out.append(f"CUPTI_CONSTANT({name}, {value}u)\n")
    out.append("\n")
    for macro in MACROS:
        out.append(f"#undef CUPTI_{macro.split('(')[0]}\n")
    return "".join(out)


def main():
    text = render(read_releases())
    if sys.argv[1:] == ["--check"]:
        if not TARGET.exists() or TARGET.read_text() != text:
            sys.exit(f"generate.py: {TARGET.name} is not what the headers give; run tests/cuda/generate.py")
        print(f"{TARGET.name} agrees with the headers of {len(fetch.releases())} releases")
        return
    if sys.argv[1:]:
        sys.exit(__doc__)
    TARGET.write_text(text)


if __name__ == "__main__":
    main()
