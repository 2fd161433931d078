/* thread.c - see thread.h. */
#include "thread.h"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SCHED_RESET_ON_FORK
#define SCHED_RESET_ON_FORK 0x40000000
#endif

static struct {
	unsigned long processors[1024 / sizeof(unsigned long)]; /* for 8,192 of them */
	long bytes;						/* of the mask; 0 = not known */
	int policy, nice;
} first;

void thread_remember(void)
{
	first.bytes = syscall(SYS_sched_getaffinity, 0, sizeof first.processors, first.processors);
	first.policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
	first.nice = getpriority(PRIO_PROCESS, 0);
}

/* glibc takes the static thread-local storage of all libraries out of the requested stack. This function of glibc, made
 * for the Java machine, says how much that is. musl adds it by itself. */
static size_t taken_by_library(const pthread_attr_t *attributes)
{
	size_t (*least)(const pthread_attr_t *);
	*(void **)&least = dlsym(RTLD_DEFAULT, "__pthread_get_minstack");
	return least ? least(attributes) : 0;
}

int thread_start(pthread_t *ret, void *(*body)(void *), void *argument, size_t stack)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;
	int error = pthread_attr_init(&attributes);
	if (error)
		return -error;
	if (!ret)
		pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	size_t page = 65536, bytes = stack + taken_by_library(&attributes);
	pthread_attr_setstacksize(&attributes, (bytes + page - 1) / page * page);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(ret ? ret : &thread, &attributes, body, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -error;
}

void thread_settle(void)
{
	/* With a real-time policy the agent's thread could hold up others. SCHED_BATCH and SCHED_IDLE are kept, because
	 * the owner started the whole process so. */
	int policy = first.policy == SCHED_BATCH || first.policy == SCHED_IDLE ? first.policy : SCHED_OTHER;
	struct sched_param none = {.sched_priority = 0};
	if (first.bytes > 0)
		syscall(SYS_sched_setaffinity, 0, (size_t)first.bytes, first.processors);
	if ((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) != policy)
		sched_setscheduler(0, policy, &none);
	if (getpriority(PRIO_PROCESS, 0) != first.nice)
		setpriority(PRIO_PROCESS, 0, first.nice);
}
