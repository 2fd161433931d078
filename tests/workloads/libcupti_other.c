/* libcupti_other.c - another client of CUPTI in a job, as a profiler that the job itself starts: preloaded, it waits in a thread of
 * its own and at each SIGUSR1 begins to record, at the next one ends.
 *
 *   CUPTI_OTHER_LIBRARY=PATH   libcupti
 *   CUPTI_OTHER_FILE=FILE      written when it ends: one line of JSON, kernels (that came), launches (API records), first, last
 *                              (smallest and largest correlation id of a kernel), foreign (buffers that are not its own), errors
 *
 *   CUPTI_OTHER_SUBSCRIBES=1   it subscribes first, and unsubscribes at the end
 *   CUPTI_OTHER_LOOPS=1        between the two signals it begins and ends without a pause, all the time; "rounds" says how often;
 *                              with "subscribe" it then subscribes and unsubscribes alone
 *
 * It registers callbacks, enables kernels and both APIs, and at the end flushes by force and disables what it enabled: by the calls
 * without a subscriber, as all profilers before CUDA 13.2, and without clearing its buffers. */
#include "workload.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { BUFFER = 1 << 20, MOST = 256, KERNEL = 10, RUNTIME = 5, DRIVER = 4 };

static struct {
	int (*cuptiActivityRegisterCallbacks)(void (*)(uint8_t **, size_t *, size_t *),
					      void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
	int (*cuptiActivityEnable)(int);
	int (*cuptiActivityDisable)(int);
	int (*cuptiActivityFlushAll)(uint32_t);
	int (*cuptiActivityGetNextRecord)(uint8_t *, size_t, uint32_t **);
	int (*cuptiSubscribe)(void **, void (*)(void *, int, uint32_t, const void *), void *);
	int (*cuptiUnsubscribe)(void *);
} cupti;
static void *subscriber;

static uint8_t *own[MOST];
static atomic_uint own_count, foreign, errors;
static atomic_ullong kernels, launches;
static atomic_bool asked_to_end;
static unsigned long long rounds;
static atomic_uint first = UINT32_MAX, last;

static void requested(uint8_t **buffer, size_t *bytes, size_t *most)
{
	unsigned i = own_count++;
	*buffer = NULL;
	*bytes = *most = 0;
	if (i >= MOST || posix_memalign((void **)buffer, 8, BUFFER))
		return;
	memset(*buffer, 0, BUFFER);
	own[i] = *buffer;
	*bytes = BUFFER;
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
	uint32_t *record = NULL;
	unsigned i = 0;
	(void)context;
	(void)stream;
	(void)bytes;
	while (i < own_count && own[i] != buffer)
		i++;
	if (i == own_count) {
		foreign++;
		return;
	}
	while (cupti.cuptiActivityGetNextRecord(buffer, valid, &record) == 0) {
		uint32_t id;
		if (*record == RUNTIME || *record == DRIVER)
			launches++;
		if (*record != KERNEL)
			continue;
		/* correlationId lies at one place in all releases that are tested. */
		memcpy(&id, (uint8_t *)record + 92, sizeof id);
		kernels++;
		if (id < first)
			first = id;
		if (id > last)
			last = id;
	}
}

static void called(void *data, int domain, uint32_t id, const void *what)
{
	(void)data;
	(void)domain;
	(void)id;
	(void)what;
}

static void check(int result)
{
	errors += result != 0;
}

static const int kinds[] = {KERNEL, RUNTIME, DRIVER};

static void start(void)
{
	if (getenv("CUPTI_OTHER_SUBSCRIBES"))
		check(cupti.cuptiSubscribe(&subscriber, called, NULL));
	check(cupti.cuptiActivityRegisterCallbacks(requested, completed));
	for (int i = 0; i < 3; i++)
		check(cupti.cuptiActivityEnable(kinds[i]));
}

static void switch_off(void)
{
	for (int i = 0; i < 3; i++)
		check(cupti.cuptiActivityDisable(kinds[i]));
}

static void *wait_for_signal(void *set)
{
	int got;
	sigwait(set, &got);
	asked_to_end = true;
	return NULL;
}

/* Begins and ends until the next signal. */
static void loop(sigset_t *set)
{
	pthread_t waiter;
	bool subscribe_only = strcmp(getenv("CUPTI_OTHER_LOOPS"), "subscribe") == 0;
	check(pthread_create(&waiter, NULL, wait_for_signal, set));
	for (; !asked_to_end && subscribe_only; rounds++) {
		check(cupti.cuptiSubscribe(&subscriber, called, NULL));
		check(cupti.cuptiUnsubscribe(subscriber));
	}
	for (; !asked_to_end; rounds++) {
		start();
		switch_off();
		if (subscriber)
			check(cupti.cuptiUnsubscribe(subscriber));
	}
	pthread_join(waiter, NULL);
	start();
}

static void *work(void *library)
{
	static sigset_t set;
	int got;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigwait(&set, &got);
	void *handle = dlopen(library, RTLD_NOW);
	if (!handle)
		return NULL;
	*(void **)&cupti.cuptiActivityRegisterCallbacks = dlsym(handle, "cuptiActivityRegisterCallbacks");
	*(void **)&cupti.cuptiActivityEnable = dlsym(handle, "cuptiActivityEnable");
	*(void **)&cupti.cuptiActivityDisable = dlsym(handle, "cuptiActivityDisable");
	*(void **)&cupti.cuptiActivityFlushAll = dlsym(handle, "cuptiActivityFlushAll");
	*(void **)&cupti.cuptiActivityGetNextRecord = dlsym(handle, "cuptiActivityGetNextRecord");
	*(void **)&cupti.cuptiSubscribe = dlsym(handle, "cuptiSubscribe");
	*(void **)&cupti.cuptiUnsubscribe = dlsym(handle, "cuptiUnsubscribe");
	if (getenv("CUPTI_OTHER_LOOPS")) {
		loop(&set);
	} else {
		start();
		sigwait(&set, &got);
	}
	switch_off();
	struct timespec nap = {0, 50000000};
	nanosleep(&nap, NULL);
	check(cupti.cuptiActivityFlushAll(1));
	if (subscriber)
		check(cupti.cuptiUnsubscribe(subscriber));
	FILE *file = fopen(getenv("CUPTI_OTHER_FILE"), "w");
	fprintf(file,
		"{\"kernels\": %llu, \"launches\": %llu, \"first\": %u, \"last\": %u, \"foreign\": %u, \"errors\": "
		"%u, \"rounds\": %llu}\n",
		kernels, launches, first, last, foreign, errors, rounds);
	fclose(file);
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	const char *library = getenv("CUPTI_OTHER_LIBRARY");
	sigset_t set;
	pthread_t thread;
	if (!library)
		return;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_create(&thread, NULL, work, (void *)(uintptr_t)library);
	pthread_detach(thread);
}
