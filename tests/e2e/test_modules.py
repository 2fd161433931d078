"""`profd trigger --modules` and `show --by modules`: in which nn.Module each operator was called, against counts that the script makes
certain; modules that change their names, share an address, hang nowhere, or pretend."""
# Each module calls operators of its own name, so that what it must have is known.
SCRIPT = """
import torch
from torch import nn
torch.set_num_threads(1)

class Leaf(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(8))
    def forward(self, x):
        return torch.cosh(x * self.w)

class Block(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.one = Leaf()
        self.shared = shared
    def forward(self, x):
        return torch.sin(self.shared(self.one(x)))

class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        object.__setattr__(self, "inner", nn.Tanh())
        self.__dict__["_modules"] = [1, 2]
    def forward(self, x):
        return self.inner(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        shared = Leaf()
        self.blocks = nn.ModuleList([Block(shared), Block(shared)])
        self.tail = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.add_module("gr\\u00fc\\u00df", Leaf())
        self.hidden = [Leaf()]
    def forward(self, x):
        self.fresh = nn.ModuleList(nn.Sigmoid() for _ in range(2))
        for block in self.blocks:
            x = block(x)
        x = self.hidden[0](self.tail(x))
        x = getattr(self, "gr\\u00fc\\u00df")(x)
        for module in self.fresh:
            x = module(x)
        return x

class Critic(nn.Module):
    def forward(self, x):
        return torch.tan(x)

net, critic, odd = Net(), Critic(), Odd()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)
while True:
    optimizer.zero_grad()
    loss = critic(net(torch.ones(4, 8))).sum()
    odd(torch.ones(2))
    loss.backward()
    optimizer.step()
"""


def record(profd, torch, folder):
    """Id of a capture of four steps of SCRIPT."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    job = profd.job(torch, script)
    profd.wait_steps(job.pid, 5)
    return profd.trigger(job.pid, "--steps", 4, "--modules")["capture_id"]


def test_paths(profd, torch, tmp_path):
    capture = record(profd, torch, tmp_path)
    shown = profd.show(capture)
    rows = {row["path"]: row for row in shown["modules"]}
    print(profd.run("show", capture, "--by", "modules").stdout)
    assert {path: row["class"] for path, row in rows.items()} == {
        "Net": "Net", "blocks.0": "Block", "blocks.0.one": "Leaf", "blocks.0.shared": "Leaf", "blocks.1": "Block", "blocks.1.one": "Leaf",
        "blocks.1.shared": "Leaf", "tail": "Sequential", "tail.0": "Linear", "tail.1": "ReLU", "(Leaf)": "Leaf", "gr\u00fc\u00df": "Leaf",
        "fresh.0": "Sigmoid", "fresh.1": "Sigmoid", "Critic": "Critic", "Odd": "Odd", "(Tanh)": "Tanh"}, rows
    # Four steps; forward and backward of what each calls, on the thread that steps and on autograd's.
    assert rows["Critic"]["operators"] >= 4 and rows["fresh.0"]["operators"] == rows["fresh.1"]["operators"], rows
    assert rows["blocks.0.one"]["operators"] >= 8 and rows["blocks.0.shared"]["operators"] == rows["blocks.1.shared"]["operators"], rows
    for path in ("blocks.0.one", "tail.0", "tail.1", "fresh.1", "Critic", "(Leaf)"):
        assert rows[path]["forward_ns"] > 0 and rows[path]["backward_ns"] > 0, (path, rows[path])
    assert rows["Odd"]["backward_ns"] == 0 and rows["Odd"]["host_ns"] > 0
    # Each ran once a step, whatever hangs or is called how often elsewhere.
    assert {row["calls"] for row in rows.values()} == {4}, rows
    # A module has what it calls.
    children = sum(rows[path]["host_ns"] for path in ("blocks.0.one", "blocks.0.shared"))
    assert rows["blocks.0"]["host_ns"] == rows["blocks.0"]["self_ns"] + children
    for row in rows.values():
        assert row["host_ns"] == row["forward_ns"] + row["backward_ns"] and row["device_ns"] is None, row
    assert not [loss for loss in shown["losses"] if loss["is_loss"]], shown["losses"]


def test_not_asked(profd, torch, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    job = profd.job(torch, script)
    profd.wait_steps(job.pid, 3)
    capture = profd.trigger(job.pid, "--steps", 2)["capture_id"]
    assert not profd.show(capture).get("modules")
    said = profd.run("show", capture, "--by", "modules")
    assert "not recorded" in said.stdout + said.stderr, said
