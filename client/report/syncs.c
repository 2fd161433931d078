/* syncs.c - waits for a device: of which kind, in which call, and in which operator or range. The correlation id
 * tells the call of a wait. The call's operator or range is the innermost one that was open on its thread when it
 * began. */
#include "ids.h"
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "client/ui/figure.h"
#include "client/ui/text.h"

#include "proto/events.h"
#include "proto/base/array.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum { S_KIND, S_OPERATOR, S_CALL, S_CALLS, S_TOTAL, S_PERCENT, S_AVERAGE, S_MIN, S_MAX, S_FAILED };

static const struct column columns[] = {
	[S_KIND] = {"kind", "WAIT", COLUMN_TEXT, 0},
	[S_OPERATOR] = {"operator", "OPERATOR", COLUMN_TEXT, COLUMN_NAME},
	[S_CALL] = {"call", "CALL", COLUMN_TEXT, COLUMN_ELASTIC},
	[S_CALLS] = {"calls", "CALLS", COLUMN_COUNT, 0},
	[S_TOTAL] = {"total_ns", "TOTAL", COLUMN_DURATION, 0},
	[S_PERCENT] = {"percent", "SHARE", COLUMN_PERCENT, COLUMN_BARRED},
	[S_AVERAGE] = {"average_ns", "AVG", COLUMN_DURATION, 0},
	[S_MIN] = {"min_ns", "MIN", COLUMN_DURATION, COLUMN_SPARE},
	[S_MAX] = {"max_ns", "MAX", COLUMN_DURATION, COLUMN_SPARE},
	[S_FAILED] = {"failed", "FAILED", COLUMN_COUNT, COLUMN_SPARE},
};

/* Time of the host, whatever the key says. */
static const struct report_key keys[] = {
	{"cpu_time_total", "total"}, {"cpu_time", "each"}, {"count", "calls"}, {"name", "name"}};

struct wait {
	int64_t kind, duration, failed;
	int64_t correlation;
	/* These are of the wait's call; thread 0: the call was not recorded. */
	int64_t thread, start, call;
	int64_t depth, within; /* of the operator or range around it: depth (-1: none), and id in `strings` */
};

struct waits {
	struct wait *list;
	size_t count, room;
};

static void load(const struct reader *reader, struct waits *waits, int64_t step)
{
	sqlite3_stmt *statement =
		report_prepare(reader, "SELECT kind, duration, result <> 0, correlation FROM syncs WHERE" REPORT_STEP);

	sqlite3_bind_int64(statement, 1, step);
	while (report_next(reader, statement)) {
		NEED_ROOM(waits->list, waits->count, waits->room);
		waits->list[waits->count++] = (struct wait){
			.kind = sqlite3_column_int64(statement, 0),
			.duration = figure_length(sqlite3_column_int64(statement, 1)),
			.failed = sqlite3_column_int64(statement, 2),
			.correlation = sqlite3_column_int64(statement, 3),
			.depth = -1,
		};
	}
}

/* The kind of wait of a call, by its name; -1: it copies, and waits for the copy. */
static int64_t kind_of(const char *call)
{
	enum { UNKNOWN, EVENT, STREAM = 3, CONTEXT };

	if (strstr(call, "Memcpy"))
		return -1;
	if (strstr(call, "Event"))
		return EVENT;
	if (strstr(call, "Stream"))
		return STREAM;
	return strstr(call, "Device") || strstr(call, "Ctx") ? CONTEXT : UNKNOWN;
}

/* If waits were not recorded: the calls that wait, by their names. A call of the driver inside a call of the runtime
 * is the same wait. */
static void load_calls(const struct reader *reader, struct waits *waits, int64_t step)
{
	sqlite3_stmt *statement = report_prepare(
		reader,
		"SELECT a.thread, a.start, a.duration, a.result <> 0, a.name, s.text FROM api_calls a JOIN strings s ON s.id = a.name WHERE "
		"a.name IN (SELECT id FROM strings WHERE text GLOB '*Synchronize*' OR text GLOB '*Memcpy*' AND text NOT GLOB "
		"'*Async*' AND text NOT GLOB '*Batch*') AND (?1 = 0 OR a.step = ?1) ORDER BY a.thread, a.start, a.duration DESC");
	int64_t thread = 0, end = INT64_MIN;

	sqlite3_bind_int64(statement, 1, step);
	while (report_next(reader, statement)) {
		int64_t of = sqlite3_column_int64(statement, 0),
			start = figure_time(sqlite3_column_int64(statement, 1));
		int64_t duration = figure_length(sqlite3_column_int64(statement, 2));

		if (of == thread && start < end)
			continue;
		thread = of;
		end = start + duration;
		NEED_ROOM(waits->list, waits->count, waits->room);
		waits->list[waits->count++] = (struct wait){
			.kind = kind_of((const char *)sqlite3_column_text(statement, 5)),
			.duration = duration,
			.failed = sqlite3_column_int64(statement, 3),
			.thread = thread,
			.start = start,
			.call = sqlite3_column_int64(statement, 4),
			.depth = -1,
		};
	}
}

/* A correlation id belongs to one call. */
static void find_calls(const struct reader *reader, struct waits *waits)
{
	sqlite3_stmt *statement;
	struct ids calls = {0}; /* correlation -> 1 + place of the last wait with it */
	size_t *same = need(calloc(waits->count + 1, sizeof *same));

	for (size_t i = 0; i < waits->count; i++) {
		struct id_entry *entry = ids_make(&calls, waits->list[i].correlation);

		same[i] = (size_t)entry->value;
		entry->value = (int64_t)i + 1;
	}
	statement =
		report_prepare(reader, "SELECT correlation, thread, start, name FROM api_calls WHERE correlation <> 0");
	while (report_next(reader, statement)) {
		const struct id_entry *entry = ids_find(&calls, sqlite3_column_int64(statement, 0));

		for (size_t at = entry ? (size_t)entry->value : 0; at; at = same[at - 1]) {
			waits->list[at - 1].thread = sqlite3_column_int64(statement, 1);
			waits->list[at - 1].start = sqlite3_column_int64(statement, 2);
			waits->list[at - 1].call = sqlite3_column_int64(statement, 3);
		}
	}
	free(same);
	ids_free(&calls);
}

static int by_place(const void *a, const void *b)
{
	const struct wait *one = a, *other = b;

	return ORDER(one->thread, other->thread) ?: ORDER(one->start, other->start);
}

/* The index of the thread's first wait that begins at this time or later. Waits are sorted. */
static size_t first_from(const struct waits *waits, int64_t thread, int64_t start)
{
	return ARRAY_BEFORE(waits->count, middle,
			    waits->list[middle].thread < thread ||
				    (waits->list[middle].thread == thread && waits->list[middle].start < start));
}

/* The deepest one is the innermost. */
static void take_operator(void *context, sqlite3_value **row)
{
	struct waits *waits = context;
	int64_t thread = int_of(row[1]), start = figure_time(int_of(row[2]));
	int64_t end = start + figure_length(int_of(row[3])), depth = int_of(row[0]);

	for (size_t i = first_from(waits, thread, start);
	     i < waits->count && waits->list[i].thread == thread && waits->list[i].start < end; i++)
		if (depth > waits->list[i].depth) {
			waits->list[i].depth = depth;
			waits->list[i].within = int_of(row[4]);
		}
}

#define CALLED(table) "SELECT count(profd_row(depth, thread, start, duration, name)) FROM " table " WHERE NOT flags & 2"

struct row {
	int64_t kind, within, call;
	int64_t calls, total, least, most, failed;
	char *within_text, *call_text;
};

static int by_row(const void *a, const void *b)
{
	const struct wait *one = a, *other = b;

	return ORDER(one->kind, other->kind) ?: ORDER(one->within, other->within) ?: ORDER(one->call, other->call);
}

static const char *sorted_by;

static int by_weight(const void *a, const void *b)
{
	const struct row *one = a, *other = b;
	bool each = strcmp(sorted_by, "each") == 0, calls = strcmp(sorted_by, "calls") == 0;
	int64_t left = calls ? one->calls : each ? one->total / one->calls : one->total;
	int64_t right = calls ? other->calls : each ? other->total / other->calls : other->total;

	if (strcmp(sorted_by, "name") != 0 && left != right)
		return left > right ? -1 : 1;
	if (one->kind != other->kind)
		return one->kind < other->kind ? -1 : 1;
	return strcmp(one->within_text, other->within_text) ? strcmp(one->within_text, other->within_text)
							    : strcmp(one->call_text, other->call_text);
}

static char *string(sqlite3_stmt *strings, int64_t id)
{
	char *text;

	sqlite3_bind_int64(strings, 1, id);
	text = id && sqlite3_step(strings) == SQLITE_ROW && sqlite3_column_bytes(strings, 0)
		       ? need(strdup((const char *)sqlite3_column_text(strings, 0)))
		       : need(strdup(""));
	sqlite3_reset(strings);
	return text;
}

static size_t add_up(const struct waits *waits, struct row *rows)
{
	size_t count = 0;

	for (size_t i = 0; i < waits->count; i++) {
		const struct wait *wait = &waits->list[i];

		if (!i || by_row(wait - 1, wait) != 0)
			rows[count++] = (struct row){.kind = wait->kind,
						     .within = wait->within,
						     .call = wait->call,
						     .least = wait->duration,
						     .most = wait->duration};
		struct row *row = &rows[count - 1];
		row->calls++;
		figure_add(&row->total, wait->duration);
		row->failed += wait->failed;
		row->least = wait->duration < row->least ? wait->duration : row->least;
		row->most = wait->duration > row->most ? wait->duration : row->most;
	}
	return count;
}

static void put(struct table *table, const struct row *row, int64_t whole)
{
	const char *word = row->kind < 0 ? "Blocking copy" : sync_kind_word((unsigned)row->kind);

	table_add(table);
	table_set_text(table, S_KIND, word ? word : "Unknown");
	table_set_text(table, S_OPERATOR, *row->within_text ? row->within_text : NULL);
	table_set_text(table, S_CALL, *row->call_text ? row->call_text : NULL);
	table_set(table, S_CALLS, row->calls);
	table_set(table, S_TOTAL, row->total);
	if (whole > 0)
		table_set_real(table, S_PERCENT, (double)row->total * 100 / (double)whole);
	table_set(table, S_AVERAGE, row->total / row->calls);
	table_set(table, S_MIN, row->least);
	table_set(table, S_MAX, row->most);
	table_set(table, S_FAILED, row->failed);
}

static void fill(const struct reader *reader, struct table *table, struct row *rows, size_t count,
		 const struct report_options *options)
{
	sqlite3_stmt *strings = report_prepare(reader, "SELECT text FROM strings WHERE id = ?1");
	int64_t whole = 0;

	for (size_t i = 0; i < count; i++) {
		rows[i].within_text = string(strings, rows[i].within);
		rows[i].call_text = string(strings, rows[i].call);
		figure_add(&whole, rows[i].total);
	}
	sqlite3_finalize(strings);
	sorted_by = report_order(keys, sizeof keys / sizeof *keys, options->sort_by);
	qsort(rows, count, sizeof *rows, by_weight);
	for (size_t i = 0; i < count; i++) {
		put(table, &rows[i], whole);
		free(rows[i].within_text);
		free(rows[i].call_text);
	}
}

struct table *report_syncs(const struct reader *reader, const struct report_options *options)
{
	struct table *table = table_new(COUNTED(columns));
	struct waits waits = {0};
	struct row *rows;

	if (!report_gpu(reader))
		return table;
	bool stand_in = report_refused(reader, REPORT_SYNCS);

	if (stand_in)
		load_calls(reader, &waits, options->step);
	else
		load(reader, &waits, options->step);
	rows = need(calloc(waits.count + 1, sizeof *rows));
	if (waits.count) {
		if (!stand_in)
			find_calls(reader, &waits);
		qsort(waits.list, waits.count, sizeof *waits.list, by_place);
		report_scan(reader, CALLED("operators"), 0, take_operator, &waits);
		report_scan(reader, CALLED("ranges"), 0, take_operator, &waits);
		qsort(waits.list, waits.count, sizeof *waits.list, by_row);
		fill(reader, table, rows, add_up(&waits, rows), options);
	}
	if (stand_in)
		table_note(table, "  waits were not recorded: these are the calls that wait, by their names");
	free(rows);
	free(waits.list);
	return table;
}
