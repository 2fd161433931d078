/* top_rows.h - the jobs of this machine as `profd top` shows them: a row for each job, from what the daemons say of its processes. */
#ifndef PROFD_CLIENT_COMMAND_TOP_ROWS_H
#define PROFD_CLIENT_COMMAND_TOP_ROWS_H

#include "client/link/connection.h"
#include "client/ui/table.h"

#include <cjson/cJSON.h>

/* What is asked less often than the processes, and kept between two looks. Zeroed at first. */
struct top_memory {
	cJSON *captures; /* CAPTURE rows, newest first */
	cJSON *verdicts; /* capture's id: its verdict, or null */
	int64_t asked;	 /* CLOCK_MONOTONIC ns; 0 = never */
};
void top_forget(struct top_memory *memory);

/* Asks the daemons. EXIT_DONE with *ret_jobs (to be deleted): {"job", "name", "user", "ranks", "pids" [], "step", "step_ns",
 * "steps_per_second", "step_times_ns" [], "idle_ns", "state", "captures" [], "verdict", "verdict_of"}; a job's figures
 * are those of its first rank that steps. Else an exit code, with *failure filled. */
int top_look(struct daemons *daemons, struct top_memory *memory, cJSON **ret_jobs, struct failure *failure);

/* By which figure rows are sorted, as the keys of `profd top` say it. */
enum top_order { TOP_BY_JOB, TOP_BY_TIME, TOP_BY_RATE, TOP_BY_NAME };
void top_sort(cJSON *jobs, enum top_order order);

/* A table of them; to be freed. */
struct table *top_table(const cJSON *jobs);

#endif
