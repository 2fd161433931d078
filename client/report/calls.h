/* calls.h - operators and ranges by what called them: calls of one name in one place are one node. The tree of `show --by tree`
 * and of the page. One thread. */
#ifndef PROFD_CLIENT_REPORT_CALLS_H
#define PROFD_CLIENT_REPORT_CALLS_H

#include "client/reader/reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct calls_options {
	int64_t step;	/* its ordinal; 0: all of the capture */
	bool by_thread; /* what runs on different threads is never one node */
	/* torch.profiler's ranges of its steps are one node; else they are left out, and what they hold stands by itself. */
	bool profiler_steps;
};

struct calls_node {
	size_t parent;	      /* place of the node that it is called from, which is a lower one; 0: the root */
	int64_t name;	      /* of `strings` */
	int64_t thread;	      /* 0 unless by_thread */
	int64_t calls;	      /* how many */
	int64_t total, self;  /* ns */
	int64_t device_total; /* ns on devices of what was launched in it */
	int64_t device_self;  /* ns on devices of what was launched in it, but in no call below */
};

struct calls {
	struct calls_node *nodes; /* the first is the root, which stands for nothing */
	size_t count;
	int64_t profiler_steps; /* name of the node of torch.profiler's steps; 0: it has none */
};

/* Whatever the file says, the nodes are a tree. An unreadable file ends the program with a sentence. To be freed by calls_free(). */
void calls_read(struct calls *calls, const struct reader *reader, const struct calls_options *options);
void calls_free(struct calls *calls);

#endif
