/* filter.c - see filter.h. */
#include "filter.h"
#include "keeper.h"

#include "../../proto/filters.h"

#include <linux/seccomp.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>

/* The agent's threads sleep longer than this, so each of them looks whenever it wakes. */
#define LOOK_EVERY 1000000ull
/* A thread may set its filter after it was looked at, and before its first event. */
#define THREADS_EVERY 5000000000ull

static int at_first = -1; /* not known: nothing is new */

void filter_remember(void)
{
	int mode = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
	at_first = mode == SECCOMP_MODE_DISABLED ? 0 : filters_of("/proc/self/status");
}

int filter_is_new(void)
{
	return at_first >= 0 &&
	       (filters_of("/proc/thread-self/status") > at_first || filters_of("/proc/self/status") > at_first);
}

/* A filter that another thread sets for the agent's threads is set for all threads, so also for the main one unless
 * that has ended. */
static int is_new_over_all(void)
{
	if (at_first < 0)
		return 0;
	int main_thread = filters_of_living("/proc/self/status");
	return (main_thread < 0 ? filters_of("/proc/thread-self/status") : main_thread) > at_first;
}

int filter_is_new_by(uint64_t now)
{
	static _Atomic uint64_t looked;
	static _Atomic int found;
	if (atomic_load(&found))
		return 1;
	if (now < atomic_load(&looked) + LOOK_EVERY)
		return 0;
	atomic_store(&looked, now);
	if (is_new_over_all())
		atomic_store(&found, 1);
	return atomic_load(&found);
}

static struct filters_seen seen; /* the keeper's, during look_at_threads() */

static long look_at_threads(void *unused)
{
	(void)unused;
	return filters_of_threads("/proc/self/task", at_first, &seen);
}

int filter_is_over_a_thread(uint64_t now, int anew)
{
	static uint64_t began;
	if (at_first < 0)
		return 0;
	if (anew || now - began >= THREADS_EVERY) {
		memset(&seen, 0, sizeof seen);
		began = now;
	}
	return keeper_run(look_at_threads, NULL) != 0;
}
