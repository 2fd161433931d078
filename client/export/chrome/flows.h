/* flows.h - which forward operator a backward node belongs to: both carry the autograd sequence number, the backward
 * one also torch's number of the forward's thread. As Kineto links them: of all operators with one number the one that
 * starts last made the node; its backward is the node itself (scope BACKWARD_FUNCTION), or, if that is not seen, the
 * first operator that carries the number. No thread, no locks of its own: the caller puts operators in one at a
 * time. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_FLOWS_H
#define PROFD_CLIENT_EXPORT_CHROME_FLOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pairs that are kept: 48 bytes each, at most twice that while the table grows. */
#define FLOWS_MAX 500000

struct flow_end {
	int64_t start;
	int64_t track; /* the caller's */
};

struct flow {
	uint64_t sequence;
	uint32_t forward_thread; /* 0: a free place in the table */
	bool has_forward, has_backward, is_node;
	struct flow_end forward, backward;
};

struct flows {
	struct flow *table;
	size_t size, used;
	uint64_t left_out; /* operators for which there was no room */
};

/* An operator with a sequence number. `thread` is torch's number of the forward's thread (not 0). 0 or -ENOMEM. */
int flows_put(struct flows *f, uint32_t thread, uint64_t sequence, bool backward, bool is_node, struct flow_end end);
/* Next whole pair from *at on (0 at first), NULL at the end. */
const struct flow *flows_next(const struct flows *f, size_t *at);
void flows_deinit(struct flows *f);

#endif
