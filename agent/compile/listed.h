/* listed.h - reads torch's own list of compilations, `_compilation_metrics` of torch._dynamo.utils, from the job's
 * memory by copies, which fail for unmapped memory. Nothing of Python is called, and its lock is not taken. The agent's
 * thread. */
#ifndef PROFD_AGENT_COMPILE_LISTED_H
#define PROFD_AGENT_COMPILE_LISTED_H

#include "proto/python/code.h"

#include <stdbool.h>
#include <stdint.h>

/* How many compilations of one recording are kept: as many as torch lists. */
#define LISTED_MOST 64

struct listed_compilation {
	uint64_t start, end; /* us since 1970 */
	uint64_t line, operators;
	uint8_t part; /* enum compile_part */
	char id[48];
	char function[256], file[PYTHON_NAME_BYTES];
	char reason[PYTHON_NAME_BYTES];
	char failure[PYTHON_NAME_BYTES];
};

struct listed {
	uint64_t list;	  /* address of the list; a new list counts its changes from 0; 0: there is no list yet */
	uint64_t changes; /* how often an entry was added or removed */
	bool full;	  /* the list is full: a new entry removes the oldest */
	bool older;	  /* the list may have had more of the wanted entries */
	uint32_t count;
	struct listed_compilation items[LISTED_MOST]; /* the newest first */
};

enum listed_result {
	LISTED_OK,
	LISTED_ABSENT, /* torch._dynamo has not been imported */
	LISTED_OTHER,  /* torch._dynamo is there, but keeps its compilations in another way */
	LISTED_TORN,   /* the list changed each time while it was read, or could not be read */
};

/* Reads the compilations that ended after `since` (us since 1970). UINT64_MAX: reads none, and sets only `list`,
 * `changes` and `full`. */
enum listed_result listed_read(struct python *python, uint64_t since, struct listed *ret);

#endif
