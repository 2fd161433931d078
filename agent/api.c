/* api.c - the functions of profd.h. Any thread of the job. */
#include "profd.h"
#include "../proto/message.h"
#include "../proto/version.h"
#include "control.h"
#include "core/glob.h"
#include "core/life.h"
#include "enter.h"
#include "agent/sink/sink.h"
#include "steps/counter.h"
#include "steps/steps.h"

#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Frames of profd's own ranges: one stack, no domains. */
#define API_KEY 0
/* sink_frame.flags: its end is a step (--step-range). */
#define FRAME_IS_STEP 1

static inline void enter_life(void)
{
	if (__builtin_expect(!life_alive(), 0))
		enter_process(ENTRY_API);
}

EXPORT void profd_step(void)
{
	enter_life();
	steps_program_step();
}

static int is_step(const struct sink_frame *frame)
{
	return frame->flags & FRAME_IS_STEP;
}

EXPORT void profd_range_push(const char *name)
{
	enter_life();
	struct sink_thread *t = sink_enter(EVENT_RANGE);
	if (!t)
		return;
	/* Where matching ranges are nested, the outermost is the step. */
	int step = name && glob_match(control_step_range(), name, strlen(name)) &&
		   !sink_within(t, EVENT_RANGE, RANGE_SOURCE_PROFD, is_step);
	struct sink_frame *f = sink_open(t, EVENT_RANGE);
	if (f) {
		f->source = RANGE_SOURCE_PROFD;
		f->key = API_KEY;
		f->name = name ? sink_string(t, name, strlen(name), EVENT_RANGE) : 0;
		f->flags = step ? FRAME_IS_STEP : 0;
		f->start = sink_stamp();
	}
	sink_leave(t);
}

EXPORT void profd_range_pop(void)
{
	if (!sink_recording())
		return;
	uint64_t now = sink_stamp();
	struct sink_thread *t = sink_enter_pop();
	if (!t)
		return;
	struct sink_frame *f = sink_find(t, RANGE_SOURCE_PROFD, API_KEY);
	int step = 0;
	if (f) {
		step = f->flags & FRAME_IS_STEP;
		sink_close(t, f, now);
	}
	sink_leave(t);
	if (step)
		steps_range_end(now);
}

EXPORT void profd_mark(const char *name)
{
	enter_life();
	uint64_t now = sink_stamp();
	struct sink_thread *t = sink_enter(EVENT_MARK);
	if (!t)
		return;
	struct event_mark mark = {
		.head = {sizeof mark, EVENT_MARK, 0, sink_step()},
		.time = now,
		.thread = sink_tid(t),
		.source = RANGE_SOURCE_PROFD,
		.name = name ? sink_string(t, name, strlen(name), EVENT_MARK) : 0,
	};
	sink_write(t, &mark);
	sink_leave(t);
}

EXPORT const char *profd_version(void)
{
	return PROFD_VERSION;
}
