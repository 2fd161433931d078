/* object.c - see object.h. */
#include "object.h"

#include "facts.h"

#include "client/ui/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECTS_MOST 8192

static void keep_path(char *to, size_t bytes, const char *path)
{
	size_t n = strlen(path);

	snprintf(to, bytes, "%s", n < bytes ? path : path + n - bytes + 1);
}

/* Adds a mapping to the object that it is of, or begins one. */
static void add_mapping(struct process_objects *objects, uint64_t from, uint64_t to, uint64_t offset, bool code,
			const char *path)
{
	struct process_object *last = objects->count ? &objects->rows[objects->count - 1] : NULL;
	char kept[sizeof last->path];

	keep_path(kept, sizeof kept, path);
	if (!last || strcmp(last->path, kept) != 0 || !offset) {
		if (objects->count == OBJECTS_MOST)
			return;
		objects->rows = need(realloc(objects->rows, (objects->count + 1) * sizeof *objects->rows));
		last = &objects->rows[objects->count++];
		*last = (struct process_object){.base = from - offset};
		memcpy(last->path, kept, sizeof kept);
	}
	if (code && !last->begin)
		last->begin = from;
	if (code)
		last->end = to;
}

static bool take_line(void *context, char *line)
{
	unsigned long long from, to, offset;
	char flags[8];
	int path = 0;

	if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %n", &from, &to, flags, &offset, &path) >= 4 && path &&
	    (line[path] == '/' || strcmp(line + path, "[vdso]") == 0))
		add_mapping(context, from, to, offset, flags[2] == 'x', line + path);
	return true;
}

int process_objects_read(struct process_objects *ret, int64_t pid)
{
	*ret = (struct process_objects){0};
	int error = process_lines(pid, "maps", take_line, ret);
	return error ? error : ret->count ? 0 : -ESRCH;
}

void process_objects_free(struct process_objects *objects)
{
	free(objects->rows);
	*objects = (struct process_objects){0};
}

const char *process_object_name(const struct process_object *object)
{
	const char *slash = strrchr(object->path, '/');

	return slash ? slash + 1 : object->path;
}

const struct process_object *process_object_at(const struct process_objects *objects, uint64_t address)
{
	for (size_t i = 0; i < objects->count; i++)
		if (address >= objects->rows[i].begin && address < objects->rows[i].end)
			return &objects->rows[i];
	return NULL;
}
