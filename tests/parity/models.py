"""models.py MODEL FOLDER [paced] - a training loop that torch.profiler and profd look at: the same steps by both, and others by each alone.

Iterations are marked by ranges, `iteration N`, which follow each other without a gap, so that a step of profd's (--step-range 'iteration *')
and one of torch.profiler's are the same. plan.py says who looks at which. Before profd does the job makes the file `holds-STAGE` and
waits for `go-STAGE`. A window of torch.profiler leaves its trace and its averages in FOLDER. The models are those of
tests/workloads/train.py and the loops of tests/steps/loops.py. RANK is that of a process of two.

paced: torch.profiler has no part in it. The folder's parent has a file `pace`: how many iterations may begin, and which is the last one, or 0.
What came of them is in the file `end`, and the modules that the iteration before the last one called in `called`; `begins` is the one that waits or runs.
"""
import gc
import json
import os
import pathlib
import random
import sys
import time
import traceback
import types

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(TESTS / "workloads"), str(TESTS / "steps")]

import loops  # noqa: E402
import numpy  # noqa: E402
import plan  # noqa: E402
import torch  # noqa: E402
import train  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.profiler import ProfilerActivity  # noqa: E402

FOLDER = loops.FOLDER


def tell(name, what):
    """Whole, or not there."""
    (FOLDER / "part").write_text(json.dumps(what))
    (FOLDER / "part").rename(FOLDER / name)


def average(row):
    return {"name": row.key, "shapes": str(row.input_shapes), "calls": row.count, "flops": row.flops, "self_ns": 1000 * row.self_cpu_time_total,
            "ns": 1000 * row.cpu_time_total, "bytes": row.cpu_memory_usage, "self_bytes": row.self_cpu_memory_usage}


def standing():
    """(file, function) of what has begun, and has not ended: callers, and generators that wait."""
    waiting = [thing.gi_code for thing in gc.get_objects() if isinstance(thing, types.GeneratorType)]
    codes = [frame.f_code for frame, _ in traceback.walk_stack(None)] + waiting
    return sorted({(pathlib.Path(code.co_filename).name, code.co_name) for code in codes})


class Window:
    """Of torch.profiler: an iteration of its own warm-up, and those that are kept."""

    def __init__(self, stage):
        options = {"record_shapes": True, "with_flops": True, "profile_memory": stage.memory}
        if stage.stacks:
            options = {"with_stack": True, "experimental_config": torch._C._profiler._ExperimentalConfig(verbose=True)}
        self.stage, self.ended = stage, False
        self.standing = standing() if stage.stacks else []
        self.profiler = torch.profiler.profile(activities=[ProfilerActivity.CPU], on_trace_ready=self.ready, **options,
                                               schedule=torch.profiler.schedule(wait=0, warmup=1, active=plan.ACTIVE, repeat=1))
        self.profiler.start()

    def ready(self, profiler):
        self.ended = True
        if self.stage.stacks:
            averages = [[row.key, row.count, row.stack] for row in profiler.key_averages(group_by_stack_n=100)]
            tell(self.stage.name, {"averages": averages, "standing": self.standing})
            return
        profiler.export_chrome_trace(str(FOLDER / f"{self.stage.name}-trace.json"))
        tell("torch", [int(part) for part in torch.__version__.split(".")[:2]])
        tell(self.stage.name, [average(row) for row in profiler.key_averages(group_by_input_shape=True)])

    def step(self):
        """False: it was the last one."""
        self.profiler.step()
        if self.ended:
            self.profiler.stop()
        return not self.ended


class Counted:
    """An iteration under torch's flop counter."""

    def __init__(self):
        from torch.utils.flop_counter import FlopCounterMode
        self.counter = FlopCounterMode(display=False)
        self.counter.__enter__()

    def step(self):
        self.counter.__exit__(None, None, None)
        counts = self.counter.get_flop_counts().get("Global", {})
        tell(plan.FLOPS.name, {str(operator).replace(".", "::"): flops for operator, flops in counts.items()})
        return False


class Watched(loops.Loop):
    """An iteration begins where the one before has ended, also where a framework tells of beginnings alone."""

    def __init__(self):
        super().__init__()
        self.range = self.watcher = None
        self.plan = plan.iterations()

    def end(self):
        if self.range:
            self.range.__exit__(None, None, None)
            self.range = None
            if self.watcher and not self.watcher.step():
                self.watcher = None

    def begin(self):
        self.end()
        self.count += 1
        stage, number = self.plan.get(self.count, (None, 0))
        if stage and stage.profd and number == 0:
            (FOLDER / f"holds-{stage.name}").touch()
            loops.await_file(f"go-{stage.name}")
        if stage is plan.FLOPS:
            self.watcher = Counted()
        elif stage and stage.torch and number == plan.WARM - 1:
            self.watcher = Window(stage)
        if self.count > max(self.plan):
            (FOLDER / "stop").touch()
        self.range = torch.profiler.record_function(f"iteration {self.count}")
        self.range.__enter__()


class Called:
    """The modules that are called meanwhile, by torch's own hooks: [class of the outermost, name below it, ...], as --modules names them."""

    def __init__(self):
        self.around, self.found = [], {}
        hooks = torch.nn.modules.module
        self.hooks = [hooks.register_module_forward_pre_hook(self.enter), hooks.register_module_forward_hook(self.leave, always_call=True)]

    def enter(self, module, arguments):
        if not self.around:
            path = (type(module).__name__,)
        elif self.around[-1][0] is module:
            path = self.around[-1][1]
        else:
            outer, above = self.around[-1]
            path = (*above, *next((name for name, other in outer.named_modules(remove_duplicate=False) if other is module), f"({type(module).__name__})").split("."))
        self.around.append((module, path))
        self.found[path] = type(module).__name__

    def leave(self, *call):
        self.around.pop()

    def end(self):
        for hook in self.hooks:
            hook.remove()
        return [[*path, name] for path, name in self.found.items()]


class Paced(loops.Loop):
    """Iterations begin when they may, and all ranks have the same last one."""

    called = None

    def begin(self):
        self.count += 1
        tell("begins", self.count)
        while True:
            allowed, last = map(int, (FOLDER.parent / "pace").read_text().split())
            if self.count <= allowed:
                break
            time.sleep(0.003)
        if self.count == last - 1 and "modules" in sys.argv[4:]:
            self.called = Called()
        if self.count == last:
            if self.called:
                tell("called", self.called.end())
            tell("end", [digest([torch.get_rng_state()]), f"{random.getstate()[1][-1]} {numpy.random.get_state()[2]}", *trained()])
            (FOLDER / "stop").touch()


def digest(tensors):
    return train.digest([tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors])


def trained():
    """Parameters and state of each optimizer, to the last bit, whatever framework holds it."""
    found = []
    for optimizer in gc.get_objects():
        if issubclass(type(optimizer), torch.optim.Optimizer):
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            state = [v for p in parameters for v in optimizer.state.get(p, {}).values() if isinstance(v, torch.Tensor)]
            found.append(f"{len(parameters)} {digest(parameters)} {len(state)} {digest(state)}")
    return sorted(found)


# ---- the models

def batches(shape):
    generator = torch.Generator().manual_seed(7)
    while True:
        yield torch.randn(4, *shape, generator=generator), torch.randint(0, 10, (4,), generator=generator)


def fit(loop, model, shape):
    """As everybody writes it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _, (x, y) in zip(loop, batches(shape)):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def of_train(name):
    make, shape = train.MODELS[name]
    return lambda loop: fit(loop, make(), shape)


def autocast(loop):
    """bfloat16 where autocast has it so, and a scaler of the loss."""
    make, shape = train.MODELS["cnn"]
    model = make()
    optimizer, scaler = torch.optim.AdamW(model.parameters(), lr=1e-3), torch.amp.GradScaler("cpu", init_scale=256.0)
    for _, (x, y) in zip(loop, batches(shape)):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def compiled(loop):
    make, shape = train.MODELS["transformer"]
    fit(loop, torch.compile(make()), shape)


def ranks():
    """This process is one of two, which find each other by a file."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{FOLDER.parent / 'store'}", rank=int(os.environ["RANK"]), world_size=2)


def ddp(loop):
    ranks()
    make, shape = train.MODELS["cnn"]
    fit(loop, torch.nn.parallel.DistributedDataParallel(make()), shape)


def fsdp2(loop):
    ranks()
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    make, shape = train.MODELS["transformer"]
    model, mesh = make(), init_device_mesh("cpu", (2,))
    for layer in model.encoder.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    fit(loop, model, shape)


def image_models(loop):
    """As timm's train.py does it: batches mixed, layers dropped by chance, a rate by layer and iteration, Lamb, gradients clipped, averaged parameters."""
    import timm
    from timm import data, loss, optim, scheduler, utils
    model = timm.create_model("convnext_atto", num_classes=10, drop_path_rate=0.1)
    mix = data.Mixup(mixup_alpha=0.8, label_smoothing=0.1, num_classes=10)
    optimizer, criterion = optim.create_optimizer_v2(model, opt="lamb", lr=1e-3, weight_decay=0.05, layer_decay=0.8), loss.SoftTargetCrossEntropy()
    rates, averaged = scheduler.CosineLRScheduler(optimizer, t_initial=1000, warmup_t=10, t_in_epochs=False), utils.ModelEmaV3(model)
    for _, (x, y) in zip(loop, batches((3, 64, 64))):
        x, y = mix(x, y)
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        utils.dispatch_clip_grad(model.parameters(), 1.0)
        optimizer.step()
        averaged.update(model, step=loop.count)
        rates.step_update(loop.count)


MODELS = {**{name: of_train(name) for name in train.MODELS}, "autocast": autocast, "compile": compiled, "ddp": ddp, "fsdp2": fsdp2,
          "lightning": loops.LOOPS["lightning_automatic"], "hf": loops.LOOPS["hf_trainer"], "timm": image_models}

if __name__ == "__main__":
    torch.manual_seed(1)
    numpy.random.seed(1)
    torch.set_num_threads(1)
    MODELS[sys.argv[1]](Paced() if "paced" in sys.argv[3:] else Watched())
