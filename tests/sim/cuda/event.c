/* event.c - events, waiting for streams, callbacks. Any thread; what an event says is guarded by work_lock (its place in a
 * capture by graph_lock). Events are recycled and never freed, since an operation may still hold one that is destroyed. */
#include "internal.h"

#include <stdlib.h>

enum { EVENT_MAGIC = 0x65766e74 };

static struct CUevent_st *unused_events;
static uint32_t event_ids;

static int event_valid(const struct CUevent_st *event)
{
	return event && __atomic_load_n(&event->magic, __ATOMIC_ACQUIRE) == EVENT_MAGIC;
}

static int event_captured(const struct CUevent_st *event)
{
	pthread_mutex_lock(&graph_lock);
	int captured = event->capture != NULL;
	pthread_mutex_unlock(&graph_lock);
	return captured;
}

CUresult cuEventCreate(CUevent *result, unsigned int flags)
{
	CALL(cuEventCreate, );
	CONTEXT(context);
	CHECK(result, CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_lock(&work_lock);
	struct CUevent_st *event = unused_events;
	if (event)
		unused_events = event->next_free;
	else
		event = calloc(1, sizeof *event);
	if (event) {
		event->id = ++event_ids;
		event->context = context;
		event->flags = flags;
		event->stream = NULL;
		event->capture = NULL;
		event->time = 0;
		__atomic_store_n(&event->magic, EVENT_MAGIC, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&work_lock);
	*result = event;
	RETURN(event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuEventDestroy_v2(CUevent event)
{
	CALL(cuEventDestroy, _v2);
	CHECK(event_valid(event), CUDA_ERROR_INVALID_HANDLE);
	pthread_mutex_lock(&work_lock);
	__atomic_store_n(&event->magic, 0, __ATOMIC_RELEASE);
	event->stream = NULL;
	event->next_free = unused_events;
	unused_events = event;
	pthread_mutex_unlock(&work_lock);
	RETURN(CUDA_SUCCESS);
}

static CUresult record(struct scope *scope, CUevent event, CUstream handle)
{
	struct CUstream_st *stream = stream_of(scope, handle);
	if (!stream || !event_valid(event))
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult captured = capture_event(stream, event);
	if (captured != CUDA_ERROR_NOT_READY)
		return captured;
	struct work work = {.record = {.kind = SIM_EVENT, .event = event->id}, .event = event};
	return submit(scope, stream, &work);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	CALL(cuEventRecord, );
	RETURN(record(&scope, event, stream));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
	CALL(cuEventRecordWithFlags, );
	CHECK(!(flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
	RETURN(record(&scope, event, stream));
}

CUresult cuEventQuery(CUevent event)
{
	CALL(cuEventQuery, );
	CHECK(event_valid(event), CUDA_ERROR_INVALID_HANDLE);
	CHECK(!event_captured(event), CUDA_ERROR_CAPTURED_EVENT);
	pthread_mutex_lock(&work_lock);
	int over = !event->stream || event->time;
	pthread_mutex_unlock(&work_lock);
	RETURN(over ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

CUresult cuEventSynchronize(CUevent event)
{
	CALL(cuEventSynchronize, );
	CHECK(event_valid(event), CUDA_ERROR_INVALID_HANDLE);
	CHECK(!event_captured(event), CUDA_ERROR_CAPTURED_EVENT);
	uint64_t start = now();
	pthread_mutex_lock(&work_lock);
	struct CUstream_st *stream = event->stream;
	for (uint64_t sequence = event->sequence; stream && stream->finished < sequence;)
		pthread_cond_wait(&stream->done, &work_lock);
	pthread_mutex_unlock(&work_lock);
	report_sync(&scope, SYNC_EVENT, start, event->context, stream ? stream->id : 0, event->id);
	RETURN(CUDA_SUCCESS);
}

static CUresult elapsed(float *milliseconds, CUevent start, CUevent end)
{
	if (!milliseconds || !event_valid(start) || !event_valid(end) || !start->stream || !end->stream ||
	    ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&work_lock);
	uint64_t from = start->time, to = end->time;
	pthread_mutex_unlock(&work_lock);
	if (!from || !to)
		return CUDA_ERROR_NOT_READY;
	*milliseconds = (float)((double)(int64_t)(to - from) * 1e-6);
	return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
	CALL(cuEventElapsedTime, );
	RETURN(elapsed(milliseconds, start, end));
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
	CALL(cuEventElapsedTime, _v2);
	RETURN(elapsed(milliseconds, start, end));
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
	CALL(cuStreamWaitEvent, );
	CHECK(!(flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream && event_valid(event), CUDA_ERROR_INVALID_HANDLE);
	CUresult captured = capture_wait(stream, event);
	if (captured != CUDA_ERROR_NOT_READY)
		RETURN(captured);
	uint64_t start = now();
	struct work work = {.after = event};
	CUresult result = submit(&scope, stream, &work);
	report_sync(&scope, SYNC_WAIT_EVENT, start, stream->context, stream->id, event->id);
	RETURN(result);
}

CUresult cuStreamSynchronize(CUstream handle)
{
	CALL(cuStreamSynchronize, );
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	CHECK(!stream_capturing(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	uint64_t start = now();
	stream_drain(stream);
	report_sync(&scope, SYNC_STREAM, start, stream->context, stream->id, 0);
	RETURN(CUDA_SUCCESS);
}

CUresult cuStreamQuery(CUstream handle)
{
	CALL(cuStreamQuery, );
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	CHECK(!stream_capturing(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	RETURN(stream_busy(stream) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void *data, unsigned int flags)
{
	CALL(cuStreamAddCallback, );
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	CHECK(callback && !flags, CUDA_ERROR_INVALID_VALUE);
	struct work work = {.action = ACTION_HOST, .host = {.callback = callback, .data = data}};
	RETURN(submit(&scope, stream, &work));
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data)
{
	CALL(cuLaunchHostFunc, );
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	CHECK(function, CUDA_ERROR_INVALID_VALUE);
	struct work work = {.action = ACTION_HOST, .host = {.function = function, .data = data}};
	RETURN(submit(&scope, stream, &work));
}

CUresult cuLaunchHostFunc_v2(CUstream handle, CUhostFn function, void *data, unsigned int mode)
{
	CALL(cuLaunchHostFunc, _v2);
	(void)mode;
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	CHECK(function, CUDA_ERROR_INVALID_VALUE);
	struct work work = {.action = ACTION_HOST, .host = {.function = function, .data = data}};
	RETURN(submit(&scope, stream, &work));
}
