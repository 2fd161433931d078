/* known.c - see known.h. Each writer takes the number of a slot first, so that nobody waits. Facts without a slot are
 * counted as lost. */
#include "known.h"

#include "decode.h"

#include "../core/keeper.h"
#include "../core/sentence.h"
#include "agent/sink/sink.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define FACTS 4096u
#define FACT_NAME 96u
#define THREADS 1024u

struct fact {
	_Atomic uint32_t ready;
	uint32_t name_bytes;
	union {
		struct event_head head;
		struct event_device device;
		struct event_context context;
		struct event_stream stream;
		struct event_module module;
	} event;
};

static struct fact facts[FACTS];
static _Atomic uint32_t fact_count;
/* Names of devices, in the order in which the devices came. */
static char device_names[64][FACT_NAME];
static _Atomic uint32_t device_count;
static _Atomic uint32_t threads[THREADS];

void known_begin(void)
{
	uint32_t n = atomic_exchange(&fact_count, 0);
	for (uint32_t i = 0; i < n && i < FACTS; i++)
		atomic_store_explicit(&facts[i].ready, 0, memory_order_relaxed);
	atomic_store(&device_count, 0);
	for (uint32_t i = 0; i < THREADS; i++)
		atomic_store_explicit(&threads[i], 0, memory_order_relaxed);
}

static void name_device(struct fact *fact, const char *name)
{
	uint32_t i = name ? atomic_fetch_add_explicit(&device_count, 1, memory_order_relaxed) : UINT32_MAX;
	if (i >= sizeof device_names / sizeof *device_names)
		return;
	fact->name_bytes = (uint32_t)strnlen(name, FACT_NAME);
	memcpy(device_names[i], name, fact->name_bytes);
	fact->event.device.name = i;
}

static uint8_t event_of(uint32_t kind)
{
	return kind == CUPTI_KIND_DEVICE    ? EVENT_DEVICE
	       : kind == CUPTI_KIND_CONTEXT ? EVENT_CONTEXT
	       : kind == CUPTI_KIND_STREAM  ? EVENT_STREAM
					    : EVENT_MODULE;
}

void known_record(const struct cupti_layout *layout, const void *record)
{
	uint32_t i = atomic_fetch_add_explicit(&fact_count, 1, memory_order_relaxed);
	if (i >= FACTS) {
		atomic_store_explicit(&fact_count, FACTS, memory_order_relaxed);
		sink_lost_many(LOSS_FACTS, event_of(cupti_record_kind(record)), 1);
		return;
	}
	struct fact *fact = &facts[i];
	const char *name = NULL;
	int known = 0;
	fact->name_bytes = 0;
	switch (cupti_record_kind(record)) {
	case CUPTI_KIND_DEVICE:
		known = cupti_decode_device(layout, record, &fact->event.device, &name);
		if (known)
			name_device(fact, name);
		break;
	case CUPTI_KIND_CONTEXT:
		known = cupti_decode_context(layout, record, &fact->event.context);
		break;
	case CUPTI_KIND_STREAM:
		known = cupti_decode_stream(layout, record, &fact->event.stream);
		break;
	case CUPTI_KIND_MODULE:
		known = cupti_decode_module(layout, record, &fact->event.module);
		break;
	default:
		break;
	}
	atomic_store_explicit(&fact->ready, (uint32_t)known, memory_order_release);
}

void known_thread(uint32_t tid)
{
	for (uint32_t i = (tid * 0x9e3779b1u) >> 22, tries = 0; tid && tries < 16;
	     i = (i + 1) & (THREADS - 1), tries++) {
		uint32_t seen = atomic_load_explicit(&threads[i], memory_order_relaxed);
		if (seen == tid ||
		    (!seen && atomic_compare_exchange_strong_explicit(&threads[i], &seen, tid, memory_order_relaxed,
								      memory_order_relaxed)))
			return;
	}
}
_Static_assert(THREADS == 1u << 10, "the index above has 10 bits");

/* Reads the kernel's name of the thread. Returns its length. */
static size_t read_name(uint32_t tid, char *to, size_t bytes)
{
	char path[64] = "/proc/self/task/";
	size_t n = strlen(path);
	n += sentence_decimal(path + n, tid);
	memcpy(path + n, "/comm", 6);
	size_t got = keeper_read_file(path, to, bytes);
	return got && to[got - 1] == '\n' ? got - 1 : got;
}

static void write_thread(struct sink_thread *sink, uint32_t tid)
{
	char name[64];
	size_t bytes = sink_name_of_thread(tid, name, sizeof name);
	if (!bytes)
		bytes = read_name(tid, name, sizeof name);
	struct event_thread e = {
		.head = {sizeof e, EVENT_THREAD, 0, 0},
		.thread = tid,
		.name = bytes ? sink_string(sink, name, bytes, EVENT_THREAD) : 0,
	};
	sink_write(sink, &e);
}

void known_write(struct sink_thread *sink)
{
	uint32_t n = atomic_load_explicit(&fact_count, memory_order_acquire);
	int saved = errno;
	for (uint32_t i = 0; i < n && i < FACTS; i++) {
		struct fact *fact = &facts[i];
		if (!atomic_load_explicit(&fact->ready, memory_order_acquire))
			continue;
		if (fact->event.head.kind == EVENT_DEVICE)
			fact->event.device.name = fact->name_bytes
							  ? sink_string(sink, device_names[fact->event.device.name],
									fact->name_bytes, EVENT_DEVICE)
							  : 0;
		sink_write(sink, &fact->event);
		atomic_store_explicit(&fact->ready, 0, memory_order_relaxed);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		uint32_t tid = atomic_load_explicit(&threads[i], memory_order_relaxed);
		if (tid)
			write_thread(sink, tid);
	}
	errno = saved;
}
