/* report.h - the tables that show what a capture holds, a file each. All read the finished capture file; what they show
 * of a single step is told by the options. The tables are the caller's to free. */
#ifndef PROFD_CLIENT_REPORT_H
#define PROFD_CLIENT_REPORT_H

#include "../reader.h"
#include "../table.h"

#include <cjson/cJSON.h>

struct report_options {
	const char *sort_by; /* one of torch.profiler's keys; NULL: the table's own default */
	int64_t step;	     /* ordinal; 0 = all */
	bool shapes;	     /* operators: tell input shapes apart */
};

struct table *report_totals(const struct reader *reader, const struct report_options *options);
struct table *report_steps(const struct reader *reader, const struct report_options *options);
struct table *report_operators(const struct reader *reader, const struct report_options *options);
struct table *report_ranges(const struct reader *reader, const struct report_options *options);
struct table *report_threads(const struct reader *reader, const struct report_options *options);
struct table *report_losses(const struct reader *reader);
struct table *report_collectors(const struct reader *reader);
/* One row. `summary`, where there is one, knows the step time after the capture. */
struct table *report_cost(const struct reader *reader, const cJSON *summary);
/* The same from the summary alone. */
struct table *report_cost_summary(const cJSON *summary);
/* The rows of a summary. wall: ns of all recorded steps together, for the share of each; 0 = not known. */
struct table *report_operators_summary(const cJSON *summary, int64_t wall);
struct table *report_ranges_summary(const cJSON *summary, int64_t wall);
struct table *report_steps_summary(const cJSON *summary);
struct table *report_losses_summary(const cJSON *summary);

/* Did this collector run in the capture? */
bool report_ran(const struct reader *reader, const char *collector);
/* Its own sentence: what it recorded, or why it did not. To be freed. */
char *report_sentence(const struct reader *reader, const char *collector);
/* The step that a user means: an ordinal, or else the process's own number. 0 = there is none such. */
int64_t report_step(const struct reader *reader, int64_t wanted);
/* How many steps were recorded. */
int64_t report_step_count(const struct reader *reader);

/* A prepared statement, or the end of the program with a sentence: the schema was checked when the file was opened, so
 * that only a damaged file comes here. */
sqlite3_stmt *report_prepare(const struct reader *reader, const char *sql);
/* sqlite3_step: true while there are rows; ends the program as above on an error; finalizes at the end. */
bool report_next(const struct reader *reader, sqlite3_stmt *statement);
/* Tells a table of a summary's first rows how many there are in all. */
void report_whole(struct table *table, const cJSON *summary, const char *key);
/* A cell from a result column: integer, text, or empty for NULL. */
void report_cell(struct table *table, size_t column, sqlite3_stmt *statement, int from);

#endif
