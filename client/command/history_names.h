/* history_names.h - the snapshots of a job over time, and what the lists of names in their summaries say: operators,
 * kernels, ranges, each with a time. One thread. */
#ifndef PROFD_CLIENT_COMMAND_HISTORY_NAMES_H
#define PROFD_CLIENT_COMMAND_HISTORY_NAMES_H

#include "client/snapshot/series.h"
#include "client/ui/table.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

struct snapshot {
	cJSON *capture;
	cJSON *summary; /* NULL: not to be had (any more) */
	double step;	/* ns; -1 = not known */
	double idle;	/* ns; -1 = not known */
	double busy;	/* percent; -1 = not recorded */
};

struct series {
	struct who who; /* with a pid where only that tells it apart */
	struct snapshot *list;
	size_t count;
	double step_median, busy_median; /* -1 = of nothing */
	/* Since which snapshot steps take more or less, beyond the spread between snapshots; 0: they do not, or too few are known. */
	size_t since;
	double since_p;			/* NaN: too few to tell */
	double step_before, step_since; /* ns, medians; -1 = of nothing */
};

/* What a list of names in a summary is called, and where the time stands in its rows. */
struct name_list {
	const char *key, *title;
	const char *collector; /* without it the list is not recorded; NULL: none in particular */
	const char *time;
};
extern const struct name_list names_by_device, names_by_cpu, names_by_kernel, names_by_range;

/* The list's rows; NULL where the summary has none. */
const cJSON *names_rows(const struct snapshot *snapshot, const struct name_list *list);
/* Did the collector run that fills the list? And in any of the snapshots? */
bool names_recorded(const struct snapshot *snapshot, const struct name_list *list);
bool names_recorded_once(const struct series *series, const struct name_list *list);
/* ns that a name takes in a step; -1 if the summary does not list it. */
double names_time(const struct snapshot *snapshot, const struct name_list *list, const char *name);
/* The name with the most time; NULL where there is none. */
const char *names_top(const struct snapshot *snapshot, const struct name_list *list);
/* The list of operators: by device time where kernels were recorded, else by CPU time. */
const struct name_list *names_operators(const struct snapshot *snapshot);
/* Sets a cell to that name, and the next cell to its time. */
void names_set_top(struct table *table, size_t column, const struct snapshot *snapshot, const struct name_list *list);

struct named {
	const char *name;
	double sum; /* of all snapshots that list it; ns a step */
};

/* Values of a name, -1 where a snapshot does not list it. Returns their median, and their sum and number. */
double names_times(const struct series *series, const struct name_list *list, const char *name, double *values,
		   double *ret_sum, size_t *ret_listed);
/* All names of all snapshots, those with the most time first. To be freed. `values` has room for a value of each. */
struct named *names_all(const struct series *series, const struct name_list *list, double *values, size_t *ret_count);

#endif
