/* torch_exits.c - steps as torch's optimizers do (libtorch_cpu.c), and ends.
 *
 *     torch_exits [--how=H] [--after=N] [--step-ms=T] [--code=C]
 *
 * After N steps, or as soon as the agent has stopped inside torch (TORCH_STOP_AT), it ends by H: exit, return, _exit, signal, thread
 * (exit() by another thread), abort. Prints one line of JSON first: how, stopped (was it inside torch). */
#include "workload.h"

#include <pthread.h>
#include <signal.h>

static int code;

static void *thread_ends(void *unused)
{
	(void)unused;
	exit(code);
}

int main(int argc, char **argv)
{
	(void)argc;
	char path[4096];
	const char *how = argument(argv, "how", "exit");
	double until = seconds() + 120, step_time = number(argv, "step-ms", 2) * 1e-3;
	long after = (long)number(argv, "after", 100000);
	void (*range)(const char *) = NULL;
	int (*stopped)(void) = NULL;
	code = (int)number(argv, "code", 7);
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
	char *name = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
	if (!name)
		return 1;
	snprintf(name, 32, "/libc10.so");
	void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	snprintf(name, 32, "/libtorch_cpu.so");
	library = library ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
	if (!library)
		return 1;
	*(void **)&range = dlsym(library, "torch_range");
	*(void **)&stopped = dlsym(library, "torch_stopped");
	double next = seconds();
	for (long i = 0; (i < after || stays()) && !stopped() && seconds() < until; i++) {
		while (seconds() < next + step_time && !stopped())
			nap();
		next += step_time;
		range("Optimizer.step#SGD.step");
	}
	printf("{\"how\": \"%s\", \"stopped\": %d}\n", how, stopped());
	fflush(stdout);
	if (!strcmp(how, "_exit"))
		_exit(code);
	if (!strcmp(how, "signal"))
		raise(SIGTERM);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "thread")) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, thread_ends, NULL) != 0)
			return 1;
		pthread_join(thread, NULL);
	}
	if (!strcmp(how, "return"))
		return code;
	exit(code);
}
