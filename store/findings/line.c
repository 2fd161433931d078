/* line.c - see line.h. The samples are read once; a finding's intervals are those that it keeps, the longest. No
 * locks. */
#include "line.h"

#include "proto/base/facts.h"

#include <stdio.h>
#include <string.h>

/* Lines of a finding that are told apart: the time of others counts, and they are not named. */
#define LINES 64
/* A line is named where it has so much of the time in which samples were taken, %. */
#define LEAST_PERCENT 30

struct line {
	int64_t file, number, ns;
};

struct lines {
	struct line list[LINES];
	size_t count;
	int64_t ns; /* of all */
};

/* Is it in one of the intervals, and of the thread that was late there? */
static bool is_in(const struct finding *finding, int64_t time, int64_t thread, int64_t step_thread)
{
	for (size_t i = 0; i < finding->interval_count; i++) {
		const struct finding_interval *interval = &finding->intervals[i];
		if (time >= interval->start && time < interval->end)
			return thread == (interval->thread ? interval->thread : step_thread);
	}
	return false;
}

static void count(struct lines *lines, int64_t file, int64_t number, int64_t ns)
{
	size_t i = 0;
	/* What a hostile file says is longer than any capture adds nothing up. */
	if (ns < 0 || ns > INT64_MAX / 4 - lines->ns)
		return;
	lines->ns += ns;
	while (i < lines->count && (lines->list[i].file != file || lines->list[i].number != number))
		i++;
	if (i == LINES)
		return;
	if (i == lines->count)
		lines->list[lines->count++] = (struct line){.file = file, .number = number};
	lines->list[i].ns += ns;
}

static void gather(sqlite3 *db, const struct findings *findings, uint32_t step_thread, struct lines all[FINDINGS_MOST])
{
	sqlite3_stmt *row = NULL;
	int code = sqlite3_prepare_v2(
		db,
		"SELECT s.time, s.thread, s.duration, f.file, f.line FROM samples s JOIN "
		"stack_lines l ON l.stack = s.stack JOIN stacks f ON f.id = l.frame WHERE f.file IS NOT NULL",
		-1, &row, NULL);
	while (code == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW)
		for (size_t i = 0; i < findings->count; i++)
			if (is_in(&findings->items[i], sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1),
				  step_thread))
				count(&all[i], sqlite3_column_int64(row, 3), sqlite3_column_int64(row, 4),
				      sqlite3_column_int64(row, 2));
	sqlite3_finalize(row);
}

static void tell(sqlite3 *db, struct finding *finding, const struct lines *lines)
{
	const struct line *most = &lines->list[0];
	size_t used = strlen(finding->evidence);
	sqlite3_stmt *row = NULL;
	for (size_t i = 1; i < lines->count; i++)
		most = lines->list[i].ns > most->ns ? &lines->list[i] : most;
	if (!lines->count || most->ns / (lines->ns / 100 + 1) < LEAST_PERCENT)
		return;
	if (sqlite3_prepare_v2(db, "SELECT text FROM strings WHERE id = ?1", -1, &row, NULL) != SQLITE_OK)
		return;
	sqlite3_bind_int64(row, 1, most->file);
	if (sqlite3_step(row) == SQLITE_ROW && sqlite3_column_text(row, 0)) {
		const char *path = (const char *)sqlite3_column_text(row, 0), *slash = strrchr(path, '/');
		char text[160];
		int n = snprintf(text, sizeof text, " %s%.0f %% of %s at %.80s:%lld.", used ? "" : "About ",
				 100.0 * (double)most->ns / (double)lines->ns,
				 finding->interval_total > finding->interval_count ? "its longest stretches" : "it",
				 slash ? slash + 1 : path, (long long)most->number);
		if (n > 0 && (size_t)n < sizeof text && used + (size_t)n < sizeof finding->evidence)
			text_copy(finding->evidence + used, sizeof finding->evidence - used, text + !used);
	}
	sqlite3_finalize(row);
}

void findings_line(sqlite3 *db, uint32_t step_thread, struct findings *findings)
{
	struct lines all[FINDINGS_MOST] = {0};
	if (!findings->count)
		return;
	gather(db, findings, step_thread, all);
	/* A finding that lies within others has whole steps as intervals. A line of whole steps says nothing about it. */
	for (size_t i = 0; i < findings->count; i++)
		if (!(finding_facts(findings->items[i].kind)->flags & FINDING_WITHIN))
			tell(db, &findings->items[i], &all[i]);
}
