/* worker.h - a worker of torch's DataLoader, which loads data for another process and makes no steps. */
#ifndef PROFD_CLIENT_ATTACH_WORKER_H
#define PROFD_CLIENT_ATTACH_WORKER_H

#include <stdint.h>

/* The process that it loads data for; 0: it is no such worker, or does not tell. It only looks. */
int64_t worker_of(int64_t pid);

#endif
