/* sample_print.c - see sample_print.h. One thread. */
#include "sample_print.h"

#include "client/ui/json.h"
#include "client/ui/print.h"
#include "client/ui/text.h"
#include "proto/base/array.h"
#include "store/stack_owner.h"

#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time at a line or in a function, ns. */
struct sum {
	const struct sample_place *place; /* NULL: no Python */
	double runs, waits;
	double self_runs, self_waits;	    /* in the function itself, and in what of it is no Python */
	const struct sample_stack *counted; /* the last one that did */
};

struct sums {
	void *tree;
	int (*order)(const void *a, const void *b);
	struct sum **rows;
	size_t count, room;
};

struct whole {
	struct sums lines, functions;
	double runs, waits;
};

/* ---------------------------------------------------------------- sums */

static int text_order(const struct sum *one, const struct sum *other)
{
	if (!one->place || !other->place)
		return ORDER(!!one->place, !!other->place);
	return strcmp(one->place->name, other->place->name) ?: strcmp(one->place->file, other->place->file);
}

static int function_order(const void *a, const void *b)
{
	return text_order(a, b);
}

static int line_order(const void *a, const void *b)
{
	const struct sum *one = a, *other = b;
	int order = text_order(one, other);

	return order || !one->place ? order : ORDER(one->place->line, other->place->line);
}

static struct sum *sum_of(struct sums *sums, const struct sample_place *place)
{
	struct sum like = {.place = place}, *sum, **found = tfind(&like, &sums->tree, sums->order);

	if (found)
		return *found;
	sum = need(malloc(sizeof *sum));
	*sum = like;
	need(tsearch(sum, &sums->tree, sums->order));
	NEED_ROOM(sums->rows, sums->count, sums->room);
	sums->rows[sums->count++] = sum;
	return sum;
}

static void keep(void *sum)
{
	(void)sum;
}

static void free_sums(struct sums *sums)
{
	tdestroy(sums->tree, keep);
	for (size_t i = 0; i < sums->count; i++)
		free(sums->rows[i]);
	free(sums->rows);
}

static double ns_of(const struct sample_process *row, uint64_t looks)
{
	return row->looks ? (double)looks * (double)row->ns / (double)row->looks : 0;
}

/* Of a stack's frames the innermost one that is the program's own, or else a package's, torch's, Python's. NULL: no Python. */
static const struct sample_place *own_line(const struct sample_stack *stack)
{
	const struct sample_place *best = NULL;
	enum stack_owner owner = OWNER_PYTHON;

	for (size_t i = 0; i < stack->count; i++) {
		enum stack_owner of = stack_owner(stack->places[i]->file);

		if (!best || of > owner) {
			best = stack->places[i];
			owner = of;
		}
	}
	return best;
}

static void add_functions(struct sums *sums, const struct sample_stack *stack, double runs, double waits)
{
	for (size_t i = 0; i < stack->count; i++) {
		struct sum *sum = sum_of(sums, stack->places[i]);

		if (i == 0) {
			sum->self_runs += runs;
			sum->self_waits += waits;
		}
		/* One that calls itself is there once. */
		if (sum->counted == stack)
			continue;
		sum->counted = stack;
		sum->runs += runs;
		sum->waits += waits;
	}
}

static int by_time(const void *a, const void *b)
{
	const struct sum *one = *(struct sum *const *)a, *other = *(struct sum *const *)b;

	return ORDER(other->self_runs, one->self_runs)
		       ?: ORDER(other->runs, one->runs) ?: ORDER(other->waits, one->waits) ?: line_order(one, other);
}

static void sum_up(const struct samples *samples, struct whole *whole)
{
	*whole = (struct whole){.lines = {.order = line_order}, .functions = {.order = function_order}};
	for (size_t i = 0; i < samples->count; i++) {
		const struct sample_process *row = samples->rows[i];

		for (size_t j = 0; j < row->stack_count; j++) {
			const struct sample_stack *stack = row->stacks[j];
			double runs = ns_of(row, stack->runs), waits = ns_of(row, stack->waits);
			struct sum *line = sum_of(&whole->lines, own_line(stack));

			line->runs += runs;
			line->waits += waits;
			add_functions(&whole->functions, stack, runs, waits);
		}
		for (size_t j = 0; j < row->thread_count; j++) {
			whole->runs += ns_of(row, row->threads[j].runs);
			whole->waits += ns_of(row, row->threads[j].waits);
		}
	}
	if (whole->lines.count)
		qsort(whole->lines.rows, whole->lines.count, sizeof(struct sum *), by_time);
	if (whole->functions.count)
		qsort(whole->functions.rows, whole->functions.count, sizeof(struct sum *), by_time);
}

static void whole_free(struct whole *whole)
{
	free_sums(&whole->lines);
	free_sums(&whole->functions);
}

/* ---------------------------------------------------------------- tables */

/* As Python's tracebacks name it, by the file's last part. To be freed. */
static char *where(const struct sample_place *place, bool line)
{
	const char *slash = place ? strrchr(place->file, '/') : NULL, *file = slash && slash[1] ? slash + 1 : "";
	char *text = NULL;
	int n = !place			  ? asprintf(&text, "(no Python)")
		: line && place->line > 0 ? asprintf(&text, "%s:%d", *file ? file : place->file, place->line)
					  : asprintf(&text, "%s", *file ? file : place->file);

	return need(n < 0 ? NULL : text);
}

static void set_where(struct table *table, size_t column, const struct sample_place *place, bool line)
{
	char *text = where(place, line);

	table_set_text(table, column, text);
	free(text);
}

enum { T_PID, T_TID, T_NAME, T_RUNS, T_PERCENT, T_WAITS, T_UNREAD, T_AT, T_FUNCTION };

static const struct column thread_columns[] = {
	[T_PID] = {"pid", "PID", COLUMN_NUMBER, 0},
	[T_TID] = {"tid", "THREAD", COLUMN_NUMBER, 0},
	[T_NAME] = {"name", "NAME", COLUMN_TEXT, 0},
	[T_RUNS] = {"running_ns", "RUNS", COLUMN_DURATION, 0},
	[T_PERCENT] = {"", "RUNS %", COLUMN_PERCENT, COLUMN_BARRED | COLUMN_TABLE_ONLY},
	[T_WAITS] = {"waiting_ns", "WAITS", COLUMN_DURATION, 0},
	[T_UNREAD] = {"unread_ns", "NOT READ", COLUMN_DURATION, COLUMN_OPTIONAL},
	[T_AT] = {"", "MOSTLY AT", COLUMN_TEXT, COLUMN_TABLE_ONLY | COLUMN_NAME},
	[T_FUNCTION] = {"", "IN", COLUMN_TEXT, COLUMN_TABLE_ONLY | COLUMN_ELASTIC},
};

/* The line where a thread was longest. */
static const struct sample_place *mostly(const struct sample_process *row, size_t thread)
{
	struct sums sums = {.order = line_order};
	const struct sum *most = NULL;

	for (size_t i = 0; i < row->stack_count; i++) {
		const struct sample_stack *stack = row->stacks[i];

		if (stack->thread == thread)
			sum_of(&sums, own_line(stack))->runs += (double)(stack->runs + stack->waits);
	}
	for (size_t i = 0; i < sums.count; i++)
		if (!most || sums.rows[i]->runs > most->runs)
			most = sums.rows[i];
	const struct sample_place *place = most ? most->place : NULL;
	free_sums(&sums);
	return place;
}

static int by_place(const void *a, const void *b)
{
	const struct sample_thread *one = *(struct sample_thread *const *)a, *other = *(struct sample_thread *const *)b;

	return ORDER(other->is_main, one->is_main) ?: ORDER(other->runs, one->runs) ?: ORDER(one->tid, other->tid);
}

static void add_thread(struct table *table, const struct sample_process *row, const struct sample_thread *thread)
{
	uint64_t read = thread->runs + thread->waits;
	const struct sample_place *place = mostly(row, (size_t)(thread - row->threads));

	table_add(table);
	table_set(table, T_PID, row->pid);
	if (thread->tid) {
		table_set(table, T_TID, thread->tid);
		table_set_text(table, T_NAME, thread->name);
	}
	table_set(table, T_RUNS, llround(ns_of(row, thread->runs)));
	table_set(table, T_WAITS, llround(ns_of(row, thread->waits)));
	if (read)
		table_set_real(table, T_PERCENT, (double)thread->runs * 100 / (double)read);
	if (thread->unread)
		table_set(table, T_UNREAD, llround(ns_of(row, thread->unread)));
	if (read)
		set_where(table, T_AT, place, true);
	table_set_text(table, T_FUNCTION, place ? place->name : NULL);
}

static struct table *thread_table(const struct samples *samples)
{
	struct table *table = table_new(COUNTED(thread_columns));

	for (size_t i = 0; i < samples->count; i++) {
		const struct sample_process *row = samples->rows[i];
		const struct sample_thread **order =
			need(calloc(row->thread_count + 1, sizeof(struct sample_thread *)));

		for (size_t j = 0; j < row->thread_count; j++)
			order[j] = &row->threads[j];
		qsort(order, row->thread_count, sizeof(struct sample_thread *), by_place);
		for (size_t j = 0; j < row->thread_count; j++)
			add_thread(table, row, order[j]);
		free(order);
	}
	return table;
}

enum { L_WHERE, L_FILE, L_LINE, L_FUNCTION, L_RUNS, L_PERCENT, L_WAITS };

static const struct column line_columns[] = {
	[L_WHERE] = {"", "WHERE", COLUMN_TEXT, COLUMN_TABLE_ONLY | COLUMN_NAME},
	[L_FILE] = {"file", "", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[L_LINE] = {"line", "", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	[L_FUNCTION] = {"function", "FUNCTION", COLUMN_TEXT, COLUMN_ELASTIC},
	[L_RUNS] = {"running_ns", "RUNS", COLUMN_DURATION, 0},
	[L_PERCENT] = {"running_percent", "RUNS %", COLUMN_PERCENT, COLUMN_BARRED},
	[L_WAITS] = {"waiting_ns", "WAITS", COLUMN_DURATION, 0},
};

static struct table *line_table(const struct whole *whole)
{
	struct table *table = table_new(COUNTED(line_columns));

	for (size_t i = 0; i < whole->lines.count; i++) {
		const struct sum *sum = whole->lines.rows[i];

		table_add(table);
		set_where(table, L_WHERE, sum->place, true);
		table_set_text(table, L_FILE, sum->place ? sum->place->file : NULL);
		table_set_text(table, L_FUNCTION, sum->place ? sum->place->name : NULL);
		if (sum->place && sum->place->line > 0)
			table_set(table, L_LINE, sum->place->line);
		table_set(table, L_RUNS, llround(sum->runs));
		table_set(table, L_WAITS, llround(sum->waits));
		if (whole->runs > 0)
			table_set_real(table, L_PERCENT, sum->runs * 100 / whole->runs);
	}
	return table;
}

enum { F_WHERE, F_FILE, F_FUNCTION, F_SELF, F_PERCENT, F_RUNS, F_SELF_WAITS, F_WAITS };

static const struct column function_columns[] = {
	[F_WHERE] = {"", "WHERE", COLUMN_TEXT, COLUMN_TABLE_ONLY | COLUMN_NAME},
	[F_FILE] = {"file", "", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[F_FUNCTION] = {"function", "FUNCTION", COLUMN_TEXT, COLUMN_ELASTIC},
	[F_SELF] = {"self_running_ns", "SELF", COLUMN_DURATION, 0},
	[F_PERCENT] = {"self_running_percent", "SELF %", COLUMN_PERCENT, COLUMN_BARRED},
	[F_RUNS] = {"running_ns", "RUNS", COLUMN_DURATION, 0},
	[F_SELF_WAITS] = {"self_waiting_ns", "SELF WAITS", COLUMN_DURATION, COLUMN_SPARE},
	[F_WAITS] = {"waiting_ns", "WAITS", COLUMN_DURATION, COLUMN_SPARE},
};

static struct table *function_table(const struct whole *whole)
{
	struct table *table = table_new(COUNTED(function_columns));

	for (size_t i = 0; i < whole->functions.count; i++) {
		const struct sum *sum = whole->functions.rows[i];

		table_add(table);
		set_where(table, F_WHERE, sum->place, false);
		table_set_text(table, F_FILE, sum->place->file);
		table_set_text(table, F_FUNCTION, sum->place->name);
		table_set(table, F_SELF, llround(sum->self_runs));
		table_set(table, F_RUNS, llround(sum->runs));
		table_set(table, F_SELF_WAITS, llround(sum->self_waits));
		table_set(table, F_WAITS, llround(sum->waits));
		if (whole->runs > 0)
			table_set_real(table, F_PERCENT, sum->self_runs * 100 / whole->runs);
	}
	return table;
}

/* ---------------------------------------------------------------- for people */

static void print_process(const struct sample_process *row)
{
	char *command = text_safe(row->about->command), looks[TEXT_FIGURE_BYTES], late[TEXT_FIGURE_BYTES],
	     time[TEXT_FIGURE_BYTES];

	printf("process %lld: %s\n", (long long)row->pid, command);
	printf("Python 3.%u, %s look%s in %s%s", row->about->minor, text_count(looks, (int64_t)row->looks),
	       row->looks == 1 ? "" : "s", text_duration(time, row->ns), row->ended ? ", until it ended" : "");
	if (row->late)
		printf("; %s came too late and were left out", text_count(late, (int64_t)row->late));
	puts(row->cut ? "; of some threads were left out: there are too many" : "");
	if (row->unkept)
		printf("%s stacks are in no line and no function: there were too many different ones\n",
		       text_count(late, (int64_t)row->unkept));
	free(command);
}

static void print_table(const struct screen *screen, const char *title, struct table *table, size_t limit)
{
	printf("\n%s%s%s\n", screen_bold(screen), title, screen_plain(screen));
	table_print(table, screen, limit);
	table_free(table);
}

void sample_print(const struct samples *samples, size_t limit)
{
	struct screen screen = screen_output();
	struct whole whole;
	struct table *lines;
	char time[TEXT_FIGURE_BYTES];
	size_t read = 0;

	for (size_t i = 0; i < samples->count; i++) {
		if (samples->rows[i]->about->error)
			continue;
		print_process(samples->rows[i]);
		read++;
	}
	if (!read)
		return;
	sum_up(samples, &whole);
	print_table(&screen, "Threads", thread_table(samples), limit);
	lines = line_table(&whole);
	table_note(lines,
		   "  RUNS: on a processor, or waiting for one; WAITS: asleep. RUNS %%: of %s that all threads ran",
		   text_duration(time, llround(whole.runs)));
	print_table(&screen, "Lines", lines, limit);
	print_table(&screen, "Functions", function_table(&whole), limit);
	whole_free(&whole);
}

/* ---------------------------------------------------------------- for programs */

static cJSON *thread_json(const struct sample_process *row, const struct sample_thread *thread)
{
	cJSON *object = need(cJSON_CreateObject());

	json_add_number(object, "tid", thread->tid != 0, (double)thread->tid);
	json_add_text(object, "name", thread->tid ? thread->name : NULL);
	cJSON_AddNumberToObject(object, "running_ns", (double)llround(ns_of(row, thread->runs)));
	cJSON_AddNumberToObject(object, "waiting_ns", (double)llround(ns_of(row, thread->waits)));
	cJSON_AddNumberToObject(object, "unread_ns", (double)llround(ns_of(row, thread->unread)));
	return object;
}

static cJSON *process_json(const struct sample_process *row)
{
	cJSON *object = need(cJSON_CreateObject()), *threads;
	char version[16];

	snprintf(version, sizeof version, "3.%u", row->about->minor);
	json_add_pid(object, row->pid);
	json_add_text(object, "error", row->about->error ? row->about->sentence : NULL);
	json_add_text(object, "command", row->about->command);
	json_add_text(object, "python", row->about->error ? NULL : version);
	cJSON_AddNumberToObject(object, "duration_ns", (double)row->ns);
	cJSON_AddNumberToObject(object, "looks", (double)row->looks);
	cJSON_AddNumberToObject(object, "late_looks", (double)row->late);
	cJSON_AddNumberToObject(object, "torn_readings", (double)row->torn);
	cJSON_AddNumberToObject(object, "unkept_stacks", (double)row->unkept);
	cJSON_AddBoolToObject(object, "more_threads", row->cut);
	cJSON_AddBoolToObject(object, "ended", row->ended);
	threads = need(cJSON_AddArrayToObject(object, "threads"));
	for (size_t i = 0; i < row->thread_count; i++)
		cJSON_AddItemToArray(threads, thread_json(row, &row->threads[i]));
	return object;
}

static cJSON *stack_json_of(const struct sample_process *row, const struct sample_stack *stack)
{
	cJSON *object = need(cJSON_CreateObject()), *frames;

	json_add_pid(object, row->pid);
	json_add_number(object, "tid", row->threads[stack->thread].tid != 0, (double)row->threads[stack->thread].tid);
	cJSON_AddNumberToObject(object, "running_ns", (double)llround(ns_of(row, stack->runs)));
	cJSON_AddNumberToObject(object, "waiting_ns", (double)llround(ns_of(row, stack->waits)));
	frames = need(cJSON_AddArrayToObject(object, "frames"));
	for (size_t i = 0; i < stack->count; i++) {
		cJSON *frame = need(cJSON_CreateObject());

		json_add_text(frame, "name", stack->places[i]->name);
		json_add_text(frame, "file", stack->places[i]->file);
		json_add_number(frame, "line", stack->places[i]->line > 0, stack->places[i]->line);
		cJSON_AddItemToArray(frames, frame);
	}
	return object;
}

static void add_table(cJSON *object, const char *name, struct table *table)
{
	cJSON_AddItemToObject(object, name, table_json(table, 0));
	table_free(table);
}

void sample_json(const struct samples *samples, cJSON *object)
{
	cJSON *processes = need(cJSON_AddArrayToObject(object, "processes")), *stacks;
	struct whole whole;

	for (size_t i = 0; i < samples->count; i++)
		cJSON_AddItemToArray(processes, process_json(samples->rows[i]));
	sum_up(samples, &whole);
	add_table(object, "lines", line_table(&whole));
	add_table(object, "functions", function_table(&whole));
	whole_free(&whole);
	stacks = need(cJSON_AddArrayToObject(object, "stacks"));
	for (size_t i = 0; i < samples->count; i++)
		for (size_t j = 0; j < samples->rows[i]->stack_count; j++)
			cJSON_AddItemToArray(stacks, stack_json_of(samples->rows[i], samples->rows[i]->stacks[j]));
}

/* ; parts frames, and a line ends a stack. */
static void put_clean(const char *text)
{
	for (; *text; text++)
		putchar(*text == ';' || (unsigned char)*text < ' ' ? '_' : *text);
}

static void put_stack(const struct sample_process *row, const struct sample_stack *stack, double ns)
{
	const struct sample_thread *thread = &row->threads[stack->thread];

	printf("process %lld;", (long long)row->pid);
	if (thread->tid) {
		printf("thread %lld ", (long long)thread->tid);
		put_clean(thread->name);
	} else {
		fputs("thread ?", stdout);
	}
	if (!stack->count)
		fputs(";(no Python)", stdout);
	for (size_t i = stack->count; i > 0; i--) {
		const struct sample_place *place = stack->places[i - 1];
		char *at = where(place, true);

		putchar(';');
		put_clean(place->name);
		fputs(" (", stdout);
		put_clean(at);
		putchar(')');
		free(at);
	}
	printf(" %lld\n", llround(ns / 1000));
}

void sample_print_folded(const struct samples *samples, bool waits)
{
	for (size_t i = 0; i < samples->count; i++) {
		const struct sample_process *row = samples->rows[i];

		for (size_t j = 0; j < row->stack_count; j++) {
			const struct sample_stack *stack = row->stacks[j];
			double ns = ns_of(row, stack->runs + (waits ? stack->waits : 0));

			if (ns > 0)
				put_stack(row, stack, ns);
		}
	}
}
