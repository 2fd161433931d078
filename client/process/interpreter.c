/* interpreter.c - see interpreter.h. */
#include "interpreter.h"

#include "proto/python/symbol.h"

#include <stdio.h>
#include <string.h>

/* From 3.11 on the version is a symbol. Before, only names of files tell it. */
static unsigned minor_by_names(const struct process_objects *objects)
{
	for (size_t i = 0; i < objects->count; i++) {
		const char *at = strstr(objects->rows[i].path, "python3.");
		unsigned minor;

		if (at && sscanf(at, "python3.%2u", &minor) == 1)
			return minor;
	}
	return 0;
}

bool interpreter_find(struct python_memory *memory, const struct process_objects *objects, struct interpreter *ret)
{
	*ret = (struct interpreter){0};
	/* A program may hold Python without saying so in its name; a library that does has "python" in its name. */
	for (size_t i = 0; i < objects->count && !ret->runtime; i++) {
		if (i && !strstr(process_object_name(&objects->rows[i]), "python"))
			continue;
		ret->runtime = python_symbol(memory, objects->rows[i].base, "_PyRuntime");
		ret->object = &objects->rows[i];
	}
	if (!ret->runtime)
		return false;
	uint64_t version = python_symbol(memory, ret->object->base, "Py_Version");
	uint32_t hex = 0;
	if (version && python_read(memory, version, &hex, sizeof hex) && hex >> 24 == 3)
		ret->minor = hex >> 16 & 0xff;
	else
		ret->minor = minor_by_names(objects);
	return true;
}
