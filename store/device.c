/* device.c - see device.h. */
#include "device.h"
#include "proto/base/array.h"
#include "proto/plausible.h"

#include <errno.h>
#include <string.h>

static int order_of(uint64_t a, uint64_t b)
{
	return ORDER(a, b);
}

static int compare_items(const void *a, const void *b)
{
	const struct device_item *x = a, *y = b;
	int order = order_of(x->order, y->order);
	if (!order)
		order = order_of(x->rank, y->rank);
	if (!order)
		order = order_of(x->start, y->start);
	return order ? order : order_of(x->row, y->row);
}

static int compare_frames(const void *a, const void *b)
{
	const struct device_frame *x = a, *y = b;
	int order = order_of(x->thread, y->thread);
	if (!order)
		order = order_of(x->start, y->start);
	if (!order)
		order = order_of(x->depth, y->depth);
	return order ? order : order_of(y->end, x->end);
}

int device_compare_changes(const void *a, const void *b)
{
	const struct device_change *x = a, *y = b;
	int order = order_of(x->kind, y->kind);
	if (!order)
		order = order_of(x->what, y->what);
	return order ? order : order_of(x->row, y->row);
}

void device_init(struct device *device, int folder, struct memory *memory)
{
	memset(device, 0, sizeof *device);
	device->folder = folder;
	device->memory = memory;
	sorter_init(&device->items, folder, memory, sizeof(struct device_item), DEVICE_MEMORY, compare_items);
	sorter_init(&device->frames, folder, memory, sizeof(struct device_frame), DEVICE_MEMORY, compare_frames);
	sorter_init(&device->rows_outside, folder, memory, sizeof(struct device_change), DEVICE_MEMORY / 4,
		    device_compare_changes);
	sums_init(&device->sums, memory);
}

void device_want(struct device *device)
{
	if (!device->rows[EVENT_RANGE] && !device->rows[EVENT_OPERATOR])
		device->wanted = true;
}

void device_deinit(struct device *device)
{
	sorter_deinit(&device->items);
	sorter_deinit(&device->frames);
	sorter_deinit(&device->rows_outside);
	sums_deinit(&device->sums);
}

/* CUPTI's ids grow with time and wrap. A capture uses less than half of them, so that all have an order around the
 * first one. */
static uint32_t order(struct device *device, uint32_t correlation)
{
	if (!correlation)
		return 0; /* only records that need no order */
	if (!device->base_order)
		device->base_order = (uint64_t)correlation + 1;
	return correlation - (uint32_t)(device->base_order - 1) + (1u << 31);
}

static void add_call(struct device *device, struct store *store, const struct event_api_call *call, uint64_t row)
{
	if (call->head.step == 0) {
		struct device_change change = {.row = row, .kind = EVENT_API_CALL, .what = CHANGE_REMOVE};
		sorter_add(&device->rows_outside, &change);
	} else {
		struct sum key = {.table = SUM_API_CALLS, .a = call->name, .b = call->domain, .step = call->head.step};
		sums_add(&device->sums, store, &key, call->duration, call->result != 0, true);
	}
	if (call->correlation == 0)
		return;
	struct device_item item = {.order = order(device, call->correlation),
				   .rank = call->domain == 2 ? 0 : 1,
				   .kind = EVENT_API_CALL,
				   .flags = call->head.flags,
				   .row = row,
				   .start = call->start,
				   .duration = call->duration,
				   .correlation = call->correlation,
				   .step = call->head.step,
				   .thread = call->thread,
				   .failed = call->result != 0,
				   .called = call->name};
	sorter_add(&device->items, &item);
	if (call->head.step == 0)
		return;
	if (!device->calls || item.order < device->first_order)
		device->first_order = item.order;
	if (!device->calls || item.order > device->last_order)
		device->last_order = item.order;
	device->calls++;
}

static void add_frame(struct device *device, const union event_any *event)
{
	struct device_frame frame = {.kind = event->head.kind,
				     .asynchronous = (event->head.flags & EVENT_FLAG_ASYNC) != 0};
	if (event->head.kind == EVENT_RANGE) {
		const struct event_range *r = &event->range;
		if (r->source == RANGE_SOURCE_NVTX_START_END)
			return; /* on no thread's stack */
		frame.thread = r->thread;
		frame.depth = r->depth;
		frame.source = r->source;
		frame.start = r->start;
		frame.end = r->start + r->duration;
		frame.id = r->id;
		frame.parent = r->parent;
		frame.name = r->name;
		frame.domain = r->domain;
	} else {
		const struct event_operator *o = &event->operator;
		frame.thread = o->thread;
		frame.depth = o->depth;
		frame.start = o->start;
		frame.end = o->start + o->duration;
		frame.id = o->id;
		frame.parent = o->parent;
		frame.name = o->name;
	}
	if (frame.id)
		sorter_add(&device->frames, &frame);
}

static void add_operation(struct device *device, struct device_item *item, const struct event_head *head, uint64_t row)
{
	item->order = order(device, item->correlation);
	item->rank = 2;
	item->kind = head->kind;
	item->flags = head->flags;
	item->row = row;
	if (item->start == 0)
		item->flags |= EVENT_FLAG_TIMELESS;
	if (item->flags & EVENT_FLAG_TIMELESS)
		item->start = item->duration = 0;
	device->operations += device_is_operation(head->kind);
	sorter_add(&device->items, item);
}

/* The fields that kernels, copies, sets and graphs have in common. */
#define OPERATION(event, ...)                                                                                          \
	(struct device_item)                                                                                           \
	{                                                                                                              \
		.correlation = (event).correlation, .start = (event).start, .duration = (event).duration,              \
		.device = (event).device, .stream = (event).stream, .context = (event).context, __VA_ARGS__            \
	}

void device_add(struct device *device, struct store *store, const union event_any *event)
{
	uint64_t row = ++device->rows[event->head.kind];
	struct device_item item;
	if (device->incomplete)
		return;
	switch (event->head.kind) {
	case EVENT_RANGE:
	case EVENT_OPERATOR:
		if (device->wanted)
			add_frame(device, event);
		return;
	case EVENT_API_CALL:
		add_call(device, store, &event->api_call, row);
		break;
	case EVENT_KERNEL:
		item = OPERATION(event->kernel, .name = event->kernel.name);
		add_operation(device, &item, &event->head, row);
		break;
	case EVENT_COPY:
		item = OPERATION(event->copy, .bytes = event->copy.bytes, .name = event->copy.kind,
				 .source_kind = event->copy.source_kind, .target_kind = event->copy.target_kind);
		add_operation(device, &item, &event->head, row);
		break;
	case EVENT_SET:
		item = OPERATION(event->set, .bytes = event->set.bytes, .name = event->set.memory_kind);
		add_operation(device, &item, &event->head, row);
		break;
	case EVENT_GRAPH_LAUNCH:
		item = OPERATION(event->graph_launch, .name = event->graph_launch.graph);
		add_operation(device, &item, &event->head, row);
		break;
	default:
		/* Waits and the like: only their step is missing. */
		if (event_place_of(event->head.kind) != PLACE_CALL || event->head.step)
			return;
		item = (struct device_item){.correlation = event_correlation(event), .start = event_time(event)};
		add_operation(device, &item, &event->head, row);
		break;
	}
	/* Ranges and operators before this record were not gathered. */
	if (!device->wanted)
		device->incomplete = true;
}
