"""Runs in a Python that has TensorBoard's plugin torch_tb_profiler: tensorboard_distributed.py FOLDER prints what its Distributed view shows of
a folder with a trace a worker, or null where it has none."""
import json
import logging
import sys

logging.disable(logging.CRITICAL)

from torch_tb_profiler import io  # noqa: E402
from torch_tb_profiler.profiler.loader import RunLoader  # noqa: E402
from torch_tb_profiler.run import DistributedRunProfile  # noqa: E402


def main(folder):
    run = RunLoader("run", folder, io.Cache()).load()
    found = [profile for profile in run.profiles.values() if isinstance(profile, DistributedRunProfile)]
    print(json.dumps({"views": [view.display_name for view in run.views], "overlap": found[0].steps_to_overlap, "wait": found[0].steps_to_wait,
                      "operations": found[0].comm_ops} if found else None))


if __name__ == "__main__":
    main(sys.argv[1])
