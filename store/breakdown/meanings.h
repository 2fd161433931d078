/* meanings.h - what the texts of a capture file mean to its breakdown, by their ids in `strings`. */
#ifndef PROFD_STORE_BREAKDOWN_MEANINGS_H
#define PROFD_STORE_BREAKDOWN_MEANINGS_H

#include "scan.h"

#include <stddef.h>

struct meaning {
	int64_t id;
	uint8_t phase, doing, call; /* enum phase, enum doing of an operator, of a call */
	bool backward, slow, graph; /* slow: a kernel without tensor cores; graph: a call that launches a CUDA graph */
	bool kernel;		    /* a call that launches a kernel */
	bool takes_tensor;	    /* names_takes_tensor() */
	bool module;		    /* names_module() */
	bool searches, compiled;    /* names_searches_compiled(), names_runs_compiled() */
	uint8_t network;	    /* names_network() */
};

struct meanings {
	struct meaning *items; /* by id */
	size_t count, room;
};

/* Call meanings_free() afterwards in any case. */
void meanings_read(struct meanings *meanings, struct scan *scan);
/* An unknown id means an operator or a call like any other. */
struct meaning meaning_of(const struct meanings *meanings, int64_t id);
void meanings_free(struct meanings *meanings);

#endif
