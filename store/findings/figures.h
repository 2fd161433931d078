/* figures.h - the figures in the sentences of a finding: sums, means and medians over the judged steps, and the name
 * that has most. For tell.c. */
#ifndef PROFD_STORE_FINDINGS_FIGURES_H
#define PROFD_STORE_FINDINGS_FIGURES_H

#include "findings.h"
#include "claims.h"

/* The figures of one name. */
struct figure {
	uint32_t id; /* the operator around it; without one, the call; or the kernel */
	uint32_t call;
	int64_t ns;
	uint64_t count;
};

/* Of all stretches of a kind: the operator (or call) that has most of the time, and the call in it that has most of
 * that. *ret_all: the time of all stretches. */
struct figure figures_biggest(const struct claims *claims, enum finding_kind kind, int64_t *ret_all);
/* How many waits have stretches of FINDING_SYNC after them: a wait with several stretches counts once. */
uint64_t figures_waits(const struct claims *claims);
/* ns of the longest stretch of a kind. */
int64_t figures_longest(const struct claims *claims, enum finding_kind kind);
/* The row in which the host was late for most of a kind's time. *ret_ns: how long; *ret_all: of how much. */
enum idle_row figures_late(const struct claims *claims, enum finding_kind kind, int64_t *ret_ns, int64_t *ret_all);
/* The name that has most of the time, among the wanted operations of the device that begin in judged steps. *ret_all:
 * all of these. */
typedef bool figures_wanted(const struct breakdown_operation *operation);
struct figure figures_operations(const struct breakdown *breakdown, const struct findings *findings,
				 const struct claims *claims, figures_wanted *wanted, struct figure *ret_all);

double figures_percent(int64_t part, int64_t whole);

/* For each judged step, on average. */
double figures_mean(const struct findings *findings, uint64_t count);
/* Means over the judged steps. Steps without a claim count, too. */
double figures_mean_operations(const struct findings *findings, const struct claims *claims);
double figures_mean_per_tensor(const struct findings *findings, const struct claims *claims);
/* Median duration of the device's operations in the judged steps; -1: not known. */
int64_t figures_median_operation(const struct breakdown *breakdown, const struct findings *findings,
				 const struct claims *claims);
/* Do all judged steps launch the same number of operations? Then one CUDA graph could be made of them. */
bool figures_same_operations(const struct findings *findings, const struct claims *claims);
/* How long, in ns of the judged steps, the step's thread was in a phase and did this. */
int64_t figures_matrix(const struct breakdown *breakdown, const struct findings *findings, const struct claims *claims,
		       enum phase phase, enum doing doing);
/* `waited` is by step. -1: that of some step is not known. */
int64_t figures_waited(const struct findings *findings, const struct claims *claims, const int64_t *waited);
int64_t figures_host_row(const struct breakdown *breakdown, const struct findings *findings,
			 const struct claims *claims, enum host_row row);

#endif
