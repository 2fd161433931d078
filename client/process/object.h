/* object.h - the objects (program, libraries) that a process has mapped. */
#ifndef PROFD_CLIENT_PROCESS_OBJECT_H
#define PROFD_CLIENT_PROCESS_OBJECT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct process_object {
	uint64_t base;	     /* where its first page is mapped */
	uint64_t begin, end; /* its executable pages; 0 where it has none */
	char path[256];	     /* as /proc/PID/maps has it, cut in front where it is long */
};

struct process_objects {
	struct process_object *rows;
	size_t count;
};

/* Returns 0 or a negative errno; the first row is the program. */
int process_objects_read(struct process_objects *ret, int64_t pid);
void process_objects_free(struct process_objects *objects);

/* The last part of its path. */
const char *process_object_name(const struct process_object *object);
/* Which object's executable pages an address lies in; NULL: none. */
const struct process_object *process_object_at(const struct process_objects *objects, uint64_t address);

#endif
