/* in_flight.c - see in_flight.h. A thread that waits for such an operation is in no operator of torch (DDP waits at
 * the end of the backward, wait() anywhere). No record tells such a wait from Python that runs meanwhile. No locks. */
#include "in_flight.h"

#include <stdio.h>
#include <string.h>

/* A smaller part is not told. */
#define LEAST_PERCENT 30
#define MOSTLY_PERCENT 70

static bool is_outside(const struct finding *finding)
{
	return finding->device < 0 && (finding->kind == FINDING_STALL || finding->kind == FINDING_OUTSIDE);
}

/* ns that the finding's intervals share with [start, end). */
static double within(const struct finding *finding, int64_t start, int64_t end)
{
	double sum = 0;
	for (size_t i = 0; i < finding->interval_count; i++) {
		int64_t from = finding->intervals[i].start > start ? finding->intervals[i].start : start;
		int64_t to = finding->intervals[i].end < end ? finding->intervals[i].end : end;
		sum += to > from ? (double)to - (double)from : 0;
	}
	return sum;
}

static void tell(struct finding *finding, double in_flight)
{
	double all = within(finding, INT64_MIN, INT64_MAX), percent = all > 0 ? in_flight * 100 / all : 0;
	size_t used = strlen(finding->evidence);
	if (percent < LEAST_PERCENT)
		return;
	snprintf(finding->evidence + used, sizeof finding->evidence - used,
		 "%sFor %.0f %% of %s collective operations were in flight.", used ? " " : "", percent,
		 finding->interval_total > finding->interval_count ? "its longest stretches" : "it");
	used = strlen(finding->advice);
	if (percent >= MOSTLY_PERCENT)
		snprintf(finding->advice, sizeof finding->advice,
			 "It may wait for other ranks: record all of them together, and see `profd ranks`.");
	else
		snprintf(finding->advice + used, sizeof finding->advice - used,
			 " A part of it may be a wait for other ranks: `profd ranks` tells.");
}

/* Operations that overlap are joined, so that no time counts twice. */
#define IN_FLIGHT_SQL "SELECT start, ended FROM collectives WHERE device = 0 AND ended > start ORDER BY start"

void findings_in_flight(sqlite3 *db, struct findings *findings)
{
	double in_flight[FINDINGS_MOST] = {0};
	sqlite3_stmt *row = NULL;
	bool any = false;
	for (size_t i = 0; i < findings->count; i++)
		any = any || is_outside(&findings->items[i]);
	/* A file of an older release lacks the table. */
	if (!any || sqlite3_prepare_v2(db, IN_FLIGHT_SQL, -1, &row, NULL) != SQLITE_OK)
		return;
	int64_t until = INT64_MIN;
	while (sqlite3_step(row) == SQLITE_ROW) {
		int64_t start = sqlite3_column_int64(row, 0), end = sqlite3_column_int64(row, 1);
		if (start < until)
			start = until;
		for (size_t i = 0; i < findings->count && start < end; i++)
			if (is_outside(&findings->items[i]))
				in_flight[i] += within(&findings->items[i], start, end);
		until = end > until ? end : until;
	}
	sqlite3_finalize(row);
	for (size_t i = 0; i < findings->count; i++)
		if (is_outside(&findings->items[i]))
			tell(&findings->items[i], in_flight[i]);
}
