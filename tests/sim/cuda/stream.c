/* stream.c - streams and their threads: each takes its operations one after another and is busy with each for as long as it
 * takes. Times are a model's, not the thread's: an operation starts when it was submitted, or when what it waits for ended,
 * whichever is later, and ends its duration later; its thread then sleeps until that moment has come. So a machine with few
 * cores makes results late, never wrong.
 *
 * work_lock guards all of it and is held for a few instructions at a time. A stream's `wake` is for its own thread, `done` for
 * those who wait for its operations. Streams are never freed. */
#include "internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { STREAM_MAGIC = 0x7374726d, THREAD_STACK = 1 << 20 };

pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the streams */

struct CUstream_st *stream_create(struct CUctx_st *context, unsigned flags, int priority, uint32_t id)
{
	struct CUstream_st *stream = calloc(1, sizeof *stream);
	if (!stream)
		return NULL;
	stream->magic = STREAM_MAGIC;
	stream->context = context;
	stream->flags = flags;
	stream->priority = priority;
	stream->blocking = !(flags & CU_STREAM_NON_BLOCKING);
	stream->tail = &stream->head;
	pthread_cond_init(&stream->wake, NULL);
	pthread_cond_init(&stream->done, NULL);
	pthread_mutex_lock(&work_lock);
	stream->id = id ? id : context->next_stream++;
	stream->sibling = context->streams;
	context->streams = stream;
	pthread_mutex_unlock(&work_lock);
	return stream;
}

void stream_destroy(struct CUstream_st *stream)
{
	pthread_mutex_lock(&work_lock);
	stream->destroyed = 1;
	pthread_cond_signal(&stream->wake);
	pthread_mutex_unlock(&work_lock);
}

/* The default stream of this thread in this context: made at the first use. */
static struct CUstream_st *per_thread_stream(struct CUctx_st *context)
{
	static __thread struct {
		struct CUctx_st *context;
		struct CUstream_st *stream;
	} own[8];
	unsigned unused = 0;
	for (unsigned i = 0; i < sizeof own / sizeof *own; i++) {
		if (own[i].context == context)
			return own[i].stream;
		if (!own[i].context || !__atomic_load_n(&own[i].context->alive, __ATOMIC_ACQUIRE))
			unused = i;
	}
	own[unused].stream = stream_create(context, CU_STREAM_DEFAULT, 0, 0);
	own[unused].context = own[unused].stream ? context : NULL;
	if (own[unused].stream)
		stream_tell(own[unused].stream, 1);
	return own[unused].stream;
}

struct CUstream_st *stream_of(const struct scope *scope, CUstream handle)
{
	struct CUctx_st *context = current_context();
	if (handle == CU_STREAM_PER_THREAD || (!handle && scope->per_thread))
		return context ? per_thread_stream(context) : NULL;
	if (!handle || handle == CU_STREAM_LEGACY)
		return context ? context->legacy : NULL;
	if (handle->magic != STREAM_MAGIC)
		return NULL;
	pthread_mutex_lock(&work_lock);
	int usable = !handle->destroyed;
	pthread_mutex_unlock(&work_lock);
	return usable ? handle : NULL;
}

/* ---- doing the work */

static void sleep_until(uint64_t when)
{
	struct timespec t = {(time_t)(when / 1000000000u), (long)(when % 1000000000u)};
	if (when > now())
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
			;
}

static void set_elements(const struct work *work)
{
	for (size_t row = 0; row < work->set.height; row++) {
		char *at = work->set.target + row * work->set.pitch;
		if (work->set.size == 1)
			memset(at, (int)work->record.value, work->set.width);
		else
			for (size_t i = 0; i < work->set.width; i++)
				memcpy(at + i * work->set.size, &work->record.value, work->set.size);
	}
}

static void copy_rows(const struct work *work)
{
	for (size_t row = 0; row < work->copy.height; row++)
		memmove(work->copy.target + row * work->copy.target_pitch,
			work->copy.source + row * work->copy.source_pitch, work->copy.width);
}

void operation_act(struct operation *operation)
{
	struct work *work = &operation->work;
	switch (work->action) {
	case ACTION_NONE:
		break;
	case ACTION_COPY:
		copy_rows(work);
		free(work->copy.staged);
		break;
	case ACTION_SET:
		set_elements(work);
		break;
	case ACTION_HOST:
		if (work->host.callback)
			work->host.callback(operation->stream, CUDA_SUCCESS, work->host.data);
		else
			work->host.function(work->host.data);
		break;
	case ACTION_FREE:
		allocation_free(work->free);
		break;
	}
}

void operation_report(struct operation *operation)
{
	const struct sim_observer *who = observer();
	if (who && who->finished && operation->work.record.kind)
		who->finished(&operation->work.record);
}

/* Waits for what the operation depends on, and returns when it starts. work_lock held. */
static uint64_t wait_dependencies(struct CUstream_st *stream, struct operation *operation)
{
	uint64_t start = operation->earliest > stream->last_end ? operation->earliest : stream->last_end;
	for (unsigned i = 0; i < operation->dependency_count; i++) {
		struct CUstream_st *other = operation->dependencies[i].stream;
		while (other->finished < operation->dependencies[i].sequence)
			pthread_cond_wait(&other->done, &work_lock);
		if (other->last_end > start)
			start = other->last_end;
	}
	return start;
}

static void execute(struct operation *operation, uint64_t start)
{
	struct work *work = &operation->work;
	work->record.start = start;
	work->record.end = start + work->duration;
	sleep_until(work->record.end);
	operation_act(operation);
	if (work->traps)
		driver_fail();
	if (work->action == ACTION_HOST)
		work->record.end = now();
	operation_report(operation);
}

/* The operation is over. work_lock held. */
static void finish(struct CUstream_st *stream, struct operation *operation)
{
	struct CUevent_st *event = operation->work.event;
	stream->head = operation->next;
	if (!stream->head)
		stream->tail = &stream->head;
	stream->last_end = operation->work.record.end;
	if (event && event->stream == stream && event->sequence == operation->sequence)
		event->time = operation->work.record.end;
	stream->finished = operation->sequence;
	pthread_cond_broadcast(&stream->done);
}

static void *stream_main(void *argument)
{
	struct CUstream_st *stream = argument;
	device_thread_named();
	pthread_mutex_lock(&work_lock);
	for (;;) {
		while (!stream->head && !stream->destroyed) {
			stream->idle = 1;
			pthread_cond_wait(&stream->wake, &work_lock);
			stream->idle = 0;
		}
		struct operation *operation = stream->head;
		if (!operation)
			break;
		uint64_t start = wait_dependencies(stream, operation);
		pthread_mutex_unlock(&work_lock);
		execute(operation, start);
		pthread_mutex_lock(&work_lock);
		finish(stream, operation);
		free(operation);
	}
	pthread_mutex_unlock(&work_lock);
	return NULL;
}

int device_thread(void *(*run)(void *), void *argument)
{
	pthread_t thread;
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, THREAD_STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&thread, &attributes, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -error;
}

void device_thread_named(void)
{
	prctl(PR_SET_NAME, "simulated GPU");
	prctl(PR_SET_TIMERSLACK, 1);
}

/* Starts the stream's thread, once. work_lock held. */
static int start_thread(struct CUstream_st *stream)
{
	int error = stream->started ? 0 : device_thread(stream_main, stream);
	stream->started = !error;
	return error;
}

/* ---- handing it out */

/* Legacy semantics: the default stream waits for all blocking streams of its context, and they for it. Returns how many
 * dependencies there are; fills in as many as fit. work_lock held. */
static unsigned implicit_dependencies(struct CUstream_st *stream, struct dependency *to, unsigned room)
{
	struct CUctx_st *context = stream->context;
	unsigned n = 0;
	if (!stream->blocking)
		return 0;
	if (stream != context->legacy) {
		if (context->legacy->submitted > context->legacy->finished && n++ < room)
			to[0] = (struct dependency){context->legacy, context->legacy->submitted};
		return n;
	}
	for (struct CUstream_st *s = context->streams; s; s = s->sibling)
		if (s != stream && s->blocking && s->submitted > s->finished && n++ < room)
			to[n - 1] = (struct dependency){s, s->submitted};
	return n;
}

/* Overwrites with what the test program said of this operation. Returns nonzero where it said when it ends. */
static int apply_hint(struct sim_operation *record)
{
	struct simcuda_hint hint;
	if ((record->kind != SIM_KERNEL && record->kind != SIM_COPY && record->kind != SIM_PEER_COPY &&
	     record->kind != SIM_SET) ||
	    !take_hint(&hint))
		return 0;
#define SAY(field, value)                                                                                              \
	do {                                                                                                           \
		if (value)                                                                                             \
			record->field = value;                                                                         \
	} while (0)
	SAY(device, hint.device);
	SAY(context, hint.context);
	SAY(correlation, hint.correlation);
	SAY(name, hint.name);
	for (int i = 0; i < 3; i++) {
		SAY(grid[i], hint.grid[i]);
		SAY(block[i], hint.block[i]);
	}
	SAY(registers, hint.registers);
	SAY(static_shared, hint.static_shared);
	SAY(dynamic_shared, hint.dynamic_shared);
	SAY(bytes, hint.copy_bytes);
	SAY(copy_kind, hint.copy_kind);
	SAY(source_kind, hint.source_kind);
	SAY(target_kind, hint.target_kind);
	SAY(graph, hint.graph);
	SAY(graph_node, hint.graph_node);
#undef SAY
	if (hint.has_stream)
		record->stream = hint.stream;
	record->queued = hint.queued;
	record->submitted = hint.submitted;
	if (!hint.end)
		return 0;
	record->start = hint.start;
	record->end = hint.end;
	return 1;
}

/* The operation for some work, with its dependencies as they are now; NULL: out of memory. work_lock held. */
static struct operation *operation_new(struct CUstream_st *stream, const struct work *work)
{
	struct CUevent_st *after = work->after;
	unsigned implicit = implicit_dependencies(stream, NULL, 0);
	struct operation *operation = malloc(sizeof *operation + (implicit + 1) * sizeof operation->dependencies[0]);
	if (!operation)
		return NULL;
	operation->next = NULL;
	operation->work = *work;
	operation->stream = stream;
	operation->dependency_count = implicit_dependencies(stream, operation->dependencies, implicit);
	if (after && after->stream && after->stream->finished < after->sequence)
		operation->dependencies[operation->dependency_count++] =
			(struct dependency){after->stream, after->sequence};
	return operation;
}

static void enqueue(struct CUstream_st *stream, struct operation *operation)
{
	struct CUevent_st *event = operation->work.event;
	operation->sequence = ++stream->submitted;
	if (stream->hinted_latest > operation->earliest)
		operation->earliest = stream->hinted_latest;
	if (event) {
		event->stream = stream;
		event->sequence = operation->sequence;
		event->time = 0;
	}
	*stream->tail = operation;
	stream->tail = &operation->next;
	if (stream->idle)
		pthread_cond_signal(&stream->wake);
}

static CUresult hand_out(struct scope *scope, struct CUstream_st *stream, const struct work *work)
{
	pthread_mutex_lock(&work_lock);
	while (stream->submitted - stream->finished >= STREAM_PENDING_MAX)
		pthread_cond_wait(&stream->done, &work_lock);
	struct operation *operation = start_thread(stream) ? NULL : operation_new(stream, work);
	pthread_mutex_unlock(&work_lock);
	if (!operation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct sim_operation *record = &operation->work.record;
	record->correlation = scope->correlation;
	record->device = stream->context->device->facts.id;
	record->context = stream->context->id;
	record->stream = stream->id;
	record->priority = stream->priority;
	record->queued = record->submitted = operation->earliest = now();
	record->id = next_id();
	int hinted = apply_hint(record);
	if (scope->observer && scope->observer->submitted && record->kind)
		scope->observer->submitted(record);
	count_operation(record->kind);
	if (hinted) {
		hinted_submit(operation);
		return CUDA_SUCCESS;
	}
	pthread_mutex_lock(&work_lock);
	enqueue(stream, operation);
	pthread_mutex_unlock(&work_lock);
	return CUDA_SUCCESS;
}

CUresult submit_node(struct scope *scope, struct CUstream_st *stream, const struct work *work)
{
	return hand_out(scope, stream, work);
}

CUresult submit(struct scope *scope, struct CUstream_st *stream, const struct work *work)
{
	CUresult captured = capture_add(stream, work);
	if (captured != CUDA_ERROR_NOT_READY)
		return captured;
	uint32_t kind = work->record.kind;
	if ((kind == SIM_KERNEL || kind == SIM_COPY || kind == SIM_PEER_COPY || kind == SIM_SET) && count_launch())
		return CUDA_ERROR_LAUNCH_FAILED;
	return hand_out(scope, stream, work);
}

/* ---- waiting for it */

static int is_busy(const struct CUstream_st *stream)
{
	return stream->finished < stream->submitted || stream->hinted_pending;
}

int stream_busy(struct CUstream_st *stream)
{
	pthread_mutex_lock(&work_lock);
	int busy = is_busy(stream);
	pthread_mutex_unlock(&work_lock);
	return busy;
}

/* work_lock held. */
static void drain(struct CUstream_st *stream)
{
	uint64_t last = stream->submitted;
	while (stream->finished < last || stream->hinted_pending)
		pthread_cond_wait(&stream->done, &work_lock);
}

void stream_drain(struct CUstream_st *stream)
{
	pthread_mutex_lock(&work_lock);
	drain(stream);
	pthread_mutex_unlock(&work_lock);
}

void context_drain(struct CUctx_st *context)
{
	pthread_mutex_lock(&work_lock);
	for (struct CUstream_st *stream = context->streams; stream; stream = stream->sibling)
		drain(stream);
	pthread_mutex_unlock(&work_lock);
}

void report_sync(struct scope *scope, uint32_t type, uint64_t start, struct CUctx_st *context, uint32_t stream,
		 uint32_t event)
{
	if (!scope->observer || !scope->observer->finished)
		return;
	struct sim_operation record = {.kind = SIM_SYNC,
				       .correlation = scope->correlation,
				       .device = context->device->facts.id,
				       .context = context->id,
				       .stream = stream,
				       .start = start,
				       .end = now(),
				       .sync_type = type,
				       .event = event,
				       .id = next_id()};
	scope->observer->finished(&record);
}
