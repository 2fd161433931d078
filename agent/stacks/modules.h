/* modules.h - finds the nn.Module that a Python frame calls: its class, and its name in the module that called it. It
 * reads the job's memory by copies, which fail for unmapped memory, without Python's lock; no code of the job runs. */
#ifndef PROFD_AGENT_STACKS_MODULES_H
#define PROFD_AGENT_STACKS_MODULES_H

#include "proto/python/code.h"
#include "proto/python/dict.h"

#include "agent/sink/sink.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many words of memory may lead from the calling module to the called one. */
#define MODULES_LINKS 40
#define MODULES_PAIRS 1024u /* a power of two */
/* How many modules below the calling one are searched, at most. */
#define MODULES_NODES 1024u

/* A module (child) and the one that called it (parent). */
struct modules_pair {
	uint64_t parent, child, type;
	uint32_t generation, seen; /* the recording; the step in which it was last looked at */
	uint32_t name, class;	   /* string ids; name 0: the child was not found below the parent */
	uint32_t missed, again;	   /* without a name: the step of the last search, and of the next one */
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
	struct modules_node nodes[MODULES_NODES + 1]; /* the last one is for the searched module */
	uint32_t node_count;
	uint32_t recording, step; /* to which `reads` belongs */
	uint64_t reads;
	uint64_t key; /* the str object "_modules", as last seen */
	char path[1024];
};

/* Keys of functions that call modules: torch's, and one more for each time that torch's module.py was loaded again. 0:
 * no more. */
#define MODULES_CALLS 8
extern _Atomic uint64_t modules_calls[MODULES_CALLS];
/* A recording begins: forgets all of them. The agent's thread. */
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
/* Does this function, with this code, call modules? If so its key is kept, if there is room. Any thread. */
enum modules_learned modules_learn(struct python *python, uint64_t code, uint64_t key,
				   const struct python_code *function);

/* The module `child` of this type, called by `parent` (0: by none). The answer is kept, and checked again in each step.
 * False where it is now another one than before, and `again` is not set. Both modules run on the calling thread, so
 * they exist. */
bool modules_find(struct modules *modules, struct python *python, struct sink_thread *thread, uint64_t parent,
		  uint64_t child, uint64_t type, bool again, const struct modules_pair **ret);

#endif
