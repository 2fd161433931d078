/* worker.h - what a process of torch's is, where its environment does not tell: a worker of a DataLoader, which loads data for another process
 * and makes no steps, or a rank that was forked. It only looks. */
#ifndef PROFD_CLIENT_ATTACH_WORKER_H
#define PROFD_CLIENT_ATTACH_WORKER_H

#include <stdbool.h>
#include <stdint.h>

/* The process that it loads data for; 0: it is no such worker, or does not tell. */
int64_t worker_of(int64_t pid);

/* Is it in a process group of torch.distributed? By names that newer releases of torch give to threads. */
bool rank_has_group(int64_t pid);
/* So it is, or torch.multiprocessing has started it for a function of several processes (start_processes: notebook_launcher, ddp_notebook). */
bool rank_was_spawned(int64_t pid);

#endif
