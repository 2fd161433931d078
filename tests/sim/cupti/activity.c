/* activity.c - the calls that collect without a subscriber: kinds, buffers, flushes, external ids. Any thread; sim_lock guards all. */
#include "simcupti.h"

#include <string.h>

static uint64_t bit(uint32_t kind)
{
	return (uint64_t)1 << kind;
}

bool client_wants(const struct client *client, uint32_t kind, uint32_t context)
{
	if (!client->live)
		return false;
	if (context && context < CONTEXTS_MAX) {
		if (client->context_on[context] & bit(kind))
			return true;
		if (client->context_off[context] & bit(kind))
			return false;
	}
	return (client->kinds & bit(kind)) != 0;
}

void client_enable_call(struct client *client, uint32_t domain, uint32_t callback, bool on)
{
	uint64_t *word = &client->callbacks[domain][callback / 64];
	*word = on ? *word | bit(callback % 64) : *word & ~bit(callback % 64);
}

CUptiResult client_enable(struct client *client, uint32_t kind, bool on)
{
	if (kind == 0 || kind >= KINDS_MAX || !sim_record_size(kind))
		return CUPTI_ERROR_INVALID_KIND;
	uint32_t other = kind == CUPTI_ACTIVITY_KIND_KERNEL		 ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
			 : kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ? CUPTI_ACTIVITY_KIND_KERNEL
									 : 0;
	if (on && other && client->kinds & bit(other))
		return CUPTI_ERROR_NOT_COMPATIBLE;
	client->live = true;
	if (on != ((client->kinds & bit(kind)) != 0))
		seen_switched(kind, on);
	client->kinds = on ? client->kinds | bit(kind) : client->kinds & ~bit(kind);
	uint32_t domain = kind == CUPTI_ACTIVITY_KIND_DRIVER	? SIM_DRIVER
			  : kind == CUPTI_ACTIVITY_KIND_RUNTIME ? SIM_RUNTIME
								: 0;
	if (domain)
		memset(client->callbacks[domain], on ? 0xff : 0, sizeof client->callbacks[domain]);
	if (on)
		sim_clock_start();
	return CUPTI_SUCCESS;
}

struct client *client_plain(CUptiResult *result)
{
	struct client *client = &sim_clients[0];
	if (!client->live) {
		client_reset(client);
		client->live = true;
	}
	*result = subscribers_multiple() ? CUPTI_ERROR_NOT_COMPATIBLE : CUPTI_SUCCESS;
	return client;
}

static CUptiResult enable(uint32_t kind, bool on, bool dump)
{
	CUptiResult result;
	if (on)
		sim_observe(true);
	pthread_mutex_lock(&sim_lock);
	sim_forbid(sim_thread()->in_callback > 0, "enabling or disabling in a callback for buffers");
	struct client *client = client_plain(&result);
	if (result == CUPTI_SUCCESS)
		result = client_enable(client, kind, on);
	if (result == CUPTI_SUCCESS && dump && client->requested)
		operations_dump(client, kind);
	pthread_mutex_unlock(&sim_lock);
	return result;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
	ENTER(kind);
	LEAVE(kind, enable(kind, true, false));
}

CUptiResult cuptiActivityEnableAndDump(CUpti_ActivityKind kind)
{
	ENTER(kind);
	LEAVE(kind, enable(kind, true, true));
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
	ENTER(kind);
	seen_disable(kind);
	LEAVE(kind, enable(kind, false, false));
}

static CUptiResult enable_context(CUcontext context, uint32_t kind, bool on)
{
	uint32_t id;
	CUptiResult result = cuptiGetContextId(context, &id);
	if (result != CUPTI_SUCCESS)
		return result;
	switch (kind) {
	case CUPTI_ACTIVITY_KIND_DRIVER:
	case CUPTI_ACTIVITY_KIND_RUNTIME:
	case CUPTI_ACTIVITY_KIND_DEVICE:
	case CUPTI_ACTIVITY_KIND_CONTEXT:
	case CUPTI_ACTIVITY_KIND_OVERHEAD:
	case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
		return CUPTI_ERROR_NOT_COMPATIBLE;
	default:
		break;
	}
	if (kind == 0 || kind >= KINDS_MAX || !sim_record_size(kind))
		return CUPTI_ERROR_INVALID_KIND;
	if (id >= CONTEXTS_MAX)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	if (on)
		sim_observe(true);
	pthread_mutex_lock(&sim_lock);
	struct client *client = client_plain(&result);
	if (result == CUPTI_SUCCESS) {
		client->context_on[id] = on ? client->context_on[id] | bit(kind) : client->context_on[id] & ~bit(kind);
		client->context_off[id] =
			on ? client->context_off[id] & ~bit(kind) : client->context_off[id] | bit(kind);
		sim_clock_start();
	}
	pthread_mutex_unlock(&sim_lock);
	return result;
}

CUptiResult cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind)
{
	ENTER(kind);
	LEAVE(kind, enable_context(context, kind, true));
}

CUptiResult cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind)
{
	ENTER(kind);
	LEAVE(kind, enable_context(context, kind, false));
}

#ifdef HAS_cuptiActivityEnableRuntimeApi
static CUptiResult enable_call(uint32_t domain, uint32_t callback, bool on)
{
	CUptiResult result;
	if (callback == 0 || callback >= CALLBACKS_MAX || !sim_callback_name(domain, callback))
		return CUPTI_ERROR_INVALID_PARAMETER;
	sim_observe(true);
	pthread_mutex_lock(&sim_lock);
	struct client *client = client_plain(&result);
	if (result == CUPTI_SUCCESS)
		client_enable_call(client, domain, callback, on);
	pthread_mutex_unlock(&sim_lock);
	return result;
}

CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t on)
{
	ENTER(cbid);
	LEAVE(cbid, enable_call(SIM_RUNTIME, cbid, on));
}

CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t on)
{
	ENTER(cbid);
	LEAVE(cbid, enable_call(SIM_DRIVER, cbid, on));
}
#endif

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
					   CUpti_BuffersCallbackCompleteFunc completed)
{
	ENTER_ALWAYS(0);
	if (!requested || !completed)
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	seen_register();
	CUptiResult result;
	pthread_mutex_lock(&sim_lock);
	struct client *client = client_plain(&result);
	if (result == CUPTI_SUCCESS) {
		client->requested = requested;
		client->completed = completed;
	}
	pthread_mutex_unlock(&sim_lock);
	LEAVE(0, result);
}

static CUptiResult flush(uint32_t flag)
{
	CUptiResult result = CUPTI_ERROR_INVALID_OPERATION;
	pthread_mutex_lock(&sim_lock);
	sim_forbid(sim_thread()->in_callback > 0, "a flush in a callback for buffers");
	for (const struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++) {
		if (c->live && c->completed)
			result = CUPTI_SUCCESS;
#ifdef HAS_cuptiActivityRegisterCallbacks_v2
		if (c->live && c->completed_v2)
			result = CUPTI_SUCCESS;
#endif
	}
	if (result == CUPTI_SUCCESS)
		buffers_flush((flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
	pthread_mutex_unlock(&sim_lock);
	return result;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	ENTER(flag);
	LEAVE(flag, flush(flag));
}

CUptiResult cuptiActivityFlush(CUcontext context, uint32_t stream, uint32_t flag)
{
	(void)context;
	(void)stream;
	ENTER(flag);
	LEAVE(flag, flush(flag));
}

/* Full buffers are handed out as soon as they are complete, which no period makes later. */
CUptiResult cuptiActivityFlushPeriod(uint32_t time)
{
	ENTER(time);
	LEAVE(time, CUPTI_SUCCESS);
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped)
{
	(void)context;
	(void)stream;
	ENTER(0);
	if (!dropped)
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	CUptiResult result;
	pthread_mutex_lock(&sim_lock);
	struct client *client = client_plain(&result);
	*dropped = client->dropped;
	client->dropped = 0;
	pthread_mutex_unlock(&sim_lock);
	LEAVE(0, result);
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	CUptiResult entered = sim_enter(__func__, 0, true);
	return entered == CUPTI_SUCCESS ? sim_next_record(buffer, valid, record) : entered;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
	ENTER(kind);
	LEAVE(kind, external_push(&sim_clients[0], kind, id));
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *last)
{
	ENTER(kind);
	LEAVE(kind, external_pop(&sim_clients[0], kind, last));
}

CUptiResult external_push(struct client *client, uint32_t kind, uint64_t id)
{
	if (kind == 0 || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE || kind >= EXTERNAL_KINDS_MAX)
		return CUPTI_ERROR_INVALID_PARAMETER;
	CUptiResult result = CUPTI_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&sim_lock);
	struct thread *thread = sim_thread();
	unsigned *depth = &thread->external[client_number(client)][kind].depth;
	if (*depth < EXTERNAL_DEPTH) {
		thread->external[client_number(client)][kind].ids[(*depth)++] = id;
		result = CUPTI_SUCCESS;
	}
	pthread_mutex_unlock(&sim_lock);
	return result;
}

CUptiResult external_pop(struct client *client, uint32_t kind, uint64_t *last)
{
	if (kind == 0 || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE || kind >= EXTERNAL_KINDS_MAX)
		return CUPTI_ERROR_INVALID_PARAMETER;
	CUptiResult result = CUPTI_ERROR_QUEUE_EMPTY;
	pthread_mutex_lock(&sim_lock);
	struct thread *thread = sim_thread();
	unsigned *depth = &thread->external[client_number(client)][kind].depth;
	if (*depth > 0) {
		uint64_t id = thread->external[client_number(client)][kind].ids[--*depth];
		if (last)
			*last = id;
		result = CUPTI_SUCCESS;
	}
	pthread_mutex_unlock(&sim_lock);
	return result;
}

/* What is left is forgotten: who wants it flushes before. */
CUptiResult cuptiFinalize(void)
{
	ENTER_ALWAYS(0);
	sim_observe(false);
	pthread_mutex_lock(&sim_lock);
	sim_forbid(sim_thread()->in_callback > 0, "cuptiFinalize in a callback for buffers");
	for (struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++)
		client_reset(c);
	operations_forget();
	subscribers_forget();
	seen_forget();
	pthread_mutex_unlock(&sim_lock);
	LEAVE(0, CUPTI_SUCCESS);
}
