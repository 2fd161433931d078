/* purpose.h - what a network is run for (proto/purpose.h). That is known where stacks were recorded, by operators or
 * by samples. */
#ifndef PROFD_STORE_BREAKDOWN_PURPOSE_H
#define PROFD_STORE_BREAKDOWN_PURPOSE_H

#include "phases.h"
#include "proto/purpose.h"
#include "scan.h"

/* By the stack's number. All zero: no function says anything. */
struct purposes {
	uint8_t *of; /* enum purpose */
	uint32_t count;
};

/* Call purposes_free() afterwards in any case. */
void purposes_read(struct purposes *purposes, struct scan *scan);
void purposes_free(struct purposes *purposes);
/* Takes any number. */
enum purpose purposes_of(const struct purposes *purposes, int64_t stack);

/* Marks what the step thread runs in such functions, if a network is among it and is not trained. The phases'
 * operators are sorted; `sequences`, those of backward, are sorted, too. */
void purpose_mark(const struct phases *phases, const struct breakdown *breakdown, struct activity *activity,
		  const int64_t *sequences, size_t count);
/* Goes over the marks of inference from `first` on, in order of time. If most samples in a mark were in a function
 * that evaluates, the mark becomes validation, test or evaluation. */
void purpose_look_at_samples(const struct purposes *purposes, struct scan *scan, uint32_t thread,
			     struct activity *activity, size_t first);

#endif
