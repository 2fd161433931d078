/* inference.c - see inference.h. Where gradient is switched on, an operator has a sequence number, unless it lies
 * inside of an operator that has one. So an operator without a number ran without gradient. It is inference if the
 * forward of the training runs the same operators. */
#include "inference.h"

#include "names.h"
#include "proto/base/array.h"
#include "proto/base/large.h"
#include "sorted.h"

#include <stdlib.h>

/* A longer time without any operator (ns) is no inference: a server waits, or Python works. */
#define PAUSE 10000000

void inference_prepare(struct phases *phases)
{
	int64_t graded_until = INT64_MIN, network_until = INT64_MIN;
	struct phases_operator *network = NULL;
	for (size_t i = 0; i < phases->count; i++) {
		struct phases_operator *item = &phases->items[i];
		if (!item->on_step_thread)
			continue;
		item->graded = item->sequence >= 0 || item->start < graded_until;
		if (item->sequence >= 0) {
			graded_until = item->end > graded_until ? item->end : graded_until;
			/* Autocast comes before autograd: an operator may have no number while operators inside of it
			 * have one. */
			if (network && item->start < network->end)
				network->graded = true;
		}
		if (item->network && item->start < network_until)
			item->network = 0;
		if (item->network) {
			network_until = item->end;
			network = item;
		}
	}
}

struct interval {
	int64_t start, end;
};

struct walk {
	const struct phases *phases;
	const struct breakdown *breakdown;
	struct activity *activity;
	struct interval *taken; /* times of marks of other phases; sorted by start */
	size_t taken_count;
	/* The run so far: operators of networks without gradient, and no training between them. */
	uint64_t operators; /* bits: which operators of networks */
	size_t count;	    /* how many operators of networks */
	size_t marks;	    /* marks of the activity before the run */
	bool open;
	bool pure;		  /* no operator with gradient came after the run's newest one */
	int64_t start, end, last; /* of operators without a mark; the end of the newest operator of any kind */
	bool trains;
};

static int by_start(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;
	return ORDER(x->start, y->start) ?: ORDER(x->end, y->end);
}

/* Takes the times of the step thread's marks that belong to training, or that somebody stated. Calls of modules and
 * input are neither. */
static bool take_marks(struct walk *walk)
{
	const struct activity_spans *marks = &walk->activity->marks;
	walk->taken = malloc((marks->count + 1) * sizeof *walk->taken);
	if (!walk->taken)
		return false;
	for (size_t i = 0; i < marks->count; i++) {
		const struct activity_span *mark = &marks->items[i];
		if (mark->thread == walk->breakdown->step_thread && mark->what != PHASE_INPUT &&
		    mark->name != ACTIVITY_MODULE)
			walk->taken[walk->taken_count++] = (struct interval){mark->start, mark->end};
	}
	sort_if_needed(walk->taken, walk->taken_count, sizeof *walk->taken, by_start);
	return true;
}

/* An operator that torch runs only without gradient is enough. Where nothing is trained, so is one that only networks
 * have. Otherwise the run needs all operators that some forward of the training has. */
static bool is_inference(const struct walk *walk)
{
	const struct phases *phases = walk->phases;
	for (int i = 1; i <= NAMES_NETWORK_MOST; i++)
		if (walk->operators >> (i - 1) & 1 &&
		    (names_network_fast(i) || (!walk->trains && !names_network_product(i))))
			return true;
	for (size_t i = 0; i < phases->forward_count; i++)
		if (!(phases->forwards[i].operators & ~walk->operators) && walk->count >= phases->forwards[i].count)
			return true;
	return false;
}

static void mark_piece(struct walk *walk)
{
	activity_mark(walk->activity, walk->breakdown->step_thread, walk->start, walk->end, PHASE_INFERENCE);
}

static void stop(struct walk *walk)
{
	if (!walk->open)
		return;
	mark_piece(walk);
	if (!is_inference(walk))
		walk->activity->marks.count = walk->marks;
	walk->open = false;
}

static void go_on(struct walk *walk, const struct phases_operator *item)
{
	if (!walk->open) {
		walk->open = true;
		walk->marks = walk->activity->marks.count;
		walk->operators = 0;
		walk->count = 0;
		walk->start = item->start;
	} else if (item->start - walk->last > PAUSE || item->start - walk->end > PAUSE) {
		mark_piece(walk);
		walk->start = item->start;
	}
	walk->operators |= UINT64_C(1) << (item->network - 1);
	walk->count++;
	walk->end = item->end;
	walk->pure = true;
}

static void look(struct walk *walk, const struct phases_operator *item)
{
	if (item->network && item->graded) {
		stop(walk);
	} else if (item->network) {
		go_on(walk, item);
	} else if (item->graded) {
		walk->pure = false;
	} else if (walk->open && walk->pure && item->takes_tensor && item->start >= walk->end &&
		   item->start - walk->end <= PAUSE) {
		/* Work that follows without gradient, such as the loss and the metrics, belongs to the run. */
		walk->end = item->end;
	}
	walk->last = item->end > walk->last ? item->end : walk->last;
}

static void walk_operators(struct walk *walk)
{
	const struct phases *phases = walk->phases;
	size_t at = 0;
	int64_t taken_until = INT64_MIN;
	walk->last = INT64_MIN / 2;
	for (size_t i = 0; i < phases->count; i++) {
		const struct phases_operator *item = &phases->items[i];
		large_go(sizeof *item);
		if (!item->on_step_thread || item->backward)
			continue;
		for (; at < walk->taken_count && walk->taken[at].start <= item->start; at++) {
			stop(walk);
			taken_until = walk->taken[at].end > taken_until ? walk->taken[at].end : taken_until;
		}
		if (item->start >= taken_until)
			look(walk, item);
	}
	stop(walk);
}

/* An imported file in which no operator has a sequence number does not tell whether numbers were recorded. */
static bool is_known(const struct phases *phases)
{
	if (phases->numbered)
		return true;
	for (size_t i = 0; i < phases->count; i++)
		if (phases->items[i].sequence >= 0)
			return true;
	return false;
}

bool inference_mark(const struct phases *phases, const struct breakdown *breakdown, struct activity *activity)
{
	struct walk walk = {.phases = phases, .breakdown = breakdown, .activity = activity};
	bool any = false;
	for (size_t i = 0; i < phases->count; i++) {
		const struct phases_operator *item = &phases->items[i];
		large_go(sizeof *item);
		walk.trains |= item->backward;
		any |= item->on_step_thread && item->network && !item->graded;
	}
	if (!any || !is_known(phases))
		return true;
	bool ok = take_marks(&walk);
	if (ok)
		walk_operators(&walk);
	free(walk.taken);
	return ok;
}
