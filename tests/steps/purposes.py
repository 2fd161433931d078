"""Batches by what they are for, as frameworks run them: purposes.py lightning|transformers FOLDER. Trains 40 batches, validates 12 twice meanwhile, then tests (Lightning)
or evaluates 14, and predicts 16. Says `ready` and `done`; goes on when the files FOLDER/start and FOLDER/leave come."""
import pathlib
import sys
import tempfile
import time

import torch

torch.set_num_threads(1)


def net():
    return torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))


class Data(torch.utils.data.Dataset):
    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return 4 * self.batches

    def __getitem__(self, at):
        # Not so fast that a phase is over before its functions are looked at again.
        time.sleep(0.004)
        return {"x": torch.full((32,), at / len(self)), "labels": at % 2}


def lightning():
    import pytorch_lightning

    class Module(pytorch_lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def training_step(self, batch, _):
            return torch.nn.functional.cross_entropy(self.net(batch["x"]), batch["labels"])

        def validation_step(self, batch, _):
            self.net(batch["x"])

        test_step = predict_step = validation_step

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    def trainer():
        return pytorch_lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                         enable_model_summary=False, num_sanity_val_steps=0)

    def loader(batches):
        return torch.utils.data.DataLoader(Data(batches), batch_size=4)

    module = Module()
    trainer().fit(module, loader(20), loader(12))
    trainer().test(module, loader(14), verbose=False)
    trainer().predict(module, loader(16))


def transformers():
    import transformers as library

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net()

        def forward(self, x=None, labels=None):
            out = self.net(x)
            return {"loss": torch.nn.functional.cross_entropy(out, labels), "logits": out}

    with tempfile.TemporaryDirectory() as folder:
        arguments = library.TrainingArguments(folder, per_device_train_batch_size=4, per_device_eval_batch_size=4, max_steps=40, eval_strategy="steps", eval_steps=20,
                                              save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True, logging_strategy="no")
        trainer = library.Trainer(Module(), arguments, train_dataset=Data(80), eval_dataset=Data(12))
        trainer.train()
        trainer.evaluate(Data(14))
        trainer.predict(Data(16))


def await_file(name):
    while not (pathlib.Path(sys.argv[2]) / name).exists():
        time.sleep(0.02)


print("ready", flush=True)
await_file("start")
{"lightning": lightning, "transformers": transformers}[sys.argv[1]]()
print("done", flush=True)
await_file("leave")
