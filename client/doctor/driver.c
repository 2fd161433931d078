/* driver.c - what can be seen of CUDA on this machine and in this environment. It looks at files and calls no library. */
#include "driver.h"

#include "check.h"

#include "client/start/install.h"
#include "client/ui/text.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DRIVER "libcuda.so.1"

static bool in_folders(const char *folders, char path[PATH_MAX])
{
	while (folders && *folders) {
		int n = (int)strcspn(folders, ":");

		if (n && snprintf(path, PATH_MAX, "%.*s/" DRIVER, n, folders) < PATH_MAX && access(path, R_OK) == 0)
			return true;
		folders += n;
		folders += *folders == ':';
	}
	return false;
}

/* The loader's cache has NUL-terminated paths behind a table. Takes a path that ends in the driver's name and exists. */
static bool in_cache(char path[PATH_MAX])
{
	static const char wanted[] = "/" DRIVER;
	int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
	struct stat file;
	const char *cache, *at;
	bool found = false;

	if (fd < 0)
		return false;
	if (fstat(fd, &file) < 0 || file.st_size <= 0) {
		close(fd);
		return false;
	}
	cache = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (cache == MAP_FAILED)
		return false;
	at = cache;
	/* With the NUL that ends it. */
	while (!found && (at = memmem(at, (size_t)(cache + file.st_size - at), wanted, sizeof wanted))) {
		const char *start = at;

		while (start > cache && start[-1])
			start--;
		found = *start == '/' && snprintf(path, PATH_MAX, "%s", start) < PATH_MAX && access(path, R_OK) == 0;
		at++;
	}
	munmap((void *)cache, (size_t)file.st_size);
	return found;
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ..." or "... Open Kernel Module for x86_64
 * 570.86.15 ...": the first word that is a number with a point in it. */
static bool kernel_driver(char *version, size_t bytes)
{
	FILE *file = fopen("/proc/driver/nvidia/version", "re");
	char line[512], *rest = line, *word;
	bool found = false;

	if (!file)
		return false;
	if (!fgets(line, sizeof line, file))
		line[0] = 0;
	fclose(file);
	while (!found && (word = strsep(&rest, " \t\n"))) {
		found = word[0] >= '0' && word[0] <= '9' && strchr(word, '.') && !word[strspn(word, "0123456789.")];
		if (found)
			snprintf(version, bytes, "%s", word);
	}
	return found;
}

/* How many /dev/nvidia0, 1, ... there are, and how many of them may be used. */
static size_t devices(size_t *ret_usable)
{
	glob_t found;
	size_t count = 0;

	*ret_usable = 0;
	if (glob("/dev/nvidia[0-9]*", 0, NULL, &found) != 0)
		return 0;
	count = found.gl_pathc;
	for (size_t i = 0; i < count; i++)
		*ret_usable += access(found.gl_pathv[i], R_OK | W_OK) == 0;
	globfree(&found);
	return count;
}

/* Counters are for root only on many machines. */
static bool counters_restricted(void)
{
	FILE *file = fopen("/proc/driver/nvidia/params", "re");
	char line[256];
	bool restricted = false;

	while (file && fgets(line, sizeof line, file))
		restricted = restricted || strncmp(line, "RmProfilingAdminOnly: 1", 23) == 0;
	if (file)
		fclose(file);
	return restricted;
}

static void check_driver(struct table *checks)
{
	static const char folders[] = "/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:/usr/lib:/lib64:"
				      "/usr/local/nvidia/lib64:/usr/local/nvidia/lib:/usr/lib/wsl/lib";
	char path[PATH_MAX], version[64], text[PATH_MAX + 200];
	size_t usable, count = devices(&usable);
	bool kernel = kernel_driver(version, sizeof version);

	if (!in_folders(getenv("LD_LIBRARY_PATH"), path) && !in_cache(path) && !in_folders(folders, path))
		doctor_check(checks, "cuda driver", "warning",
			     count || kernel ? "the kernel has NVIDIA's driver, but " DRIVER " is not where the loader "
					       "looks: CUDA programs cannot run here, and no kernels be recorded"
					     : "there is no CUDA driver (" DRIVER "): what runs here uses no GPU, and "
					       "everything else can be recorded");
	else
		doctor_check(checks, "cuda driver", "ok", path);
	if (kernel)
		snprintf(text, sizeof text, "NVIDIA's kernel driver is %s%s", version,
			 counters_restricted() ? "; its performance counters are for root only, which does not concern "
						 "the recording of kernels and copies"
					       : "");
	if (kernel)
		doctor_check(checks, "kernel driver", "ok", text);
	if (count) {
		snprintf(text, sizeof text, "%zu GPU%s at /dev/nvidia*%s", count, count == 1 ? "" : "s",
			 usable < count ? "; you may not use all of them" : "");
		doctor_check(checks, "gpus", usable < count ? "warning" : "ok", text);
	} else if (kernel) {
		doctor_check(checks, "gpus", "warning",
			     "there is no /dev/nvidia0: a container may not have been given a GPU");
	}
}

static void check_variables(struct table *checks)
{
	const char *held = getenv("CUDA_INJECTION64_PATH"), *trace = getenv("CUPTI_ENABLE_HW_TRACE");
	char agent[PATH_MAX], text[PATH_MAX + 200], *safe;

	if (held && *held && !(install_agent(agent) && strcmp(held, agent) == 0) && !strstr(held, "libprofd_agent")) {
		safe = text_safe(held);
		snprintf(
			text, sizeof text,
			"CUDA_INJECTION64_PATH names another tool, %.*s: up to CUDA 13.2 only one at a time can trace; "
			"unset it before the job starts, or profd will find the driver taken",
			PATH_MAX, safe);
		free(safe);
		doctor_check(checks, "injection", "warning", text);
	}
	if (trace && *trace && strcmp(trace, "0") != 0)
		doctor_check(checks, "hardware trace", "warning",
			     "CUPTI_ENABLE_HW_TRACE is set: CUPTI then traces Blackwell GPUs by their hardware, which "
			     "profd is not made for; unset it if kernels are missing");
}

void inspect_cuda(struct table *checks)
{
	check_driver(checks);
	check_variables(checks);
}
