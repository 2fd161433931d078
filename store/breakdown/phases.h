/* phases.h - finds forward and backward where nobody marked them: backward by autograd's operators, forward by the
 * operators whose sequence numbers return in the backward; and inference (inference.h). */
#ifndef PROFD_STORE_BREAKDOWN_PHASES_H
#define PROFD_STORE_BREAKDOWN_PHASES_H

#include "breakdown.h"

/* 24 bytes: a capture may have many millions. */
struct phases_operator {
	int64_t start, end;
	int32_t sequence; /* phases_sequence() */
	uint8_t network;  /* names_network() */
	bool on_step_thread, backward, takes_tensor : 1;
	bool graded : 1;     /* it ran with gradient; inference_prepare() */
	uint8_t purpose : 3; /* enum purpose; only where its stack was recorded */
};
_Static_assert(sizeof(struct phases_operator) == 24, "");

/* Autograd's sequence number, or its lower bits, which are enough for one capture; -1: none. */
static inline int32_t phases_sequence(int64_t sequence)
{
	return sequence < 0 ? -1 : (int32_t)(sequence & INT32_MAX);
}

/* A kind of forward of the training: which operators of networks it runs. */
struct phases_forward {
	uint64_t operators; /* bits: which operators, from names_network() 1 on */
	size_t count;	    /* the fewest in a forward of this kind */
};
#define PHASES_FORWARDS 64

struct phases {
	struct phases_operator *items;
	size_t count, room;
	bool failed;   /* no memory */
	bool numbered; /* set by the caller: sequence numbers were recorded where there were any */
	struct phases_forward forwards[PHASES_FORWARDS]; /* further kinds are not kept */
	size_t forward_count;
	int64_t *backwards; /* when operators of backward began; sorted; owned */
	size_t backward_count;
	size_t inferred; /* 1 + how many marks the activity had before inference_mark(); 0: that was not called */
};

void phases_add(struct phases *phases, const struct phases_operator *item);
/* Marks the step thread's phases. False: no memory. */
bool phases_mark(struct phases *phases, const struct breakdown *breakdown, struct activity *activity);
void phases_free(struct phases *phases);

#endif
