/* clock.h - how much time has passed. */
#ifndef PROFD_CLIENT_UI_CLOCK_H
#define PROFD_CLIENT_UI_CLOCK_H

#include <stdint.h>
#include <time.h>

/* ns of a clock of the system. */
static inline int64_t clock_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* CLOCK_MONOTONIC, in ns. */
static inline int64_t clock_now(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

#endif
