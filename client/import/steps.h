/* steps.h - the steps of a trace: torch.profiler's annotations "ProfilerStep#N", or one window where there is none. */
#ifndef PROFD_CLIENT_IMPORT_STEPS_H
#define PROFD_CLIENT_IMPORT_STEPS_H

#include "kineto.h"

#define STEP_ANNOTATION "ProfilerStep#"

/* Times are those of the trace. */
struct step {
	int64_t number, start, end;
	uint32_t thread;
};

struct steps {
	struct step *rows;
	size_t count, room;
	bool window; /* there is none: the only one is a window of time */
};

/* Takes an annotation, which is a step or not. False: no memory. */
bool steps_add(struct steps *steps, const struct kineto_event *event, uint32_t thread);
/* The only step where there is none: all that was recorded, on this thread. False: no memory. */
bool steps_window(struct steps *steps, int64_t start, int64_t end, uint32_t thread);
/* After the last one: in order of time, each once. A step lasts until the next one begins, where that has the next number. */
void steps_settle(struct steps *steps);
/* The ordinal, from 1 on, of the step in which this time lies; 0: in none. */
uint32_t steps_at(const struct steps *steps, int64_t time);
void steps_free(struct steps *steps);

#endif
