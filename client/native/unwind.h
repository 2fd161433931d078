/* unwind.h - the native stacks of threads, from where they stand (stand.h), by libdw. */
#ifndef PROFD_CLIENT_NATIVE_UNWIND_H
#define PROFD_CLIENT_NATIVE_UNWIND_H

#include "stand.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNWIND_SECONDS 15	/* for all threads of a process */
#define UNWIND_FRAMES_MOST 4096 /* of a thread; of a deeper stack the innermost ones */

struct native_frame {
	uint64_t address;    /* in its file, as addr2line wants it; in memory where its file is not known */
	char symbol[512];    /* of the function, readable; empty: it has none */
	char object[128];    /* the file's path, cut in front where it is long; empty: not known */
	uint32_t evaluates;  /* not 0: CPython's loop, which runs frames of Python */
	uint32_t interprets; /* not 0: in the file of the interpreter */
};

struct native_stack {
	bool whole;	  /* down to where the thread begins */
	char reason[160]; /* why not, or why there is nothing: half a sentence */
	size_t count, room;
	struct native_frame *frames; /* the innermost first */
};

/* Of each stand a stack, which unwind_free() frees. What is foreign here, the process's files and its memory, is read by a process of its own that
 * can do nothing else; if they end that one, the reason says so. */
void unwind(int64_t pid, const struct native_maps *maps, const struct process_memory *memory,
	    const struct native_stand *stands, struct native_stack *ret, size_t count);
void unwind_free(struct native_stack *stacks, size_t count);

#endif
