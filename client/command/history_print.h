/* history_print.h - one job over its snapshots, as a table, CSV or JSON. */
#ifndef PROFD_CLIENT_COMMAND_HISTORY_PRINT_H
#define PROFD_CLIENT_COMMAND_HISTORY_PRINT_H

#include "client/snapshot/series.h"
#include "client/ui/table.h"

#include <cjson/cJSON.h>

/* The label of the snapshots that are shown, unless another is named. */
#define HISTORY_LABEL "snapshot"

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
};

/* Without series prints nothing but an empty list, for programs. Of one it prints all, of several a line each. */
void history_print(const struct series *series, size_t count, const char *label, enum output_format format);

#endif
