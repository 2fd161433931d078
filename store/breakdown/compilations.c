/* compilations.c - see compilations.h. */
#include "compilations.h"

#include "proto/base/array.h"
#include "proto/events.h"

#include <stdlib.h>
#include <string.h>

/* Times of compilations are in microseconds, and from another clock. */
#define ROUGH_NS 10000

static void take(void *context, sqlite3_stmt *row)
{
	struct compilations *compilations = context;
	const char *id = (const char *)sqlite3_column_text(row, 5);
	const char *times = id ? strrchr(id, '/') : NULL;
	int64_t start = bounded(row_int(row, 1)), end = end_of(start, row_int(row, 2));
	if (end <= start || compilations->count == COMPILATIONS_MOST)
		return;
	compilations->items[compilations->count++] =
		(struct compilation){.row = row_int(row, 0),
				     .start = start,
				     .end = end,
				     .part = (uint8_t)row_int(row, 3),
				     .function = (uint32_t)row_int(row, 4),
				     .again = times && strtol(times + 1, NULL, 10) > 0,
				     .before = INT64_MIN};
}

void compilations_read(struct compilations *compilations, struct scan *scan)
{
	scan_each(
		scan,
		"SELECT rowid, start, duration, part, function, (SELECT text FROM strings WHERE id = compile_id) FROM "
		"compile_events ORDER BY start, rowid",
		take, compilations);
}

void compilations_take(struct compilations *compilations, int64_t start, int64_t end, const struct meaning *name)
{
	size_t next = ARRAY_BEFORE(compilations->count, middle, compilations->items[middle].start <= start);
	if (next == compilations->count)
		return;
	struct compilation *item = &compilations->items[next];
	if (start >= item->before) {
		item->before = start;
		item->searched = name->searches;
	}
	/* Compiled code runs: it compiles the backward, or the rest of the function. */
	for (; name->compiled && next < compilations->count && compilations->items[next].start < end; next++) {
		item = &compilations->items[next];
		item->of_step_thread |= item->part != COMPILE_FORWARD && item->end <= end + ROUGH_NS;
	}
}

/* Does a step end during the compilation? Then another thread compiled: the step's thread ends no step meanwhile. */
static bool ends_step_within(const struct breakdown *breakdown, const struct compilation *item)
{
	size_t next =
		ARRAY_BEFORE(breakdown->step_count, middle, breakdown->steps[middle].start <= item->start + ROUGH_NS);
	return next < breakdown->step_count && breakdown->steps[next].start < item->end - ROUGH_NS;
}

/* Takes out the step thread's operators that began in one of its compilations. */
static void leave_out(const struct compilations *compilations, struct phases *phases)
{
	size_t kept = 0;
	for (size_t i = 0; i < phases->count; i++) {
		const struct phases_operator *item = &phases->items[i];
		size_t after =
			ARRAY_BEFORE(compilations->count, middle, compilations->items[middle].start <= item->start);
		bool within = false;
		for (size_t at = after; at-- > 0 && !within && item->on_step_thread;)
			within = compilations->items[at].of_step_thread && compilations->items[at].end > item->start;
		if (!within)
			phases->items[kept++] = *item;
	}
	phases->count = kept;
}

void compilations_mark(struct compilations *compilations, const struct breakdown *breakdown, struct phases *phases,
		       struct activity *activity)
{
	int64_t before = INT64_MIN;
	bool searched = false;
	for (size_t i = 0; i < compilations->count; i++) {
		struct compilation *item = &compilations->items[i];
		if (item->before > before) {
			before = item->before;
			searched = item->searched;
		}
		item->of_step_thread |= item->part == COMPILE_FORWARD && searched;
		item->of_step_thread &= !ends_step_within(breakdown, item);
		if (item->of_step_thread)
			activity_add(activity, breakdown->step_thread, item->start, item->end, DOING_TORCH_COMPILE);
	}
	if (compilations->count)
		leave_out(compilations, phases);
}
