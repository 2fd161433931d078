/* claims.h - to which kind of finding each nanosecond belongs: for findings.c. A nanosecond has one claim at most. */
#ifndef PROFD_STORE_FINDINGS_CLAIMS_H
#define PROFD_STORE_FINDINGS_CLAIMS_H

#include "findings.h"

/* A stretch that is told by name: a wait, or a stall. */
struct claims_stretch {
	struct finding_interval interval;
	enum finding_kind kind;
	int64_t asked; /* what its thread did at this instant tells its name */
	int64_t span; /* when the call or operator began that names it: tells one call from the next; CLAIMS_NAMELESS: none does */
};
#define CLAIMS_NAMELESS INT64_MIN

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
	const bool *unlike;	   /* the caller's, by step: not judged; NULL: all are */
	bool optimizer_per_tensor;
	/* Idle time for input, and the part of it that only a wait for the device has brought to light. As all of
	 * these, over the judged steps. */
	int64_t input, input_after_wait;
	int64_t late[FINDING_KINDS]
		    [IDLE_ROWS]; /* of the kinds for which the host was late: by the row of the idle time */
	double few_fill;	 /* of the multiprocessors, by time, that kernels with few blocks had blocks for */
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
