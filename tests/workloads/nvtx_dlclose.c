/* nvtx_dlclose.c - a library with NVTX comes and goes, over and over.
 *
 *     nvtx_dlclose [--steps=N] [--step-ms=T] [--pairs=P] [--library=PATH]
 *
 * Each step opens libnvtx_part.so (beside this program), makes P ranges `part` in it, makes one range `whole` in the
 * program, and closes the library again. Prints one line of JSON: steps, ranges of a step, how often the library was
 * really unmapped. */
#include "workload.h"

#include <signal.h>

#include <nvtx3/nvToolsExt.h>

static volatile sig_atomic_t enough;

static void on_term(int signal)
{
	(void)signal;
	enough = 1;
}

int main(int argc, char **argv)
{
	(void)argc;
	char beside[4096];
	double steps = number(argv, "steps", 1e12), step_time = number(argv, "step-ms", 2) * 1e-3, next = seconds(),
	       n = 0;
	int pairs = (int)number(argv, "pairs", 10);
	long unmapped = 0;
	ssize_t length = readlink("/proc/self/exe", beside, sizeof beside - 64);
	if (length < 0)
		return 1;
	beside[length] = 0;
	char *slash = strrchr(beside, '/');
	snprintf(slash + 1, sizeof beside - (size_t)(slash + 1 - beside), "libnvtx_part.so");
	const char *path = argument(argv, "library", beside);
	signal(SIGTERM, on_term);
	while (n < steps && !enough) {
		void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		void (*work)(int) = NULL;
		if (library)
			*(void **)&work = dlsym(library, "part_work");
		if (!work) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		nvtxRangePushA("whole");
		work(pairs);
		nvtxRangePop();
		dlclose(library);
		library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
		if (library)
			dlclose(library);
		else
			unmapped++;
		pace(&next, step_time);
		step();
		n++;
	}
	printf("{\"steps\": %.0f, \"pairs\": %d, \"ranges_per_step\": %d, \"unmapped\": %ld}\n", n, pairs, pairs + 1,
	       unmapped);
	return 0;
}
