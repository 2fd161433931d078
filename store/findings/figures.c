/* figures.c - see figures.h */
#include "figures.h"

#include "proto/base/array.h"
#include "proto/base/large.h"

#include <stdlib.h>

static int by_id(const void *a, const void *b)
{
	const struct figure *x = a, *y = b;
	return ORDER(x->id, y->id);
}

/* Adds up the list by id, and returns the id with most of the time. */
static struct figure most_of(struct figure *list, size_t count)
{
	struct figure found = {0};
	if (list && count)
		qsort(list, count, sizeof *list, by_id);
	for (size_t i = 0; i < count;) {
		struct figure sum = list[i];
		for (i++; i < count && list[i].id == sum.id; i++) {
			sum.ns += list[i].ns;
			sum.count += list[i].count;
		}
		if (sum.ns > found.ns)
			found = sum;
	}
	return found;
}

static bool is_judged(const struct findings *findings, const struct claims *claims, size_t step)
{
	return step >= findings->first && step < findings->last && !(claims->unlike && claims->unlike[step]);
}

/* The operator around a stretch names it; without one, the call does. */
static uint32_t told_by(const struct claims_stretch *stretch)
{
	return stretch->kind == FINDING_STALL || !stretch->interval.outer ? stretch->interval.name
									  : stretch->interval.outer;
}

struct figure figures_biggest(const struct claims *claims, enum finding_kind kind, int64_t *ret_all)
{
	struct figure *list = calloc(claims->named_count + 1, sizeof *list), found = {0};
	*ret_all = 0;
	/* First the operators, then the calls inside of the operator that has most. */
	for (int calls = 0; list && calls < 2; calls++) {
		size_t count = 0;
		for (size_t i = 0; i < claims->named_count; i++) {
			const struct claims_stretch *stretch = &claims->named[i];
			int64_t ns = stretch->interval.end - stretch->interval.start;
			if (stretch->kind != kind || (calls && told_by(stretch) != found.id))
				continue;
			list[count++] = (struct figure){
				.id = calls ? stretch->interval.name : told_by(stretch), .ns = ns, .count = 1};
			*ret_all += calls ? 0 : ns;
		}
		struct figure most = most_of(list, count);
		if (!calls)
			found = most;
		else
			found.call = most.id;
	}
	free(list);
	return found;
}

struct call_of {
	uint32_t thread;
	int64_t span;
};

static int by_call(const void *a, const void *b)
{
	const struct call_of *x = a, *y = b;
	return ORDER(x->thread, y->thread) ?: ORDER(x->span, y->span);
}

uint64_t figures_waits(const struct claims *claims)
{
	struct call_of *list = calloc(claims->named_count + 1, sizeof *list);
	uint64_t found = 0;
	size_t count = 0;
	for (size_t i = 0; list && i < claims->named_count; i++)
		if (claims->named[i].kind == FINDING_SYNC)
			list[count++] = (struct call_of){claims->named[i].interval.thread, claims->named[i].span};
	if (count)
		qsort(list, count, sizeof *list, by_call);
	/* Nameless stretches cannot be told apart: each counts. */
	for (size_t i = 0; i < count; i++)
		found += !i || list[i].span == CLAIMS_NAMELESS || by_call(&list[i - 1], &list[i]) != 0;
	free(list);
	return found;
}

int64_t figures_longest(const struct claims *claims, enum finding_kind kind)
{
	int64_t longest = 0;
	for (size_t i = 0; i < claims->longest_count[kind]; i++) {
		const struct finding_interval *interval = &claims->longest[kind][i].interval;
		longest = interval->end - interval->start > longest ? interval->end - interval->start : longest;
	}
	return longest;
}

enum idle_row figures_late(const struct claims *claims, enum finding_kind kind, int64_t *ret_ns, int64_t *ret_all)
{
	size_t found = 0;
	*ret_all = 0;
	for (size_t row = 0; row < IDLE_ROWS; row++) {
		*ret_all += claims->late[kind][row];
		found = claims->late[kind][row] > claims->late[kind][found] ? row : found;
	}
	*ret_ns = claims->late[kind][found];
	return (enum idle_row)found;
}

double figures_percent(int64_t part, int64_t whole)
{
	return whole > 0 ? (double)part * 100 / (double)whole : 0;
}

double figures_mean(const struct findings *findings, uint64_t count)
{
	return findings->judged ? (double)count / (double)findings->judged : 0;
}

double figures_mean_operations(const struct findings *findings, const struct claims *claims)
{
	uint64_t sum = 0;
	for (size_t i = findings->first; i < findings->last; i++)
		sum += is_judged(findings, claims, i) ? claims->steps[i].operations : 0;
	return figures_mean(findings, sum);
}

double figures_mean_per_tensor(const struct findings *findings, const struct claims *claims)
{
	uint64_t sum = 0;
	for (size_t i = findings->first; i < findings->last; i++)
		sum += is_judged(findings, claims, i) ? claims->steps[i].per_tensor : 0;
	return figures_mean(findings, sum);
}

/* The device's operations that begin in judged steps, one by one. */
struct judged_operations {
	const struct breakdown *breakdown;
	const struct findings *findings;
	const struct claims *claims;
	size_t at, step;
};

static const struct breakdown_operation *next_operation(struct judged_operations *all)
{
	const struct breakdown *breakdown = all->breakdown;
	const struct breakdown_device *device = &breakdown->devices[all->claims->device_index];
	for (size_t i = all->at > device->operations_from ? all->at : device->operations_from;
	     i < device->operations_to; i++) {
		const struct breakdown_operation *operation = &breakdown->operations[i];
		large_go(sizeof *operation + sizeof(struct figure));
		while (all->step < breakdown->step_count && breakdown->steps[all->step].end <= operation->start)
			all->step++;
		if (all->step == breakdown->step_count)
			break;
		if (operation->start < breakdown->steps[all->step].start ||
		    !is_judged(all->findings, all->claims, all->step))
			continue;
		all->at = i + 1;
		return operation;
	}
	return NULL;
}

int64_t figures_median_operation(const struct breakdown *breakdown, const struct findings *findings,
				 const struct claims *claims)
{
	const struct breakdown_device *device = &breakdown->devices[claims->device_index];
	struct judged_operations all = {breakdown, findings, claims, 0, 0};
	const struct breakdown_operation *operation;
	int64_t *values = large_get(device->operations_to - device->operations_from + 1, sizeof *values), median = -1;
	size_t count = 0;
	while (values && (operation = next_operation(&all)) != NULL)
		values[count++] = operation->end - operation->start;
	if (count)
		median = array_value_at(values, count, count / 2);
	large_free(values);
	return median;
}

bool figures_same_operations(const struct findings *findings, const struct claims *claims)
{
	const struct claims_step *first = NULL;
	for (size_t i = findings->first; i < findings->last; i++) {
		if (!is_judged(findings, claims, i))
			continue;
		if (first && claims->steps[i].operations != first->operations)
			return false;
		first = first ? first : &claims->steps[i];
	}
	return findings->judged > 1;
}

int64_t figures_matrix(const struct breakdown *breakdown, const struct findings *findings, const struct claims *claims,
		       enum phase phase, enum doing doing)
{
	int64_t sum = 0;
	for (size_t i = findings->first; i < findings->last; i++)
		sum += is_judged(findings, claims, i) ? breakdown->steps[i].matrix[phase][doing] : 0;
	return sum;
}

int64_t figures_waited(const struct findings *findings, const struct claims *claims, const int64_t *waited)
{
	int64_t sum = 0;
	for (size_t i = findings->first; i < findings->last && sum >= 0; i++)
		if (is_judged(findings, claims, i))
			sum = waited[i] < 0 ? -1 : sum + waited[i];
	return sum;
}

int64_t figures_host_row(const struct breakdown *breakdown, const struct findings *findings,
			 const struct claims *claims, enum host_row row)
{
	int64_t sum = 0;
	for (size_t i = findings->first; i < findings->last; i++)
		sum += is_judged(findings, claims, i) ? breakdown->steps[i].host[row] : 0;
	return sum;
}

struct figure figures_operations(const struct breakdown *breakdown, const struct findings *findings,
				 const struct claims *claims, figures_wanted *wanted, struct figure *ret_all)
{
	const struct breakdown_device *device = &breakdown->devices[claims->device_index];
	struct judged_operations all = {breakdown, findings, claims, 0, 0};
	const struct breakdown_operation *operation;
	struct figure *list = large_get(device->operations_to - device->operations_from + 1, sizeof *list);
	size_t count = 0;
	*ret_all = (struct figure){0};
	while (list && (operation = next_operation(&all)) != NULL) {
		if (!wanted(operation))
			continue;
		list[count++] =
			(struct figure){.id = operation->name, .ns = operation->end - operation->start, .count = 1};
		ret_all->ns += operation->end - operation->start;
		ret_all->count++;
	}
	struct figure found = most_of(list, count);
	large_free(list);
	return found;
}
