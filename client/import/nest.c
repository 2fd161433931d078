/* nest.c - see nest.h. */
#include "nest.h"

#include "proto/base/array.h"

#include <stdlib.h>

/* torch before 2.4 wrote whole microseconds: what lies inside may seem to end this much later. */
#define ROUNDED_NS 1000
#define DEPTH_MAX UINT16_MAX

/* RANGE and OPERATOR have the same beginning; only `depth` and these are written here. */
#define SET(frame, member, value)                                                                                      \
	do {                                                                                                           \
		if ((frame)->event.head.kind == EVENT_OPERATOR)                                                        \
			(frame)->event.operator.member =(value);                                                       \
		else                                                                                                   \
			(frame)->event.range.member = (value);                                                         \
	} while (0)
#define GET(of, member) ((of)->head.kind == EVENT_OPERATOR ? (of)->operator.member : (of)->range.member)

static bool close_one(struct nest *nest)
{
	struct nest_frame *frame = &nest->frames[--nest->count];
	uint64_t duration = frame->end - frame->start;
	SET(frame, self, duration > frame->children ? duration - frame->children : 0);
	return nest->closed(nest->context, &frame->event);
}

/* How much of the frame lies in its parent. */
static uint64_t inside(const struct nest_frame *parent, uint64_t start, uint64_t end)
{
	end = end < parent->end ? end : parent->end;
	return end > start ? end - start : 0;
}

/* Closes what has ended by then. */
static bool pass(struct nest *nest, uint32_t thread, uint64_t time)
{
	if (thread != nest->thread && !nest_end(nest))
		return false;
	nest->thread = thread;
	while (nest->count && nest->frames[nest->count - 1].end <= time)
		if (!close_one(nest))
			return false;
	return true;
}

bool nest_around(struct nest *nest, uint32_t thread, uint64_t time, uint64_t *ret_id)
{
	if (!pass(nest, thread, time))
		return false;
	*ret_id = nest->count ? GET(&nest->frames[nest->count - 1].event, id) : 0;
	return true;
}

bool nest_open(struct nest *nest, const union event_any *event)
{
	uint64_t start = GET(event, start), end = start + GET(event, duration);
	uint32_t thread = GET(event, thread);
	if (!pass(nest, thread, start))
		return false;
	/* What ends later than what it began in is no child of that. */
	while (nest->count && nest->frames[nest->count - 1].end + ROUNDED_NS < end)
		if (!close_one(nest))
			return false;
	if (!ARRAY_GROW(nest->frames, nest->count, nest->room))
		return false;
	struct nest_frame *frame = &nest->frames[nest->count], *parent = nest->count ? frame - 1 : NULL;
	*frame = (struct nest_frame){.event = *event, .start = start, .end = end};
	SET(frame, id, ++nest->last_id);
	SET(frame, parent, parent ? GET(&parent->event, id) : 0);
	SET(frame, depth, (uint16_t)(nest->count < DEPTH_MAX ? nest->count : DEPTH_MAX));
	bool is_node = event->head.kind == EVENT_OPERATOR && event->operator.scope == RECORD_SCOPE_BACKWARD;
	frame->node = is_node ? nest->last_id : parent ? parent->node : 0;
	if (nest->nodes && event->head.kind == EVENT_OPERATOR)
		frame->event.operator.backward = frame->node;
	if (parent)
		parent->children += inside(parent, start, end);
	nest->count++;
	return true;
}

bool nest_end(struct nest *nest)
{
	while (nest->count)
		if (!close_one(nest))
			return false;
	return true;
}

void nest_free(struct nest *nest)
{
	free(nest->frames);
	*nest = (struct nest){0};
}
