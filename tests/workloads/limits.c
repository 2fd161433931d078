/* limits.c - a job near a limit of its process.
 *
 *     limits --limit=none|as|data|lock [--room-mib=N] [--need-mib=M] [--lock] [--steps=S] [--step-ms=T]
 *
 * After its second step it allows itself N MiB beyond what it has (`as`: address space, `data`: memory of its own, `lock`: locked
 * memory, as one without CAP_IPC_LOCK). --lock=1: all that it maps from the start on is locked (mlockall, MCL_FUTURE). In each
 * step it takes M MiB in pieces of 1 MiB and gives them back. Prints {"steps": S, "failed": mallocs that failed}. */
#include "workload.h"

#include <linux/capability.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Bytes by the n-th number of /proc/self/statm. */
static rlim_t in_use(int n)
{
	unsigned long pages[6] = {0};
	FILE *file = fopen("/proc/self/statm", "r");
	if (!file ||
	    fscanf(file, "%lu %lu %lu %lu %lu %lu", pages, pages + 1, pages + 2, pages + 3, pages + 4, pages + 5) != 6)
		exit(1);
	fclose(file);
	return (rlim_t)pages[n] * (rlim_t)sysconf(_SC_PAGESIZE);
}

static int set_limit(const char *what, rlim_t room)
{
	struct rlimit limit;
	if (!strcmp(what, "none"))
		return 0;
	int resource = !strcmp(what, "as") ? RLIMIT_AS : !strcmp(what, "data") ? RLIMIT_DATA : RLIMIT_MEMLOCK;
	if (getrlimit((__rlimit_resource_t)resource, &limit) < 0)
		return -1;
	limit.rlim_cur = resource == RLIMIT_MEMLOCK ? room : in_use(resource == RLIMIT_AS ? 0 : 5) + room;
	if (resource == RLIMIT_MEMLOCK) {
		struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
		struct __user_cap_data_struct sets[2];
		if (syscall(SYS_capget, &head, sets) < 0)
			return -1;
		/* As much as it may, where it is nobody who could raise the limit. */
		struct rlimit raised = {room, room};
		if (limit.rlim_max < room && setrlimit((__rlimit_resource_t)resource, &raised) == 0)
			limit.rlim_max = room;
		limit.rlim_cur = limit.rlim_max < room ? limit.rlim_max : room;
		sets[0].effective &= ~(1u << CAP_IPC_LOCK);
		if (syscall(SYS_capset, &head, sets) < 0)
			return -1;
	}
	return setrlimit((__rlimit_resource_t)resource, &limit);
}

int main(int argc, char **argv)
{
	(void)argc;
	long steps = (long)number(argv, "steps", 200), need = (long)number(argv, "need-mib", 0), failed = 0;
	double step_time = number(argv, "step-ms", 10) * 1e-3;
	/* Each piece is asked of the kernel, and given back to it. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	void **pieces = calloc((size_t)need + 1, sizeof *pieces);
	if (number(argv, "lock", 0) > 0 && mlockall(MCL_FUTURE) < 0)
		return 2;
	for (long n = 0; n < steps || stays(); n++) {
		double until = seconds() + step_time;
		if (n == 2 && set_limit(argument(argv, "limit", "none"), (rlim_t)number(argv, "room-mib", 0) << 20) < 0)
			return 1;
		for (long i = 0; i < need; i++) {
			pieces[i] = malloc(1 << 20);
			failed += !pieces[i];
		}
		wait_until(until);
		for (long i = 0; i < need; i++)
			free(pieces[i]);
		step();
	}
	printf("{\"steps\": %ld, \"failed\": %ld}\n", steps, failed);
	free(pieces);
	return 0;
}
