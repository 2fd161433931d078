"""Sums, levels and peaks of torch's memory on the CPU at each step's end, beside those of an allocator that counts (tests/workloads/libcounting.c), preloaded
into the same job: it sees nothing but the calls of libc."""
import json

import pytest

from conftest import BUILD, WORKLOADS

STEPS = 12
SCRIPT = """
import ctypes, json, sys, time, torch, train
from torch.nn import functional
import without_compiler

torch.set_num_threads(1)
torch.manual_seed(1)
make, shape = train.MODELS[sys.argv[1]]
model = make()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
mark, counted = ctypes.CDLL(None).counting_mark, (ctypes.c_int64 * 6)()
x, y = torch.randn(4, *shape), torch.randint(0, 10, (4,))
step = 0
while True:
    step += 1
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(x.repeat(1 + step % 3, *[1] * len(shape))), y.repeat(1 + step % 3))
    loss.backward()
    optimizer.step()
    mark(counted)
    print(json.dumps([step, *counted]), flush=True)
    time.sleep(0.02)
"""


@pytest.mark.parametrize("model", [pytest.param("transformer", marks=pytest.mark.core), pytest.param("cnn", marks=pytest.mark.wide), pytest.param("lstm", marks=pytest.mark.wide)])
def test_as_an_allocator_counts(profd, torch_newest, model):
    script, out = profd.folder / "counted.py", profd.folder / "out"
    script.write_text(SCRIPT)
    with open(out, "w") as file:
        job = profd.job(torch_newest, script, model, stdout=file,
                        env={"LD_PRELOAD": str(BUILD / "workloads" / "libcounting.so"), "PYTHONPATH": str(WORKLOADS)})
    profd.wait_steps(job.pid, 3)
    # On a full machine recording is switched on in the midst of a later step than the first; a block is given back in the step after its own.
    capture = profd.trigger(job.pid, "--steps", STEPS, "--warmup", 10, "--memory")
    assert capture["status"] == "complete" and capture["lost"] == 0, capture
    profd.wait_steps(job.pid, profd.process(job.pid)["step"] + 1)
    counted = {step: values for step, *values in map(json.loads, out.read_text().splitlines()[:-1])}
    shown = profd.show(capture["capture_id"])
    numbers = [row["number"] for row in shown["steps"]]
    ours = {numbers[row["step"] - 1]: row for row in shown["memory_steps"]}
    assert len(ours) == STEPS and all(row["unknown"] == 0 for row in ours.values())
    # Of the CPU profd knows how much more is held than when the recording began.
    before = counted[numbers[0] - 1][4]
    assert {number: [row[key] for key in ("taken", "taken_bytes", "given_back", "given_back_bytes", "end_bytes", "peak_bytes")]
            for number, row in ours.items()} == {
        number: [*counted[number][:4], counted[number][4] - before, counted[number][5] - before] for number in numbers}
    assert len({row["peak_bytes"] for row in ours.values()}) >= 3
