/* slots.h - functions of a library that objects call through their own tables of addresses (the slots of a PLT). Puts
 * our functions into these slots in all objects, and puts the former ones back. The agent's thread. */
#ifndef PROFD_AGENT_MEMORY_SLOTS_H
#define PROFD_AGENT_MEMORY_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slot_hook {
	const char *symbol;
	void *function;	      /* ours */
	_Atomic(void *) real; /* the library's own function; NULL = not found (yet) */
	bool others_only;     /* the library's own calls of this function are left alone */
	void *found;	      /* slots.c's: what the last look found; NULL = it is not there */
	uint32_t definitions; /* slots.c's: how many definitions there are */
};

/* Finds the functions in the library that defines them and calls them through its own slots. Its name begins with
 * `library`. Returns how many were found. */
size_t slots_find(const char *library, struct slot_hook *hooks, size_t count);

struct slots_state {
	uint32_t ours;	     /* slots that hold our function */
	uint32_t refused;    /* slots in memory that could not be made writable */
	uint32_t foreign;    /* slots that hold another tool's function, and are left to it */
	uint32_t unfinished; /* slots of objects that are being loaded: look at them again */
	const void *foreign_function;
};

/* on: puts our functions into the slots of that library and of all objects that need it. Off: puts the library's own
 * functions back where ours still are. Functions of another tool stay. Slots of unloaded objects need nothing. */
void slots_set(const char *library, struct slot_hook *hooks, size_t count, bool on, struct slots_state *ret);

/* Changes when an object is loaded. */
uint64_t slots_loaded(void);

#endif
