/* exits.c - a stepping process that ends, or changes, in every way there is.
 *
 *     exits --mode=M [--after=N] [--step-ms=T] [--code=C]
 *
 * Steps N times (each with one range `step`), then does M:
 *   exit      exit(C)                         _exit    _exit(C)
 *   return    returns C from main             abort    abort()
 *   signal    dies of SIGTERM                 segv     dies of SIGSEGV
 *   exec      execs itself with --mode=exit   fork     forks a child that steps N times and exits; then goes on for N
 *   clone     the same with a raw clone, without the C library's knowledge
 *   vfork     runs /bin/true by posix_spawn   thread   the stepping thread exits, another steps N times
 *   quit      the main thread leaves by pthread_exit, another steps N times and exits
 * Prints one line of JSON before it ends: mode, steps, pid, and the child's status where it had one. */
#include "workload.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

static double step_time;
static long after, stepped;
static int code;
extern char **environ;

static void steps(long n)
{
	void (*push)(const char *), (*pop)(void);
	*(void **)&push = profd_function("profd_range_push");
	*(void **)&pop = profd_function("profd_range_pop");
	double next = seconds();
	for (long i = 0; i < n; i++) {
		if (stepped == HELD)
			hold();
		if (push)
			push("step");
		pace(&next, step_time);
		if (pop)
			pop();
		step();
		stepped++;
	}
}

static void report(const char *mode, int child)
{
	printf("{\"mode\": \"%s\", \"steps\": %ld, \"pid\": %d, \"child_status\": %d}\n", mode, stepped, (int)getpid(),
	       child);
	fflush(stdout);
}

static int child_of(int by_clone)
{
	int status = -1;
	fflush(stdout);
	pid_t pid = by_clone ? (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, 0UL) : fork();
	if (pid == 0) {
		steps(after);
		_exit(0);
	}
	steps(after);
	if (pid > 0)
		waitpid(pid, &status, 0);
	return status;
}

static void *thread_steps(void *unused)
{
	steps(after);
	return unused;
}

static void *thread_ends(void *unused)
{
	(void)unused;
	steps(after);
	report("quit", 0);
	exit(code);
}

int main(int argc, char **argv)
{
	(void)argc;
	const char *mode = argument(argv, "mode", "exit");
	pthread_t thread;
	after = (long)number(argv, "after", 100);
	step_time = number(argv, "step-ms", 5) * 1e-3;
	code = (int)number(argv, "code", 0);
	int child = 0;
	if (strcmp(mode, "thread") == 0) {
		for (int i = 0; i < 2; i++) {
			if (pthread_create(&thread, NULL, thread_steps, NULL) != 0)
				return 1;
			pthread_join(thread, NULL);
		}
		report(mode, 0);
		return code;
	}
	steps(after);
	if (strcmp(mode, "quit") == 0) {
		if (pthread_create(&thread, NULL, thread_ends, NULL) != 0)
			return 1;
		pthread_exit(NULL);
	}
	if (strcmp(mode, "fork") == 0 || strcmp(mode, "clone") == 0)
		child = child_of(mode[0] == 'c');
	if (strcmp(mode, "vfork") == 0) {
		char *arguments[] = {(char *)(uintptr_t) "true", NULL};
		pid_t pid;
		if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) == 0)
			waitpid(pid, &child, 0);
		steps(after);
	}
	report(mode, child);
	if (strcmp(mode, "exec") == 0) {
		char with[64], time[64];
		snprintf(with, sizeof with, "--after=%ld", after);
		snprintf(time, sizeof time, "--step-ms=%g", step_time * 1e3);
		execl("/proc/self/exe", argv[0], "--mode=exit", with, time, (char *)NULL);
		return 127;
	}
	if (strcmp(mode, "_exit") == 0)
		_exit(code);
	if (strcmp(mode, "abort") == 0)
		abort();
	if (strcmp(mode, "signal") == 0)
		raise(SIGTERM);
	if (strcmp(mode, "segv") == 0)
		raise(SIGSEGV);
	if (strcmp(mode, "return") == 0)
		return code;
	exit(code);
}
