/* oddjob.c - a stepping process with habits that some jobs have.
 *
 *     oddjob --mode=M [--steps=N] [--step-ms=T]
 *
 * Steps N times, each with a range `step`; before each step's end it does what M says:
 *   churn      eight threads start, make ten ranges each, and end
 *   small      the same on one thread with the smallest stack that there is
 *   spawn      runs /bin/true by posix_spawn                 fork       forks a child that makes a range and leaves
 *   daemonize  before the first step: forks twice, leaves its session, closes every descriptor but the first three
 *   priority   changes its nice value and scheduling class   signals    a timer's signals interrupt it a thousand times a second
 *   stack      every step lies deep in a recursion           locale     sets LC_ALL and changes directory
 * Prints one line of JSON: mode, steps, ranges made, and a checksum of what its children and threads returned. */
#include "workload.h"

#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#define THREADS 8
#define RANGES 10

static void (*push)(const char *), (*pop)(void);
static long made;
static uint64_t sum;
static volatile sig_atomic_t interrupts;
extern char **environ;

static void range(const char *name)
{
	if (push)
		push(name);
	if (pop)
		pop();
}

/* What is printed: of the steps that count. */
static struct {
	long made;
	uint64_t sum;
} counted;

static void *thread_main(void *number)
{
	for (int i = 0; i < RANGES; i++)
		range("thread");
	return (void *)((uintptr_t)number * 3u + 1u);
}

static void threads(int count, size_t stack)
{
	pthread_t thread[THREADS];
	pthread_attr_t attributes;
	int started = 0;
	pthread_attr_init(&attributes);
	if (stack)
		pthread_attr_setstacksize(&attributes, stack);
	while (started < count &&
	       !pthread_create(&thread[started], &attributes, thread_main, (void *)(uintptr_t)started))
		started++;
	for (int i = 0; i < started; i++) {
		void *returned = NULL;
		pthread_join(thread[i], &returned);
		sum = sum * 31 + (uintptr_t)returned;
	}
	made += (long)started * RANGES;
	pthread_attr_destroy(&attributes);
}

static void child_leaves(void)
{
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		range("child");
		_exit(5);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	sum = sum * 31 + (unsigned)status;
}

static void child_spawned(void)
{
	char *arguments[] = {(char *)(uintptr_t) "true", NULL};
	int status = -1;
	pid_t pid;
	if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) == 0)
		waitpid(pid, &status, 0);
	sum = sum * 31 + (unsigned)status;
}

static int daemonize(void)
{
	if (fork() != 0)
		_exit(0);
	setsid();
	if (fork() != 0)
		_exit(0);
	return (int)syscall(SYS_close_range, 3u, ~0u, 0u);
}

static void priority(long step)
{
	struct sched_param parameter = {0};
	setpriority(PRIO_PROCESS, 0, (int)(step % 5));
	sched_setscheduler(0, step % 2 ? SCHED_BATCH : SCHED_OTHER, &parameter);
	sum = sum * 31 + (unsigned)getpriority(PRIO_PROCESS, 0) + (unsigned)sched_getscheduler(0);
}

static __attribute__((noinline)) void deep(int levels)
{
	volatile char room[512];
	room[0] = (char)levels;
	if (levels > 0)
		deep(levels - 1);
	else
		range("deep");
	sum += (unsigned char)room[0];
}

static void on_alarm(int signal)
{
	(void)signal;
	interrupts++;
}

static void interrupt_often(void)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 1000}, {0, 1000}};
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

static void habit(const char *mode, long step)
{
	if (strcmp(mode, "churn") == 0)
		threads(THREADS, 0);
	else if (strcmp(mode, "small") == 0)
		threads(1, (size_t)PTHREAD_STACK_MIN);
	else if (strcmp(mode, "fork") == 0)
		child_leaves();
	else if (strcmp(mode, "spawn") == 0)
		child_spawned();
	else if (strcmp(mode, "priority") == 0)
		priority(step);
	else if (strcmp(mode, "stack") == 0) {
		deep(2000);
		made++;
	}
}

int main(int argc, char **argv)
{
	(void)argc;
	const char *mode = argument(argv, "mode", "churn");
	long steps = (long)number(argv, "steps", 300);
	double step_time = number(argv, "step-ms", 10) * 1e-3;
	if (strcmp(mode, "daemonize") == 0)
		sum = (unsigned)daemonize();
	if (strcmp(mode, "signals") == 0)
		interrupt_often();
	if (strcmp(mode, "locale") == 0)
		sum = (unsigned)(setlocale(LC_ALL, "") != NULL) + (unsigned)(chdir("/") == 0);
	*(void **)&push = profd_function("profd_range_push");
	*(void **)&pop = profd_function("profd_range_pop");
	double next = seconds();
	for (long i = 0; i < steps || stays(); i++) {
		if (push)
			push("step");
		habit(mode, i);
		pace(&next, step_time);
		if (pop)
			pop();
		made++;
		step();
		if (i < steps) {
			counted.made = made;
			counted.sum = sum;
		}
	}
	printf("{\"mode\": \"%s\", \"steps\": %ld, \"ranges\": %ld, \"sum\": %llu}\n", mode, steps, counted.made,
	       (unsigned long long)counted.sum);
	return interrupts < 0;
}
