/* activity.c - see activity.h. Each thread's spans and marks are swept once, by time. */
#include "activity.h"

#include "sorted.h"
#include "proto/base/array.h"

#include <stdlib.h>

_Static_assert((int)DOING_COUNT <= 16 && (int)PHASE_COUNT <= 16, "activity_pack() has 4 bits for each");

static int64_t bounded(int64_t time)
{
	return time > ACTIVITY_TIME_MOST ? ACTIVITY_TIME_MOST : time < -ACTIVITY_TIME_MOST ? -ACTIVITY_TIME_MOST : time;
}

static void add(struct activity *activity, struct activity_spans *list, struct activity_span span)
{
	span.start = bounded(span.start);
	span.end = bounded(span.end);
	if (span.end <= span.start || activity->failed)
		return;
	activity->failed = !ARRAY_GROW(list->items, list->count, list->room);
	if (!activity->failed)
		list->items[list->count++] = span;
}

void activity_add_named(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum doing doing,
			uint32_t name)
{
	add(activity, &activity->spans,
	    (struct activity_span){
		    .start = start, .end = end, .thread = thread, .name = name & 0xfffffff, .what = doing & 0xf});
}

void activity_add(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum doing doing)
{
	activity_add_named(activity, thread, start, end, doing, 0);
}

void activity_mark(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum phase phase)
{
	add(activity, &activity->marks,
	    (struct activity_span){.start = start, .end = end, .thread = thread, .what = phase & 0xf});
}

void activity_mark_module(struct activity *activity, uint32_t thread, int64_t start, int64_t end)
{
	add(activity, &activity->marks,
	    (struct activity_span){
		    .start = start, .end = end, .thread = thread, .name = ACTIVITY_MODULE, .what = PHASE_FORWARD});
}

static int by_start(const void *a, const void *b)
{
	const struct activity_span *x = a, *y = b;
	/* Of marks that begin at one instant the shorter is the inner one, and counts as the later. */
	return ORDER(x->thread, y->thread) ?: ORDER(x->start, y->start) ?: ORDER(y->end, x->end) ?: ORDER(x->what, y->what);
}

/* The end of a span that has begun, and which one it is among its thread's. */
struct ending {
	int64_t time;
	size_t index;
};

/* A heap: the first is the one that ends first. As many as are open at a time, which are few. */
struct endings {
	struct ending *items;
	size_t count, room;
};

/* False: no memory. */
static bool endings_push(struct endings *heap, int64_t time, size_t index)
{
	if (!ARRAY_GROW(heap->items, heap->count, heap->room))
		return false;
	size_t at = heap->count++;
	for (; at && heap->items[(at - 1) / 2].time > time; at = (at - 1) / 2)
		heap->items[at] = heap->items[(at - 1) / 2];
	heap->items[at] = (struct ending){.time = time, .index = index};
	return true;
}

/* The first of them; there must be one. */
static size_t endings_pop(struct endings *heap)
{
	size_t index = heap->items[0].index, at = 0;
	struct ending last = heap->items[--heap->count];
	for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
		if (child + 1 < heap->count && heap->items[child + 1].time < heap->items[child].time)
			child++;
		if (heap->items[child].time >= last.time)
			break;
		heap->items[at] = heap->items[child];
	}
	heap->items[at] = last;
	return index;
}

/* One thread's sweep. */
struct sweep {
	const struct activity_span *spans, *marks;
	size_t span_count, mark_count;
	struct endings span_ends, mark_ends; /* of what has begun */
	size_t *stack; /* marks in the order in which they began; those that have ended leave when they come to lie on top */
	bool *ended;
	size_t stacked;
	size_t keeping[PHASE_COUNT]; /* of phases that keep what is inside of them: how many are open */
	size_t open[DOING_COUNT];
	unsigned doing; /* bits: which of them are not 0 */
	int64_t *segments;
	size_t count;
	int64_t end; /* of the last */
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

/* Phases that keep what is inside of them, the strongest first. */
static const uint8_t keepers[] = {PHASE_INPUT, PHASE_EVALUATION, PHASE_INFERENCE};
#define KEEPERS (sizeof keepers / sizeof *keepers)

static bool keeps(uint8_t phase)
{
	return phase == PHASE_INPUT || phase == PHASE_EVALUATION || phase == PHASE_INFERENCE;
}

static uint8_t phase_now(struct sweep *sweep)
{
	for (size_t i = 0; i < KEEPERS; i++)
		if (sweep->keeping[keepers[i]])
			return keepers[i];
	while (sweep->stacked && sweep->ended[sweep->stack[sweep->stacked - 1]])
		sweep->stacked--;
	return sweep->stacked ? sweep->marks[sweep->stack[sweep->stacked - 1]].what : PHASE_NONE;
}

static void emit(struct sweep *sweep, int64_t from, int64_t to)
{
	if (to <= from)
		return;
	int64_t segment = activity_pack(from, phase_now(sweep), strongest(sweep));
	sweep->end = to;
	/* One like it goes on. */
	if (!sweep->count || ((sweep->segments[sweep->count - 1] ^ segment) & 0xff))
		sweep->segments[sweep->count++] = segment;
}

/* When something begins or ends next. False: nothing does any more. */
static bool next_border(const struct sweep *sweep, size_t span, size_t mark, int64_t *ret)
{
	int64_t next = INT64_MAX;
	if (span < sweep->span_count && sweep->spans[span].start < next)
		next = sweep->spans[span].start;
	if (mark < sweep->mark_count && sweep->marks[mark].start < next)
		next = sweep->marks[mark].start;
	if (sweep->span_ends.count && sweep->span_ends.items[0].time < next)
		next = sweep->span_ends.items[0].time;
	if (sweep->mark_ends.count && sweep->mark_ends.items[0].time < next)
		next = sweep->mark_ends.items[0].time;
	*ret = next;
	return span < sweep->span_count || mark < sweep->mark_count || sweep->span_ends.count || sweep->mark_ends.count;
}

static bool begin_mark(struct sweep *sweep, size_t mark)
{
	if (keeps(sweep->marks[mark].what))
		sweep->keeping[sweep->marks[mark].what]++;
	else
		sweep->stack[sweep->stacked++] = mark;
	return endings_push(&sweep->mark_ends, sweep->marks[mark].end, mark);
}

static void end_mark(struct sweep *sweep, size_t mark)
{
	if (keeps(sweep->marks[mark].what))
		sweep->keeping[sweep->marks[mark].what]--;
	sweep->ended[mark] = true;
}

/* False: no memory. */
static bool run(struct sweep *sweep)
{
	size_t span = 0, mark = 0;
	int64_t now, next;
	bool ok = true;
	next_border(sweep, span, mark, &now);
	while (ok && next_border(sweep, span, mark, &next)) {
		emit(sweep, now, next);
		now = next;
		for (; ok && span < sweep->span_count && sweep->spans[span].start == now; span++) {
			enter(sweep, sweep->spans[span].what);
			ok = endings_push(&sweep->span_ends, sweep->spans[span].end, span);
		}
		while (sweep->span_ends.count && sweep->span_ends.items[0].time == now)
			leave(sweep, sweep->spans[endings_pop(&sweep->span_ends)].what);
		for (; ok && mark < sweep->mark_count && sweep->marks[mark].start == now; mark++)
			ok = begin_mark(sweep, mark);
		while (sweep->mark_ends.count && sweep->mark_ends.items[0].time == now)
			end_mark(sweep, endings_pop(&sweep->mark_ends));
	}
	return ok;
}

static bool build_thread(struct activity_thread *ret, uint32_t thread, const struct activity_span *spans,
			 size_t span_count, const struct activity_span *marks, size_t mark_count)
{
	struct sweep sweep = {.spans = spans,
			      .marks = marks,
			      .span_count = span_count,
			      .mark_count = mark_count,
			      .stack = calloc(mark_count + 1, sizeof *sweep.stack),
			      .ended = calloc(mark_count + 1, sizeof *sweep.ended),
			      .segments = calloc(2 * (span_count + mark_count) + 1, sizeof *sweep.segments)};
	bool ok = sweep.stack && sweep.ended && sweep.segments && run(&sweep);
	free(sweep.span_ends.items);
	free(sweep.mark_ends.items);
	free(sweep.stack);
	free(sweep.ended);
	if (!ok) {
		free(sweep.segments);
		return false;
	}
	int64_t *fitting = realloc(sweep.segments, (sweep.count + 1) * sizeof *fitting);
	*ret = (struct activity_thread){.thread = thread,
					.segments = fitting ? fitting : sweep.segments,
					.count = sweep.count,
					.end = sweep.end};
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
		if (!ARRAY_GROW(activity->threads, activity->count, room))
			break;
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
	size_t low = ARRAY_BEFORE(activity->count, middle, activity->threads[middle].thread < thread);
	return low < activity->count && activity->threads[low].thread == thread ? &activity->threads[low] : NULL;
}

size_t activity_at(const struct activity_thread *thread, int64_t time)
{
	size_t low = ARRAY_BEFORE(thread->count, middle, activity_end(thread, middle) <= time);
	return low;
}

/* So many segments are passed by one by one. */
#define NEAR 16

size_t activity_near(const struct activity_thread *thread, int64_t time, size_t *near)
{
	size_t at = *near < thread->count ? *near : 0, until = at + NEAR;
	bool behind = at && activity_end(thread, at - 1) > time;
	while (!behind && at < thread->count && at < until && activity_end(thread, at) <= time)
		at++;
	if (behind || (at < thread->count && activity_end(thread, at) <= time))
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
