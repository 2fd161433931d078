"""Which iterations of a job torch.profiler and profd look at: for the job (models.py) and for who asks (conftest.py)."""
import collections

ACTIVE = 3  # iterations of a window that are kept
WARM = 3    # and those before them, which are thrown away: the first ends where profd begins to count
UNWATCHED = 4  # iterations at the begin: what is compiled, allocated, or found out once

# torch: torch.profiler records; profd: profd does; stacks: those of each operator instead of the inputs; memory: blocks of memory too.
Stage = collections.namedtuple("Stage", "name torch profd stacks memory")
STAGES = [
    Stage("both", True, True, False, True),
    Stage("torch-1", True, False, False, False),
    Stage("torch-2", True, False, False, False),
    Stage("alone", False, True, False, False),
    Stage("stacks", True, True, True, False),
]
FLOPS = Stage("flops", False, False, False, False)  # one iteration under torch's flop counter


def iterations():
    """{iteration: (stage, its number in the stage)}, from the first watched one on."""
    at, found = UNWATCHED + 1, {}
    for stage in [*STAGES, FLOPS]:
        for number in range(1 if stage is FLOPS else WARM + ACTIVE):
            found[at] = stage, number
            at += 1
    return found


def kept(stage):
    """The iterations that both keep of this stage."""
    return [at for at, (one, number) in iterations().items() if one is stage and number >= WARM]
