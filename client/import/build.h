/* build.h - turns the events of a trace into the records of a capture, and puts them into its file: the host's in the order in which
 * they end on each thread, with parent, depth and self time; the devices' by time. Memory is bounded: what waits to be sorted
 * goes to the disk. */
#ifndef PROFD_CLIENT_IMPORT_BUILD_H
#define PROFD_CLIENT_IMPORT_BUILD_H

#include "kineto.h"

#include "store/store.h"

/* What came of it, and what was left out. */
struct build_counts {
	uint64_t events;	  /* that the finished file holds */
	uint64_t untimed;	  /* had no time that can be */
	uint64_t python, strange; /* that a capture has no place for */
	uint64_t samples;	  /* events with samples of stacks, which are not read */
	uint64_t steps;
	bool operators, annotations, device, calls, syncs, shapes, memory; /* there were any */
	char strange_category[32];
};

struct build;

/* store: is open, outlives it. folder: descriptor of a folder on disk, for what is sorted. NULL: no memory. */
struct build *build_new(struct store *store, int folder);
/* One event; false: the store has failed, or there is no memory (store_error). */
bool build_event(struct build *build, const struct kineto_event *event);
bool build_device(struct build *build, const struct kineto_device *device);
/* After the last: writes the records, and tells what store_finish wants to know. 0 or a negative errno. */
int build_finish(struct build *build, const struct kineto_about *about, struct capture_facts *facts,
		 struct store_ending *ending, struct build_counts *ret);
void build_free(struct build *build);

#endif
