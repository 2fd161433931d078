"""Run by test_python_objects.py with each CPython: objects of many kinds as proto/python reads them, beside what Python says of them."""
import collections
import ctypes
import random
import sys
import threading
import types

library = ctypes.CDLL(sys.argv[1])
library.objects_open.argtypes = ctypes.c_uint64, ctypes.c_uint
library.objects_disproved.restype = ctypes.c_char_p
for name, types_of in (("attribute", (ctypes.c_uint64, ctypes.c_char_p)), ("item", (ctypes.c_uint64, ctypes.c_char_p)), ("number", (ctypes.c_uint64,))):
    function = getattr(library, "objects_" + name)
    function.argtypes, function.restype = types_of, ctypes.c_uint64
MINOR = sys.version_info[1]
RUNTIME = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
VALUES = [object() for _ in range(4)]


def attribute(thing, name):
    return library.objects_attribute(id(thing), name.encode())


def has(thing, **wanted):
    for name, value in wanted.items():
        assert attribute(thing, name) == id(value), (type(thing), name, value)
    assert attribute(thing, "no_such_name") == 0


class Plain:
    def __init__(self, **attributes):
        for name, value in attributes.items():
            setattr(self, name, value)


class Slots:
    __slots__ = "in_slot", "__dict__", "__weakref__"


class Bare:
    __slots__ = "in_slot",


class Below(Slots):
    pass


class Dict(dict):
    pass


def plain():
    """Attributes that share their keys; also where each object has them in another order, or lacks some."""
    some = [Plain(one=1, two=VALUES[0], three=VALUES[1]) for _ in range(3)]
    for thing in some:
        has(thing, one=1, two=VALUES[0], three=VALUES[1])
    del some[0].two
    has(some[0], one=1, three=VALUES[1])
    assert attribute(some[0], "two") == 0
    some[0].two = VALUES[2]
    has(some[0], one=1, two=VALUES[2], three=VALUES[1])
    has(Plain(three=VALUES[3]), three=VALUES[3])
    assert attribute(Plain(), "one") == 0


def with_a_dict():
    """Once `__dict__` was asked for; replaced, shared, emptied, of a class of its own, with keys that are no names."""
    one, other = Plain(one=VALUES[0]), Plain(one=VALUES[1])
    assert vars(one)["one"] is VALUES[0]
    has(one, one=VALUES[0])
    one.two = VALUES[2]
    has(one, one=VALUES[0], two=VALUES[2])
    other.__dict__ = one.__dict__
    has(other, one=VALUES[0], two=VALUES[2])
    one.__dict__ = {"three": VALUES[3]}
    has(one, three=VALUES[3])
    assert attribute(one, "one") == 0
    one.__dict__ = Dict(four=VALUES[1])
    has(one, four=VALUES[1])
    one.__dict__.clear()
    assert attribute(one, "four") == 0
    vars(one).update({7: VALUES[0], None: 1, "gr\u00fc\u00df": 2, "x" * 100: 3, "": 4, "five": VALUES[2]})
    has(one, five=VALUES[2])
    kept = collections.OrderedDict(six=VALUES[0])
    assert library.objects_item(id(kept), b"six") == id(VALUES[0]) and library.objects_item(id(kept), b"seven") == 0


def slots():
    for kind in (Slots, Below):
        thing = kind()
        thing.in_slot, thing.other = VALUES[0], VALUES[1]
        has(thing, other=VALUES[1])
        assert attribute(thing, "in_slot") == 0
    thing = Bare()
    thing.in_slot = VALUES[0]
    assert attribute(thing, "in_slot") == attribute(thing, "other") == 0


def many():
    thing = Plain(first=VALUES[0])
    for i in range(100000):
        setattr(thing, "a%d" % i, VALUES[i % 4])
    has(thing, first=VALUES[0], a0=VALUES[0], a1=VALUES[1], a50002=VALUES[2], a99999=VALUES[3])
    for i in range(0, 100000, 2):
        delattr(thing, "a%d" % i)
    has(thing, a1=VALUES[1], a99999=VALUES[3])
    assert attribute(thing, "a50002") == 0


def others():
    """Objects that keep their attributes otherwise: theirs are found, or none is."""
    def function():
        pass

    class Tuple(tuple):
        pass

    class Int(int):
        pass

    for thing in (function, Tuple((1, 2)), Int(7), Int(1 << 300), ValueError(), types.ModuleType("some"), types.SimpleNamespace(), Plain, threading.local()):
        thing.marked = VALUES[0]
        assert attribute(thing, "marked") in (0, id(VALUES[0])), thing
    for thing in (None, 1, "text", [], {"marked": 1}, object(), type, sys):
        assert attribute(thing, "marked") == 0, thing


def numbers():
    for number in (0, 1, 2, 255, 256, 2**29, 2**30 - 1, 2**30, 2**45 + 3, 2**60 - 1, True, False):
        assert library.objects_number(id(number)) == number, number
    for thing in (-1, -2**30, -2**59, 2**60, 2**64, 10**50, 1.5, "1", None, []):
        assert library.objects_number(id(thing)) == 2**64 - 1, thing


def nowhere():
    """Addresses of no object."""
    chance = random.Random(1)
    near = [id(thing) for thing in (VALUES, VALUES[0], Plain(one=1), Plain, {}, "text")]
    for address in [0, 1, 8, 4095, 4096, 2**47 - 8, 2**47, 2**63, 2**64 - 1, RUNTIME] + [max(at + chance.randrange(-512, 512), 0) for at in near for _ in range(300)]:
        library.objects_attribute(address, b"no_such_name")
        library.objects_item(address, b"no_such_name")
        library.objects_number(address)


def beside(change, look):
    """`look`, many times, while another thread does `change` again and again."""
    ends = threading.Event()

    def run():
        while not ends.is_set():
            change()
    thread = threading.Thread(target=run)
    sys.setswitchinterval(0.0001)  # or a look waits for the other thread's 5 ms
    thread.start()
    try:
        for _ in range(500):
            look()
    finally:
        ends.set()
        thread.join()


def changing():
    """What another thread changes meanwhile is read as it was, or not at all. The name stands nowhere else, so that another value were a wrong one."""
    thing = Plain(changing_name=VALUES[0])

    def change():
        for i in range(60):
            setattr(thing, "z%d" % i, i)
        thing.changing_name = VALUES[1]
        del thing.changing_name
        thing.__dict__ = {"changing_name": VALUES[2]}
        thing.__dict__ = Dict(changing_name=VALUES[3])
        thing.__dict__.clear()
        thing.__dict__ = {}
        thing.changing_name = VALUES[0]
        for _ in range(20):
            Plain(changing_name=VALUES[1]).other = 1

    right = {0, *map(id, VALUES)}

    def look():
        found = attribute(thing, "changing_name")
        assert found in right, hex(found)
    beside(change, look)
    has(thing, changing_name=VALUES[0])


def disproved():
    return library.objects_disproved()


def proof():
    assert disproved() is None
    whole, spec = sys.hexversion, sys.__spec__
    for wrong in (whole ^ 1 << 16, whole ^ 1 << 24, 2**70, -1, "text", None):
        sys.hexversion = wrong
        assert disproved() == b"sys.hexversion", wrong
    sys.hexversion = whole
    for wrong in (None, Plain(name="sis"), Plain(name=7), Plain(other="sys"), Bare()):
        sys.__spec__ = wrong
        assert disproved() == b"sys.__spec__.name", wrong
    sys.__spec__ = Plain(name="sys")
    assert disproved() is None
    sys.__spec__ = spec
    for wrong in (None, 7, Plain(hexversion=whole), types.ModuleType("sys")):
        sys.modules["sys"] = wrong
        assert disproved() in (b"the module sys", b"sys.hexversion"), wrong
    del sys.modules["sys"]
    assert disproved() == b"the module sys"
    sys.modules["sys"] = sys
    assert disproved() is None

    def change():
        for i in range(200):
            sys.modules["made_%d" % i] = sys
        for i in range(200):
            del sys.modules["made_%d" % i]
    beside(change, disproved)
    assert disproved() is None


def another_release():
    """Read as another release than it is: that is noticed. From 3.13 on the runtime itself says which it is."""
    for minor in range(9, 15):
        if minor != MINOR and library.objects_open(RUNTIME, minor) == 0 and not (minor >= 13 and MINOR >= 13):
            assert disproved(), minor


assert library.objects_open(RUNTIME, MINOR) == 0
for check in (plain, with_a_dict, slots, many, others, numbers, nowhere, changing, proof, another_release):
    check()
    print(check.__name__, flush=True)
