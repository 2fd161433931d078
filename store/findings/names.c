/* names.c - see names.h. Spans of a thread are walked once, in
 * the order of their starts, with those that are open on a stack. */
#include "names.h"
#include "proto/base/array.h"

#include <stdlib.h>

/* Open spans that are looked at from the innermost outwards: more stand on no stack. */
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

/* A wait is what it is wherever it ends; anything else is named by what covers it. */
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
		if (!inner)
			stretch->interval.name = span->name;
		inner = true;
		if (span->what == DOING_OPERATOR || span->what == DOING_COMM)
			stretch->interval.outer = span->name;
	}
}

static void walk(const struct activity_spans *spans, const struct question *questions, size_t count,
		 const struct activity_span **open)
{
	size_t at = 0, depth = 0;
	uint32_t thread = 0;
	for (size_t i = 0; i < count; i++) {
		if (!i || questions[i].thread != thread)
			depth = 0;
		thread = questions[i].thread;
		while (at < spans->count && spans->items[at].thread < thread)
			at++;
		for (; at < spans->count && spans->items[at].thread == thread &&
		       spans->items[at].start <= questions[i].asked;
		     at++) {
			while (depth && open[depth - 1]->end <= spans->items[at].start)
				depth--;
			open[depth++] = &spans->items[at];
		}
		answer(questions[i].stretch, open, depth);
	}
}

bool claims_name(const struct breakdown_capture *capture, struct claims *claims)
{
	const struct activity_spans *spans = &capture->activity.spans;
	size_t count = claims->named_count, at = 0;
	for (size_t kind = 0; kind < FINDING_KINDS; kind++)
		count += claims->longest_count[kind];
	struct question *questions = calloc(count + 1, sizeof *questions);
	const struct activity_span **open = calloc(spans->count + 1, sizeof *open);
	bool ok = questions && open;
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
		walk(spans, questions, at, open);
	}
	free(questions);
	free(open);
	return ok;
}
