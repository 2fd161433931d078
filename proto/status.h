/* status.h - the page that tells how many steps a process has made, without a message. The daemon creates and seals it,
 * so that its memory counts for the daemon. The agent writes it with plain stores at each step. The daemon reads it for
 * `ps`, without waking the job, and trusts nothing in it: a wrong value can only make a figure wrong. */
#ifndef PROFD_PROTO_STATUS_H
#define PROFD_PROTO_STATUS_H

#include "limits.h"

#include <stdatomic.h>
#include <stdint.h>

#define STATUS_MAGIC 0x3153555441545350ull
#define STATUS_BYTES 4096
#define STATUS_PURPOSES 8 /* room for enum purpose */

struct status_page {
	uint64_t magic;
	uint32_t version;		     /* 1 */
	_Atomic uint32_t source;	     /* enum step_source in use */
	_Atomic uint64_t steps;		     /* steps ended since the process started */
	_Atomic uint64_t last;		     /* CLOCK_MONOTONIC ns of the last boundary; 0 = none yet */
	_Atomic uint64_t other_thread_steps; /* steps of other threads than the step thread; not in `steps` */
	_Atomic uint32_t step_thread;	     /* tid */
	_Atomic uint32_t reserved;
	/* Duration in ns of step n at ring[n % LIMIT_STATUS_RING]; the first step has none (0). */
	_Atomic uint64_t ring[LIMIT_STATUS_RING];
	/* How many batches of a DataLoader there were for each purpose (enum purpose), and the purpose of the newest;
	 * PURPOSE_NONE: there was none. */
	_Atomic uint64_t batches[STATUS_PURPOSES];
	_Atomic uint32_t batch_purpose;
};
_Static_assert(sizeof(struct status_page) <= STATUS_BYTES, "status page fits its page");

/* Daemon: makes a sealed page and maps it, to read it. Returns the descriptor or a negative errno. */
int status_create(struct status_page **ret_page);
/* Agent: maps a page from the daemon. 0 or a negative errno; -EPROTO where it is no such page. Does not take the
 * descriptor. */
int status_map(int fd, struct status_page **ret_page);
void status_unmap(struct status_page *page);
/* Daemon: unmaps it and gives its memory back, even if others still have it mapped. Pages that they write later count for them. */
void status_forget(struct status_page *page);

#endif
