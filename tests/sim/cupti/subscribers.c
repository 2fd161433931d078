/* subscribers.c - who is called back at API calls, and who may subscribe at all. Any thread; sim_lock guards all, and is let go of
 * around a client's callback. */
#include "simcupti.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUBSCRIBERS_MAX = CLIENTS_MAX - 1, DOMAINS = 8, NAME_MAX_BYTES = 64 };

struct CUpti_Subscriber_st {
	bool live, multiple;
	CUpti_CallbackFunc callback;
	void *data;
	char name[NAME_MAX_BYTES];
	uint64_t enabled[DOMAINS][CALLBACKS_MAX / 64];
};

static struct CUpti_Subscriber_st subscribers[SUBSCRIBERS_MAX];

static bool valid(CUpti_SubscriberHandle handle)
{
	for (size_t i = 0; i < SUBSCRIBERS_MAX; i++)
		if (handle == &subscribers[i])
			return handle->live;
	return false;
}

struct client *subscriber_client(CUpti_SubscriberHandle handle)
{
	if (!valid(handle))
		return NULL;
	struct client *client = &sim_clients[1 + (handle - subscribers)];
	if (!client->live) {
		client_reset(client);
		client->live = true;
	}
	return client;
}

/* A tool of the script's that has subscribed, as its name; NULL: there is none. */
static const char *script_subscriber(bool *multiple)
{
	const char *name = script_value("subscriber");
	*multiple = name && strncmp(name, "multiple:", 9) == 0;
	return *multiple ? name + 9 : name;
}

bool subscribers_any(void)
{
	bool multiple;
	for (size_t i = 0; i < SUBSCRIBERS_MAX; i++)
		if (subscribers[i].live)
			return true;
	return script_subscriber(&multiple) != NULL;
}

bool subscribers_multiple(void)
{
	for (size_t i = 0; i < SUBSCRIBERS_MAX; i++)
		if (subscribers[i].live && subscribers[i].multiple)
			return true;
	bool multiple;
	return script_subscriber(&multiple) && multiple;
}

#ifdef HAS_allowMultipleSubscribers
/* Drivers older than CUDA 13.3 carry one subscriber only. */
static bool driver_allows_multiple(void)
{
	const char *driver = script_value("driver");
	char *end;
	if (!driver)
		return true;
	unsigned long major = strtoul(driver, &end, 10);
	unsigned long minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
	return major * 100 + minor >= 1303;
}
#endif

/* Why somebody else may not subscribe: the name of who has; NULL: they may. */
static const char *holder(bool multiple)
{
	bool shared;
	const char *name = script_subscriber(&shared);
	if (name && !(shared && multiple))
		return name;
	for (size_t i = 0; i < SUBSCRIBERS_MAX; i++)
		if (subscribers[i].live && !(subscribers[i].multiple && multiple))
			return subscribers[i].name;
	return NULL;
}

static CUptiResult subscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *data, const char *name,
			     bool multiple)
{
	for (size_t i = 0; i < SUBSCRIBERS_MAX; i++) {
		struct CUpti_Subscriber_st *s = &subscribers[i];
		if (s->live)
			continue;
		memset(s, 0, sizeof *s);
		s->live = true;
		s->multiple = multiple;
		s->callback = callback;
		s->data = data;
		snprintf(s->name, sizeof s->name, "CUPTI for %.53s", name ? name : "");
		*handle = s;
		return CUPTI_SUCCESS;
	}
	return CUPTI_ERROR_MAX_LIMIT_REACHED;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *userdata)
{
	ENTER(0);
	if (!subscriber)
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	pthread_mutex_lock(&sim_lock);
	CUptiResult result = holder(false) ? CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
					   : subscribe(subscriber, callback, userdata, NULL, false);
	pthread_mutex_unlock(&sim_lock);
	LEAVE(0, result);
}

#ifdef HAS_cuptiSubscribe_v2
CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *userdata,
			      CUpti_SubscriberParams *parameters)
{
	ENTER(0);
	bool multiple = false, allowed = true;
	if (!subscriber || (parameters && parameters->structSize == 0))
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
#ifdef HAS_allowMultipleSubscribers
	if (parameters && parameters->structSize > offsetof(CUpti_SubscriberParams, allowMultipleSubscribers))
		multiple = parameters->allowMultipleSubscribers != 0;
	allowed = !multiple || driver_allows_multiple();
#endif
	pthread_mutex_lock(&sim_lock);
	const char *name = holder(multiple);
	if (name && parameters && parameters->oldSubscriberName && parameters->oldSubscriberSize)
		snprintf(parameters->oldSubscriberName, parameters->oldSubscriberSize, "%s", name);
	CUptiResult result = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	if (!name && allowed)
		result = subscribe(subscriber, callback, userdata, parameters ? parameters->subscriberName : NULL,
				   multiple);
	pthread_mutex_unlock(&sim_lock);
	LEAVE(0, result);
}
#endif

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
	if (!subscriber) {
		ENTER_ALWAYS(0);
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	}
	ENTER(0);
	CUptiResult result = CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&sim_lock);
	if (valid(subscriber)) {
		client_reset(subscriber_client(subscriber));
		subscriber->live = false;
		result = CUPTI_SUCCESS;
	}
	pthread_mutex_unlock(&sim_lock);
	LEAVE(0, result);
}

void subscribers_forget(void)
{
	memset(subscribers, 0, sizeof subscribers);
}

/* Of one callback (cbid), or of all of a domain (cbid 0). */
static CUptiResult enable_callback(CUpti_SubscriberHandle subscriber, uint32_t domain, uint32_t cbid, bool on)
{
	CUptiResult result = CUPTI_ERROR_INVALID_PARAMETER;
	sim_observe(true);
	pthread_mutex_lock(&sim_lock);
	if (valid(subscriber) && domain > 0 && domain < DOMAINS && cbid < CALLBACKS_MAX) {
		uint64_t *words = subscriber->enabled[domain];
		if (cbid == 0)
			memset(words, on ? 0xff : 0, sizeof subscriber->enabled[domain]);
		else if (on)
			words[cbid / 64] |= (uint64_t)1 << cbid % 64;
		else
			words[cbid / 64] &= ~((uint64_t)1 << cbid % 64);
		result = CUPTI_SUCCESS;
	}
	pthread_mutex_unlock(&sim_lock);
	return result;
}

CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
				CUpti_CallbackId cbid)
{
	ENTER(cbid);
	LEAVE(cbid, cbid ? enable_callback(subscriber, domain, cbid, on != 0) : CUPTI_ERROR_INVALID_PARAMETER);
}

CUptiResult cuptiEnableDomain(uint32_t on, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain)
{
	ENTER(domain);
	LEAVE(domain, enable_callback(subscriber, domain, 0, on != 0));
}

CUptiResult cuptiEnableAllDomains(uint32_t on, CUpti_SubscriberHandle subscriber)
{
	ENTER(0);
	CUptiResult result = CUPTI_SUCCESS;
	for (uint32_t domain = 1; result == CUPTI_SUCCESS && domain < DOMAINS; domain++)
		result = enable_callback(subscriber, domain, 0, on != 0);
	LEAVE(0, result);
}

CUptiResult cuptiGetCallbackState(uint32_t *on, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
				  CUpti_CallbackId cbid)
{
	ENTER(cbid);
	CUptiResult result = CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&sim_lock);
	if (on && valid(subscriber) && domain > 0 && (uint32_t)domain < DOMAINS && cbid < CALLBACKS_MAX) {
		*on = subscriber->enabled[domain][cbid / 64] >> cbid % 64 & 1;
		result = CUPTI_SUCCESS;
	}
	pthread_mutex_unlock(&sim_lock);
	LEAVE(cbid, result);
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char **name)
{
	ENTER_ALWAYS(cbid);
	if (!name)
		LEAVE(cbid, CUPTI_ERROR_INVALID_PARAMETER);
	*name = sim_callback_name(domain, cbid);
	LEAVE(cbid, *name ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER);
}

CUptiResult cuptiSupportedDomains(size_t *count, CUpti_DomainTable *table)
{
	static CUpti_CallbackDomain domains[] = {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API,
						 CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_SYNCHRONIZE,
						 CUPTI_CB_DOMAIN_NVTX};
	ENTER(0);
	if (!count || !table)
		LEAVE(0, CUPTI_ERROR_INVALID_PARAMETER);
	*count = sizeof domains / sizeof domains[0];
	*table = domains;
	LEAVE(0, CUPTI_SUCCESS);
}

void subscribers_call(struct thread *thread, unsigned depth, const struct sim_call *call, CUpti_ApiCallbackSite site)
{
	uint32_t id = thread->calls[depth].callback;
	for (unsigned i = 0; i < SUBSCRIBERS_MAX; i++) {
		struct CUpti_Subscriber_st *s = &subscribers[i];
		if (!s->live || !s->callback || id >= CALLBACKS_MAX ||
		    !(s->enabled[call->domain][id / 64] >> id % 64 & 1))
			continue;
		int32_t result = call->result;
		CUpti_CallbackData data = {.callbackSite = site, .functionName = call->name};
		data.functionReturnValue = site == CUPTI_API_EXIT ? &result : NULL;
		data.contextUid = call->context;
		data.correlationData = &thread->calls[depth].data[1 + i];
		data.correlationId = call->correlation;
		CUpti_CallbackFunc callback = s->callback;
		void *userdata = s->data;
		pthread_mutex_unlock(&sim_lock);
		callback(userdata, (CUpti_CallbackDomain)call->domain, id, &data);
		pthread_mutex_lock(&sim_lock);
	}
}
