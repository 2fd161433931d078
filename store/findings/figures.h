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

/* Of all stretches of a kind: the name that has most of the time; the time of all of them in *ret_all. */
struct figure figures_biggest(const struct claims *claims, enum finding_kind kind, int64_t *ret_all);
/* Of the device's operations of a kind: the kernel that has most of the time. */
struct figure figures_kernel(const struct breakdown *breakdown, const struct claims *claims, enum operation_kind kind);

double figures_percent(int64_t part, int64_t whole);

/* Means over the judged steps: those of which nothing is claimed count too. */
double figures_mean_operations(const struct findings *findings, const struct claims *claims);
double figures_mean_per_tensor(const struct findings *findings, const struct claims *claims);
/* Median duration of the device's operations in the judged steps; -1: not known. */
int64_t figures_median_operation(const struct breakdown *breakdown, const struct findings *findings,
				 const struct claims *claims);
/* Do all judged steps launch as many operations? Then what they launch could be one CUDA graph. */
bool figures_same_operations(const struct findings *findings, const struct claims *claims);
/* ns of the judged steps in which the step's thread was in a phase and did this. */
int64_t figures_matrix(const struct breakdown *breakdown, const struct findings *findings, enum phase phase,
		       enum doing doing);
int64_t figures_host_row(const struct breakdown *breakdown, const struct findings *findings, enum host_row row);

#endif
