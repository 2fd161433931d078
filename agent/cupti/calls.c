/* calls.c - see calls.h. */
#include "calls.h"

#include "api.h"

#include <stddef.h>
#include <string.h>

struct call {
	const char *name;
	uint16_t bytes;
	uint16_t wanted;
};

static struct call calls[2][CALLS_MOST];
static uint32_t ends[2];

/* After so many ids in a row without a name there are no more. */
#define GAP 64

static int begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

/* Decides by what comes after "cuda" or "cu". */
static int is_wanted(const char *name)
{
	name += begins(name, "cuda") ? 4 : begins(name, "cu") ? 2 : 0;
	static const char *const wanted[] = {
		"Launch",
		"GraphLaunch",
		"Memcpy",
		"Memset",
		"MemPrefetch",
		"MemAlloc",
		"MemFree",
		"MemHostAlloc",
		"Malloc",
		"Free",
		"HostAlloc",
		"HostRegister",
		"HostUnregister",
		"MemHostRegister",
		"MemHostUnregister",
		/* Memory that is mapped: torch's expandable segments. As seldom as the allocations that it stands for. */
		"MemCreate",
		"MemRelease",
		"MemMap",
		"MemUnmap",
		"MemSetAccess",
		"MemAddress",
		"StreamSynchronize",
		"DeviceSynchronize",
		"CtxSynchronize",
		"ThreadSynchronize",
		"EventSynchronize",
		"EventRecord",
		"StreamWaitEvent",
		"StreamBeginCapture",
		"StreamEndCapture",
		"StreamWaitValue",
		"StreamWriteValue",
		"StreamBatchMemOp",
		/* Loading, linking and building of code: rare, but long. */
		"ModuleLoad",
		"LibraryLoad",
		"LinkAdd",
		"LinkComplete",
		"GraphInstantiate",
		/* Setting up. Rare, too. */
		"StreamCreate",
		"StreamDestroy",
	};
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		if (begins(name, wanted[i]))
			return 1;
	return 0;
}

/* "_v7000", "_v13000": an underscore, a v and at least four digits at the end. A driver function's "_v2" is its name. */
static size_t without_version(const char *name)
{
	size_t n = strlen(name), at = n;
	while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9')
		at--;
	return n - at >= 4 && at >= 2 && name[at - 1] == 'v' && name[at - 2] == '_' ? at - 2 : n;
}

void calls_learn(void)
{
	for (unsigned domain = CALLS_DRIVER; domain <= CALLS_RUNTIME; domain++) {
		struct call *known = calls[domain - 1];
		uint32_t end = 0;
		for (uint32_t id = 1; id < CALLS_MOST && id <= end + GAP; id++) {
			const char *name = NULL;
			if (cupti_api.callback_name(domain, id, &name) || !name || !*name)
				continue;
			/* From CUDA 13 on a launch by <<<>>> is __cudaLaunchKernel; readers of traces know the old name
			 * without underscores. */
			while (*name == '_')
				name++;
			size_t bytes = without_version(name);
			known[id] = (struct call){name, bytes < UINT16_MAX ? (uint16_t)bytes : UINT16_MAX,
						  (uint16_t)is_wanted(name)};
			end = id;
		}
		ends[domain - 1] = end + 1;
	}
}

static const struct call *find(unsigned domain, uint32_t cbid)
{
	return domain >= CALLS_DRIVER && domain <= CALLS_RUNTIME && cbid < CALLS_MOST ? &calls[domain - 1][cbid] : NULL;
}

uint32_t calls_end(unsigned domain)
{
	return ends[domain - 1];
}

int calls_wanted(unsigned domain, uint32_t cbid)
{
	const struct call *call = find(domain, cbid);
	return !call || !call->name || call->wanted;
}

const char *calls_name(unsigned domain, uint32_t cbid, uint32_t *ret_bytes)
{
	const struct call *call = find(domain, cbid);
	*ret_bytes = call ? call->bytes : 0;
	return call ? call->name : NULL;
}
