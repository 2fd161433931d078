/* after.h - measures the step time after a capture, and tells it to the daemon once a few steps have passed. The
 * agent's thread only. */
#ifndef PROFD_AGENT_AFTER_H
#define PROFD_AGENT_AFTER_H

#include <stdint.h>

/* The capture's recording is over. */
void after_begin(uint64_t capture);

/* Sends the step time (AFTER) once it is due. Returns the CLOCK_MONOTONIC ns of the next look, UINT64_MAX for none. */
uint64_t after_work(uint64_t now);
/* Gives up: no AFTER is sent any more. */
void after_forget(void);

#endif
