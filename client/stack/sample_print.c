/* sample_print.c - see sample_print.h. One thread. */
#include "sample_print.h"

#include "sample_sums.h"

#include "client/ui/json.h"
#include "client/ui/print.h"
#include "client/ui/text.h"
#include "proto/base/array.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- tables */

/* As Python's tracebacks name it, by the file's last part. To be freed. */
static char *where(const struct sample_place *place, bool line)
{
	char *text = NULL;
	int n = !place			  ? asprintf(&text, "(no Python)")
		: line && place->line > 0 ? asprintf(&text, "%s:%d", text_base_name(place->file), place->line)
					  : asprintf(&text, "%s", text_base_name(place->file));

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

static int by_place(const void *a, const void *b)
{
	const struct sample_thread *one = *(struct sample_thread *const *)a, *other = *(struct sample_thread *const *)b;

	return ORDER(other->is_main, one->is_main) ?: ORDER(other->runs, one->runs) ?: ORDER(one->tid, other->tid);
}

static void add_thread(struct table *table, const struct sample_process *row, const struct sample_thread *thread)
{
	uint64_t read = thread->runs + thread->waits;
	const struct sample_place *place = sample_mostly(row, (size_t)(thread - row->threads));

	table_add(table);
	table_set(table, T_PID, row->pid);
	if (thread->tid) {
		table_set(table, T_TID, thread->tid);
		table_set_text(table, T_NAME, thread->name);
	}
	table_set(table, T_RUNS, llround(sample_ns(row, thread->runs)));
	table_set(table, T_WAITS, llround(sample_ns(row, thread->waits)));
	if (read)
		table_set_real(table, T_PERCENT, (double)thread->runs * 100 / (double)read);
	if (thread->unread)
		table_set(table, T_UNREAD, llround(sample_ns(row, thread->unread)));
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

static struct table *line_table(const struct sample_whole *whole)
{
	struct table *table = table_new(COUNTED(line_columns));

	for (size_t i = 0; i < whole->lines.count; i++) {
		const struct sample_sum *sum = whole->lines.rows[i];

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

static struct table *function_table(const struct sample_whole *whole)
{
	struct table *table = table_new(COUNTED(function_columns));

	for (size_t i = 0; i < whole->functions.count; i++) {
		const struct sample_sum *sum = whole->functions.rows[i];

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
	struct sample_whole whole;
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
	sample_sum_up(samples, &whole);
	print_table(&screen, "Threads", thread_table(samples), limit);
	lines = line_table(&whole);
	table_note(lines,
		   "  RUNS: on a processor, or waiting for one; WAITS: asleep. RUNS %%: of %s that all threads ran",
		   text_duration(time, llround(whole.runs)));
	print_table(&screen, "Lines", lines, limit);
	print_table(&screen, "Functions", function_table(&whole), limit);
	sample_whole_free(&whole);
}

/* ---------------------------------------------------------------- for programs */

static cJSON *thread_json(const struct sample_process *row, const struct sample_thread *thread)
{
	cJSON *object = need(cJSON_CreateObject());

	json_add_number(object, "tid", thread->tid != 0, (double)thread->tid);
	json_add_text(object, "name", thread->tid ? thread->name : NULL);
	cJSON_AddNumberToObject(object, "running_ns", (double)llround(sample_ns(row, thread->runs)));
	cJSON_AddNumberToObject(object, "waiting_ns", (double)llround(sample_ns(row, thread->waits)));
	cJSON_AddNumberToObject(object, "unread_ns", (double)llround(sample_ns(row, thread->unread)));
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
	cJSON_AddNumberToObject(object, "running_ns", (double)llround(sample_ns(row, stack->runs)));
	cJSON_AddNumberToObject(object, "waiting_ns", (double)llround(sample_ns(row, stack->waits)));
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
	struct sample_whole whole;

	for (size_t i = 0; i < samples->count; i++)
		cJSON_AddItemToArray(processes, process_json(samples->rows[i]));
	sample_sum_up(samples, &whole);
	add_table(object, "lines", line_table(&whole));
	add_table(object, "functions", function_table(&whole));
	sample_whole_free(&whole);
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
			double ns = sample_ns(row, stack->runs + (waits ? stack->waits : 0));

			if (ns > 0)
				put_stack(row, stack, ns);
		}
	}
}
