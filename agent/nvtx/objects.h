/* objects.h - the objects of the process that carry NVTX, and the function pointers in them. */
#ifndef PROFD_AGENT_NVTX_OBJECTS_H
#define PROFD_AGENT_NVTX_OBJECTS_H

#include "agent/core/own.h"
#include "nvtx_abi.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* One function that the collector puts into objects. */
struct nvtx_hook {
	uint8_t module; /* enum nvtx_abi_module */
	uint8_t id;	/* enum nvtx_abi_core or nvtx_abi_core2 */
	uint8_t always; /* also while nothing is armed: it makes handles or names */
	nvtx_abi_function function;
};
OWN const struct nvtx_hook nvtx_hooks[];
OWN const size_t nvtx_hook_count;

/* Takes in the calling object, on the thread that makes its first call: puts in the hooks that are always there, and
 * the others if ranges are on. Where the table is full, or the object is not found among the mapped ones, it goes on
 * without a tool. */
void nvtx_objects_add(nvtx_abi_get_export_table get);

/* Which of the hooks are in the objects. */
enum nvtx_hooked {
	NVTX_HOOKED_NAMES,   /* those that make handles and names */
	NVTX_HOOKED_ALL,     /* ranges and marks, too */
	NVTX_HOOKED_NOTHING, /* the agent has left */
};

/* Puts these hooks into all objects that are still mapped, and NULL instead of the other hooks where the function is
 * still ours. Forgets objects that are gone. The agent's thread. */
void nvtx_objects_set(int hooked);

/* enum nvtx_hooked, as it is now. */
int nvtx_objects_hooked(void);
/* The function that belongs into the slot of this hook; NULL: none of ours. */
nvtx_abi_function nvtx_objects_wanted(const struct nvtx_hook *hook, int hooked);

/* Takes in an object by the variable that was found in it, and puts the hooks into its free slots. 1; 0: it is taken in
 * already; -1: there is no room. Inside a gate_iterate() of the agent's thread. */
int nvtx_objects_enter(struct dl_phdr_info *info, const struct nvtx_abi_globals *globals);

/* The number of slots that another tool holds, as seen at the last change, and the file name (without folder) of that
 * tool's library, if known. The agent's thread. */
void nvtx_objects_describe(unsigned *ret_foreign, char *holder, size_t bytes);

/* How many objects, as seen at the last change, have data that the job has protected since they were taken in. Their
 * slots stay as they are. */
unsigned nvtx_objects_shut(void);

/* How many objects could not be taken in, because the table was full or they were not found. */
unsigned nvtx_objects_refused(void);

#endif
