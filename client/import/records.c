/* records.c - see records.h. */
#include "records.h"

#include "nest.h"
#include "number.h"

#include <string.h>

/* torch tells the node's number of what evaluates it, too. */
static bool is_node(const struct kineto_event *event)
{
	static const char around[] = "autograd::engine::evaluate_function: ";
	return event->forward_thread > 0 && event->name.text &&
	       strncmp(event->name.text, around, sizeof around - 1) != 0;
}

static void take_operator(const struct kineto_event *event, struct strings *strings, struct event_operator *ret)
{
	ret->duration = (uint64_t)event->duration;
	ret->name = strings_name(strings, event->name);
	ret->thread = thread_id(event->thread);
	ret->inputs = strings_inputs(strings, event);
	ret->scope = is_node(event) ? RECORD_SCOPE_BACKWARD : 0;
	ret->sequence = event->sequence;
	ret->forward_thread = small(event->forward_thread);
}

static void take_annotation(const struct kineto_event *event, struct strings *strings, struct event_range *ret)
{
	ret->duration = (uint64_t)event->duration;
	ret->name = strings_name(strings, event->name);
	ret->thread = thread_id(event->thread);
	ret->inputs = strings_inputs(strings, event);
	ret->source = RANGE_SOURCE_TORCH_USER;
}

void record_module(const struct kineto_event *event, struct strings *strings, union event_any *ret)
{
	*ret = (union event_any){.head = {.kind = EVENT_RANGE}};
	take_annotation(event, strings, &ret->range);
	ret->range.duration = 0;
}

static void take_call(const struct kineto_event *event, struct strings *strings, struct event_api_call *ret)
{
	size_t n = event->name.n, digits = n;
	while (digits && event->name.text[digits - 1] >= '0' && event->name.text[digits - 1] <= '9')
		digits--;
	if (digits < n && digits > 2 && memcmp(event->name.text + digits - 2, "_v", 2) == 0)
		n = digits - 2;
	ret->duration = (uint64_t)event->duration;
	ret->correlation = small(event->correlation);
	ret->name = strings_id(strings, event->name.text, n);
	ret->thread = thread_id(event->thread);
	ret->cbid = small(event->cbid);
	ret->domain = event->kind == KINETO_DRIVER ? 1 : 2;
}

/* What kernels, copies and sets have in common. */
#define TAKE_PLACE(ret, event)                                                                                         \
	do {                                                                                                           \
		(ret)->duration = (uint64_t)(event)->duration;                                                         \
		(ret)->correlation = small((event)->correlation);                                                      \
		(ret)->device = small((event)->device);                                                                \
		(ret)->context = small((event)->context);                                                              \
		(ret)->stream = small((event)->stream);                                                                \
		(ret)->graph = small((event)->graph);                                                                  \
		(ret)->graph_node = large((event)->graph_node);                                                        \
	} while (0)

static void take_kernel(const struct kineto_event *event, struct strings *strings, struct event_kernel *ret)
{
	TAKE_PLACE(ret, event);
	ret->name = strings_name(strings, event->name);
	ret->grid_x = (int32_t)small(event->grid[0]);
	ret->grid_y = (int32_t)small(event->grid[1]);
	ret->grid_z = (int32_t)small(event->grid[2]);
	ret->block_x = (int32_t)small(event->block[0]);
	ret->block_y = (int32_t)small(event->block[1]);
	ret->block_z = (int32_t)small(event->block[2]);
	ret->registers = (uint16_t)(event->registers > 0 && event->registers < UINT16_MAX ? event->registers : 0);
	/* torch adds the two kinds up. */
	ret->dynamic_shared = (int32_t)(event->shared > 0 && event->shared < INT32_MAX ? event->shared : 0);
	ret->priority = (int32_t)small(event->priority);
}

/* The number of the word at *text, which moves behind it. 0: none of these. */
static uint8_t word_number(const char **text, const char *(*word)(unsigned number))
{
	for (unsigned i = 1; i < 16; i++) {
		const char *known = word(i);
		size_t n = known ? strlen(known) : 0;
		/* "Device" begins "Device Static" as well. */
		if (n && strncmp(*text, known, n) == 0 &&
		    !strchr("abcdefghijklmnopqrstuvwxyz", (*text)[n] ? (*text)[n] : '-') &&
		    strncmp(*text + n, " Static", 7) != 0) {
			*text += n;
			return (uint8_t)i;
		}
	}
	return 0;
}

/* "Memcpy HtoD (Pageable -> Device)" */
static void take_copy(const struct kineto_event *event, struct event_copy *ret)
{
	const char *at = event->name.text ? event->name.text : "";
	TAKE_PLACE(ret, event);
	ret->source_device = ret->target_device = ret->device;
	ret->bytes = large(event->bytes);
	if (strncmp(at, "Memcpy ", 7) == 0) {
		at += 7;
		ret->kind = word_number(&at, copy_kind_word);
		if (strncmp(at, " (", 2) == 0) {
			at += 2;
			ret->source_kind = word_number(&at, memory_kind_word);
			if (strncmp(at, " -> ", 4) == 0) {
				at += 4;
				ret->target_kind = word_number(&at, memory_kind_word);
			}
		}
	}
}

static void take_set(const struct kineto_event *event, struct event_set *ret)
{
	const char *at = event->name.text ? event->name.text : "";
	TAKE_PLACE(ret, event);
	ret->bytes = large(event->bytes);
	if (strncmp(at, "Memset (", 8) == 0) {
		at += 8;
		ret->memory_kind = word_number(&at, memory_kind_word);
	}
}

static void take_sync(const struct kineto_event *event, struct event_sync *ret)
{
	static const char *const words[] = {NULL, "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
	ret->duration = (uint64_t)event->duration;
	ret->correlation = small(event->correlation);
	ret->context = small(event->context);
	ret->stream = or_none(event->stream);
	ret->event = small(event->event);
	for (uint16_t i = 1; event->name.text && i < sizeof words / sizeof *words; i++)
		if (strcmp(event->name.text, words[i]) == 0)
			ret->kind = i;
}

static void take_overhead(const struct kineto_event *event, struct event_overhead *ret)
{
	/* CUpti_ActivityOverheadKind, by Kineto's words. */
	static const struct {
		const char *word;
		uint32_t kind;
	} kinds[] = {
		{"Driver Compiler", 1},
		{"Buffer Flush", 1 << 16},
		{"Instrumentation", 2 << 16},
		{"Resource", 3 << 16},
		{"Runtime Triggered Module Loading", 4 << 16},
		{"Lazy Function Loading", 5 << 16},
		{"Command Buffer Full", 6 << 16},
		{"Activity Buffer Request", 7 << 16},
		{"UVM Activity Init", 8 << 16},
	};
	ret->duration = (uint64_t)event->duration;
	ret->thread = event->thread > 0 ? thread_id(event->thread) : 0;
	for (size_t i = 0; event->name.text && i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(event->name.text, kinds[i].word) == 0)
			ret->kind = kinds[i].kind;
}

/* As the agent has it: of the CPU torch tells no total but what its profiler has seen. */
static void take_memory(const struct kineto_event *event, struct event_framework_allocation *ret)
{
	bool totals = event->device_type != FRAMEWORK_CPU && event->allocated >= 0 && event->reserved >= 0;
	/* torch before 1.10 does not tell it. */
	ret->address = event->address > 0 ? (uint64_t)event->address : 0;
	ret->bytes = event->bytes < 0 ? 0 - (uint64_t)event->bytes : (uint64_t)event->bytes;
	ret->total = totals ? large(event->allocated) : 0;
	ret->reserved = totals ? large(event->reserved) : 0;
	ret->device_type = (uint8_t)small(event->device_type);
	ret->device = event->device >= 0 && event->device < FRAMEWORK_DEVICE_ALONE ? (uint8_t)event->device
										   : FRAMEWORK_DEVICE_ALONE;
	ret->thread = thread_id(event->thread);
	ret->operation = event->bytes < 0 ? ALLOCATION_GIVEN_BACK : ALLOCATION_TAKEN;
	ret->known = ALLOCATION_KNOWS_BYTES | (totals ? ALLOCATION_KNOWS_TOTALS : 0);
}

/* torch tells neither the generation nor what was freed. */
static void take_garbage(const struct kineto_event *event, struct event_garbage *ret)
{
	ret->duration = (uint64_t)event->duration;
	ret->thread = thread_id(event->thread);
	ret->collections = 1;
	ret->generation = GARBAGE_GENERATION_UNKNOWN;
}

void record_of(const struct kineto_event *event, struct strings *strings, union event_any *ret)
{
	*ret = (union event_any){0};
	switch (event->kind) {
	case KINETO_OPERATOR:
		ret->head.kind = EVENT_OPERATOR;
		take_operator(event, strings, &ret->operator);
		break;
	case KINETO_ANNOTATION:
		ret->head.kind = EVENT_RANGE;
		take_annotation(event, strings, &ret->range);
		break;
	case KINETO_RUNTIME:
	case KINETO_DRIVER:
		ret->head.kind = EVENT_API_CALL;
		take_call(event, strings, &ret->api_call);
		break;
	case KINETO_KERNEL:
		ret->head.kind = EVENT_KERNEL;
		take_kernel(event, strings, &ret->kernel);
		break;
	case KINETO_COPY:
		ret->head.kind = EVENT_COPY;
		take_copy(event, &ret->copy);
		break;
	case KINETO_SET:
		ret->head.kind = EVENT_SET;
		take_set(event, &ret->set);
		break;
	case KINETO_SYNC:
		ret->head.kind = EVENT_SYNC;
		take_sync(event, &ret->sync);
		break;
	case KINETO_OVERHEAD:
		ret->head.kind = EVENT_OVERHEAD;
		take_overhead(event, &ret->overhead);
		break;
	case KINETO_GARBAGE:
		ret->head.kind = EVENT_GARBAGE;
		take_garbage(event, &ret->garbage);
		break;
	case KINETO_MEMORY:
		ret->head.kind = EVENT_FRAMEWORK_ALLOCATION;
		take_memory(event, &ret->framework_allocation);
		break;
	default:
		break;
	}
}

void record_device(const struct kineto_device *device, struct strings *strings, union event_any *ret)
{
	*ret = (union event_any){.head = {.kind = EVENT_DEVICE}};
	ret->device.id = small(device->id);
	ret->device.name = strings_name(strings, device->name);
	ret->device.memory = large(device->memory);
	ret->device.capability_major = small(device->major);
	ret->device.capability_minor = small(device->minor);
	ret->device.warp = small(device->warp);
	ret->device.multiprocessors = small(device->multiprocessors);
	ret->device.max_threads_block = small(device->threads_block);
	ret->device.max_threads_multiprocessor = small(device->threads_multiprocessor);
	ret->device.registers_block = small(device->registers_block);
	ret->device.registers_multiprocessor = small(device->registers_multiprocessor);
	ret->device.shared_block = small(device->shared_block);
	ret->device.shared_multiprocessor = small(device->shared_multiprocessor);
}
