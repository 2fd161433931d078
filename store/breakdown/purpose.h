/* purpose.h - what a network is run for (proto/purpose.h). Known where stacks were recorded, of operators or by samples. */
#ifndef PROFD_STORE_BREAKDOWN_PURPOSE_H
#define PROFD_STORE_BREAKDOWN_PURPOSE_H

#include "phases.h"
#include "proto/purpose.h"
#include "scan.h"

/* By the stacks' numbers; all zero: no function says anything. */
struct purposes {
	uint8_t *of; /* enum purpose */
	uint32_t count;
};

/* purposes_free() afterwards in any case. */
void purposes_read(struct purposes *purposes, struct scan *scan);
void purposes_free(struct purposes *purposes);
/* Of any number. */
enum purpose purposes_of(const struct purposes *purposes, int64_t stack);

/* Marks what the step thread runs in such functions, a network among it, and does not train. The phases' operators are sorted;
 * `sequences` are those of backward, sorted. */
void purpose_mark(const struct phases *phases, const struct breakdown *breakdown, struct activity *activity,
		  const int64_t *sequences, size_t count);
/* Goes over the marks of inference, in the order of time, from this one on. A mark in which most samples were in a
 * function that evaluates becomes validation, test or evaluation. */
void purpose_look_at_samples(const struct purposes *purposes, struct scan *scan, uint32_t thread,
			     struct activity *activity, size_t first);

#endif
