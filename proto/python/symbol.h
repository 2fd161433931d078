/* symbol.h - finds dynamic symbols of a mapped object (program, library). It reads only the object's memory, because
 * its file may be deleted, replaced, or lie in another mount namespace. The memory may be hostile. */
#ifndef PROFD_PROTO_PYTHON_SYMBOL_H
#define PROFD_PROTO_PYTHON_SYMBOL_H

#include "memory.h"

/* The address of a dynamic symbol (a function, or data) of the object whose first page is mapped at `base`, if the
 * object defines it; 0: it does not. */
uint64_t python_symbol(struct python_memory *memory, uint64_t base, const char *name);

#endif
