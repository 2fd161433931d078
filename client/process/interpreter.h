/* interpreter.h - where a process has its Python. */
#ifndef PROFD_CLIENT_PROCESS_INTERPRETER_H
#define PROFD_CLIENT_PROCESS_INTERPRETER_H

#include "object.h"

#include "proto/python/memory.h"

#include <stdbool.h>

struct interpreter {
	const struct process_object *object; /* libpython, or the program */
	uint64_t runtime;		     /* _PyRuntime */
	unsigned minor;			     /* 3.MINOR; 0: its version is not known */
};

/* False: there is no Python. */
bool interpreter_find(struct python_memory *memory, const struct process_objects *objects, struct interpreter *ret);

#endif
