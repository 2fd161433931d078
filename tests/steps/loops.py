"""Training loops as people write them: loops.py LOOP FOLDER. Each iteration is marked by a range, `iteration`, and counted.

It prints `ready`, waits for FOLDER/start, trains until FOLDER/stop is there, prints `count N`, and leaves when FOLDER/leave is
there. Everything is made here: nothing is fetched.
"""
import copy
import os
import pathlib
import sys
import time


def hide_release():
    """Makes this Python, 3.11 or 3.12, one of a release that nobody knows, for those who read it in memory."""
    import ctypes
    import mmap
    python, libc = ctypes.pythonapi, ctypes.CDLL(None, use_errno=True)
    version = ctypes.c_ulong.in_dll(python, "Py_Version")
    page = ctypes.addressof(version) // mmap.PAGESIZE * mmap.PAGESIZE
    if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_WRITE):
        raise OSError(ctypes.get_errno(), "mprotect")
    version.value = 0x03630000


if os.environ.get("LOOPS_UNKNOWN_PYTHON"):
    hide_release()  # before torch is there

import torch  # noqa: E402
from torch import nn  # noqa: E402

FOLDER = pathlib.Path(sys.argv[2])
PAUSE = 0.004  # of an iteration: the file system and ps are asked meanwhile


def await_file(name):
    while not (FOLDER / name).exists():
        time.sleep(0.02)


class Enough(Exception):
    """Ends a loop that a framework holds."""


class Loop:
    """Counts iterations, and ends them."""

    def __init__(self):
        self.count = 0

    def __iter__(self):
        while not (FOLDER / "stop").exists():
            self.begin()
            yield self.count
            self.end()

    def begin(self):
        self.count += 1
        with torch.autograd.profiler.record_function("iteration"):
            time.sleep(PAUSE)

    def end(self):
        pass


def net(width=16, depth=2):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers)


def batch(width=16):
    return torch.randn(8, width)


class Muon(torch.optim.Optimizer):
    """Its name is what matters; a step is plain descent."""

    def __init__(self, parameters, lr=1e-3):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad, alpha=-group["lr"])


class SAM(torch.optim.Optimizer):
    """Sharpness-aware minimisation: its own step calls that of the optimizer inside."""

    def __init__(self, parameters, base, rho=0.05, **more):
        super().__init__(parameters, {"rho": rho, **more})
        self.base = base(self.param_groups, **more)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def step(self, closure=None):
        kept = []
        for group in self.param_groups:
            for p in group["params"]:
                kept.append(p.clone())
                if p.grad is not None:
                    p.add_(p.grad, alpha=0.01)
        with torch.enable_grad():
            closure()
        for p, old in zip((p for g in self.param_groups for p in g["params"]), kept):
            p.copy_(old)
        self.base.step()


def loader(width=16, count=10**6, workers=0):
    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return count

        def __getitem__(self, i):
            return torch.full((width,), float(i % 7))
    return torch.utils.data.DataLoader(Data(), batch_size=8, num_workers=workers)


# ---- the loops

def plain(loop):
    model, = net(),
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in loop:
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        optimizer.step()


def plain_loader(loop):
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _, x in zip(loop, loader()):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def no_backward(loop):
    """Gradients that no autograd has made."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in loop:
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        optimizer.step()


def muon_adamw(loop):
    model = net(depth=4)
    matrices = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim < 2]
    optimizers = [Muon(matrices), torch.optim.AdamW(rest)]
    for _ in loop:
        model(batch()).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad(set_to_none=True)


def two_adamw(loop):
    """Two optimizers of one class, side by side."""
    model = net(depth=4)
    parameters = list(model.parameters())
    one, other = torch.optim.AdamW(parameters[:4]), torch.optim.AdamW(parameters[4:])
    for _ in loop:
        model(batch()).square().mean().backward()
        one.step()
        other.step()
        model.zero_grad()


def sam(loop):
    model = net()
    optimizer = SAM(model.parameters(), torch.optim.SGD, lr=1e-3)

    def closure():
        optimizer.zero_grad()
        loss = model(batch()).square().mean()
        loss.backward()
        return loss
    for _ in loop:
        closure()
        optimizer.step(closure)


def sam_two_steps(loop):
    """The other usual way to write it: only the inner optimizer has a step."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in loop:
        model(batch()).square().mean().backward()
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def zero(loop):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = nn.parallel.DistributedDataParallel(net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3)
    for _ in loop:
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        optimizer.step()


def gan(loop):
    generator, critic = net(depth=1), nn.Sequential(net(depth=3), nn.Linear(16, 1))
    of_critic, of_generator = torch.optim.Adam(critic.parameters()), torch.optim.Adam(generator.parameters())
    for _ in loop:
        of_critic.zero_grad()
        critic(batch()).mean().backward()
        (-critic(generator(batch()).detach()).mean()).backward()
        of_critic.step()
        of_generator.zero_grad()
        critic(generator(batch())).mean().backward()
        of_generator.step()


def gan_loader(loop):
    """The same with a DataLoader for the real ones."""
    generator, critic = net(depth=1), nn.Sequential(net(depth=3), nn.Linear(16, 1))
    of_critic, of_generator = torch.optim.Adam(critic.parameters()), torch.optim.Adam(generator.parameters())
    for _, x in zip(loop, loader()):
        of_critic.zero_grad()
        (critic(x).mean() - critic(generator(batch()).detach()).mean()).backward()
        of_critic.step()
        of_generator.zero_grad()
        critic(generator(batch())).mean().backward()
        of_generator.step()


def gan_alike(loop):
    """Two halves that look the same from outside: who steps is all that tells them apart."""
    one, other = net(), net()
    first, second = torch.optim.Adam(one.parameters()), torch.optim.Adam(other.parameters())
    for _ in loop:
        for model, optimizer in ((one, first), (other, second)):
            optimizer.zero_grad()
            model(batch()).square().mean().backward()
            optimizer.step()


def critic_first(loop, times):
    generator, critic = net(depth=1), nn.Sequential(net(depth=3), nn.Linear(16, 1))
    of_critic = torch.optim.RMSprop(critic.parameters())
    of_generator = torch.optim.RMSprop(generator.parameters())
    for _ in loop:
        for _ in range(times):
            of_critic.zero_grad()
            (critic(generator(batch()).detach()).mean() - critic(batch()).mean()).backward()
            of_critic.step()
        of_generator.zero_grad()
        (-critic(generator(batch())).mean()).backward()
        of_generator.step()


def wgan(loop):
    """A critic that steps five times for each step of the generator."""
    critic_first(loop, 5)


def wgan_often(loop):
    """The same, but many more times: nobody believes that it is one iteration."""
    critic_first(loop, 40)


def soft_actor_critic(loop, updates=1, delay=1):
    """Two critics, an actor and a temperature, with an optimizer each; targets that follow the critics. An iteration is an update: the
    environment is stepped some times before the first, then before each `updates` of them. The actor and the temperature are left out but
    at each `delay`-th, where they step as often as that."""
    actor, critics = nn.Sequential(net(), nn.Linear(16, 32)), [nn.Sequential(net(width=32), nn.Linear(32, 1)) for _ in range(2)]
    targets = copy.deepcopy(critics)
    temperature = torch.zeros(1, requires_grad=True)
    of_critics = [torch.optim.Adam(critic.parameters()) for critic in critics]
    of_actor, of_temperature = torch.optim.Adam(actor.parameters()), torch.optim.Adam([temperature])
    replay = []

    def act(state):
        mean, deviation = actor(state).chunk(2, -1)
        chosen = torch.distributions.Normal(mean, deviation.clamp(-5, 2).exp())
        action = chosen.rsample()
        return action.tanh(), (chosen.log_prob(action) - (1 - action.tanh() ** 2 + 1e-6).log()).sum(-1, keepdim=True)

    def play():
        with torch.no_grad():
            state = torch.randn(1, 16)
            replay.append((state, act(state)[0], state.sum(-1, keepdim=True)))

    def value(of, state, action):
        return torch.minimum(*(critic(torch.cat([state, action], -1)) for critic in of))

    def update_critics(state, action, reward):
        with torch.no_grad():
            after = state.roll(1, 0)
            next_action, log = act(after)
            wanted = reward + 0.99 * (value(targets, after, next_action) - temperature.exp() * log)
        loss = sum((critic(torch.cat([state, action], -1)) - wanted).square().mean() for critic in critics)
        for optimizer in of_critics:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in of_critics:
            optimizer.step()

    def update_actor(state):
        action, log = act(state)
        loss = (temperature.exp().detach() * log - value(critics, state, action)).mean()
        of_actor.zero_grad()
        loss.backward()
        of_actor.step()
        of_temperature.zero_grad()
        (-temperature.exp() * (log.detach() - 16)).mean().backward()
        of_temperature.step()

    def update(number):
        state, action, reward = map(torch.cat, zip(*(replay[int(i)] for i in torch.randint(len(replay), (8,)))))
        update_critics(state, action, reward)
        for _ in range(delay if number % delay == 0 else 0):
            update_actor(state)
        with torch.no_grad():
            for critic, target in zip(critics, targets):
                for p, slow in zip(critic.parameters(), target.parameters()):
                    slow.lerp_(p, 0.005)

    for _ in range(50):
        play()
    for number in loop:
        if number % updates == 0:
            play()
        update(number)


def sac(loop):
    soft_actor_critic(loop, updates=3)


def sac_delayed(loop):
    soft_actor_critic(loop, delay=2)


def two_tasks(loop):
    """One optimizer, two kinds of batches in turn: each is an iteration."""
    body, heads = net(), [net(depth=1), net(depth=3)]
    optimizer = torch.optim.Adam([*body.parameters(), *heads[0].parameters(), *heads[1].parameters()])
    for i in loop:
        optimizer.zero_grad()
        heads[i % 2](body(batch())).square().mean().backward()
        optimizer.step()


def lbfgs(loop):
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    x = batch()

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss
    for _ in loop:
        optimizer.step(closure)


def hooks(loop):
    """One optimizer a parameter, which steps while the backward pass goes on."""
    model = net(depth=12)
    optimizers = {p: torch.optim.SGD([p], lr=1e-3) for p in model.parameters()}

    def step(p):
        optimizers[p].step()
        optimizers[p].zero_grad()
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    for _ in loop:
        model(batch()).square().mean().backward()


def accumulate(n, with_loader):
    def run(loop):
        model = net()
        optimizer = torch.optim.AdamW(model.parameters())
        batches = iter(loader()) if with_loader else None
        for _ in loop:
            optimizer.zero_grad()
            for _ in range(n):
                x = next(batches) if with_loader else batch()
                (model(x).square().mean() / n).backward()
            optimizer.step()
    return run


def scaler_skips(loop):
    """An overflow in the first two iterations and in every seventh: the scaler leaves the step out."""
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for i in loop:
        optimizer.zero_grad()
        loss = model(batch()).square().mean()
        if i < 3 or i % 7 == 0:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def changes(loop):
    """Another optimizer takes over now and then."""
    model = net()
    for i in loop:
        if i % 40 == 1:
            kind = (torch.optim.SGD, torch.optim.Adam, Muon)[i // 40 % 3]
            optimizer = kind(model.parameters(), lr=1e-3)
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        optimizer.step()


def unseen_step(loop):
    """A step without its range, as torch.compile(optimizer.step) makes one."""
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in loop:
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        type(optimizer).step.__wrapped__(optimizer)


def sums(loop):
    """No optimizer. aten::sum of a matrix calls aten::sum once more."""
    for _ in loop:
        batch().sum()


def serve(loop):
    """A server: no optimizer, a range a request."""
    model = net(depth=3)
    for i in loop:
        with torch.no_grad(), torch.autograd.profiler.record_function("request"):
            model(batch()).softmax(1)
        if i % 10 == 0:
            with torch.autograd.profiler.record_function("statistics"):
                batch().median()


def schedule_free(loop):
    import schedulefree
    model = net()
    optimizer = schedulefree.AdamWScheduleFree(model.parameters(), lr=1e-3)
    optimizer.train()
    for i in loop:
        if i % 50 == 0:
            optimizer.eval()
            optimizer.train()
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        optimizer.step()


def hf_trainer(loop):
    import transformers
    config = transformers.LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                                      num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=16)

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 10**6

        def __getitem__(self, i):
            ids = torch.arange(i, i + 8) % 64
            return {"input_ids": ids, "labels": ids}

    class Count(transformers.TrainerCallback):
        def on_step_begin(self, args, state, control, **more):
            loop.begin()

        def on_step_end(self, args, state, control, **more):
            control.should_training_stop = (FOLDER / "stop").exists()

    arguments = transformers.TrainingArguments(
        output_dir=str(FOLDER / "hf"), max_steps=10**5, per_device_train_batch_size=2, gradient_accumulation_steps=2,
        logging_steps=20, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True)
    transformers.Trainer(transformers.LlamaForCausalLM(config), arguments, train_dataset=Data(), callbacks=[Count()]).train()


def _lightning(loop, manual):
    import pytorch_lightning

    class Module(pytorch_lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.one, self.other = net(depth=1), net(depth=3)
            self.automatic_optimization = not manual

        def training_step(self, x, i):
            if not manual:
                return self.other(x).square().mean()
            for model, optimizer in zip((self.one, self.other), self.optimizers()):
                optimizer.zero_grad()
                self.manual_backward(model(x).square().mean())
                optimizer.step()
            return None

        def validation_step(self, x, i):
            self.other(x)

        def configure_optimizers(self):
            every = [torch.optim.Adam(m.parameters()) for m in (self.one, self.other)]
            return every if manual else every[1]

    class Count(pytorch_lightning.Callback):
        def on_train_batch_start(self, trainer, module, x, i):
            loop.begin()

        def on_train_batch_end(self, trainer, module, outputs, x, i):
            if (FOLDER / "stop").exists():
                raise Enough

    trainer = pytorch_lightning.Trainer(
        accelerator="cpu", max_epochs=-1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[Count()], val_check_interval=50, limit_val_batches=3,
        default_root_dir=str(FOLDER))
    try:
        trainer.fit(Module(), loader(), loader())
    except Enough:
        pass


def lightning_automatic(loop):
    _lightning(loop, False)


def lightning_manual(loop):
    _lightning(loop, True)


def accelerate(loop):
    import accelerate as library
    accelerator = library.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = net()
    model, optimizer, batches = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), loader())
    batches = iter(batches)
    for _ in loop:
        for _ in range(2):
            with accelerator.accumulate(model):
                accelerator.backward(model(next(batches)).square().mean())
                optimizer.step()
                optimizer.zero_grad()


LOOPS = {f.__name__: f for f in (
    plain, plain_loader, no_backward, muon_adamw, two_adamw, sam, sam_two_steps, zero, gan, gan_loader, gan_alike, wgan,
    wgan_often, sac, sac_delayed, two_tasks, lbfgs, hooks, scaler_skips, changes, unseen_step, sums, serve, schedule_free, hf_trainer, lightning_automatic, lightning_manual,
    accelerate)}
for _n in (1, 4, 8):
    LOOPS[f"accumulate_{_n}"] = accumulate(_n, False)
    LOOPS[f"accumulate_{_n}_loader"] = accumulate(_n, True)

# These come with libraries that look into torch's compiler, or may.
WITH_COMPILER = ("zero", "schedule_free", "hf_trainer", "lightning_automatic", "lightning_manual", "accelerate")

if __name__ == "__main__":
    if sys.argv[1] not in WITH_COMPILER:
        sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "workloads"))
        import without_compiler  # noqa: F401
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loop = Loop()
    print("ready", flush=True)
    await_file("start")
    LOOPS[sys.argv[1]](loop)
    print(f"count {loop.count}", flush=True)
    await_file("leave")
