/* steps.h - what other collectors tell the step counter. Safe from any thread, inside or outside of a recording. */
#ifndef PROFD_AGENT_STEPS_H
#define PROFD_AGENT_STEPS_H

#include <stddef.h>
#include <stdint.h>

/* torch: an `Optimizer.step#...` user scope has ended at `now` / a DataLoader's `__next__` has begun. */
void steps_optimizer_end(uint64_t now);
void steps_loader_next(void);

/* A range named by the capture's step_range, or an operator named by its step_operator, has ended. The collector has
 * matched the name (steps_match). */
void steps_range_end(uint64_t now);
void steps_operator_end(uint64_t now);

/* 1 where `name` (bytes long) matches the glob (with * and ?). "" matches nothing. */
int steps_match(const char *glob, const char *name, size_t bytes);

#endif
