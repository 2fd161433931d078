/* purpose.c - see purpose.h. The name of a function is not believed if the network that it ran is trained. */
#include "purpose.h"

#include "proto/base/array.h"
#include "proto/limits.h"

#include <stdlib.h>
#include <string.h>

/* A longer time without any operator (ns): nothing says that the function still runs. */
#define PAUSE 10000000

static void take_stack(void *context, sqlite3_stmt *row)
{
	struct purposes *purposes = context;
	int64_t id = row_int(row, 0), parent = row_int(row, 1);
	const char *function = (const char *)sqlite3_column_text(row, 2);
	if (id < 1 || id > purposes->count)
		return;
	enum purpose outer = parent > 0 && parent < id ? (enum purpose)purposes->of[parent] : PURPOSE_NONE;
	purposes->of[id] = (uint8_t)purpose_within(function ? purpose_of(function) : PURPOSE_NONE, outer);
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
	if (!scan_has(scan->db, "stacks", NULL))
		return;
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

/* PHASE_NONE: the purpose has no phase. */
static enum phase phase_of(enum purpose purpose)
{
	static const enum phase phases[PURPOSE_COUNT] = {
		[PURPOSE_VALIDATION] = PHASE_VALIDATION,
		[PURPOSE_TEST] = PHASE_TEST,
		[PURPOSE_EVALUATION] = PHASE_EVALUATION,
		[PURPOSE_INFERENCE] = PHASE_INFERENCE,
	};
	return phases[purpose];
}

/* Operators that follow each other in functions of one purpose. */
struct run {
	int64_t start, end;
	enum purpose purpose;
	bool network, trained;
};

static void end_run(struct run *run, const struct phases *phases, uint32_t thread, struct activity *activity)
{
	size_t low = ARRAY_BEFORE(phases->backward_count, middle, phases->backwards[middle] < run->start);
	bool backward = low < phases->backward_count && phases->backwards[low] < run->end;
	enum phase phase = phase_of(run->purpose);
	if (phase && run->network && !run->trained && !backward)
		activity_mark(activity, thread, run->start, run->end, phase);
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
		/* An operator that is not differentiated has the sequence number of the next one that is. So only a network's operators tell
		 * whether the run is trained. */
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
	size_t samples[PURPOSE_COUNT]; /* samples in the mark that is looked at, by purpose */
};

static void judge(struct looking *looking)
{
	static const enum purpose evaluate[] = {PURPOSE_VALIDATION, PURPOSE_TEST, PURPOSE_EVALUATION};
	size_t all = 0, evaluating = 0;
	enum purpose most = PURPOSE_EVALUATION;
	for (size_t i = 0; i < PURPOSE_COUNT; i++)
		all += looking->samples[i];
	for (size_t i = 0; i < sizeof evaluate / sizeof *evaluate; i++) {
		evaluating += looking->samples[evaluate[i]];
		if (looking->samples[evaluate[i]] > looking->samples[most])
			most = evaluate[i];
	}
	if (evaluating > all - evaluating)
		looking->marks->items[looking->at].what = (unsigned)phase_of(most) & 0xf;
	memset(looking->samples, 0, sizeof looking->samples);
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
	looking->samples[purposes_of(looking->purposes, stack)]++;
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
