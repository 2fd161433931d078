/* breakdown.c - see breakdown.h: rows, the host's side, and the loop over devices (devices.c). */
#include "breakdown.h"

#include "devices.h"
#include "proto/base/array.h"
#include "proto/base/large.h"
#include "sorted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW(NAME, word, title) {word, title},
const struct breakdown_row breakdown_host_rows[HOST_ROWS] = {BREAKDOWN_HOST_ROWS(ROW)};
const struct breakdown_row breakdown_device_rows[DEVICE_ROWS] = {BREAKDOWN_DEVICE_ROWS(ROW)};
const struct breakdown_row breakdown_idle_rows[IDLE_ROWS] = {BREAKDOWN_IDLE_ROWS(ROW)};
#undef ROW

_Static_assert(HOST_INPUT + 1 == PHASE_INPUT && HOST_FORWARD + 1 == PHASE_FORWARD &&
		       HOST_BACKWARD + 1 == PHASE_BACKWARD && HOST_OPTIMIZER + 1 == PHASE_OPTIMIZER &&
		       HOST_ZERO_GRAD + 1 == PHASE_ZERO_GRAD && HOST_VALIDATION + 1 == PHASE_VALIDATION &&
		       HOST_TEST + 1 == PHASE_TEST && HOST_EVALUATION + 1 == PHASE_EVALUATION &&
		       HOST_INFERENCE + 1 == PHASE_INFERENCE && HOST_COMM + 1 == PHASE_COUNT,
	       "rows of the host begin with the phases, in their order");

const struct breakdown_row *breakdown_phase_row(enum phase phase)
{
	static const struct breakdown_row none = {"none", "in no phase"};
	return phase == PHASE_NONE ? &none : &breakdown_host_rows[phase - 1];
}

enum phase breakdown_phase_named(const char *word, size_t bytes)
{
	for (unsigned phase = 0; phase < PHASE_COUNT; phase++) {
		const char *known = breakdown_phase_row(phase)->word;
		if (strlen(known) == bytes && memcmp(known, word, bytes) == 0)
			return phase;
	}
	return PHASE_COUNT;
}

/* Garbage collection comes first, since it may run at any time. Then comes input, with all that is inside of it; then
 * what the thread does, if that has a row of its own; then the phase. */
static enum host_row host_row(const struct activity_segment *segment, bool has_operators)
{
	if (segment->doing == DOING_GARBAGE)
		return HOST_GARBAGE;
	if (segment->phase == PHASE_INPUT)
		return HOST_INPUT;
	switch ((enum doing)segment->doing) {
	case DOING_TORCH_COMPILE:
	case DOING_COMPILE:
		return HOST_COMPILE;
	case DOING_CAPTURE:
		return HOST_CAPTURE;
	case DOING_SYNC:
		return HOST_SYNC;
	case DOING_COPY:
		return HOST_COPY;
	case DOING_ALLOC:
		return HOST_ALLOC;
	case DOING_SETUP:
		return HOST_SETUP;
	case DOING_COMM:
		return HOST_COMM;
	case DOING_GARBAGE:
	case DOING_LAUNCH:
	case DOING_CALL:
	case DOING_OPERATOR:
	case DOING_OUTSIDE:
	case DOING_COUNT:
		break;
	}
	switch ((enum phase)segment->phase) {
	case PHASE_FORWARD:
		return HOST_FORWARD;
	case PHASE_BACKWARD:
		return HOST_BACKWARD;
	case PHASE_OPTIMIZER:
		return HOST_OPTIMIZER;
	case PHASE_ZERO_GRAD:
		return HOST_ZERO_GRAD;
	case PHASE_VALIDATION:
		return HOST_VALIDATION;
	case PHASE_TEST:
		return HOST_TEST;
	case PHASE_EVALUATION:
		return HOST_EVALUATION;
	case PHASE_INFERENCE:
		return HOST_INFERENCE;
	case PHASE_INPUT:
	case PHASE_NONE:
	case PHASE_COUNT:
		break;
	}
	if (segment->doing != DOING_OUTSIDE)
		return HOST_OPERATORS;
	return has_operators ? HOST_OUTSIDE : HOST_UNKNOWN;
}

void breakdown_tell(const struct breakdown *breakdown, const struct breakdown_piece *piece)
{
	if (breakdown->listener && piece->end > piece->start)
		breakdown->listener->piece(breakdown->listener->context, piece);
}

int64_t breakdown_evaluates(const struct breakdown_step *step)
{
	return step->host[HOST_VALIDATION] + step->host[HOST_TEST] + step->host[HOST_EVALUATION] +
	       step->host[HOST_INFERENCE];
}

const char *breakdown_called(const struct breakdown_step *steps, size_t count)
{
	bool validation = false, test = false, other = false;
	for (size_t i = 0; i < count; i++) {
		validation |= steps[i].host[HOST_VALIDATION] > 0;
		test |= steps[i].host[HOST_TEST] > 0;
		other |= steps[i].host[HOST_EVALUATION] > 0;
	}
	if (other || (validation && test))
		return "an evaluation";
	return validation ? "a validation" : test ? "a test" : NULL;
}

unsigned breakdown_holds(const struct breakdown_step *step)
{
	return (breakdown_evaluates(step) ? HOLDS_EVALUATION : 0) | (step->compiled ? HOLDS_COMPILATION : 0);
}

void breakdown_count(struct breakdown_holders *holders, unsigned holds)
{
	holders->steps++;
	holders->evaluate += (holds & HOLDS_EVALUATION) != 0;
	holders->compile += (holds & HOLDS_COMPILATION) != 0;
	holders->any += holds != 0;
}

unsigned breakdown_unusual(const struct breakdown_holders *holders)
{
	unsigned unusual = (holders->evaluate && holders->evaluate < holders->steps ? HOLDS_EVALUATION : 0) |
			   (holders->compile && holders->compile < holders->steps ? HOLDS_COMPILATION : 0);
	/* If some steps evaluate and all others compile, the steps that evaluate are closer to what is usual. */
	return unusual == (HOLDS_EVALUATION | HOLDS_COMPILATION) && holders->any == holders->steps ? HOLDS_COMPILATION
												   : unusual;
}

unsigned breakdown_left_out(const struct breakdown *breakdown, size_t first, size_t last)
{
	struct breakdown_holders holders = {0};
	for (size_t i = first; i < last; i++)
		breakdown_count(&holders, breakdown_holds(&breakdown->steps[i]));
	return breakdown_unusual(&holders);
}

/* In a few words: what the steps hold for which they are left out. */
static void tell_held(const struct breakdown_step *steps, size_t count, unsigned unusual, bool one, char ret[64])
{
	unsigned all = 0;
	const char *called = breakdown_called(steps, count), *hold = one ? "holds" : "hold";
	for (size_t i = 0; i < count; i++)
		all |= breakdown_holds(&steps[i]) & unusual;
	if (all == HOLDS_COMPILATION)
		snprintf(ret, 64, "%s",
			 one ? "holds a compilation by torch.compile" : "hold compilations by torch.compile");
	else if (all & HOLDS_COMPILATION)
		snprintf(ret, 64, "%s %s %s a compilation", hold, called ? called : "inference, without gradient,",
			 one ? "and" : "or");
	else
		snprintf(ret, 64, "%s %s", hold, called ? called : "inference, without gradient");
}

void breakdown_tell_left_out(const struct breakdown *breakdown, size_t first, size_t last, char ret[BREAKDOWN_SENTENCE])
{
	unsigned unusual = breakdown_left_out(breakdown, first, last);
	int64_t ns = 0;
	size_t count = 0;
	char held[64];
	*ret = '\0';
	for (size_t i = first; i < last; i++) {
		const struct breakdown_step *step = &breakdown->steps[i];
		unsigned holds = breakdown_holds(step) & unusual;
		count += holds != 0;
		ns += (holds & HOLDS_EVALUATION ? breakdown_evaluates(step) : 0) +
		      (holds & HOLDS_COMPILATION ? step->compiled : 0);
	}
	if (!count)
		return;
	tell_held(&breakdown->steps[first], last - first, unusual, count == 1, held);
	snprintf(ret, BREAKDOWN_SENTENCE, "%zu of %zu steps %s (%.*f ms): left out of the median", count, last - first,
		 held, ns < 10000000 ? 2 : 0, (double)ns / 1e6);
}

static void put_host(const struct breakdown *breakdown, struct breakdown_step *step, enum host_row row, int64_t from,
		     int64_t to)
{
	step->host[row] += to - from;
	breakdown_tell(breakdown, &(struct breakdown_piece){from, to, -1, (int)row, -1});
}

static void add_host(const struct breakdown *breakdown, struct breakdown_step *step, int64_t from, int64_t to,
		     const struct activity_segment *segment, bool has_operators)
{
	if (to <= from)
		return;
	int64_t inside = to < step->annotated ? to : step->annotated > from ? step->annotated : from;
	enum host_row row = host_row(segment, has_operators);
	put_host(breakdown, step, row, from, inside);
	if (row == HOST_COMPILE && segment->doing == DOING_TORCH_COMPILE)
		step->compiled += inside - from;
	put_host(breakdown, step, HOST_BETWEEN, inside, to);
	step->matrix[segment->phase][segment->doing] += to - from;
}

static void host_side(struct breakdown *breakdown)
{
	static const struct activity_segment nothing = {.phase = PHASE_NONE, .doing = DOING_OUTSIDE};
	const struct activity_thread *thread = activity_find(breakdown->activity, breakdown->step_thread);
	size_t at = thread && breakdown->step_count ? activity_at(thread, breakdown->steps[0].start) : 0;
	for (size_t i = 0; i < breakdown->step_count; i++) {
		struct breakdown_step *step = &breakdown->steps[i];
		int64_t now = step->start;
		memset(step->host, 0, sizeof step->host);
		memset(step->matrix, 0, sizeof step->matrix);
		step->compiled = 0;
		while (thread && at < thread->count && activity_end(thread, at) <= now)
			at++;
		for (size_t j = at; thread && j < thread->count && activity_start(thread, j) < step->end; j++) {
			const struct activity_segment segment = activity_segment(thread, j);
			large_go(sizeof *thread->segments);
			if (segment.start > now) {
				add_host(breakdown, step, now, segment.start, &nothing, breakdown->has_operators);
				now = segment.start;
			}
			int64_t to = segment.end < step->end ? segment.end : step->end;
			add_host(breakdown, step, now, to, &segment, breakdown->has_operators);
			now = to > now ? to : now;
		}
		add_host(breakdown, step, now, step->end, &nothing, breakdown->has_operators && thread);
	}
}

size_t breakdown_step_of(const struct breakdown *breakdown, int64_t time)
{
	size_t step = ARRAY_BEFORE(breakdown->step_count, at, breakdown->steps[at].end <= time);
	return step < breakdown->step_count && breakdown->steps[step].start <= time ? step : SIZE_MAX;
}

enum host_row breakdown_host_row(const struct breakdown *breakdown, int64_t time, int64_t *ret_end)
{
	const struct activity_thread *thread = activity_find(breakdown->activity, breakdown->step_thread);
	const size_t step = breakdown_step_of(breakdown, time), at = thread ? activity_at(thread, time) : 0;
	struct activity_segment segment = {.phase = PHASE_NONE, .doing = DOING_OUTSIDE};
	int64_t end = INT64_MAX;
	*ret_end = end;
	if (step == SIZE_MAX)
		return HOST_ROWS;
	if (thread && at < thread->count && activity_start(thread, at) <= time) {
		segment = activity_segment(thread, at);
		end = segment.end;
	} else if (thread && at < thread->count) {
		end = activity_start(thread, at);
	}
	const struct breakdown_step *of = &breakdown->steps[step];
	const int64_t most = time < of->annotated ? of->annotated : of->end;
	*ret_end = end < most ? end : most;
	return time < of->annotated ? host_row(&segment, breakdown->has_operators && thread) : HOST_BETWEEN;
}

uint32_t breakdown_launcher(const struct breakdown *breakdown, const struct breakdown_idle *idle)
{
	if (idle->next < breakdown->operation_count) {
		size_t call = breakdown->operations[idle->next].call;
		if (call < breakdown->call_count && breakdown->calls[call].thread)
			return breakdown->calls[call].thread;
	}
	return breakdown->step_thread;
}

static int by_device(const void *a, const void *b)
{
	const struct breakdown_operation *x = a, *y = b;
	return ORDER(x->device, y->device) ?: ORDER(x->start, y->start) ?: ORDER(x->end, y->end) ?: ORDER(x->call, y->call) ?: ORDER(x->row, y->row) ?: ORDER(x->before, y->before);
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return ORDER(x, y);
}

#define DEVICES_MOST 64

static bool devices(struct breakdown_shared *shared)
{
	struct breakdown *breakdown = shared->breakdown;
	shared->call_starts = large_get(breakdown->call_count + 1, sizeof *shared->call_starts);
	shared->started = large_get_clear(breakdown->call_count + 1, sizeof *shared->started);
	shared->near = calloc(breakdown->activity->count + 1, sizeof *shared->near);
	if (!shared->call_starts || !shared->started || !shared->near)
		return false;
	for (size_t i = 0; i < breakdown->call_count; i++) {
		large_go(sizeof *breakdown->calls);
		shared->call_starts[i] = breakdown->calls[i].start;
	}
	sort_if_needed(shared->call_starts, breakdown->call_count, sizeof *shared->call_starts, by_value);
	size_t from = 0, room = 0;
	while (from < breakdown->operation_count) {
		size_t to = from;
		while (to < breakdown->operation_count &&
		       breakdown->operations[to].device == breakdown->operations[from].device) {
			large_go(sizeof *breakdown->operations);
			to++;
		}
		/* No machine has so many: the file is hostile. */
		if (breakdown->device_count == DEVICES_MOST)
			break;
		if (!ARRAY_GROW(breakdown->devices, breakdown->device_count, room))
			return false;
		breakdown->devices[breakdown->device_count++] =
			(struct breakdown_device){.device = breakdown->operations[from].device};
		if (!breakdown_device(shared, breakdown->device_count - 1, from, to))
			return false;
		from = to;
	}
	return true;
}

bool breakdown_make(struct breakdown *breakdown)
{
	host_side(breakdown);
	if (breakdown->operation_count)
		sort_if_needed(breakdown->operations, breakdown->operation_count, sizeof *breakdown->operations,
			       by_device);
	struct breakdown_shared shared = {.breakdown = breakdown,
					  .step_thread = activity_find(breakdown->activity, breakdown->step_thread)};
	bool ok = devices(&shared);
	large_free(shared.call_starts);
	large_free(shared.started);
	free(shared.near);
	return ok;
}

void breakdown_free(struct breakdown *breakdown)
{
	for (size_t i = 0; i < breakdown->device_count; i++) {
		free(breakdown->devices[i].steps);
		large_free(breakdown->devices[i].idles);
		large_free(breakdown->devices[i].stretches);
	}
	free(breakdown->devices);
	breakdown->devices = NULL;
	breakdown->device_count = 0;
}
