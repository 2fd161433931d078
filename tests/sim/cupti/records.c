/* records.c - the release's records, filled with what the driver tells. Fields that a release does not have are left out by the
 * version of its struct. Any thread, sim_lock held. */
#include "simcupti.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t host_time(uint64_t monotonic)
{
	return monotonic ? sim_time(monotonic, true) : 0;
}

static uint64_t device_time(uint64_t monotonic)
{
	return monotonic ? sim_time(monotonic, false) : 0;
}

static uint32_t put(uint8_t *out, const void *record, size_t size)
{
	memset(out, 0, RECORD_MAX);
	memcpy(out, record, size);
	return ((const CUpti_Activity *)record)->kind;
}

uint32_t operation_kind(const struct client *client, const struct sim_operation *operation)
{
	switch (operation->kind) {
	case SIM_KERNEL:
		return client->kinds >> CUPTI_ACTIVITY_KIND_KERNEL & 1 ? CUPTI_ACTIVITY_KIND_KERNEL
								       : CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
	case SIM_COPY:
		return CUPTI_ACTIVITY_KIND_MEMCPY;
	case SIM_PEER_COPY:
		return CUPTI_ACTIVITY_KIND_MEMCPY2;
	case SIM_SET:
		return CUPTI_ACTIVITY_KIND_MEMSET;
	case SIM_SYNC:
		return CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
	case SIM_EVENT:
		return CUPTI_ACTIVITY_KIND_CUDA_EVENT;
	default:
		return CUPTI_ACTIVITY_KIND_INVALID;
	}
}

static uint32_t record_kernel(uint8_t *out, const struct client *client, const struct sim_operation *o, uint64_t start,
			      uint64_t end)
{
	sim_Kernel r = {.kind = operation_kind(client, o)};
	r.registersPerThread = (uint16_t)o->registers;
	r.start = device_time(start);
	r.end = r.completed = device_time(end);
	r.deviceId = o->device;
	r.contextId = o->context;
	r.streamId = o->stream;
	r.gridX = (int32_t)o->grid[0];
	r.gridY = (int32_t)o->grid[1];
	r.gridZ = (int32_t)o->grid[2];
	r.blockX = (int32_t)o->block[0];
	r.blockY = (int32_t)o->block[1];
	r.blockZ = (int32_t)o->block[2];
	r.staticSharedMemory = (int32_t)o->static_shared;
	r.dynamicSharedMemory = (int32_t)o->dynamic_shared;
	r.localMemoryPerThread = o->local_per_thread;
	r.correlationId = o->correlation;
	r.gridId = (int64_t)o->id;
	r.name = o->name;
	if (client->latency) {
		r.queued = host_time(o->queued);
		r.submitted = host_time(o->submitted);
	}
	r.sharedMemoryExecuted = o->static_shared + o->dynamic_shared;
	r.graphNodeId = o->graph_node;
	r.graphId = o->graph;
	r.channelID = 8 + o->stream % 16;
	r.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
#if VERSION_KERNEL >= 11
	r.priority = o->priority;
#endif
#if VERSION_KERNEL >= 12
	r.executionModel = CUPTI_FUNC_EXECUTION_MODEL_SIMT;
#endif
	return put(out, &r, sizeof r);
}

static uint32_t record_copy(uint8_t *out, const struct sim_operation *o, uint64_t start, uint64_t end)
{
	sim_Memcpy r = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY};
	r.copyKind = o->copy_kind;
	r.srcKind = o->source_kind;
	r.dstKind = o->target_kind;
	r.flags = o->asynchronous ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : 0;
	r.bytes = o->bytes;
	r.start = device_time(start);
	r.end = device_time(end);
	r.deviceId = o->device;
	r.contextId = o->context;
	r.streamId = o->stream;
	r.correlationId = o->correlation;
	r.graphNodeId = o->graph_node;
	r.graphId = o->graph;
	r.channelID = 2;
	r.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
#if VERSION_MEMCPY >= 6
	r.copyCount = 1;
#endif
	return put(out, &r, sizeof r);
}

static uint32_t record_peer_copy(uint8_t *out, const struct sim_operation *o, uint64_t start, uint64_t end)
{
	sim_MemcpyPtoP r = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY2};
	r.copyKind = o->copy_kind;
	r.srcKind = o->source_kind;
	r.dstKind = o->target_kind;
	r.flags = o->asynchronous ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : 0;
	r.bytes = o->bytes;
	r.start = device_time(start);
	r.end = device_time(end);
	r.deviceId = o->device;
	r.contextId = o->context;
	r.streamId = o->stream;
	r.srcDeviceId = o->source_device;
	r.srcContextId = o->source_context;
	r.dstDeviceId = o->target_device;
	r.dstContextId = o->target_context;
	r.correlationId = o->correlation;
	r.graphNodeId = o->graph_node;
	r.graphId = o->graph;
	r.channelID = 3;
	r.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
	return put(out, &r, sizeof r);
}

static uint32_t record_set(uint8_t *out, const struct sim_operation *o, uint64_t start, uint64_t end)
{
	sim_Memset r = {.kind = CUPTI_ACTIVITY_KIND_MEMSET};
	r.value = o->value;
	r.bytes = o->bytes;
	r.start = device_time(start);
	r.end = device_time(end);
	r.deviceId = o->device;
	r.contextId = o->context;
	r.streamId = o->stream;
	r.correlationId = o->correlation;
	r.flags = o->asynchronous ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : 0;
	r.memoryKind = o->target_kind;
	r.graphNodeId = o->graph_node;
	r.graphId = o->graph;
	r.channelID = 2;
	r.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
	return put(out, &r, sizeof r);
}

#if VERSION_SYNCHRONIZATION >= 2
/* Of each event (by its id) how often it was recorded, as the number that joins records of events and of waiting for them. */
static uint64_t event_syncs[4096];
#define EVENT_SYNC(event) event_syncs[(event) % (sizeof event_syncs / sizeof event_syncs[0])]
#endif

static uint32_t record_sync(uint8_t *out, const struct sim_operation *o, uint64_t start, uint64_t end)
{
	bool of_event = o->sync_type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE ||
			o->sync_type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
	bool of_stream = o->sync_type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE ||
			 o->sync_type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
	sim_Synchronization r = {.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION};
	r.type = (CUpti_ActivitySynchronizationType)o->sync_type;
	r.start = host_time(start);
	r.end = host_time(end);
	r.correlationId = o->correlation;
	r.contextId = o->context;
	r.streamId = of_stream ? o->stream : (uint32_t)CUPTI_SYNCHRONIZATION_INVALID_VALUE;
	r.cudaEventId = of_event ? o->event : (uint32_t)CUPTI_SYNCHRONIZATION_INVALID_VALUE;
#if VERSION_SYNCHRONIZATION >= 2
	r.cudaEventSyncId = of_event ? EVENT_SYNC(o->event) : (uint32_t)CUPTI_SYNCHRONIZATION_INVALID_VALUE;
#endif
	return put(out, &r, sizeof r);
}

static uint32_t record_event(uint8_t *out, const struct client *client, const struct sim_operation *o, uint64_t end)
{
	sim_CudaEvent r = {.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT};
	r.correlationId = o->correlation;
	r.contextId = o->context;
	r.streamId = o->stream;
	r.eventId = o->event;
#if VERSION_CUDAEVENT >= 2
	r.deviceId = o->device;
	r.deviceTimestamp = client->event_times ? device_time(end) : 0;
	r.cudaEventSyncId = end ? EVENT_SYNC(o->event) : ++EVENT_SYNC(o->event);
#else
	(void)client;
	(void)end;
#endif
#if VERSION_CUDAEVENT >= 3
	r.graphNodeId = o->graph_node;
	r.graphId = o->graph;
#endif
	return put(out, &r, sizeof r);
}

uint32_t record_operation(uint8_t *out, const struct client *client, const struct sim_operation *operation,
			  uint64_t start, uint64_t end)
{
	switch (operation->kind) {
	case SIM_KERNEL:
		return record_kernel(out, client, operation, start, end);
	case SIM_COPY:
		return record_copy(out, operation, start, end);
	case SIM_PEER_COPY:
		return record_peer_copy(out, operation, start, end);
	case SIM_SET:
		return record_set(out, operation, start, end);
	case SIM_SYNC:
		return record_sync(out, operation, start, end);
	default:
		return record_event(out, client, operation, end);
	}
}

uint32_t record_graph(uint8_t *out, const struct sim_operation *o, uint64_t start, uint64_t end)
{
	sim_GraphTrace r = {.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE};
	r.correlationId = o->correlation;
	r.start = device_time(start);
	r.end = device_time(end);
	r.deviceId = o->device;
	r.graphId = o->graph;
	r.contextId = o->context;
	r.streamId = o->stream;
#if VERSION_GRAPHTRACE >= 2
	r.endDeviceId = o->device;
	r.endContextId = o->context;
#endif
	return put(out, &r, sizeof r);
}

uint32_t record_call(uint8_t *out, const struct client *client, const struct sim_call *call, uint32_t callback)
{
	sim_API r = {.kind = call->domain == SIM_DRIVER ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME};
	r.cbid = callback;
	r.start = host_time(call->start);
	r.end = host_time(call->end);
	r.processId = call->pid;
	r.threadId =
		client->thread_id_type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM ? call->tid : (uint32_t)call->pthread;
	r.correlationId = call->correlation;
	r.returnValue = (uint32_t)call->result;
	return put(out, &r, sizeof r);
}

uint32_t record_external(uint8_t *out, uint32_t kind, uint64_t id, uint32_t correlation)
{
	sim_ExternalCorrelation r = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};
	r.externalKind = (CUpti_ExternalCorrelationKind)kind;
	r.externalId = id;
	r.correlationId = correlation;
	return put(out, &r, sizeof r);
}

uint32_t record_memory(uint8_t *out, const struct sim_memory *memory, uint32_t pid)
{
	sim_Memory r = {.kind = CUPTI_ACTIVITY_KIND_MEMORY2};
	r.memoryOperationType = memory->allocated ? CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION
						  : CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
	r.memoryKind = (CUpti_ActivityMemoryKind)memory->memory_kind;
	r.correlationId = memory->correlation;
	r.address = memory->address;
	r.bytes = memory->bytes;
	r.timestamp = host_time(memory->time);
	r.processId = pid;
	r.deviceId = memory->device;
	r.contextId = memory->context;
	r.streamId = memory->stream;
	r.isAsync = memory->pooled;
	if (memory->pooled) {
		r.memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
		r.memoryPoolConfig.address = memory->pool;
		r.memoryPoolConfig.pool.size = memory->pool_size;
		r.memoryPoolConfig.utilizedSize = memory->pool_utilized;
	}
	return put(out, &r, sizeof r);
}

uint32_t record_pool(uint8_t *out, const struct sim_memory *memory, uint32_t pid)
{
	sim_MemoryPool r = {.kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL};
	r.memoryPoolOperationType = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED;
	r.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
	r.correlationId = memory->correlation;
	r.processId = pid;
	r.deviceId = memory->device;
	r.address = memory->pool;
	r.size = memory->pool_size;
	r.timestamp = host_time(memory->time);
	r.utilizedSize = memory->pool_utilized;
	return put(out, &r, sizeof r);
}

uint32_t record_device(uint8_t *out, const struct sim_device *device)
{
	sim_Device r = {.kind = CUPTI_ACTIVITY_KIND_DEVICE};
	r.flags = CUPTI_ACTIVITY_FLAG_DEVICE_CONCURRENT_KERNELS;
	r.globalMemorySize = device->memory;
	r.numThreadsPerWarp = device->warp;
	r.numMultiprocessors = device->multiprocessors;
	if (device->warp)
		r.maxWarpsPerMultiprocessor = device->max_threads_multiprocessor / device->warp;
	r.maxSharedMemoryPerMultiprocessor = device->shared_multiprocessor;
	r.maxRegistersPerMultiprocessor = device->registers_multiprocessor;
	r.maxRegistersPerBlock = device->registers_block;
	r.maxSharedMemoryPerBlock = device->shared_block;
	r.maxThreadsPerBlock = device->max_threads_block;
	r.computeCapabilityMajor = device->capability_major;
	r.computeCapabilityMinor = device->capability_minor;
	r.id = device->id;
	memcpy(&r.uuid, device->uuid, sizeof r.uuid);
	r.name = device->name;
	r.isCudaVisible = 1;
	return put(out, &r, sizeof r);
}

uint32_t record_context(uint8_t *out, const struct sim_context *context)
{
	sim_Context r = {.kind = CUPTI_ACTIVITY_KIND_CONTEXT};
	r.contextId = context->id;
	r.deviceId = context->device;
	r.computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA;
	r.nullStreamId = (uint16_t)context->default_stream;
#if VERSION_CONTEXT >= 2
	r.parentContextId = context->id;
#endif
#if VERSION_CONTEXT >= 4
	r.processId = (uint64_t)getpid();
#endif
	return put(out, &r, sizeof r);
}

uint32_t record_stream(uint8_t *out, const struct sim_stream *stream)
{
	sim_Stream r = {.kind = CUPTI_ACTIVITY_KIND_STREAM};
	r.contextId = stream->context;
	r.streamId = stream->id;
	r.priority = (uint32_t)stream->priority;
	r.flag = stream->flags & 1 ? CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING
				   : CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT;
	return put(out, &r, sizeof r);
}

uint32_t record_module(uint8_t *out, const struct sim_module *module)
{
	sim_Module r = {.kind = CUPTI_ACTIVITY_KIND_MODULE};
	r.contextId = module->context;
	r.id = module->id;
	r.cubinSize = module->bytes;
	r.cubin = module->image;
	return put(out, &r, sizeof r);
}

uint32_t record_overhead(uint8_t *out, const struct client *client, uint64_t start, uint64_t end)
{
	sim_Overhead r = {.kind = CUPTI_ACTIVITY_KIND_OVERHEAD};
	r.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE;
	r.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
	r.objectId.pt.processId = (uint32_t)getpid();
	r.objectId.pt.threadId = client->thread_id_type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM
					 ? (uint32_t)syscall(SYS_gettid)
					 : (uint32_t)pthread_self();
	r.start = host_time(start);
	r.end = host_time(end);
	return put(out, &r, sizeof r);
}
