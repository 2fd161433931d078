/* launches.c - which operator and call launched which operation, and how long that took to get to the device. All
 * operations are read, whatever part is shown: an operation before another one in its stream may be outside of the
 * part. */
#include "filter.h"
#include "proto/base/array.h"
#include "ids.h"
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "client/ui/figure.h"
#include "client/ui/text.h"

#include "proto/events.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { L_OPERATOR, L_CALL, L_NAME, L_CALLS, L_CALL_NS, L_DELAY, L_DELAY_MAX, L_QUEUE, L_AVERAGE, L_TOTAL, L_PERCENT };

static const struct column columns[] = {
	[L_OPERATOR] = {"operator", "OPERATOR", COLUMN_TEXT, COLUMN_NAME},
	[L_CALL] = {"call", "CALL", COLUMN_TEXT, COLUMN_SPARE},
	[L_NAME] = {"name", "ON THE DEVICE", COLUMN_TEXT, COLUMN_NAME},
	[L_CALLS] = {"calls", "CALLS", COLUMN_COUNT, 0},
	[L_CALL_NS] = {"call_average_ns", "CALL TOOK", COLUMN_DURATION, COLUMN_SPARE},
	[L_DELAY] = {"delay_average_ns", "DELAY", COLUMN_DURATION, 0},
	[L_DELAY_MAX] = {"delay_max_ns", "LONGEST", COLUMN_DURATION, COLUMN_SPARE},
	[L_QUEUE] = {"queue_average_ns", "IN QUEUE", COLUMN_DURATION, 0},
	[L_AVERAGE] = {"average_ns", "RAN", COLUMN_DURATION, 0},
	[L_TOTAL] = {"total_ns", "TOTAL", COLUMN_DURATION, COLUMN_SPARE},
	[L_PERCENT] = {"percent", "DEVICE %", COLUMN_PERCENT, COLUMN_SPARE | COLUMN_BARRED},
};

/* The key also says what is added up; see order(). */
static const struct report_key keys[] = {
	{"device_time_total", "total"}, {"device_time", "each"}, {"cpu_time_total", "delay"},
	{"cpu_time", "delay each"},	{"count", "calls"},	 {"name", "name"},
};

/* The name of an operation: for kernels an id in `strings`, for copies and sets their kinds of memory. */
enum kind { KERNEL, COPY, SET, GRAPH };

struct operation {
	int64_t start, end, device, stream, step;
	int64_t call_start, call_time; /* INT64_MIN: the call was not recorded */
	int64_t range;		       /* id of the innermost range or operator; 0: none */
	int64_t call;		       /* id in `strings` */
	int64_t name;
	enum kind kind;
	bool launched; /* it is in the part that is shown */
};

struct operations {
	struct operation *list;
	size_t count, room;
};

struct row {
	int64_t within, call, name;
	enum kind kind;
	int64_t calls, timed, call_time, delay, delay_max, queue, total;
	char *text;
};

/* `l` has the launches of the part that is shown; if all is shown, it is `m`. */
#define LOAD(name, table, joins)                                                                                       \
	"SELECT r.start, r.duration, r.device, r.stream, " name ", %1$s.step, m.start, m.duration, m.range, a.name, "  \
	"%1$s.correlation FROM main." table " r LEFT JOIN main.launches m ON m.correlation = r.correlation %2$s "      \
	"LEFT JOIN main.api_calls a ON a.rowid = m.api " joins " WHERE r.start IS NOT NULL"

static const char *const loads[] = {
	[KERNEL] = LOAD("coalesce(n.name, r.name)", "kernel_records", "LEFT JOIN kernel_names n ON n.mangled = r.name"),
	[COPY] = LOAD("r.kind", "copy_records", ""),
	[SET] = LOAD("r.memory_kind", "set_records", ""),
	[GRAPH] = LOAD("r.graph", "graph_records", ""),
};

static void load(const struct reader *reader, struct operations *to, enum kind kind, bool part)
{
	char *sql;

	if (asprintf(&sql, loads[kind], part ? "l" : "m",
		     part ? "LEFT JOIN launches l ON l.correlation = r.correlation" : "") < 0)
		need(NULL);
	sqlite3_stmt *statement = report_prepare(reader, sql);
	free(sql);
	while (report_next(reader, statement)) {
		int64_t start = figure_time(sqlite3_column_int64(statement, 0));
		bool called = sqlite3_column_type(statement, 6) != SQLITE_NULL;

		NEED_ROOM(to->list, to->count, to->room);
		to->list[to->count++] = (struct operation){
			.start = start,
			.end = start + figure_length(sqlite3_column_int64(statement, 1)),
			.device = sqlite3_column_int64(statement, 2),
			.stream = sqlite3_column_int64(statement, 3),
			.name = sqlite3_column_int64(statement, 4),
			.step = sqlite3_column_int64(statement, 5),
			.call_start = called ? figure_time(sqlite3_column_int64(statement, 6)) : INT64_MIN,
			.call_time = figure_length(sqlite3_column_int64(statement, 7)),
			.range = sqlite3_column_int64(statement, 8),
			.call = sqlite3_column_int64(statement, 9),
			.launched = sqlite3_column_type(statement, 10) != SQLITE_NULL,
			.kind = kind,
		};
	}
}

static int by_stream(const void *a, const void *b)
{
	const struct operation *one = a, *other = b;

	return ORDER(one->device, other->device) ?: ORDER(one->stream, other->stream) ?: ORDER(one->start, other->start);
}

/* The ranges and operators that launched something. */
struct callers {
	struct id_places places; /* of operations, by range */
	int64_t *names;		 /* by place; ids in `strings` */
};

static void take_name(void *context, sqlite3_value **row)
{
	struct callers *callers = context;
	size_t place = id_places_find(&callers->places, int_of(row[1]));

	if (place != ID_PLACE_NONE)
		callers->names[place] = int_of(row[0]);
}

#define NAMES(table) "SELECT count(profd_row(name, id)) FROM main." table " WHERE id IS NOT NULL"

static void name_callers(const struct reader *reader, const struct operations *operations, struct callers *ret)
{
	id_places_make(&ret->places, &operations->list->range, sizeof *operations->list, operations->count);
	ret->names = need(calloc(operations->count, sizeof *ret->names));
	report_scan(reader, NAMES("operators"), 0, take_name, ret);
	report_scan(reader, NAMES("ranges"), 0, take_name, ret);
}

/* 0: not known. */
static int64_t caller_of(const struct callers *callers, const struct operation *operation)
{
	return operation->range ? callers->names[id_places_find(&callers->places, operation->range)] : 0;
}

struct rows {
	struct row *list;
	size_t count, room;
	struct ids *first; /* hash of a row -> 1 + its place; rows of one hash are chained by `next` */
	size_t *next;
};

static struct row *row_of(struct rows *rows, const struct operation *operation, int64_t within)
{
	uint64_t hash = (uint64_t)within * 31 + (uint64_t)operation->call;
	struct id_entry *entry;

	hash = (hash * 0x9e3779b97f4a7c15u) ^ ((uint64_t)operation->name * 4 + operation->kind);
	entry = ids_make(rows->first, (int64_t)hash);
	for (size_t at = (size_t)entry->value; at; at = rows->next[at - 1]) {
		struct row *row = &rows->list[at - 1];

		if (row->within == within && row->call == operation->call && row->name == operation->name &&
		    row->kind == operation->kind)
			return row;
	}
	size_t same_room = rows->room;
	NEED_ROOM(rows->list, rows->count, rows->room);
	NEED_ROOM(rows->next, rows->count, same_room);
	rows->next[rows->count] = (size_t)entry->value;
	rows->list[rows->count] = (struct row){
		.within = within, .call = operation->call, .name = operation->name, .kind = operation->kind};
	entry->value = (int64_t)++rows->count;
	return &rows->list[rows->count - 1];
}

/* `before`: when the stream had finished all earlier operations. */
static void add(struct row *row, const struct operation *operation, int64_t before)
{
	int64_t delay, busy;

	row->calls++;
	figure_add(&row->total, operation->end - operation->start);
	if (operation->call_start == INT64_MIN)
		return;
	delay = operation->start - operation->call_start;
	/* The clocks may be off by a little. */
	delay = delay < 0 ? 0 : delay;
	busy = before < operation->start ? before : operation->start;
	row->timed++;
	figure_add(&row->call_time, operation->call_time);
	figure_add(&row->delay, delay);
	row->delay_max = delay > row->delay_max ? delay : row->delay_max;
	figure_add(&row->queue, busy > operation->call_start ? busy - operation->call_start : 0);
}

static bool is_shown(const struct operation *operation, const struct report_options *options)
{
	const struct filter *filter = options->filter;

	if (options->step && operation->step != options->step)
		return false;
	if (!filter)
		return true;
	return (filter->device < 0 || operation->device == filter->device) &&
	       (filter->stream < 0 || operation->stream == filter->stream) &&
	       (operation->launched || !(filter_parts(filter) & FILTER_HOST));
}

static void add_up(const struct operations *operations, const struct callers *callers,
		   const struct report_options *options, struct rows *rows)
{
	int64_t before = INT64_MIN;

	for (size_t i = 0; i < operations->count; i++) {
		const struct operation *operation = &operations->list[i];

		if (i && (operation[-1].device != operation->device || operation[-1].stream != operation->stream))
			before = INT64_MIN;
		if (is_shown(operation, options))
			add(row_of(rows, operation, caller_of(callers, operation)), operation, before);
		before = operation->end > before ? operation->end : before;
	}
}

static const char *sorted_by;

static double weight(const struct row *row)
{
	int64_t timed = row->timed ? row->timed : 1;

	if (strcmp(sorted_by, "each") == 0)
		return (double)row->total / (double)row->calls;
	if (strcmp(sorted_by, "delay") == 0)
		return (double)row->delay;
	if (strcmp(sorted_by, "delay each") == 0)
		return (double)row->delay / (double)timed;
	return (double)(strcmp(sorted_by, "calls") == 0 ? row->calls : row->total);
}

static int by_weight(const void *a, const void *b)
{
	const struct row *one = a, *other = b;
	double left = weight(one), right = weight(other);

	if (strcmp(sorted_by, "name") != 0 && left != right)
		return left > right ? -1 : 1;
	return strcmp(one->text, other->text);
}

/* A text of `strings`; `otherwise` if there is none. The caller frees it. */
static char *string(sqlite3_stmt *statement, int64_t id, const char *otherwise)
{
	char *text;

	sqlite3_bind_int64(statement, 1, id);
	text = strdup(id && sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_bytes(statement, 0)
			      ? (const char *)sqlite3_column_text(statement, 0)
			      : otherwise);
	sqlite3_reset(statement);
	return need(text);
}

static char *name_of(sqlite3_stmt *strings, const struct row *row)
{
	const char *word = NULL;
	char text[64];

	switch (row->kind) {
	case KERNEL:
		return string(strings, row->name, "(nameless)");
	case COPY:
		word = copy_kind_word((unsigned)row->name);
		snprintf(text, sizeof text, "Memcpy %s", word ? word : "Unknown");
		break;
	case SET:
		word = memory_kind_word((unsigned)row->name);
		snprintf(text, sizeof text, "Memset (%s)", word ? word : "Unknown");
		break;
	case GRAPH:
		snprintf(text, sizeof text, "CUDA graph %lld", (long long)row->name);
		break;
	}
	return need(strdup(text));
}

static void put(struct table *table, sqlite3_stmt *strings, const struct row *row, int64_t whole, bool host)
{
	char *within = string(strings, row->within, host && row->timed ? "(no operator)" : "(not recorded)"),
	     *call = string(strings, row->call, "(not recorded)");

	table_add(table);
	table_set_text(table, L_OPERATOR, within);
	table_set_text(table, L_CALL, call);
	table_set_text(table, L_NAME, row->text);
	table_set(table, L_CALLS, row->calls);
	if (row->timed) {
		table_set(table, L_CALL_NS, row->call_time / row->timed);
		table_set(table, L_DELAY, row->delay / row->timed);
		table_set(table, L_DELAY_MAX, row->delay_max);
		table_set(table, L_QUEUE, row->queue / row->timed);
	}
	table_set(table, L_AVERAGE, row->total / row->calls);
	table_set(table, L_TOTAL, row->total);
	if (whole > 0)
		table_set_real(table, L_PERCENT, (double)row->total * 100 / (double)whole);
	free(within);
	free(call);
}

static void fill(const struct reader *reader, struct table *table, struct rows *rows,
		 const struct report_options *options)
{
	sqlite3_stmt *strings = report_prepare(reader, "SELECT text FROM strings WHERE id = ?1");
	bool host = report_filled(reader, FILLS_OPERATORS) || report_filled(reader, FILLS_RANGES);
	int64_t whole = 0;

	for (size_t i = 0; i < rows->count; i++) {
		rows->list[i].text = name_of(strings, &rows->list[i]);
		figure_add(&whole, rows->list[i].total);
	}
	sorted_by = report_order(keys, sizeof keys / sizeof *keys, options->sort_by);
	if (rows->count)
		qsort(rows->list, rows->count, sizeof *rows->list, by_weight);
	for (size_t i = 0; i < rows->count; i++) {
		put(table, strings, &rows->list[i], whole, host);
		free(rows->list[i].text);
	}
	sqlite3_finalize(strings);
}

struct table *report_launches(const struct reader *reader, const struct report_options *options)
{
	struct table *table = table_new(COUNTED(columns));
	struct operations operations = {0};
	struct callers callers = {0};
	struct ids first = {0};
	struct rows rows = {.first = &first};

	if (!report_gpu(reader))
		return table;
	for (int kind = KERNEL; kind <= GRAPH; kind++)
		load(reader, &operations, (enum kind)kind, options->filter != NULL);
	if (operations.count) {
		qsort(operations.list, operations.count, sizeof *operations.list, by_stream);
		name_callers(reader, &operations, &callers);
	}
	add_up(&operations, &callers, options, &rows);
	fill(reader, table, &rows, options);
	table_note(
		table,
		"  DELAY: from the beginning of the call until it ran, IN QUEUE the part of it in which its stream was busy");
	free(operations.list);
	free(rows.list);
	free(rows.next);
	id_places_free(&callers.places);
	free(callers.names);
	ids_free(&first);
	return table;
}
