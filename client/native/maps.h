/* maps.h - what a process has mapped: where a stack ends, and which file each piece of code is of. */
#ifndef PROFD_CLIENT_NATIVE_MAPS_H
#define PROFD_CLIENT_NATIVE_MAPS_H

#include <stddef.h>
#include <stdint.h>

/* A file whose code is mapped. */
struct native_object {
	uint64_t begin, end;
	char *path; /* as /proc/PID/maps has it */
};

struct native_range {
	uint64_t begin, end;
};

struct native_maps {
	struct native_object *objects;
	size_t object_count, object_room;
	struct native_range *ranges; /* all mappings, by address */
	size_t range_count, range_room;
	uint64_t interpreter; /* an address in the file of the interpreter; 0: not known */
};

/* Returns 0 or a negative errno. */
int native_maps_read(struct native_maps *ret, int64_t pid);
void native_maps_free(struct native_maps *maps);
/* The end of the mapping that an address lies in; 0: it lies in none. */
uint64_t native_maps_end(const struct native_maps *maps, uint64_t address);

#endif
