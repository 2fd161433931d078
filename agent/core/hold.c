/* hold.c - see hold.h. The step thread moves FREE or ASKED -> STANDS, and STANDS -> FREE when its time is over; the
 * agent's threads move FREE -> ASKED and any state -> FREE. */
#include "hold.h"

#include "clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FREE, ASKED, STANDS };

static _Atomic uint32_t state;

static void wake(void)
{
	int saved = errno;
	syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 2, NULL, NULL, 0);
	errno = saved;
}

/* While the state is `seen`, until `deadline` at the most. Returns whether the time is over. */
static int sleep_on(uint32_t seen, uint64_t deadline)
{
	uint64_t now = clock_now();
	if (now >= deadline)
		return 1;
	struct timespec time = {(time_t)((deadline - now) / 1000000000u), (long)((deadline - now) % 1000000000u)};
	int saved = errno;
	syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, seen, &time, NULL, 0);
	errno = saved;
	return 0;
}

void hold_begin(void)
{
	atomic_store_explicit(&state, STANDS, memory_order_release);
}

int hold_wanted(void)
{
	return atomic_load_explicit(&state, memory_order_relaxed) != FREE;
}

static int stands(void)
{
	return atomic_load_explicit(&state, memory_order_acquire) == STANDS;
}

void hold_stand(void)
{
	uint32_t seen = ASKED;
	if (atomic_compare_exchange_strong(&state, &seen, STANDS))
		wake();
	uint64_t deadline = clock_now() + HOLD_MOST_NS;
	while (stands())
		if (sleep_on(STANDS, deadline)) {
			seen = STANDS;
			atomic_compare_exchange_strong(&state, &seen, FREE);
		}
}

int hold_ask(uint64_t patience)
{
	uint32_t seen = FREE;
	if (!patience || (!atomic_compare_exchange_strong(&state, &seen, ASKED) && seen == STANDS))
		return stands();
	uint64_t deadline = clock_now() + patience;
	while (atomic_load_explicit(&state, memory_order_acquire) == ASKED)
		if (sleep_on(ASKED, deadline)) {
			seen = ASKED;
			atomic_compare_exchange_strong(&state, &seen, FREE);
		}
	return stands();
}

void hold_release(void)
{
	if (atomic_exchange_explicit(&state, FREE, memory_order_acq_rel) != FREE)
		wake();
}
