/* frames.c - see frames.h. No locks. */
#include "frames.h"
#include "fold_rule.h"
#include "rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The agent follows 512 open ranges of a thread. Deeper ones are left out, and their time stays with their parents. */
#define DEPTH_MAX 1024u

/* Device time that was launched in a frame. */
struct launched {
	uint64_t time, operations, first, last;
};

struct open_frame {
	struct device_frame frame;
	struct launched self, total;
	struct fold_children children;
};

struct frames {
	struct store *store;
	struct device *device;
	const struct boundaries *boundaries;
	struct rows rows;
	struct open_frame *stack;
	unsigned depth;
};

int frames_compare_launches(const void *a, const void *b)
{
	const struct launch *x = a, *y = b;
	int order = (x->thread > y->thread) - (x->thread < y->thread);
	if (!order)
		order = (x->moment > y->moment) - (x->moment < y->moment);
	return order ? order : (x->row > y->row) - (x->row < y->row);
}

static void add(struct launched *to, const struct launched *from)
{
	to->time += from->time;
	to->operations += from->operations;
	if (from->first && (!to->first || from->first < to->first))
		to->first = from->first;
	if (from->last > to->last)
		to->last = from->last;
}

static void count_call(void *context, const struct fold_call *call)
{
	struct frames *frames = context;
	struct sum key = {.table = SUM_OPERATORS, .a = call->name, .step = call->step};
	if (call->duration)
		sums_add(&frames->device->sums, frames->store, &key, call->duration, call->self, true);
}

static uint32_t step_of(const struct frames *frames, const struct device_frame *frame)
{
	return boundaries_find(frames->boundaries, (int64_t)(frame->start - frames->store->base));
}

/* Adds the frame to the sums of its name. Operators are counted by the rule of fold_rule.h; `duration` and `self` of
 * a call are device time here. */
static void count_frame(struct frames *frames, struct open_frame *open, struct open_frame *parent)
{
	const struct device_frame *frame = &open->frame;
	struct fold_call call = {frame->name, 0, open->total.time, open->self.time};
	bool is_operator = frame->kind == EVENT_OPERATOR;
	if (open->total.operations)
		call.step = step_of(frames, frame);
	if (is_operator && !frame->asynchronous)
		fold_parent(&open->children, &call);
	fold_release(&open->children, count_call, frames);
	if (!is_operator && open->total.operations) {
		struct sum key = {.table = SUM_RANGES,
				  .a = frame->name,
				  .b = frame->domain,
				  .c = frame->source,
				  .step = call.step};
		sums_add(&frames->device->sums, frames->store, &key, open->total.time, open->self.time, true);
	}
	if (parent && frame->parent == parent->frame.id && !frame->asynchronous)
		fold_child(&parent->children, is_operator ? &call : NULL, count_call, frames);
	else if (is_operator)
		count_call(frames, &call);
}

static void close_frame(struct frames *frames)
{
	struct open_frame *open = &frames->stack[--frames->depth];
	struct open_frame *parent = frames->depth ? &frames->stack[frames->depth - 1] : NULL;
	const struct launched *self = &open->self, *total = &open->total;
	uint64_t base = frames->store->base;
	if (total->operations) {
		const int64_t values[] = {
			(int64_t)open->frame.id,
			(int64_t)self->time,
			(int64_t)total->time,
			(int64_t)total->operations,
			total->first ? (int64_t)(total->first - base) : ROWS_NULL,
			total->first ? (int64_t)(total->last - base) : ROWS_NULL,
		};
		rows_add(&frames->rows, values);
	}
	count_frame(frames, open, parent);
	if (parent)
		add(&parent->total, total);
}

/* Closes the frames that have ended by `time`. */
static void close_until(struct frames *frames, uint64_t time)
{
	while (frames->depth && frames->stack[frames->depth - 1].frame.end <= time)
		close_frame(frames);
}

static void close_all(struct frames *frames)
{
	while (frames->depth)
		close_frame(frames);
}

static void open_frame(struct frames *frames, const struct device_frame *frame)
{
	if (frames->depth == DEPTH_MAX)
		return;
	struct open_frame *open = &frames->stack[frames->depth++];
	memset(open, 0, sizeof *open);
	open->frame = *frame;
}

static void locate(struct frames *frames, struct launch *launch)
{
	struct launched launched = {launch->device_time, launch->operations, launch->first, launch->last};
	launch->range = 0;
	if (!frames->depth)
		return;
	struct open_frame *top = &frames->stack[frames->depth - 1];
	launch->range = top->frame.id;
	add(&top->self, &launched);
	add(&top->total, &launched);
}

void frames_run(struct store *store, struct device *device, const struct boundaries *boundaries,
		struct sorter *launches, struct sorter *located)
{
	struct frames frames = {.store = store, .device = device, .boundaries = boundaries};
	frames.stack = malloc(DEPTH_MAX * sizeof *frames.stack);
	rows_begin(&frames.rows, store, "range_devices", 6);
	sorter_rewind(launches);
	sorter_rewind(&device->frames);
	const struct launch *launch = sorter_next(launches);
	const struct device_frame *frame = sorter_next(&device->frames);
	uint32_t thread = 0;
	for (uint32_t items = 0; frames.stack && launch && !store->error; items++) {
		if ((items & 0xfff) == 0xfff && store_over(store))
			break;
		/* A frame that begins together with the call is around the call. */
		bool frame_first = frame && (frame->thread < launch->thread ||
					     (frame->thread == launch->thread && frame->start <= launch->moment));
		uint32_t now = frame_first ? frame->thread : launch->thread;
		if (now != thread)
			close_all(&frames);
		thread = now;
		close_until(&frames, frame_first ? frame->start : launch->moment);
		if (frame_first) {
			open_frame(&frames, frame);
			frame = sorter_next(&device->frames);
		} else {
			struct launch found = *launch;
			locate(&frames, &found);
			sorter_add(located, &found);
			launch = sorter_next(launches);
		}
	}
	/* The frames that are left launched nothing, but they may be children of open ones. */
	while (frames.depth && frame && !store->error) {
		if (frame->thread != thread)
			break;
		close_until(&frames, frame->start);
		if (frames.depth)
			open_frame(&frames, frame);
		frame = sorter_next(&device->frames);
	}
	if (frames.stack)
		close_all(&frames);
	else
		launches->error = launches->error ? launches->error : -ENOMEM;
	free(frames.stack);
	rows_end(&frames.rows);
}
