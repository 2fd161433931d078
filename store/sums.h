/* sums.h - calls and times by key, gathered in bounded memory: what does not fit goes to a table of the capture's file for
 * the time being, and one GROUP BY puts the parts together. For what devices and their API do (totals.h: operators and
 * ranges). One thread at a time, no locks. */
#ifndef PROFD_STORE_SUMS_H
#define PROFD_STORE_SUMS_H

#include "base/memory.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

struct store;

/* What is summed; a, b and c of the key stand for */
enum sum_table {
	SUM_NONE,
	SUM_KERNELS,   /* mangled name, device, stream */
	SUM_COPIES,    /* kinds << 16 | source << 8 | target, device, stream; extra: bytes */
	SUM_SETS,      /* memory kind, device, stream; extra: bytes */
	SUM_GRAPHS,    /* graph, device, stream */
	SUM_API_CALLS, /* name, domain, 0; extra: failed */
	SUM_OPERATORS, /* name, 0, 0; total: device time with children, extra: its own */
	SUM_RANGES,    /* name, domain, source; likewise */
};

struct sum {
	uint32_t table, a, b, c, step;
	uint64_t calls, total, extra;
	uint64_t min, max; /* of what had a time; min > max: nothing had */
};

struct sums {
	struct sum *table; /* open addressing, capacity a power of two */
	size_t count, capacity;
	struct memory *memory; /* not owned */
	sqlite3_stmt *insert;
	int error;
};

void sums_init(struct sums *sums, struct memory *memory);
void sums_deinit(struct sums *sums);
/* Adds one call. `timed`: it counts in total, min and max. `store`, where groups go that do not fit; NULL: the caller has
 * none now, and an error stays that sums_write tells. */
void sums_add(struct sums *sums, struct store *store, const struct sum *key, uint64_t time, uint64_t extra, bool timed);
/* All of it becomes temp.sums (tab, a, b, c, step, calls, total, extra, min, max): several rows of one key at most where
 * groups did not fit. 0 or a negative errno. */
int sums_write(struct sums *sums, struct store *store);

#endif
