/* slot_stub.h - to what does a slot lead that nobody has called through yet? To the code of its object's PLT that has the loader look the
 * function up: this is told from any other code, as a tool may have put a function there that lies in the same object. */
#ifndef PROFD_AGENT_MEMORY_SLOT_STUB_H
#define PROFD_AGENT_MEMORY_SLOT_STUB_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* Is there at `at` that code of the slot with this number (of DT_JMPREL)? `table` is the object's DT_PLTGOT, NULL: it has none. Inside a
 * gate_iterate(). */
bool slot_stub(const struct dl_phdr_info *info, const void *table, size_t number, const void *at);

#endif
