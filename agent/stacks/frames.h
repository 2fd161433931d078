/* frames.h - the frames of the calling thread's Python, read where they lie or by copies that fail where there is no memory. walk.c says what
 * may go away under the reader. */
#ifndef PROFD_AGENT_STACKS_FRAMES_H
#define PROFD_AGENT_STACKS_FRAMES_H

#include "proto/python/python.h"

#include <stdbool.h>
#include <stdint.h>

/* As in the sampler: the innermost frames of a stack. Marks of C's calls are not counted, but bounded. */
#define FRAMES 512
#define FRAMES_WINDOWS 32u
#define FRAMES_PAGE 4096u

struct seen {
	uint64_t code, print;
	int64_t instruction;
	uint64_t object, type; /* of a call of a module: the module; else 0 */
};

/* One thread's frames; begins as zeros. */
struct frames {
	bool cut;	       /* the stack has more frames, outside of those that are read */
	uint64_t made, newest; /* see read_call(): the newest one of this stack, and of those before */
	uint32_t entered;      /* calls of this stack that are newer than those */
	struct python python;  /* its reader's own */
	struct seen now[FRAMES];
	/* A reader by copies keeps pages of memory. It copies the previous stack's pages at once, as the next stack mostly needs the same. */
	uint32_t window_count;
	uint64_t window_pages[FRAMES_WINDOWS];
	uint8_t window_idle[FRAMES_WINDOWS];   /* stacks since it was last of use */
	uint8_t window_at[2 * FRAMES_WINDOWS]; /* by a few bits of the page: where it may be */
	unsigned char windows[FRAMES_WINDOWS][FRAMES_PAGE];
};

/* How this process's Python keeps frames. Found once, and never changed: a thread that is late goes on by it. */
extern struct python frames_python;

/* Before anything is read: how this Python is laid out. What is known stays. The agent's thread, or who finds torch. */
void frames_know(const struct python *python);
/* What is read from now on; `modules`: calls of modules, too. The agent's thread. */
void frames_arm(bool modules);
/* May the process's first thread, which ends the interpreter itself, read its memory with this state as it is? */
bool frames_lie_still(uint64_t state);

/* Fills `now`, the innermost frame first. Returns how many there are, or -1: they could not be read. *ret_hash tells the stack from others.
 * `state`: of the thread, by Python; the calling thread's. frames_by_copies() may change errno. */
int frames_directly(struct frames *frames, uint64_t state, uint64_t *ret_hash);
int frames_by_copies(struct frames *frames, uint64_t state, uint64_t *ret_hash);

#endif
