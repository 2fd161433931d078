"""Trains a little under torch.profiler and writes its trace, and, as JSON on the standard output, what key_averages() says of it.

profile_torch.py TRACE"""
import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule


def main(path):
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 32), torch.randn(64, 8)), batch_size=8)
    averages = {}

    def ready(profiler):
        profiler.export_chrome_trace(path)
        for row in profiler.key_averages():
            averages[row.key] = {"count": row.count, "total_us": row.cpu_time_total, "self_us": row.self_cpu_time_total}

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
                 on_trace_ready=ready) as profiler:
        for values, wanted in batches:
            with record_function("## forward ##"):
                loss = torch.nn.functional.mse_loss(model(values), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            profiler.step()
    json.dump(averages, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
