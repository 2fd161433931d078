/* fuzz_client_container.c - a process in a container, and the machine's driver, as the doctor reads them: the environment that a job was
 * started with, its program's head, its clocks, the driver's version. See files.h.
 * wrap: fopen stat */
#include "client/doctor/container.h"
#include "client/doctor/driver.h"
#include "files.h"

#include <stdio.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__real_fopen(const char *path, const char *mode);
int __wrap_stat(const char *path, struct stat *ret);
int __real_stat(const char *path, struct stat *ret);

static const struct column columns[] = {
	{"check", "CHECK", COLUMN_TEXT, 0},
	{"result", "RESULT", COLUMN_TEXT, 0},
	{"sentence", "WHAT WAS FOUND", COLUMN_TEXT, COLUMN_WRAP},
};

FILE *__wrap_fopen(const char *path, const char *mode)
{
	return strncmp(path, "/proc/", 6) == 0 ? files_stream() : __real_fopen(path, mode);
}

/* Its namespaces are all others than ours. */
int __wrap_stat(const char *path, struct stat *ret)
{
	if (strncmp(path, "/proc/", 6) != 0)
		return __real_stat(path, ret);
	memset(ret, 0, sizeof *ret);
	ret->st_ino = strncmp(path, "/proc/self/", 11) == 0;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct table *checks = table_new(columns, sizeof columns / sizeof *columns);
	files_begin(data, n);
	inspect_container(getpid(), checks);
	inspect_clocks(getpid());
	inspect_class(getpid(), checks);
	inspect_cuda(checks);
	cJSON_Delete(table_json(checks, 100));
	table_free(checks);
	return 0;
}
