"""`import without_compiler`, in a job that compiles nothing and uses no torch.profiler: an optimizer's first step imports torch's compiler, 2 s
of a processor, only to say that nothing of itself is to be compiled. The rest of torch is as it is: its operators, its hooks, and the ranges
that optimizers make (Optimizer.step#SGD.step)."""
import sys
import types

import torch

compiler = sys.modules["torch._dynamo"] = torch._dynamo = types.ModuleType("torch._dynamo")
compiler.disable = lambda function, *_, **__: function
compiler.graph_break = lambda *_, **__: None
