/* report.h - the tables that show what a capture holds, a file each. All read the finished capture file; what they show
 * of a single step is told by the options. The tables are the caller's to free. */
#ifndef PROFD_CLIENT_REPORT_REPORT_H
#define PROFD_CLIENT_REPORT_REPORT_H

#include "client/reader/reader.h"
#include "client/ui/table.h"

#include <cjson/cJSON.h>

struct report_options {
	const char *sort_by; /* one of torch.profiler's keys; NULL: the table's own default */
	int64_t step;	     /* ordinal; 0 = all */
	bool shapes;	     /* operators: tell input shapes apart */
};

/* What a query's WHERE needs to show one step alone: parameter 1 is report_options.step. */
#define REPORT_STEP " (?1 = 0 OR step = ?1) "
/* Sums of calls over rows of which some may be of operations that CUPTI had no times for: these are in the calls only. */
#define REPORT_TIMED_TOTAL "CASE WHEN count(\"max\") THEN sum(total) END"
#define REPORT_TIMED_CALLS "nullif(sum(CASE WHEN \"max\" IS NOT NULL THEN calls END), 0)"
/* ns that the devices worked: all operations, as torch.profiler's "Self CUDA time total" counts them. */
#define REPORT_DEVICE_TIME                                                                                             \
	"(SELECT sum(total) FROM (SELECT step, total FROM kernel_totals UNION ALL SELECT step, total FROM "            \
	"copy_totals UNION ALL SELECT step, total FROM set_totals UNION ALL SELECT step, total FROM graph_totals) "    \
	"WHERE" REPORT_STEP ")"

/* The operators that are one call with their parent, by the rule that derive folds by (store/fold.h): pairs of one name on
 * one thread, less those of parents that have another child, ranges included. `from`: a table of operators that has all
 * that matter. Flag 2 is EVENT_FLAG_ASYNC, source 2 a range on no stack; "+" keeps the search for a parent on its id. */
#define REPORT_FOLDED(from)                                                                                            \
	"pair AS MATERIALIZED (SELECT c.id AS id, c.parent AS parent, c.self AS self, c.thread AS thread, c.step AS "  \
	"step FROM " from " c JOIN " from " p ON p.id = c.parent WHERE +p.name = +c.name AND +p.thread = +c.thread "   \
	"AND c.id IS NOT NULL AND NOT (c.flags | p.flags) & 2), "                                                      \
	"crowd AS MATERIALIZED (SELECT parent FROM (SELECT parent FROM operators WHERE parent IN (SELECT parent FROM " \
	"pair) AND NOT flags & 2 UNION ALL SELECT parent FROM ranges WHERE parent IN (SELECT parent FROM pair) AND "   \
	"NOT flags & 2 AND source <> 2) GROUP BY parent HAVING count(*) > 1), "                                        \
	"folded AS MATERIALIZED (SELECT id, parent, self, thread, step FROM pair WHERE parent NOT IN (SELECT parent "  \
	"FROM crowd))"

struct table *report_totals(const struct reader *reader, const struct report_options *options);
struct table *report_steps(const struct reader *reader, const struct report_options *options);
struct table *report_operators(const struct reader *reader, const struct report_options *options);
struct table *report_ranges(const struct reader *reader, const struct report_options *options);
struct table *report_threads(const struct reader *reader, const struct report_options *options);
/* The device side: without rows where report_device_ran() says no. */
struct table *report_kernels(const struct reader *reader, const struct report_options *options);
struct table *report_copies(const struct reader *reader, const struct report_options *options);
struct table *report_sets(const struct reader *reader, const struct report_options *options);
struct table *report_graphs(const struct reader *reader, const struct report_options *options);
struct table *report_api(const struct reader *reader, const struct report_options *options);
struct table *report_syncs(const struct reader *reader, const struct report_options *options);
struct table *report_streams(const struct reader *reader, const struct report_options *options);
struct table *report_devices(const struct reader *reader, const struct report_options *options);
struct table *report_memory(const struct reader *reader, const struct report_options *options);
struct table *report_sessions(const struct reader *reader, const struct report_options *options);
struct table *report_losses(const struct reader *reader);
struct table *report_collectors(const struct reader *reader);
/* One row. `summary`, where there is one, knows the step time after the capture. */
#define REPORT_COST_NOTE                                                                                               \
	"  late steps: by how many the recording began later than asked,\n"                                            \
	"  because not all of it was switched on in time"
struct table *report_cost(const struct reader *reader, const cJSON *summary);
/* The same from the summary alone. */
struct table *report_cost_summary(const cJSON *summary);
/* The rows of a summary, with the shares that the tables of the file have. wall: ns of all recorded steps together; 0 = not
 * known. */
struct table *report_operators_summary(const cJSON *summary);
struct table *report_ranges_summary(const cJSON *summary, int64_t wall);
/* Self time of all operators; -1: the summary does not tell. ns */
int64_t report_self_cpu_summary(const cJSON *summary);
struct table *report_steps_summary(const cJSON *summary);
struct table *report_losses_summary(const cJSON *summary);

/* Of the device side; without rows where the summary knows none. */
struct table *report_kernels_summary(const cJSON *summary);
struct table *report_copies_summary(const cJSON *summary);

/* Did this collector of the device side run in the capture, and does the file have its tables? Files of schema 1 do not. */
bool report_device_ran(const struct reader *reader, const char *collector);
/* The same of cupti. */
bool report_gpu(const struct reader *reader);
/* Was a device simulated? */
bool report_simulated(const struct reader *reader);
/* Did CUPTI refuse to record all of these? kinds: a bit each, enum activity. */
bool report_refused(const struct reader *reader, int64_t kinds);
#define REPORT_COPIES (1ll << ACTIVITY_COPY)
#define REPORT_SETS (1ll << ACTIVITY_SET)
/* Bits of enum session_option of how CUPTI was used; 0 where it was not. */
int64_t report_session_options(const struct reader *reader);
/* Sums of all operators' self time on the host, and of all that the devices did; -1: not recorded. ns */
int64_t report_self_cpu_total(const struct reader *reader, const struct report_options *options);
int64_t report_device_total(const struct reader *reader, const struct report_options *options);
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
/* How busy the devices were in one of a summary's steps, or (NULL) in those that it lists: percent of the wall time times
 * the number of devices; -1: not recorded. */
double report_busy_percent(const cJSON *summary, const cJSON *only);
/* Tells a table of a summary's first rows how many there are in all. */
void report_whole(struct table *table, const cJSON *summary, const char *key);

/* One of torch.profiler's sort keys, with device_ where it may say cuda_, and what it means in a table's SQL. */
struct report_key {
	const char *key, *sql;
};
/* The SQL of a key; that of the first of `keys` where the table has none such, or `key` is NULL. */
const char *report_order(const struct report_key *keys, size_t count, const char *key);
/* Does a key sort by times of the device? */
bool report_key_is_device(const char *key);

/* A table that one query makes. */
struct report_shape {
	const struct column *columns;
	size_t count;
	const struct report_key *keys;
	size_t key_count;
	const char *ties;      /* what orders rows that the key leaves equal; without keys: all of the order */
	const char *collector; /* of the device side: without rows where it did not run; NULL: always there */
	void (*finish)(struct table *table, sqlite3_stmt *row); /* puts the newest row right; NULL: nothing to do */
};
/* The rows of `sql` (without its order), whose result columns are those of the table, in their order; parameter 1, where
 * it has one, is the step. */
struct table *report_query(const struct reader *reader, const struct report_options *options,
			   const struct report_shape *shape, const char *sql);
/* A table of a summary's list `key`, which tells how many there are in all where the list has but the first. Where `whole`
 * (ns) is known, the column after `shared` shows the share of it that `shared` is. */
struct table *report_summary(const struct column *columns, size_t count, const cJSON *summary, const char *key,
			     size_t shared, int64_t whole);
/* A cell from a result column: integer, text, or empty for NULL. */
void report_cell(struct table *table, size_t column, sqlite3_stmt *statement, int from);

#endif
