/* slots.h - functions of a library that others call through their own tables of addresses (the slots of a PLT): which functions the
 * slots hold is changed in all objects at once, and put back. The agent's thread. */
#ifndef PROFD_AGENT_MEMORY_SLOTS_H
#define PROFD_AGENT_MEMORY_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slot_hook {
	const char *symbol;
	void *function;	      /* ours */
	_Atomic(void *) real; /* the library's own; NULL = not found (yet) */
	bool others_only;     /* the library's own calls of it are left alone */
	void *found;	      /* slots.c's own: by the last look, NULL = it is not there */
	uint32_t definitions; /* likewise: of so many libraries */
};

/* Finds the functions in the library that defines them, whose name begins with `library`: one that calls them through slots of its own. Returns how many are known. */
size_t slots_find(const char *library, struct slot_hook *hooks, size_t count);

struct slots_state {
	uint32_t ours;	     /* slots that hold our function */
	uint32_t refused;    /* slots in memory that could not be made writable */
	uint32_t foreign;    /* slots that hold another tool's, and are left to it */
	uint32_t unfinished; /* slots of objects that are being loaded: to be looked at again */
	const void *foreign_function;
};

/* Puts our functions into the slots of that library and of those that say that they need it (on), or the library's own back where ours are still there. What another tool has put there stays.
 * Slots of objects that have been unloaded are gone with them. */
void slots_set(const char *library, struct slot_hook *hooks, size_t count, bool on, struct slots_state *ret);

/* Changes when an object is loaded. */
uint64_t slots_loaded(void);

#endif
