/* claims.h - the kind of finding to which each nanosecond belongs: for findings.c. A nanosecond has at most one
 * claim. */
#ifndef PROFD_STORE_FINDINGS_CLAIMS_H
#define PROFD_STORE_FINDINGS_CLAIMS_H

#include "findings.h"

/* A stretch that gets a name: a wait, or a stall. */
struct claims_stretch {
	struct finding_interval interval;
	enum finding_kind kind;
	int64_t asked; /* its name is what its thread did at this instant */
	int64_t span; /* when the call or operator began that names it, which tells one call from the next; CLAIMS_NAMELESS: nothing names it */
};
#define CLAIMS_NAMELESS INT64_MIN

struct claims_step {
	int64_t ns[FINDING_KINDS];
	int64_t queued, unknown; /* idle with work queued; idle for no known reason */
	uint64_t operations;	 /* how many the device began */
	uint64_t per_tensor;	 /* the optimizer's operators that update one tensor each */
};

struct claims {
	int64_t device;		   /* -1: the claims are on the step's thread */
	size_t device_index;	   /* SIZE_MAX: none */
	struct claims_step *steps; /* one for each of the breakdown's steps */
	const bool *unlike;	   /* the caller's; these steps are not judged; NULL: all are */
	bool optimizer_per_tensor;
	/* Idle time for input, and the part of it that only a wait for the device brought to light. Like all figures
	 * here, over the judged steps. */
	int64_t input, input_after_wait;
	int64_t late[FINDING_KINDS][IDLE_ROWS]; /* for kinds in which the host was late: by the row of the idle time */
	double few_fill; /* the part of the multiprocessors, weighted by time, for which kernels with few blocks had blocks */
	/* Intervals: the longest of each kind, and up to a bound all those that get a name. */
	struct claims_stretch longest[FINDING_KINDS][FINDING_INTERVALS];
	size_t longest_count[FINDING_KINDS], shortest[FINDING_KINDS]; /* index of the shortest of these */
	uint64_t total[FINDING_KINDS];
	struct claims_stretch *named;
	size_t named_count, named_room;
	bool failed; /* no memory */
};

/* What the caller asks for. */
struct claims_wanted {
	size_t first, last;	   /* steps */
	const bool *unlike;	   /* these steps are not judged; NULL: all are */
	const int64_t *per_tensor; /* sorted ids in `strings` of operators that update one tensor each */
	size_t per_tensor_count;
};

/* False: no memory. Call claims_free() in either case. */
bool claims_make(const struct breakdown_capture *capture, const struct claims_wanted *wanted, struct claims *ret);
void claims_free(struct claims *claims);

/* The device that worked most in the steps [first, last); SIZE_MAX: none did. */
size_t claims_device(const struct breakdown *breakdown, size_t first, size_t last);

#endif
