/* sample_sums.c - see sample_sums.h. One thread. */
#include "sample_sums.h"

#include "client/ui/text.h"
#include "proto/base/array.h"
#include "store/stack_owner.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static int text_order(const struct sample_sum *one, const struct sample_sum *other)
{
	if (!one->place || !other->place)
		return ORDER(!!one->place, !!other->place);
	return strcmp(one->place->name, other->place->name) ?: strcmp(one->place->file, other->place->file);
}

static int function_order(const void *a, const void *b)
{
	return text_order(a, b);
}

static int line_order(const void *a, const void *b)
{
	const struct sample_sum *one = a, *other = b;
	int order = text_order(one, other);

	return order || !one->place ? order : ORDER(one->place->line, other->place->line);
}

static struct sample_sum *sum_of(struct sample_sums *sums, const struct sample_place *place)
{
	struct sample_sum like = {.place = place}, *sum, **found = tfind(&like, &sums->tree, sums->order);

	if (found)
		return *found;
	sum = need(malloc(sizeof *sum));
	*sum = like;
	need(tsearch(sum, &sums->tree, sums->order));
	NEED_ROOM(sums->rows, sums->count, sums->room);
	sums->rows[sums->count++] = sum;
	return sum;
}

static void keep(void *sum)
{
	(void)sum;
}

static void free_sums(struct sample_sums *sums)
{
	tdestroy(sums->tree, keep);
	for (size_t i = 0; i < sums->count; i++)
		free(sums->rows[i]);
	free(sums->rows);
}

double sample_ns(const struct sample_process *row, uint64_t looks)
{
	return row->looks ? (double)looks * (double)row->ns / (double)row->looks : 0;
}

/* Of a stack's frames the innermost one that is the program's own, or else a package's, torch's, Python's. NULL: no Python. */
static const struct sample_place *own_line(const struct sample_stack *stack)
{
	const struct sample_place *best = NULL;
	enum stack_owner owner = OWNER_PYTHON;

	for (size_t i = 0; i < stack->count; i++) {
		enum stack_owner of = stack_owner(stack->places[i]->file);

		if (!best || of > owner) {
			best = stack->places[i];
			owner = of;
		}
	}
	return best;
}

static void add_functions(struct sample_sums *sums, const struct sample_stack *stack, double runs, double waits)
{
	for (size_t i = 0; i < stack->count; i++) {
		struct sample_sum *sum = sum_of(sums, stack->places[i]);

		if (i == 0) {
			sum->self_runs += runs;
			sum->self_waits += waits;
		}
		/* One that calls itself is there once. */
		if (sum->counted == stack)
			continue;
		sum->counted = stack;
		sum->runs += runs;
		sum->waits += waits;
	}
}

static int by_time(const void *a, const void *b)
{
	const struct sample_sum *one = *(struct sample_sum *const *)a, *other = *(struct sample_sum *const *)b;

	return ORDER(other->self_runs, one->self_runs)
		       ?: ORDER(other->runs, one->runs) ?: ORDER(other->waits, one->waits) ?: line_order(one, other);
}

void sample_sum_up(const struct samples *samples, struct sample_whole *whole)
{
	*whole = (struct sample_whole){.lines = {.order = line_order}, .functions = {.order = function_order}};
	for (size_t i = 0; i < samples->count; i++) {
		const struct sample_process *row = samples->rows[i];

		for (size_t j = 0; j < row->stack_count; j++) {
			const struct sample_stack *stack = row->stacks[j];
			double runs = sample_ns(row, stack->runs), waits = sample_ns(row, stack->waits);
			struct sample_sum *line = sum_of(&whole->lines, own_line(stack));

			line->runs += runs;
			line->waits += waits;
			add_functions(&whole->functions, stack, runs, waits);
		}
		for (size_t j = 0; j < row->thread_count; j++)
			whole->runs += sample_ns(row, row->threads[j].runs);
	}
	if (whole->lines.count)
		qsort(whole->lines.rows, whole->lines.count, sizeof(struct sample_sum *), by_time);
	if (whole->functions.count)
		qsort(whole->functions.rows, whole->functions.count, sizeof(struct sample_sum *), by_time);
}

void sample_whole_free(struct sample_whole *whole)
{
	free_sums(&whole->lines);
	free_sums(&whole->functions);
}

const struct sample_place *sample_mostly(const struct sample_process *row, size_t thread)
{
	struct sample_sums sums = {.order = line_order};
	const struct sample_sum *most = NULL;

	for (size_t i = 0; i < row->stack_count; i++) {
		const struct sample_stack *stack = row->stacks[i];

		if (stack->thread == thread)
			sum_of(&sums, own_line(stack))->runs += (double)(stack->runs + stack->waits);
	}
	for (size_t i = 0; i < sums.count; i++)
		if (!most || sums.rows[i]->runs > most->runs)
			most = sums.rows[i];
	const struct sample_place *place = most ? most->place : NULL;
	free_sums(&sums);
	return place;
}
