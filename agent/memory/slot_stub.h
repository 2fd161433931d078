/* slot_stub.h - recognises the stub of a slot. Before the first call a slot leads to a stub in its object's PLT, which
 * makes the loader look the function up. The stub must be told from all other code, because a tool may have put a
 * function of the same object into the slot. */
#ifndef PROFD_AGENT_MEMORY_SLOT_STUB_H
#define PROFD_AGENT_MEMORY_SLOT_STUB_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* Is the code at `at` the stub of the slot with this number (in DT_JMPREL)? `table` is the object's DT_PLTGOT; NULL: it
 * has none. Inside a gate_iterate(). */
bool slot_stub(const struct dl_phdr_info *info, const void *table, size_t number, const void *at);

#endif
