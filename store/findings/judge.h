/* judge.h - decides which claims are findings, over the judged steps, and in what order: for findings.c. */
#ifndef PROFD_STORE_FINDINGS_JUDGE_H
#define PROFD_STORE_FINDINGS_JUDGE_H

#include "findings.h"
#include "claims.h"
#include "processor.h"

/* A figure of each judged step. */
struct judge_value {
	int64_t ns;
	double share;
};

struct judge {
	const struct breakdown_capture *capture;
	const struct breakdown *breakdown;
	struct findings *findings;
	struct claims claims;
	struct processor processor;
	bool *unlike;
	size_t unlike_count;
	int64_t *recompiled; /* by step; from recompile_times() */
	bool recompiles; /* that is a finding: in the steps that are left out, or, if none is left out, in all steps */
	struct judge_value *values; /* room for all steps */
	struct finding *candidates;
	size_t candidate_count;
	int64_t major; /* the device's compute capability */
	bool mean;     /* medians would add up to more than a step, which means do not: means are used */
};

typedef int64_t judge_figure(const struct judge *judge, size_t step, size_t what);
/* Takes a figure of each judged step. Returns how many there are. */
size_t judge_gather(const struct judge *judge, judge_figure *figure, size_t what);
/* Median (or mean) and spread of the figures that were taken. Sorts them. */
void judge_spread(const struct judge *judge, size_t count, struct finding *ret);

/* Sets findings->judged, step_ns and its spread, by the judged steps. */
void judge_set_steps(struct judge *judge);
/* Fills the candidates, FINDINGS_MOST at most. The one that could win back most comes first. */
void judge_find(struct judge *judge);
/* The row of the step that grew most beyond its mean in the other steps. NULL: none grew. */
const char *judge_grown_row(const struct judge *judge, size_t step, size_t device, int64_t *ret_ns);

#endif
