/* frames.h - reads the Python frames of the calling thread, in place or by copies, which fail for unmapped memory.
 * walk.c says what may vanish while they are read. */
#ifndef PROFD_AGENT_STACKS_FRAMES_H
#define PROFD_AGENT_STACKS_FRAMES_H

#include "proto/python/python.h"

#include <stdbool.h>
#include <stdint.h>

/* How many frames of a stack are read, as in the sampler: the innermost ones. Frames that C has made do not count, but
 * are bounded, too. */
#define FRAMES 512
#define FRAMES_WINDOWS 32u
#define FRAMES_PAGE 4096u

struct seen {
	uint64_t code, print;
	int64_t instruction;
	uint64_t object, type; /* for a call of a module: the module and its type; else 0 */
};

/* One thread's frames; begins as zeros. */
struct frames {
	bool cut;	       /* the stack has more frames than were read */
	uint64_t made, newest; /* counts of read_call(): the newest in this stack, and the newest in all stacks
			        * before */
	uint32_t entered;      /* calls of modules in this stack that are newer than `newest` */
	struct python python;  /* how this thread reads Python's memory */
	struct seen now[FRAMES];
	/* frames_by_copies() keeps pages of memory. It copies all pages of the previous stack at once, because the next
	 * stack mostly needs the same. */
	uint32_t window_count;
	uint64_t window_pages[FRAMES_WINDOWS];
	uint8_t window_idle[FRAMES_WINDOWS];   /* stacks since it was last used */
	uint8_t window_at[2 * FRAMES_WINDOWS]; /* by a few bits of the page: its probable index */
	unsigned char windows[FRAMES_WINDOWS][FRAMES_PAGE];
};

/* How this process's Python keeps frames. Found once, and never changed, because a late thread may still use it. */
extern struct python frames_python;

/* Sets frames_python, if it is not known yet. Called before the first read, by the agent's thread or the thread that
 * finds torch. */
void frames_know(const struct python *python);
/* Prepares for reading; `modules`: calls of modules are read, too. The agent's thread. */
void frames_arm(bool modules);
/* May the process's first thread, which alone ends the interpreter, read the frames of this state in place? */
bool frames_lie_still(uint64_t state);

/* Fills `now`, the innermost frame first. Returns the number of frames, or -1: they could not be read. *ret_hash
 * identifies the stack. `state`: Python's state of the calling thread. frames_by_copies() may change errno. */
int frames_directly(struct frames *frames, uint64_t state, uint64_t *ret_hash);
int frames_by_copies(struct frames *frames, uint64_t state, uint64_t *ret_hash);

#endif
