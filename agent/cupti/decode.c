/* decode.c - makes an event record from a CUPTI record. CUPTI's worker thread; no locks, no state, no calls. See
 * decode.h. */
#include "decode.h"

/* field_KIND_member(record, size): the member, or 0 where a record of `size` bytes does not have it. Each decoder first
 * returns for `size < first_KIND`; so the compiler knows which comparisons are always true. */
#define CUPTI_FIELD(NAME, member, offset, type, from)                                                                  \
	static inline type field_##NAME##_##member(const unsigned char *record, size_t size)                           \
	{                                                                                                              \
		type value = 0;                                                                                        \
		_Static_assert((offset) + sizeof value <= (from), #NAME "." #member);                                  \
		if (size >= (from))                                                                                    \
			memcpy(&value, record + (offset), sizeof value);                                               \
		return value;                                                                                          \
	}                                                                                                              \
	enum { from_##NAME##_##member = (from) };
#define CUPTI_FIRST(NAME, size) enum { first_##NAME = (size) };
#include "records.def"

#define FIELD(NAME, member) field_##NAME##_##member(bytes, size)
#define HAS(NAME, member) (size >= from_##NAME##_##member)

#define HEAD(event, flag_bits)                                                                                         \
	{                                                                                                              \
		.size = sizeof *out, .kind = EVENT_##event, .flags = (flag_bits), .step = 0                            \
	}

static inline uint8_t flags_of(uint64_t start, uint64_t end)
{
	return !start ? EVENT_FLAG_TIMELESS : !end ? EVENT_FLAG_UNFINISHED : 0;
}

int cupti_decode_kernel(const struct cupti_layout *layout, const void *record, struct event_kernel *out,
			struct cupti_times *times, const char **ret_name)
{
	const unsigned char *bytes = record;
	size_t size = cupti_layout_size(layout, cupti_record_kind(record));
	if (size < first_CONCURRENT_KERNEL)
		return 0;
	times->start = FIELD(CONCURRENT_KERNEL, start);
	times->end = FIELD(CONCURRENT_KERNEL, end);
	times->queued = FIELD(CONCURRENT_KERNEL, queued);
	times->submitted = FIELD(CONCURRENT_KERNEL, submitted);
	*ret_name = FIELD(CONCURRENT_KERNEL, name);
	uint64_t local = FIELD(CONCURRENT_KERNEL, localMemoryTotal_v2);
	uint32_t channel = FIELD(CONCURRENT_KERNEL, channelID);
	/* Every member is named. Otherwise the compiler first clears the whole struct, which takes longer than all the
	 * other work. */
	*out = (struct event_kernel){
		.head = HEAD(KERNEL, flags_of(times->start, times->end)),
		.start = 0,
		.duration = 0,
		.queued = 0,
		.submitted = 0,
		.name = 0,
		.graph_node = FIELD(CONCURRENT_KERNEL, graphNodeId),
		.correlation = FIELD(CONCURRENT_KERNEL, correlationId),
		.device = FIELD(CONCURRENT_KERNEL, deviceId),
		.context = FIELD(CONCURRENT_KERNEL, contextId),
		.stream = FIELD(CONCURRENT_KERNEL, streamId),
		.graph = FIELD(CONCURRENT_KERNEL, graphId),
		.grid_x = FIELD(CONCURRENT_KERNEL, gridX),
		.grid_y = FIELD(CONCURRENT_KERNEL, gridY),
		.grid_z = FIELD(CONCURRENT_KERNEL, gridZ),
		.block_x = FIELD(CONCURRENT_KERNEL, blockX),
		.block_y = FIELD(CONCURRENT_KERNEL, blockY),
		.block_z = FIELD(CONCURRENT_KERNEL, blockZ),
		.static_shared = FIELD(CONCURRENT_KERNEL, staticSharedMemory),
		.dynamic_shared = FIELD(CONCURRENT_KERNEL, dynamicSharedMemory),
		.shared_executed = FIELD(CONCURRENT_KERNEL, sharedMemoryExecuted),
		.local_per_thread = FIELD(CONCURRENT_KERNEL, localMemoryPerThread),
		.local_total = local ? local : FIELD(CONCURRENT_KERNEL, localMemoryTotal),
		.channel = channel == CUPTI_INVALID_CHANNEL_ID ? 0 : channel,
		.priority = FIELD(CONCURRENT_KERNEL, priority),
		.cluster_x = FIELD(CONCURRENT_KERNEL, clusterX),
		.cluster_y = FIELD(CONCURRENT_KERNEL, clusterY),
		.cluster_z = FIELD(CONCURRENT_KERNEL, clusterZ),
		.registers = FIELD(CONCURRENT_KERNEL, registersPerThread),
		.launch_type = FIELD(CONCURRENT_KERNEL, launchType),
		.cache_config = FIELD(CONCURRENT_KERNEL, cacheConfig_both),
	};
	return 1;
}

int cupti_decode_copy(const struct cupti_layout *layout, const void *record, struct event_copy *out,
		      struct cupti_times *times)
{
	const unsigned char *bytes = record;
	size_t size = layout->size[CUPTI_KIND_MEMCPY];
	if (size < first_MEMCPY)
		return 0;
	uint32_t device = FIELD(MEMCPY, deviceId);
	*times = (struct cupti_times){.start = FIELD(MEMCPY, start), .end = FIELD(MEMCPY, end)};
	*out = (struct event_copy){
		.head = HEAD(COPY, flags_of(times->start, times->end)),
		.graph_node = FIELD(MEMCPY, graphNodeId),
		.correlation = FIELD(MEMCPY, correlationId),
		.device = device,
		.context = FIELD(MEMCPY, contextId),
		.stream = FIELD(MEMCPY, streamId),
		.graph = FIELD(MEMCPY, graphId),
		.source_device = device,
		.bytes = FIELD(MEMCPY, bytes),
		.target_device = device,
		.kind = FIELD(MEMCPY, copyKind),
		.source_kind = FIELD(MEMCPY, srcKind),
		.target_kind = FIELD(MEMCPY, dstKind),
		.asynchronous = (FIELD(MEMCPY, flags) & CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC) != 0,
	};
	return 1;
}

int cupti_decode_peer_copy(const struct cupti_layout *layout, const void *record, struct event_copy *out,
			   struct cupti_times *times)
{
	const unsigned char *bytes = record;
	size_t size = layout->size[CUPTI_KIND_MEMCPY2];
	if (size < first_MEMCPY2)
		return 0;
	*times = (struct cupti_times){.start = FIELD(MEMCPY2, start), .end = FIELD(MEMCPY2, end)};
	*out = (struct event_copy){
		.head = HEAD(COPY, flags_of(times->start, times->end)),
		.graph_node = FIELD(MEMCPY2, graphNodeId),
		.correlation = FIELD(MEMCPY2, correlationId),
		.device = FIELD(MEMCPY2, deviceId),
		.context = FIELD(MEMCPY2, contextId),
		.stream = FIELD(MEMCPY2, streamId),
		.graph = FIELD(MEMCPY2, graphId),
		.source_device = FIELD(MEMCPY2, srcDeviceId),
		.bytes = FIELD(MEMCPY2, bytes),
		.source_context = FIELD(MEMCPY2, srcContextId),
		.target_device = FIELD(MEMCPY2, dstDeviceId),
		.target_context = FIELD(MEMCPY2, dstContextId),
		.kind = FIELD(MEMCPY2, copyKind),
		.source_kind = FIELD(MEMCPY2, srcKind),
		.target_kind = FIELD(MEMCPY2, dstKind),
		.asynchronous = (FIELD(MEMCPY2, flags) & CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC) != 0,
	};
	return 1;
}

int cupti_decode_set(const struct cupti_layout *layout, const void *record, struct event_set *out,
		     struct cupti_times *times)
{
	const unsigned char *bytes = record;
	size_t size = layout->size[CUPTI_KIND_MEMSET];
	if (size < first_MEMSET)
		return 0;
	*times = (struct cupti_times){.start = FIELD(MEMSET, start), .end = FIELD(MEMSET, end)};
	*out = (struct event_set){
		.head = HEAD(SET, flags_of(times->start, times->end)),
		.graph_node = FIELD(MEMSET, graphNodeId),
		.correlation = FIELD(MEMSET, correlationId),
		.device = FIELD(MEMSET, deviceId),
		.context = FIELD(MEMSET, contextId),
		.stream = FIELD(MEMSET, streamId),
		.graph = FIELD(MEMSET, graphId),
		.value = FIELD(MEMSET, value),
		.bytes = FIELD(MEMSET, bytes),
		.memory_kind = (uint8_t)FIELD(MEMSET, memoryKind),
		.asynchronous = (FIELD(MEMSET, flags) & CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC) != 0,
	};
	return 1;
}

int cupti_decode_graph(const struct cupti_layout *layout, const void *record, struct event_graph_launch *out,
		       struct cupti_times *times)
{
	const unsigned char *bytes = record;
	size_t size = layout->size[CUPTI_KIND_GRAPH_TRACE];
	if (size < first_GRAPH_TRACE)
		return 0;
	*times = (struct cupti_times){.start = FIELD(GRAPH_TRACE, start), .end = FIELD(GRAPH_TRACE, end)};
	*out = (struct event_graph_launch){
		.head = HEAD(GRAPH_LAUNCH, flags_of(times->start, times->end)),
		.correlation = FIELD(GRAPH_TRACE, correlationId),
		.device = FIELD(GRAPH_TRACE, deviceId),
		.context = FIELD(GRAPH_TRACE, contextId),
		.stream = FIELD(GRAPH_TRACE, streamId),
		.graph = FIELD(GRAPH_TRACE, graphId),
	};
	return 1;
}

int cupti_decode_api(const struct cupti_layout *layout, const void *record, struct event_api_call *out,
		     struct cupti_times *times)
{
	const unsigned char *bytes = record;
	uint32_t kind = cupti_record_kind(record);
	size_t size = cupti_layout_size(layout, kind);
	if (size < first_RUNTIME)
		return 0;
	*times = (struct cupti_times){.start = FIELD(RUNTIME, start), .end = FIELD(RUNTIME, end)};
	*out = (struct event_api_call){
		.head = HEAD(API_CALL, flags_of(times->start, times->end)),
		.correlation = FIELD(RUNTIME, correlationId),
		.thread = FIELD(RUNTIME, threadId),
		.cbid = FIELD(RUNTIME, cbid),
		.result = (int32_t)FIELD(RUNTIME, returnValue),
		.domain = kind == CUPTI_KIND_RUNTIME  ? CUPTI_CB_DOMAIN_RUNTIME_API
			  : kind == CUPTI_KIND_DRIVER ? CUPTI_CB_DOMAIN_DRIVER_API
						      : 0,
	};
	return 1;
}

int cupti_decode_sync(const struct cupti_layout *layout, const void *record, struct event_sync *out,
		      struct cupti_times *times)
{
	const unsigned char *bytes = record;
	size_t size = layout->size[CUPTI_KIND_SYNCHRONIZATION];
	if (size < first_SYNCHRONIZATION)
		return 0;
	uint32_t event = FIELD(SYNCHRONIZATION, cudaEventId);
	uint32_t recording = (uint32_t)FIELD(SYNCHRONIZATION, cudaEventSyncId);
	*times = (struct cupti_times){.start = FIELD(SYNCHRONIZATION, start), .end = FIELD(SYNCHRONIZATION, end)};
	*out = (struct event_sync){
		.head = HEAD(SYNC, flags_of(times->start, times->end)),
		.correlation = FIELD(SYNCHRONIZATION, correlationId),
		.context = FIELD(SYNCHRONIZATION, contextId),
		.stream = FIELD(SYNCHRONIZATION, streamId),
		.event = event == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? 0 : event,
		.event_sync = recording == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? 0 : recording,
		.kind = (uint16_t)FIELD(SYNCHRONIZATION, type),
		.result = (uint16_t)FIELD(SYNCHRONIZATION, returnValue),
	};
	return 1;
}

int cupti_decode_cuda_event(const struct cupti_layout *layout, const void *record, struct event_cuda_event *out,
			    struct cupti_times *times)
{
	const unsigned char *bytes = record;
	size_t size = layout->size[CUPTI_KIND_CUDA_EVENT];
	if (size < first_CUDA_EVENT)
		return 0;
	*times = (struct cupti_times){.start = FIELD(CUDA_EVENT, deviceTimestamp)};
	*out = (struct event_cuda_event){
		.head = HEAD(CUDA_EVENT, 0),
		.correlation = FIELD(CUDA_EVENT, correlationId),
		.context = FIELD(CUDA_EVENT, contextId),
		.stream = FIELD(CUDA_EVENT, streamId),
		.event = FIELD(CUDA_EVENT, eventId),
		.event_sync = (uint32_t)FIELD(CUDA_EVENT, cudaEventSyncId),
		/* 0 would be a real device. */
		.device = HAS(CUDA_EVENT, deviceId) ? FIELD(CUDA_EVENT, deviceId) : UINT32_MAX,
	};
	return 1;
}

int cupti_decode_memory(const struct cupti_layout *layout, const void *record, struct event_allocation *out,
			struct cupti_times *times)
{
	const unsigned char *bytes = record;
	size_t size = layout->size[CUPTI_KIND_MEMORY2];
	if (size < first_MEMORY2)
		return 0;
	uint32_t operation = FIELD(MEMORY2, memoryOperationType);
	uint32_t pool = FIELD(MEMORY2, memoryPoolConfig_memoryPoolType);
	/* An imported pool has a process id instead of its size. */
	int local = pool == CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
	*times = (struct cupti_times){.start = FIELD(MEMORY2, timestamp)};
	*out = (struct event_allocation){
		.head = HEAD(ALLOCATION, flags_of(times->start, times->start)),
		.address = FIELD(MEMORY2, address),
		.bytes = FIELD(MEMORY2, bytes),
		.total = local ? FIELD(MEMORY2, memoryPoolConfig_utilizedSize) : 0,
		.reserved = local ? FIELD(MEMORY2, memoryPoolConfig_pool_size) : 0,
		.pool = pool ? FIELD(MEMORY2, memoryPoolConfig_address) : 0,
		.correlation = FIELD(MEMORY2, correlationId),
		.device = FIELD(MEMORY2, deviceId),
		.context = FIELD(MEMORY2, contextId),
		.stream = FIELD(MEMORY2, streamId),
		.source = ALLOCATION_CUPTI,
		.operation = operation == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION ? ALLOCATION_TAKEN
			     : operation == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE  ? ALLOCATION_GIVEN_BACK
											  : 0,
		.memory_kind = (uint8_t)FIELD(MEMORY2, memoryKind),
		.asynchronous = FIELD(MEMORY2, isAsync) != 0,
	};
	return 1;
}

int cupti_decode_pool(const struct cupti_layout *layout, const void *record, struct event_allocation *out,
		      struct cupti_times *times)
{
	static const uint8_t operations[] = {
		[CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED] = ALLOCATION_POOL_CREATED,
		[CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED] = ALLOCATION_POOL_DESTROYED,
		[CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED] = ALLOCATION_POOL_TRIMMED,
	};
	const unsigned char *bytes = record;
	size_t size = layout->size[CUPTI_KIND_MEMORY_POOL];
	if (size < first_MEMORY_POOL)
		return 0;
	uint32_t operation = FIELD(MEMORY_POOL, memoryPoolOperationType);
	int local = FIELD(MEMORY_POOL, memoryPoolType) == CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
	uint64_t reserved = local ? FIELD(MEMORY_POOL, size) : 0;
	*times = (struct cupti_times){.start = FIELD(MEMORY_POOL, timestamp)};
	*out = (struct event_allocation){
		.head = HEAD(ALLOCATION, flags_of(times->start, times->start)),
		.bytes = operation == CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED
				 ? FIELD(MEMORY_POOL, minBytesToKeep)
				 : reserved,
		.total = local ? FIELD(MEMORY_POOL, utilizedSize) : 0,
		.reserved = reserved,
		.pool = FIELD(MEMORY_POOL, address),
		.correlation = FIELD(MEMORY_POOL, correlationId),
		.device = FIELD(MEMORY_POOL, deviceId),
		.source = ALLOCATION_POOL,
		.operation = operation < sizeof operations ? operations[operation] : 0,
	};
	return 1;
}

int cupti_decode_unified_memory(const struct cupti_layout *layout, const void *record, struct event_unified_memory *out,
				struct cupti_times *times)
{
	const unsigned char *bytes = record;
	size_t size = layout->size[CUPTI_KIND_UNIFIED_MEMORY_COUNTER];
	if (size < first_UNIFIED_MEMORY_COUNTER)
		return 0;
	uint32_t kind = FIELD(UNIFIED_MEMORY_COUNTER, counterKind);
	uint64_t start = FIELD(UNIFIED_MEMORY_COUNTER, start);
	uint64_t end = FIELD(UNIFIED_MEMORY_COUNTER, end);
	/* These are instants: the field of the end holds something else. */
	if (kind == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT ||
	    kind == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING ||
	    kind == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP)
		end = start;
	*times = (struct cupti_times){.start = start, .end = end};
	/* CUPTI's headers say in every release that the record's stream is invalid. */
	*out = (struct event_unified_memory){
		.head = HEAD(UNIFIED_MEMORY, flags_of(start, end)),
		.address = FIELD(UNIFIED_MEMORY_COUNTER, address),
		.value = FIELD(UNIFIED_MEMORY_COUNTER, value),
		.kind = kind,
		.source = FIELD(UNIFIED_MEMORY_COUNTER, srcId),
		.target = FIELD(UNIFIED_MEMORY_COUNTER, dstId),
		.detail = FIELD(UNIFIED_MEMORY_COUNTER, flags),
	};
	return 1;
}

int cupti_decode_overhead(const struct cupti_layout *layout, const void *record, struct event_overhead *out,
			  struct cupti_times *times)
{
	const unsigned char *bytes = record;
	size_t size = layout->size[CUPTI_KIND_OVERHEAD];
	if (size < first_OVERHEAD)
		return 0;
	int of_thread = FIELD(OVERHEAD, objectKind) == CUPTI_ACTIVITY_OBJECT_THREAD;
	*times = (struct cupti_times){.start = FIELD(OVERHEAD, start), .end = FIELD(OVERHEAD, end)};
	*out = (struct event_overhead){
		.head = HEAD(OVERHEAD, flags_of(times->start, times->end)),
		.thread = of_thread ? FIELD(OVERHEAD, objectId_pt_threadId) : 0,
		.kind = FIELD(OVERHEAD, overheadKind),
		.correlation = FIELD(OVERHEAD, correlationId),
	};
	return 1;
}

int cupti_decode_device(const struct cupti_layout *layout, const void *record, struct event_device *out,
			const char **ret_name)
{
	const unsigned char *bytes = record;
	size_t size = layout->size[CUPTI_KIND_DEVICE];
	if (size < first_DEVICE)
		return 0;
	uint32_t warp = FIELD(DEVICE, numThreadsPerWarp);
	*ret_name = FIELD(DEVICE, name);
	*out = (struct event_device){
		.head = HEAD(DEVICE, 0),
		.uuid_low = FIELD(DEVICE, uuid_bytes_0),
		.uuid_high = FIELD(DEVICE, uuid_bytes_8),
		.memory = FIELD(DEVICE, globalMemorySize),
		.bandwidth = FIELD(DEVICE, globalMemoryBandwidth) * 1000, /* it is in kB/s */
		.id = FIELD(DEVICE, id),
		.multiprocessors = FIELD(DEVICE, numMultiprocessors),
		.capability_major = FIELD(DEVICE, computeCapabilityMajor),
		.capability_minor = FIELD(DEVICE, computeCapabilityMinor),
		.warp = warp,
		.max_threads_block = FIELD(DEVICE, maxThreadsPerBlock),
		.max_threads_multiprocessor = FIELD(DEVICE, maxWarpsPerMultiprocessor) * warp,
		.max_blocks_multiprocessor = FIELD(DEVICE, maxBlocksPerMultiprocessor),
		.registers_block = FIELD(DEVICE, maxRegistersPerBlock),
		.registers_multiprocessor = FIELD(DEVICE, maxRegistersPerMultiprocessor),
		.shared_block = FIELD(DEVICE, maxSharedMemoryPerBlock),
		.shared_multiprocessor = FIELD(DEVICE, maxSharedMemoryPerMultiprocessor),
		.clock = FIELD(DEVICE, coreClockRate),
	};
	return 1;
}

int cupti_decode_context(const struct cupti_layout *layout, const void *record, struct event_context *out)
{
	const unsigned char *bytes = record;
	size_t size = layout->size[CUPTI_KIND_CONTEXT];
	if (size < first_CONTEXT)
		return 0;
	*out = (struct event_context){
		.head = HEAD(CONTEXT, 0),
		.id = FIELD(CONTEXT, contextId),
		.device = FIELD(CONTEXT, deviceId),
		.default_stream = FIELD(CONTEXT, nullStreamId),
		.api = FIELD(CONTEXT, computeApiKind),
	};
	return 1;
}

int cupti_decode_stream(const struct cupti_layout *layout, const void *record, struct event_stream *out)
{
	const unsigned char *bytes = record;
	size_t size = layout->size[CUPTI_KIND_STREAM];
	if (size < first_STREAM)
		return 0;
	*out = (struct event_stream){
		.head = HEAD(STREAM, 0),
		.id = FIELD(STREAM, streamId),
		.context = FIELD(STREAM, contextId),
		.priority = (int32_t)FIELD(STREAM, priority),
		.kind = FIELD(STREAM, flag),
	};
	return 1;
}

int cupti_decode_module(const struct cupti_layout *layout, const void *record, struct event_module *out)
{
	const unsigned char *bytes = record;
	size_t size = layout->size[CUPTI_KIND_MODULE];
	if (size < first_MODULE)
		return 0;
	*out = (struct event_module){
		.head = HEAD(MODULE, 0),
		.id = FIELD(MODULE, id),
		.context = FIELD(MODULE, contextId),
		.bytes = FIELD(MODULE, cubinSize),
	};
	return 1;
}
