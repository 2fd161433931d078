/* steps.c - see steps.h. */
#include "steps.h"

#include "proto/base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 1000000

static bool add(struct steps *steps, struct step step)
{
	if (!ARRAY_GROW(steps->rows, steps->count, steps->room))
		return false;
	steps->rows[steps->count++] = step;
	return true;
}

bool steps_add(struct steps *steps, const struct kineto_event *event, uint32_t thread)
{
	size_t before = sizeof STEP_ANNOTATION - 1;
	if (!event->name.text || strncmp(event->name.text, STEP_ANNOTATION, before) != 0)
		return true;
	char *end;
	errno = 0;
	long long number = strtoll(event->name.text + before, &end, 10);
	if (errno || end == event->name.text + before || *end || number < 0 || steps->count == STEPS_MAX)
		return true;
	return add(steps, (struct step){.number = number,
					.start = event->start,
					.end = event->start + event->duration,
					.thread = thread});
}

bool steps_window(struct steps *steps, int64_t start, int64_t end, uint32_t thread)
{
	steps->window = true;
	return add(steps, (struct step){.start = start, .end = end, .thread = thread});
}

static int by_start(const void *a, const void *b)
{
	const struct step *x = a, *y = b;
	return ORDER(x->start, y->start) ?: ORDER(x->number, y->number);
}

void steps_settle(struct steps *steps)
{
	qsort(steps->rows, steps->count, sizeof *steps->rows, by_start);
	size_t kept = 0;
	for (size_t i = 0; i < steps->count; i++) {
		struct step *last = kept ? &steps->rows[kept - 1] : NULL;
		/* The same annotation may stand there twice. */
		if (last && last->number == steps->rows[i].number)
			continue;
		if (last && (steps->rows[i].number == last->number + 1 || steps->rows[i].start < last->end))
			last->end = steps->rows[i].start;
		steps->rows[kept++] = steps->rows[i];
	}
	steps->count = kept;
}

uint32_t steps_at(const struct steps *steps, int64_t time)
{
	size_t low = ARRAY_BEFORE(steps->count, middle, steps->rows[middle].start <= time);
	return low && time < steps->rows[low - 1].end ? (uint32_t)low : 0;
}

void steps_free(struct steps *steps)
{
	free(steps->rows);
	*steps = (struct steps){0};
}
