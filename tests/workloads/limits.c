/* limits.c - a job near a limit of its process.
 *
 *     limits --limit=none|as|data|lock [--room-mib=N] [--need-mib=M] [--lock] [--gpu] [--torch=FOLDER] [--go=FILE] [--steps=S] [--step-ms=T]
 *
 * After its second step it allows itself N MiB beyond what it has (`as`: address space, `data`: memory of its own, `lock`: locked
 * memory, as one without CAP_IPC_LOCK). --lock=1: all that it maps from the start on is locked (mlockall, MCL_FUTURE). In each
 * step (go: while there is such a file) it takes M MiB in pieces of 1 MiB and gives them back. --gpu=1: it also sets memory of the GPU 4 times. FOLDER holds libc10.so
 * and libtorch_cpu.so, by which it takes 8 blocks. Prints {"steps": S, "failed": mallocs that failed}. */
#include "workload.h"

#include <linux/capability.h>
#include <malloc.h>
#include <stdbool.h>
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

#define FUNCTION(of, name) (*(void **)&(name) = dlsym(of, #name))

static int (*cuMemsetD8_v2)(unsigned long long at, unsigned char value, size_t bytes);
static unsigned long long device_memory;

static int set_up_gpu(void)
{
	int (*cuInit)(unsigned), (*cuCtxCreate_v2)(void **, unsigned, int),
		(*cuMemAlloc_v2)(unsigned long long *, size_t);
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
	if (!driver || !FUNCTION(driver, cuInit) || !FUNCTION(driver, cuCtxCreate_v2) ||
	    !FUNCTION(driver, cuMemAlloc_v2) || !FUNCTION(driver, cuMemsetD8_v2))
		return -1;
	return cuInit(0) || cuCtxCreate_v2(&context, 0, 0) || cuMemAlloc_v2(&device_memory, 4096) ? -1 : 0;
}

static void *(*cpu_take)(uint64_t bytes);
static void (*cpu_give_back)(void *);

static int set_up_torch(const char *folder)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/libc10.so", folder);
	void *c10 = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
	snprintf(path, sizeof path, "%s/libtorch_cpu.so", folder);
	void *torch = c10 ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
	return torch && FUNCTION(c10, cpu_take) && FUNCTION(c10, cpu_give_back) ? 0 : -1;
}

/* The part of a step that tools look at. */
static int compute(void)
{
	for (int i = 0; cuMemsetD8_v2 && i < 4; i++)
		if (cuMemsetD8_v2(device_memory, (unsigned char)i, 4096))
			return -1;
	for (int i = 0; cpu_take && i < 8; i++)
		cpu_give_back(cpu_take(1024));
	return 0;
}

int main(int argc, char **argv)
{
	(void)argc;
	long steps = (long)number(argv, "steps", 200), need = (long)number(argv, "need-mib", 0), failed = 0;
	double step_time = number(argv, "step-ms", 10) * 1e-3;
	/* Each piece is asked of the kernel, and given back to it. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	if (number(argv, "gpu", 0) > 0 && set_up_gpu() < 0)
		return 3;
	const char *torch = argument(argv, "torch", NULL);
	if (torch && set_up_torch(torch) < 0)
		return 4;
	const char *go = argument(argv, "go", NULL);
	void **pieces = calloc((size_t)need + 1, sizeof *pieces);
	if (number(argv, "lock", 0) > 0 && mlockall(MCL_FUTURE) < 0)
		return 2;
	for (long n = 0; n < steps || stays(); n++) {
		double until = seconds() + step_time;
		if (n == 2 && set_limit(argument(argv, "limit", "none"), (rlim_t)number(argv, "room-mib", 0) << 20) < 0)
			return 1;
		bool takes = !go || access(go, F_OK) == 0;
		for (long i = 0; takes && i < need; i++) {
			pieces[i] = malloc(1 << 20);
			failed += !pieces[i];
		}
		if (compute() < 0)
			return 5;
		wait_until(until);
		for (long i = 0; takes && i < need; i++)
			free(pieces[i]);
		step();
	}
	printf("{\"steps\": %ld, \"failed\": %ld}\n", steps, failed);
	free(pieces);
	return 0;
}
