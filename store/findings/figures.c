/* figures.c - see figures.h */
#include "figures.h"

#include "proto/base/array.h"

#include <stdlib.h>

static int by_id(const void *a, const void *b)
{
	const struct figure *x = a, *y = b;
	return ORDER(x->id, y->id);
}

/* The id that has most of the time in this list, summed up. */
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

struct figure figures_biggest(const struct claims *claims, enum finding_kind kind, int64_t *ret_all)
{
	struct figure *list = calloc(claims->named_count + 1, sizeof *list);
	size_t count = 0;
	*ret_all = 0;
	for (size_t i = 0; list && i < claims->named_count; i++) {
		const struct claims_stretch *stretch = &claims->named[i];
		const struct finding_interval *interval = &stretch->interval;
		if (stretch->kind != kind)
			continue;
		list[count++] = (struct figure){.id = kind == FINDING_STALL || !interval->outer ? interval->name
												: interval->outer,
						.call = interval->name,
						.ns = interval->end - interval->start,
						.count = 1};
		*ret_all += interval->end - interval->start;
	}
	struct figure found = most_of(list, count);
	free(list);
	return found;
}

double figures_percent(int64_t part, int64_t whole)
{
	return whole > 0 ? (double)part * 100 / (double)whole : 0;
}

double figures_mean_operations(const struct findings *findings, const struct claims *claims)
{
	double sum = 0;
	for (size_t i = findings->first; i < findings->last; i++)
		sum += (double)claims->steps[i].operations;
	return findings->last > findings->first ? sum / (double)(findings->last - findings->first) : 0;
}

double figures_mean_per_tensor(const struct findings *findings, const struct claims *claims)
{
	double sum = 0;
	for (size_t i = findings->first; i < findings->last; i++)
		sum += (double)claims->steps[i].per_tensor;
	return findings->last > findings->first ? sum / (double)(findings->last - findings->first) : 0;
}

int64_t figures_median_operation(const struct breakdown *breakdown, const struct findings *findings,
				 const struct claims *claims)
{
	const struct breakdown_device *device = &breakdown->devices[claims->device_index];
	size_t count = 0, room = device->operations_to - device->operations_from;
	int64_t *values = calloc(room + 1, sizeof *values), median = -1;
	int64_t from = breakdown->steps[findings->first].start, to = breakdown->steps[findings->last - 1].end;
	for (size_t i = device->operations_from; values && i < device->operations_to; i++)
		if (breakdown->operations[i].start >= from && breakdown->operations[i].start < to)
			values[count++] = breakdown->operations[i].end - breakdown->operations[i].start;
	if (count)
		median = array_value_at(values, count, count / 2);
	free(values);
	return median;
}

bool figures_same_operations(const struct findings *findings, const struct claims *claims)
{
	for (size_t i = findings->first; i < findings->last; i++)
		if (claims->steps[i].operations != claims->steps[findings->first].operations)
			return false;
	return findings->last > findings->first + 1;
}

int64_t figures_matrix(const struct breakdown *breakdown, const struct findings *findings, enum phase phase,
		       enum doing doing)
{
	int64_t sum = 0;
	for (size_t i = findings->first; i < findings->last; i++)
		sum += breakdown->steps[i].matrix[phase][doing];
	return sum;
}

int64_t figures_host_row(const struct breakdown *breakdown, const struct findings *findings, enum host_row row)
{
	int64_t sum = 0;
	for (size_t i = findings->first; i < findings->last; i++)
		sum += breakdown->steps[i].host[row];
	return sum;
}

struct figure figures_kernel(const struct breakdown *breakdown, const struct claims *claims, enum operation_kind kind)
{
	const struct breakdown_device *device = &breakdown->devices[claims->device_index];
	struct figure *list = calloc(device->operations_to - device->operations_from + 1, sizeof *list);
	size_t count = 0;
	for (size_t i = device->operations_from; list && i < device->operations_to; i++) {
		const struct breakdown_operation *operation = &breakdown->operations[i];
		if (operation->kind == kind)
			list[count++] = (struct figure){.id = operation->name, .ns = operation->end - operation->start};
	}
	struct figure found = most_of(list, count);
	free(list);
	return found;
}
