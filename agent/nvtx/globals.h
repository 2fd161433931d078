/* globals.h - takes in a variable nvtxGlobals (nvtx_abi.h) that was found in the data of an object. The object has made
 * its first NVTX call before the agent came, or has made none so far. */
#ifndef PROFD_AGENT_NVTX_GLOBALS_H
#define PROFD_AGENT_NVTX_GLOBALS_H

#include "nvtx_abi.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* May nvtxGlobals begin with these four words? Nearly always false for other data. */
static inline int globals_likely(const uint64_t *words)
{
	return words[1] == sizeof(struct nvtx_abi_callbacks) && words[3] == sizeof(struct nvtx_abi_version) &&
	       words[0] <= NVTX_ABI_STATE_COMPLETE;
}

/* `copy` is a copy of the memory at `at`. Is it that variable of the object? Each constant word must be as NVTX's
 * headers make it there: 64 addresses that depend on `at`, between 12 NULLs; 2 addresses in the object's own code;
 * sizes and numbers. Inside a gate_iterate(). */
int globals_prove(const struct dl_phdr_info *info, const struct nvtx_abi_globals *copy, uintptr_t at);

enum globals_taking {
	GLOBALS_NONE,	/* no such variable */
	GLOBALS_NEW,	/* taken in */
	GLOBALS_KNOWN,	/* taken in before */
	GLOBALS_BUSY,	/* its object is making its first NVTX call: look again later */
	GLOBALS_OTHERS, /* another tool has it, and keeps it */
	GLOBALS_LEFT,	/* its first call will load another tool */
	GLOBALS_FIXED,	/* it cannot be written, or there is no room */
};

/* Proves the variable, and takes it in if no tool has it. `left`: its first call will load another tool. If another
 * tool has it, *ret_function is one of that tool's functions. Inside a gate_iterate() of the agent's thread. */
enum globals_taking globals_take(struct dl_phdr_info *info, uintptr_t at, int left, uintptr_t *ret_function);

#endif
