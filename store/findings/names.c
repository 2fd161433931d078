/* names.c - see names.h. It goes once over the spans of a thread, in the order of their starts, with a stack of the
 * open ones. */
#include "names.h"
#include "proto/base/array.h"

#include <stdlib.h>

/* So many open spans are looked at, from the innermost outwards. No stack is deeper. */
#define DEPTH_MOST 128
/* An event that covers this much of a stretch names it. */
#define COVERS(part, whole) ((part) / 4 >= (whole) / 5)

struct question {
	uint32_t thread;
	int64_t asked;
	struct claims_stretch *stretch;
};

static int by_thread(const void *a, const void *b)
{
	const struct question *x = a, *y = b;
	return ORDER(x->thread, y->thread) ?: ORDER(x->asked, y->asked);
}

/* May the span name the stretch? For idle time after a wait, the wait may, wherever it ends. Anything else has to be
 * covered by the span. */
static bool names(const struct claims_stretch *stretch, const struct activity_span *span)
{
	int64_t from = span->start > stretch->interval.start ? span->start : stretch->interval.start;
	int64_t to = span->end < stretch->interval.end ? span->end : stretch->interval.end;
	if (stretch->kind == FINDING_SYNC)
		return span->what == DOING_SYNC || span->what == DOING_COPY || span->what == DOING_OPERATOR;
	return to > from && COVERS(to - from, stretch->interval.end - stretch->interval.start);
}

static void answer(struct claims_stretch *stretch, const struct activity_span *const *open, size_t depth)
{
	bool inner = false;
	size_t last = depth > DEPTH_MOST ? depth - DEPTH_MOST : 0;
	for (size_t i = depth; i > last; i--) {
		const struct activity_span *span = open[i - 1];
		if (span->end <= stretch->asked || !names(stretch, span))
			continue;
		if (!inner) {
			stretch->interval.name = span->name;
			stretch->span = span->start;
		}
		inner = true;
		if (span->what == DOING_OPERATOR || span->what == DOING_COMM)
			stretch->interval.outer = span->name;
	}
}

/* A stack of the open spans, with room for all of a thread. */
struct open {
	const struct activity_span **items;
	size_t count, room;
};

static bool open_room(struct open *open, size_t count)
{
	if (count <= open->room)
		return true;
	free(open->items);
	open->items = calloc(count, sizeof *open->items);
	open->room = open->items ? count : 0;
	return open->items;
}

/* Answers the questions about one thread. Returns how many there were. */
static size_t walk(const struct activity *activity, const struct question *questions, size_t count, struct open *open)
{
	const struct activity_thread *thread = activity_find(activity, questions->thread);
	size_t at = 0, i = 0;
	if (!open_room(open, thread ? thread->spans.count : 0))
		return 0;
	open->count = 0;
	for (; i < count && questions[i].thread == questions->thread; i++) {
		for (; thread && at < thread->spans.count && thread->spans.items[at].start <= questions[i].asked;
		     at++) {
			while (open->count && open->items[open->count - 1]->end <= thread->spans.items[at].start)
				open->count--;
			open->items[open->count++] = &thread->spans.items[at];
		}
		answer(questions[i].stretch, open->items, open->count);
	}
	return i;
}

/* An input's name is that of the operator or range that marks it: the innermost open one. */
static void name_input(const struct activity *activity, struct claims *claims)
{
	for (size_t i = 0; i < activity->marks.count; i++) {
		const struct activity_span *mark = &activity->marks.items[i];
		for (size_t k = 0; mark->what == PHASE_INPUT && k < claims->longest_count[FINDING_INPUT]; k++) {
			struct claims_stretch *stretch = &claims->longest[FINDING_INPUT][k];
			if (mark->thread != stretch->interval.thread || mark->start > stretch->asked ||
			    mark->end <= stretch->asked)
				continue;
			stretch->interval.outer = mark->name;
			/* Marks are not among the spans: no operator inside of the mark covers it. */
			if (!stretch->interval.name || stretch->span < mark->start)
				stretch->interval.name = mark->name;
		}
	}
}

bool claims_name(const struct breakdown_capture *capture, struct claims *claims)
{
	struct open open = {0};
	size_t count = claims->named_count, at = 0, done = 0;
	for (size_t kind = 0; kind < FINDING_KINDS; kind++)
		count += claims->longest_count[kind];
	struct question *questions = calloc(count + 1, sizeof *questions);
	bool ok = questions;
	if (ok) {
		for (size_t i = 0; i < claims->named_count; i++)
			questions[at++] = (struct question){.stretch = &claims->named[i]};
		for (size_t kind = 0; kind < FINDING_KINDS; kind++)
			for (size_t i = 0; i < claims->longest_count[kind]; i++)
				questions[at++] = (struct question){.stretch = &claims->longest[kind][i]};
		for (size_t i = 0; i < at; i++) {
			questions[i].thread = questions[i].stretch->interval.thread;
			questions[i].asked = questions[i].stretch->asked;
		}
		qsort(questions, at, sizeof *questions, by_thread);
		for (size_t part = 1; done < at && part; done += part)
			part = walk(&capture->activity, questions + done, at - done, &open);
		ok = done == at;
	}
	name_input(&capture->activity, claims);
	free(questions);
	free(open.items);
	return ok;
}
