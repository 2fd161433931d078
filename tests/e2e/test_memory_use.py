"""What memory at the peak is for (show --by memory_use), beside what a script of real torch says of itself: sums of its .grad, of its optimizer's state,
of its batches, and of what autograd saved."""
import json

import pytest

from conftest import WORKLOADS, wait_for

STEPS = 6  # of a model
SCRIPT = """
import json, os, sys, time, torch
from torch.nn import functional
import without_compiler

PLANT = 64 << 20

def size(tensors):
    return sum({tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}.values())

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return torch.full((512,), 1.0 / (1 + index % 7)), index % 10

def train(steps):
    '''A model that is new in the recording, so that its optimizer's state is, too.'''
    model = torch.nn.Sequential(torch.nn.Linear(512, 700), torch.nn.ReLU(), torch.nn.Linear(700, 300), torch.nn.Tanh(), torch.nn.Linear(300, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    if "places" in sys.argv:
        optimizers.append(optimizer)
        if len(optimizers) == 3:
            optimizer = optimizers[0]
            optimizer.__init__(model.parameters(), lr=1e-3, foreach=False)
    batches = iter(torch.utils.data.DataLoader(Rows(), 64))
    own = {parameter.data_ptr() for parameter in model.parameters()}
    for step in range(steps):
        saved, plant = [], PLANT << (step == steps - 2)
        x, y = next(batches)
        if FACTORY:
            x, y = torch.rand(64, 512), torch.randint(0, 10, (64,))
        batch = {x.untyped_storage().data_ptr(), y.untyped_storage().data_ptr()}
        if len(optimizers) % 2:
            another.view(1)  # as many nodes of autograd as in the last model's steps would say that the optimizer is the same
        optimizer.zero_grad(set_to_none=False)
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor.detach()) or tensor, lambda tensor: tensor):
            output = model(x)
            loss = functional.cross_entropy(output, y)
        kept = [tensor for tensor in (*saved, output, loss)
                if tensor.untyped_storage().data_ptr() not in own | batch]
        told = {
            "activations": size(kept), "inputs": size([x, y]), "temporary": plant,
            "gradients": size([p.grad for p in model.parameters() if p.grad is not None]),
            "not known": size(model.parameters()),
            "optimizer state": size([value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]),
        }
        del saved, kept
        torch.empty(plant, dtype=torch.uint8)
        loss.backward()
        optimizer.step()
        if step == steps - 2:
            print(json.dumps(told), flush=True)
        time.sleep(0.005)

torch.set_num_threads(1)
torch.manual_seed(1)
FACTORY = "factory" in sys.argv
optimizers, another = [], torch.zeros(1, requires_grad=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
while True:
    train(6)
"""


@pytest.mark.parametrize("how", ["loader", "factory", "places"])
def test_what_a_script_says_of_itself(profd, torch_newest, how):
    """To the byte: gradients, the optimizer's state, what autograd saved, and batches, of a DataLoader and such as the script makes.
    places: the third model's optimizer lies where the first one's lay, as it may by chance; the count of steps goes on."""
    script, out, go = profd.folder / "use.py", profd.folder / "out", profd.folder / "go"
    script.write_text(SCRIPT)
    with open(out, "w") as file:
        job = profd.job(torch_newest, script, how, go, env={"PYTHONPATH": str(WORKLOADS)}, stdout=file)
    profd.wait_torch(job.pid)  # so that the process's count of steps is the script's
    go.touch()
    profd.wait_steps(job.pid, STEPS + 1)
    # The last step of a model, and those of the next one but its last, which has the highest peak.
    capture = profd.trigger(job.pid, "--memory", "--steps", STEPS, "--at-multiple", STEPS)
    assert capture["status"] == "complete" and capture["lost"] == 0, capture
    told = json.loads(wait_for(lambda: (text := out.read_text()).endswith("\n") and text, 60, "the script's own sums").splitlines()[-1])
    assert min(told.values()) > 4 and len(told) == 6
    rows = profd.show(capture["capture_id"])["memory_use"]
    assert {row["device"] for row in rows} == {"cpu"} and {row["use"]: row["bytes"] for row in rows} == told
    assert sum(row["percent"] for row in rows) == pytest.approx(100, abs=0.01)
    done = profd.run("show", capture["capture_id"], "--by", "memory_use")
    assert "optimizer state" in done.stdout and "What memory at the peak is for" in done.stdout
    assert job.poll() is None
