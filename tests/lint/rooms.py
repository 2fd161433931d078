"""The rules of rooms: which folder may include which, that a header declares what the file of its name defines, and that
who includes a header uses it.

A room is a folder that holds one subject: a folder of agent/, daemon/, client/, proto/ or store/, and proto/, store/. What stands
in agent/, daemon/ or client/ itself joins the rooms below it.
"""
import collections
import re

# From the lowest up: a room includes nothing of those that stand behind it.
ORDER = [
    ("proto", "what two programs must agree on; it needs nobody"),
    ("proto/python", "reads the interpreter of a Python process; it needs nobody, so that the agent may use it"),
    ("proto/base", "what both programs' files need of the system: log, clock, memory, space"),
    ("store/breakdown", "into what the time of a capture's steps went; it reads a capture's tables"),
    ("store/findings", "the verdict, from the breakdown"),
    ("store", "a capture's file; a library for the daemon, the client and tests"),
    ("daemon/core", "the loop and the connections; it calls upward through core/calls.h alone"),
    ("daemon/catalogue", "what is kept; it knows captures as rows"),
    ("daemon/capture", "what is under way; when it ends, it becomes a row of the catalogue"),
    ("daemon/metrics", "reads what the rooms below count"),
    ("daemon/ops", "what clients ask of all rooms below"),
    ("daemon/setup", "settings and the service manager: they reach every room, and no room needs them"),
    ("daemon", "main.c and run.c, which join the rooms"),
]
RANK = {room: rank for rank, (room, _) in enumerate(ORDER)}

# What is not so yet: rooms in a circle, and headers that declare what other files define. There are to be none; one that is
# mended must go from here.
KNOWN_CIRCLES = []
KNOWN_HEADERS = set()

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def room_of(path):
    if path.parts[0] in ("agent", "daemon", "client", "proto", "store") and len(path.parts) > 2:
        return "/".join(path.parts[:2])
    return path.parts[0]


def included(root, source, text):
    """(line, path) of each own file that a source includes."""
    for match in INCLUDE.finditer(text):
        for path in (root / source.parent / match.group(1), root / match.group(1)):
            if path.is_file():
                yield text.count("\n", 0, match.start()) + 1, path.resolve().relative_to(root)
                break


def circles(edges):
    """The sets of rooms from which each other one of the set can be reached (Tarjan's strongly connected components)."""
    index, low, stack, found = {}, {}, [], []

    def visit(room):
        index[room] = low[room] = len(index)
        stack.append(room)
        for other in sorted(edges[room]):
            if other not in index:
                visit(other)
                low[room] = min(low[room], low[other])
            elif other in stack:
                low[room] = min(low[room], index[other])
        if low[room] == index[room]:
            component = set()
            while room not in component:
                component.add(stack.pop())
            if len(component) > 1:
                found.append(component)

    for room in sorted(edges):
        if room not in index:
            visit(room)
    return found


def check_order(root, sources, text_of, offence):
    edges, where = collections.defaultdict(set), {}
    for source in sources:
        room = room_of(source)
        edges[room]
        for line, path in included(root, source, text_of(source)):
            other = room_of(path)
            if other == room:
                continue
            edges[room].add(other)
            edges[other]
            where.setdefault((room, other), f"{source}:{line}")
            if RANK.get(other, -1) > RANK.get(room, len(ORDER)):
                offence("rooms", f"{source}:{line}", f"{room}/ stands below {other}/ ({ORDER[RANK[other]][1]})")
    found = circles(edges)
    for known in KNOWN_CIRCLES:
        if known not in found:
            offence("rooms", "tests/lint/rooms.py", f"{' '.join(sorted(known))} are no circle any more: take them off KNOWN_CIRCLES")
    for circle in found:
        if circle in KNOWN_CIRCLES:
            continue
        ways = sorted(f"{place} {a} -> {b}" for (a, b), place in where.items() if a in circle and b in circle)
        offence("rooms", "circle", f"{' '.join(sorted(circle))} include each other: {'; '.join(ways)}")


# A declaration at the beginning of a line, after comments, quotes and the preprocessor's lines are gone. What is in brackets of
# an aggregate has an indent.
DECLARED = re.compile(r"^(?!typedef|static|extern\s+const\s+\w+\s*\[)[A-Za-z_][\w\s*]*?\b(\w+)\s*\((?!\s*\*)[^;{}]*\)[^;{}()]*(?:__attribute__\s*\(\(.*?\)\)[^;{}()]*)*;", re.M | re.S)


def declared(code):
    code = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*$", "", code, flags=re.M)
    code = re.sub(r"\\\n", " ", code)
    code = re.sub(r"\b_Atomic\s*\([^()]*\)", "atomic", code)
    return [match.group(1) for match in DECLARED.finditer(code)]


def defines(code, name):
    plainly = r"^[A-Za-z_][\w\s*]*\b" + name + r"\s*\([^;{}]*\)[^;{}]*\{"
    by_macro = r"^[A-Z][A-Z_]*\(" + name + r"\b"  # as proto/events.c has WORD_FUNCTION(collector_word, bit)
    return re.search(plainly + "|" + by_macro, code, re.M) is not None


def check_headers(sources, text_of, code_of, offence):
    """What x.h declares stands in x.c. A header without an x.c is a door, for a whole room: it stands in a file of that room."""
    there, known = set(sources), set(KNOWN_HEADERS)
    for header in (s for s in sources if s.suffix == ".h"):
        source = header.with_suffix(".c")
        own = [source] if source in there else [s for s in there if s.suffix == ".c" and room_of(s) == room_of(header)]
        code = "\n".join(code_of(text_of(s)) for s in own)
        strange = [name for name in declared(code_of(text_of(header))) if not defines(code, name)]
        first = INCLUDE.search(text_of(source)) if source in there else None
        unled = source in there and (not first or first.group(1) != header.name)
        if (strange or unled) and str(header) in known:
            known.discard(str(header))
            continue
        if unled:
            offence("headers", f"{source}:1", f"includes \"{header.name}\" first: that shows that the header needs nothing else")
        for name in strange:
            offence("headers", header, f"{name}() is not defined in {source.name if source in there else 'its room'}")
    for header in known:
        offence("headers", "tests/lint/rooms.py", f"{header} declares its own now: take it off KNOWN_HEADERS")


def check_guards(sources, text_of, offence):
    """An include guard is called as the file's place."""
    for header in (s for s in sources if s.suffix == ".h" and str(s) != "agent/profd.h"):  # that one is installed alone
        wanted = "PROFD_" + re.sub(r"\W", "_", str(header)).upper()
        found = re.search(r"^#ifndef (\w+)\n#define \1\n", text_of(header), re.M)
        if not found or found.group(1) != wanted:
            offence("headers", header, f"its guard is {found.group(1) if found else 'missing'}, and is to be {wanted}")


# Words that stand in nearly every file: that two files have them in common says nothing.
COMMON = set("""auto break case char const continue default do double else enum extern float for goto if inline int long register restrict
    return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false NULL define ifdef ifndef
    endif include undef elif defined size_t ssize_t uid_t gid_t pid_t ret n i name path text value bytes data context""".split())
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def check_unneeded(root, sources, text_of, code_of, offence):
    """Who includes a header says at least one of the header's own words. Headers whose words a table or a macro makes are left out."""
    words = {}

    def words_of(source):
        if source not in words:
            tables = [path for _, path in included(root, source, text_of(source)) if path.suffix == ".def"]
            code = "\n".join(code_of(text_of(path)) for path in [source, *tables])
            code = re.sub(r"^\s*#\s*include[^\n]*$", "", code, flags=re.M)
            words[source] = {word for word in IDENTIFIER.findall(code) if not re.fullmatch(r"u?int\d+_t|PROFD_\w+_H", word)} - COMMON
        return words[source]

    there = set(sources)
    for source in (s for s in sources if s.suffix in (".c", ".h")):
        for line, header in included(root, source, text_of(source)):
            made = "##" in text_of(header) or '.def"' in text_of(header)
            if header.suffix == ".h" and header in there and header.with_suffix(".c") != source and not made \
                    and not words_of(header) & words_of(source):
                offence("unneeded", f"{source}:{line}", f"uses nothing of {header}")
