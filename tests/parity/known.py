"""Differences between profd and torch.profiler that have a cause. One that does not occur any more is an error: its row goes."""
import collections
import re

from columns import OUTSIDE
from torch_profiler import FIRST, LAST

# models: their names; column: of columns.COLUMNS; what: a regular expression that the whole key matches, the operator's name first; always: it
# occurs in each run
Known = collections.namedtuple("Known", "models column what reason always", defaults=[True])

LINKED = "in the backward torch.profiler takes the stack of the first operator that has the node's number; the last one made the node"
BEFORE = "torch.profiler knows no block that was taken before its window, and so not how large it is; profd looks from its own warm-up on"
RANGES = f"torch.profiler has ranges among its rows, their sum stands here, also of those inside of operators; and {BEFORE}"
INSIDE = "what is taken in a range inside of an operator is the range's own in torch.profiler, and the operator's in profd, where ranges have no bytes"

KNOWN = [
    Known("cnn transformer lstm autocast compile ddp fsdp2 lightning hf timm", "self memory", re.escape(OUTSIDE), RANGES, False),
    Known("compile", "self memory", "CompiledFunction(Backward)?", INSIDE),
    Known("fsdp2", "self memory", "RegisterPostBackwardFunctionBackward|autograd::engine::evaluate_function: .*", INSIDE),
    *(Known("fsdp2", column, "c10d::_allgather_base_", BEFORE, False) for column in ("memory", "self memory")),
    Known("cnn autocast ddp timm", "counter", "aten::convolution_backward",
          "torch's flop counter does not divide the gradient of a grouped convolution's weight by the groups; profd does, as it costs no more"),
    Known("compile", "alone", "## Call CompiledFxGraph .* ##|AOTDispatcher Runtime Wrapper Prologue|Pregraph bytecode",
          "ranges that torch makes while its own profiler is on, and not else (docs/reading.md)"),
    Known("cnn transformer autocast ddp fsdp2 lightning hf timm", "stacks", f".* ({re.escape(str(FIRST))}|{re.escape(str(LAST))})", LINKED),
]


def of(model):
    return [known for known in KNOWN if model in known.models.split()]


def explain(model, differences):
    """{known: [difference]} of differences as (column, key, ours, theirs), those that nothing explains under None."""
    found = collections.defaultdict(list)
    for difference in differences:
        column, key = difference[0], " ".join(map(str, difference[1])).strip()
        found[next((known for known in of(model) if known.column == column and re.fullmatch(known.what, key)), None)].append(difference)
    return found
