/* phases.h - finds forward and backward where nobody has marked them: backward by autograd's operators, forward by those
 * whose sequence numbers return in it; and inference (inference.h). */
#ifndef PROFD_STORE_BREAKDOWN_PHASES_H
#define PROFD_STORE_BREAKDOWN_PHASES_H

#include "breakdown.h"

struct phases_operator {
	int64_t start, end, sequence;
	uint32_t thread;
	bool backward, takes_tensor;
	uint8_t network; /* names_network() */
	bool graded;	 /* it ran with gradient; inference_prepare() */
};

/* What forwards of the training run: operators of a network. */
struct phases_forward {
	uint64_t operators; /* bits: which, from names_network() 1 on */
	size_t count;	    /* the least */
};
#define PHASES_FORWARDS 64

struct phases {
	struct phases_operator *items;
	size_t count, room;
	bool failed;   /* no memory */
	bool numbered; /* sequence numbers were recorded where there were any; the caller's */
	struct phases_forward forwards[PHASES_FORWARDS]; /* more kinds are not kept */
	size_t forward_count;
	int64_t *backwards; /* when operators of backward began; sorted; owned */
	size_t backward_count;
};

/* item->sequence: autograd's; -1 = none. */
void phases_add(struct phases *phases, const struct phases_operator *item);
/* Marks the step thread's phases. False: no memory. */
bool phases_mark(struct phases *phases, const struct breakdown *breakdown, struct activity *activity);
void phases_free(struct phases *phases);

#endif
