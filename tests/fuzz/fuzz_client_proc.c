/* fuzz_client_proc.c - /proc of a hostile process, as the doctor reads it: its files follow each other in the input.
 * wrap: fopen readlink */
#include "client/doctor/inspect.h"
#include "client/link/presence.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__real_fopen(const char *path, const char *mode);
ssize_t __wrap_readlink(const char *path, char *to, size_t bytes);

static const struct column columns[] = {
	{"check", "CHECK", COLUMN_TEXT, 0},
	{"result", "RESULT", COLUMN_TEXT, 0},
	{"sentence", "WHAT WAS FOUND", COLUMN_TEXT, COLUMN_WRAP},
};
static const uint8_t *bytes_of;
static size_t left;

/* Each file that is opened takes the bytes up to the next \xff\xff. */
FILE *__wrap_fopen(const char *path, const char *mode)
{
	if (strncmp(path, "/proc/", 6) != 0)
		return __real_fopen(path, mode);
	size_t n = 0;
	while (n < left && !(n + 1 < left && bytes_of[n] == 0xff && bytes_of[n + 1] == 0xff))
		n++;
	FILE *file = n ? fmemopen((void *)(uintptr_t)bytes_of, n, "r") : NULL;
	n = n + 2 < left ? n + 2 : left;
	bytes_of += n;
	left -= n;
	return file;
}

ssize_t __wrap_readlink(const char *path, char *to, size_t bytes)
{
	(void)path;
	size_t n = left < bytes ? left : bytes;
	memcpy(to, bytes_of, n);
	return (ssize_t)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char sentence[1024] = "";
	uint8_t *copy = malloc(n ? n : 1);
	if (!copy)
		return 0;
	memcpy(copy, data, n);
	struct table *checks = table_new(columns, sizeof columns / sizeof *columns);
	bytes_of = copy;
	left = n;
	inspect_process(getpid(), checks);
	bytes_of = copy;
	left = n;
	inspect_copies(getpid(), sentence, sizeof sentence);
	bytes_of = copy;
	left = n;
	presence_of(getpid());
	cJSON_Delete(table_json(checks, 100));
	table_free(checks);
	free(copy);
	return 0;
}
