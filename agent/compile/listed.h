/* listed.h - the compilations that torch itself lists, newest last: `_compilation_metrics` of torch._dynamo.utils, read from the job's memory
 * by copies that fail where there is none. Nothing of Python's is called, and its lock is not taken. The agent's thread. */
#ifndef PROFD_AGENT_COMPILE_LISTED_H
#define PROFD_AGENT_COMPILE_LISTED_H

#include "proto/python/code.h"

#include <stdbool.h>
#include <stdint.h>

/* Compilations of one recording that are kept: as many as torch lists. */
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
	uint64_t list;	  /* its address: another one counts anew; 0: there is none yet */
	uint64_t changes; /* so often was something added to it, or taken away */
	bool full;	  /* what is added takes the oldest away */
	bool older;	  /* it may have had more of what was asked for */
	uint32_t count;
	struct listed_compilation items[LISTED_MOST]; /* the newest first */
};

enum listed_result {
	LISTED_OK,
	LISTED_ABSENT, /* torch._dynamo has not been imported */
	LISTED_OTHER,  /* it is there, and keeps its compilations otherwise */
	LISTED_TORN,   /* it changed each time that it was read, or could not be read */
};

/* Those that ended after `since` (us since 1970; UINT64_MAX: none, but what is said of the list itself). */
enum listed_result listed_read(struct python *python, uint64_t since, struct listed *ret);

#endif
