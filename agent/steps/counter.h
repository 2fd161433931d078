/* counter.h - the functions of the step counter for the agent's own files; collectors include steps.h. */
#ifndef PROFD_AGENT_STEPS_COUNTER_H
#define PROFD_AGENT_STEPS_COUNTER_H

#include "../../proto/status.h"

#include <stddef.h>
#include <stdint.h>

/* A program's profd_step(). Any thread. */
void steps_program_step(void);

/* The source that is counted now (enum step_source); steps that have ended; calls of other threads. */
uint32_t steps_source(void);
uint64_t steps_count(void);
uint64_t steps_other_threads(void);

/* Median duration in ns of the last `most` steps up to and including number `upto`; 0 where none is known. *ret_count,
 * if not NULL, gets the number of steps used. */
uint64_t steps_median(uint64_t upto, uint32_t most, uint32_t *ret_count);

/* The daemon's status page takes the place of the private one (taken). Agent's thread. */
void steps_publish(struct status_page *page);
/* In a fork child: makes a private page again. */
void steps_in_child(void);
/* Lets go of the daemon's page, and counts from 0 again. The agent's thread, or the thread that starts it. */
void steps_forget(void);

/* Called by the step thread at each boundary of the source: `number` steps of that source have ended. 0: a batch has
 * ended, but no step: the batch is of another phase than the steps, or lies within an epoch. */
typedef void steps_tick(uint32_t source, uint64_t now, uint64_t number);
/* `tick` is called from now on, or nothing (NULL). A call that is under way may still come. Agent's thread. */
void steps_follow(steps_tick *tick);

/* Sources that are seen only while armed: counting begins and ends. `optimizer`: glob of STEP_SOURCE_NAMED's class; `batches`:
 * enum batches of STEP_SOURCE_BATCH. Agent's thread. */
void steps_watch(uint32_t source, const char *optimizer, uint32_t batches);

/* Can the begins of the watched epochs not be seen? True once. Agent's thread. */
int steps_is_blind(void);

/* Optimizers that step in one iteration (0 = not known), their classes in `text`, and whether it is clear what an iteration
 * is. Agent's thread. */
uint32_t steps_optimizers(char *text, size_t bytes, uint32_t *ret_unclear);

#endif
