/* bound.c - an end to work that takes too long, or that nobody wants any more. Thread: the store's. No locks. */
#include "base/log.h"
#include "store.h"

#include <errno.h>
#include <stdio.h>

/* Instructions of SQLite's machine: a millisecond or less. */
#define LOOK_EVERY 10000

bool store_over(struct store *store)
{
	if (store->error)
		return true;
	if (store->cancelled && atomic_load_explicit(store->cancelled, memory_order_relaxed)) {
		store->error = -ECANCELED;
		snprintf(store->sentence, sizeof store->sentence, "cancelled by the user");
	} else if (store->until && clock_thread() > store->until) {
		store->error = -ETIME;
		snprintf(store->sentence, sizeof store->sentence,
			 "it took more than the %.3g s of a processor that finish_time allows",
			 (double)store->most / 1e9);
	}
	return store->error != 0;
}

static int look(void *store)
{
	return store_over(store);
}

void store_bound(struct store *store, uint64_t most, const _Atomic uint32_t *cancelled)
{
	store->most = most;
	store->until = most ? clock_thread() + most : 0;
	store->cancelled = cancelled;
	if (store->db)
		sqlite3_progress_handler(store->db, LOOK_EVERY, most || cancelled ? look : NULL, store);
}
