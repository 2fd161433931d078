/* guard.c - see guard.h. Waits by futex: nothing here takes a lock that anybody else holds. */
#include "guard.h"

#include "../core/gate.h"
#include "agent/sink/sink.h"
#include "../core/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* This thread calls the driver and decodes whole buffers. This is address space, not memory. */
#define STACK_BYTES (2u << 20)
/* What the last job may take. */
#define LAST_NS 5000000000u
/* How long the agent's thread sleeps at a time while it waits for the guard. */
#define LOOK_NS 10000000u

enum { NONE, IDLE, POSTED, RUNNING, FINISHED, ABANDONED, LEAVE };

/* The agent's thread moves NONE -> IDLE -> POSTED and FINISHED -> IDLE, POSTED or RUNNING -> ABANDONED, IDLE -> LEAVE; the guard
 * POSTED -> RUNNING -> FINISHED, ABANDONED -> NONE, LEAVE -> NONE. */
static _Atomic uint32_t state;
static guard_job current;
static void *current_argument;
static int result;
static _Atomic uint64_t since;
static void (*late)(void);
static _Atomic int leaving; /* the job that runs is the last */

static void wake(void)
{
	syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 2, NULL, NULL, 0);
}

/* Until the state is no longer `seen`, or `deadline`. */
static void sleep_on(uint32_t seen, uint64_t deadline)
{
	uint64_t now = sink_now();
	if (deadline <= now)
		return;
	struct timespec time = {(time_t)((deadline - now) / 1000000000u), (long)((deadline - now) % 1000000000u)};
	syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, seen, deadline == UINT64_MAX ? NULL : &time, NULL, 0);
}

static void *guard_main(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "profd-cupti");
	for (;;) {
		uint32_t seen = atomic_load_explicit(&state, memory_order_acquire);
		if (seen == LEAVE || seen == ABANDONED)
			break;
		if (seen != POSTED) {
			sleep_on(seen, UINT64_MAX);
			continue;
		}
		if (!atomic_compare_exchange_strong(&state, &seen, RUNNING))
			continue;
		unsigned place = gate_enter_for_long(GATE_OWN_NS);
		result = current(current_argument);
		gate_leave(place);
		uint32_t running = RUNNING;
		if (atomic_compare_exchange_strong(&state, &running, atomic_load(&leaving) ? LEAVE : FINISHED))
			wake();
	}
	if (atomic_load_explicit(&state, memory_order_acquire) == ABANDONED && late)
		late();
	atomic_store_explicit(&since, 0, memory_order_relaxed);
	atomic_store_explicit(&state, NONE, memory_order_release);
	return NULL;
}

int guard_start(void)
{
	uint32_t seen = atomic_load_explicit(&state, memory_order_acquire);
	/* A guard that was told to leave is out in a moment, or once its last job has ended. */
	uint64_t patience = atomic_load(&leaving) ? LAST_NS : 100000000u;
	for (uint64_t deadline = sink_now() + patience;
	     seen != NONE && seen != ABANDONED && (seen == LEAVE || atomic_load(&leaving)) && sink_now() < deadline;
	     seen = atomic_load_explicit(&state, memory_order_acquire)) {
		struct timespec nap = {0, 50000};
		nanosleep(&nap, NULL);
	}
	if (seen == ABANDONED || seen == LEAVE || (seen != NONE && atomic_load(&leaving)))
		return -EBUSY;
	if (seen != NONE)
		return 0;
	atomic_store_explicit(&since, 0, memory_order_relaxed);
	atomic_store(&leaving, 0);
	atomic_store_explicit(&state, IDLE, memory_order_release);
	unsigned place = gate_enter(GATE_OWN_NS);
	int error = thread_start(NULL, guard_main, NULL, STACK_BYTES);
	gate_leave(place);
	if (error)
		atomic_store_explicit(&state, NONE, memory_order_release);
	return error;
}

int guard_post(guard_job job, void *argument)
{
	uint32_t seen = atomic_load_explicit(&state, memory_order_acquire);
	if (seen == FINISHED)
		seen = IDLE;
	if (seen != IDLE)
		return seen == POSTED || seen == RUNNING ? -EBUSY : -ESRCH;
	current = job;
	current_argument = argument;
	atomic_store_explicit(&since, sink_now(), memory_order_relaxed);
	atomic_store_explicit(&state, POSTED, memory_order_release);
	wake();
	return 0;
}

void guard_post_last(guard_job job)
{
	atomic_store(&leaving, 1);
	if (guard_post(job, NULL) < 0) {
		atomic_store(&leaving, 0);
		guard_stop();
	}
}

/* Counts the time between two looks, but at most 2 * LOOK_NS: if more has passed this thread got no processor, and so
 * perhaps the guard did not either. */
static uint64_t counted(uint64_t passed)
{
	return passed < 2ull * LOOK_NS ? passed : 2ull * LOOK_NS;
}

int guard_wait(uint64_t patience, int *ret_result)
{
	for (;;) {
		uint32_t seen = atomic_load_explicit(&state, memory_order_acquire);
		if (seen != POSTED && seen != RUNNING) {
			if (ret_result)
				*ret_result = seen == FINISHED ? result : 0;
			return 0;
		}
		if (!patience)
			return -ETIMEDOUT;
		uint64_t from = sink_now();
		sleep_on(seen, from + (patience < LOOK_NS ? patience : LOOK_NS));
		uint64_t passed = counted(sink_now() - from);
		patience = patience > passed ? patience - passed : 0;
	}
}

uint64_t guard_busy(void)
{
	static uint64_t of, looked, sum;
	uint32_t seen = atomic_load_explicit(&state, memory_order_acquire);
	uint64_t started = atomic_load_explicit(&since, memory_order_relaxed), now = sink_now();
	if (seen != POSTED && seen != RUNNING && seen != ABANDONED)
		return 0;
	if (started != of) {
		of = started;
		looked = now;
		sum = 1;
	}
	sum += counted(now - looked);
	looked = now;
	return sum;
}

int guard_abandon(void (*cleanup)(void))
{
	late = cleanup;
	for (;;) {
		uint32_t seen = atomic_load_explicit(&state, memory_order_acquire);
		if (seen != POSTED && seen != RUNNING)
			return 0;
		if (atomic_compare_exchange_strong(&state, &seen, ABANDONED))
			return 1;
	}
}

void guard_stop(void)
{
	for (;;) {
		uint32_t seen = atomic_load_explicit(&state, memory_order_acquire);
		if (seen != IDLE && seen != FINISHED)
			return;
		if (atomic_compare_exchange_strong(&state, &seen, LEAVE))
			break;
	}
	wake();
}
