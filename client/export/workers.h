/* workers.h - numbered jobs, done by a few threads. */
#ifndef PROFD_CLIENT_EXPORT_WORKERS_H
#define PROFD_CLIENT_EXPORT_WORKERS_H

#include <stdint.h>

#define WORKERS_MAX 16

/* One job; `worker` is below the number of threads and tells whose state may be used. Anything but 0 ends the run: jobs
 * that have not begun are left out. */
typedef int (*worker_job)(void *user, unsigned worker, uint64_t job);

/* How many threads to use: `wanted`, or if that is 0 one for each processor that we may run on, at most 4. */
unsigned workers_count(unsigned wanted);
/* Runs jobs 0..jobs-1, begun in this order, in `threads` threads, the caller's being one of them; fewer where the
 * system gives no more. Returns when all have ended, with the first result that was not 0. */
int workers_run(unsigned threads, uint64_t jobs, worker_job run, void *user);

#endif
