/* steps.c - see steps.h. */
#include "steps.h"
#include "proto/base/array.h"

#include <stdlib.h>

/* A step that is longer than the median by this factor is unlike the others; UNLIKE_FEW if there are few steps. */
#define UNLIKE_FEW 2.0
#define UNLIKE_MANY 1.5
#define MANY_STEPS 5
/* It must also be longer by so many times the usual difference from the median. */
#define UNLIKE_SPREAD 6
/* If more than this part of the steps are so, they are no exception. */
#define UNLIKE_PART 4
/* An operation counts as queued at so many boundaries of steps at most: a stream's queue holds about a thousand
 * launches. */
#define QUEUED_STEPS 1024
/* Runs are searched among so many steps. */
#define RUN_STEPS 4096

static int64_t wall_of(const struct breakdown_step *step)
{
	return step->end - step->start;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return ORDER(x, y);
}

static int64_t middle(int64_t *values, size_t count)
{
	qsort(values, count, sizeof *values, by_value);
	return count % 2 ? values[count / 2] : values[count / 2 - 1] + (values[count / 2] - values[count / 2 - 1]) / 2;
}

/* unusual: work of some steps that others do not do (enum breakdown_held). */
static bool holds(const struct breakdown *breakdown, size_t step, unsigned unusual)
{
	return breakdown_holds(&breakdown->steps[step]) & unusual;
}

bool steps_unlike(const struct breakdown *breakdown, size_t first, size_t last, bool *unlike, size_t *ret_count)
{
	size_t count = last - first, found = 0, like = 0;
	const unsigned unusual = breakdown_left_out(breakdown, first, last);
	*ret_count = 0;
	for (size_t i = first; i < last; i++) {
		unlike[i] = holds(breakdown, i, unusual);
		*ret_count += unlike[i];
	}
	if (count - *ret_count < 3)
		return true;
	count -= *ret_count;
	int64_t *values = calloc(count, sizeof *values);
	if (!values)
		return false;
	/* Steps that hold an evaluation or a compilation are known to be unlike. */
	for (size_t i = first; i < last; i++)
		if (!holds(breakdown, i, unusual))
			values[like++] = wall_of(&breakdown->steps[i]);
	int64_t median = middle(values, like);
	for (size_t i = 0; i < like; i++)
		values[i] = llabs(values[i] - median);
	double spread = (double)middle(values, like);
	free(values);
	double factor = count < MANY_STEPS ? UNLIKE_FEW : UNLIKE_MANY;
	for (size_t i = first; i < last; i++) {
		double wall = (double)wall_of(&breakdown->steps[i]);
		if (unlike[i])
			continue;
		unlike[i] = wall > factor * (double)median && wall - (double)median > UNLIKE_SPREAD * spread;
		found += unlike[i];
	}
	if (found > (count < UNLIKE_PART ? 1 : count / UNLIKE_PART)) {
		for (size_t i = first; i < last; i++)
			unlike[i] = holds(breakdown, i, unusual);
		found = 0;
	}
	*ret_count += found;
	return true;
}

/* How many boundaries of the steps [first, last) lie before `time`: starts, and the end of the last step. */
static size_t boundaries_before(const struct breakdown *breakdown, size_t first, size_t last, int64_t time)
{
	size_t low = first, high = last;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (breakdown->steps[middle].start < time)
			low = middle + 1;
		else
			high = middle;
	}
	return low - first + (low == last && breakdown->steps[last - 1].end < time);
}

static int64_t launched_at(const struct breakdown *breakdown, const struct breakdown_operation *operation)
{
	if (operation->before)
		return INT64_MIN;
	return operation->call < breakdown->call_count ? breakdown->calls[operation->call].start : operation->start;
}

/* For each boundary of steps: the device time after it of work that was launched before it; owned by the caller.
 * NULL: no memory. */
static int64_t *backlogs(const struct breakdown *breakdown, const struct breakdown_device *device, size_t first,
			 size_t last)
{
	int64_t *queued = calloc(last - first + 1, sizeof *queued), *until = calloc(last - first + 1, sizeof *until);
	for (size_t i = device->operations_from; queued && until && i < device->operations_to; i++) {
		const struct breakdown_operation *operation = &breakdown->operations[i];
		int64_t launched = launched_at(breakdown, operation);
		size_t at = boundaries_before(breakdown, first, last, operation->end);
		for (size_t n = 0; at > 0 && n < QUEUED_STEPS; n++) {
			size_t step = first + --at;
			int64_t time = step == last ? breakdown->steps[last - 1].end : breakdown->steps[step].start;
			int64_t start = operation->start > time ? operation->start : time;
			if (time <= launched)
				break;
			/* Operations come by start. Time in which another stream works, too, counts once. */
			start = start > until[at] ? start : until[at];
			if (operation->end <= start)
				continue;
			queued[at] += operation->end - start;
			until[at] = operation->end;
		}
	}
	free(until);
	return queued;
}

bool steps_balanced(const struct breakdown *breakdown, size_t device, size_t *first, size_t *last)
{
	size_t count = *last - *first, best = 0, best_at = 0;
	if (count > RUN_STEPS)
		count = RUN_STEPS;
	if (!count)
		return true;
	int64_t *queued = backlogs(breakdown, &breakdown->devices[device], *first, *first + count);
	if (!queued)
		return false;
	for (size_t i = 0; i + best < count; i++) {
		for (size_t j = count; j > i + best; j--) {
			int64_t wall = breakdown->steps[*first + j - 1].end - breakdown->steps[*first + i].start;
			if (llabs(queued[j] - queued[i]) <= wall / 10) {
				best = j - i;
				best_at = i;
				break;
			}
		}
	}
	free(queued);
	*last = *first + best_at + best;
	*first += best_at;
	return true;
}
