/* clock.h - the clock of all that the agent records. */
#ifndef PROFD_AGENT_CORE_CLOCK_H
#define PROFD_AGENT_CORE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC ns. */
static inline uint64_t clock_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
