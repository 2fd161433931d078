/* torch.h - the torch collector, as the rest of the agent sees it. No link to libtorch, no Python: symbols by dlsym, and
 * offsets that are proved on probe tensors before they are used. All of it is called by the agent's own thread. */
#ifndef PROFD_AGENT_TORCH_TORCH_H
#define PROFD_AGENT_TORCH_TORCH_H

#include <stddef.h>

/* Is libtorch_cpu mapped, and does it have what the steps need? 1 or 0; negative errno where it is mapped but lacks a
 * symbol. Waits for an import that is under way in another thread (the loader's lock). Allocates a few hundred bytes
 * through the loader. */
int torch_find(void);

/* torch's version ("2.15.0+cpu") from the version.py beside the library; "" where it cannot be found. */
void torch_version(char *to, size_t bytes);

/* Is torch.profiler (or autograd's older one) at work: as torch says, or as the thread that steps has seen at the end of its last
 * Optimizer.step. Reads words, touches nothing. */
int torch_profiled(void);

/* Is there a torch.profiler that has begun and is not at work now, because its schedule lets it wait? */
int torch_profiler_waits(void);

/* Tells steps.h, from now on, of each end of an Optimizer.step and of each DataLoader
 * `__next__`: one global callback for user scopes only, which operators do not notice. Idempotent. 0 or a negative errno
 * (-ENOENT: no torch here). */
int torch_watch(void);
/* Does this torch tell whether a batch trains? */
int torch_knows_batches(void);
/* Makes ready to tell passes over a DataLoader. 0, or a negative errno with the reason in `sentence`. After torch_watch(). */
int torch_find_passes(char *sentence, size_t bytes);
/* Takes that callback away again. Calls that are under way still end in it. */
void torch_unwatch(void);

#endif
