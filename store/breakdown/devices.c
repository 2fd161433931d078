/* devices.c - see devices.h. One sweep over a device's operations finds when it did what. Each interval in which it
 * did nothing is then explained by the call that ended it. */
#include "devices.h"

#include "sorted.h"
#include "proto/base/array.h"
#include "proto/base/large.h"

#include <stdlib.h>

/* On an idle device, an operation starts within this time of its call's return. A longer time is not spent on the way
 * to the device. */
#define ARRIVAL_NS 10000
/* If a wait of the host has returned at most so long before a device runs out of work, the device ran out of it
 * during the wait. */
#define SYNC_SLACK_NS 5000

struct ending {
	int64_t time;
	uint8_t row, kind;
};

static int by_time(const void *a, const void *b)
{
	const struct ending *x = a, *y = b;
	return ORDER(x->time, y->time) ?: ORDER(x->row, y->row) ?: ORDER(x->kind, y->kind);
}

/* The first step that ends after `time`, or the count. Looks first at the step that was asked for last, and at those
 * after it. */
static size_t step_at(const struct breakdown *breakdown, size_t *near, int64_t time)
{
	size_t low = 0, high = breakdown->step_count;
	if (*near && breakdown->steps[*near - 1].end <= time)
		low = *near;
	if (low < high && breakdown->steps[low].end > time && low == *near)
		high = low;
	low += ARRAY_BEFORE(high - low, middle, breakdown->steps[low + middle].end <= time);
	*near = low;
	return low;
}

/* Most operations lie in the same step as the last one. */
static inline size_t step_near(const struct breakdown *breakdown, size_t *near, int64_t from)
{
	const struct breakdown_step *steps = breakdown->steps;
	if (*near < breakdown->step_count && steps[*near].start <= from && from < steps[*near].end)
		return *near;
	return step_at(breakdown, near, from);
}

/* Repeats a statement for each step that [from, to) touches. */
#define FOR_EACH_PART(breakdown, near, from, to, i, part)                                                              \
	for (size_t i = step_near(breakdown, near, from);                                                              \
	     i < (breakdown)->step_count && (breakdown)->steps[i].start < (to); i++)                                   \
		for (int64_t part = ((to) < (breakdown)->steps[i].end ? (to) : (breakdown)->steps[i].end) -            \
				    ((from) > (breakdown)->steps[i].start ? (from) : (breakdown)->steps[i].start);     \
		     part > 0; part = 0)

struct explanation {
	const struct breakdown_shared *shared;
	struct breakdown_device *device;
};

static void add_piece(struct breakdown_device *device, int64_t from, int64_t to, enum device_row row, uint8_t cause,
		      size_t idle)
{
	size_t count = device->stretch_count;
	struct breakdown_stretch *last = count ? &device->stretches[count - 1] : NULL;
	if (last && last->row == row && last->cause == cause && last->idle == (uint32_t)idle) {
		last[1].start = to;
		return;
	}
	if (!LARGE_GROW(device->stretches, count + 1, device->stretch_room)) {
		device->failed = true;
		return;
	}
	device->stretches[count] =
		(struct breakdown_stretch){.start = from, .idle = (uint32_t)idle, .row = (uint8_t)row, .cause = cause};
	device->stretches[count + 1].start = to;
	device->stretch_count++;
}

static void put_known(const struct explanation *explanation, enum idle_row row, int64_t from, int64_t to)
{
	const struct breakdown *breakdown = explanation->shared->breakdown;
	if (to <= from)
		return;
	add_piece(explanation->device, from, to, DEVICE_IDLE, (uint8_t)row, explanation->device->idle_count - 1);
	FOR_EACH_PART(breakdown, &explanation->device->near_step, from, to, i, part)
	explanation->device->steps[i].idle[row] += part;
	breakdown_tell(breakdown,
		       &(struct breakdown_piece){from, to, explanation->device->device, DEVICE_IDLE, (int)row});
}

/* Puts a part of the newest idle interval into a row. */
static void put(const struct explanation *explanation, enum idle_row row, int64_t from, int64_t to)
{
	int64_t known = explanation->shared->breakdown->known_from;
	if (from < known) {
		put_known(explanation, IDLE_UNKNOWN, from, to < known ? to : known);
		from = known;
	}
	put_known(explanation, row, from, to);
}

static enum idle_row row_of(const struct activity_segment *segment, bool has_operators)
{
	static const enum idle_row rows[DOING_COUNT] = {
		[DOING_TORCH_COMPILE] = IDLE_COMPILE, [DOING_COMPILE] = IDLE_COMPILE, [DOING_GARBAGE] = IDLE_GARBAGE,
		[DOING_CAPTURE] = IDLE_CAPTURE,	      [DOING_SYNC] = IDLE_SYNC,	      [DOING_COPY] = IDLE_COPY,
		[DOING_ALLOC] = IDLE_ALLOC,	      [DOING_SETUP] = IDLE_SETUP,     [DOING_COMM] = IDLE_COMM,
		[DOING_LAUNCH] = IDLE_LAUNCH,	      [DOING_CALL] = IDLE_CALL,	      [DOING_OPERATOR] = IDLE_OPERATOR,
		[DOING_OUTSIDE] = IDLE_OUTSIDE,
	};
	if (segment->phase == PHASE_INPUT && segment->doing != DOING_GARBAGE)
		return IDLE_INPUT;
	if (segment->doing == DOING_OUTSIDE && !has_operators)
		return IDLE_UNKNOWN;
	return rows[segment->doing];
}

/* Reads a thread's segments forwards. */
struct cursor {
	const struct activity_thread *thread; /* NULL: nothing is known of it */
	size_t at;
};

/* The first segment of the thread that ends after `time`, or the count. */
static size_t segment_at(const struct breakdown_shared *shared, const struct activity_thread *thread, int64_t time)
{
	return activity_near(thread, time, &shared->near[thread - shared->breakdown->activity->threads]);
}

static struct cursor cursor(const struct breakdown_shared *shared, const struct activity_thread *thread, int64_t time)
{
	return (struct cursor){.thread = thread, .at = thread ? segment_at(shared, thread, time) : 0};
}

/* What the thread does at `time`. *until is lowered to the time up to which that holds. */
static struct activity_segment seen_at(struct cursor *cursor, int64_t time, int64_t *until)
{
	const struct activity_thread *thread = cursor->thread;
	while (thread && cursor->at < thread->count && activity_end(thread, cursor->at) <= time)
		cursor->at++;
	if (!thread || cursor->at == thread->count)
		return (struct activity_segment){.phase = PHASE_NONE, .doing = DOING_OUTSIDE};
	struct activity_segment segment = activity_segment(thread, cursor->at);
	int64_t change = segment.start > time ? segment.start : segment.end;
	if (change < *until)
		*until = change;
	if (segment.start > time)
		return (struct activity_segment){.phase = PHASE_NONE, .doing = DOING_OUTSIDE};
	return segment;
}

/* The host was late. What counts is what the launching thread did then, or, while it did nothing, the step thread. */
static void put_late(const struct explanation *explanation, const struct activity_thread *launcher, int64_t from,
		     int64_t to)
{
	const struct breakdown_shared *shared = explanation->shared;
	const bool known = shared->breakdown->has_operators && (launcher || shared->step_thread);
	const struct activity_thread *other = launcher == shared->step_thread ? NULL : shared->step_thread;
	struct cursor first = cursor(shared, launcher, from), second = {0};
	while (from < to) {
		int64_t until = to;
		struct activity_segment segment = seen_at(&first, from, &until);
		if (other && segment.doing == DOING_OUTSIDE && segment.phase != PHASE_INPUT) {
			if (!second.thread)
				second = cursor(shared, other, from);
			segment = seen_at(&second, from, &until);
		}
		put(explanation, row_of(&segment, known), from, until);
		from = until;
	}
}

/* Inside of its call the thread launches, unless it is known to do something that takes longer. */
static void put_launch(const struct explanation *explanation, const struct activity_thread *launcher, int64_t from,
		       int64_t to)
{
	struct cursor at = cursor(explanation->shared, launcher, from);
	while (from < to) {
		int64_t until = to;
		struct activity_segment segment = seen_at(&at, from, &until);
		segment.phase = PHASE_NONE;
		if (segment.doing > DOING_LAUNCH)
			segment.doing = DOING_LAUNCH;
		put(explanation, row_of(&segment, true), from, until);
		from = until;
	}
}

/* Is there a call that began in [from, to)? */
static bool launched_between(const struct breakdown_shared *shared, int64_t from, int64_t to)
{
	size_t low = ARRAY_BEFORE(shared->breakdown->call_count, middle, shared->call_starts[middle] < from);
	return low < shared->breakdown->call_count && shared->call_starts[low] < to;
}

/* Did the device run out of work during a wait of this thread, with no launch between that wait and the next call? */
static bool ran_dry(const struct breakdown_shared *shared, const struct activity_thread *thread, int64_t dry,
		    int64_t next_call, struct breakdown_idle *idle)
{
	if (!thread)
		return false;
	for (size_t i = segment_at(shared, thread, dry - SYNC_SLACK_NS - 1);
	     i < thread->count && activity_start(thread, i) <= dry; i++) {
		const struct activity_segment segment = activity_segment(thread, i);
		if (segment.doing != DOING_SYNC && segment.doing != DOING_COPY)
			continue;
		if (launched_between(shared, segment.end, next_call))
			continue;
		idle->after_sync = true;
		idle->sync_thread = thread->thread;
		idle->sync_start = segment.start;
		idle->sync_end = segment.end;
		return true;
	}
	return false;
}

/* `queued`: an earlier operation of the same call had started already. */
static void explain(const struct explanation *explanation, struct breakdown_idle *idle, bool queued)
{
	const struct breakdown_shared *shared = explanation->shared;
	const struct breakdown *breakdown = shared->breakdown;
	if (idle->next == SIZE_MAX) {
		put_late(explanation, NULL, idle->start, idle->end);
		return;
	}
	const struct breakdown_operation *next = &breakdown->operations[idle->next];
	const struct breakdown_call *call = next->call < breakdown->call_count ? &breakdown->calls[next->call] : NULL;
	if (next->before || queued || (call && call->end <= idle->start)) {
		put(explanation, idle->end - idle->start <= ARRIVAL_NS ? IDLE_GAP : IDLE_DEVICE_WAIT, idle->start,
		    idle->end);
		return;
	}
	if (!call) {
		put(explanation, IDLE_UNKNOWN, idle->start, idle->end);
		return;
	}
	const struct activity_thread *launcher = activity_find(breakdown->activity, call->thread);
	int64_t begun = call->start < idle->start ? idle->start : call->start < idle->end ? call->start : idle->end;
	int64_t returned = call->end < begun ? begun : call->end < idle->end ? call->end : idle->end;
	put_late(explanation, launcher, idle->start, begun);
	if (begun > idle->start && !ran_dry(shared, launcher, idle->start, call->start, idle))
		ran_dry(shared, shared->step_thread, idle->start, call->start, idle);
	if (call->pageable) {
		put(explanation, IDLE_COPY, begun, idle->end);
		return;
	}
	put_launch(explanation, launcher, begun, returned);
	int64_t arrived = idle->end - returned <= ARRIVAL_NS ? idle->end : returned + ARRIVAL_NS;
	put(explanation, IDLE_ARRIVAL, returned, arrived);
	put(explanation, IDLE_DEVICE_WAIT, arrived, idle->end);
}

/* How many operations are open, by row and by kind. */
struct open {
	size_t rows[DEVICE_ROWS], kinds[OPERATION_KINDS];
};

static uint8_t kind_of(const struct open *open, enum device_row row)
{
	if (row == DEVICE_COPIES)
		return open->rows[DEVICE_COPIES] == open->kinds[OPERATION_PAGEABLE] ? OPERATION_PAGEABLE
										    : OPERATION_PLAIN;
	if (row != DEVICE_COMPUTE)
		return OPERATION_PLAIN;
	/* If one of the open kernels is plain, no time is lost to the others. */
	size_t slow = open->kinds[OPERATION_NO_TENSOR_CORES] + open->kinds[OPERATION_FEW_BLOCKS];
	if (open->rows[DEVICE_COMPUTE] > slow)
		return OPERATION_PLAIN;
	return open->kinds[OPERATION_NO_TENSOR_CORES] ? OPERATION_NO_TENSOR_CORES : OPERATION_FEW_BLOCKS;
}

static void add_rows(const struct explanation *explanation, int64_t from, int64_t to, const struct open *now)
{
	const size_t *open = now->rows;
	const struct breakdown *breakdown = explanation->shared->breakdown;
	enum device_row row = open[DEVICE_COMPUTE]	   ? DEVICE_COMPUTE
			      : open[DEVICE_COMMUNICATION] ? DEVICE_COMMUNICATION
			      : open[DEVICE_COPIES]	   ? DEVICE_COPIES
							   : DEVICE_IDLE;
	if (row != DEVICE_IDLE)
		add_piece(explanation->device, from, to, row, kind_of(now, row), 0);
	FOR_EACH_PART(breakdown, &explanation->device->near_step, from, to, i, part)
	{
		struct breakdown_device_step *step = &explanation->device->steps[i];
		step->rows[row] += part;
		if (open[DEVICE_COMMUNICATION] && row != DEVICE_COMMUNICATION)
			step->hidden_communication += part;
		if (open[DEVICE_COPIES] && row != DEVICE_COPIES)
			step->hidden_copies += part;
	}
	if (row != DEVICE_IDLE)
		breakdown_tell(breakdown,
			       &(struct breakdown_piece){from, to, explanation->device->device, (int)row, -1});
}

/* The times at which the recording begins and ends. */
static void bounds(const struct breakdown *breakdown, size_t from, const struct ending *endings, size_t count,
		   int64_t *start, int64_t *end)
{
	*start = breakdown->operations[from].start;
	*end = endings[count - 1].time;
	if (breakdown->step_count && breakdown->steps[0].start < *start)
		*start = breakdown->steps[0].start;
	if (breakdown->step_count && breakdown->steps[breakdown->step_count - 1].end > *end)
		*end = breakdown->steps[breakdown->step_count - 1].end;
}

static void add_idle(const struct explanation *explanation, int64_t start, int64_t end, size_t next, bool queued)
{
	struct breakdown_device *device = explanation->device;
	struct breakdown_idle *idle = &device->idles[device->idle_count++];
	*idle = (struct breakdown_idle){.start = start, .end = end, .next = next};
	explain(explanation, idle, queued);
	if (idle->after_sync)
		FOR_EACH_PART(explanation->shared->breakdown, &device->near_step, start, end, i, part)
	device->steps[i].after_sync += part;
}

static void sweep(const struct explanation *explanation, uint32_t number, size_t from, size_t to,
		  const struct ending *endings)
{
	const struct breakdown *breakdown = explanation->shared->breakdown;
	uint32_t *started = explanation->shared->started;
	struct open open = {0};
	size_t next = from, ended = 0;
	int64_t now, last;
	bounds(breakdown, from, endings, to - from, &now, &last);
	while (now < last && !explanation->device->failed) {
		/* What an operation takes: itself, its end, the idle time before it, its call, and what threads did
		 * then. */
		large_go(256);
		int64_t until = last;
		if (next < to && breakdown->operations[next].start < until)
			until = breakdown->operations[next].start;
		if (ended < to - from && endings[ended].time < until)
			until = endings[ended].time;
		if (until > now) {
			add_rows(explanation, now, until, &open);
			if (!open.rows[DEVICE_COMPUTE] && !open.rows[DEVICE_COMMUNICATION] &&
			    !open.rows[DEVICE_COPIES]) {
				size_t call = next < to ? breakdown->operations[next].call : BREAKDOWN_NO_CALL;
				add_idle(explanation, now, until, next < to ? next : SIZE_MAX,
					 call < breakdown->call_count && started[call] == number);
			}
		}
		now = until;
		for (; next < to && breakdown->operations[next].start == now; next++) {
			open.rows[breakdown->operations[next].row]++;
			open.kinds[breakdown->operations[next].kind]++;
			if (breakdown->operations[next].call < breakdown->call_count)
				started[breakdown->operations[next].call] = number;
		}
		for (; ended < to - from && endings[ended].time == now; ended++) {
			open.rows[endings[ended].row]--;
			open.kinds[endings[ended].kind]--;
		}
	}
}

bool breakdown_device(const struct breakdown_shared *shared, size_t index, size_t from, size_t to)
{
	struct breakdown *breakdown = shared->breakdown;
	struct breakdown_device *device = &breakdown->devices[index];
	/* Not cleared: each item is written before it is read. */
	struct ending *endings = large_get(to - from, sizeof *endings);
	device->steps = calloc(breakdown->step_count + 1, sizeof *device->steps);
	/* One interval before each operation, and one at the end. */
	device->idles = large_get(to - from + 1, sizeof *device->idles);
	device->operations_from = from;
	device->operations_to = to;
	bool ok = endings && device->steps && device->idles;
	if (ok) {
		for (size_t i = from; i < to; i++) {
			large_go(sizeof *breakdown->operations + sizeof *endings);
			endings[i - from] = (struct ending){.time = breakdown->operations[i].end,
							    .row = breakdown->operations[i].row,
							    .kind = breakdown->operations[i].kind};
		}
		sort_if_needed(endings, to - from, sizeof *endings, by_time);
		sweep(&(struct explanation){.shared = shared, .device = device}, (uint32_t)index + 1, from, to,
		      endings);
	}
	large_free(endings);
	return ok && !device->failed;
}
