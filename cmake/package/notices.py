#!/usr/bin/env python3
"""notices.py NAME=SOURCE... - prints the licences of what is inside the programs of `./dev static`. NAME=SOURCE say where the
sources lie, as in PROFD_SOURCES."""
import pathlib
import re
import sys

# Name, what it is called, the part that is inside, where its licence stands: a file, or the first comment of a source.
LIBRARIES = {
    "uv": ("libuv", "in bin/profd-daemon", "LICENSE"),
    "sqlite": ("SQLite", "in both programs", "sqlite3.h"),
    "cjson": ("cJSON", "in both programs", "LICENSE"),
    "zlib": ("zlib", "in bin/profd", "zlib.h"),
    "yajl": ("yajl", "in bin/profd", "COPYING"),
    "iberty": ("libiberty, its demangler (cp-demangle.c) alone", "in both programs", "libiberty/cp-demangle.c"),
}
MORE = """The programs and the agent were linked by zig's C compiler. What it adds to them is glibc's start of a program (GNU Lesser
General Public License, with the permission to link it into any program, which covers these files) and LLVM's compiler-rt
(Apache License 2.0 with LLVM exceptions, which asks for no notice where it got into a program by being compiled).
"""


def licence(path):
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix not in (".c", ".h"):
        return text.strip()
    comment = re.search(r"/\*.*?\*/", text, re.S)
    if not comment:
        sys.exit(f"notices: {path} has no comment at its head")
    lines = [re.sub(r"^\s*(/\*+|\*\*?/?)? ?", "", line).rstrip(" */") for line in comment.group(0).splitlines()]
    return "\n".join(line.rstrip() for line in lines).strip()


def main(arguments):
    sources = {name: pathlib.Path(path) for name, path in (word.split("=", 1) for word in arguments)}
    print("Third-party software inside profd's programs. profd itself is under the Apache License 2.0 (LICENSE).\n")
    for name, (title, where, file) in LIBRARIES.items():
        print(f"{'=' * 100}\n{title}: {where}\n{'=' * 100}\n\n{licence(sources[name] / file)}\n")
    print(f"{'=' * 100}\nWhat the compiler adds\n{'=' * 100}\n\n{MORE}", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
