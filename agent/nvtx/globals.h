/* globals.h - takes in a variable nvtxGlobals (nvtx_abi.h) that was found in the data of an object: one whose object has made its
 * first NVTX call before the agent came, or has not made any so far. */
#ifndef PROFD_AGENT_NVTX_GLOBALS_H
#define PROFD_AGENT_NVTX_GLOBALS_H

#include "nvtx_abi.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* Whether nvtxGlobals may begin with these four words; nearly never where it does not. */
static inline int globals_likely(const uint64_t *words)
{
	return words[1] == sizeof(struct nvtx_abi_callbacks) && words[3] == sizeof(struct nvtx_abi_version) &&
	       words[0] <= NVTX_ABI_STATE_COMPLETE;
}

/* Is this copy of what lies at `at` that variable of the object? Each word that does not change is what NVTX's headers make of it there: 64
 * addresses that depend on `at`, between 12 NULLs; 2 in the object's own code; sizes and numbers. Inside a gate_iterate(). */
int globals_prove(const struct dl_phdr_info *info, const struct nvtx_abi_globals *copy, uintptr_t at);

enum globals_taking {
	GLOBALS_NONE,	/* no such variable */
	GLOBALS_NEW,	/* taken in */
	GLOBALS_KNOWN,	/* taken in before */
	GLOBALS_BUSY,	/* its object makes its first NVTX call just now: to be looked at again */
	GLOBALS_OTHERS, /* another tool has it, and keeps it */
	GLOBALS_LEFT,	/* its first call will load another tool */
	GLOBALS_FIXED,	/* it cannot be written, or there is no room */
};

/* Proves it, and takes it in where it is nobody's. `left`: its first call loads another tool. Where another tool has it,
 * *ret_function is one of its functions. Inside a gate_iterate() of the agent's thread. */
enum globals_taking globals_take(struct dl_phdr_info *info, uintptr_t at, int left, uintptr_t *ret_function);

#endif
