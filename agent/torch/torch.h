/* torch.h - the torch collector's functions for the agent. It does not link libtorch or Python: it finds symbols by
 * dlsym, and proves offsets on probe tensors before it uses them. The agent's own thread calls all functions. */
#ifndef PROFD_AGENT_TORCH_TORCH_H
#define PROFD_AGENT_TORCH_TORCH_H

#include <stddef.h>

/* Is libtorch_cpu mapped, and does it have what the steps need? 1 or 0; negative errno where it is mapped but lacks a
 * symbol. Waits for an import that is under way in another thread (the loader's lock). The loader allocates a few
 * hundred bytes for it. */
int torch_find(void);

/* torch's version ("2.15.0+cpu") from the version.py beside the library; "" where it cannot be found. */
void torch_version(char *to, size_t bytes);

/* Is torch.profiler (or autograd's older one) at work? torch tells it, or the step thread has seen it at the end of its
 * last Optimizer.step. Only reads. */
int torch_profiled(void);

/* Is there a torch.profiler that has begun, but does not record now because its schedule waits? */
int torch_profiler_waits(void);

/* From now on tells steps.h each end of an Optimizer.step and each `__next__` of a DataLoader, by one global callback
 * for user scopes only, which costs operators nothing. May be called again. 0 or a negative errno (-ENOENT: no torch
 * here). */
int torch_watch(void);
/* Does this torch tell whether a batch trains? */
int torch_knows_batches(void);
/* Prepares to tell passes over a DataLoader. 0, or a negative errno with the reason in `sentence`. After
 * torch_watch(). */
int torch_find_passes(char *sentence, size_t bytes);
/* Removes that callback. Calls that are under way still end in it. */
void torch_unwatch(void);

#endif
