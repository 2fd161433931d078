"""Epochs as frameworks run them: epochs.py lightning|transformers. 8 batches each, and a validation behind them; ended by SIGUSR2, prints what
tests/workloads/epochs.py does."""
import json
import signal
import sys
import tempfile
import time

import torch

torch.set_num_threads(1)
ended, times = [], []
signal.signal(signal.SIGUSR2, lambda *_: ended.append(1))


def batch():
    times.append(time.monotonic_ns())


def net():
    return torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))


class Data(torch.utils.data.Dataset):
    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return 4 * self.batches

    def __getitem__(self, at):
        return {"x": torch.full((32,), at / len(self)), "labels": at % 2}


def lightning():
    import pytorch_lightning

    class Module(pytorch_lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def training_step(self, batch_, _):
            batch()
            return torch.nn.functional.cross_entropy(self.net(batch_["x"]), batch_["labels"])

        def on_train_batch_end(self, *_):
            self.trainer.should_stop = bool(ended)

        def validation_step(self, batch_, _):
            self.net(batch_["x"])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    def loader(batches):
        return torch.utils.data.DataLoader(Data(batches), batch_size=4)

    pytorch_lightning.Trainer(max_epochs=-1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                              enable_model_summary=False).fit(Module(), loader(8), loader(3))


def transformers():
    import transformers as library

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net()

        def forward(self, x=None, labels=None):
            out = self.net(x)
            return {"loss": torch.nn.functional.cross_entropy(out, labels), "logits": out}

    class Tell(library.TrainerCallback):
        def on_step_begin(self, *_, **__):
            batch()

        def on_step_end(self, _, __, control, **___):
            control.should_training_stop = bool(ended)

    with tempfile.TemporaryDirectory() as folder:
        arguments = library.TrainingArguments(folder, per_device_train_batch_size=4, per_device_eval_batch_size=4, num_train_epochs=10**6, eval_strategy="epoch",
                                              save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True, logging_strategy="no")
        library.Trainer(Module(), arguments, train_dataset=Data(8), eval_dataset=Data(3), callbacks=[Tell()]).train()


{"lightning": lightning, "transformers": transformers}[sys.argv[1]]()
# A framework may print, too.
print("\n" + json.dumps({"batches": times}), flush=True)
