/* symbol.h - the dynamic symbols of an object (program, library) that is mapped, read from its memory alone: its file may be deleted,
 * replaced, or lie in another mount namespace. All of it may be hostile. */
#ifndef PROFD_PROTO_PYTHON_SYMBOL_H
#define PROFD_PROTO_PYTHON_SYMBOL_H

#include "memory.h"

/* The address of a dynamic symbol (a function, or data) that the object defines whose first page is mapped at `base`; 0: none. */
uint64_t python_symbol(struct python_memory *memory, uint64_t base, const char *name);

#endif
