/* claims.c - see claims.h. It goes once over the device's pieces, in order of time; where no device worked, over the
 * segments of the step's thread. */
#include "claims.h"
#include "proto/base/array.h"
#include "proto/base/large.h"
#include "stretches.h"

#include <stdlib.h>
#include <string.h>

/* If the host is late for so long at a stretch, it is a stall. Shorter stretches add up to launch-bound. */
#define STALL_NS 1000000
/* An optimizer that updates tensor by tensor runs at least so many operators for that in a step. */
#define PER_TENSOR_LEAST 40

struct walk {
	const struct breakdown_capture *capture;
	const struct claims_wanted *wanted;
	const struct breakdown *breakdown;
	const struct breakdown_device *device;
	const struct activity_thread *step_thread;
	struct claims *claims;
	size_t step, phase; /* cursors: steps, the step thread's segments */
	/* Without its waits the host would be ahead by this much: so much of the idle time that follows is lost to
	 * those waits. */
	int64_t credit;
	const struct breakdown_idle *wait;
	/* The interval that is being claimed: claims of one kind that follow each other are one interval. */
	struct claims_stretch open;
};

static void close_interval(struct walk *walk)
{
	struct claims_stretch *open = &walk->open;
	if (open->interval.end > open->interval.start)
		stretches_keep(walk->claims, open);
	*open = (struct claims_stretch){0};
}

/* The claim's name is what `thread` did at the instant `asked`. A claim of no kind (FINDING_KINDS) ends the
 * interval. */
static void add_interval(struct walk *walk, size_t step, enum finding_kind kind, int64_t start, int64_t end,
			 uint32_t thread, int64_t asked)
{
	struct claims_stretch *open = &walk->open;
	int64_t ordinal = (int64_t)step + 1;
	if (open->interval.end == start && open->kind == kind && open->interval.step == ordinal &&
	    open->interval.thread == thread && open->interval.end > open->interval.start &&
	    (kind != FINDING_SYNC || open->asked == asked)) {
		open->interval.end = end;
		if (kind != FINDING_SYNC)
			open->asked = open->interval.start + (end - open->interval.start) / 2;
		return;
	}
	close_interval(walk);
	*open = (struct claims_stretch){.interval = {.start = start, .end = end, .step = ordinal, .thread = thread},
					.kind = kind,
					.asked = asked,
					.span = CLAIMS_NAMELESS};
}

static bool is_judged(const struct walk *walk, size_t step)
{
	return step >= walk->wanted->first && step < walk->wanted->last &&
	       !(walk->wanted->unlike && walk->wanted->unlike[step]);
}

/* The part of [start, end) that lies in step `i`; false: there is none. */
static bool cut(const struct walk *walk, size_t i, int64_t start, int64_t end, int64_t *ret_from, int64_t *ret_to)
{
	const struct breakdown_step *step = &walk->breakdown->steps[i];
	*ret_from = start > step->start ? start : step->start;
	*ret_to = end < step->end ? end : step->end;
	return *ret_to > *ret_from;
}

/* The first step that ends after `start`. Time only goes forwards. */
static size_t walk_to(struct walk *walk, int64_t start)
{
	while (walk->step < walk->breakdown->step_count && walk->breakdown->steps[walk->step].end <= start)
		walk->step++;
	return walk->step;
}

static bool begins_before(const struct walk *walk, size_t step, int64_t end)
{
	return step < walk->breakdown->step_count && walk->breakdown->steps[step].start < end;
}

static void claim(struct walk *walk, enum finding_kind kind, int64_t start, int64_t end, uint32_t thread, int64_t asked)
{
	for (size_t i = walk_to(walk, start); begins_before(walk, i, end); i++) {
		int64_t from, to;
		if (!cut(walk, i, start, end, &from, &to) || !is_judged(walk, i))
			continue;
		walk->claims->steps[i].ns[kind] += to - from;
		add_interval(walk, i, kind, from, to, thread, asked ? asked : from + (to - from) / 2);
	}
}

static void add_plain(struct walk *walk, int64_t start, int64_t end, bool queued)
{
	for (size_t i = walk_to(walk, start); begins_before(walk, i, end); i++) {
		int64_t from, to;
		if (!cut(walk, i, start, end, &from, &to))
			continue;
		struct claims_step *step = &walk->claims->steps[i];
		*(queued ? &step->queued : &step->unknown) += to - from;
	}
}

static uint8_t phase_at(struct walk *walk, int64_t time)
{
	const struct activity_thread *thread = walk->step_thread;
	while (thread && walk->phase < thread->count && activity_end(thread, walk->phase) <= time)
		walk->phase++;
	return thread && walk->phase < thread->count && activity_start(thread, walk->phase) <= time
		       ? activity_segment(thread, walk->phase).phase
		       : PHASE_NONE;
}

static bool is_late(enum idle_row cause)
{
	switch (cause) {
	case IDLE_OPERATOR:
	case IDLE_LAUNCH:
	case IDLE_CALL:
	case IDLE_OUTSIDE:
	case IDLE_ARRIVAL:
	case IDLE_COMM:
		return true;
	default:
		return false;
	}
}

/* Claims as much of [start, end) for earlier waits as their credit covers. Returns where the rest begins. */
static int64_t claim_after_wait(struct walk *walk, int64_t start, int64_t end)
{
	if (!walk->credit || !walk->wait)
		return start;
	int64_t part = end - start < walk->credit ? end - start : walk->credit;
	walk->credit -= part;
	claim(walk, FINDING_SYNC, start, start + part, walk->wait->sync_thread, walk->wait->sync_start);
	return start + part;
}

/* How much of [start, end) lies in steps that are judged. */
static int64_t judged_part(struct walk *walk, int64_t start, int64_t end)
{
	int64_t part = 0, from, to;
	for (size_t i = walk_to(walk, start); begins_before(walk, i, end); i++)
		if (cut(walk, i, start, end, &from, &to) && is_judged(walk, i))
			part += to - from;
	return part;
}

/* The host was late from the first piece to the last, without a break. */
static void claim_late(struct walk *walk, const struct breakdown_stretch *pieces, size_t count, uint32_t thread)
{
	int64_t end = breakdown_stretch_end(&pieces[count - 1]), start = claim_after_wait(walk, pieces[0].start, end);
	if (end <= start)
		return;
	enum finding_kind kind = end - start >= STALL_NS ? FINDING_STALL : FINDING_LAUNCH;
	if (phase_at(walk, start) == PHASE_OPTIMIZER && walk->claims->optimizer_per_tensor && kind == FINDING_LAUNCH)
		kind = FINDING_OPTIMIZER;
	claim(walk, kind, start, end, thread, 0);
	/* Only after the claim: steps are walked forwards. */
	for (size_t i = 0; i < count; i++)
		if (breakdown_stretch_end(&pieces[i]) > start)
			walk->claims->late[kind][pieces[i].cause] +=
				judged_part(walk, pieces[i].start > start ? pieces[i].start : start,
					    breakdown_stretch_end(&pieces[i]));
}

static void claim_idle(struct walk *walk, const struct breakdown_stretch *piece, uint32_t thread)
{
	static const enum finding_kind kinds[IDLE_ROWS] = {
		[IDLE_INPUT] = FINDING_INPUT,	  [IDLE_SYNC] = FINDING_SYNC,	    [IDLE_COPY] = FINDING_COPY,
		[IDLE_ALLOC] = FINDING_ALLOC,	  [IDLE_COMPILE] = FINDING_COMPILE, [IDLE_SETUP] = FINDING_SETUP,
		[IDLE_CAPTURE] = FINDING_CAPTURE, [IDLE_GAP] = FINDING_SMALL,	    [IDLE_GARBAGE] = FINDING_GARBAGE,
	};
	const int64_t end = breakdown_stretch_end(piece), length = end - piece->start;
	int64_t judged;
	switch ((enum idle_row)piece->cause) {
	case IDLE_DEVICE_WAIT:
	case IDLE_UNKNOWN:
		add_plain(walk, piece->start, end, piece->cause == IDLE_DEVICE_WAIT);
		return;
	case IDLE_INPUT:
		/* Time that the loader takes is lost to the loader, even if a wait brought it to light. */
		walk->credit = walk->credit > length ? walk->credit - length : 0;
		judged = judged_part(walk, piece->start, end);
		claim(walk, FINDING_INPUT, piece->start, end, walk->breakdown->step_thread, 0);
		walk->claims->input += judged;
		if (walk->device->idles[piece->idle].after_sync)
			walk->claims->input_after_wait += judged;
		return;
	default:
		claim(walk, kinds[piece->cause], piece->start, end, thread, 0);
		return;
	}
}

/* All pieces of one idle interval: [from, to). */
static void walk_idle(struct walk *walk, size_t from, size_t to)
{
	const struct breakdown_stretch *stretches = walk->device->stretches;
	const struct breakdown_idle *idle = &walk->device->idles[stretches[from].idle];
	uint32_t thread = breakdown_launcher(walk->breakdown, idle);
	if (idle->after_sync) {
		walk->credit += idle->start > idle->sync_start ? idle->start - idle->sync_start : 0;
		walk->wait = idle;
	}
	for (size_t i = from; i < to;) {
		size_t end = i;
		while (end < to && is_late((enum idle_row)stretches[end].cause))
			end++;
		if (end > i) {
			claim_late(walk, &stretches[i], end - i, thread);
			i = end;
			continue;
		}
		claim_idle(walk, &stretches[i], thread);
		i++;
	}
}

static void walk_busy(struct walk *walk, const struct breakdown_stretch *piece)
{
	enum finding_kind kind = FINDING_KINDS;
	if (piece->row == DEVICE_COMMUNICATION)
		kind = FINDING_COMMUNICATION;
	else if (piece->row == DEVICE_COPIES)
		kind = piece->cause == OPERATION_PAGEABLE ? FINDING_COPY : FINDING_COPIES;
	else if (piece->cause == OPERATION_NO_TENSOR_CORES)
		kind = FINDING_NO_TENSOR_CORES;
	else if (piece->cause == OPERATION_FEW_BLOCKS)
		kind = FINDING_FEW_BLOCKS;
	if (kind != FINDING_KINDS)
		claim(walk, kind, piece->start, breakdown_stretch_end(piece), 0, 0);
}

static void walk_device(struct walk *walk)
{
	const struct breakdown_device *device = walk->device;
	for (size_t i = 0; i < device->stretch_count;) {
		size_t end = i + 1;
		large_go(sizeof *device->stretches + sizeof *device->idles);
		if (device->stretches[i].row != DEVICE_IDLE) {
			walk_busy(walk, &device->stretches[i]);
			i++;
			continue;
		}
		while (end < device->stretch_count && device->stretches[end].row == DEVICE_IDLE &&
		       device->stretches[end].idle == device->stretches[i].idle)
			end++;
		walk_idle(walk, i, end);
		i = end;
	}
}

/* --- where no device worked: the step's thread --- */

static enum finding_kind host_kind(const struct walk *walk, const struct activity_segment *segment)
{
	if (segment->doing == DOING_GARBAGE)
		return FINDING_GARBAGE;
	if (segment->phase == PHASE_INPUT)
		return FINDING_INPUT;
	if (segment->doing == DOING_COMPILE || segment->doing == DOING_TORCH_COMPILE)
		return FINDING_COMPILE;
	if (segment->doing == DOING_CAPTURE)
		return FINDING_CAPTURE;
	if (segment->doing == DOING_COMM)
		return FINDING_COMMUNICATION;
	if (segment->phase == PHASE_OPTIMIZER && walk->claims->optimizer_per_tensor)
		return FINDING_OPTIMIZER;
	if (segment->doing == DOING_OUTSIDE)
		return segment->end - segment->start >= STALL_NS ? FINDING_STALL : FINDING_OUTSIDE;
	return FINDING_KINDS;
}

/* Claims only time before the end of the step's annotation. */
static void claim_host(struct walk *walk, const struct activity_segment *segment)
{
	const struct breakdown *breakdown = walk->breakdown;
	enum finding_kind kind = host_kind(walk, segment);
	if (kind == FINDING_KINDS)
		return;
	while (walk->step < breakdown->step_count && breakdown->steps[walk->step].end <= segment->start)
		walk->step++;
	for (size_t i = walk->step; i < breakdown->step_count && breakdown->steps[i].start < segment->end; i++) {
		const struct breakdown_step *step = &breakdown->steps[i];
		int64_t from = segment->start > step->start ? segment->start : step->start;
		int64_t to = segment->end < step->annotated ? segment->end : step->annotated;
		if (to > from)
			claim(walk, kind, from, to, breakdown->step_thread, 0);
	}
}

static void walk_host(struct walk *walk)
{
	const struct activity_thread *thread = walk->step_thread;
	const struct breakdown *breakdown = walk->breakdown;
	if (!breakdown->has_operators || !thread || !breakdown->step_count)
		return;
	int64_t now = breakdown->steps[0].start, last = breakdown->steps[breakdown->step_count - 1].end;
	for (size_t i = activity_at(thread, now); i <= thread->count && now < last; i++) {
		large_go(sizeof *thread->segments);
		struct activity_segment segment = {.start = last, .end = last};
		if (i < thread->count)
			segment = activity_segment(thread, i);
		/* Nothing is known of the time before the segment: the thread did nothing. */
		struct activity_segment before = {.start = now,
						  .end = segment.start < last ? segment.start : last,
						  .phase = PHASE_NONE,
						  .doing = DOING_OUTSIDE};
		if (before.end > before.start)
			claim_host(walk, &before);
		if (segment.end > segment.start)
			claim_host(walk, &segment);
		now = segment.end > now ? segment.end : now;
	}
}

/* --- the optimizer's operators, and the operations that the device began --- */

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return ORDER(x, y);
}

static void look_at_optimizer(struct walk *walk)
{
	const struct breakdown *breakdown = walk->breakdown;
	bool asked = walk->step_thread && walk->wanted->per_tensor_count;
	size_t step = 0;
	uint64_t most = 0;
	for (size_t i = 0; asked && i < walk->step_thread->spans.count; i++) {
		const struct activity_span *span = &walk->step_thread->spans.items[i];
		large_go(sizeof *span + sizeof *walk->step_thread->segments);
		if (phase_at(walk, span->start) != PHASE_OPTIMIZER)
			continue;
		while (step < breakdown->step_count && breakdown->steps[step].end <= span->start)
			step++;
		int64_t name = span->name;
		if (step == breakdown->step_count || span->start < breakdown->steps[step].start ||
		    !bsearch(&name, walk->wanted->per_tensor, walk->wanted->per_tensor_count, sizeof name, by_value))
			continue;
		uint64_t count = ++walk->claims->steps[step].per_tensor;
		most = count > most ? count : most;
	}
	walk->phase = 0;
	walk->claims->optimizer_per_tensor = most >= PER_TENSOR_LEAST;
}

/* The call of a copy that blocks names it: while the copy itself runs, no thread is late. */
static void keep_copy(struct walk *walk, const struct breakdown_operation *operation, size_t step)
{
	const struct breakdown_call *call = &walk->breakdown->calls[operation->call];
	stretches_keep_named(walk->claims,
			     &(struct claims_stretch){.interval = {.start = call->start,
								   .end = call->end,
								   .step = (int64_t)step + 1,
								   .thread = call->thread},
						      .kind = FINDING_COPY,
						      .asked = call->start + (call->end - call->start) / 2,
						      .span = CLAIMS_NAMELESS});
}

static void count_operations(struct walk *walk)
{
	const struct breakdown *breakdown = walk->breakdown;
	size_t step = 0;
	double filled = 0, all = 0;
	for (size_t i = walk->device->operations_from; i < walk->device->operations_to; i++) {
		const struct breakdown_operation *operation = &breakdown->operations[i];
		large_go(sizeof *operation);
		while (step < breakdown->step_count && breakdown->steps[step].end <= operation->start)
			step++;
		if (step == breakdown->step_count)
			break;
		if (operation->start < breakdown->steps[step].start)
			continue;
		walk->claims->steps[step].operations++;
		if (operation->kind == OPERATION_PAGEABLE && operation->call < breakdown->call_count &&
		    is_judged(walk, step))
			keep_copy(walk, operation, step);
		if (operation->kind == OPERATION_FEW_BLOCKS && is_judged(walk, step)) {
			all += (double)(operation->end - operation->start);
			filled += (double)(operation->end - operation->start) * operation->fill / 255;
		}
	}
	walk->claims->few_fill = all > 0 ? filled / all : 0;
}

size_t claims_device(const struct breakdown *breakdown, size_t first, size_t last)
{
	size_t found = SIZE_MAX;
	int64_t most = 0;
	for (size_t d = 0; d < breakdown->device_count; d++) {
		int64_t worked = 0;
		for (size_t i = first; i < last; i++) {
			const int64_t *rows = breakdown->devices[d].steps[i].rows;
			worked += rows[DEVICE_COMPUTE] + rows[DEVICE_COMMUNICATION] + rows[DEVICE_COPIES];
		}
		if (worked > most) {
			most = worked;
			found = d;
		}
	}
	return found;
}

bool claims_make(const struct breakdown_capture *capture, const struct claims_wanted *wanted, struct claims *ret)
{
	const struct breakdown *breakdown = &capture->breakdown;
	memset(ret, 0, sizeof *ret);
	ret->unlike = wanted->unlike;
	ret->device_index = claims_device(breakdown, wanted->first, wanted->last);
	ret->device = ret->device_index == SIZE_MAX ? -1 : breakdown->devices[ret->device_index].device;
	ret->steps = calloc(breakdown->step_count + 1, sizeof *ret->steps);
	if (!ret->steps)
		return false;
	struct walk walk = {.capture = capture,
			    .wanted = wanted,
			    .breakdown = breakdown,
			    .step_thread = activity_find(breakdown->activity, breakdown->step_thread),
			    .claims = ret};
	look_at_optimizer(&walk);
	if (ret->device_index == SIZE_MAX) {
		walk_host(&walk);
	} else {
		walk.device = &breakdown->devices[ret->device_index];
		count_operations(&walk);
		walk_device(&walk);
	}
	close_interval(&walk);
	return !ret->failed;
}

void claims_free(struct claims *claims)
{
	free(claims->steps);
	free(claims->named);
	*claims = (struct claims){0};
}
