/* fated.c - a loop that goes on until somebody decides what becomes of it.
 *
 *     fated --ready=FILE [--how=H] [--step-ms=T] [--batches]
 *
 * Makes FILE before its first step. Each step has one range `step`; another thread has a range open most of the time. With --batches a
 * step is that of an optimizer of torch's (libtorch_cpu.c), and has a batch of a DataLoader; in laps of 40 it trains and validates.
 * At SIGUSR1 it does H, and where that is no end, 50 steps more:
 *   exit, _exit, abort, segv                        ends so
 *   daemonize  forks twice and leaves its session   fork    forks; the child goes on, too
 *   clone      the same without the C library       exec    becomes itself, with --how=exit, and steps on
 *   close      closes all descriptors from 3 on and opens files of its own
 *   thread     another thread goes on with the loop signals handles a signal at each step
 * Prints a line of JSON as it ends: how. */
#include "workload.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { MORE = 50, LAP = 40 };

static volatile sig_atomic_t decided;
static const char *how;
static double step_time, next;
static int batches;
static void (*push)(const char *), (*pop)(void), (*range)(const char *);
static uint64_t (*sequence)(void);

static void on_signal(int number)
{
	decided |= number == SIGUSR1;
}

/* torch's stand-in beside this program. */
static int load_torch(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
	char *name = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
	void *library = NULL;
	if (!name)
		return 0;
	path[n] = 0;
	for (int i = 0; i < 2; i++) {
		snprintf(name, 32, "%s", i ? "/libtorch_cpu.so" : "/libc10.so");
		library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	}
	if (!library)
		return 0;
	*(void **)&range = dlsym(library, "torch_range");
	*(void **)&sequence = dlsym(library, "_ZN2at15sequence_number17get_and_incrementEv");
	return range && sequence;
}

static void one(void)
{
	static long number;
	int trains = number++ / LAP % 2 == 0;
	if (batches)
		range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
	if (push)
		push("step");
	if (strcmp(how, "signals") == 0 && decided)
		raise(SIGUSR2);
	pace(&next, step_time);
	if (pop)
		pop();
	if (!batches) {
		step();
	} else if (trains) {
		sequence();
		range("Optimizer.step#SGD.step");
	}
}

static void some(void)
{
	for (int i = 0; i < MORE; i++)
		one();
}

static void *by_thread(void *unused)
{
	some();
	return unused;
}

/* A thread of its own: its range is open whenever a recording ends. */
static void *keeps_open(void *unused)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	for (;;) {
		push("open");
		wait_until(seconds() + 0.4);
		pop();
	}
	return unused;
}

static void close_and_open(void)
{
	syscall(SYS_close_range, 3u, ~0u, 0u);
	for (int i = 0; i < 8; i++)
		if (open("/proc/self/exe", O_RDONLY | O_CLOEXEC) < 0)
			_exit(1);
}

static void report(const char *who)
{
	printf("{\"how\": \"%s\", \"who\": \"%s\"}\n", how, who);
	fflush(stdout);
}

/* Both go on; the child has said what it has to say before its parent does. */
static void fork_here(int by_clone)
{
	pid_t pid = by_clone ? (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, 0UL) : fork();
	some();
	if (pid == 0) {
		report("child");
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void daemonize(void)
{
	if (fork() != 0)
		exit(0);
	setsid();
	if (fork() != 0)
		_exit(0);
}

/* What is no end comes back. */
static void meet_fate(char **argv)
{
	pthread_t thread;
	if (strcmp(how, "_exit") == 0)
		_exit(7);
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "segv") == 0)
		raise(SIGSEGV);
	if (strcmp(how, "daemonize") == 0)
		daemonize();
	if (strcmp(how, "fork") == 0 || strcmp(how, "clone") == 0)
		fork_here(how[0] == 'c');
	if (strcmp(how, "close") == 0)
		close_and_open();
	if (strcmp(how, "exec") == 0) {
		execl("/proc/self/exe", argv[0], "--how=then", "--ready=", batches ? "--batches" : (char *)NULL,
		      (char *)NULL);
		_exit(1);
	}
	if (strcmp(how, "thread") == 0 && pthread_create(&thread, NULL, by_thread, NULL) == 0)
		pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	const char *ready = argument(argv, "ready", "");
	pthread_t thread;
	how = argument(argv, "how", "exit");
	step_time = number(argv, "step-ms", 3) * 1e-3;
	batches = strcmp(argv[argc - 1], "--batches") == 0;
	*(void **)&push = profd_function("profd_range_push");
	*(void **)&pop = profd_function("profd_range_pop");
	if (batches && !load_torch())
		return 1;
	signal(SIGUSR1, on_signal);
	signal(SIGUSR2, on_signal);
	if (push && pop && pthread_create(&thread, NULL, keeps_open, NULL) != 0)
		return 1;
	next = seconds();
	decided = strcmp(how, "then") == 0;
	int fd = *ready ? open(ready, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
	if (fd >= 0)
		close(fd);
	while (!decided)
		one();
	meet_fate(argv);
	some();
	report("job");
	return 7;
}
