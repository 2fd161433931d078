/* maps.c - see maps.h. */
#include "maps.h"
#include "proto/base/array.h"

#include "client/process/facts.h"
#include "client/ui/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGES_MOST 262144 /* four times what the kernel lets a process have if nobody has changed that */
#define OBJECTS_MOST 8192

/* Lines of one file follow one another. Data files are no objects, so a file becomes one with its first piece of code. */
struct taking {
	struct native_maps *maps;
	uint64_t begin, end; /* of the file of the lines before */
	char *path;
	bool code;
};

static void keep(struct taking *taking)
{
	struct native_maps *maps = taking->maps;

	if (taking->code && maps->object_count < OBJECTS_MOST) {
		NEED_ROOM(maps->objects, maps->object_count, maps->object_room);
		maps->objects[maps->object_count++] = (struct native_object){taking->begin, taking->end, taking->path};
	} else {
		free(taking->path);
	}
	*taking = (struct taking){.maps = maps};
}

static bool take_line(void *context, char *line)
{
	struct taking *taking = context;
	struct native_maps *maps = taking->maps;
	unsigned long long from, to, offset;
	char flags[8];
	int path = 0;

	if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %n", &from, &to, flags, &offset, &path) < 4)
		return true;
	NEED_ROOM(maps->ranges, maps->range_count, maps->range_room);
	maps->ranges[maps->range_count++] = (struct native_range){from, to};
	if (!path || line[path] != '/')
		return maps->range_count < RANGES_MOST;
	if (!taking->path || !offset || strcmp(taking->path, line + path) != 0) {
		keep(taking);
		taking->path = need(strdup(line + path));
		taking->begin = offset < from ? from - offset : from;
	}
	taking->end = to;
	taking->code |= flags[2] == 'x';
	return maps->range_count < RANGES_MOST;
}

int native_maps_read(struct native_maps *ret, int64_t pid)
{
	struct taking taking = {.maps = ret};

	*ret = (struct native_maps){0};
	int error = process_lines(pid, "maps", take_line, &taking);
	keep(&taking);
	return error;
}

void native_maps_free(struct native_maps *maps)
{
	for (size_t i = 0; i < maps->object_count; i++)
		free(maps->objects[i].path);
	free(maps->objects);
	free(maps->ranges);
	*maps = (struct native_maps){0};
}

uint64_t native_maps_end(const struct native_maps *maps, uint64_t address)
{
	size_t at = ARRAY_BEFORE(maps->range_count, i, maps->ranges[i].end <= address);

	return at < maps->range_count && maps->ranges[at].begin <= address ? maps->ranges[at].end : 0;
}
