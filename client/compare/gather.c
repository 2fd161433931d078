/* gather.c - see gather.h. */
#include "gather.h"

#include "client/ui/figure.h"
#include "client/ui/text.h"

#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* More names than anybody reads are one row. */
#define NAMES_MOST 20000
#define OTHER_NAMES "(other names)"
/* What takes less than this part of a step is not tested, so that many small things do not cost the large ones their chance. */
#define RELEVANT 0.0005
/* A difference of less than this part of a step is of no interest, however exact. */
#define LEAST 0.0001

const char *compare_change_word(enum compare_change change)
{
	static const char *const words[] = {NULL, "more", "less", "new", "gone"};
	return words[change];
}

/* tsearch(3) has no context. */
static const struct compare_table *tree_table;

static int by_name(const void *a, const void *b)
{
	return strcmp(tree_table->rows[(size_t)(uintptr_t)a - 1].name, tree_table->rows[(size_t)(uintptr_t)b - 1].name);
}

struct compare_row *gather_row(struct gather *gather, const char *name)
{
	struct compare_table *table = gather->table;
	if (table->count == table->room) {
		table->room = table->room ? table->room * 2 : 64;
		table->rows = need(reallocarray(table->rows, table->room, sizeof *table->rows));
	}
	size_t values = gather->a->blocks.count + gather->b->blocks.count;
	table->rows[table->count] = (struct compare_row){
		.name = need(strdup(name)), .p = NAN, .group = -1, .values = need(calloc(values, sizeof(double)))};
	return &table->rows[table->count++];
}

static void drop_last(struct compare_table *table)
{
	table->count--;
	free(table->rows[table->count].name);
	free(table->rows[table->count].values);
}

/* The row of a name, made where there is none. */
struct compare_row *gather_named(struct gather *gather, const char *name)
{
	struct compare_table *table = gather->table;
	tree_table = table;
	gather_row(gather, name);
	void *key = (void *)(uintptr_t)table->count, **found = tfind(key, &gather->tree, by_name);
	if (!found && table->count > NAMES_MOST) {
		drop_last(table);
		gather_row(gather, OTHER_NAMES);
	}
	if (!found)
		found = need(tsearch(key, &gather->tree, by_name));
	if (*found != key)
		drop_last(table);
	return &table->rows[(size_t)(uintptr_t)*found - 1];
}

void gather_add(struct gather *gather, struct compare_row *row, const struct side *side, size_t unit, double calls,
		double ns)
{
	bool first = side == gather->a;
	struct compare_figures *to = first ? &row->a : &row->b;
	double weight = 1 / side->ranks[unit];
	size_t block = shift_block(&side->blocks, unit);
	to->sum += ns * weight;
	to->calls += calls * weight;
	to->seen += weight;
	if (block != SIZE_MAX)
		row->values[(first ? 0 : gather->a->blocks.count) + block] += ns * weight / (double)side->blocks.length;
}

int64_t gather_whole(double ns)
{
	int64_t limit = FIGURE_LIMIT / 8;
	double most = (double)limit;
	return llround(fmin(fmax(ns, -most), most));
}

/* --- the test --- */

/* Is it enough of a step that it matters? The same whatever side has it. */
static bool is_relevant(const struct gather *gather, const struct compare_row *row)
{
	const struct side *a = gather->a, *b = gather->b;
	double units = (double)(a->units + b->units);
	double wall = (side_wall(a) * (double)a->units + side_wall(b) * (double)b->units) / units;
	return (row->a.sum + row->b.sum) / units >= RELEVANT * wall;
}

static enum compare_change change_of(const struct compare_row *row)
{
	if (!row->word && row->a.seen <= 0 && row->b.seen > 0)
		return CHANGE_NEW;
	if (!row->word && row->b.seen <= 0 && row->a.seen > 0)
		return CHANGE_GONE;
	if (!(row->p <= SHIFT_LEVEL))
		return CHANGE_NONE;
	return row->b.mean > row->a.mean ? CHANGE_MORE : row->b.mean < row->a.mean ? CHANGE_LESS : CHANGE_NONE;
}

void gather_test(struct gather *gather)
{
	struct compare_table *table = gather->table;
	size_t a = gather->a->blocks.count, b = gather->b->blocks.count, n = a + b, tested = 0;
	double *values = need(malloc((table->count * n + 1) * sizeof *values));
	double *p = need(malloc((table->count + 1) * sizeof *p));
	for (size_t i = 0; i < table->count; i++)
		if (is_relevant(gather, &table->rows[i]))
			memcpy(values + n * tested++, table->rows[i].values, n * sizeof *values);
	shift_test(values, tested, a, b, LEAST * fmin(side_wall(gather->a), side_wall(gather->b)), SHIFT_EITHER, p);
	tested = 0;
	for (size_t i = 0; i < table->count; i++) {
		if (is_relevant(gather, &table->rows[i]))
			table->rows[i].p = p[tested++];
		table->rows[i].change = change_of(&table->rows[i]);
	}
	free(values);
	free(p);
}

double compare_wall_p(const struct side *a, const struct side *b, enum shift_direction direction)
{
	double values[2 * SHIFT_MOST], p;
	side_walls(a, values);
	side_walls(b, values + a->blocks.count);
	shift_test(values, 1, a->blocks.count, b->blocks.count, 0, direction, &p);
	return p;
}

static void forget(void *nothing)
{
	(void)nothing;
}

void gather_end_names(struct gather *gather)
{
	tdestroy(gather->tree, forget);
	gather->tree = NULL;
}

/* Rows that nothing is in, such as those that were joined with others. */
void compare_drop_empty(struct compare_table *table)
{
	size_t kept = 0;
	for (size_t i = 0; i < table->count; i++) {
		if (table->rows[i].a.seen > 0 || table->rows[i].b.seen > 0) {
			table->rows[kept++] = table->rows[i];
			continue;
		}
		free(table->rows[i].name);
		free(table->rows[i].values);
	}
	table->count = kept;
}

void compare_free(struct compare_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		free(table->rows[i].name);
		free(table->rows[i].values);
	}
	free(table->rows);
	*table = (struct compare_table){0};
}
