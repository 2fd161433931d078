/* options.c - what may be set and asked: attributes, thread ids, clocks, ids of contexts and streams, texts. Any thread; sim_lock
 * guards what is set. */
#include "simcupti.h"

#include <string.h>

/* Bytes of an attribute's value in this release, 0 where it has no such attribute. */
static size_t attribute_size(uint32_t attribute)
{
	switch (attribute) {
	case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE:
	case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_CDP:
	case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT:
	case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE:
		return sizeof(size_t);
	case CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER:
	case CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED:
		return sizeof(uint8_t);
#ifdef HAS_CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER
	case CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER:
		return sizeof(uint8_t);
#endif
#ifdef HAS_CUPTI_ACTIVITY_ATTR_MULTIPLE_SUBSCRIBER_STATE
	case CUPTI_ACTIVITY_ATTR_MULTIPLE_SUBSCRIBER_STATE:
	case CUPTI_ACTIVITY_ATTR_ENABLE_HES:
	case CUPTI_ACTIVITY_ATTR_ENABLE_ALLOCATION_SOURCE_TRACKING:
	case CUPTI_ACTIVITY_ATTR_ENABLE_KERNEL_LATENCY_TIMESTAMPS:
	case CUPTI_ACTIVITY_ATTR_ENABLE_ALL_SYNC_RECORDS:
	case CUPTI_ACTIVITY_ATTR_ENABLE_CUDA_EVENT_DEVICE_TIMESTAMPS:
	case CUPTI_ACTIVITY_ATTR_ENABLE_KERNEL_LAUNCH_ATTRIBUTES:
	case CUPTI_ACTIVITY_ATTR_ENABLE_DEVICE_GRAPH_TRACE:
		return sizeof(uint8_t);
#endif
#ifdef HAS_CUPTI_ACTIVITY_ATTR_THREAD_ID_TYPE
	case CUPTI_ACTIVITY_ATTR_THREAD_ID_TYPE:
		return sizeof(CUpti_ActivityThreadIdType);
#endif
	default:
		return 0;
	}
}

CUptiResult attribute_get(struct client *client, uint32_t attribute, size_t *size, void *value)
{
	size_t wanted = attribute_size(attribute);
	if (!size || !value || !wanted)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (*size < wanted)
		return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
	size_t number = client->attributes[attribute];
#ifdef HAS_CUPTI_ACTIVITY_ATTR_MULTIPLE_SUBSCRIBER_STATE
	if (attribute == CUPTI_ACTIVITY_ATTR_MULTIPLE_SUBSCRIBER_STATE)
		number = subscribers_multiple() ? 1 : subscribers_any() ? 0 : 2;
#endif
#ifdef HAS_CUPTI_ACTIVITY_ATTR_THREAD_ID_TYPE
	if (attribute == CUPTI_ACTIVITY_ATTR_THREAD_ID_TYPE)
		number = client->thread_id_type;
#endif
	memcpy(value, &number, wanted);
	*size = wanted;
	return CUPTI_SUCCESS;
}

CUptiResult attribute_set(struct client *client, uint32_t attribute, size_t *size, void *value)
{
	size_t wanted = attribute_size(attribute), number = 0;
	if (!size || !value || !wanted)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (*size < wanted)
		return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
	memcpy(&number, value, wanted);
#ifdef HAS_CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER
	/* Too late for what is there already. */
	if (attribute == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER)
		sim_forbid(client->buffers && client->attributes[attribute] != number,
			   "PER_THREAD_ACTIVITY_BUFFER set while buffers are in use");
#endif
#ifdef HAS_CUPTI_ACTIVITY_ATTR_MULTIPLE_SUBSCRIBER_STATE
	if (attribute == CUPTI_ACTIVITY_ATTR_MULTIPLE_SUBSCRIBER_STATE)
		return CUPTI_ERROR_NOT_SUPPORTED;
	if (attribute == CUPTI_ACTIVITY_ATTR_ENABLE_HES && number)
		return CUPTI_ERROR_NOT_SUPPORTED;
	if (attribute == CUPTI_ACTIVITY_ATTR_ENABLE_KERNEL_LATENCY_TIMESTAMPS)
		client->latency = number != 0;
	if (attribute == CUPTI_ACTIVITY_ATTR_ENABLE_CUDA_EVENT_DEVICE_TIMESTAMPS)
		client->event_times = number != 0;
#endif
#ifdef HAS_CUPTI_ACTIVITY_ATTR_THREAD_ID_TYPE
	if (attribute == CUPTI_ACTIVITY_ATTR_THREAD_ID_TYPE) {
		if (number > CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
			return CUPTI_ERROR_INVALID_PARAMETER;
		client->thread_id_type = (uint32_t)number;
	}
#endif
	client->attributes[attribute] = number;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetAttribute(CUpti_ActivityAttribute attribute, size_t *size, void *value)
{
	ENTER(attribute);
	pthread_mutex_lock(&sim_lock);
	CUptiResult result;
	struct client *client = client_plain(&result);
	if (result == CUPTI_SUCCESS)
		result = attribute_get(client, attribute, size, value);
	pthread_mutex_unlock(&sim_lock);
	LEAVE(attribute, result);
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *size, void *value)
{
	ENTER(attribute);
	pthread_mutex_lock(&sim_lock);
	CUptiResult result;
	struct client *client = client_plain(&result);
	if (result == CUPTI_SUCCESS)
		result = attribute_set(client, attribute, size, value);
	pthread_mutex_unlock(&sim_lock);
	LEAVE(attribute, result);
}

CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
	ENTER(type);
	if ((uint32_t)type > CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
		LEAVE(type, CUPTI_ERROR_INVALID_PARAMETER);
	CUptiResult result;
	pthread_mutex_lock(&sim_lock);
	struct client *client = client_plain(&result);
	if (result == CUPTI_SUCCESS)
		client->thread_id_type = type;
	pthread_mutex_unlock(&sim_lock);
	LEAVE(type, result);
}

CUptiResult cuptiGetThreadIdType(CUpti_ActivityThreadIdType *type)
{
	ENTER(0);
	if (!type)
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	CUptiResult result;
	pthread_mutex_lock(&sim_lock);
	struct client *client = client_plain(&result);
	if (result == CUPTI_SUCCESS)
		*type = (CUpti_ActivityThreadIdType)client->thread_id_type;
	pthread_mutex_unlock(&sim_lock);
	LEAVE(0, result);
}

CUptiResult cuptiActivityEnableLatencyTimestamps(uint8_t on)
{
	ENTER(on);
	CUptiResult result;
	pthread_mutex_lock(&sim_lock);
	struct client *client = client_plain(&result);
	if (result == CUPTI_SUCCESS)
		client->latency = on;
	pthread_mutex_unlock(&sim_lock);
	LEAVE(on, result);
}

/* The driver tells of no launch attributes: there are none to leave out. */
CUptiResult cuptiActivityEnableLaunchAttributes(uint8_t on)
{
	ENTER(on);
	LEAVE(on, CUPTI_SUCCESS);
}

#ifdef HAS_cuptiActivityEnableCudaEventDeviceTimestamps
CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t on)
{
	ENTER(on);
	CUptiResult result;
	pthread_mutex_lock(&sim_lock);
	struct client *client = client_plain(&result);
	if (result == CUPTI_SUCCESS)
		client->event_times = on;
	pthread_mutex_unlock(&sim_lock);
	LEAVE(on, result);
}
#endif

#ifdef HAS_cuptiActivityEnableHWTrace
CUptiResult cuptiActivityEnableHWTrace(uint8_t on)
{
	ENTER(on);
	LEAVE(on, CUPTI_ERROR_NOT_SUPPORTED);
}
#endif

#ifdef HAS_cuptiActivityEnableAllSyncRecords
/* Waits of the simulated driver do not fail, nor do queries give records. */
CUptiResult cuptiActivityEnableAllSyncRecords(uint8_t on)
{
	ENTER(on);
	LEAVE(on, CUPTI_SUCCESS);
}
#endif

#ifdef HAS_cuptiActivityEnableAllocationSource
/* The driver does not tell which library allocates: the field stays NULL, as where it cannot be found. */
CUptiResult cuptiActivityEnableAllocationSource(uint8_t on)
{
	ENTER(on);
	LEAVE(on, CUPTI_SUCCESS);
}
#endif

#ifdef HAS_cuptiActivityEnableDeviceGraph
CUptiResult cuptiActivityEnableDeviceGraph(uint8_t on)
{
	ENTER(on);
	LEAVE(on, CUPTI_SUCCESS);
}
#endif

/* No unified memory in the simulated driver. */
CUptiResult cuptiActivityConfigureUnifiedMemoryCounter(CUpti_ActivityUnifiedMemoryCounterConfig *configuration,
						       uint32_t count)
{
	ENTER(count);
	LEAVE(count, !configuration || !count	   ? CUPTI_ERROR_INVALID_PARAMETER
		     : script_value("unified_off") ? CUPTI_SUCCESS
						   : CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE);
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function)
{
	if (!function) {
		ENTER_ALWAYS(0);
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	}
	ENTER(0);
	pthread_mutex_lock(&sim_lock);
	sim_clock_callback(function);
	pthread_mutex_unlock(&sim_lock);
	LEAVE(0, CUPTI_SUCCESS);
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
	CUptiResult entered = sim_enter(__func__, 0, true);
	if (entered != CUPTI_SUCCESS)
		return sim_leave(__func__, 0, entered);
	if (!timestamp)
		return sim_leave(__func__, 0, CUPTI_ERROR_INVALID_PARAMETER);
	*timestamp = sim_time(sim_monotonic(), true);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetVersion(uint32_t *version)
{
	ENTER_ALWAYS(0);
	if (!version)
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	*version = (uint32_t)script_number("version", CUPTI_API_VERSION);
	LEAVE(0, CUPTI_SUCCESS);
}

CUptiResult cuptiGetLastError(void)
{
	CUptiResult entered = sim_enter(__func__, 0, true);
	return entered == CUPTI_SUCCESS ? sim_last_error() : entered;
}

static const char *const result_names[] = {
	[CUPTI_SUCCESS] = "CUPTI_SUCCESS",
	[CUPTI_ERROR_INVALID_PARAMETER] = "CUPTI_ERROR_INVALID_PARAMETER",
	[CUPTI_ERROR_INVALID_DEVICE] = "CUPTI_ERROR_INVALID_DEVICE",
	[CUPTI_ERROR_INVALID_CONTEXT] = "CUPTI_ERROR_INVALID_CONTEXT",
	[CUPTI_ERROR_INVALID_OPERATION] = "CUPTI_ERROR_INVALID_OPERATION",
	[CUPTI_ERROR_OUT_OF_MEMORY] = "CUPTI_ERROR_OUT_OF_MEMORY",
	[CUPTI_ERROR_HARDWARE] = "CUPTI_ERROR_HARDWARE",
	[CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT] = "CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT",
	[CUPTI_ERROR_API_NOT_IMPLEMENTED] = "CUPTI_ERROR_API_NOT_IMPLEMENTED",
	[CUPTI_ERROR_MAX_LIMIT_REACHED] = "CUPTI_ERROR_MAX_LIMIT_REACHED",
	[CUPTI_ERROR_NOT_READY] = "CUPTI_ERROR_NOT_READY",
	[CUPTI_ERROR_NOT_COMPATIBLE] = "CUPTI_ERROR_NOT_COMPATIBLE",
	[CUPTI_ERROR_NOT_INITIALIZED] = "CUPTI_ERROR_NOT_INITIALIZED",
	[CUPTI_ERROR_QUEUE_EMPTY] = "CUPTI_ERROR_QUEUE_EMPTY",
	[CUPTI_ERROR_INVALID_STREAM] = "CUPTI_ERROR_INVALID_STREAM",
	[CUPTI_ERROR_INVALID_KIND] = "CUPTI_ERROR_INVALID_KIND",
	[CUPTI_ERROR_DISABLED] = "CUPTI_ERROR_DISABLED",
	[CUPTI_ERROR_NOT_SUPPORTED] = "CUPTI_ERROR_NOT_SUPPORTED",
	[CUPTI_ERROR_INSUFFICIENT_PRIVILEGES] = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
	[CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED] = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
	[CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES] =
		"CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES",
	[CUPTI_ERROR_UNKNOWN] = "CUPTI_ERROR_UNKNOWN",
};

static CUptiResult result_text(CUptiResult result, const char **text)
{
	size_t number = (size_t)result;
	if (!text || number >= sizeof result_names / sizeof result_names[0] || !result_names[number])
		return CUPTI_ERROR_INVALID_PARAMETER;
	*text = result_names[number];
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
	ENTER_ALWAYS(result);
	LEAVE(result, result_text(result, text));
}

#ifdef HAS_cuptiGetErrorMessage
CUptiResult cuptiGetErrorMessage(CUptiResult result, const char **text)
{
	ENTER_ALWAYS(result);
	LEAVE(result, result_text(result, text));
}
#endif

/* Ids are those of the driver's own calls, where it has them. */
static CUptiResult context_id(CUcontext context, uint32_t *id)
{
	CUresult (*get)(CUcontext, unsigned long long *);
	void *found = sim_driver_function("cuCtxGetId");
	memcpy(&get, &found, sizeof get);
	unsigned long long number;
	if (!id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!context || !get || get(context, &number) != CUDA_SUCCESS)
		return CUPTI_ERROR_INVALID_CONTEXT;
	*id = (uint32_t)number;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetContextId(CUcontext context, uint32_t *id)
{
	ENTER(0);
	LEAVE(0, context_id(context, id));
}

static CUptiResult stream_id(CUstream stream, uint32_t *id)
{
	CUresult (*get)(CUstream, unsigned long long *);
	void *found = sim_driver_function("cuStreamGetId");
	memcpy(&get, &found, sizeof get);
	unsigned long long number;
	if (!id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!get || get(stream, &number) != CUDA_SUCCESS)
		return CUPTI_ERROR_INVALID_STREAM;
	*id = (uint32_t)number;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t *id)
{
	(void)context;
	ENTER(0);
	LEAVE(0, stream_id(stream, id));
}

CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread, uint32_t *id)
{
	(void)context;
	ENTER(per_thread);
	LEAVE(per_thread, stream_id(!stream && per_thread ? CU_STREAM_PER_THREAD : stream, id));
}

CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t *id)
{
	ENTER(0);
	CUresult (*push)(CUcontext), (*pop)(CUcontext *), (*device_of)(CUdevice *);
	void *found = sim_driver_function("cuCtxPushCurrent_v2");
	memcpy(&push, &found, sizeof push);
	found = sim_driver_function("cuCtxPopCurrent_v2");
	memcpy(&pop, &found, sizeof pop);
	found = sim_driver_function("cuCtxGetDevice");
	memcpy(&device_of, &found, sizeof device_of);
	CUdevice number;
	CUcontext popped;
	if (!id)
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	if (!push || !pop || !device_of || push(context) != CUDA_SUCCESS)
		LEAVE(0, CUPTI_ERROR_INVALID_CONTEXT);
	CUresult result = device_of(&number);
	pop(&popped);
	*id = (uint32_t)number;
	LEAVE(0, result == CUDA_SUCCESS ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_CONTEXT);
}
