/* clock.c - see clock.h. */
#include "clock.h"

#include <stdio.h>
#include <time.h>

static uint64_t clock_read(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_thread(void)
{
	return clock_read(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t clock_monotonic(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

uint64_t clock_realtime(void)
{
	return clock_read(CLOCK_REALTIME);
}

void time_text(uint64_t realtime_ns, char ret[TIME_TEXT_BYTES])
{
	time_t seconds = (time_t)(realtime_ns / 1000000000u);
	struct tm calendar;
	char day[24];
	if (!gmtime_r(&seconds, &calendar) || !strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &calendar))
		day[0] = 0;
	snprintf(ret, TIME_TEXT_BYTES, "%s.%06uZ", day, (unsigned)(realtime_ns % 1000000000u / 1000u));
}
