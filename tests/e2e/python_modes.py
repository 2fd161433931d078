"""Run by test_python_objects.py with each CPython: modules that functions name, and their mode, as agent/stacks/mode.c finds them. The modules are stand-ins that keep what
torch's keep."""
import ctypes
import random
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
library.modes_open.argtypes = ctypes.c_uint64, ctypes.c_uint, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64
library.modes_of.argtypes = ctypes.c_uint64, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64)
this_thread = ctypes.pythonapi.PyGILState_GetThisThreadState
this_thread.restype = ctypes.c_uint64
RUNTIME = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
STATE = this_thread()


def here(name):
    room = (ctypes.c_uint64 * 16)()
    count = library.modes_of(STATE, name.encode(), room)
    assert count >= 0, name
    return {room[2 * i]: bool(room[2 * i + 1]) for i in range(count)}


def wanted(*modules):
    return {id(one): one.training for one in modules}


class Module:
    def __init__(self, training=True, touched=False):
        self.training = training
        self._parameters = {}
        self._modules = {}
        if touched:
            vars(self)["other"] = 1


class Late(Module):
    """`training` is not its first attribute, and it has many."""
    def __init__(self, training=True):
        for i in range(40):
            setattr(self, f"attribute_{i}", i)
        super().__init__(training)


class OptimizedModule(Module):
    def __init__(self, module):
        self._parameters = {}
        self._modules = {"_orig_mod": module}

    @property
    def training(self):
        return self._modules["_orig_mod"].training


class Other:
    training = True


class Engine:
    def __init__(self, net, unnamed):
        self.rate, self.net, self.unnamed = 0.1, net, unnamed

    def of_attributes(self):
        self.net
        return here("of_attributes")


shared = Module()


def of_variables(a, b, data):
    number, text, empty = 1, "training", None
    return here("of_variables")


def of_globals(data):
    shared
    return here("of_globals")


def of_closure(net):
    def inner():
        net
        return here("inner")
    return inner()


def generates(net):
    yield here("generates")


def check():
    for made in (Module, Late, lambda mode: Module(mode, True)):
        for mode in (True, False):
            net, other = made(mode), made(not mode)
            assert of_variables(net, other, [net]) == wanted(net, other)
            assert of_variables(OptimizedModule(net), 1, None) == wanted(net)
            assert Engine(net, other).of_attributes() == wanted(net)
            assert of_closure(net) == wanted(net)
            assert next(generates(net)) == wanted(net)
            net.training = not mode
            assert of_variables(net, net, None) == wanted(net)
            shared.training = mode
            assert of_globals(None) == wanted(shared)


def not_known():
    """Of what is no module, or has no mode that could be told."""
    odd, bare, empty = Module(), Other(), OptimizedModule(None)
    for value in (1, 0, None, "True", 1.0, Module()):
        odd.training = value
        assert of_variables(odd, bare, None) == {}
    del odd.training
    assert of_variables(odd, empty, Module) == {}
    odd.training, odd._parameters = True, None
    assert of_variables(odd, Other, {"training": True}) == {}
    empty._modules["_orig_mod"] = empty
    assert of_variables(empty, None, None) == {}


def meanwhile():
    """Other threads change what is read: nothing is found that is not there."""
    nets, ended = [Module() for _ in range(4)], []

    def changes():
        while not ended:
            net = random.choice(nets)
            net.training = not net.training
            for i in range(random.randrange(40)):
                setattr(net, f"attribute_{i}", i)
            net.__dict__ = dict(vars(random.choice(nets)))

    threads = [threading.Thread(target=changes) for _ in range(2)]
    for thread in threads:
        thread.start()
    found = 0
    for _ in range(200):
        there = of_variables(nets[0], nets[1], None)
        assert set(there) <= {id(nets[0]), id(nets[1])}
        found += len(there)
    ended.append(1)
    for thread in threads:
        thread.join()
    assert found


CELL = (lambda a: lambda: a)(1).__closure__[0]
assert library.modes_open(RUNTIME, sys.version_info[1], id(True), id(False), id(type(CELL))) == 0
check()
not_known()
meanwhile()
print("modes")
