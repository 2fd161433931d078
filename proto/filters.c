/* filters.c - see filters.h. Runs in the job's process too. No state. */
#include "filters.h"
#include "small_file.h"
#include "system.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static int number_after(const char *text, const char *label)
{
	const char *at = strstr(text, label);
	int value = 0;
	if (!at)
		return -ENODATA;
	at += strlen(label);
	while (*at == ' ' || *at == '\t')
		at++;
	for (; *at >= '0' && *at <= '9' && value < 1000000; at++)
		value = value * 10 + (*at - '0');
	return value;
}

static int count_of(const char *status_path, bool living)
{
	/* The line comes after that of the groups, which may be long. */
	char text[16384];
	long n = small_file_read(status_path, text, sizeof text);
	if (n < 0)
		return (int)n;
	if (living && (strstr(text, "\nState:\tZ") || strstr(text, "\nState:\tX")))
		return -ESRCH;
	int count = number_after(text, "\nSeccomp_filters:");
	return count < 0 ? number_after(text, "\nSeccomp:") : count;
}

int filters_of(const char *status_path)
{
	return count_of(status_path, false);
}

int filters_of_living(const char *status_path)
{
	return count_of(status_path, true);
}

const char filters_thread_sentence[] =
	"one of its threads has a seccomp filter of its own; a call of the agent that the filter forbids would end "
	"the process, so nothing is recorded. Record it before that thread sets its filter, or "
	"start the process inside the filter";

/* Returns whether the thread was new. If half of the table is full it forgets all threads. */
static bool see(struct filters_seen *seen, uint32_t tid)
{
	if (seen->count >= FILTERS_SEEN / 2)
		memset(seen, 0, sizeof *seen);
	uint32_t at = tid * 2654435761u % FILTERS_SEEN;
	while (seen->tids[at] && seen->tids[at] != tid)
		at = (at + 1) % FILTERS_SEEN;
	if (seen->tids[at])
		return false;
	seen->tids[at] = tid;
	seen->count++;
	return true;
}

static bool is_confined(const char *folder, const char *name, int more_than)
{
	char path[64];
	size_t n = strlen(folder), m = strlen(name);
	if (n + m + sizeof "//status" > sizeof path)
		return false;
	memcpy(path, folder, n);
	path[n] = '/';
	memcpy(path + n + 1, name, m);
	memcpy(path + n + 1 + m, "/status", sizeof "/status");
	return filters_of_living(path) > more_than;
}

uint32_t filters_of_threads(const char *folder, int more_than, struct filters_seen *seen)
{
	char entries[2048] __attribute__((aligned(8)));
	struct small_file list;
	uint32_t found = 0, left = FILTERS_SEEN;
	int saved = errno;
	if (small_file_open(&list, folder, O_RDONLY | O_DIRECTORY) < 0)
		return 0;
	for (long n; !found && left && small_file_is(&list) &&
		     (n = syscall(SYS_getdents64, list.fd, entries, sizeof entries)) > 0;) {
		/* struct linux_dirent64: inode, offset, length of the record, type, name. */
		for (long at = 0; at < n && !found && left;) {
			unsigned short length;
			uint32_t tid = 0;
			memcpy(&length, entries + at + 16, sizeof length);
			const char *name = entries + at + 19;
			for (const char *c = name; *c >= '0' && *c <= '9'; c++)
				tid = tid * 10 + (uint32_t)(*c - '0');
			at += length;
			if (!tid || !see(seen, tid))
				continue;
			left--;
			found = is_confined(folder, name, more_than) ? tid : 0;
		}
	}
	small_file_close(&list);
	errno = saved;
	return found;
}
