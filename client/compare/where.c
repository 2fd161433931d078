/* where.c - see where.h. */
#include "where.h"

#include "client/report/query.h"
#include "client/ui/text.h"

#include "store/breakdown_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static bool may_go_on(void *context)
{
	return bounds_row(context);
}

static void load(const struct reader *reader, struct breakdown_capture *ret)
{
	const struct breakdown_watch watch = {.row = may_go_on, .context = reader->bounds};
	int error;
	if (breakdown_capture_load(reader->db, &watch, ret, &error))
		return;
	breakdown_capture_free(ret);
	if (error == SQLITE_NOMEM)
		need(NULL);
	report_damaged(reader);
}

static void add_rows(struct gather *gather, const struct breakdown_row *rows, size_t count, int group,
		     const char *parent)
{
	for (size_t i = 0; i < count; i++) {
		struct compare_row *row = gather_row(gather, rows[i].title);
		row->word = rows[i].word;
		row->parent = parent;
		row->group = group;
	}
}

/* The rows of a device: those of the sum, then the causes of the last of them, idle. */
#define GROUP_ROWS (DEVICE_ROWS + IDLE_ROWS)

static void add_groups(struct gather *gather, size_t groups)
{
	for (size_t group = 0; group < groups; group++) {
		add_rows(gather, breakdown_device_rows, DEVICE_ROWS, (int)group, NULL);
		add_rows(gather, breakdown_idle_rows, IDLE_ROWS, (int)group, breakdown_device_rows[DEVICE_IDLE].word);
	}
	add_rows(gather, breakdown_host_rows, HOST_ROWS, -1, NULL);
}

static void add_step(struct gather *gather, const struct side *side, const struct breakdown *breakdown, size_t step,
		     size_t unit)
{
	struct compare_row *row = gather->table->rows;
	for (size_t group = 0; group < gather->table->groups; group++) {
		const struct breakdown_device_step *device = &breakdown->devices[group].steps[step];
		for (size_t i = 0; i < DEVICE_ROWS; i++)
			gather_add(gather, row++, side, unit, 0, (double)device->rows[i]);
		for (size_t i = 0; i < IDLE_ROWS; i++)
			gather_add(gather, row++, side, unit, 0, (double)device->idle[i]);
	}
	for (size_t i = 0; i < HOST_ROWS; i++)
		gather_add(gather, row++, side, unit, 0, (double)breakdown->steps[step].host[i]);
}

struct loaded {
	size_t devices; /* the fewest of any capture */
	bool host, device;
	char doubt[256];
};

/* Loads each capture's breakdown: to see what there is, then to add it up. */
static void each_breakdown(struct gather *gather, const struct side *side, struct loaded *look)
{
	for (size_t c = 0; c < side->count; c++) {
		const struct side_capture *capture = &side->captures[c];
		struct breakdown_capture one;
		load(&capture->capture.reader, &one);
		if (look) {
			look->devices =
				one.breakdown.device_count < look->devices ? one.breakdown.device_count : look->devices;
			look->device = look->device && one.device;
			look->host = look->host && one.host;
			if (one.doubt[0])
				snprintf(look->doubt, sizeof look->doubt, "%s", one.doubt);
		}
		for (size_t i = 0; !look && i < capture->count && i < one.breakdown.step_count; i++)
			if (capture->steps[i].unit != SIZE_MAX)
				add_step(gather, side, &one.breakdown, i, capture->steps[i].unit);
		breakdown_capture_free(&one);
	}
}

/* Whole ns a step, such that the rows add up to the step: each gets what the sum so far has more than before it. */
static void round_group(struct compare_row *rows, size_t count, const struct side *side, bool first)
{
	struct compare_figures *largest = first ? &rows[0].a : &rows[0].b;
	double sum = 0;
	int64_t before = 0;
	for (size_t i = 0; i < count; i++) {
		struct compare_figures *figures = first ? &rows[i].a : &rows[i].b;
		sum += figures->sum;
		int64_t now = llround(sum / (double)side->units);
		figures->mean = now - before;
		before = now;
		if (figures->mean > largest->mean)
			largest = figures;
	}
	/* Averages over ranks are no whole numbers: the last ns may be missing. */
	largest->mean += llround(side_wall(side)) - before;
}

/* A device's rows before idle, then the causes of idle; idle is their sum. */
static void round_device(struct compare_row *rows, const struct side *side, bool first)
{
	struct compare_row *idle = &rows[DEVICE_IDLE], leaves[GROUP_ROWS - 1];
	size_t n = 0;
	int64_t sum = 0;
	for (size_t i = 0; i < GROUP_ROWS; i++)
		if (&rows[i] != idle)
			leaves[n++] = rows[i];
	round_group(leaves, n, side, first);
	n = 0;
	for (size_t i = 0; i < GROUP_ROWS; i++) {
		if (&rows[i] == idle)
			continue;
		rows[i] = leaves[n++];
		if (rows[i].parent)
			sum += first ? rows[i].a.mean : rows[i].b.mean;
	}
	*(first ? &idle->a.mean : &idle->b.mean) = sum;
}

static void round_all(struct gather *gather, const struct side *side)
{
	struct compare_table *table = gather->table;
	bool first = side == gather->a;
	for (size_t group = 0; group < table->groups; group++)
		round_device(table->rows + group * GROUP_ROWS, side, first);
	round_group(table->rows + table->groups * GROUP_ROWS, HOST_ROWS, side, first);
}

/* Rows without any time, and those of a side that was not recorded. */
static void drop_zero(struct compare_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		struct compare_row *row = &table->rows[i];
		if ((row->a.sum <= 0 && row->b.sum <= 0) || (row->group < 0 && !table->host))
			row->a.seen = row->b.seen = 0;
	}
	compare_drop_empty(table);
}

void compare_breakdown(const struct side *a, const struct side *b, struct compare_table *ret)
{
	struct loaded of_a = {.devices = SIZE_MAX, .host = true, .device = true}, of_b = of_a;
	*ret = (struct compare_table){0};
	struct gather gather = {.a = a, .b = b, .table = ret};
	each_breakdown(&gather, a, &of_a);
	each_breakdown(&gather, b, &of_b);
	ret->host = of_a.host && of_b.host;
	if (of_a.device && of_b.device)
		ret->groups = of_a.devices < of_b.devices ? of_a.devices : of_b.devices;
	ret->recorded_a = of_a.host || of_a.device;
	ret->recorded_b = of_b.host || of_b.device;
	snprintf(ret->doubt, sizeof ret->doubt, "%s", of_a.doubt[0] ? of_a.doubt : of_b.doubt);
	add_groups(&gather, ret->groups);
	each_breakdown(&gather, a, NULL);
	each_breakdown(&gather, b, NULL);
	round_all(&gather, a);
	round_all(&gather, b);
	drop_zero(ret);
	gather_test(&gather);
}
