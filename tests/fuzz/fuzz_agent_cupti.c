/* fuzz_agent_cupti.c - CUPTI's records of any bytes, in the layout of any release: exactly as many bytes as the layout says are
 * read, and each record that comes out is one that the daemon can read. The first byte is the release. */
#include "agent/cupti/decode.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const union event_any *event, int written)
{
	_Alignas(8) unsigned char bytes[sizeof *event];
	union event_any read;
	size_t at = 0;
	if (!written)
		return;
	if (event->head.size > sizeof bytes || event->head.size % 8)
		abort();
	memcpy(bytes, event, event->head.size);
	if (event_read(bytes, event->head.size, &at, &read) != EVENT_OK)
		abort();
}

/* The record ends where its memory ends. */
static unsigned char *record_of(const struct cupti_layout *layout, unsigned kind, const uint8_t *data, size_t n)
{
	size_t size = cupti_layout_size(layout, kind);
	unsigned char *record = size ? malloc(size) : NULL;
	uint32_t number = kind;
	for (size_t i = 0; record && i < size; i++)
		record[i] = n ? data[i % n] : 0;
	if (record && size >= sizeof number)
		memcpy(record, &number, sizeof number);
	return record;
}

#define DECODE(NUMBER, function, member)                                                                               \
	case CUPTI_KIND_##NUMBER:                                                                                      \
		check(&event, function(layout, record, &event.member, &times));                                        \
		break;

static void decode(const struct cupti_layout *layout, unsigned kind, const void *record)
{
	union event_any event = {.head = {0}};
	struct cupti_times times;
	const char *name;
	switch (kind) {
	case CUPTI_KIND_CONCURRENT_KERNEL:
	case CUPTI_KIND_KERNEL:
		check(&event, cupti_decode_kernel(layout, record, &event.kernel, &times, &name));
		break;
		DECODE(MEMCPY, cupti_decode_copy, copy)
		DECODE(MEMCPY2, cupti_decode_peer_copy, copy)
		DECODE(MEMSET, cupti_decode_set, set)
		DECODE(GRAPH_TRACE, cupti_decode_graph, graph_launch)
		DECODE(RUNTIME, cupti_decode_api, api_call)
		DECODE(DRIVER, cupti_decode_api, api_call)
		DECODE(INTERNAL_LAUNCH_API, cupti_decode_api, api_call)
		DECODE(SYNCHRONIZATION, cupti_decode_sync, sync)
		DECODE(CUDA_EVENT, cupti_decode_cuda_event, cuda_event)
		DECODE(MEMORY2, cupti_decode_memory, allocation)
		DECODE(MEMORY_POOL, cupti_decode_pool, allocation)
		DECODE(UNIFIED_MEMORY_COUNTER, cupti_decode_unified_memory, unified_memory)
		DECODE(OVERHEAD, cupti_decode_overhead, overhead)
	case CUPTI_KIND_DEVICE:
		check(&event, cupti_decode_device(layout, record, &event.device, &name));
		break;
	case CUPTI_KIND_CONTEXT:
		check(&event, cupti_decode_context(layout, record, &event.context));
		break;
	case CUPTI_KIND_STREAM:
		check(&event, cupti_decode_stream(layout, record, &event.stream));
		break;
	case CUPTI_KIND_MODULE:
		check(&event, cupti_decode_module(layout, record, &event.module));
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const uint32_t versions[] = {17, 18,	20,	21,	22,	23,	24,    26,
					    28, 130000, 130100, 130200, 130300, 130500, 140000};
	struct cupti_layout layout;
	if (!n || cupti_layout_choose(&layout, versions[data[0] % (sizeof versions / sizeof *versions)]))
		return 0;
	for (unsigned kind = 0; kind < CUPTI_KIND_COUNT; kind++) {
		unsigned char *record = record_of(&layout, kind, data + 1, n - 1);
		if (record)
			decode(&layout, kind, record);
		free(record);
	}
	return 0;
}
