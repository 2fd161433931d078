#!/usr/bin/env python3
"""jobs.py NAME FOLDER - training programs as people run them on a GPU, for test_gpu_jobs.py.

Prints `ready` before the first step, trains until FOLDER/stop is there, and prints what it counted as a line of JSON. FOLDER/log gets
a line of JSON of each step where the job measures itself. PROFD_GPU_TORCH_DEVICE=cpu rehearses what needs no GPU.

    plain       an MLP                                    graphed     a CUDA graph, captured before the first step
    busy        the same, without a pause
    recapture   captures a CUDA graph in each step        oom         asks for too much memory in each step, and goes on
    ddp         DistributedDataParallel over NCCL         workers     a DataLoader whose workers are forked anew in each epoch
    compiled    torch.compile                             reduced     torch.compile with CUDA graphs
    hf          transformers.Trainer                      lightning   pytorch_lightning.Trainer
    item, pageable, loader, launch                        a cause of waiting (see test_a_planted_cause), `well` none
    ends-MODE   plain, and then its end: return, exit, _exit, raise, assert (on the device), kill, term
    jax, cupy   a loop of that library
"""
import contextlib
import ctypes
import json
import os
import pathlib
import signal
import sys
import time

DEVICE = os.environ.get("PROFD_GPU_TORCH_DEVICE", "cuda")
CUDA = DEVICE != "cpu"
NODES = 25  # of a CUDA graph


def ready():
    print("ready", flush=True)


class Until:
    """Counts steps until FOLDER/stop is there."""

    def __init__(self, folder):
        self.stop, self.steps, self.log = folder / "stop", 0, open(folder / "log", "w", encoding="utf-8")

    def __iter__(self):
        ready()
        while not self.stop.exists():
            self.steps += 1
            yield self.steps

    def write(self, **facts):
        self.log.write(json.dumps({"step": self.steps, **facts}) + "\n")
        self.log.flush()


def net(torch, width=256, depth=4):
    layers = []
    for _ in range(depth):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers).to(DEVICE)


def train(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def finish(torch):
    if CUDA:
        torch.cuda.synchronize()


def plain(torch, until):
    model, x = net(torch), torch.randn(64, 256, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in until:
        before = torch.cuda.memory_stats() if CUDA else {}
        train(model, optimizer, x)
        finish(torch)
        time.sleep(0.005)
        after = torch.cuda.memory_stats() if CUDA else {}
        until.write(**{word: after[key] - before[key] for word, key in (
            ("allocated", "allocation.all.allocated"), ("bytes", "allocated_bytes.all.allocated")) if key in after},
                    held=after.get("allocated_bytes.all.current"))


def busy(torch, until):
    """As plain, but the host never rests."""
    model, x = net(torch), torch.randn(64, 256, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in until:
        train(model, optimizer, x)
        finish(torch)
    return {}


def graphed(torch, until):
    x = torch.ones(1 << 16, device=DEVICE)
    model = net(torch, depth=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            x.mul_(1.0001)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(NODES):
            x.mul_(1.0001)
    for _ in until:
        graph.replay()
        train(model, optimizer, x[:256].view(1, 256))
        torch.cuda.synchronize()
        time.sleep(0.005)
    return {"nodes": NODES}


def recapture(torch, until):
    """A stream capture is under way when CUPTI is switched on and off: nothing that the agent does may end it."""
    x = torch.ones(1 << 16, device=DEVICE)
    model = net(torch, depth=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    train(model, optimizer, x[:256].view(1, 256))
    made = 0
    for _ in until:
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(NODES):
                x.mul_(1.0001)
            time.sleep(0.02)
        graph.replay()
        torch.cuda.synchronize()
        made += 1
        train(model, optimizer, x[:256].view(1, 256))
    return {"made": made, "nodes": NODES}


def oom(torch, until):
    model, x = net(torch), torch.randn(64, 256, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    caught = 0
    for _ in until:
        with contextlib.suppress(*([torch.cuda.OutOfMemoryError] if CUDA else [])):
            if CUDA:
                torch.empty(1 << 48, device=DEVICE)
                caught -= 1
        caught += 1
        train(model, optimizer, x)
        finish(torch)
        time.sleep(0.005)
    assert caught == until.steps
    return {}


def ddp(torch, until):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("nccl" if CUDA else "gloo", store=store, rank=0, world_size=1)
    model, x = torch.nn.parallel.DistributedDataParallel(net(torch)), torch.randn(64, 256, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    total = torch.ones(1 << 16, device=DEVICE)
    for _ in until:
        train(model, optimizer, x)
        torch.distributed.all_reduce(total)
        finish(torch)
        time.sleep(0.005)
    assert float(total.sum()) == 1 << 16
    torch.distributed.destroy_process_group()
    return {}


class Data:
    """Samples that take so long."""

    def __init__(self, torch, length, seconds=0.0, size=256):
        self.torch, self.length, self.seconds, self.size = torch, length, seconds, size

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.seconds:
            time.sleep(self.seconds)
        return self.torch.randn(self.size)


def workers(torch, until):
    """Forks two children in each epoch, with CUDA up and captures under way."""
    model = net(torch)
    optimizer = torch.optim.AdamW(model.parameters())
    loader, batches = torch.utils.data.DataLoader(Data(torch, 80), 16, num_workers=2, pin_memory=CUDA), iter(())
    for _ in until:
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            batch = next(batches)
        train(model, optimizer, batch.to(DEVICE, non_blocking=True))
        finish(torch)
    del batches
    return {}


def compiled(torch, until, mode=None):
    model = torch.compile(net(torch), mode=mode)
    x = torch.randn(64, 256, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(8):
        train(model, optimizer, x)
    finish(torch)
    for _ in until:
        train(model, optimizer, x)
        finish(torch)
        time.sleep(0.005)
    return {}


def reduced(torch, until):
    return compiled(torch, until, "reduce-overhead" if CUDA else None)


def hf(torch, until):
    import transformers
    config = transformers.LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
                                      num_key_value_heads=2, max_position_embeddings=32)

    class Tokens(torch.utils.data.Dataset):
        def __len__(self):
            return 10**6

        def __getitem__(self, i):
            ids = torch.arange(i, i + 16) % 64
            return {"input_ids": ids, "labels": ids}

    class Stop(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **more):
            until.steps += 1
            control.should_training_stop = until.stop.exists()

    arguments = transformers.TrainingArguments(
        output_dir=str(until.stop.parent / "hf"), max_steps=10**6, per_device_train_batch_size=4, gradient_accumulation_steps=2,
        logging_steps=20, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=not CUDA, bf16=CUDA)
    ready()
    transformers.Trainer(transformers.LlamaForCausalLM(config), arguments, train_dataset=Tokens(), callbacks=[Stop()]).train()
    return {}


def lightning(torch, until):
    import pytorch_lightning

    class Module(pytorch_lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net(torch).cpu()

        def training_step(self, x, i):
            return self.net(x).square().mean()

        def validation_step(self, x, i):
            self.net(x)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    class Stop(pytorch_lightning.Callback):
        def on_train_batch_end(self, trainer, module, outputs, x, i):
            until.steps += 1
            trainer.should_stop = until.stop.exists()

    trainer = pytorch_lightning.Trainer(
        accelerator="gpu" if CUDA else "cpu", devices=1, max_epochs=-1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[Stop()], val_check_interval=50, limit_val_batches=3, default_root_dir=str(until.stop.parent))
    loaders = [torch.utils.data.DataLoader(Data(torch, 10**6), 16) for _ in range(2)]
    ready()
    trainer.fit(Module(), *loaders)
    return {}


# ---------------------------------------------------------------- causes; each writes what it cost, as it measured it

def large(torch):
    """Work that keeps the device busy for some milliseconds a step, with few launches."""
    size = 2048 if CUDA else 64
    model = torch.nn.Sequential(*[torch.nn.Linear(size, size, bias=False) for _ in range(8)]).to(DEVICE)
    x = torch.randn(2048 if CUDA else 8, size, device=DEVICE)
    return model, torch.optim.SGD(model.parameters(), lr=1e-9, fused=CUDA), x


def well(torch, until):
    model, optimizer, x = large(torch)
    done = [torch.cuda.Event() for _ in range(2)] if CUDA else []
    for step in until:
        # The host runs a step ahead, as a loop that logs the loss of the step before.
        if CUDA and step > 1:
            done[step % 2].synchronize()
        train(model, optimizer, x)
        if CUDA:
            done[(step + 1) % 2].record()
    return {}


def item(torch, until):
    model, optimizer, x = large(torch)
    for _ in until:
        lost, y, since = 0, x, None
        optimizer.zero_grad()
        for layer in model:
            y = layer(y)
            if since:  # until there is work for the device again
                lost += time.monotonic_ns() - since
            float(y[0, 0].item())
            since = time.monotonic_ns()
            while time.monotonic_ns() - since < 500_000:
                pass
        loss = y.square().mean()
        lost += time.monotonic_ns() - since
        loss.backward()
        optimizer.step()
        until.write(lost=lost)
    return {}


def after(torch, until, what):
    """Trains, each step after `what`, which is what the step loses."""
    model, optimizer, x = large(torch)
    for _ in until:
        start = time.monotonic_ns()
        what()
        lost = time.monotonic_ns() - start
        train(model, optimizer, x)
        finish(torch)
        until.write(lost=lost)
    return {}


def pageable(torch, until):
    host = torch.randn(16 << 20)
    return after(torch, until, lambda: host.to(DEVICE))


def loader(torch, until):
    batches = iter(torch.utils.data.DataLoader(Data(torch, 1 << 30, 0.03, 8), 1))
    return after(torch, until, lambda: next(batches))


def launch(torch, until):
    weight = torch.nn.Parameter(torch.ones(64, device=DEVICE))
    optimizer = torch.optim.SGD([weight], lr=1e-9, fused=CUDA)
    for _ in until:
        optimizer.zero_grad()
        y = weight
        for _ in range(400):
            y = y + 1
        y.sum().backward()
        optimizer.step()
        finish(torch)
    return {}


# ---------------------------------------------------------------- ends

def ends(torch, until, mode):
    model, x = net(torch), torch.randn(64, 256, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in until:
        train(model, optimizer, x)
        time.sleep(0.002)
    if mode == "exit":
        sys.exit(7)
    if mode == "_exit":
        os._exit(7)
    if mode == "raise":
        raise ValueError("as planned")
    if mode == "assert":
        index = torch.full((4,), 1 << 20, device=DEVICE)
        x[index].sum().item()
    if mode in ("kill", "term"):
        os.kill(os.getpid(), signal.SIGKILL if mode == "kill" else signal.SIGTERM)
        time.sleep(10)
    return {}


# ---------------------------------------------------------------- without torch

def jax(until):
    import jax as library
    from jax import numpy
    step = ctypes.CDLL(None).profd_step if os.environ.get("LD_PRELOAD") else lambda: None
    update = library.jit(lambda w, x: w - 1e-6 * library.grad(lambda w: numpy.square(numpy.tanh(x @ w)).mean())(w))
    w, x = numpy.ones((512, 512)), numpy.ones((256, 512))
    update(w, x).block_until_ready()
    for _ in until:
        w = update(w, x).block_until_ready()
        step()
        time.sleep(0.005)
    return {}


def cupy(until):
    import cupy as library
    step = ctypes.CDLL(None).profd_step if os.environ.get("LD_PRELOAD") else lambda: None
    x = library.ones((512, 512), dtype="float32")
    for _ in until:
        for _ in range(10):
            x = library.tanh(x @ x)
        library.cuda.Device().synchronize()
        step()
        time.sleep(0.005)
    return {}


def main():
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    until = Until(folder)
    if name in ("jax", "cupy"):
        said = globals()[name](until)
    else:
        import torch
        torch.manual_seed(0)
        torch.set_num_threads(1)
        if name.startswith("ends-"):
            said = ends(torch, until, name[5:])
        else:
            said = globals()[name](torch, until) or {}
    print(json.dumps({"steps": until.steps, **said}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
