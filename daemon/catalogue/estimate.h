/* estimate.h - what a recording would cost a process, as told by finished captures of this very process, or of others
 * that ran the same command. The catalogue's thread. */
#ifndef PROFD_DAEMON_CATALOGUE_ESTIMATE_H
#define PROFD_DAEMON_CATALOGUE_ESTIMATE_H

#include "proto/base/facts.h"

struct catalogue;

/* Which process, and what would be recorded of it. A capture counts only if the ends of its steps were found in the
 * same way, and its options for what is recorded are the same. */
struct estimate_question {
	pid_t pid;
	uint64_t start_time;
	uid_t uid;
	char command[sizeof((struct identity *)0)->command]; /* after exec it is another one, as of another program */
	uint32_t collectors;				     /* bit set of enum collector */
	uint32_t options;				     /* bit set of enum arm_option */
	uint32_t stacks_rate;
	char step_range[LABEL_BYTES], step_operator[LABEL_BYTES], step_optimizer[LABEL_BYTES], batches[16];
};

/* What one capture has cost. */
struct estimate_figures {
	uint64_t number; /* of the capture; 0 = there is none */
	uint64_t steps, events, bytes;
	uint64_t step_before, step_during; /* median ns; 0 = not known */
	uint32_t wanted, ran;		   /* bit sets of the collectors that were asked for, and that were on */
};

#define ESTIMATE_SENTENCE_BYTES 192
struct estimate {
	unsigned captures; /* complete ones that were looked at; of these do not count: */
	unsigned others;   /* those with other steps or options */
	/* The newest capture with exactly the collectors that would be on. Otherwise two: of the captures with more,
	 * the one with the fewest more (this would cost at most what that did); of the captures with fewer, the one
	 * with the most. */
	struct estimate_figures same, more, fewer;
	/* Collectors that are asked for, and were not on in the newest capture that asked for them; that capture, and
	 * its sentence on why. */
	uint32_t off;
	uint64_t off_number[COLLECTOR_COUNT];
	char off_sentence[COLLECTOR_COUNT][ESTIMATE_SENTENCE_BYTES];
};

/* By which captures. */
enum estimate_by {
	ESTIMATE_BY_PROCESS,
	ESTIMATE_BY_COMMAND, /* captures of the user's other processes that ran the same command, earlier or as other
			      * ranks */
	ESTIMATE_WAYS
};

/* 0 or a negative errno. */
int catalogue_estimate(struct catalogue *catalogue, const struct estimate_question *question, enum estimate_by by,
		       struct estimate *ret);
/* Is any figure known? */
bool estimate_is_known(const struct estimate *estimate);

#endif
