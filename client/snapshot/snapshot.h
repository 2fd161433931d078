/* snapshot.h - what `profd snapshot` picks and what becomes of it: units (a job's processes, recorded together) and
 * their members (a process each). snapshot.c here is pure; flight.c records a unit; command/snapshot.c runs it all. One
 * thread. */
#ifndef PROFD_CLIENT_SNAPSHOT_SNAPSHOT_H
#define PROFD_CLIENT_SNAPSHOT_SNAPSHOT_H

#include "client/link/connection.h"
#include "series.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SNAPSHOT_ID_BYTES 64
/* So many earlier snapshots make a history to compare with. */
#define SNAPSHOT_HISTORY 3

/* Which processes are picked: everything that is given must hold. */
struct criteria {
	const char *name; /* glob; NULL = any, as with the following */
	const char *user; /* name or number */
	const char *job;
	const int64_t *pids;
	size_t pid_count;
	int64_t least_step; /* ns; 0 = any, and also what shows no steps */
	const char *ranks;  /* "0,3" or "0-3"; a process without a rank is always taken */
	bool one_per_job;   /* of those that are left, the lowest rank of each job */
};

enum outcome {
	OUTCOME_WAITING,
	OUTCOME_RECORDED,
	OUTCOME_INCOMPLETE,
	OUTCOME_SKIPPED,
	OUTCOME_FAILED,
};

struct member {
	cJSON *process; /* PROCESS as it was last seen */
	int64_t pid, rank;
	bool by_pid; /* only its pid tells it from another process that lives now, or lived beside it */
	enum outcome outcome;
	int code;		      /* for the exit code; EXIT_DONE unless incomplete or failed */
	char word[32];		      /* of an error or of a reason to skip; "" = none */
	char why[FAILURE_TEXT_BYTES]; /* a clause without a full stop; "" = none */
	char id[SNAPSHOT_ID_BYTES];   /* of the capture; "" = none */
	cJSON *captured;	      /* CAPTURE, once finished */
	int64_t step;		      /* ns, median of the recorded steps; 0 = not known */
	int64_t idle_step;	      /* ns, when its turn came; 0 = not known */
	double busy;		      /* percent; -1 = not recorded */
	int64_t history;	      /* earlier snapshots that it was compared with; -1 = it was not */
	double median;		      /* ns, of these; 0 where there are too few */
	bool beyond;		      /* its last steps take longer than these, by more than the spread */
};

struct unit {
	unsigned daemon; /* index */
	struct member *members;
	size_t count;
	int64_t at;			   /* ns after the beginning: not earlier than that */
	cJSON *deleted;			   /* ids of older snapshots */
	int64_t at_step;		   /* with which all members begin; 0 = each by itself */
	char together[FAILURE_TEXT_BYTES]; /* what the daemon says of that; "" = nothing */
	bool done;
};

/* NULL, or why such a list of ranks is none. */
const char *snapshot_ranks_refusal(const char *ranks);

/* Units of the processes (each with "daemon", a socket's path, of `paths`) that meet the criteria, in the order of
 * user, job, name; their members by rank and pid. *ret_fast counts those that only the least step left out. To be freed
 * with snapshot_free. */
struct unit *snapshot_pick(const cJSON *processes, const char *const *paths, unsigned path_count,
			   const struct criteria *criteria, size_t *ret_count, size_t *ret_fast);
void snapshot_free(struct unit *units, size_t count);

/* Is the last step (RFC 3339, UTC) so long ago, for steps of `step` ns, that waiting for more makes no sense? */
bool snapshot_is_stalled(const char *last_step_at, int64_t step, int64_t now_realtime, int64_t *ret_ago);

/* How long a recording of so many steps may take: `timeout`, or where it is 0 two minutes, more where steps are long. */
int64_t snapshot_timeout(int64_t timeout, int64_t steps, int64_t step);

/* When unit i of n may begin: its share of `stagger` ns, and a random part (0 to 1) of that share. */
int64_t snapshot_start(size_t i, size_t n, int64_t stagger, double random);

#endif
