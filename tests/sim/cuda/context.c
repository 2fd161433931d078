/* context.c - contexts: primary ones and others, each thread's stack of them. Any thread; object_lock guards the list, whose
 * members are never freed, so that a thread may look at a context that another has destroyed. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { STACK_MAX = 64 };

pthread_mutex_t object_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st *contexts;
static uint32_t context_ids;

static __thread struct {
	struct CUctx_st *stack[STACK_MAX];
	int depth;
} self;

static int is_alive(const struct CUctx_st *context)
{
	return __atomic_load_n(&context->alive, __ATOMIC_ACQUIRE);
}

struct CUctx_st *current_context(void)
{
	struct CUctx_st *context = self.depth ? self.stack[self.depth - 1] : NULL;
	return context && is_alive(context) ? context : NULL;
}

int context_valid(const struct CUctx_st *context)
{
	int found = 0;
	pthread_mutex_lock(&object_lock);
	for (struct CUctx_st *c = contexts; c && !found; c = c->next)
		found = c == context && is_alive(c);
	pthread_mutex_unlock(&object_lock);
	return found;
}

static void tell(const struct CUctx_st *context, int created)
{
	const struct sim_observer *who = observer();
	struct sim_context facts = {context->id, context->device->facts.id, DEFAULT_STREAM_ID};
	if (who && who->context)
		who->context(&facts, created);
}

void stream_tell(const struct CUstream_st *stream, int created)
{
	const struct sim_observer *who = observer();
	struct sim_stream facts = {stream->id, stream->context->device->facts.id, stream->context->id, stream->flags,
				   stream->priority};
	if (who && who->stream)
		who->stream(&facts, created);
}

/* The streams of a context that are not destroyed. They are never taken out of the list, so it can be walked freely. */
static struct CUstream_st *next_stream(struct CUctx_st *context, struct CUstream_st *stream)
{
	pthread_mutex_lock(&work_lock);
	stream = stream ? stream->sibling : context->streams;
	while (stream && stream->destroyed)
		stream = stream->sibling;
	pthread_mutex_unlock(&work_lock);
	return stream;
}

void contexts_dump(void)
{
	pthread_mutex_lock(&object_lock);
	struct CUctx_st *context = contexts;
	pthread_mutex_unlock(&object_lock);
	for (; context; context = context->next)
		if (is_alive(context)) {
			tell(context, 1);
			for (struct CUstream_st *s = NULL; (s = next_stream(context, s));)
				stream_tell(s, 1);
		}
}

void contexts_drain(void)
{
	pthread_mutex_lock(&object_lock);
	struct CUctx_st *context = contexts;
	pthread_mutex_unlock(&object_lock);
	for (; context; context = context->next)
		if (is_alive(context))
			context_drain(context);
}

/* NULL: out of memory. */
static struct CUctx_st *context_new(struct device *device, unsigned flags, int primary)
{
	struct CUctx_st *context = calloc(1, sizeof *context);
	if (!context)
		return NULL;
	context->device = device;
	context->flags = flags;
	context->primary = primary;
	context->next_stream = FIRST_STREAM_ID;
	pthread_mutex_lock(&object_lock);
	context->id = ++context_ids;
	pthread_mutex_unlock(&object_lock);
	context->legacy = stream_create(context, CU_STREAM_DEFAULT, 0, DEFAULT_STREAM_ID);
	if (!context->legacy) {
		free(context);
		return NULL;
	}
	__atomic_store_n(&context->alive, 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&object_lock);
	context->next = contexts;
	contexts = context;
	pthread_mutex_unlock(&object_lock);
	tell(context, 1);
	stream_tell(context->legacy, 1);
	return context;
}

/* Ends a context once its work is done. One that is dead already: nothing. */
static void context_end(struct CUctx_st *context)
{
	int one = 1;
	context_drain(context);
	if (!__atomic_compare_exchange_n(&context->alive, &one, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return;
	modules_unload(context);
	for (struct CUstream_st *s = NULL; (s = next_stream(context, s));) {
		stream_tell(s, 0);
		stream_destroy(s);
	}
	memory_reset(context);
	tell(context, 0);
}

static CUresult push(struct CUctx_st *context)
{
	if (self.depth == STACK_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	self.stack[self.depth++] = context;
	return CUDA_SUCCESS;
}

static CUresult create(struct CUctx_st **result, unsigned flags, CUdevice device)
{
	if (!result)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_of(device))
		return CUDA_ERROR_INVALID_DEVICE;
	struct CUctx_st *context = context_new(device_of(device), flags, 0);
	if (!context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*result = context;
	return push(context);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	CALL(cuCtxCreate, _v2);
	RETURN(create(context, flags, device));
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned int flags,
			CUdevice device)
{
	CALL(cuCtxCreate, _v3);
	CHECK(!affinity && !count, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
	RETURN(create(context, flags, device));
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned int flags, CUdevice device)
{
	CALL(cuCtxCreate, _v4);
	CHECK(!parameters || !parameters->numExecAffinityParams, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
	RETURN(create(context, flags, device));
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
	CALL(cuCtxDestroy, _v2);
	CHECK(context_valid(context) && !context->primary, CUDA_ERROR_INVALID_CONTEXT);
	context_end(context);
	if (self.depth && self.stack[self.depth - 1] == context)
		self.depth--;
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	CALL(cuCtxPushCurrent, _v2);
	CHECK(context_valid(context), CUDA_ERROR_INVALID_CONTEXT);
	RETURN(push(context));
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	CALL(cuCtxPopCurrent, _v2);
	CHECK(self.depth, CUDA_ERROR_INVALID_CONTEXT);
	self.depth--;
	if (context)
		*context = self.stack[self.depth];
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	CALL(cuCtxSetCurrent, );
	CHECK(!context || context_valid(context), CUDA_ERROR_INVALID_CONTEXT);
	if (self.depth)
		self.depth--;
	RETURN(context ? push(context) : CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	CALL(cuCtxGetCurrent, );
	CHECK(context, CUDA_ERROR_INVALID_VALUE);
	*context = self.depth ? self.stack[self.depth - 1] : NULL;
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	CALL(cuCtxGetDevice, );
	CONTEXT(context);
	*device = (CUdevice)context->device->facts.id;
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext wanted)
{
	CALL(cuCtxGetDevice, _v2);
	struct CUctx_st *context = wanted ? wanted : current_context();
	CHECK(context && context_valid(context), CUDA_ERROR_INVALID_CONTEXT);
	*device = (CUdevice)context->device->facts.id;
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxSetFlags(unsigned int flags)
{
	CALL(cuCtxSetFlags, );
	CONTEXT(context);
	context->flags = flags;
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
	CALL(cuCtxGetFlags, );
	CONTEXT(context);
	*flags = context->flags;
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxGetId(CUcontext wanted, unsigned long long *id)
{
	CALL(cuCtxGetId, );
	struct CUctx_st *context = wanted ? wanted : current_context();
	CHECK(context && context_valid(context), CUDA_ERROR_INVALID_CONTEXT);
	*id = context->id;
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxGetApiVersion(CUcontext wanted, unsigned int *result)
{
	CALL(cuCtxGetApiVersion, );
	CHECK(!wanted || context_valid(wanted), CUDA_ERROR_INVALID_CONTEXT);
	*result = 3020;
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxSynchronize(void)
{
	CALL(cuCtxSynchronize, );
	CONTEXT(context);
	uint64_t start = now();
	context_drain(context);
	report_sync(&scope, SYNC_CONTEXT, start, context, 0, 0);
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxSynchronize_v2(CUcontext wanted)
{
	CALL(cuCtxSynchronize, _v2);
	struct CUctx_st *context = wanted ? wanted : current_context();
	CHECK(context && context_valid(context), CUDA_ERROR_INVALID_CONTEXT);
	uint64_t start = now();
	context_drain(context);
	report_sync(&scope, SYNC_CONTEXT, start, context, 0, 0);
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	CALL(cuCtxGetStreamPriorityRange, );
	CONTEXT(context);
	(void)context;
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	RETURN(CUDA_SUCCESS);
}

/* Limits and cache preferences are taken and have no effect; a limit is always said to be 1024. */
CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	CALL(cuCtxSetLimit, );
	CONTEXT(context);
	(void)context, (void)value;
	RETURN(limit < CU_LIMIT_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
	CALL(cuCtxGetLimit, );
	CONTEXT(context);
	(void)context;
	CHECK(value && limit < CU_LIMIT_MAX, CUDA_ERROR_INVALID_VALUE);
	*value = 1024;
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	CALL(cuCtxSetCacheConfig, );
	CONTEXT(context);
	(void)context, (void)config;
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
	CALL(cuCtxGetCacheConfig, );
	CONTEXT(context);
	(void)context;
	*config = CU_FUNC_CACHE_PREFER_NONE;
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	CALL(cuCtxEnablePeerAccess, );
	CONTEXT(context);
	CHECK(!flags, CUDA_ERROR_INVALID_VALUE);
	CHECK(context_valid(peer) && peer->device != context->device, CUDA_ERROR_INVALID_CONTEXT);
	RETURN(CUDA_SUCCESS);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	CALL(cuCtxDisablePeerAccess, );
	CHECK(context_valid(peer), CUDA_ERROR_INVALID_CONTEXT);
	RETURN(CUDA_SUCCESS);
}

/* ---- primary contexts. Making one and counting its holders is one step: primary_lock. */

static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal)
{
	CALL(cuDevicePrimaryCtxRetain, );
	struct device *device = device_of(ordinal);
	CHECK(device, CUDA_ERROR_INVALID_DEVICE);
	CHECK(context, CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_lock(&primary_lock);
	if (!device->primary)
		device->primary = context_new(device, device->primary_flags, 1);
	if (device->primary)
		device->primary_references++;
	*context = device->primary;
	pthread_mutex_unlock(&primary_lock);
	RETURN(*context ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

/* Takes the context away where nobody holds it any more, or `always`. */
static CUresult primary_drop(struct device *device, int always)
{
	struct CUctx_st *ended = NULL;
	pthread_mutex_lock(&primary_lock);
	if (!device->primary && !always) {
		pthread_mutex_unlock(&primary_lock);
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	if (always || --device->primary_references == 0) {
		ended = device->primary;
		device->primary = NULL;
		device->primary_references = 0;
	}
	pthread_mutex_unlock(&primary_lock);
	if (ended)
		context_end(ended);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CALL(cuDevicePrimaryCtxRelease, _v2);
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	RETURN(primary_drop(device_of(device), 0));
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	CALL(cuDevicePrimaryCtxReset, _v2);
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	RETURN(primary_drop(device_of(device), 1));
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
	CALL(cuDevicePrimaryCtxSetFlags, _v2);
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	pthread_mutex_lock(&primary_lock);
	device_of(device)->primary_flags = flags;
	pthread_mutex_unlock(&primary_lock);
	RETURN(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	CALL(cuDevicePrimaryCtxGetState, );
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	pthread_mutex_lock(&primary_lock);
	*flags = device_of(device)->primary_flags;
	*active = device_of(device)->primary != NULL;
	pthread_mutex_unlock(&primary_lock);
	RETURN(CUDA_SUCCESS);
}

/* ---- streams: what has to do with the API; stream.c does their work */

static CUresult stream_make(CUstream *result, unsigned flags, int priority)
{
	struct CUctx_st *context = current_context();
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!result || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
		return CUDA_ERROR_INVALID_VALUE;
	priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	struct CUstream_st *stream = stream_create(context, flags, priority, 0);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream_tell(stream, 1);
	*result = stream;
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	CALL(cuStreamCreate, );
	RETURN(stream_make(stream, flags, 0));
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	CALL(cuStreamCreateWithPriority, );
	RETURN(stream_make(stream, flags, priority));
}

CUresult cuStreamDestroy_v2(CUstream handle)
{
	CALL(cuStreamDestroy, _v2);
	CHECK(handle > CU_STREAM_PER_THREAD, CUDA_ERROR_INVALID_HANDLE);
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream && stream != stream->context->legacy, CUDA_ERROR_INVALID_HANDLE);
	stream_tell(stream, 0);
	stream_destroy(stream);
	RETURN(CUDA_SUCCESS);
}

CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
	CALL(cuStreamGetPriority, );
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	*priority = stream->priority;
	RETURN(CUDA_SUCCESS);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
	CALL(cuStreamGetFlags, );
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	*flags = stream->flags;
	RETURN(CUDA_SUCCESS);
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
	CALL(cuStreamGetId, );
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	*id = stream->id;
	RETURN(CUDA_SUCCESS);
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice *device)
{
	CALL(cuStreamGetDevice, );
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	*device = (CUdevice)stream->context->device->facts.id;
	RETURN(CUDA_SUCCESS);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
	CALL(cuStreamGetCtx, );
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	*context = stream->context;
	RETURN(CUDA_SUCCESS);
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *context, CUgreenCtx *green)
{
	CALL(cuStreamGetCtx, _v2);
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	*context = stream->context;
	if (green)
		*green = NULL;
	RETURN(CUDA_SUCCESS);
}

/* A stream's attributes are taken and have no effect; all are said to be zero. */
CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue *value)
{
	CALL(cuStreamSetAttribute, );
	(void)attribute, (void)value;
	RETURN(stream_of(&scope, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
	CALL(cuStreamGetAttribute, );
	(void)attribute;
	CHECK(stream_of(&scope, handle), CUDA_ERROR_INVALID_HANDLE);
	memset(value, 0, sizeof *value);
	RETURN(CUDA_SUCCESS);
}
