/* purpose.c - see purpose.h. A function's name counts as a whole: `evaluate` evaluates, `evaluate_expr` may do anything. Of several on a
 * stack the innermost holds, so that what a test trains is training. Whoever calls a function so and trains what it ran is not believed. */
#include "purpose.h"

#include "proto/base/array.h"
#include "proto/limits.h"

#include <stdlib.h>
#include <string.h>

/* Longer without any operator, ns: nothing says that the function still runs. */
#define PAUSE 10000000

static const struct {
	const char *function;
	enum purpose purpose;
} functions[] = {
	{"validate", PURPOSE_EVALUATION},
	{"validation", PURPOSE_EVALUATION},
	{"validation_step", PURPOSE_EVALUATION},
	{"validation_loop", PURPOSE_EVALUATION},
	{"validation_epoch", PURPOSE_EVALUATION},
	{"validate_epoch", PURPOSE_EVALUATION},
	{"validate_one_epoch", PURPOSE_EVALUATION},
	{"val_step", PURPOSE_EVALUATION},
	{"val_epoch", PURPOSE_EVALUATION},
	{"evaluate", PURPOSE_EVALUATION},
	{"evaluation", PURPOSE_EVALUATION},
	{"evaluation_step", PURPOSE_EVALUATION},
	{"evaluation_loop", PURPOSE_EVALUATION},
	{"evaluate_epoch", PURPOSE_EVALUATION},
	{"eval_step", PURPOSE_EVALUATION},
	{"eval_loop", PURPOSE_EVALUATION},
	{"eval_epoch", PURPOSE_EVALUATION},
	{"test", PURPOSE_EVALUATION},
	{"test_step", PURPOSE_EVALUATION},
	{"test_loop", PURPOSE_EVALUATION},
	{"test_epoch", PURPOSE_EVALUATION},
	{"predict", PURPOSE_INFERENCE},
	{"predict_step", PURPOSE_INFERENCE},
	{"inference", PURPOSE_INFERENCE},
	{"train", PURPOSE_TRAINING},
	{"train_step", PURPOSE_TRAINING},
	{"train_epoch", PURPOSE_TRAINING},
	{"train_one_epoch", PURPOSE_TRAINING},
	{"training_step", PURPOSE_TRAINING},
};

static enum purpose purpose_of(const char *function)
{
	/* Its class stands before it from Python 3.11 on. */
	const char *dot = strrchr(function, '.'), *name = dot ? dot + 1 : function;
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		if (strcmp(name, functions[i].function) == 0)
			return functions[i].purpose;
	return PURPOSE_NONE;
}

static void take_stack(void *context, sqlite3_stmt *row)
{
	struct purposes *purposes = context;
	int64_t id = row_int(row, 0), parent = row_int(row, 1);
	const char *function = (const char *)sqlite3_column_text(row, 2);
	if (id < 1 || id > purposes->count)
		return;
	enum purpose own = function ? purpose_of(function) : PURPOSE_NONE;
	purposes->of[id] = own ? (uint8_t)own : parent > 0 && parent < id ? purposes->of[parent] : PURPOSE_NONE;
}

static void take_most(void *context, sqlite3_stmt *row)
{
	struct purposes *purposes = context;
	int64_t most = row_int(row, 0);
	purposes->count = (uint32_t)(most < 0 ? 0 : most > LIMIT_STACKS ? LIMIT_STACKS : most);
}

void purposes_read(struct purposes *purposes, struct scan *scan)
{
	*purposes = (struct purposes){0};
	scan_each(scan, "SELECT coalesce(max(id), 0) FROM stacks", take_most, purposes);
	purposes->of = purposes->count ? calloc((size_t)purposes->count + 1, 1) : NULL;
	if (!purposes->of) {
		if (purposes->count)
			scan_no_memory(scan);
		purposes->count = 0;
		return;
	}
	scan_each(scan,
		  "SELECT s.id, s.parent, t.text FROM stacks s LEFT JOIN strings t ON t.id = s.function ORDER BY s.id",
		  take_stack, purposes);
}

void purposes_free(struct purposes *purposes)
{
	free(purposes->of);
	*purposes = (struct purposes){0};
}

enum purpose purposes_of(const struct purposes *purposes, int64_t stack)
{
	return stack > 0 && stack <= purposes->count ? (enum purpose)purposes->of[stack] : PURPOSE_NONE;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return ORDER(x, y);
}

/* Operators that follow each other in a function of one purpose. */
struct run {
	int64_t start, end;
	enum purpose purpose;
	bool network, trained;
};

static void end_run(struct run *run, const struct phases *phases, uint32_t thread, struct activity *activity)
{
	size_t low = ARRAY_BEFORE(phases->backward_count, middle, phases->backwards[middle] < run->start);
	bool backward = low < phases->backward_count && phases->backwards[low] < run->end;
	if ((run->purpose == PURPOSE_EVALUATION || run->purpose == PURPOSE_INFERENCE) && run->network &&
	    !run->trained && !backward)
		activity_mark(activity, thread, run->start, run->end,
			      run->purpose == PURPOSE_EVALUATION ? PHASE_EVALUATION : PHASE_INFERENCE);
	*run = (struct run){0};
}

void purpose_mark(const struct phases *phases, const struct breakdown *breakdown, struct activity *activity,
		  const int64_t *sequences, size_t count)
{
	struct run run = {0};
	for (size_t i = 0; i < phases->count; i++) {
		const struct phases_operator *item = &phases->items[i];
		if (!item->on_step_thread || item->backward)
			continue;
		if (run.purpose &&
		    (item->purpose != run.purpose || (run.end < INT64_MAX - PAUSE && item->start > run.end + PAUSE)))
			end_run(&run, phases, breakdown->step_thread, activity);
		if (!item->purpose)
			continue;
		int64_t sequence = item->sequence;
		if (!run.purpose)
			run = (struct run){.start = item->start, .end = item->end, .purpose = item->purpose};
		run.end = item->end > run.end ? item->end : run.end;
		run.network |= item->network != 0;
		/* What is not differentiated has the number of what is next: only a network's operators tell. */
		run.trained |= item->network && sequence >= 0 && count &&
			       bsearch(&sequence, sequences, count, sizeof *sequences, by_value);
	}
	end_run(&run, phases, breakdown->step_thread, activity);
}

struct looking {
	const struct purposes *purposes;
	struct activity_spans *marks;
	size_t at;
	uint32_t thread;
	size_t evaluating, other;
};

static void judge(struct looking *looking)
{
	if (looking->evaluating > looking->other)
		looking->marks->items[looking->at].what = PHASE_EVALUATION;
	looking->evaluating = looking->other = 0;
	looking->at++;
}

static void take_sample(void *context, sqlite3_stmt *row)
{
	struct looking *looking = context;
	int64_t time = row_int(row, 0), stack = row_int(row, 1);
	if ((uint32_t)row_int(row, 2) != looking->thread)
		return;
	while (looking->at < looking->marks->count && looking->marks->items[looking->at].end <= time)
		judge(looking);
	if (looking->at == looking->marks->count || time < looking->marks->items[looking->at].start || stack == 0)
		return;
	if (purposes_of(looking->purposes, stack) == PURPOSE_EVALUATION)
		looking->evaluating++;
	else
		looking->other++;
}

void purpose_look_at_samples(const struct purposes *purposes, struct scan *scan, uint32_t thread,
			     struct activity *activity, size_t first)
{
	struct looking looking = {.purposes = purposes, .marks = &activity->marks, .at = first, .thread = thread};
	if (first >= activity->marks.count)
		return;
	scan_each(scan, "SELECT time, stack, thread FROM samples ORDER BY time", take_sample, &looking);
	while (!scan->error && looking.at < looking.marks->count)
		judge(&looking);
}
