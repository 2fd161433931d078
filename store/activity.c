/* activity.c - see activity.h. Each thread's spans and marks are swept once, by time. */
#include "activity.h"

#include "sorted.h"

#include <stdlib.h>
#include <string.h>

static void add(struct activity *activity, struct activity_spans *list, const struct activity_span *span)
{
	if (span->end <= span->start || activity->failed)
		return;
	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 256;
		struct activity_span *items = realloc(list->items, room * sizeof *items);
		if (!items) {
			activity->failed = true;
			return;
		}
		list->items = items;
		list->room = room;
	}
	list->items[list->count++] = *span;
}

void activity_add_named(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum doing doing,
			uint32_t name)
{
	add(activity, &activity->spans,
	    &(struct activity_span){
		    .start = start, .end = end, .thread = thread, .name = name, .what = (uint8_t)doing});
}

void activity_add(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum doing doing)
{
	activity_add_named(activity, thread, start, end, doing, 0);
}

void activity_mark(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum phase phase)
{
	add(activity, &activity->marks,
	    &(struct activity_span){.start = start, .end = end, .thread = thread, .what = (uint8_t)phase});
}

static int by_start(const void *a, const void *b)
{
	const struct activity_span *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	/* Of marks that begin at one instant the shorter is the inner one, and counts as the later. */
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return x->what < y->what ? -1 : x->what > y->what;
}

/* The end of a span, and which one it is among its thread's. */
struct ending {
	int64_t time;
	size_t index;
};

static int by_time(const void *a, const void *b)
{
	const struct ending *x = a, *y = b;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* One thread's sweep. */
struct sweep {
	const struct activity_span *spans, *marks;
	size_t span_count, mark_count;
	struct ending *span_ends, *mark_ends;
	size_t *stack; /* marks in the order in which they began; those that have ended leave when they come to lie on top */
	bool *ended;
	size_t stacked, inputs;
	size_t open[DOING_COUNT];
	unsigned doing; /* bits: which of them are not 0 */
	struct activity_segment *segments;
	size_t count;
};

static void enter(struct sweep *sweep, uint8_t doing)
{
	sweep->open[doing]++;
	sweep->doing |= 1u << doing;
}

static void leave(struct sweep *sweep, uint8_t doing)
{
	if (--sweep->open[doing] == 0)
		sweep->doing &= ~(1u << doing);
}

static uint8_t strongest(const struct sweep *sweep)
{
	return sweep->doing ? (uint8_t)__builtin_ctz(sweep->doing) : DOING_OUTSIDE;
}

static uint8_t phase_now(struct sweep *sweep)
{
	if (sweep->inputs)
		return PHASE_INPUT;
	while (sweep->stacked && sweep->ended[sweep->stack[sweep->stacked - 1]])
		sweep->stacked--;
	return sweep->stacked ? sweep->marks[sweep->stack[sweep->stacked - 1]].what : PHASE_NONE;
}

static void emit(struct sweep *sweep, int64_t from, int64_t to)
{
	if (to <= from)
		return;
	uint8_t phase = phase_now(sweep), doing = strongest(sweep);
	struct activity_segment *last = sweep->count ? &sweep->segments[sweep->count - 1] : NULL;
	if (last && last->phase == phase && last->doing == doing) {
		last->end = to;
		return;
	}
	sweep->segments[sweep->count++] =
		(struct activity_segment){.start = from, .end = to, .phase = phase, .doing = doing};
}

static void run(struct sweep *sweep)
{
	size_t span = 0, mark = 0, span_end = 0, mark_end = 0;
	int64_t now = 0;
	bool begun = false;
	while (span_end < sweep->span_count || mark_end < sweep->mark_count) {
		int64_t next = INT64_MAX;
		if (span < sweep->span_count && sweep->spans[span].start < next)
			next = sweep->spans[span].start;
		if (mark < sweep->mark_count && sweep->marks[mark].start < next)
			next = sweep->marks[mark].start;
		if (span_end < sweep->span_count && sweep->span_ends[span_end].time < next)
			next = sweep->span_ends[span_end].time;
		if (mark_end < sweep->mark_count && sweep->mark_ends[mark_end].time < next)
			next = sweep->mark_ends[mark_end].time;
		if (begun)
			emit(sweep, now, next);
		begun = true;
		now = next;
		for (; span < sweep->span_count && sweep->spans[span].start == now; span++)
			enter(sweep, sweep->spans[span].what);
		for (; span_end < sweep->span_count && sweep->span_ends[span_end].time == now; span_end++)
			leave(sweep, sweep->spans[sweep->span_ends[span_end].index].what);
		for (; mark < sweep->mark_count && sweep->marks[mark].start == now; mark++) {
			if (sweep->marks[mark].what == PHASE_INPUT)
				sweep->inputs++;
			else
				sweep->stack[sweep->stacked++] = mark;
		}
		for (; mark_end < sweep->mark_count && sweep->mark_ends[mark_end].time == now; mark_end++) {
			size_t index = sweep->mark_ends[mark_end].index;
			if (sweep->marks[index].what == PHASE_INPUT)
				sweep->inputs--;
			sweep->ended[index] = true;
		}
	}
}

static struct ending *endings(const struct activity_span *spans, size_t count)
{
	/* Not cleared: all of it is written. */
	struct ending *ends = malloc((count + 1) * sizeof *ends);
	if (!ends)
		return NULL;
	for (size_t i = 0; i < count; i++)
		ends[i] = (struct ending){.time = spans[i].end, .index = i};
	sort_if_needed(ends, count, sizeof *ends, by_time);
	return ends;
}

static bool build_thread(struct activity_thread *ret, uint32_t thread, const struct activity_span *spans,
			 size_t span_count, const struct activity_span *marks, size_t mark_count)
{
	struct sweep sweep = {.spans = spans,
			      .marks = marks,
			      .span_count = span_count,
			      .mark_count = mark_count,
			      .span_ends = endings(spans, span_count),
			      .mark_ends = endings(marks, mark_count),
			      .stack = calloc(mark_count + 1, sizeof *sweep.stack),
			      .ended = calloc(mark_count + 1, sizeof *sweep.ended),
			      .segments = calloc(2 * (span_count + mark_count) + 1, sizeof *sweep.segments)};
	bool ok = sweep.span_ends && sweep.mark_ends && sweep.stack && sweep.ended && sweep.segments;
	if (ok)
		run(&sweep);
	free(sweep.span_ends);
	free(sweep.mark_ends);
	free(sweep.stack);
	free(sweep.ended);
	if (!ok) {
		free(sweep.segments);
		return false;
	}
	struct activity_segment *fitting = realloc(sweep.segments, (sweep.count + 1) * sizeof *fitting);
	*ret = (struct activity_thread){
		.thread = thread, .segments = fitting ? fitting : sweep.segments, .count = sweep.count};
	return true;
}

static size_t same_thread(const struct activity_spans *list, size_t from, uint32_t thread)
{
	size_t to = from;
	while (to < list->count && list->items[to].thread == thread)
		to++;
	return to;
}

bool activity_build(struct activity *activity)
{
	struct activity_spans *spans = &activity->spans, *marks = &activity->marks;
	if (activity->failed)
		return false;
	if (spans->count)
		sort_if_needed(spans->items, spans->count, sizeof *spans->items, by_start);
	if (marks->count)
		sort_if_needed(marks->items, marks->count, sizeof *marks->items, by_start);
	size_t room = 0, span = 0, mark = 0;
	while (span < spans->count || mark < marks->count) {
		uint32_t thread = UINT32_MAX;
		if (span < spans->count)
			thread = spans->items[span].thread;
		if (mark < marks->count && marks->items[mark].thread < thread)
			thread = marks->items[mark].thread;
		if (activity->count == room) {
			room = room ? room * 2 : 16;
			struct activity_thread *threads = realloc(activity->threads, room * sizeof *threads);
			if (!threads)
				break;
			activity->threads = threads;
		}
		size_t span_end = same_thread(spans, span, thread), mark_end = same_thread(marks, mark, thread);
		if (!build_thread(&activity->threads[activity->count], thread,
				  spans->items ? spans->items + span : NULL, span_end - span,
				  marks->items ? marks->items + mark : NULL, mark_end - mark))
			break;
		activity->count++;
		span = span_end;
		mark = mark_end;
	}
	activity->failed = span < spans->count || mark < marks->count;
	return !activity->failed;
}

const struct activity_thread *activity_find(const struct activity *activity, uint32_t thread)
{
	size_t low = 0, high = activity->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (activity->threads[middle].thread < thread)
			low = middle + 1;
		else
			high = middle;
	}
	return low < activity->count && activity->threads[low].thread == thread ? &activity->threads[low] : NULL;
}

size_t activity_at(const struct activity_thread *thread, int64_t time)
{
	size_t low = 0, high = thread->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (thread->segments[middle].end <= time)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* So many segments are passed by one by one. */
#define NEAR 16

size_t activity_near(const struct activity_thread *thread, int64_t time, size_t *near)
{
	size_t at = *near < thread->count ? *near : 0, until = at + NEAR;
	bool behind = at && thread->segments[at - 1].end > time;
	while (!behind && at < thread->count && at < until && thread->segments[at].end <= time)
		at++;
	if (behind || (at < thread->count && thread->segments[at].end <= time))
		at = activity_at(thread, time);
	*near = at;
	return at;
}

void activity_free(struct activity *activity)
{
	for (size_t i = 0; i < activity->count; i++)
		free(activity->threads[i].segments);
	free(activity->threads);
	free(activity->spans.items);
	free(activity->marks.items);
	*activity = (struct activity){0};
}
