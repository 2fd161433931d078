/* processor.h - the figures of the finding `processor`: time in which the step's thread could have run and had no
 * processor. It is no row of the breakdown: it lies within other rows. */
#ifndef PROFD_STORE_FINDINGS_PROCESSOR_H
#define PROFD_STORE_FINDINGS_PROCESSOR_H

#include "claims.h"

struct processor {
	int64_t *waited; /* by step, ns; -1: not known, or not exactly enough. Owned */
	double taken;	 /* how often, on average, its processor was taken from it in a step */
	int64_t machine, allowed, limit, periods, stopped; /* as in `meta`; 0 = not known, or none */
	bool evenly; /* steps are too short to be told apart: each gets its part of the whole */
};

/* Loads the steps [first, last); those that are unlike the others do not count for `taken`. False: no memory, or the
 * file cannot be read. Call processor_free() in either case. */
bool processor_load(const struct breakdown_capture *capture, sqlite3 *db, size_t first, size_t last, const bool *unlike,
		    struct processor *ret);
void processor_free(struct processor *processor);

/* The time that could be won back in a step: the time that the thread waited, but where a device worked no more than
 * it waited for the host. -1: not known. */
int64_t processor_figure(const struct processor *processor, const struct claims *claims, size_t step);

/* Keeps the steps that waited longest as the finding's intervals. */
void processor_intervals(const struct processor *processor, const struct breakdown_capture *capture, size_t first,
			 size_t last, struct finding *finding);
/* Call it after all findings are told. If this finding and another one may have time in common, the later one says
 * how much. */
void processor_tell_shared(struct findings *findings);
/* Fills what, evidence and advice. */
void processor_tell(const struct processor *processor, const struct findings *findings, struct finding *finding);

#endif
