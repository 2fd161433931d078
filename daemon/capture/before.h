/* before.h - what only the steps before a capture show: a few steps took much of the time, and no such step was
 * recorded (an evaluation each hundred steps, the rollouts of reinforcement learning). No locks. */
#ifndef PROFD_DAEMON_CAPTURE_BEFORE_H
#define PROFD_DAEMON_CAPTURE_BEFORE_H

#include "proto/status.h"

#include <stddef.h>
#include <stdint.h>

/* `count` steps, from step `first` on, were recorded. "": there is nothing to say, or the page does not hold enough of
 * them any more. */
void before_tell(const struct status_page *page, uint64_t first, uint64_t count, char *to, size_t bytes);

#endif
