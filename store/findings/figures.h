/* figures.h - the figures that a finding is told with: sums, means and medians over the steps that were judged, and which name has most.
 * For tell.c. */
#ifndef PROFD_STORE_FINDINGS_FIGURES_H
#define PROFD_STORE_FINDINGS_FIGURES_H

#include "findings.h"
#include "claims.h"

/* What one name has. */
struct figure {
	uint32_t id; /* the operator around it, else the call; or the kernel */
	uint32_t call;
	int64_t ns;
	uint64_t count;
};

/* Of all stretches of a kind: the operator (or call) that has most of the time, and the call that has most of that; the time of all of them in
 * *ret_all. */
struct figure figures_biggest(const struct claims *claims, enum finding_kind kind, int64_t *ret_all);
/* How many waits the stretches of FINDING_SYNC come after: one that is told in several stretches counts once. */
uint64_t figures_waits(const struct claims *claims);
/* ns of the longest stretch of a kind. */
int64_t figures_longest(const struct claims *claims, enum finding_kind kind);
/* For most of a kind's time the host was late for this reason; how much of it, and of how much. */
enum idle_row figures_late(const struct claims *claims, enum finding_kind kind, int64_t *ret_ns, int64_t *ret_all);
/* Of the device's operations that begin in judged steps and are wanted: the name that has most of the time; all of them in *ret_all. */
typedef bool figures_wanted(const struct breakdown_operation *operation);
struct figure figures_operations(const struct breakdown *breakdown, const struct findings *findings,
				 const struct claims *claims, figures_wanted *wanted, struct figure *ret_all);

double figures_percent(int64_t part, int64_t whole);

/* Of a judged step. */
double figures_mean(const struct findings *findings, uint64_t count);
/* Means over the judged steps; steps without a claim count, too. */
double figures_mean_operations(const struct findings *findings, const struct claims *claims);
double figures_mean_per_tensor(const struct findings *findings, const struct claims *claims);
/* Median duration of the device's operations in the judged steps; -1: not known. */
int64_t figures_median_operation(const struct breakdown *breakdown, const struct findings *findings,
				 const struct claims *claims);
/* Do all judged steps launch as many operations? Then what they launch could be one CUDA graph. */
bool figures_same_operations(const struct findings *findings, const struct claims *claims);
/* ns of the judged steps in which the step's thread was in a phase and did this. */
int64_t figures_matrix(const struct breakdown *breakdown, const struct findings *findings, const struct claims *claims,
		       enum phase phase, enum doing doing);
/* `waited`: by step; -1 where that of one is not known. */
int64_t figures_waited(const struct findings *findings, const struct claims *claims, const int64_t *waited);
int64_t figures_host_row(const struct breakdown *breakdown, const struct findings *findings,
			 const struct claims *claims, enum host_row row);

#endif
