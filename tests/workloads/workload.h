/* workload.h - what the C workloads share: arguments as --name=value, time, and profd_step() where the agent is in the
 * process (found by dlsym, so that the same binary runs without it).
 *
 * A workload that asks stays() steps N times, and then on, uncounted, until whoever watches it is done: its output is that of
 * N steps, however busy the machine is. One that is watched as it ends holds at step HELD instead. */
#ifndef PROFD_TESTS_WORKLOAD_H
#define PROFD_TESTS_WORKLOAD_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { HELD = 5 };

/* The value of --name=VALUE, or `otherwise`. */
static inline const char *argument(char **argv, const char *name, const char *otherwise)
{
	size_t n = strlen(name);
	for (char **a = argv + 1; *a; a++)
		if (strncmp(*a, "--", 2) == 0 && strncmp(*a + 2, name, n) == 0 && (*a)[n + 2] == '=')
			return *a + n + 3;
	return otherwise;
}

static inline double number(char **argv, const char *name, double otherwise)
{
	const char *text = argument(argv, name, NULL);
	return text ? strtod(text, NULL) : otherwise;
}

static inline double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What waits for another thread sleeps so long between two looks. It does not call sched_yield(): on Linux 6.18, processes that yield in a loop
 * while a thread of theirs wakes up every 50 us left all others without a processor for as long as they ran. */
static inline void nap(void)
{
	nanosleep(&(struct timespec){0, 50000}, NULL);
}

/* Sleeps most of the way and spins the rest, so that a step of 0.2 ms is one. */
static inline void wait_until(double when)
{
	for (double left; (left = when - seconds()) > 0;) {
		if (left < 200e-6)
			continue;
		struct timespec t = {(time_t)(left - 100e-6), 0};
		t.tv_nsec = (long)((left - 100e-6 - (double)t.tv_sec) * 1e9);
		nanosleep(&t, NULL);
	}
}

/* Waits until the next step is due. A step that comes late on a busy machine is not made up for by shorter ones after it. */
static inline void pace(double *next, double step_time)
{
	double now = seconds();
	*next = (*next + step_time > now ? *next : now - step_time) + step_time;
	wait_until(*next);
}

static inline int thread_id(void)
{
	return (int)syscall(SYS_gettid);
}

/* Whether whoever watches still needs the job: there is a file of the name in STAY. */
static inline int stays(void)
{
	const char *file = getenv("STAY");
	return file && access(file, F_OK) == 0;
}

/* Waits, without a step, until whoever watches has begun: for a workload whose end is what is watched. */
static inline void hold(void)
{
	while (stays())
		wait_until(seconds() + 1e-3);
}

/* A function of profd.h; NULL without the agent. */
static inline void *profd_function(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static inline void step(void)
{
	static void (*function)(void);
	static int looked;
	if (!looked) {
		*(void **)&function = profd_function("profd_step");
		looked = 1;
	}
	if (function)
		function();
}

#endif
