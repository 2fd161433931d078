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
	uint8_t always; /* also while nothing is armed: what makes handles and names */
	nvtx_abi_function function;
};
OWN const struct nvtx_hook nvtx_hooks[];
OWN const size_t nvtx_hook_count;

/* Takes in the object that asks, from its own thread and before it makes its first call: hooks what is always hooked,
 * and the rest if ranges are on. Where the table is full, or the object cannot be found among those that are mapped, it
 * stays as it is without a tool. */
void nvtx_objects_add(nvtx_abi_get_export_table get);

/* Which of the hooks stand in the objects. */
enum nvtx_hooked {
	NVTX_HOOKED_NAMES,   /* what makes handles and names */
	NVTX_HOOKED_ALL,     /* ranges and marks, too */
	NVTX_HOOKED_NOTHING, /* the agent has left */
};

/* Puts these hooks into all objects that are still mapped, and gives NULL back for the others where the function is still ours;
 * forgets objects that are gone. The agent's thread. */
void nvtx_objects_set(int hooked);

/* enum nvtx_hooked, as it is now. */
int nvtx_objects_hooked(void);
/* What belongs into the slot of this hook; NULL: nothing of ours. */
nvtx_abi_function nvtx_objects_wanted(const struct nvtx_hook *hook, int hooked);

/* Takes in an object by the variable that was found in it, and puts the hooks in where nobody's are. 1; 0: it is taken in already;
 * -1: there is no room. Inside a gate_iterate() of the agent's thread. */
int nvtx_objects_enter(struct dl_phdr_info *info, const struct nvtx_abi_globals *globals);

/* The number of slots that another tool holds, as seen at the last change, and the file name (no folder) of the object
 * that tool lies in, where known. The agent's thread. */
void nvtx_objects_describe(unsigned *ret_foreign, char *holder, size_t bytes);

/* Objects whose data the job has protected since they were taken in, as seen at the last change: they stay as they are. */
unsigned nvtx_objects_shut(void);

/* Objects that could not be taken in because the table was full. */
unsigned nvtx_objects_refused(void);

#endif
