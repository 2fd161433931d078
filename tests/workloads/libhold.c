/* libhold.c - preloaded: calls of the agent's threads into the loader take as long as HOLD_MS says, with a lock held, so that what
 * otherwise hits one fork in thousands hits every one. The threads are known by their names. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define VISIBLE __attribute__((visibility("default")))

VISIBLE int hold_inside(void);
VISIBLE long hold_entered(void);

static _Atomic int inside;
static _Atomic long entered;
/* Nobody makes it whole in a child: as dl_iterate_phdr's own in glibc, and many an allocator's. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Is a call of the agent's under way? */
int hold_inside(void)
{
	return atomic_load(&inside);
}

long hold_entered(void)
{
	return atomic_load(&entered);
}

static int is_agent(void)
{
	char name[16] = "";
	return prctl(PR_GET_NAME, name) == 0 && strncmp(name, "profd", 5) == 0;
}

static void hold(void)
{
	const char *text = getenv("HOLD_MS");
	long ms = text ? strtol(text, NULL, 10) : 0;
	struct timespec time = {ms / 1000, ms % 1000 * 1000000};
	atomic_fetch_add(&entered, 1);
	atomic_store(&inside, 1);
	nanosleep(&time, NULL);
	atomic_store(&inside, 0);
}

struct held {
	int (*look)(struct dl_phdr_info *, size_t, void *);
	void *context;
	int done;
};

static int look_held(struct dl_phdr_info *info, size_t size, void *context)
{
	struct held *held = context;
	if (!held->done)
		hold();
	held->done = 1;
	return held->look(info, size, held->context);
}

VISIBLE int dl_iterate_phdr(int (*look)(struct dl_phdr_info *, size_t, void *), void *context)
{
	int (*real)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
	*(void **)&real = dlvsym(RTLD_NEXT, "dl_iterate_phdr", "GLIBC_2.2.5");
	if (!real)
		*(void **)&real = dlvsym(RTLD_NEXT, "dl_iterate_phdr", "GLIBC_2.17");
	if (!is_agent())
		return real(look, context);
	struct held held = {look, context, 0};
	return real(look_held, &held);
}

VISIBLE void *dlsym(void *handle, const char *name)
{
	static void *(*real)(void *, const char *);
	if (!real)
		*(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	if (!real)
		*(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
	pthread_mutex_lock(&lock);
	if (is_agent())
		hold();
	pthread_mutex_unlock(&lock);
	return real(handle, name);
}
