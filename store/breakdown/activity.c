/* activity.c - see activity.h. One sweep by time over each thread's spans and marks. */
#include "activity.h"

#include "sorted.h"
#include "proto/base/array.h"
#include "proto/base/large.h"

#include <stdlib.h>

_Static_assert((int)DOING_COUNT <= 16 && (int)PHASE_COUNT <= 16, "activity_pack() has 4 bits for each");

static int64_t bounded(int64_t time)
{
	return time > ACTIVITY_TIME_MOST ? ACTIVITY_TIME_MOST : time < -ACTIVITY_TIME_MOST ? -ACTIVITY_TIME_MOST : time;
}

static void put(struct activity *activity, struct activity_spans *list, const struct activity_span *span)
{
	activity->failed = !LARGE_GROW(list->items, list->count, list->room);
	if (!activity->failed)
		list->items[list->count++] = *span;
}

/* False: the span is empty, or memory has run out. */
static bool is_span(const struct activity *activity, struct activity_span *span)
{
	span->start = bounded(span->start);
	span->end = bounded(span->end);
	return span->end > span->start && !activity->failed;
}

/* A new thread. NULL: no memory. */
static struct activity_thread *new_thread(struct activity *activity, uint32_t thread)
{
	activity->places.bytes = 1; /* its value is not used */
	if (!numbered_add(&activity->places, thread, 0, 0) ||
	    !ARRAY_GROW(activity->threads, activity->count, activity->room)) {
		activity->failed = true;
		return NULL;
	}
	activity->near = activity->count++;
	struct activity_thread *made = &activity->threads[activity->near];
	*made = (struct activity_thread){.thread = thread};
	if (thread == activity->expected_thread)
		made->spans.items =
			large_reserve(activity->expected_spans, &made->spans.room, sizeof *made->spans.items);
	return made;
}

/* The thread of this number, before activity_build(). Mostly it is the one that was asked for last. NULL: no memory. */
static struct activity_thread *thread_of(struct activity *activity, uint32_t thread)
{
	if (activity->near < activity->count && activity->threads[activity->near].thread == thread)
		return &activity->threads[activity->near];
	uint32_t place = numbered_find(&activity->places, thread, 0, 0);
	if (place == NUMBERED_NONE)
		return new_thread(activity, thread);
	activity->near = place;
	return &activity->threads[place];
}

void activity_add_named(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum doing doing,
			uint32_t name)
{
	struct activity_span span = {
		.start = start, .end = end, .thread = thread, .name = name & 0xfffffff, .what = doing & 0xf};
	struct activity_thread *list = is_span(activity, &span) ? thread_of(activity, thread) : NULL;
	if (list)
		put(activity, &list->spans, &span);
}

void activity_add(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum doing doing)
{
	activity_add_named(activity, thread, start, end, doing, 0);
}

static void mark(struct activity *activity, struct activity_span span)
{
	if (is_span(activity, &span))
		put(activity, &activity->marks, &span);
}

void activity_mark_named(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum phase phase,
			 uint32_t name)
{
	mark(activity,
	     (struct activity_span){
		     .start = start, .end = end, .thread = thread, .name = name & 0xfffffff, .what = phase & 0xf});
}

void activity_mark(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum phase phase)
{
	activity_mark_named(activity, thread, start, end, phase, 0);
}

void activity_mark_module(struct activity *activity, uint32_t thread, int64_t start, int64_t end)
{
	mark(activity,
	     (struct activity_span){
		     .start = start, .end = end, .thread = thread, .name = ACTIVITY_MODULE, .what = PHASE_FORWARD});
}

static int by_start(const void *a, const void *b)
{
	const struct activity_span *x = a, *y = b;
	return ORDER(x->start, y->start) ?: ORDER(y->end, x->end) ?: ORDER(x->what, y->what);
}

static int by_number(const void *a, const void *b)
{
	const struct activity_thread *x = a, *y = b;
	return ORDER(x->thread, y->thread);
}

static int by_thread(const void *a, const void *b)
{
	const struct activity_span *x = a, *y = b;
	/* If marks begin at one instant, the shorter one lies inside, and counts as the later one. */
	return ORDER(x->thread, y->thread) ?: ORDER(x->start, y->start) ?: ORDER(y->end, x->end) ?: ORDER(x->what, y->what);
}

/* When a mark that has begun ends, and which one it is among its thread's. */
struct ending {
	int64_t time;
	size_t index;
};

/* A heap of the marks that are open at a time, which are few. The first is the one that ends first. */
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

/* Takes the first one out. There must be one. */
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

/* One thread's sweep. For each doing only the latest end counts: a span inside of another one with the same doing
 * changes nothing. */
struct sweep {
	const struct activity_span *spans, *marks;
	size_t span_count, mark_count;
	int64_t until[DOING_COUNT]; /* the latest end of spans that have begun */
	unsigned doing;		    /* bits: what the thread does now */
	struct endings mark_ends;   /* of marks that have begun */
	size_t *stack; /* marks in the order in which they began; one that has ended leaves once it is on top */
	bool *ended;
	size_t stacked;
	size_t keeping[PHASE_COUNT]; /* how many marks are open, by phases that keep what is inside of them */
	int64_t *segments;
	size_t count;
	int64_t end; /* of the last segment */
};

/* Passes over spans that begin while the thread does the same already. Returns the first other span, or the count. */
static size_t pass_by(struct sweep *sweep, size_t span)
{
	for (; span < sweep->span_count; span++) {
		large_go(sizeof *sweep->spans);
		const struct activity_span *at = &sweep->spans[span];
		if (!(sweep->doing & 1u << at->what) || at->start > sweep->until[at->what])
			break;
		if (at->end > sweep->until[at->what])
			sweep->until[at->what] = at->end;
	}
	return span;
}

static void begin(struct sweep *sweep, const struct activity_span *span)
{
	sweep->doing |= 1u << span->what;
	sweep->until[span->what] = span->end;
}

static void end_doings(struct sweep *sweep, int64_t now)
{
	for (unsigned open = sweep->doing; open; open &= open - 1)
		if (sweep->until[__builtin_ctz(open)] <= now)
			sweep->doing &= ~(open & -open);
}

static uint8_t strongest(const struct sweep *sweep)
{
	return sweep->doing ? (uint8_t)__builtin_ctz(sweep->doing) : DOING_OUTSIDE;
}

/* Phases that keep what is inside of them, the strongest first. */
static const uint8_t keepers[] = {PHASE_INPUT, PHASE_VALIDATION, PHASE_TEST, PHASE_EVALUATION, PHASE_INFERENCE};
#define KEEPERS (sizeof keepers / sizeof *keepers)

static bool keeps(uint8_t phase)
{
	return phase == PHASE_INPUT || phase >= PHASE_VALIDATION;
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
	/* Otherwise the last segment goes on. */
	if (!sweep->count || ((sweep->segments[sweep->count - 1] ^ segment) & 0xff))
		sweep->segments[sweep->count++] = segment;
	large_go(sizeof segment);
}

/* When the next span or mark begins or ends; INT64_MAX: none does. */
static int64_t next_border(const struct sweep *sweep, size_t span, size_t mark)
{
	int64_t next = INT64_MAX;
	if (span < sweep->span_count)
		next = sweep->spans[span].start;
	if (mark < sweep->mark_count && sweep->marks[mark].start < next)
		next = sweep->marks[mark].start;
	for (unsigned open = sweep->doing; open; open &= open - 1)
		if (sweep->until[__builtin_ctz(open)] < next)
			next = sweep->until[__builtin_ctz(open)];
	if (sweep->mark_ends.count && sweep->mark_ends.items[0].time < next)
		next = sweep->mark_ends.items[0].time;
	return next;
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
	int64_t now = next_border(sweep, span, mark), next;
	bool ok = true;
	while (ok && (next = next_border(sweep, span, mark)) != INT64_MAX) {
		emit(sweep, now, next);
		now = next;
		end_doings(sweep, now);
		for (; span < sweep->span_count && sweep->spans[span].start <= now; span = pass_by(sweep, span + 1))
			begin(sweep, &sweep->spans[span]);
		for (; ok && mark < sweep->mark_count && sweep->marks[mark].start == now; mark++)
			ok = begin_mark(sweep, mark);
		while (sweep->mark_ends.count && sweep->mark_ends.items[0].time == now)
			end_mark(sweep, endings_pop(&sweep->mark_ends));
	}
	return ok;
}

/* The thread's marks are the first `mark_count` of `marks`. False: no memory. */
static bool build_thread(struct activity_thread *thread, const struct activity_span *marks, size_t mark_count)
{
	size_t borders = 2 * (thread->spans.count + mark_count);
	struct sweep sweep = {.spans = thread->spans.items,
			      .marks = marks,
			      .span_count = thread->spans.count,
			      .mark_count = mark_count,
			      .stack = large_get_clear(mark_count + 1, sizeof *sweep.stack),
			      .ended = large_get_clear(mark_count + 1, sizeof *sweep.ended),
			      .segments = large_get(borders + 1, sizeof *sweep.segments)};
	bool ok = sweep.stack && sweep.ended && sweep.segments && run(&sweep);
	free(sweep.mark_ends.items);
	large_free(sweep.stack);
	large_free(sweep.ended);
	if (!ok) {
		large_free(sweep.segments);
		return false;
	}
	int64_t *fitting = large_fit(sweep.segments, (sweep.count + 1) * sizeof *fitting);
	thread->segments = fitting ? fitting : sweep.segments;
	thread->count = sweep.count;
	thread->end = sweep.end;
	return true;
}

static size_t same_thread(const struct activity_spans *list, size_t from, uint32_t thread)
{
	size_t to = from;
	while (to < list->count && list->items[to].thread == thread)
		to++;
	return to;
}

/* Sorts all threads, and adds those that have only marks. */
static void sort_threads(struct activity *activity)
{
	for (size_t i = 0; i < activity->marks.count && !activity->failed; i++)
		thread_of(activity, activity->marks.items[i].thread);
	if (activity->count)
		qsort(activity->threads, activity->count, sizeof *activity->threads, by_number);
	numbered_deinit(&activity->places);
}

bool activity_build(struct activity *activity)
{
	struct activity_spans *marks = &activity->marks;
	size_t mark = 0;
	sort_threads(activity);
	if (marks->count)
		sort_if_needed(marks->items, marks->count, sizeof *marks->items, by_thread);
	for (size_t i = 0; i < activity->count && !activity->failed; i++) {
		struct activity_thread *thread = &activity->threads[i];
		size_t mark_end = same_thread(marks, mark, thread->thread);
		if (thread->spans.count)
			sort_if_needed(thread->spans.items, thread->spans.count, sizeof *thread->spans.items, by_start);
		activity->failed = !build_thread(thread, marks->items ? marks->items + mark : NULL, mark_end - mark);
		mark = mark_end;
	}
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

/* So many segments are looked at one by one. */
#define NEAR 16

size_t activity_near(const struct activity_thread *thread, int64_t time, size_t *near)
{
	size_t at = *near < thread->count ? *near : thread->count, left = NEAR;
	for (; left && at < thread->count && activity_end(thread, at) <= time; left--)
		at++;
	for (; left && at && activity_end(thread, at - 1) > time; left--)
		at--;
	if (!left)
		at = activity_at(thread, time);
	*near = at;
	return at;
}

void activity_free(struct activity *activity)
{
	for (size_t i = 0; i < activity->count; i++) {
		large_free(activity->threads[i].spans.items);
		large_free(activity->threads[i].segments);
	}
	free(activity->threads);
	numbered_deinit(&activity->places);
	large_free(activity->marks.items);
	*activity = (struct activity){0};
}
