/* stand.h - where a thread waits in native code: its two registers that /proc tells, and its stack, copied.
 *
 * For a thread that waits in the kernel, /proc tells where its code and its stack are, and stops nothing for it. Most
 * functions can be unwound from those two. To read the other registers, or those of a thread that runs, takes a stop by
 * ptrace(2), which can do harm: calls like epoll_wait() and sigtimedwait() return with EINTR after it (signal(7)),
 * which a job may not expect. So no thread is stopped. */
#ifndef PROFD_CLIENT_NATIVE_STAND_H
#define PROFD_CLIENT_NATIVE_STAND_H

#include "maps.h"

#include "client/process/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stand_result {
	STAND_KNOWN,
	STAND_RUNS,   /* /proc does not tell its registers */
	STAND_MOVED,  /* it ran while it was read */
	STAND_HIDDEN, /* the kernel does not say, or it has ended */
};

struct native_stand {
	int64_t pid, tid;
	enum stand_result result;
	uint64_t pc, sp;
	unsigned char *stack; /* from sp on */
	size_t bytes;
	bool more;	/* there is more of it */
	long number;	/* of the system call that it waits in; negative: none */
	char call[320]; /* what /proc says of it; the same while it stands */
};

/* The name of a system call that threads wait in; NULL: another. */
const char *stand_call_name(long number);

/* Looks. *room: bytes of stacks that may still be copied. */
void stand_look(struct native_stand *ret, int64_t pid, int64_t tid, struct process_memory *memory,
		const struct native_maps *maps, size_t *room);
/* Has it stood there ever since, or is there no point in looking again? Where it has not, its result is STAND_MOVED. */
bool stand_stood(struct native_stand *stand);
void stand_free(struct native_stand *stand, size_t *room);

#endif
