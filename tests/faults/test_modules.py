"""Jobs whose modules come and go, change, pretend or hang oddly while --modules reads them: the job is the same, and no time is shown for a module
that did not run it; what is not known is said."""
import shutil
import sqlite3

import pytest

from conftest import same_job

HEAD = """
import ctypes, gc, os, sys, threading, time, torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(1)
step = getattr(ctypes.CDLL(None), "profd_step", lambda: None)
class Leaf(nn.Module):
    def forward(self, x):
        return torch.cosh(x)
class Other(nn.Module):
    def forward(self, x):
        return torch.sinh(x)
x = torch.ones(4)
while os.path.exists(os.environ.get("STAY", "")):  # until it is recorded: the job may be done soon
    time.sleep(0.01)
    x.add(1)
    step()
"""
# Of aten::cosh, which Leaf alone calls, and aten::sinh, which Other alone calls.
ODD = """
class Slotted(nn.Module):
    __slots__ = ("extra",)
    def __init__(self):
        super().__init__()
        self.extra, self.leaf = 1, Leaf()
    def forward(self, x):
        return self.leaf(x)
class OwnCall(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf = Leaf()
    def __call__(self, x):
        return torch.tan(super().__call__(x))
    def forward(self, x):
        return self.leaf(x)
class OwnImpl(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf = Leaf()
    def _call_impl(self, x):
        return self.leaf(x)
class NoCall(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf = Leaf()
    def __call__(self, x):
        return self.leaf(x)
class Generates(nn.Module):
    def forward(self, x):
        for _ in range(2):
            yield torch.sinh(x)
class Awaits(nn.Module):
    async def forward(self, x):
        return torch.sinh(x)
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.generates, self.awaits, self.leaf = Generates(), Awaits(), Leaf()
    def forward(self, x):
        for y in self.generates(x):
            x = x + y
        try:
            self.awaits(x).send(None)
        except StopIteration as done:
            return self.leaf(x + done.value)
class Rebinds(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf = Leaf()
    def forward(self, x):
        me, self = self, None
        x = me.leaf(x)
        del self, me
        return torch.tan(x)
class Last(torch.Tensor):
    def __del__(self):
        Other()(torch.ones(1))
class Drops(nn.Module):
    def forward(self, x, held=None):
        return torch.cosh(x)
models = [Slotted(), OwnCall(), OwnImpl(), NoCall(), Outer(), Rebinds()]
for i in range(80):
    for model in models:
        x = model(x).sigmoid()
    x = Drops()(x, torch.ones(1).as_subclass(Last))
    step()
print(x.tolist())
"""
ODD_ROWS = {("Slotted",): "Slotted", ("Slotted", "leaf"): "Leaf", ("OwnCall",): "OwnCall", ("OwnCall", "leaf"): "Leaf", ("OwnImpl",): "OwnImpl",
            ("OwnImpl", "leaf"): "Leaf", ("Leaf",): "Leaf", ("Outer",): "Outer", ("Outer", "leaf"): "Leaf", ("Rebinds",): "Rebinds",
            ("Rebinds", "leaf"): "Leaf", ("Drops",): "Drops", ("Other",): "Other"}

# {name: (what the job does, its text, {(module, its child, ...): class} or None)}
JOBS = {
    "changing": ("makes its modules anew in each step, while another thread puts them elsewhere", """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.make()
    def make(self):
        self.one, self.two = Leaf(), Other()
    def forward(self, x):
        self.make()
        return self.two(self.one(x)).sigmoid()
net, ends = Net(), False
def change():
    kept = [Leaf() for _ in range(50)]
    while not ends:
        for i in range(50):
            net._modules[f"z{i}"] = kept[i]
        for i in range(50):
            del net._modules[f"z{i}"]
        for name in ("one", "two"):
            module = net._modules.pop(name)
            net._modules[name] = module
def again():
    try:
        return net(torch.ones(4))
    except (AttributeError, RuntimeError):
        return again()
thread = threading.Thread(target=change)
thread.start()
for i in range(400):
    x = again()
    if i % 50 == 0:
        gc.collect()
    step()
ends = True
thread.join()
print(x.tolist())
""", None),
    "huge": ("has 100,000 children in one module, and calls some", """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.many = nn.Module()
        self.many._modules.update((f"c{i}", Leaf()) for i in range(100000))
        self.small = nn.ModuleList(Leaf() for _ in range(3000))
    def forward(self, x):
        for i in (0, 1, 50000, 99999):
            x = self.many._modules[f"c{i}"](x).sigmoid()
        return self.small[2999](x)
net = Net()
gc.freeze()
for i in range(100):
    x = net(x)
    step()
print(x.tolist())
""", {("Net",): "Net", ("Net", "many.c0"): "Leaf", ("Net", "many.c1"): "Leaf", ("Net", "many.c50000"): "Leaf", ("Net", "many.c99999"): "Leaf",
      ("Net", "small.2999"): "Leaf"}),
    "odd": ("has modules with slots, calls of their own, generators, coroutines, and without self", ODD, ODD_ROWS),
    "deep": ("has 190 modules, one in the other", """
sys.setrecursionlimit(20000)
threading.stack_size(256 << 20)
class Nest(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        return self.inner(x)
net = Leaf()
for i in range(190):  # more frames than are read; CPython 3.12 goes no deeper than some 200
    net = Nest(net)
def run():
    global x
    for i in range(60):
        x = net(x).sigmoid()
        step()
thread = threading.Thread(target=run)
thread.start()
thread.join()
print(x.tolist())
""", None),
    "reload": ("loads torch's module.py again, some times", """
import importlib
modules = [Leaf()]
for i in range(60):
    if i % 12 == 5:
        importlib.reload(sys.modules["torch.nn.modules.module"])
        class Fresh(sys.modules["torch.nn.modules.module"].Module):
            def __init__(self):
                super().__init__()
                self.leaf = modules[0]
            def forward(self, x):
                return self.leaf(x)
        modules.append(Fresh())
    for module in modules:
        x = module(x).sigmoid()
    step()
print(x.tolist())
""", {("Leaf",): "Leaf", ("Fresh",): "Fresh", ("Fresh", "(Leaf)"): "Leaf"}),
    "pretends": ("calls what only looks like torch's call of a module, with memory in its frame that is there no more", """
space = {}
exec(compile("def _wrapped_call_impl():\\n    return -held\\n"
             "def fill(a, b, c):\\n    pass\\n"
             "def both(first, make, last):\\n    first(make(), make(), make())\\n    return last()\\n", "/made/torch/nn/modules/module.py", "exec"), space)
space["held"] = torch.ones(4)
leaf = Leaf()
def large():
    return bytes(1 << 22)  # which is unmapped when it goes
for i in range(100):
    x = leaf(x).sigmoid() + space["both"](space["fill"], large, space["_wrapped_call_impl"])
    step()
print(x.tolist())
""", {("Leaf",): "Leaf"}),
    "forks": ("forks children in the middle of a module's call, and becomes another program in one", """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on Python warns of forks, as there are the agent's threads
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf = Leaf()
    def forward(self, x):
        child = os.fork()
        if not child:
            self.leaf(x)
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        return self.leaf(x)
class Becomes(nn.Module):
    def forward(self, x):
        torch.tan(x)
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-c", "import sys; print(sum(range(1000))); sys.exit(4)"])
net, becomes = Net(), Becomes()
for i in range(60):
    x = net(x).sigmoid()
    step()
print(x.tolist())
becomes(x)
""", {("Net",): "Net", ("Net", "leaf"): "Leaf", ("Becomes",): "Becomes"}),
}


def tree(db):
    """{(module, its child, ...): class}, and the sum of the operators that Leaf and Other alone call, by the class of the row that has them."""
    nodes = {row[0]: row[1:] for row in db.execute("SELECT m.id, m.parent, n.text, c.text FROM nn_modules m LEFT JOIN strings n ON n.id = m.name "
                                                   "LEFT JOIN strings c ON c.id = m.class")}

    def path(at):
        parent, name, kind = nodes[at]
        return (*path(parent), name or f"({kind})") if parent else (kind,)
    owners = db.execute("SELECT n.text, coalesce(c.text, ''), count(*) FROM operators o JOIN strings n ON n.id = o.name LEFT JOIN stack_modules s ON "
                        "s.stack = o.stack LEFT JOIN nn_modules m ON m.id = s.module LEFT JOIN strings c ON c.id = m.class WHERE n.text IN "
                        "('aten::cosh', 'aten::sinh') AND o.stack IS NOT NULL GROUP BY 1, 2").fetchall()
    return {path(at): row[2] for at, row in nodes.items()}, owners


@pytest.mark.parametrize("name", JOBS)
def test_modules(row, profd, torch_newest, name):
    what, text, wanted = JOBS[name]
    row.does(f"{what}, with --modules")

    def during(job):
        profd.wait_steps(job.pid, 2, 240)
        client = profd.follow("--pid", job.pid, "--steps", 90000, "--timeout", "400s", "--modules")
        profd.wait_recorded(job.pid, 20, 240)
        return client

    client = row.twice(profd, [torch_newest, "-c", HEAD + text], during, same_job, timeout=300)
    out, err = client.communicate(timeout=90)
    assert client.returncode in (0, 5), (client.returncode, out, err)
    capture = profd.json("captures")["captures"][0]["capture_id"]
    copy = shutil.copy(profd.file(capture), profd.folder / "counted.db")
    with sqlite3.connect(copy) as db:
        found, owners = tree(db)
        whole, = db.execute("SELECT count(stack) FROM operators").fetchone()
        without, = db.execute("SELECT coalesce(sum(count), 0) FROM losses WHERE loss = 'stackless'").fetchone()
        called = db.execute("SELECT m.class, max(t.calls) FROM module_totals t JOIN nn_modules m ON m.id = t.module").fetchone()
    print(profd.run("show", capture, "--by", "modules").stdout)
    row.counts(whole, 0, whole)
    assert whole > 100 and called[1] and without == 0, (whole, called, without)
    if wanted is not None:
        assert found == wanted
    else:
        looks[name](found)
    # What Leaf's forward calls is nowhere but with a Leaf.
    wrong = [owner for owner in owners if owner[:2] not in RIGHT]
    assert owners and not wrong, wrong


# A forward that is a generator, or a coroutine, runs when its caller goes on with it, and that is in its caller's call.
RIGHT = {("aten::cosh", "Leaf"), ("aten::cosh", "Drops"), ("aten::sinh", "Other"), ("aten::sinh", "Outer")}


def changing(found):
    """A module that was not there when it was looked for is known by its class."""
    assert found.keys() <= {("Net",), ("Net", "one"), ("Net", "two"), ("Net", "(Leaf)"), ("Net", "(Other)")}, found
    assert found["Net", "one"] == "Leaf" and found["Net", "two"] == "Other"


def deep(found):
    """Where the outermost frames are not read, what hangs there is not known."""
    longest = max(found, key=len)
    assert longest[:2] == ("?", "(Nest)") and set(longest[2:]) == {"inner"} and len(longest) > 100 and found[longest] == "Leaf", longest
    assert {path[0] for path in found} == {"?"}, found


looks = {"changing": changing, "deep": deep}
