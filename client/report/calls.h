/* calls.h - operators and ranges by their callers: calls of one name in one place are one node. For the tree of `show
 * --by tree` and of the page. One thread. */
#ifndef PROFD_CLIENT_REPORT_CALLS_H
#define PROFD_CLIENT_REPORT_CALLS_H

#include "client/reader/reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct calls_options {
	int64_t step;	/* its ordinal; 0: the whole capture */
	bool by_thread; /* calls on different threads are never one node */
	/* torch.profiler's ranges of steps are one node. Otherwise they are left out, and the calls in them have no
	 * caller. */
	bool profiler_steps;
};

struct calls_node {
	size_t parent;	      /* index of the caller's node, which is lower; 0: the root */
	int64_t name;	      /* id in `strings` */
	int64_t thread;	      /* 0 unless by_thread */
	int64_t calls;	      /* the number of calls */
	int64_t total, self;  /* ns */
	int64_t device_total; /* ns on devices, of all that was launched in it */
	int64_t device_self;  /* ns on devices, of what was launched in it but not in a call below it */
};

struct calls {
	struct calls_node *nodes; /* the first one is the root, which is no call */
	size_t count;
	int64_t profiler_steps; /* name of the node of torch.profiler's steps; 0: it has none */
};

/* The nodes are a tree, even if the file is hostile. If the file cannot be read, the program ends with a sentence.
 * Call calls_free() afterwards. */
void calls_read(struct calls *calls, const struct reader *reader, const struct calls_options *options);
void calls_free(struct calls *calls);

#endif
