/* phases.c - see phases.h. */
#include "phases.h"

#include "inference.h"
#include "purpose.h"
#include "sorted.h"
#include "proto/base/array.h"
#include "proto/base/large.h"

#include <stdlib.h>

void phases_add(struct phases *phases, const struct phases_operator *item)
{
	if (phases->failed)
		return;
	if (!LARGE_GROW(phases->items, phases->count, phases->room)) {
		phases->failed = true;
		return;
	}
	phases->items[phases->count++] = *item;
}

static int by_start(const void *a, const void *b)
{
	const struct phases_operator *x = a, *y = b;
	/* An enclosing operator comes first. */
	return ORDER(x->start, y->start) ?: ORDER(y->end, x->end);
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return ORDER(x, y);
}

/* Starts of steps, and of the step thread's operators that do not lie inside of one of autograd's: a backward ends
 * before each of these. */
struct borders {
	int64_t *times; /* sorted */
	size_t count;
};

static void find_borders(const struct phases *phases, const struct breakdown *breakdown, struct borders *ret)
{
	int64_t inside = INT64_MIN;
	for (size_t i = 0; i < breakdown->step_count; i++)
		ret->times[ret->count++] = breakdown->steps[i].start;
	for (size_t i = 0; i < phases->count; i++) {
		const struct phases_operator *item = &phases->items[i];
		large_go(sizeof *item);
		if (!item->on_step_thread)
			continue;
		if (item->backward && item->end > inside)
			inside = item->end;
		else if (!item->backward && item->start >= inside)
			ret->times[ret->count++] = item->start;
	}
	sort_if_needed(ret->times, ret->count, sizeof *ret->times, by_value);
}

static int64_t border_after(const struct borders *borders, int64_t time)
{
	size_t low = ARRAY_BEFORE(borders->count, middle, borders->times[middle] <= time);
	return low < borders->count ? borders->times[low] : INT64_MAX;
}

static bool returns(const int64_t *sequences, size_t count, int64_t wanted)
{
	return count && bsearch(&wanted, sequences, count, sizeof *sequences, by_value);
}

static void keep_forward(struct phases *phases, uint64_t operators, size_t count)
{
	size_t at = 0;
	while (at < phases->forward_count && phases->forwards[at].operators != operators)
		at++;
	if (!count || at == PHASES_FORWARDS)
		return;
	if (at == phases->forward_count)
		phases->forwards[phases->forward_count++] = (struct phases_forward){operators, count};
	else if (count < phases->forwards[at].count)
		phases->forwards[at].count = count;
}

/* If the thread ran no operator for so long, the forward begins after that pause, unless an operator of a network
 * came before it. */
#define FORWARD_PAUSE_NS 100000

/* A forward that is being looked at. */
struct forward {
	int64_t start, end, sequence;
	bool alone; /* all operators so far whose number returns have this number: perhaps none of them is differentiated yet */
	bool without; /* after them a network ran without gradient */
	bool begun;   /* one of them was an operator of a network */
	int64_t seen; /* the end of the latest operator so far */
	uint64_t operators;
	size_t count;
};

static void take_forward(struct forward *forward, const struct phases_operator *item, bool back)
{
	/* Sequence numbers count differentiated operators. This operator has the same number as those before it, so
	 * none of those was differentiated; and a network ran without gradient after them. So the forward pass begins
	 * here. */
	if (back && forward->without && forward->alone && item->sequence == forward->sequence)
		forward->start = INT64_MAX;
	/* An operator that is not differentiated has the number of the next one that is. So a loss that is read after
	 * the optimizer's step has the number of the next forward pass, although the thread may wait long between
	 * them. */
	if (back && !forward->begun && forward->alone && item->sequence == forward->sequence &&
	    item->start - FORWARD_PAUSE_NS >= forward->seen)
		forward->start = INT64_MAX;
	if (back && forward->start == INT64_MAX)
		*forward = (struct forward){.start = item->start,
					    .end = INT64_MIN,
					    .sequence = item->sequence,
					    .alone = true,
					    .seen = item->end};
	if (item->end > forward->seen)
		forward->seen = item->end;
	if (back) {
		forward->alone &= item->sequence == forward->sequence;
		forward->end = item->end > forward->end ? item->end : forward->end;
	} else if (item->network && !item->graded) {
		forward->without = true;
	}
	forward->begun |= back && item->network;
	if (item->network && (back || item->start < forward->end)) {
		forward->operators |= UINT64_C(1) << (item->network - 1);
		forward->count++;
	}
}

/* Marks the forward between two backwards. It lasts from the first to the last of the step thread's operators whose
 * numbers return in the backward. */
static void mark_forward(struct phases *phases, const struct breakdown *breakdown, struct activity *activity,
			 int64_t from, int64_t to, const int64_t *sequences, size_t count, size_t *at)
{
	struct forward forward = {.start = INT64_MAX, .end = INT64_MIN};
	for (; *at < phases->count && phases->items[*at].start < to; (*at)++) {
		const struct phases_operator *item = &phases->items[*at];
		large_go(sizeof *item);
		if (item->start >= from && !item->backward && item->on_step_thread)
			take_forward(&forward, item, returns(sequences, count, item->sequence));
	}
	if (forward.start < forward.end) {
		activity_mark(activity, breakdown->step_thread, forward.start, forward.end < to ? forward.end : to,
			      PHASE_FORWARD);
		keep_forward(phases, forward.operators, forward.count);
	}
}

static void mark(struct phases *phases, const struct breakdown *breakdown, struct activity *activity,
		 const struct borders *borders, const int64_t *sequences, size_t count)
{
	int64_t before = INT64_MIN;
	size_t forward = 0;
	for (size_t i = 0; i < phases->count;) {
		large_go(sizeof *phases->items);
		if (!phases->items[i].backward) {
			i++;
			continue;
		}
		int64_t start = phases->items[i].start, border = border_after(borders, start), end = start;
		for (; i < phases->count && phases->items[i].start < border; i++)
			if (phases->items[i].backward && phases->items[i].end > end)
				end = phases->items[i].end;
		end = end < border ? end : border;
		activity_mark(activity, breakdown->step_thread, start, end, PHASE_BACKWARD);
		mark_forward(phases, breakdown, activity, before, start, sequences, count, &forward);
		before = end;
	}
}

/* A mark of evaluation with a backward in it means something else, and is left out. */
static void leave_out_trained(const struct phases *phases, struct activity *activity)
{
	size_t kept = 0;
	for (size_t i = 0; i < activity->marks.count; i++) {
		const struct activity_span *mark = &activity->marks.items[i];
		bool trained = false;
		if (mark->what >= PHASE_VALIDATION) {
			size_t low =
				ARRAY_BEFORE(phases->backward_count, middle, phases->backwards[middle] < mark->start);
			trained = low < phases->backward_count && phases->backwards[low] < mark->end;
		}
		if (!trained)
			activity->marks.items[kept++] = *mark;
	}
	activity->marks.count = kept;
}

bool phases_mark(struct phases *phases, const struct breakdown *breakdown, struct activity *activity)
{
	if (phases->failed)
		return false;
	if (!phases->count)
		return true;
	sort_if_needed(phases->items, phases->count, sizeof *phases->items, by_start);
	/* Not cleared: most of the memory is not touched. */
	struct borders borders = {.times = large_get(phases->count + breakdown->step_count, sizeof *borders.times)};
	int64_t *sequences = large_get(phases->count, sizeof *sequences);
	phases->backwards = large_get(phases->count, sizeof *phases->backwards);
	bool ok = borders.times && sequences && phases->backwards;
	if (ok) {
		size_t count = 0;
		for (size_t i = 0; i < phases->count; i++) {
			large_go(sizeof *phases->items);
			if (phases->items[i].backward)
				phases->backwards[phases->backward_count++] = phases->items[i].start;
			if (phases->items[i].backward && phases->items[i].sequence >= 0)
				sequences[count++] = phases->items[i].sequence;
		}
		inference_prepare(phases);
		leave_out_trained(phases, activity);
		sort_if_needed(sequences, count, sizeof *sequences, by_value);
		find_borders(phases, breakdown, &borders);
		purpose_mark(phases, breakdown, activity, sequences, count);
		mark(phases, breakdown, activity, &borders, sequences, count);
		phases->inferred = activity->marks.count + 1;
		ok = inference_mark(phases, breakdown, activity);
	}
	large_free(borders.times);
	large_free(sequences);
	return ok;
}

void phases_free(struct phases *phases)
{
	large_free(phases->items);
	large_free(phases->backwards);
	*phases = (struct phases){0};
}
