/* line.c - see line.h. It reads the samples once. Only the intervals that a finding keeps are looked at, which are
 * the longest. No locks. */
#include "line.h"
#include "shares.h"

#include "proto/base/facts.h"

#include <stdio.h>
#include <string.h>

/* A line is named if it has so much of the time for which there are samples, %. */
#define LEAST_PERCENT 30

/* Does the time lie in an interval in which this thread was late? */
static bool is_in(const struct finding *finding, int64_t time, int64_t thread, int64_t step_thread)
{
	for (size_t i = 0; i < finding->interval_count; i++) {
		const struct finding_interval *interval = &finding->intervals[i];
		if (time >= interval->start && time < interval->end)
			return thread == (interval->thread ? interval->thread : step_thread);
	}
	return false;
}

static void gather(sqlite3 *db, const struct findings *findings, uint32_t step_thread, struct shares all[FINDINGS_MOST])
{
	sqlite3_stmt *row = NULL;
	int code = sqlite3_prepare_v2(db, SHARES_SAMPLES, -1, &row, NULL);
	while (code == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW) {
		struct share line = shares_line(row);
		for (size_t i = 0; i < findings->count; i++)
			if (is_in(&findings->items[i], sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 2),
				  step_thread))
				shares_add(&all[i], &line, sqlite3_column_int64(row, 1));
	}
	sqlite3_finalize(row);
}

static void tell(sqlite3 *db, struct finding *finding, const struct shares *lines)
{
	const struct share most = shares_most(lines);
	size_t used = strlen(finding->evidence);
	sqlite3_stmt *row = NULL;
	if (!lines->count || most.ns / (lines->ns / 100 + 1) < LEAST_PERCENT)
		return;
	if (sqlite3_prepare_v2(db, "SELECT text FROM strings WHERE id = ?1", -1, &row, NULL) != SQLITE_OK)
		return;
	sqlite3_bind_int64(row, 1, most.file);
	if (sqlite3_step(row) == SQLITE_ROW && sqlite3_column_text(row, 0)) {
		const char *path = (const char *)sqlite3_column_text(row, 0), *slash = strrchr(path, '/');
		char text[160];
		int n = snprintf(text, sizeof text, " %s%.0f %% of %s at %.80s:%lld.", used ? "" : "About ",
				 100.0 * (double)most.ns / (double)lines->ns,
				 finding->interval_total > finding->interval_count ? "its longest stretches" : "it",
				 slash ? slash + 1 : path, (long long)most.line);
		if (n > 0 && (size_t)n < sizeof text && used + (size_t)n < sizeof finding->evidence)
			text_copy(finding->evidence + used, sizeof finding->evidence - used, text + !used);
	}
	sqlite3_finalize(row);
}

void findings_line(sqlite3 *db, uint32_t step_thread, struct findings *findings)
{
	struct shares all[FINDINGS_MOST] = {0};
	if (!findings->count)
		return;
	gather(db, findings, step_thread, all);
	/* The intervals of a finding that lies within others are whole steps, and a line of whole steps says nothing
	 * about it. */
	for (size_t i = 0; i < findings->count; i++)
		if (!(finding_facts(findings->items[i].kind)->flags & FINDING_WITHIN))
			tell(db, &findings->items[i], &all[i]);
}
