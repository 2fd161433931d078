/* derive_stacks.c - see derive_stacks.h. A stack has a number, its innermost frame, and the number of its caller's
 * stack, which is smaller. No locks. */
#include "derive_stacks.h"
#include "derive_backward.h"
#include "proto/base/memory.h"
#include "proto/events.h"
#include "proto/limits.h"
#include "rows.h"
#include "stack_devices.h"
#include "stack_owner.h"

#include <errno.h>
#include <stdlib.h>

/* No agent reads deeper stacks. Without this limit a hostile file could make each sample take as long as it likes. */
#define DEPTH_MOST 1024
/* The only sample of a thread stands for so much time before it and after it. */
#define ALONE_NS 5000000

struct frame {
	uint32_t parent, function, file, line, first_line;
	uint32_t shown;			 /* the frame that stands for the stack */
	uint32_t line_key, function_key; /* the same number for frames of the same line, or function */
	uint16_t depth;
	uint8_t owner;
	bool known;
};

struct sums_of {
	int64_t samples, self, host, waiting, calls, device, estimate;
	int64_t device_apart; /* of a line: `device`, and that of lines it called; of a function: its own part of `device` */
	bool listed;
	uint32_t last, last_apart; /* number of the last sample that was counted */
	bool states;		   /* some sample tells what the thread did */
};

/* Sums by key. Keys whose sums are not 0 are listed: so writing and clearing them does not look at all keys for each
 * step of each thread. */
struct by_key {
	struct sums_of *all;
	uint32_t *listed, listed_count;
	bool functions; /* else lines */
};

/* A sample, or the operators of one stack. */
struct sample {
	int64_t duration, calls, device, estimate; /* estimate: of `device` */
	uint32_t stack, state;
	bool is_sample;
};

struct stacks {
	struct store *store;
	struct frame *frames;		 /* by number; [0] stands for no Python */
	uint32_t count;			 /* the highest number */
	uint32_t *by_line, *by_function; /* one frame of each key */
	struct by_key lines, functions;
	uint32_t sample; /* its number */
	bool operators;	 /* stacks of operators were recorded */
	bool device;	 /* they were, and a device's work, too */
	bool estimated;	 /* a device's work was recorded, and samples but no stacks of operators */
};

/* ---------------------------------------------------------------- what each sample stands for */

struct moment {
	int64_t row, thread, time;
};

static int64_t at_most(int64_t value, int64_t most)
{
	return value < 0 ? 0 : value > most ? most : value;
}

static int64_t stands_for(const struct moment *before, const struct moment *moment, const struct moment *after,
			  int64_t begin, int64_t end)
{
	bool first = before->row == 0 || before->thread != moment->thread;
	bool last = after->row == 0 || after->thread != moment->thread;
	int64_t left = first ? 0 : (moment->time - before->time) / 2;
	int64_t right = last ? 0 : (after->time - moment->time) / 2;
	if (first)
		left = at_most(moment->time - begin, last ? ALONE_NS : 2 * right);
	if (last)
		right = at_most(end - moment->time, first ? ALONE_NS : 2 * left);
	return left + right;
}

static void measure(struct store *store)
{
	struct moment window[3] = {0};
	int64_t begin = 0, end = 0;
	sqlite3_stmt *bounds = store_prepare(store, "SELECT min(start), max(start + duration) FROM steps");
	if (bounds && sqlite3_step(bounds) == SQLITE_ROW) {
		begin = sqlite3_column_int64(bounds, 0);
		end = sqlite3_column_int64(bounds, 1);
	}
	sqlite3_finalize(bounds);
	/* ORDER BY makes SQLite read all rows before the first one is changed. */
	sqlite3_stmt *read =
		store_prepare(store, "SELECT rowid, thread, time FROM samples ORDER BY thread, time, rowid");
	sqlite3_stmt *write = store_prepare(store, "UPDATE samples SET duration = ?1 WHERE rowid = ?2");
	for (bool more = true; read && write && (more || window[2].row) && !store_over(store);) {
		window[0] = window[1];
		window[1] = window[2];
		more = more && sqlite3_step(read) == SQLITE_ROW;
		window[2] = more ? (struct moment){sqlite3_column_int64(read, 0), sqlite3_column_int64(read, 1),
						   sqlite3_column_int64(read, 2)}
				 : (struct moment){0};
		if (!window[1].row)
			continue;
		sqlite3_bind_int64(write, 1, stands_for(&window[0], &window[1], &window[2], begin, end));
		sqlite3_bind_int64(write, 2, window[1].row);
		store_step(store, write);
	}
	sqlite3_finalize(read);
	sqlite3_finalize(write);
}

/* ---------------------------------------------------------------- stacks */

static void put_frame(struct stacks *stacks, sqlite3_stmt *row)
{
	int64_t id = sqlite3_column_int64(row, 0), parent = sqlite3_column_int64(row, 1);
	const char *file = (const char *)sqlite3_column_text(row, 6);
	if (id < 1 || id > stacks->count || stacks->frames[id].known)
		return;
	struct frame *frame = &stacks->frames[id];
	const struct frame *caller = parent > 0 && parent < id ? &stacks->frames[parent] : NULL;
	bool known = caller && caller->known && caller->depth < DEPTH_MOST;
	*frame = (struct frame){
		.parent = known ? (uint32_t)parent : 0,
		.function = (uint32_t)sqlite3_column_int64(row, 2),
		.file = (uint32_t)sqlite3_column_int64(row, 3),
		.line = (uint32_t)sqlite3_column_int64(row, 4),
		.first_line = (uint32_t)sqlite3_column_int64(row, 5),
		.shown = (uint32_t)id,
		.depth = known ? (uint16_t)(caller->depth + 1) : 1,
		.owner = (uint8_t)stack_owner(file ? file : ""),
		.known = true,
	};
	if (known && stacks->frames[caller->shown].owner > frame->owner)
		frame->shown = caller->shown;
}

static bool load(struct stacks *stacks)
{
	struct store *store = stacks->store;
	sqlite3_stmt *most = store_prepare(store, "SELECT coalesce(max(id), 0) FROM stacks");
	if (most && sqlite3_step(most) == SQLITE_ROW)
		stacks->count = (uint32_t)at_most(sqlite3_column_int64(most, 0), LIMIT_STACKS);
	sqlite3_finalize(most);
	stacks->frames = memory_get(store->memory, ((size_t)stacks->count + 1) * sizeof *stacks->frames);
	if (!stacks->frames)
		return false;
	sqlite3_stmt *read = store_prepare(
		store,
		"SELECT s.id, s.parent, s.function, s.file, s.line, s.first_line, t.text FROM stacks s LEFT JOIN "
		"strings t ON t.id = s.file ORDER BY s.id");
	while (read && !store_over(store) && sqlite3_step(read) == SQLITE_ROW)
		put_frame(stacks, read);
	sqlite3_finalize(read);
	return true;
}

/* ---------------------------------------------------------------- what is equal */

static int compare_words(const uint32_t *a, const uint32_t *b, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	return 0;
}

static int compare_lines(const void *a, const void *b, void *frames)
{
	const struct frame *x = (struct frame *)frames + *(const uint32_t *)a;
	const struct frame *y = (struct frame *)frames + *(const uint32_t *)b;
	return compare_words((uint32_t[]){x->file, x->line, x->function}, (uint32_t[]){y->file, y->line, y->function},
			     3);
}

static int compare_functions(const void *a, const void *b, void *frames)
{
	const struct frame *x = (struct frame *)frames + *(const uint32_t *)a;
	const struct frame *y = (struct frame *)frames + *(const uint32_t *)b;
	return compare_words((uint32_t[]){x->file, x->first_line, x->function},
			     (uint32_t[]){y->file, y->first_line, y->function}, 3);
}

/* Sorts all frames, numbers those that differ, and leaves one frame of each number in `order`. */
static void number(struct stacks *stacks, uint32_t *order, int (*compare)(const void *, const void *, void *),
		   void (*keep)(struct frame *frame, uint32_t key))
{
	uint32_t keys = 0;
	for (uint32_t i = 0; i <= stacks->count; i++)
		order[i] = i;
	qsort_r(order, (size_t)stacks->count + 1, sizeof *order, compare, stacks->frames);
	for (uint32_t i = 0; i <= stacks->count; i++) {
		uint32_t frame = order[i];
		if (i == 0 || compare(&order[keys], &frame, stacks->frames) != 0)
			order[i ? ++keys : 0] = frame;
		keep(&stacks->frames[frame], keys);
	}
}

static void keep_line(struct frame *frame, uint32_t key)
{
	frame->line_key = key;
}

static void keep_function(struct frame *frame, uint32_t key)
{
	frame->function_key = key;
}

/* ---------------------------------------------------------------- sums */

static void list(struct by_key *of, uint32_t key)
{
	if (!of->all[key].listed)
		of->listed[of->listed_count++] = key;
	of->all[key].listed = true;
}

static void count_in(struct by_key *of, uint32_t key, const struct sample *sample, uint32_t number, bool self)
{
	struct sums_of *sums = &of->all[key];
	list(of, key);
	if (self) {
		sums->self += sample->duration;
		sums->device_apart += of->functions ? sample->device : 0;
	}
	/* The function calls itself: the sample was counted already. */
	if (sums->last == number)
		return;
	sums->last = number;
	sums->samples += sample->is_sample;
	sums->host += sample->duration;
	sums->calls += sample->calls;
	sums->device += sample->device;
	if (__builtin_add_overflow(sums->estimate, sample->estimate, &sums->estimate))
		sums->estimate = INT64_MAX;
	sums->states |= sample->state != SAMPLE_UNKNOWN;
	sums->waiting += sample->state == SAMPLE_WAITING ? sample->duration : 0;
}

/* The line launched the sample's device time, or called the line that did. If the line calls itself, that counts
 * once. */
static void count_launched(struct stacks *stacks, uint32_t key, const struct sample *sample)
{
	struct sums_of *sums = &stacks->lines.all[key];
	if (sums->last_apart == stacks->sample)
		return;
	list(&stacks->lines, key);
	sums->last_apart = stacks->sample;
	sums->device_apart += sample->device;
}

static void add(struct stacks *stacks, const struct sample *sample)
{
	uint32_t at = sample->stack <= stacks->count && stacks->frames[sample->stack].known ? sample->stack : 0;
	stacks->sample++;
	const uint32_t shown = stacks->frames[at].shown;
	count_in(&stacks->lines, stacks->frames[shown].line_key, sample, stacks->sample, true);
	if (sample->device)
		count_launched(stacks, stacks->frames[shown].line_key, sample);
	for (bool self = true; at; at = stacks->frames[at].parent, self = false) {
		count_in(&stacks->functions, stacks->frames[at].function_key, sample, stacks->sample, self);
		if (sample->device && stacks->frames[at].owner == OWNER_USER)
			count_launched(stacks, stacks->frames[at].line_key, sample);
	}
}

/* Is there anything to show? Operators that other operators called, and that launched nothing, add nothing. */
static bool says_something(const struct sums_of *sums)
{
	return sums->samples || sums->calls || sums->device || sums->device_apart;
}

/* 0 is not known: what was launched may lie between samples. */
static int64_t estimate_of(const struct sums_of *sums)
{
	return sums->estimate ? sums->estimate : ROWS_NULL;
}

/* Writes the sums of one step and thread, and begins anew. */
static void flush_lines(struct stacks *stacks, struct rows *rows, int64_t step, int64_t thread)
{
	while (stacks->lines.listed_count) {
		uint32_t key = stacks->lines.listed[--stacks->lines.listed_count];
		struct sums_of *sums = &stacks->lines.all[key];
		const struct frame *frame = &stacks->frames[stacks->by_line[key]];
		if (says_something(sums))
			rows_add(rows, (int64_t[]){frame->file ? frame->file : ROWS_NULL, frame->line,
						   frame->function ? frame->function : ROWS_NULL, step, thread,
						   sums->samples, sums->host, sums->states ? sums->waiting : ROWS_NULL,
						   stacks->device ? sums->device : ROWS_NULL,
						   stacks->operators ? sums->calls : ROWS_NULL, estimate_of(sums),
						   stacks->device ? sums->device_apart : ROWS_NULL});
		*sums = (struct sums_of){0};
	}
}

static void flush_functions(struct stacks *stacks, struct rows *rows, int64_t step, int64_t thread)
{
	while (stacks->functions.listed_count) {
		uint32_t key = stacks->functions.listed[--stacks->functions.listed_count];
		struct sums_of *sums = &stacks->functions.all[key];
		const struct frame *frame = &stacks->frames[stacks->by_function[key]];
		if (says_something(sums))
			rows_add(rows,
				 (int64_t[]){frame->file ? frame->file : ROWS_NULL, frame->first_line,
					     frame->function ? frame->function : ROWS_NULL, step, thread, sums->samples,
					     sums->self, sums->host, sums->states ? sums->waiting : ROWS_NULL,
					     stacks->device ? sums->device : ROWS_NULL,
					     stacks->operators ? sums->calls : ROWS_NULL, estimate_of(sums),
					     stacks->device ? sums->device_apart : ROWS_NULL});
		*sums = (struct sums_of){0};
	}
}

/* Samples, and operators by their stacks, sorted by step and thread. `calls` counts operators that lie in no other
 * operator. */
#define SAMPLES_SQL "SELECT coalesce(step, 0), thread, stack, duration, state, 1, 0, 0, 0 FROM samples"
#define ESTIMATED_SQL                                                                                                  \
	"SELECT coalesce(s.step, 0), s.thread, s.stack, s.duration, s.state, 1, 0, 0, coalesce(d.device, 0) FROM "     \
	"samples s LEFT JOIN temp.sample_devices d ON d.id = s.rowid"
#define OPERATORS_SQL                                                                                                   \
	" UNION ALL SELECT coalesce(o.step, 0), o.thread, coalesce(o.stack, 0), 0, 0, 0, sum(o.parent IS NULL OR "      \
	"o.parent IN (SELECT id FROM ranges)), sum(coalesce(d.self, 0)), 0 FROM operators o LEFT JOIN range_devices d " \
	"ON d.id = o.id GROUP BY 1, 2, 3"
#define ORDER_SQL " ORDER BY 1, 2"

static struct sample sample_of(sqlite3_stmt *row)
{
	return (struct sample){.stack = (uint32_t)sqlite3_column_int64(row, 2),
			       .duration = sqlite3_column_int64(row, 3),
			       .state = (uint32_t)sqlite3_column_int64(row, 4),
			       .is_sample = sqlite3_column_int64(row, 5) != 0,
			       .calls = sqlite3_column_int64(row, 6),
			       .device = sqlite3_column_int64(row, 7),
			       .estimate = sqlite3_column_int64(row, 8)};
}

static void sum_up(struct stacks *stacks)
{
	struct store *store = stacks->store;
	struct rows lines, functions;
	int64_t step = 0, thread = -1;
	rows_begin(&lines, store, "line_totals", 12);
	rows_begin(&functions, store, "function_totals", 13);
	sqlite3_stmt *read = store_prepare(store, stacks->operators   ? SAMPLES_SQL OPERATORS_SQL ORDER_SQL
						  : stacks->estimated ? ESTIMATED_SQL ORDER_SQL
								      : SAMPLES_SQL ORDER_SQL);
	while (read && !store_over(store) && sqlite3_step(read) == SQLITE_ROW) {
		if (sqlite3_column_int64(read, 0) != step || sqlite3_column_int64(read, 1) != thread) {
			flush_lines(stacks, &lines, step ? step : ROWS_NULL, thread);
			flush_functions(stacks, &functions, step ? step : ROWS_NULL, thread);
			step = sqlite3_column_int64(read, 0);
			thread = sqlite3_column_int64(read, 1);
		}
		struct sample sample = sample_of(read);
		add(stacks, &sample);
	}
	flush_lines(stacks, &lines, step ? step : ROWS_NULL, thread);
	flush_functions(stacks, &functions, step ? step : ROWS_NULL, thread);
	sqlite3_finalize(read);
	rows_end(&lines);
	rows_end(&functions);
}

static void write_shown(struct stacks *stacks)
{
	struct rows rows;
	rows_begin(&rows, stacks->store, "stack_lines", 2);
	for (uint32_t i = 1; i <= stacks->count; i++)
		if (stacks->frames[i].known)
			rows_add(&rows, (int64_t[]){i, stacks->frames[i].shown});
	rows_end(&rows);
}

static bool by_key_init(struct by_key *sums, struct memory *memory, size_t count)
{
	sums->all = memory_get(memory, count * sizeof *sums->all);
	sums->listed = memory_get(memory, count * sizeof *sums->listed);
	return sums->all && sums->listed;
}

static void by_key_deinit(struct by_key *sums, struct memory *memory, size_t count)
{
	memory_put(memory, sums->all, sums->all ? count * sizeof *sums->all : 0);
	memory_put(memory, sums->listed, sums->listed ? count * sizeof *sums->listed : 0);
}

static bool prepare_sums(struct stacks *stacks)
{
	struct memory *memory = stacks->store->memory;
	size_t count = (size_t)stacks->count + 1;
	stacks->by_line = memory_get(memory, count * sizeof *stacks->by_line);
	stacks->by_function = memory_get(memory, count * sizeof *stacks->by_function);
	bool ok = by_key_init(&stacks->lines, memory, count);
	ok = by_key_init(&stacks->functions, memory, count) && ok;
	if (!stacks->by_line || !stacks->by_function || !ok)
		return false;
	number(stacks, stacks->by_line, compare_lines, keep_line);
	number(stacks, stacks->by_function, compare_functions, keep_function);
	return true;
}

static void deinit(struct stacks *stacks)
{
	struct memory *memory = stacks->store->memory;
	size_t count = (size_t)stacks->count + 1;
	memory_put(memory, stacks->frames, stacks->frames ? count * sizeof *stacks->frames : 0);
	memory_put(memory, stacks->by_line, stacks->by_line ? count * sizeof *stacks->by_line : 0);
	memory_put(memory, stacks->by_function, stacks->by_function ? count * sizeof *stacks->by_function : 0);
	by_key_deinit(&stacks->lines, memory, count);
	by_key_deinit(&stacks->functions, memory, count);
}

static bool any_sample(struct store *store)
{
	sqlite3_stmt *statement = store_prepare(store, "SELECT 1 FROM samples LIMIT 1");
	bool any = statement && sqlite3_step(statement) == SQLITE_ROW;
	sqlite3_finalize(statement);
	return any;
}

void derive_stacks(struct store *store, bool device)
{
	struct stacks stacks = {.store = store, .functions = {.functions = true}};
	if (store->error)
		return;
	stacks.operators = derive_has_operator_stacks(store);
	stacks.device = stacks.operators && device;
	stacks.estimated = !stacks.operators && device;
	if (!stacks.operators && !any_sample(store))
		return;
	store_doing(store, "adding up the stacks of Python");
	if (stacks.operators)
		derive_backward(store);
	measure(store);
	if (stacks.estimated)
		stack_devices_estimate(store);
	if (load(&stacks) && prepare_sums(&stacks)) {
		write_shown(&stacks);
		sum_up(&stacks);
	} else if (!store->error) {
		store_set_error(store, -ENOMEM, "there was no memory to add up the stacks of Python");
	}
	if (stacks.estimated)
		stack_devices_drop(store);
	deinit(&stacks);
}
