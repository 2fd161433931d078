/* cupti.h - what programs here need of CUPTI: its calls, looked up in a library, and buffers that are used again. The calls are declared here: it
 * builds without CUDA. Buffers are taken and given back by any thread; of several source files of a program one may include this. */
#ifndef PROFD_TESTS_WORKLOADS_CUDA_CUPTI_H
#define PROFD_TESTS_WORKLOADS_CUDA_CUPTI_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

enum { CUPTI_BUFFERS = 64 };

#define CUPTI_CALLS(CALL)                                                                                              \
	CALL(cuptiGetVersion, (uint32_t *))                                                                            \
	CALL(cuptiActivityRegisterCallbacks,                                                                           \
	     (void (*)(uint8_t **, size_t *, size_t *), void (*)(void *, uint32_t, uint8_t *, size_t, size_t)))        \
	CALL(cuptiActivityEnable, (int))                                                                               \
	CALL(cuptiActivityDisable, (int))                                                                              \
	CALL(cuptiActivityFlushAll, (uint32_t))                                                                        \
	CALL(cuptiActivityGetNextRecord, (uint8_t *, size_t, uint32_t **))                                             \
	CALL(cuptiFinalize, (void))

static struct {
#define CALL(name, arguments) int(*name) arguments;
	CUPTI_CALLS(CALL)
#undef CALL
} cupti;

static _Atomic(uint8_t *) cupti_buffers[CUPTI_BUFFERS];

/* NULL, or what is wrong: dlerror()'s words, or which call the library does not have. */
static const char *cupti_load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	if (!library)
		return dlerror();
#define CALL(name, arguments)                                                                                          \
	*(void **)&cupti.name = dlsym(library, #name);                                                                 \
	if (!cupti.name)                                                                                               \
		return "the library has no " #name;
	CUPTI_CALLS(CALL)
#undef CALL
	return NULL;
}

/* For the request of a buffer. None where there is no memory. */
static void cupti_take(uint8_t **buffer, size_t *bytes, size_t *most_records, size_t size)
{
	uint8_t *found = NULL;
	for (int i = 0; i < CUPTI_BUFFERS && !found; i++)
		found = atomic_exchange(&cupti_buffers[i], NULL);
	*buffer = found ? found : aligned_alloc(64, size);
	*bytes = *buffer ? size : 0;
	*most_records = 0;
}

static void cupti_give_back(uint8_t *buffer)
{
	for (int i = 0; i < CUPTI_BUFFERS; i++) {
		uint8_t *nothing = NULL;
		if (atomic_compare_exchange_strong(&cupti_buffers[i], &nothing, buffer))
			return;
	}
	free(buffer);
}

#endif
