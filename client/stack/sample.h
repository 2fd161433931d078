/* sample.h - where the Python threads of a process stand, looked at again and again for a while, from outside. Nothing is stopped. */
#ifndef PROFD_CLIENT_STACK_SAMPLE_H
#define PROFD_CLIENT_STACK_SAMPLE_H

#include "read.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A line of a function; line 0: not known. */
struct sample_place {
	char *name, *file;
	int32_t line;
};

/* Counts are of looks: in `runs` of them the thread had a processor or waited for one, in `waits` it was asleep. */
struct sample_stack {
	size_t thread, count;
	const struct sample_place **places; /* the innermost first */
	uint64_t runs, waits;
};

struct sample_thread {
	int64_t tid; /* 0: not known */
	bool is_main;
	char name[64];
	uint64_t runs, waits;
	uint64_t unread; /* it was there, and its stack could not be read */
};

struct sample_process {
	int64_t pid;
	struct stack_process *about; /* command, release, error; its threads are those of no look */
	uint64_t start;		     /* of the process, clock ticks after boot; 0: not known */
	bool ended;		     /* before the looks were over */
	uint64_t looks, late;	     /* that were done; that were not, because one before took too long */
	int64_t ns;		     /* from the first look to the end of the last one's time */
	uint64_t torn;
	uint64_t unkept; /* stacks that there was no room for: they count in the threads alone */
	bool cut;	 /* threads were left out of a look */
	struct sample_thread *threads;
	size_t thread_count, thread_room;
	struct sample_stack **stacks;
	size_t stack_count, stack_room;
	void *places, *known; /* trees of these, as tsearch() keeps them */
	size_t place_count;
};

struct sample_wish {
	int64_t ns;    /* for so long */
	unsigned rate; /* looks in a second */
	bool children; /* and what these processes have started that runs Python, also in the meantime */
};

struct samples {
	struct sample_process **rows;
	size_t count, room;
};

/* Looks at all of them at the same time, a thread for each. Comes back when the time is over, when all have ended, or at Ctrl-C, which it takes. What could not be read has
 * an error in `about`; children that run no Python are left out. Freed by sample_free(). */
void sample(struct samples *samples, const int64_t *pids, size_t count, const struct sample_wish *wish);
void sample_free(struct samples *samples);

#endif
