/* forks.c - forks while the agent's thread is inside the loader (libhold.c), and looks what its children find.
 *
 *     forks [--forks=N] [--how=H] [--torch=PATH] [--linger-ms=T] [--stay=FILE]
 *
 * H: fork      N times fork(); each child calls dl_iterate_phdr and dlsym and exits
 *    slow      a fork handler takes T ms; says whether the agent entered the loader meanwhile
 *    signal    forks from a signal handler
 *    callback  forks from inside a callback of dl_iterate_phdr
 *    nested    forks from inside a fork handler
 *    threads   four threads fork at a time
 *    vfork, spawn, clone: as their names say
 * Prints one line of JSON: how, forks, hung (children that did not end well within 5 s), entered (the agent into the loader, while
 * a fork was under way), torch (was it there), slowest_ms (of the forks). Then goes on for as long as FILE
 * is there. */
#include "workload.h"

#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>

static int (*hold_inside)(void);
static long (*hold_entered)(void);
static _Atomic int hung, done, slowest;
static double linger;
static long entered_meanwhile;
static int nest;
static pid_t nested; /* a child of the fork handler's: that it ends takes no part of the fork's time */
extern char **environ;

static int count(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)info, (void)size;
	++*(int *)context;
	return 0;
}

static void child_looks(void)
{
	int n = 0;
	dl_iterate_phdr(count, &n);
	_exit(n > 0 && dlsym(RTLD_DEFAULT, "getpid") ? 0 : 1);
}

/* The agent is inside the loader now, if it ever is. */
static void wait_for_agent(void)
{
	for (double until = seconds() + 3; hold_inside && !hold_inside() && seconds() < until;)
		nap();
}

static void wait_for_child(pid_t pid)
{
	int status = 0;
	for (double until = seconds() + 5; seconds() < until;) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			atomic_fetch_add(status == 0 ? &done : &hung, 1);
			return;
		}
		wait_until(seconds() + 1e-3);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	atomic_fetch_add(&hung, 1);
}

static void fork_once(void)
{
	double from = seconds();
	pid_t pid = fork();
	if (pid == 0)
		child_looks();
	int ms = (int)((seconds() - from) * 1e3);
	if (ms > atomic_load(&slowest))
		atomic_store(&slowest, ms);
	wait_for_child(pid);
	if (nested) {
		wait_for_child(nested);
		nested = 0;
	}
}

static void on_signal(int number)
{
	(void)number;
	fork_once();
}

static int fork_inside(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)info, (void)size;
	/* The agent has come to wait for the loader, inside its gate. */
	wait_until(seconds() + linger);
	pid_t pid = fork();
	/* The child has the loader's lock, as its parent had: it may not look. */
	if (pid == 0)
		_exit(0);
	wait_for_child(pid);
	*(int *)context = 1;
	return 1;
}

static void before_fork(void)
{
	if (linger > 0) {
		long before = hold_entered ? hold_entered() : 0;
		wait_until(seconds() + linger);
		entered_meanwhile += (hold_entered ? hold_entered() : 0) - before;
	}
	if (nest) {
		nest = 0;
		nested = fork();
		if (nested == 0)
			_exit(0);
	}
}

static void *thread_forks(void *n)
{
	for (long i = 0; i < *(long *)n; i++) {
		wait_for_agent();
		fork_once();
	}
	return NULL;
}

static void fork_by(const char *how)
{
	char *arguments[] = {(char *)(uintptr_t) "true", NULL};
	pid_t pid = -1;
	int ret = 0;
	wait_for_agent();
	if (!strcmp(how, "signal")) {
		raise(SIGUSR1);
	} else if (!strcmp(how, "callback")) {
		dl_iterate_phdr(fork_inside, &ret);
	} else if (!strcmp(how, "vfork")) {
		pid = vfork();
		if (pid == 0)
			_exit(0);
		wait_for_child(pid);
	} else if (!strcmp(how, "spawn")) {
		if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) == 0)
			wait_for_child(pid);
	} else if (!strcmp(how, "clone")) {
		pid = (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, 0UL);
		if (pid == 0)
			_exit(0);
		wait_for_child(pid);
	} else {
		nest = !strcmp(how, "nested");
		fork_once();
	}
}

int main(int argc, char **argv)
{
	(void)argc;
	const char *how = argument(argv, "how", "fork"),
		   *torch = argument(argv, "torch", "/nonexistent/libtorch_none.so");
	long forks = (long)number(argv, "forks", 20);
	if (!strcmp(how, "slow") || !strcmp(how, "nested"))
		pthread_atfork(before_fork, NULL, NULL);
	signal(SIGUSR1, on_signal);
	/* Without the agent there is nobody to wait for. */
	if (profd_function("profd_step")) {
		*(void **)&hold_inside = dlsym(RTLD_DEFAULT, "hold_inside");
		*(void **)&hold_entered = dlsym(RTLD_DEFAULT, "hold_entered");
	}
	/* The agent looks for torch from now on, every 50 ms. */
	int torch_there = dlopen(torch, RTLD_NOW | RTLD_GLOBAL) != NULL;
	if (!strcmp(how, "slow") || !strcmp(how, "callback")) {
		wait_for_agent();
		linger = number(argv, "linger-ms", 300) * 1e-3;
	}
	if (!strcmp(how, "threads")) {
		pthread_t threads[4];
		for (int i = 0; i < 4; i++)
			if (pthread_create(&threads[i], NULL, thread_forks, &forks) != 0)
				return 1;
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		forks *= 4;
	} else {
		for (long i = 0; i < forks; i++)
			fork_by(how);
	}
	printf("{\"how\": \"%s\", \"forks\": %ld, \"hung\": %d, \"entered\": %ld, \"torch\": %d, \"slowest_ms\": %d}\n",
	       how, forks, atomic_load(&hung), entered_meanwhile, torch_there, atomic_load(&slowest));
	fflush(stdout);
	while (access(argument(argv, "stay", "/nonexistent"), F_OK) == 0)
		wait_until(seconds() + 0.01);
	return 0;
}
