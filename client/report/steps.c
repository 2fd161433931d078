/* steps.c - a row for each recorded step. Each step has a set of the collectors that were on; figures of other
 * collectors were not recorded in it. */
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "proto/events.h"
#include "store/breakdown/thread_times.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

enum {
	S_STEP,
	S_NUMBER,
	S_START,
	S_WALL,
	S_BUSY,
	S_BUSY_SHARE,
	S_KERNELS,
	S_COPIES,
	S_SETS,
	S_GRAPHS,
	S_GAP,
	S_OPERATORS,
	S_SELF,
	S_RANGES,
	S_THREAD,
	S_CPU,
	S_CPU_ERROR,
	S_WAITED,
	S_VOLUNTARY,
	S_INVOLUNTARY,
	S_EVALUATION,
	S_COMPILE,
	S_GARBAGE,
	S_COLLECTIONS_0,
	S_COLLECTIONS_1,
	S_COLLECTIONS_2,
	S_COLLECTED,
	S_FULL,
	S_COUNT,
	/* Columns of the query only. */
	S_COLLECTORS = S_COUNT,
	S_SOURCE
};

static const struct column columns[] = {
	[S_STEP] = {"step", "STEP", COLUMN_NUMBER, 0},
	[S_NUMBER] = {"number", "NUMBER", COLUMN_NUMBER, 0},
	[S_START] = {"start_ns", "START", COLUMN_DURATION, COLUMN_DATA_ONLY},
	[S_WALL] = {"wall_ns", "WALL", COLUMN_DURATION, 0},
	[S_BUSY] = {"device_busy_ns", "DEVICE BUSY", COLUMN_DURATION, COLUMN_OPTIONAL},
	[S_BUSY_SHARE] = {"device_busy_percent", "BUSY %", COLUMN_PERCENT, COLUMN_OPTIONAL},
	[S_KERNELS] = {"kernels", "KERNELS", COLUMN_COUNT, COLUMN_OPTIONAL},
	[S_COPIES] = {"copies", "COPIES", COLUMN_COUNT, COLUMN_OPTIONAL},
	[S_SETS] = {"sets", "MEMSETS", COLUMN_COUNT, COLUMN_OPTIONAL | COLUMN_SPARE},
	[S_GRAPHS] = {"graphs", "GRAPHS", COLUMN_COUNT, COLUMN_OPTIONAL | COLUMN_SPARE},
	[S_GAP] = {"largest_gap_ns", "LARGEST GAP", COLUMN_DURATION, COLUMN_OPTIONAL},
	[S_OPERATORS] = {"operators", "OPERATORS", COLUMN_COUNT, COLUMN_SPARE},
	[S_SELF] = {"self_cpu_ns", "SELF CPU", COLUMN_DURATION, COLUMN_SPARE},
	[S_RANGES] = {"ranges", "RANGES", COLUMN_COUNT, COLUMN_SPARE},
	[S_THREAD] = {"thread", "THREAD", COLUMN_NUMBER, COLUMN_SPARE},
	[S_CPU] = {"thread_cpu_ns", "THREAD RAN", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
	[S_CPU_ERROR] = {"thread_cpu_error_ns", "", COLUMN_DURATION, COLUMN_DATA_ONLY},
	[S_WAITED] = {"thread_waited_ns", "WAITED", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
	[S_VOLUNTARY] = {"voluntary_switches", "SLEPT", COLUMN_COUNT, COLUMN_OPTIONAL | COLUMN_SPARE},
	[S_INVOLUNTARY] = {"involuntary_switches", "", COLUMN_COUNT, COLUMN_DATA_ONLY},
	[S_EVALUATION] = {"evaluation_ns", "EVALUATION", COLUMN_DURATION, COLUMN_OPTIONAL},
	[S_COMPILE] = {"compile_ns", "COMPILATION", COLUMN_DURATION, COLUMN_OPTIONAL},
	[S_GARBAGE] = {"garbage_ns", "GC", COLUMN_DURATION, COLUMN_OPTIONAL},
	[S_COLLECTIONS_0] = {"collections_0", "", COLUMN_COUNT, COLUMN_DATA_ONLY},
	[S_COLLECTIONS_1] = {"collections_1", "", COLUMN_COUNT, COLUMN_DATA_ONLY},
	[S_COLLECTIONS_2] = {"collections_2", "", COLUMN_COUNT, COLUMN_DATA_ONLY},
	[S_COLLECTED] = {"collected", "", COLUMN_COUNT, COLUMN_DATA_ONLY},
	/* In the table only if there are any: most captures have none. */
	[S_FULL] = {"full_collections", "FULL GC", COLUMN_COUNT, COLUMN_TABLE_ONLY | COLUMN_OPTIONAL},
};

/* Over all devices that the process used during the recording: their busy times added up, as a share of their whole
 * time. */
#define DEVICES                                                                                                        \
	"SELECT step, sum(busy) AS busy, sum(kernels) AS kernels, sum(copies) AS copies, sum(sets) AS sets, "          \
	"sum(graphs) AS graphs, max(gap) AS gap FROM step_devices WHERE stream = -1 GROUP BY step"
#define DEVICE_COUNT "(SELECT max(count(DISTINCT device), 1) FROM step_devices)"
#define NO_DEVICES                                                                                                     \
	"SELECT NULL AS step, NULL AS busy, NULL AS kernels, NULL AS copies, NULL AS sets, NULL AS graphs, NULL AS "   \
	"gap"

/* For a step without compilations: 0. NULL: it has some, and it is not known whether they were in the step's thread. */
#define UNKNOWN_COMPILES "CASE WHEN EXISTS (SELECT 1 FROM compile_events x WHERE x.step = s.step) THEN NULL ELSE 0 END"

/* How much processor time the newest row's thread used. The agent only looks at the thread of the steps. */
static void add_use(struct table *table, const struct reader *reader, struct thread_times *times, sqlite3_stmt *row)
{
	int64_t start = sqlite3_column_int64(row, S_START), end;
	struct thread_use use;

	if (!times->looks && !thread_times_load(reader->db, sqlite3_column_int64(row, S_THREAD), times))
		report_damaged(reader);
	if (__builtin_add_overflow(start, sqlite3_column_int64(row, S_WALL), &end) ||
	    !thread_times_between(times, start, end, &use)) {
		for (size_t c = S_CPU; c <= S_INVOLUNTARY; c++)
			table_set_absent(table, c);
		return;
	}
	table_set(table, S_CPU, use.ran);
	table_set(table, S_CPU_ERROR, use.error);
	table_set(table, S_WAITED, use.waited);
	table_set(table, S_VOLUNTARY, use.voluntary);
	table_set(table, S_INVOLUNTARY, use.involuntary);
}

#define COUNT(column) "iif(s.collections_known, s." column ", NULL)"
#define COLLECTIONS                                                                                                    \
	COUNT("collections_0")                                                                                         \
	", " COUNT("collections_1") ", " COUNT("collections_2") ", " COUNT(                                            \
		"collected") ", iif(s.collections_known, nullif(s.collections_2, 0), NULL)"
#define NO_COLLECTIONS "NULL, NULL, NULL, NULL, NULL"

/* Files that were written before collections were counted lack the columns. */
static bool counts_collections(const struct reader *reader)
{
	sqlite3_stmt *statement = report_prepare(reader, "SELECT * FROM steps LIMIT 0");
	bool found = false;

	for (int i = 0; i < sqlite3_column_count(statement); i++)
		found |= strcmp(sqlite3_column_name(statement, i), "collections_known") == 0;
	while (report_next(reader, statement))
		;
	return found;
}

struct table *report_steps(const struct reader *reader, const struct report_options *options)
{
	struct table *table = table_new(columns, S_COUNT);
	bool gpu = report_gpu(reader), evaluates = report_evaluates(reader),
	     compiles = report_compiles_in_steps(reader), collects = report_collects_in_steps(reader);
	bool listed = compiles && report_ran(reader, "compile");
	bool ranges = report_filled(reader, FILLS_RANGES);
	bool copies = !report_refused(reader, REPORT_COPIES), sets = !report_refused(reader, REPORT_SETS);
	bool graphs = gpu && report_session_options(reader) & SESSION_GRAPHS_WHOLE;
	char sql[4096];
	sqlite3_stmt *statement;
	struct thread_times times = {0};

	snprintf(
		sql, sizeof sql,
		"SELECT s.step, s.number, s.start, s.duration, coalesce(d.busy, 0), coalesce(d.busy, 0) * 100.0 / "
		"nullif(s.duration * %s, 0), coalesce(d.kernels, 0), coalesce(d.copies, 0), coalesce(d.sets, 0), "
		"coalesce(d.graphs, 0), d.gap, coalesce(o.calls, 0), coalesce(o.self, 0), coalesce(r.calls, 0), "
		"s.thread, NULL, NULL, NULL, NULL, NULL, CASE WHEN %d THEN coalesce(e.ns, 0) END, CASE WHEN %d THEN coalesce(c.ns, %s) END, CASE WHEN %s THEN coalesce(g.ns, 0) END, %s, s.collectors, s.source FROM steps s LEFT JOIN (%s) d ON d.step = s.step "
		"LEFT JOIN (SELECT step, sum(calls) AS calls, sum(self) AS self FROM operator_totals GROUP BY step) o "
		"ON o.step = s.step "
		"LEFT JOIN (SELECT step, sum(calls) AS calls FROM range_totals GROUP BY step) r ON r.step = s.step "
		"LEFT JOIN (%s) e ON e.step = s.step LEFT JOIN (%s) c ON c.step = s.step LEFT JOIN (%s) g ON g.step = s.step "
		"WHERE ?1 = 0 OR s.step = ?1 ORDER BY s.step",
		gpu ? DEVICE_COUNT : "1", evaluates, compiles, listed ? UNKNOWN_COMPILES : "0", collects ? "1" : "0",
		counts_collections(reader) ? COLLECTIONS : NO_COLLECTIONS, gpu ? DEVICES : NO_DEVICES,
		evaluates ? REPORT_EVALUATIONS : REPORT_NO_EVALUATIONS,
		compiles ? REPORT_COMPILATIONS : REPORT_NO_EVALUATIONS,
		collects ? REPORT_COLLECTIONS : REPORT_NO_EVALUATIONS);
	statement = report_prepare(reader, sql);
	sqlite3_bind_int64(statement, 1, options->step);
	while (report_next(reader, statement)) {
		int64_t collectors = sqlite3_column_int64(statement, S_COLLECTORS);

		table_add(table);
		for (int c = 0; c < S_COUNT; c++) {
			bool device = c >= S_BUSY && c <= S_GAP;

			if (device && !gpu)
				continue;
			/* What the host did belongs to no device: for a part by device it stays empty. */
			if (options->filter && c >= S_OPERATORS && c != S_THREAD)
				continue;
			if (c == S_GRAPHS && !graphs)
				continue;
			if ((device && !(collectors & collectors_filling(FILLS_DEVICE))) ||
			    (c == S_COPIES && !copies) || (c == S_SETS && !sets))
				table_set_absent(table, (size_t)c);
			else if (c == S_BUSY_SHARE)
				table_set_real(table, (size_t)c, sqlite3_column_double(statement, c));
			else
				report_cell(table, (size_t)c, statement, c);
		}
		if (!options->filter)
			add_use(table, reader, &times, statement);
		/* A window of time is kept as a step. It has no number in the process, and no thread ends it. */
		if (sqlite3_column_int(statement, S_SOURCE) == STEP_SOURCE_DURATION) {
			table_unset(table, S_NUMBER);
			table_unset(table, S_THREAD);
		}
		if (options->filter)
			continue;
		if (!(collectors & collectors_filling(FILLS_OPERATORS))) {
			table_set_absent(table, S_OPERATORS);
			table_set_absent(table, S_SELF);
		}
		if (!ranges || !(collectors & collectors_filling(FILLS_RANGES)))
			table_set_absent(table, S_RANGES);
	}
	thread_times_free(&times);
	return table;
}
