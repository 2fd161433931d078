/* libinside.c - preloaded: forks the job in the moment in which a thread of the agent's is inside torch, CUPTI or the driver and has
 * a mutex there. Each mutex that such a thread locks (the agent itself has none) it keeps until a fork has begun, and INSIDE_MS ms
 * (5) after that, so that what otherwise hits one fork in thousands hits every one. The threads are known by their names.
 *
 * INSIDE_TELL=FILE: a thread forks whenever there is one inside; each child takes and gives back memory, asks the loader for a
 * symbol, a library and all objects, enters torch's callbacks where there is the stand-in, and ends by exit() or _exit(). After each
 * fork FILE holds a line of JSON: forks; hung (children that did not end well within 10 s); caught (children that were made while a
 * mutex was held); entered (mutexes that the agent locked while a fork was under way).
 * Without it the job forks itself, whenever inside_wait() says so, and its child asks inside_caught().
 *
 * A child that is caught may not lock what is locked for ever: it only takes memory and leaves. One that is made while the job
 * ends may hang, as any thread can have any lock then; it ends with the job, whose output nobody else may hold open. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))
#define KEEP_MS 200 /* how long a mutex is kept where no fork begins */

VISIBLE int inside_wait(int ms);
VISIBLE int inside_caught(void);
VISIBLE long inside_entered(void);

static int (*real_lock)(pthread_mutex_t *);
static _Atomic int inside; /* how many mutexes are kept now */
static _Atomic int ready;  /* somebody waits for that, to fork */
static _Atomic int forking;
static _Atomic long begun, entered;
static __thread int naps;

static void nap(long us)
{
	struct timespec time = {us / 1000000, us % 1000000 * 1000};
	naps = 1;
	nanosleep(&time, NULL);
	naps = 0;
}

static int is_agent(void)
{
	char name[16] = "";
	return prctl(PR_GET_NAME, name) == 0 && strncmp(name, "profd", 5) == 0;
}

static void keep(void)
{
	const char *text = getenv("INSIDE_MS");
	long seen = atomic_load(&begun);
	if (atomic_load(&forking))
		atomic_fetch_add(&entered, 1);
	if (!atomic_load(&ready))
		return;
	atomic_fetch_add(&inside, 1);
	for (int i = 0; i < KEEP_MS * 20 && atomic_load(&begun) == seen; i++)
		nap(50);
	if (atomic_load(&begun) != seen)
		nap(text ? strtol(text, NULL, 10) * 1000 : 5000);
	atomic_fetch_sub(&inside, 1);
}

VISIBLE int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (!real_lock)
		*(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	int error = real_lock(mutex);
	if (error == 0 && !naps && is_agent())
		keep();
	return error;
}

/* Waits until the agent keeps a mutex, so many ms at most. Who is told 1 forks at once. */
int inside_wait(int ms)
{
	atomic_store(&ready, 1);
	for (int i = 0; i < ms * 20 && !atomic_load(&inside); i++)
		nap(50);
	atomic_store(&ready, 0);
	if (!atomic_load(&inside))
		return 0;
	atomic_fetch_add(&begun, 1);
	return 1;
}

/* In a child: was a mutex kept when it was made? */
int inside_caught(void)
{
	return atomic_load(&inside) != 0;
}

long inside_entered(void)
{
	return atomic_load(&entered);
}

/* ---------------------------------------------------------------- forks */

/* Runs after the agent's own handler, which was registered later: nobody is inside now, and nobody enters. */
static void before_fork(void)
{
	if (!atomic_load(&inside))
		atomic_store(&forking, 1);
	nap(2000);
}

static void after_fork(void)
{
	atomic_store(&forking, 0);
}

static int count(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)info, (void)size;
	++*(int *)context;
	return 0;
}

static int take_memory(void)
{
	for (size_t bytes = 1; bytes < 1u << 24; bytes *= 2) {
		char *taken = malloc(bytes);
		if (!taken)
			return 0;
		memset(taken, 1, bytes);
		free(taken);
	}
	return 1;
}

enum { WELL = 0, WRONG = 1, CAUGHT = 2 };

static void child_works(int turn, pid_t job)
{
	int objects = 0;
	void (*range)(const char *);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != job)
		_exit(WRONG);
	if (!take_memory())
		_exit(WRONG);
	if (inside_caught())
		_exit(CAUGHT);
	dl_iterate_phdr(count, &objects);
	void *library = dlopen("libm.so.6", RTLD_NOW);
	if (!objects || !library || !dlsym(library, "cos") || !dlsym(RTLD_DEFAULT, "getpid"))
		_exit(WRONG);
	*(void **)&range = dlsym(RTLD_DEFAULT, "torch_range");
	if (range)
		range("Optimizer.step#SGD.step");
	if (turn % 2)
		_exit(WELL);
	exit(WELL);
}

static int end_of(pid_t pid)
{
	int status = 0;
	for (int i = 0; i < 10000; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : WRONG;
		nap(1000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return WRONG;
}

static void *thread_forks(void *path)
{
	int ended[3] = {0};
	pid_t job = getpid();
	prctl(PR_SET_NAME, "forker");
	for (int forks = 0;;) {
		if (!inside_wait(1000))
			continue;
		pid_t pid = fork();
		if (pid == 0)
			child_works(forks, job);
		if (pid < 0)
			continue;
		int end = end_of(pid);
		ended[end <= CAUGHT ? end : WRONG]++;
		forks++;
		char text[128];
		int bytes =
			snprintf(text, sizeof text, "{\"forks\": %d, \"hung\": %d, \"caught\": %d, \"entered\": %ld}\n",
				 forks, ended[WRONG], ended[CAUGHT], inside_entered());
		int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (file < 0 || write(file, text, (size_t)bytes) != bytes)
			abort();
		close(file);
	}
	return NULL;
}

static void __attribute__((constructor)) begin(void)
{
	pthread_t thread;
	char *path = getenv("INSIDE_TELL");
	pthread_atfork(before_fork, after_fork, after_fork);
	if (path && pthread_create(&thread, NULL, thread_forks, path) == 0)
		pthread_detach(thread);
}
