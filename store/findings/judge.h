/* judge.h - which claims are findings, over the steps that are judged, and in what order they stand: for findings.c. */
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
	int64_t *recompiled; /* by step: recompile_times() */
	bool recompiles; /* there is such a finding: in the steps that are left out, or, if none is left out, in all steps */
	struct judge_value *values; /* room for all steps */
	struct finding *candidates;
	size_t candidate_count;
	int64_t major; /* the device's compute capability */
	bool mean;     /* medians would add up to more than a step: means do not */
};

typedef int64_t judge_figure(const struct judge *judge, size_t step, size_t what);
/* Takes a figure of the judged steps; returns how many there are. */
size_t judge_gather(const struct judge *judge, judge_figure *figure, size_t what);
/* Of what was taken: median (or mean) and the spread. Sorts the values. */
void judge_spread(const struct judge *judge, size_t count, struct finding *ret);

/* How long the judged steps took, for findings->judged, step_ns and its spread. */
void judge_set_steps(struct judge *judge);
/* Fills the candidates, FINDINGS_MOST at most, the one that could win most first. */
void judge_find(struct judge *judge);
/* The row of the step that grew most beyond what it is in the others, by the mean of these. NULL: none did. */
const char *judge_grown_row(const struct judge *judge, size_t step, size_t device, int64_t *ret_ns);

#endif
