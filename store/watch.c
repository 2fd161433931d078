/* watch.c - an end to work that takes too long, or that nobody wants any more. Thread: the store's. No locks. */
#include "store.h"

/* Instructions of SQLite's machine: a millisecond or less. */
#define LOOK_EVERY 10000

bool store_over(struct store *store)
{
	if (!store->error && store->watch)
		store->error = store->watch->look(store->watch->context, store->doing, store->sentence);
	return store->error != 0;
}

static int look(void *store)
{
	return store_over(store);
}

void store_watch_begin(struct store *store, const struct store_watch *watch)
{
	store->watch = watch;
	store->doing = "";
	if (store->db)
		sqlite3_progress_handler(store->db, LOOK_EVERY, watch ? look : NULL, store);
}

void store_watch_end(struct store *store)
{
	store_watch_begin(store, NULL);
}

void store_doing(struct store *store, const char *doing)
{
	store->doing = doing;
}
