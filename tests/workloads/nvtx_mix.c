/* nvtx_mix.c - every kind of NVTX call, over and over.
 *
 *     nvtx_mix [--steps=N] [--step-ms=T] [--seconds=S]
 *
 * One round is one step: a range `step` around it, and profd_step() where the agent is there. On SIGTERM, after N steps
 * or S seconds it prints one line of JSON: steps, and per step how many ranges and marks of each name there are. */
#include "workload.h"

#include <pthread.h>
#include <signal.h>
#include <wchar.h>

#include <nvtx3/nvToolsExt.h>

static volatile sig_atomic_t enough;
static nvtxDomainHandle_t library;
static nvtxStringHandle_t registered, registered_wide;

static void on_term(int signal)
{
	(void)signal;
	enough = 1;
}

static nvtxEventAttributes_t attributes(const char *name)
{
	nvtxEventAttributes_t a = {0};
	a.version = NVTX_VERSION;
	a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	a.messageType = name ? NVTX_MESSAGE_TYPE_ASCII : NVTX_MESSAGE_UNKNOWN;
	a.message.ascii = name;
	return a;
}

static void *end_elsewhere(void *id)
{
	nvtxRangeEnd(*(nvtxRangeId_t *)id);
	return NULL;
}

static void payloads(void)
{
	static const char *const names[] = {"u64", "i64", "f64", "u32", "i32", "f32"};
	for (int32_t type = 1; type <= 6; type++) {
		nvtxEventAttributes_t a = attributes(names[type - 1]);
		a.payloadType = type;
		switch (type) {
		case NVTX_PAYLOAD_TYPE_UNSIGNED_INT64:
			a.payload.ullValue = UINT64_MAX - 1;
			break;
		case NVTX_PAYLOAD_TYPE_INT64:
			a.payload.llValue = -2;
			break;
		case NVTX_PAYLOAD_TYPE_DOUBLE:
			a.payload.dValue = 0.5;
			break;
		case NVTX_PAYLOAD_TYPE_UNSIGNED_INT32:
			a.payload.uiValue = 4000000000u;
			break;
		case NVTX_PAYLOAD_TYPE_INT32:
			a.payload.iValue = -3;
			break;
		default:
			a.payload.fValue = 0.25f;
		}
		nvtxRangePushEx(&a);
		nvtxRangePop();
	}
}

static void round_of_calls(void)
{
	nvtxRangePushA("step");
	nvtxRangePushW(L"w\u00efde \u20ac");
	nvtxMarkA("mark");
	nvtxMarkW(L"m\u00e4rk");
	nvtxRangePop();

	nvtxEventAttributes_t a = attributes("coloured");
	a.colorType = NVTX_COLOR_ARGB;
	a.color = 0xff76b900;
	a.category = 3;
	nvtxRangePushEx(&a);
	nvtxMarkEx(&a);
	nvtxRangePop();

	a = attributes(NULL);
	a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	a.message.registered = registered;
	a.category = 7;
	nvtxDomainRangePushEx(library, &a);
	a.message.registered = registered_wide;
	a.category = 8;
	nvtxDomainRangePushEx(library, &a);
	/* Interleaved with the default domain, which has a stack of its own. */
	nvtxRangePushA("across");
	nvtxDomainRangePop(library);
	nvtxRangePop();
	nvtxDomainMarkEx(library, &a);
	nvtxDomainRangePop(library);

	payloads();

	nvtxRangeId_t first = nvtxRangeStartA("started"), second = nvtxRangeStartW(L"started elsewhere");
	nvtxRangeEnd(first);
	pthread_t thread;
	if (pthread_create(&thread, NULL, end_elsewhere, &second) == 0)
		pthread_join(thread, NULL);
	nvtxRangeId_t third = nvtxDomainRangeStartEx(library, &a);
	nvtxDomainRangeEnd(library, third);
	a = attributes("started ex");
	nvtxRangeEnd(nvtxRangeStartEx(&a));

	nvtxRangePushEx(NULL);
	nvtxRangePop();
	nvtxRangePushA("");
	nvtxRangePop();
	nvtxRangePop(); /* step */
}

int main(int argc, char **argv)
{
	(void)argc;
	double steps = number(argv, "steps", 1e12), step_time = number(argv, "step-ms", 5) * 1e-3;
	double end = seconds() + number(argv, "seconds", 1e9);
	signal(SIGTERM, on_term);
	library = nvtxDomainCreateA("library");
	registered = nvtxDomainRegisterStringA(library, "registered");
	registered_wide = nvtxDomainRegisterStringW(library, L"registered w\u00efde");
	nvtxNameCategoryA(3, "green");
	nvtxDomainNameCategoryW(library, 7, L"c\u00f6pies");
	nvtxNameOsThreadA((uint32_t)thread_id(), "the mixer");
	double next = seconds(), n = 0;
	while (n < steps && !enough && seconds() < end) {
		round_of_calls();
		pace(&next, step_time);
		step();
		n++;
	}
	nvtxDomainDestroy(library);
	printf("{\"steps\": %.0f, \"per_step\": {\"ranges\": {\"step\": 1, \"w\u00efde \u20ac\": 1, \"coloured\": 1, "
	       "\"registered\": 1, \"registered w\u00efde\": 2, \"across\": 1, \"u64\": 1, \"i64\": 1, \"f64\": 1, "
	       "\"u32\": 1, "
	       "\"i32\": 1, \"f32\": 1, \"started\": 1, \"started elsewhere\": 1, \"started ex\": 1, \"\": 2}, "
	       "\"marks\": {\"mark\": 1, \"m\u00e4rk\": 1, \"coloured\": 1, \"registered w\u00efde\": 1}}, \"thread\": "
	       "%d}\n",
	       n, thread_id());
	return 0;
}
