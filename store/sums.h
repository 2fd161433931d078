/* sums.h - adds up calls and times by key, in bounded memory. When that is full, the sums so far go to a temporary
 * table; in the end one GROUP BY adds up the parts. It is for devices and API calls; totals.h is for operators and
 * ranges. No locks. */
#ifndef PROFD_STORE_SUMS_H
#define PROFD_STORE_SUMS_H

#include "proto/base/memory.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

struct store;

/* What is added up, and what a, b and c of the key are. */
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
	uint64_t min, max; /* of calls with a time; min > max: there was none */
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
/* Adds one call. timed: it counts in total, min and max. Groups that do not fit go to `store`. If that is NULL, the
 * error stays, and sums_write() returns it. */
void sums_add(struct sums *sums, struct store *store, const struct sum *key, uint64_t time, uint64_t extra, bool timed);
/* Writes everything into temp.sums (tab, a, b, c, step, calls, total, extra, min, max). A key has several rows if
 * groups did not fit. 0 or a negative errno. */
int sums_write(struct sums *sums, struct store *store);

#endif
