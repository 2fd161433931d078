/* memory_use.h - what a block of memory is for: told by the phase and the operator in which it was taken, and by the
 * instants that it outlived. docs/memory.md tells users the rule. No locks. */
#ifndef PROFD_STORE_MEMORY_USE_H
#define PROFD_STORE_MEMORY_USE_H

#include "memory_calls.h"

/* The words are in the capture file. */
#define MEMORY_USES(USE)                                                                                               \
	USE(NOT_KNOWN, "not known")                                                                                    \
	USE(GRADIENTS, "gradients")                                                                                    \
	USE(OPTIMIZER_STATE, "optimizer state")                                                                        \
	USE(ACTIVATIONS, "activations")                                                                                \
	USE(INPUTS, "inputs")                                                                                          \
	USE(TEMPORARY, "temporary")                                                                                    \
	USE(OLDER, "older than the capture")

enum memory_use {
#define MEMORY_USE(NAME, word) MEMORY_USE_##NAME,
	MEMORY_USES(MEMORY_USE)
#undef MEMORY_USE
};

/* Instants that a block may outlive. Each kind is in ascending order. */
enum memory_instant {
	MEMORY_BACKWARD_BEGINS, /* a node of autograd */
	MEMORY_GRADIENTS_READ,	/* an optimizer's step, or its zero_grad */
	MEMORY_OPTIMIZER_ENDS,	/* an optimizer's step */
	MEMORY_LOADER_ENDS,	/* a DataLoader has given a batch */
	MEMORY_STEP_ENDS,
	MEMORY_INSTANT_COUNT,
};

struct memory_instants {
	struct memory *memory; /* not owned */
	struct {
		int64_t *times; /* owned */
		size_t count;
	} of[MEMORY_INSTANT_COUNT];
};

/* False: there is no memory. Errors stay in the store. */
bool memory_instants_load(struct memory_instants *ret, struct store *store);
void memory_instants_deinit(struct memory_instants *instants);

/* The use of a block that was taken at `time` in the call (NULL: in none) and lived until `until` (INT64_MAX: the
 * capture does not see it given back). */
enum memory_use memory_use_of(const struct memory_instants *instants, const struct memory_call *call, int64_t time,
			      int64_t until);
const char *memory_use_word(enum memory_use use);

#endif
