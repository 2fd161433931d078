/* phases.h - finds forward and backward where nobody has marked them: backward by autograd's operators, forward by those
 * whose sequence numbers return in it. */
#ifndef PROFD_STORE_BREAKDOWN_PHASES_H
#define PROFD_STORE_BREAKDOWN_PHASES_H

#include "breakdown.h"

struct phases_operator {
	int64_t start, end, sequence;
	uint32_t thread;
	bool backward;
};

struct phases {
	struct phases_operator *items;
	size_t count, room;
	bool failed; /* no memory */
};

/* sequence: autograd's; -1 = none. */
void phases_add(struct phases *phases, uint32_t thread, int64_t start, int64_t end, bool backward, int64_t sequence);
/* Marks the step thread's phases. False: no memory. */
bool phases_mark(struct phases *phases, const struct breakdown *breakdown, struct activity *activity);
void phases_free(struct phases *phases);

#endif
