#!/usr/bin/env python3
"""The mechanical rules: format, what may include what, functions nobody may call, the size of README, what the agent's library shows and needs.

lint.py --build DIR [--fix]   prints one line for each offence and a summary; exit code 1 where there is any. --fix formats.
lint.py --agent FILE          only the last of these rules, for an agent that was built elsewhere or otherwise.
"""
import argparse
import collections
import concurrent.futures
import functools
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import rooms

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINES_MAX = 800
README_WORDS_MAX = 1300
BINARIES = {".a", ".db", ".gz", ".o", ".pyc", ".so", ".whl", ".xz", ".zip"}
GLIBC_MAX = (2, 17)
CLANG_FORMAT = 14  # others format differently
AGENT_NEEDED = {"libc.so.6"}  # a library that is missing keeps the program from starting
AGENT_TLS_BYTES = 16
MACHINES = {"x86_64": "X86-64", "aarch64": "AArch64"}  # as readelf calls them

offences = []


def offence(rule, where, what):
    offences.append(f"{where}: {what} [{rule}]")


def run(*command, **more):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, **more)


def output(*command):
    result = run(*command)
    if result.returncode != 0:
        raise SystemExit(f"lint: {shlex.join(map(str, command))} failed: {result.stderr.strip()}")
    return result.stdout


def files(*patterns):
    """The repository's files, whether added to git yet or not, relative to its root."""
    listed = output("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    found = [pathlib.PurePosixPath(f) for f in listed if f and (ROOT / f).is_file()]
    return sorted(f for f in found if any(f.match(p) for p in patterns))


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def code_of(text):
    """C without comments and without what is inside of quotes, line for line."""
    token = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.S)

    def blank(match):
        found = match.group(0)
        if found[0] in "\"'":
            return found[0] * 2
        return " " + "\n" * found.count("\n")

    return token.sub(blank, text)


def check_format(fix):
    version = re.search(r"version (\d+)", output("clang-format", "--version"))
    sources = files("*.c", "*.h")
    if fix:
        output("clang-format", "-i", *[ROOT / s for s in sources])
        return
    if int(version.group(1)) != CLANG_FORMAT:
        print(f"format: not checked, clang-format is {version.group(1)} and the rules are for {CLANG_FORMAT}")
        return
    for source in sources:
        result = run("clang-format", "--dry-run", "--Werror", ROOT / source)
        if result.returncode:
            line = re.search(r":(\d+):\d+:", result.stderr)
            offence("format", f"{source}:{line.group(1) if line else 1}", "not as .clang-format wants it; ./dev lint --fix")


# What a folder may include with quotes: itself and these. proto/base/ is not for the agent: it uses the heap and stdio.
FOLDERS = {"proto": {"proto"}, "proto/python": {"proto/python"}, "agent": {"agent", "proto", "proto/python"},
           "proto/base": {"proto/base", "proto"}, "store/breakdown": {"store/breakdown", "proto/base", "proto"},
           "store/findings": {"store/findings", "store/breakdown", "proto/base", "proto"},
           "store": {"store", "store/breakdown", "store/findings", "proto/base", "proto"},
           "daemon": {"daemon", "store", "proto/base", "proto"},
           "client": {"client", "store", "store/breakdown", "store/findings", "proto/base", "proto/python", "proto"}}
# What others include of a folder; its other headers are its own (and the tests').
DOORS = {"store": {"store/store.h", "store/breakdown/breakdown.h", "store/breakdown/load.h", "store/breakdown/names.h", "store/breakdown/scan.h", "store/breakdown/thread_times.h",
                   "store/findings/findings.h", "store/findings/json.h", "store/findings/module_paths.h", "store/findings/places.h", "store/findings/row_lines.h", "store/findings_stored.h", "store/flops.h", "store/collectives.h", "store/stack_owner.h",
                   "store/fold_rule.h"},
         **{room: {f"{room}/{name}" for name in names.split()} for room, names in {
             "agent/compile": "", "agent/cupti": "", "agent/memory": "", "agent/nvtx": "nvtx.h", "agent/torch": "torch.h",
             "agent/stacks": "caller.h garbage.h garbage_watch.h interpreter.h walk.h",
             "client/attach": "bring.h detach.h find.h foresee.h target.h", "client/command": "",
             "client/export": "buffer.h export.h folder.h formats.def stream.h target.h", "client/import": "import.h",
             "client/native": "libdw.h unwind.h", "client/page": "page.h", "client/reader": "capture.h occupancy.h reader.h",
             "daemon/metrics": "metrics.h", "daemon/ops": "clients.h ops.h"}.items()}}
# Headers of libraries and who may use them. Everything else in <> has to be the C library's.
LIBRARIES = {
    "uv.h": r"daemon/|tests/",
    "sqlite3.h": r"store/|daemon/catalogue/|client/(reader|report|export|compare|page)/|tests/",
    "cJSON.h": r"(store|daemon|client)/|tests/",
    "cjson/cJSON.h": r"(store|daemon|client)/|tests/",
    "yajl/": r"client/import/|tests/",
    "zlib.h": r"client/|tests/",
    "cmocka.h": r"tests/",
    "nvtx3/": r"tests/",
    "cupti": r"agent/cupti/|tests/",
    "cuda": r"agent/cupti/|tests/",
}
GENERATED = ("ops.def",)  # by the build
FOREIGN = re.compile(r"^(systemd/|Python|torch/|ATen/|c10/|lttng/|urcu|openssl/|curl/|json-c/|glib)")


def home_of(source):
    """The folder whose headers a source includes: of what tests/recipes/new/NAME/ holds, the one that it is copied to."""
    return ROOT.joinpath(*source.parts[4:-1]) if source.parts[:3] == ("tests", "recipes", "new") else ROOT / source.parent


def folder_of(path):
    """The folder of FOLDERS that a file stands in, or else the topmost one."""
    return next((str(f) for f in list(path.parents)[:-1] if str(f) in FOLDERS), path.parts[0])


def check_includes():
    for source in files("*.c", "*.h", "*.def"):
        top = folder_of(source)
        for number, line in enumerate(text_of(source).splitlines(), 1):
            match = re.match(r"\s*#\s*include\s*([<\"])([^>\"]+)[>\"]", line)
            if not match:
                continue
            where, name = f"{source}:{number}", match.group(2)
            if match.group(1) == "<" and top != "tests" and FOREIGN.match(name):
                offence("includes", where, f"nothing here uses <{name}>")
            for library, allowed in LIBRARIES.items():
                if name.startswith(library) and not re.match(allowed, str(source)):
                    offence("includes", where, f"{name} is not for this file")
            if match.group(1) == "\"" and name not in ("cJSON.h", "uv.h", "sqlite3.h", "zlib.h") + GENERATED:
                inside = (home_of(source) / name).exists()
                if not inside and not (ROOT / name).exists():
                    offence("includes", where, f"{name} does not exist")
                    continue
                real = (home_of(source) / name if inside else ROOT / name).resolve().relative_to(ROOT)
                if top in FOLDERS and folder_of(real) not in FOLDERS[top]:
                    offence("includes", where, f"{top}/ knows nothing of {folder_of(real)}/")
                for room in map(str, real.parents):
                    if top != "tests" and str(real) not in DOORS.get(room, {str(real)}) and room not in map(str, source.parents):
                        offence("includes", where, f"{name} is for {room}/ alone; others include {', '.join(sorted(DOORS[room])) or 'nothing of it'}")
            elif match.group(1) == "<" and name.startswith(("proto/", "agent/", "store/", "daemon/", "client/")):
                offence("includes", where, "own headers stand in quotes")


def check_rooms():
    sources = [f for f in files("*.c", "*.h", "*.def") if f.parts[0] in FOLDERS]
    text, code = functools.cache(text_of), functools.cache(code_of)
    rooms.check_order(ROOT, sources, text, offence)
    rooms.check_headers(sources, text, code, offence)
    rooms.check_guards(sources, text, offence)
    rooms.check_unneeded(ROOT, sources, text, code, offence)


SQL_FILES = re.compile(r"store/|daemon/catalogue/|client/(reader|report|export|compare|page)/|proto/(schema\.def|columns\.c)$|tests/")
SQL = re.compile(r"\"\s*(SELECT|INSERT|UPDATE|DELETE FROM|CREATE (TABLE|INDEX|VIEW|TEMP)|DROP|PRAGMA|ATTACH|WITH [a-z_]+ AS)\b")


def check_sql():
    for source in files("*.c", "*.h", "*.def"):
        if SQL_FILES.match(str(source)):
            continue
        for number, line in enumerate(text_of(source).splitlines(), 1):
            if SQL.search(line):
                offence("sql", f"{source}:{number}", "SQL stands in store/, daemon/catalogue/ and client/{reader,report,export,compare,page}/")


# Functions by folder: a regular expression of paths, the names, and why.
BANNED = [
    (r"", "strcpy strcat stpcpy sprintf vsprintf gets strtok atoi atol atoll atof alloca mktemp tmpnam tempnam", "use the bounded one"),
    (r"(agent|proto|store|daemon|client)/", "system popen", "no shell"),
    (r"agent/", "exit _exit _Exit quick_exit abort on_exit", "the job's end is the job's"),
    (r"agent/(?!core/life\.c)", "atexit", "life_watch_exit has the one that there is"),
    (r"agent/(?!core/gate\.c)", "dl_iterate_phdr", "gate_iterate() keeps forks apart from it"),
    (r"agent/(?!(core/gate|core/thread|torch/symbols|torch/which|cupti/load|stacks/interpreter)\.c)", "dlsym dlvsym dlopen dlclose",
     "has the loader's lock: inside the gate (gate.h), in the files that the rule names"),
    (r"agent/(?!core/thread\.c)", "pthread_create", "thread_start() knows what stack it needs"),
    (r"agent/", "signal sigaction raise setlocale uselocale chdir fchdir umask setenv putenv unsetenv", "the job's state is the job's"),
    (r"(agent|proto(?!/base))/", "printf fprintf dprintf vprintf vfprintf fopen fdopen fclose fread fwrite fputs puts putchar perror "
     "fflush fgets getline scanf sscanf fscanf syslog", "no stdio in the job"),
    (r"(agent|proto(?!/base))/", "malloc calloc realloc free strdup strndup asprintf vasprintf posix_memalign aligned_alloc", "no heap in the job"),
    (r"(agent|proto(?!/base))/", "fstat stat lstat fstatat memfd_create gettid getrandom", "younger than glibc 2.17; see proto/system.h"),
    (r"agent/", "sleep usleep", "the agent waits for events"),
]


def check_banned():
    for source in files("*.c", "*.h", "*.def"):
        code = code_of(text_of(source))
        for path, names, why in BANNED:
            if not re.match(path, str(source)):
                continue
            for match in re.finditer(r"(?<![\w.>])(" + "|".join(names.split()) + r")\s*\(", code):
                # `struct stat (` cannot be, but a pointer to a function of that name can.
                line = code.count("\n", 0, match.start()) + 1
                offence("banned", f"{source}:{line}", f"{match.group(1)}(): {why}")


def check_text():
    unfinished = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    for path in files("*.c", "*.h", "*.def", "*.py", "*.sh", "*.md", "dev", "CMakeLists.txt", ".ci/run"):
        lines = text_of(path).splitlines()
        if len(lines) > LINES_MAX:
            offence("length", path, f"{len(lines)} lines; beyond {LINES_MAX} a file wants splitting")
        for number, line in enumerate(lines, 1):
            if unfinished.search(line):
                offence("unfinished", f"{path}:{number}", line.strip())
            if line != line.rstrip():
                offence("format", f"{path}:{number}", "spaces at the end of the line")
        if path.suffix in (".c", ".h", ".def") and lines and not lines[0].startswith(f"/* {path.name} - "):
            offence("head", f"{path}:1", f"the file's head says what it is for: /* {path.name} - ... */")


def check_pages():
    words = len(text_of("README.md").split())
    if words > README_WORDS_MAX:
        offence("pages", "README.md", f"{words} words; what exceeds {README_WORDS_MAX} belongs into docs/")
    for name in output("git", "-C", ROOT, "ls-files", "-z").split("\0"):
        path = ROOT / name
        if name and not name.startswith("tests/") and path.is_file() and (path.suffix in BINARIES or b"\0" in path.read_bytes()):
            offence("binary", name, "a binary file; only tests/ may have some")


# Rooms whose files CONTRIBUTING.md lists one by one; `registry*` stands for several.
LISTED = ("agent", "agent/core", "agent/steps", "store", "store/breakdown", "daemon/core", "daemon/catalogue", "daemon/capture", "daemon/setup")


def rooms_of_the_page(text):
    """What CONTRIBUTING.md says of each folder, by folder."""
    said, top, current = collections.defaultdict(str), "", []
    for line in text.split("\n## The house\n")[1].split("\n\n`./dev lint` compares")[0].splitlines():
        head = re.match(r" {4}(  )?((?:[a-z]+/ )+)", line)
        if head:
            names = [name.strip("/") for name in head.group(2).split()]
            top = top if head.group(1) else names[0]
            current = [f"{top}/{name}" if head.group(1) else name for name in names]
        for folder in current:
            said[folder] += line + "\n"
    return said


def check_house():
    said = rooms_of_the_page(text_of("CONTRIBUTING.md"))
    for folder in LISTED:
        words = set(re.findall(r"[a-z_]+\*?", said[folder]))
        for stem in sorted({file.stem for file in files(f"{folder}/*.c", f"{folder}/*.h") if str(file.parent) == folder}):
            if stem not in words and not any(word.endswith("*") and stem.startswith(word[:-1]) for word in words):
                offence("house", "CONTRIBUTING.md", f"says nothing of {folder}/{stem}")


def check_shell():
    scripts = [ROOT / f for f in files("dev", ".ci/run", "*.sh", "cmake/package/p*")]
    result = run("shellcheck", "--format=gcc", *scripts)
    for line in result.stdout.splitlines():
        offence("shellcheck", os.path.relpath(line.split(":", 1)[0], ROOT), line.split(":", 1)[1])


def check_public_header():
    for language, standard, compiler in (("c", "c99", "gcc"), ("c++", "c++98", "g++"), ("c", "c99", "clang")):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / ("use." + language.replace("+", "x"))
            source.write_text('#include "profd.h"\nint main(void) { profd_step(); profd_range_push("a"); profd_range_pop(); '
                              'profd_mark("b"); return profd_version() == 0; }\n')
            if not shutil.which(compiler):
                continue
            result = run(compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror",
                         "-Wstrict-prototypes" if language == "c" else "-Wall", "-I", ROOT / "agent", "-fsyntax-only", source)
            if result.returncode:
                offence("header", "agent/profd.h", f"{compiler} -std={standard}: {result.stderr.strip().splitlines()[0]}")


def check_compilers(build):
    """Every source once more by clang, with warnings as errors; gcc's are errors in CI's build. One copy of what is built for
    many releases of CUDA is enough."""
    if not shutil.which("clang"):
        print("compilers: clang is missing, its warnings were not asked for")
        return
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        commands.setdefault(os.path.relpath(entry["file"], ROOT), entry)

    def compile_one(item):
        source, entry = item
        command = shlex.split(entry["command"])
        command = command[next(i for i, word in enumerate(command) if not word.endswith("ccache")):]
        command[command.index("-o") + 1] = "/dev/null"
        result = run("clang", *command[1:], "-Wvla", "-Werror", "-fsyntax-only", cwd=entry["directory"])
        if not result.returncode:
            return None
        errors = [l for l in result.stderr.splitlines() if "error" in l] or result.stderr.splitlines() or ["?"]
        where = re.match(r".*?/?([^/:]+:\d+):", errors[0])
        return source, f"clang: {where.group(1) if where else ''} {errors[0].split('error:')[-1].strip()}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for found in pool.map(compile_one, sorted(commands.items())):
            if found:
                offence("warnings", *found)


def dynamic_symbols(library):
    """(name, version, is defined, is weak) of each dynamic symbol."""
    for line in output("readelf", "--wide", "--dyn-syms", library).splitlines():
        part = line.split()
        if len(part) >= 8 and part[0].rstrip(":").isdigit():
            name, _, version = part[7].replace("@@", "@").partition("@")
            yield name, version, part[6] != "UND", part[4] == "WEAK"


@functools.cache
def moved_to_libc():
    """What came into libc.so.6 from libpthread and libdl with 2.32 to 2.34: it is there in a newer and an older version."""
    libc = re.search(r"libc\.so\.6 => (\S+)", output("ldd", sys.executable))
    versions = collections.defaultdict(set)
    for name, version, defined, _ in dynamic_symbols(libc.group(1)):
        match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
        if defined and match:
            versions[name].add((int(match.group(1)), int(match.group(2))))
    return {name for name, found in versions.items() if min(found) <= GLIBC_MAX and any((2, 32) <= v <= (2, 34) for v in found)}


def check_agent(library):
    if not library.exists():
        offence("agent", library, "is missing")
        return
    symbols = [s for s in dynamic_symbols(library) if s[0]]
    exported = sorted(name for name, _, defined, _ in symbols if defined)
    agreed = sorted(text_of("tests/lint/exports.txt").split())
    for name in sorted(set(exported) ^ set(agreed)):
        offence("exports", "libprofd_agent.so", f"{name} is {'exported but not agreed' if name in exported else 'agreed but missing'}")
    for name, version, defined, _ in symbols:
        match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
        if not defined and match and (int(match.group(1)), int(match.group(2))) > GLIBC_MAX:
            offence("glibc", "libprofd_agent.so", f"{name} needs {version}; see agent/glibc_compat.h")
        elif not defined and version and not match:
            offence("glibc", "libprofd_agent.so", f"{name} needs {version}, which is not the C library's")
        if name == "__tls_get_addr":
            offence("tls", "libprofd_agent.so", "thread-local storage that is not initial-exec")

    dynamic = output("readelf", "--wide", "--dynamic", library)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    for name in sorted(needed - AGENT_NEEDED):
        offence("needed", "libprofd_agent.so", f"needs {name}")
    if "RELR" in dynamic:
        offence("glibc", "libprofd_agent.so", "packed relative relocations need glibc 2.36")
    if "(GNU_HASH)" not in dynamic and "(HASH)" not in dynamic:
        offence("glibc", "libprofd_agent.so", "has no hash table that an old loader knows")
    # Versions that no symbol has stand here only: GLIBC_ABI_DT_RELR and its like.
    for name in re.findall(r"Name: (\S+)", output("readelf", "--wide", "--version-info", library).partition("Version needs")[2]):
        match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", name)
        if not match or (int(match.group(1)), int(match.group(2))) > GLIBC_MAX:
            offence("glibc", "libprofd_agent.so", f"needs {name}")
    if "x86 ISA needed" in output("readelf", "--wide", "--notes", library):
        offence("glibc", "libprofd_agent.so", "is for some processors only")
    for name, version, defined, weak in symbols:
        if not defined and not weak and name in moved_to_libc():
            offence("weak", "libprofd_agent.so", f"{name} was not in libc.so.6 before 2.34; make it weak (agent/glibc_compat.h)")
    if "NODELETE" not in dynamic:
        offence("nodelete", "libprofd_agent.so", "could be unmapped under its own threads")
    tls = re.search(r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)", output("readelf", "--wide", "--segments", library), re.M)
    if tls and int(tls.group(1), 16) > AGENT_TLS_BYTES:
        offence("tls", "libprofd_agent.so", f"{int(tls.group(1), 16)} bytes of initial-exec storage; a preload has little room")
    check_musl(library, [name for name, _, defined, weak in symbols if not defined and not weak])


def check_musl(library, wanted):
    """A preloaded agent must not keep a musl program from starting: every symbol is there, and one does start."""
    if MACHINES.get(platform.machine(), "?") not in output("readelf", "--file-header", library):
        print("musl: not checked, the library is another machine's")
        return
    loader = pathlib.Path(f"/lib/ld-musl-{platform.machine()}.so.1")
    if not loader.exists():
        print("musl: not checked, its package is not installed")
        return
    there = {name for name, _, defined, _ in dynamic_symbols(loader.resolve()) if defined}
    for name in wanted:
        if name not in there:
            offence("musl", "libprofd_agent.so", f"musl has no {name}; make it weak or do without")
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder) / "hello.c", pathlib.Path(folder) / "hello"
        source.write_text('#include <stdio.h>\n#include <pthread.h>\nstatic void *other(void *unused) { return unused; }\n'
                          'int main(void) { pthread_t t; pthread_create(&t, 0, other, 0); pthread_join(t, 0); '
                          'puts("hello"); return 7; }\n')
        output("musl-gcc", "-o", program, source)
        result = run(program, env={**os.environ, "LD_PRELOAD": str(library.resolve())})
        if (result.returncode, result.stdout, result.stderr) != (7, "hello\n", ""):
            offence("musl", "libprofd_agent.so", f"a musl program with it ended with {result.returncode}: {result.stderr.strip()}")


def main():
    parser = argparse.ArgumentParser()
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--build", type=pathlib.Path)
    what.add_argument("--agent", type=pathlib.Path, help="only what this library, the agent of some build, shows and needs")
    parser.add_argument("--fix", action="store_true", help="format instead of checking the format")
    arguments = parser.parse_args()
    build = (arguments.build or arguments.agent.parent).resolve()
    checks = [("format", lambda: check_format(arguments.fix)), ("includes", check_includes), ("rooms", check_rooms), ("sql", check_sql), ("banned functions", check_banned),
              ("text", check_text), ("pages", check_pages), ("house", check_house), ("shell", check_shell), ("public header", check_public_header),
              ("compilers", lambda: check_compilers(build)), ("agent library", lambda: check_agent(arguments.agent or build / "lib" / "libprofd_agent.so"))]
    if arguments.agent:
        checks = checks[-1:]
    for name, check in checks:
        before = len(offences)
        check()
        print(f"{name}: {'ok' if len(offences) == before else str(len(offences) - before) + ' offences'}", flush=True)
    for line in offences:
        print(line)
    rules = collections.Counter(line.rsplit("[", 1)[1].rstrip("]") for line in offences)
    print(f"lint: {len(checks)} checks, {len(offences)} offences" + (f" ({dict(rules)})" if rules else ""))
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
