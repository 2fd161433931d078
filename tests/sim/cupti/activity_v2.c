/* activity_v2.c - the calls that collect for a subscriber, of releases that have them. Any thread; sim_lock guards all. */
#include "simcupti.h"

#ifdef HAS_cuptiActivityEnable_v2
/* A subscriber's calls do not go with those of nobody's. */
static CUptiResult client_of(CUpti_SubscriberHandle subscriber, struct client **client)
{
	*client = subscriber_client(subscriber);
	if (!*client)
		return CUPTI_ERROR_INVALID_PARAMETER;
	return sim_clients[0].live && sim_clients[0].kinds ? CUPTI_ERROR_NOT_COMPATIBLE : CUPTI_SUCCESS;
}

/* What the configuration asks for beside the kind itself. */
static CUptiResult configure(struct client *client, uint32_t kind, const CUpti_ActivityConfig *configuration)
{
	if (!configuration)
		return CUPTI_SUCCESS;
	if (configuration->structSize == 0)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (configuration->fieldSelection.numFields)
		return CUPTI_ERROR_NOT_SUPPORTED;
#ifdef HAS_CUpti_ActivityApiCbidOptions
	uint32_t domain = kind == CUPTI_ACTIVITY_KIND_DRIVER	? SIM_DRIVER
			  : kind == CUPTI_ACTIVITY_KIND_RUNTIME ? SIM_RUNTIME
								: 0;
	if (!domain || configuration->structSize < sizeof *configuration || !configuration->pKindOptions)
		return CUPTI_SUCCESS;
	const CUpti_ActivityApiCbidOptions *list =
		((const CUpti_ActivityApiOptions *)configuration->pKindOptions)->pCbidOptions;
	if (!list)
		return CUPTI_SUCCESS;
	if (list->numCbids && !list->pCbids)
		return CUPTI_ERROR_INVALID_PARAMETER;
	for (uint32_t id = 0; list->enable && id < CALLBACKS_MAX; id++)
		client_enable_call(client, domain, id, false);
	for (size_t i = 0; i < list->numCbids; i++)
		if (list->pCbids[i] < CALLBACKS_MAX)
			client_enable_call(client, domain, list->pCbids[i], list->enable != 0);
#else
	(void)client;
	(void)kind;
#endif
	return CUPTI_SUCCESS;
}

static CUptiResult enable_v2(CUpti_SubscriberHandle subscriber, uint32_t kind,
			     const CUpti_ActivityConfig *configuration, bool on, bool dump)
{
	struct client *client;
	if (on)
		sim_observe(true);
	pthread_mutex_lock(&sim_lock);
	sim_forbid(sim_thread()->in_callback > 0, "enabling or disabling in a callback for buffers");
	CUptiResult result = client_of(subscriber, &client);
	if (result == CUPTI_SUCCESS)
		result = client_enable(client, kind, on);
	if (result == CUPTI_SUCCESS && on)
		result = configure(client, kind, configuration);
	if (result == CUPTI_SUCCESS && dump && client->requested_v2)
		operations_dump(client, kind);
	pthread_mutex_unlock(&sim_lock);
	return result;
}

CUptiResult cuptiActivityEnable_v2(CUpti_SubscriberHandle subscriber, CUpti_ActivityKind kind,
				   CUpti_ActivityConfig *configuration)
{
	ENTER(kind);
	LEAVE(kind, enable_v2(subscriber, kind, configuration, true, false));
}

CUptiResult cuptiActivityEnableAndDump_v2(CUpti_SubscriberHandle subscriber, CUpti_ActivityKind kind,
					  CUpti_ActivityConfig *configuration)
{
	ENTER(kind);
	LEAVE(kind, enable_v2(subscriber, kind, configuration, true, true));
}

CUptiResult cuptiActivityDisable_v2(CUpti_SubscriberHandle subscriber, CUpti_ActivityKind kind,
				    CUpti_ActivityConfig *configuration)
{
	ENTER(kind);
	seen_disable(kind);
	LEAVE(kind, enable_v2(subscriber, kind, configuration, false, false));
}

CUptiResult cuptiActivityRegisterCallbacks_v2(CUpti_SubscriberHandle subscriber,
					      CUpti_BuffersCallbackRequestFunc_v2 requested,
					      CUpti_BuffersCallbackCompleteFunc_v2 completed)
{
	ENTER(0);
	if (!requested || !completed)
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	seen_register();
	struct client *client;
	pthread_mutex_lock(&sim_lock);
	CUptiResult result = client_of(subscriber, &client);
	if (result == CUPTI_SUCCESS) {
		client->requested_v2 = requested;
		client->completed_v2 = completed;
	}
	pthread_mutex_unlock(&sim_lock);
	LEAVE(0, result);
}

CUptiResult cuptiActivityGetAttribute_v2(CUpti_SubscriberHandle subscriber, CUpti_ActivityAttribute attribute,
					 size_t *size, void *value)
{
	ENTER(attribute);
	struct client *client;
	pthread_mutex_lock(&sim_lock);
	CUptiResult result = client_of(subscriber, &client);
	if (result == CUPTI_SUCCESS)
		result = attribute_get(client, attribute, size, value);
	pthread_mutex_unlock(&sim_lock);
	LEAVE(attribute, result);
}

CUptiResult cuptiActivitySetAttribute_v2(CUpti_SubscriberHandle subscriber, CUpti_ActivityAttribute attribute,
					 size_t *size, void *value)
{
	ENTER(attribute);
	struct client *client;
	pthread_mutex_lock(&sim_lock);
	CUptiResult result = client_of(subscriber, &client);
	if (result == CUPTI_SUCCESS)
		result = attribute_set(client, attribute, size, value);
	pthread_mutex_unlock(&sim_lock);
	LEAVE(attribute, result);
}

/* Of a subscriber, or with NULL of all and of the calls without one. */
CUptiResult cuptiActivityGetEnabledKinds(CUpti_SubscriberHandle subscriber, CUpti_ActivityKind *buffer, uint32_t *size,
					 uint32_t *count)
{
	ENTER(0);
	if (!count || (buffer && !size))
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	uint64_t kinds = script_number("enabled_kinds", 0);
	pthread_mutex_lock(&sim_lock);
	const struct client *one = subscriber ? subscriber_client(subscriber) : NULL;
	if (one)
		kinds = one->kinds;
	else
		for (const struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++)
			kinds |= c->kinds;
	pthread_mutex_unlock(&sim_lock);
	if (subscriber && !one)
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	uint32_t room = buffer ? *size / (uint32_t)sizeof *buffer : 0, found = 0;
	for (uint32_t kind = 1; kind < KINDS_MAX; kind++) {
		if (!(kinds >> kind & 1))
			continue;
		if (found < room)
			buffer[found] = (CUpti_ActivityKind)kind;
		found++;
	}
	*count = found;
	LEAVE(0, CUPTI_SUCCESS);
}
#endif

#ifdef HAS_cuptiActivityGetStructSize
CUptiResult cuptiActivityGetStructSize(CUpti_ActivityKind kind, uint32_t version, size_t *size)
{
	ENTER(kind);
	if (!size)
		LEAVE(kind, CUPTI_ERROR_INVALID_PARAMETER);
	if (version && version < 130000)
		LEAVE(kind, CUPTI_ERROR_NOT_SUPPORTED);
	if (version && version != CUPTI_API_VERSION)
		LEAVE(kind, CUPTI_ERROR_NOT_SUPPORTED);
	*size = sim_record_size(kind);
	LEAVE(kind, *size ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_KIND);
}
#endif

#if defined(HAS_cuptiIsTracingSessionRunning) && SIM_RELEASE_NUMBER >= 1303 /* 13.2 has it in its headers alone */
CUptiResult cuptiIsTracingSessionRunning(uint8_t *running)
{
	ENTER(0);
	if (!running)
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	pthread_mutex_lock(&sim_lock);
	*running = subscribers_any();
	for (const struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++)
		if (c->kinds)
			*running = 1;
	pthread_mutex_unlock(&sim_lock);
	LEAVE(0, CUPTI_SUCCESS);
}
#endif

#ifdef HAS_cuptiActivityGetNextRecord_v2
CUptiResult cuptiActivityGetNextRecord_v2(CUpti_SubscriberHandle subscriber, uint8_t *buffer, size_t valid,
					  CUpti_Activity **record)
{
	CUptiResult entered = sim_enter(__func__, 0, false);
	if (entered != CUPTI_SUCCESS)
		return entered;
	return subscriber ? sim_next_record(buffer, valid, record) : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiActivityGetNumDroppedRecords_v2(CUpti_SubscriberHandle subscriber, CUcontext context, uint32_t stream,
						 size_t *dropped)
{
	(void)context;
	(void)stream;
	ENTER(0);
	if (!dropped)
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	CUptiResult result = CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&sim_lock);
	struct client *client = subscriber_client(subscriber);
	if (client) {
		*dropped = client->dropped;
		client->dropped = 0;
		result = CUPTI_SUCCESS;
	}
	pthread_mutex_unlock(&sim_lock);
	LEAVE(0, result);
}

CUptiResult cuptiGetTimestamp_v2(CUpti_SubscriberHandle subscriber, uint64_t *timestamp)
{
	ENTER(0);
	if (!subscriber || !timestamp)
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	*timestamp = sim_time(sim_monotonic(), true);
	return CUPTI_SUCCESS;
}

static CUptiResult enable_call_v2(CUpti_SubscriberHandle subscriber, uint32_t domain, uint32_t cbid, bool on)
{
	struct client *client;
	if (cbid == 0 || cbid >= CALLBACKS_MAX || !sim_callback_name(domain, cbid))
		return CUPTI_ERROR_INVALID_PARAMETER;
	sim_observe(true);
	pthread_mutex_lock(&sim_lock);
	CUptiResult result = client_of(subscriber, &client);
	if (result == CUPTI_SUCCESS)
		client_enable_call(client, domain, cbid, on);
	pthread_mutex_unlock(&sim_lock);
	return result;
}

CUptiResult cuptiActivityEnableRuntimeApi_v2(CUpti_SubscriberHandle subscriber, CUpti_CallbackId cbid, uint8_t on)
{
	ENTER(cbid);
	LEAVE(cbid, enable_call_v2(subscriber, SIM_RUNTIME, cbid, on));
}

CUptiResult cuptiActivityEnableDriverApi_v2(CUpti_SubscriberHandle subscriber, CUpti_CallbackId cbid, uint8_t on)
{
	ENTER(cbid);
	LEAVE(cbid, enable_call_v2(subscriber, SIM_DRIVER, cbid, on));
}

CUptiResult cuptiActivityPushExternalCorrelationId_v2(CUpti_SubscriberHandle subscriber,
						      CUpti_ExternalCorrelationKind kind, uint64_t id)
{
	ENTER(kind);
	pthread_mutex_lock(&sim_lock);
	struct client *client = subscriber_client(subscriber);
	pthread_mutex_unlock(&sim_lock);
	LEAVE(kind, client ? external_push(client, kind, id) : CUPTI_ERROR_INVALID_PARAMETER);
}

CUptiResult cuptiActivityPopExternalCorrelationId_v2(CUpti_SubscriberHandle subscriber,
						     CUpti_ExternalCorrelationKind kind, uint64_t *last)
{
	ENTER(kind);
	pthread_mutex_lock(&sim_lock);
	struct client *client = subscriber_client(subscriber);
	pthread_mutex_unlock(&sim_lock);
	LEAVE(kind, client ? external_pop(client, kind, last) : CUPTI_ERROR_INVALID_PARAMETER);
}
#endif
