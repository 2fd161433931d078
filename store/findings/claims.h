/* claims.h - to which kind of finding each nanosecond belongs: for findings.c. A nanosecond has one claim at most. */
#ifndef PROFD_STORE_FINDINGS_CLAIMS_H
#define PROFD_STORE_FINDINGS_CLAIMS_H

#include "findings.h"

/* A stretch that is told by name: a wait, or a stall. */
struct claims_stretch {
	struct finding_interval interval;
	enum finding_kind kind;
	int64_t asked; /* what its thread did at this instant tells its name */
};

struct claims_step {
	int64_t ns[FINDING_KINDS];
	int64_t queued, unknown; /* idle with work queued; idle for no known reason */
	uint64_t operations;	 /* that the device began */
	uint64_t per_tensor;	 /* operators of the optimizer that update a tensor each */
};

struct claims {
	int64_t device;		   /* -1: of the step's thread */
	size_t device_index;	   /* SIZE_MAX: none */
	struct claims_step *steps; /* as many as the breakdown's */
	bool optimizer_per_tensor;
	int64_t input,
		input_after_wait; /* idle for input, and what of it a wait for the device has brought to light; over all steps */
	double few_fill;	  /* of the multiprocessors, by time, that kernels with few blocks had blocks for */
	/* Intervals: the longest of each kind, and all that are told by name, up to a bound. */
	struct claims_stretch longest[FINDING_KINDS][FINDING_INTERVALS];
	size_t longest_count[FINDING_KINDS], shortest[FINDING_KINDS]; /* which of these is the shortest */
	uint64_t total[FINDING_KINDS];
	struct claims_stretch *named;
	size_t named_count, named_room;
	bool failed; /* no memory */
};

/* What is asked for. */
struct claims_wanted {
	size_t first, last;	   /* steps */
	const bool *unlike;	   /* by step: these are not judged; NULL: all are */
	const int64_t *per_tensor; /* sorted ids in `strings` of operators that update a tensor each */
	size_t per_tensor_count;
};

/* False: no memory. claims_free() in either case. */
bool claims_make(const struct breakdown_capture *capture, const struct claims_wanted *wanted, struct claims *ret);
void claims_free(struct claims *claims);

/* The device that worked most in the steps [first, last); SIZE_MAX: none did. */
size_t claims_device(const struct breakdown *breakdown, size_t first, size_t last);

#endif
