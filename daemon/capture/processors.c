/* processors.c - see processors.h. cgroup v2, and the controller cpu of v1. There may be a quota at each level between
 * the process and the root: the smallest one counts, and its group is the one that is stopped. No locks. */
#include "processors.h"

#include "process_stat.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Enough for the files of a group, and for /proc/PID/cgroup of a deep one. */
#define TEXT_BYTES 8192
#define PROCESSORS_MOST 8192

/* False: it is not there, or cannot be read. */
static bool read_text(const char *path, char text[TEXT_BYTES])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	size_t n = 0;
	ssize_t got = 1;
	if (fd < 0)
		return false;
	while (n < TEXT_BYTES - 1 && (got = read(fd, text + n, TEXT_BYTES - 1 - n)) > 0)
		n += (size_t)got;
	close(fd);
	text[n] = 0;
	return got >= 0;
}

/* The number behind a word at the beginning of a line; 0 where there is none. */
static uint64_t number_of(const char *text, const char *word)
{
	size_t n = strlen(word);
	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, word, n) == 0 && at[n] == ' ')
			return strtoull(at + n + 1, NULL, 10);
	}
	return 0;
}

/* Thousandths of a processor; 0: as many as there are. */
static uint64_t limit_of(const char *quota, const char *period)
{
	double used = strtod(quota, NULL), of = strtod(period, NULL);
	/* Infinity by infinity is a NaN, with which all comparisons are false. */
	if (!(used > 0) || !(of > 0) || !(used / of <= PROCESSORS_MOST))
		return 0;
	uint64_t limit = (uint64_t)(used / of * 1000 + 0.5);
	return limit ? limit : 1;
}

/* The quota of one group. */
static uint64_t limit_at(const char *group)
{
	char path[PATH_MAX], text[TEXT_BYTES], period[TEXT_BYTES];
	if (snprintf(path, sizeof path, "%s/cpu.max", group) < (int)sizeof path && read_text(path, text)) {
		const char *space = strchr(text, ' ');
		return space && strncmp(text, "max", 3) != 0 ? limit_of(text, space + 1) : 0;
	}
	if (snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", group) >= (int)sizeof path || !read_text(path, text))
		return 0;
	if (snprintf(path, sizeof path, "%s/cpu.cfs_period_us", group) >= (int)sizeof path || !read_text(path, period))
		return 0;
	return limit_of(text, period);
}

static void take_group(const char *group, struct store_processors *ret)
{
	char path[PATH_MAX], text[TEXT_BYTES];
	uint64_t limit = limit_at(group);
	if (!limit || (ret->limit && ret->limit <= limit))
		return;
	ret->limit = limit;
	ret->periods = ret->stopped = 0;
	if (snprintf(path, sizeof path, "%s/cpu.stat", group) >= (int)sizeof path || !read_text(path, text))
		return;
	ret->periods = number_of(text, "nr_periods");
	ret->stopped = number_of(text, "nr_throttled");
}

/* The group and all above it, to the mount. A path that leads out of this process's cgroup namespace begins with
 * "/..". */
static void take_path(const char *mount, const char *group, struct store_processors *ret)
{
	char path[PATH_MAX];
	size_t root = strlen(mount);
	if (strstr(group, "/..") || snprintf(path, sizeof path, "%s%s", mount, group) >= (int)sizeof path)
		return;
	for (;;) {
		size_t n = strlen(path);
		while (n > root && path[n - 1] == '/')
			path[--n] = 0;
		take_group(path, ret);
		char *slash = n > root ? strrchr(path + root, '/') : NULL;
		if (!slash)
			return;
		*slash = 0;
	}
}

/* Is `cpu` among the controllers, a list with commas? */
static bool has_cpu(const char *list, size_t bytes)
{
	for (const char *at = list; at < list + bytes;) {
		size_t n = strcspn(at, ",:");
		if (n == 3 && strncmp(at, "cpu", 3) == 0)
			return true;
		at += n + 1;
	}
	return false;
}

void processors_read_cgroup(const char *proc, const char *cgroups, pid_t pid, struct store_processors *ret)
{
	static const char *const mounts[] = {"/cpu", "/cpu,cpuacct", "/cpuacct,cpu"};
	char path[PATH_MAX], text[TEXT_BYTES], *rest = NULL;
	if (snprintf(path, sizeof path, "%s/%d/cgroup", proc, pid) >= (int)sizeof path || !read_text(path, text))
		return;
	/* Lines: number:controllers:path. The line of v2 has the number 0 and no controllers. */
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
		if (!group || group[1] != '/')
			continue;
		if (list + 1 == group)
			take_path(cgroups, group + 1, ret);
		else if (has_cpu(list + 1, (size_t)(group - list - 1)))
			for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++)
				if (snprintf(path, sizeof path, "%s%s", cgroups, mounts[i]) < (int)sizeof path)
					take_path(path, group + 1, ret);
	}
}

static uint32_t allowed(pid_t pid)
{
	static const size_t bytes = CPU_ALLOC_SIZE(PROCESSORS_MOST);
	cpu_set_t *set = CPU_ALLOC(PROCESSORS_MOST);
	uint32_t count = set && sched_getaffinity(pid, bytes, set) == 0 ? (uint32_t)CPU_COUNT_S(bytes, set) : 0;
	CPU_FREE(set);
	return count;
}

void processors_read(pid_t pid, uint64_t start_time, struct store_processors *ret)
{
	struct store_processors found = {0};
	long machine = sysconf(_SC_NPROCESSORS_ONLN);
	found.machine = machine > 0 ? (uint32_t)machine : 0;
	found.allowed = allowed(pid);
	processors_read_cgroup("/proc", "/sys/fs/cgroup", pid, &found);
	*ret = process_start_time(pid) == start_time ? found : (struct store_processors){0};
}

struct store_processors processors_between(const struct store_processors *before, const struct store_processors *after)
{
	/* If the process has ended, the limits are those of the first reading. */
	struct store_processors all = after->allowed ? *after : *before;
	bool same = before->limit && before->limit == after->limit && after->periods >= before->periods &&
		    after->stopped >= before->stopped;
	all.periods = same ? after->periods - before->periods : 0;
	all.stopped = same ? after->stopped - before->stopped : 0;
	return all;
}
