/* threads.c - what each thread of the process did, and what it launched. Each table is scanned, since SQL would sort
 * a million rows to group them by thread. Operators are counted as in derive: one that is one call with its parent is
 * not counted again. So the threads add up to the totals. */
#include "query.h"
#include "proto/base/array.h"
#include "recorded.h"
#include "views.h"

#include "client/ui/text.h"

#include "proto/events.h"
#include "store/fold_rule.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { H_THREAD, H_NAME, H_OPERATORS, H_SELF, H_RANGES, H_MARKS, H_LAUNCHES, H_DEVICE };

static const struct column columns[] = {
	[H_THREAD] = {"thread", "THREAD", COLUMN_NUMBER, 0},
	[H_NAME] = {"name", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},
	[H_OPERATORS] = {"operators", "OPERATORS", COLUMN_COUNT, 0},
	[H_SELF] = {"self_cpu_ns", "SELF CPU", COLUMN_DURATION, 0},
	[H_RANGES] = {"ranges", "RANGES", COLUMN_COUNT, 0},
	[H_MARKS] = {"marks", "MARKS", COLUMN_COUNT, 0},
	[H_LAUNCHES] = {"launches", "LAUNCHES", COLUMN_COUNT, COLUMN_OPTIONAL},
	[H_DEVICE] = {"device_ns", "DEVICE TIME", COLUMN_DURATION, COLUMN_OPTIONAL},
};

#define FIGURES (sizeof columns / sizeof *columns)

/* A thread; or the operators of one name, which only have H_OPERATORS. */
struct thread {
	bool used;
	int64_t id;
	int64_t figures[FIGURES]; /* by column */
};

/* An open hash table that is never more than half full. */
struct threads {
	struct thread *table;
	size_t room; /* a power of two, or 0 */
	size_t count;
};

static struct thread *slot(const struct threads *threads, int64_t id)
{
	size_t at = (size_t)((uint64_t)id * 0x9e3779b97f4a7c15u >> 32) & (threads->room - 1);

	while (threads->table[at].used && threads->table[at].id != id)
		at = (at + 1) & (threads->room - 1);
	return &threads->table[at];
}

static struct thread *thread_of(struct threads *threads, int64_t id)
{
	struct thread *thread;

	if (2 * threads->count >= threads->room) {
		struct threads larger = {.room = threads->room ? 2 * threads->room : 64, .count = threads->count};

		larger.table = need(calloc(larger.room, sizeof *larger.table));
		for (size_t i = 0; i < threads->room; i++)
			if (threads->table[i].used)
				*slot(&larger, threads->table[i].id) = threads->table[i];
		free(threads->table);
		*threads = larger;
	}
	thread = slot(threads, id);
	if (!thread->used) {
		thread->used = true;
		thread->id = id;
		threads->count++;
	}
	return thread;
}

/* The sum of a hostile file may overflow. */
static void add(int64_t *sum, int64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum))
		*sum = more < 0 ? INT64_MIN : INT64_MAX;
}

/* Rows with a thread and a time. Each one counts in one column, and adds its time to another one, if there is one. */
static void count(const struct reader *reader, struct threads *threads, const char *sql, int64_t parameter, int column,
		  int time)
{
	sqlite3_stmt *statement = report_prepare(reader, sql);

	sqlite3_bind_int64(statement, 1, parameter);
	while (report_next(reader, statement)) {
		struct thread *thread = thread_of(threads, sqlite3_column_int64(statement, 0));

		if (column)
			thread->figures[column]++;
		if (time)
			add(&thread->figures[time], sqlite3_column_int64(statement, 1));
	}
}

/* A list for SQL's IN: the names of which `names` has more operators than the totals. NULL: there are none. The
 * caller frees it. These names are few, and only their operators can be folded: so the search for folded ones is
 * quick. */
static char *folded_names(const struct reader *reader, const struct report_options *options,
			  const struct threads *names)
{
	sqlite3_stmt *statement = report_prepare(
		reader, "SELECT name, sum(calls) FROM operator_totals WHERE" REPORT_STEP "GROUP BY name");
	char *list = NULL;
	size_t bytes;
	FILE *text = NULL;

	sqlite3_bind_int64(statement, 1, options->step);
	while (report_next(reader, statement)) {
		int64_t id = sqlite3_column_int64(statement, 0);
		const struct thread *name = names->room ? slot(names, id) : NULL;

		if (!name || !name->used || name->figures[H_OPERATORS] <= sqlite3_column_int64(statement, 1))
			continue;
		if (!text)
			text = need(open_memstream(&list, &bytes));
		else
			fputc(',', text);
		fprintf(text, "%lld", (long long)id);
	}
	if (text)
		need(fclose(text) ? NULL : list);
	return list;
}

struct operators {
	struct threads *threads, names;
};

static void take_operator(void *context, sqlite3_value **row)
{
	struct operators *to = context;
	struct thread *thread = thread_of(to->threads, int_of(row[0]));

	thread->figures[H_OPERATORS]++;
	add(&thread->figures[H_SELF], int_of(row[1]));
	thread_of(&to->names, int_of(row[2]))->figures[H_OPERATORS]++;
}

static void count_operators(const struct reader *reader, struct threads *threads, const struct report_options *options)
{
	struct operators operators = {.threads = threads};
	sqlite3_stmt *statement;
	char *list, *sql;

	report_scan(reader, "SELECT count(profd_row(thread, self, name)) FROM operators WHERE" REPORT_STEP,
		    options->step, take_operator, &operators);
	list = folded_names(reader, options, &operators.names);
	free(operators.names.table);
	if (!list)
		return;
	if (asprintf(&sql,
		     "WITH few AS MATERIALIZED (SELECT step, flags, self, id, parent, name, thread FROM operators "
		     "WHERE name IN (%s)), " FOLD_SQL("few", "few") " SELECT thread FROM folded WHERE" REPORT_STEP,
		     list) < 0)
		need(NULL);
	statement = report_prepare(reader, sql);
	sqlite3_bind_int64(statement, 1, options->step);
	while (report_next(reader, statement))
		thread_of(threads, sqlite3_column_int64(statement, 0))->figures[H_OPERATORS]--;
	free(sql);
	free(list);
}

static int by_work(const void *a, const void *b)
{
	static const int order[] = {H_SELF, H_OPERATORS, H_RANGES, H_DEVICE};
	const struct thread *one = a, *other = b;

	/* Unused entries come last. */
	if (one->used != other->used)
		return one->used ? -1 : 1;
	for (size_t i = 0; i < sizeof order / sizeof *order; i++)
		if (one->figures[order[i]] != other->figures[order[i]])
			return one->figures[order[i]] > other->figures[order[i]] ? -1 : 1;
	return ORDER(one->id, other->id);
}

/* A later record of a thread replaces its name. */
static void set_name(const struct reader *reader, struct table *table, int64_t id)
{
	sqlite3_stmt *statement = report_prepare(
		reader, "SELECT s.text FROM threads t JOIN strings s ON s.id = t.name WHERE t.thread = ?1 "
			"ORDER BY t.rowid DESC LIMIT 1");
	bool named = false;

	sqlite3_bind_int64(statement, 1, id);
	while (report_next(reader, statement)) {
		report_cell(table, H_NAME, statement, 0);
		named = true;
	}
	/* Threads have the numbers that the process itself sees. The daemon sees other numbers if the process is in a
	 * container. */
	if (!named && id == reader_meta_int(reader, "agent_pid", reader_meta_int(reader, "pid", -1)))
		table_set_text(table, H_NAME, "(main thread)");
}

struct table *report_threads(const struct reader *reader, const struct report_options *options)
{
	struct table *table = table_new(columns, FIGURES);
	bool torch = report_filled(reader, FILLS_OPERATORS), gpu = report_attributed(reader);
	bool ranges = report_filled(reader, FILLS_RANGES);
	struct threads threads = {0};

	/* A window of time is the agent's own step, not a thread's. With a filter, only threads are listed that did
	 * something in the part. */
	if (!options->filter)
		count(reader, &threads, "SELECT thread FROM steps WHERE source <> ?1", STEP_SOURCE_DURATION, 0, 0);
	count_operators(reader, &threads, options);
	count(reader, &threads, "SELECT thread FROM ranges WHERE" REPORT_STEP, options->step, H_RANGES, 0);
	count(reader, &threads, "SELECT thread FROM marks WHERE" REPORT_STEP, options->step, H_MARKS, 0);
	if (gpu)
		count(reader, &threads, "SELECT thread, device_time FROM launches WHERE thread <> 0 AND" REPORT_STEP,
		      options->step, H_LAUNCHES, H_DEVICE);
	if (threads.count)
		qsort(threads.table, threads.room, sizeof *threads.table, by_work);
	for (size_t i = 0; i < threads.count; i++) {
		const struct thread *thread = &threads.table[i];

		table_add(table);
		table_set(table, H_THREAD, thread->id);
		set_name(reader, table, thread->id);
		for (size_t c = H_OPERATORS; c <= (gpu ? H_DEVICE : H_MARKS); c++)
			table_set(table, c, thread->figures[c]);
		if (!torch) {
			table_set_absent(table, H_OPERATORS);
			table_set_absent(table, H_SELF);
		}
		if (!ranges) {
			table_set_absent(table, H_RANGES);
			table_set_absent(table, H_MARKS);
		}
	}
	free(threads.table);
	return table;
}
