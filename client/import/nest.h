/* nest.h - which of a thread's operators and ranges lies in which: parent, depth and self time, as an agent would have counted them. */
#ifndef PROFD_CLIENT_IMPORT_NEST_H
#define PROFD_CLIENT_IMPORT_NEST_H

#include "proto/events.h"

#include <stdbool.h>
#include <stddef.h>

/* at::RecordScope::BACKWARD_FUNCTION: an operator that is a node of autograd. */
#define RECORD_SCOPE_BACKWARD 1

struct nest_frame {
	union event_any event;	       /* a RANGE or an OPERATOR */
	uint64_t start, end, children; /* ns; children: of the direct ones together */
	uint64_t node;		       /* id of the innermost node of autograd that it is, or runs in; 0: none */
};

struct nest {
	bool nodes; /* operators are to say in which node of autograd they run */
	struct nest_frame *frames;
	size_t count, room;
	uint64_t last_id;
	uint32_t thread;
	void *context;
	bool (*closed)(void *context, const union event_any *event); /* false: it is enough */
};

/* One that begins no earlier than the one before on its thread, and encloses what follows and fits into it. Whatever ends before it is
 * handed to closed(). False: no memory, or closed() said so. */
bool nest_open(struct nest *nest, const union event_any *event);
/* Of something without a duration, in this order as well: what lies open around it; 0: nothing. False as above. */
bool nest_around(struct nest *nest, uint32_t thread, uint64_t time, uint64_t *ret_id);
/* Hands on what is open still. */
bool nest_end(struct nest *nest);
void nest_free(struct nest *nest);

#endif
