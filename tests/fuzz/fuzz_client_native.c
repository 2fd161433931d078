/* fuzz_client_native.c - /proc of a hostile process, as `profd stack` and `profd attach` read it: what it has mapped, its objects, where its
 * threads stand, its states and its command line. See files.h.
 * wrap: fopen open */
#include "client/native/maps.h"
#include "client/native/stand.h"
#include "client/process/facts.h"
#include "client/process/object.h"
#include "client/process/task.h"
#include "files.h"

#include <fcntl.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int __wrap_open(const char *path, int flags, ...);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__real_fopen(const char *path, const char *mode);

int __wrap_open(const char *path, int flags, ...)
{
	return strncmp(path, "/proc/", 6) == 0 ? files_open() : openat(AT_FDCWD, path, flags, 0600);
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
	return strncmp(path, "/proc/", 6) == 0 ? files_stream() : __real_fopen(path, mode);
}

static void read_maps(void)
{
	struct native_maps maps;
	struct process_objects objects;
	native_maps_read(&maps, 100);
	for (size_t i = 0; i < maps.range_count && i < 64; i++) {
		uint64_t end = native_maps_end(&maps, maps.ranges[i].begin);
		if (end && end <= maps.ranges[i].begin)
			abort();
	}
	for (size_t i = 0; i < maps.object_count; i++)
		if (!maps.objects[i].path || maps.objects[i].path[0] != '/')
			abort();
	/* Its memory cannot be read: only what stands in /proc is looked at here. */
	struct process_memory memory = {.pid = 100, .fd = -1};
	struct native_stand stand;
	size_t room = 1 << 20, before = room;
	stand_look(&stand, 100, 101, &memory, &maps, &room);
	stand_stood(&stand);
	stand_call_name(stand.number);
	stand_free(&stand, &room);
	if (room != before)
		abort();
	native_maps_free(&maps);
	process_objects_read(&objects, 100);
	for (size_t i = 0; i < objects.count && i < 64; i++) {
		process_object_name(&objects.rows[i]);
		process_object_at(&objects, objects.rows[i].begin);
	}
	process_objects_free(&objects);
}

static void read_facts(void)
{
	char text[64];
	process_number(100, PROCESS_START);
	process_number(100, PROCESS_ARGUMENTS);
	if (process_status(100, "NSpid", text, sizeof text) && strnlen(text, sizeof text) == sizeof text)
		abort();
	process_command(100, text, sizeof text);
	if (strnlen(text, sizeof text) == sizeof text)
		abort();
	process_maps(100, "libtorch");
	process_task_state(100, 101);
	/* Its own threads by number, the input's texts of them. */
	size_t count;
	struct process_task *tasks = process_tasks(getpid(), &count);
	for (size_t i = 0; i < count; i++)
		if (strnlen(tasks[i].name, sizeof tasks[i].name) == sizeof tasks[i].name)
			abort();
	free(tasks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (!n)
		return 0;
	files_begin(data + 1, n - 1);
	if (data[0] & 1)
		read_facts();
	else
		read_maps();
	return 0;
}
