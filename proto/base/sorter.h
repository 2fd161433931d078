/* sorter.h - sorts any number of records of one size in bounded memory. Sorted portions go to a nameless file in the given
 * folder; reading merges them. One thread at a time, no locks. */
#ifndef PROFD_PROTO_BASE_SORTER_H
#define PROFD_PROTO_BASE_SORTER_H

#include "memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sorter_run;

struct sorter {
	int (*compare)(const void *a, const void *b);
	size_t bytes;	       /* of a record */
	int folder;	       /* not owned */
	struct memory *memory; /* not owned; NULL = not counted */
	int fd;		       /* of the portions; -1 = everything still is in memory */
	unsigned char *buffer;
	size_t count, capacity, capacity_max; /* records */
	bool unsorted;			      /* the buffer is not in order */
	uint64_t total;			      /* records, of all portions */
	struct sorter_run *runs;
	size_t run_count, run_capacity;
	/* Reading. */
	size_t at;
	size_t *heap; /* runs, the one with the smallest record first */
	size_t heap_count;
	size_t window; /* records that are read of a run at a time */
	bool fresh;    /* the first of the heap has not been given out yet */
	int error;     /* negative errno: the sorter cannot be used any more */
};

/* folder: descriptor of a folder on disk. most: bytes that may be in memory; fewer where `memory` is used up. */
void sorter_init(struct sorter *sorter, int folder, struct memory *memory, size_t bytes, size_t most,
		 int (*compare)(const void *a, const void *b));
void sorter_deinit(struct sorter *sorter);
/* 0 or a negative errno, which stays. */
int sorter_add(struct sorter *sorter, const void *record);
/* Starts reading at the smallest record. May be called again to read once more; nothing may be added after the first call. */
int sorter_rewind(struct sorter *sorter);
/* The next record, or NULL at the end and after an error. It is valid until the next call. */
const void *sorter_next(struct sorter *sorter);

#endif
