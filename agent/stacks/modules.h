/* modules.h - which nn.Module a frame of Python is a call of: its class, and the name under which it hangs in the module that called it.
 * Read from the job's memory by copies that fail where there is none, without Python's lock: no code of the job's runs. */
#ifndef PROFD_AGENT_STACKS_MODULES_H
#define PROFD_AGENT_STACKS_MODULES_H

#include "proto/python/code.h"
#include "proto/python/dict.h"

#include "agent/sink/sink.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Words of memory by which a module is reached from the one that called it. */
#define MODULES_LINKS 40
#define MODULES_PAIRS 1024u /* a power of two */
/* Modules that are looked through below one, for one that it called, at most. */
#define MODULES_NODES 1024u

/* A module below the one that called it. */
struct modules_pair {
	uint64_t parent, child, type;
	uint32_t generation, seen; /* in this recording; the step in which it was last looked at */
	uint32_t name, class;	   /* string ids; name 0: it was not found below its caller */
	uint32_t missed, again; /* without a name: steps, in which it was looked for, and in which it will be again */
	uint32_t link_count;
	struct python_link links[MODULES_LINKS];
};

struct modules_node {
	uint64_t object, key;
	uint32_t from, link_count;
	struct python_link links[8];
};

/* One thread's modules; begins as zeros. */
struct modules {
	struct modules_pair pairs[MODULES_PAIRS];
	struct modules_node nodes[MODULES_NODES + 1]; /* the last one is for the module that is looked for */
	uint32_t node_count;
	uint32_t recording, step; /* to which the reads belong */
	uint64_t reads;
	uint64_t key; /* the str object "_modules", as last seen */
	char path[1024];
};

/* Functions that call modules, by what tells them from others: torch's, again where torch's module.py was loaded again. 0: no more. */
#define MODULES_CALLS 8
extern _Atomic uint64_t modules_calls[MODULES_CALLS];
/* A recording begins: none is known. The agent's thread. */
void modules_begin(void);

static inline bool modules_is_call(uint64_t key)
{
	for (unsigned i = 0; i < MODULES_CALLS; i++) {
		uint64_t known = atomic_load_explicit(&modules_calls[i], memory_order_relaxed);
		if (known == key || !known)
			return known != 0;
	}
	return false;
}

enum modules_learned { MODULES_NO_CALL, MODULES_CALL, MODULES_TOO_MANY };
/* Is this function, with this code, one that calls a module? It is known then, if there is room. Any thread. */
enum modules_learned modules_learn(struct python *python, uint64_t code, uint64_t key,
				   const struct python_code *function);

/* The module `child` of this type, called by `parent` (0: by none). What is found is kept, and looked at again in each step; false where
 * that says something else than before, and `again` was not set. Both modules run on the calling thread, and so are there. */
bool modules_find(struct modules *modules, struct python *python, struct sink_thread *thread, uint64_t parent,
		  uint64_t child, uint64_t type, bool again, const struct modules_pair **ret);

#endif
