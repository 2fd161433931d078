/* handlers.c - a job that calls NVTX for the first time on a thread from a signal handler that has interrupted malloc.
 *
 *     handlers [--steps=N] [--step-ms=T]
 *
 * Each step is a new thread that does so. The program's own malloc says how often it was called from inside itself, where libc's
 * would have waited for its own lock for ever. It also takes many keys of pthread's for itself, as large programs do: what libc
 * keeps for the first 32 of a thread needs no memory. Prints {"steps": N, "malloc_in_malloc": calls}. */
#include "workload.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include <nvtx3/nvToolsExt.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static __thread int inside, interrupt;
static _Atomic unsigned long again;

static void enter(void)
{
	if (inside++)
		again++;
	if (interrupt) {
		interrupt = 0;
		raise(SIGUSR1);
	}
}

void *malloc(size_t size)
{
	enter();
	void *p = __libc_malloc(size);
	inside--;
	return p;
}

void *calloc(size_t count, size_t size)
{
	enter();
	void *p = __libc_calloc(count, size);
	inside--;
	return p;
}

void *realloc(void *old, size_t size)
{
	enter();
	void *p = __libc_realloc(old, size);
	inside--;
	return p;
}

static void on_signal(int signal)
{
	(void)signal;
	static const wchar_t wide[] = L"a wide name";
	nvtxRangePushA("in a handler");
	nvtxMarkA("a mark");
	nvtxRangePop();
	nvtxDomainHandle_t domain = nvtxDomainCreateA("a domain");
	nvtxEventAttributes_t attributes = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
	attributes.category = 3;
	attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	attributes.message.registered = nvtxDomainRegisterStringA(domain, "a registered name");
	nvtxDomainNameCategoryA(domain, 3, "a category");
	nvtxDomainRangePushEx(domain, &attributes);
	nvtxDomainRangePop(domain);
	nvtxRangeEnd(nvtxRangeStartW(wide));
	nvtxMarkW(wide);
	nvtxNameOsThreadA((uint32_t)thread_id(), "a thread");
}

static void *work(void *unused)
{
	(void)unused;
	interrupt = 1;
	return malloc(100);
}

static void __attribute__((constructor)) take_keys(void)
{
	pthread_key_t key;
	for (int i = 0; i < 40; i++)
		pthread_key_create(&key, NULL);
}

int main(int argc, char **argv)
{
	(void)argc;
	long steps = (long)number(argv, "steps", 200);
	double step_time = number(argv, "step-ms", 10) * 1e-3;
	struct sigaction action = {.sa_handler = on_signal};
	sigaction(SIGUSR1, &action, NULL);
	nvtxMarkA("NVTX looks for its tool here, once");
	unsigned long counted = 0;
	for (long n = 0; n < steps || stays(); n++) {
		double until = seconds() + step_time;
		pthread_t thread;
		if (pthread_create(&thread, NULL, work, NULL) != 0)
			return 1;
		void *made;
		pthread_join(thread, &made);
		free(made);
		wait_until(until);
		step();
		if (n < steps)
			counted = again;
	}
	printf("{\"steps\": %ld, \"malloc_in_malloc\": %lu}\n", steps, counted);
	return 0;
}
