/* where.c - see where.h. */
#include "where.h"

#include "client/report/verdict.h"
#include "client/ui/text.h"

#include "store/breakdown/load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
#define GROUP_ROWS ((int)DEVICE_ROWS + (int)IDLE_ROWS)

/* Room for the rows of so many devices of a process; of more, the rest are not compared. */
#define GROUPS_MOST 16

static void add_groups(struct gather *gather)
{
	for (size_t group = 0; group < GROUPS_MOST; group++) {
		add_rows(gather, breakdown_device_rows, DEVICE_ROWS, (int)group, NULL);
		add_rows(gather, breakdown_idle_rows, IDLE_ROWS, (int)group, breakdown_device_rows[DEVICE_IDLE].word);
	}
	add_rows(gather, breakdown_host_rows, HOST_ROWS, -1, NULL);
}

static void add_step(struct gather *gather, const struct side *side, const struct breakdown *breakdown, size_t step,
		     size_t unit)
{
	struct compare_row *rows = gather->table->rows, *host = rows + (size_t)GROUPS_MOST * GROUP_ROWS;
	for (size_t group = 0; group < GROUPS_MOST && group < breakdown->device_count; group++) {
		const struct breakdown_device_step *device = &breakdown->devices[group].steps[step];
		struct compare_row *row = rows + group * GROUP_ROWS;
		for (size_t i = 0; i < DEVICE_ROWS; i++)
			gather_add(gather, row++, side, unit, 0, (double)device->rows[i]);
		for (size_t i = 0; i < IDLE_ROWS; i++)
			gather_add(gather, row++, side, unit, 0, (double)device->idle[i]);
	}
	for (size_t i = 0; i < HOST_ROWS; i++)
		gather_add(gather, &host[i], side, unit, 0, (double)breakdown->steps[step].host[i]);
}

/* What all captures of a side have. */
struct common {
	size_t devices; /* the fewest of any */
	bool host, device;
	char doubt[256];
};

static void add_side(struct gather *gather, const struct side *side, struct common *ret)
{
	*ret = (struct common){.devices = GROUPS_MOST, .host = true, .device = true};
	for (size_t c = 0; c < side->count; c++) {
		const struct side_capture *capture = &side->captures[c];
		struct breakdown_capture own;
		const struct breakdown_capture *one =
			verdict_rows(&capture->capture.reader, &(struct report_options){0}, &own);
		ret->devices = one->breakdown.device_count < ret->devices ? one->breakdown.device_count : ret->devices;
		ret->device = ret->device && one->device;
		ret->host = ret->host && one->host;
		if (one->doubt[0])
			snprintf(ret->doubt, sizeof ret->doubt, "%s", one->doubt);
		for (size_t i = 0; i < capture->count && i < one->breakdown.step_count; i++)
			if (capture->steps[i].unit != SIZE_MAX)
				add_step(gather, side, &one->breakdown, i, capture->steps[i].unit);
		breakdown_capture_free(&own);
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
		int64_t now = gather_whole(sum / (double)side->units);
		figures->mean = now - before;
		before = now;
		if (figures->mean > largest->mean)
			largest = figures;
	}
	/* Averages over ranks are no whole numbers: the last ns may be missing. */
	largest->mean += gather_whole(side_wall(side)) - before;
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
	round_group(table->rows + (size_t)GROUPS_MOST * GROUP_ROWS, HOST_ROWS, side, first);
}

/* Rows without any time, and those of what was not recorded on both sides. */
static void drop_zero(struct compare_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		struct compare_row *row = &table->rows[i];
		bool compared = row->group < 0 ? table->host : (size_t)row->group < table->groups;
		if ((row->a.sum <= 0 && row->b.sum <= 0) || !compared)
			row->a.seen = row->b.seen = 0;
	}
	compare_drop_empty(table);
}

void compare_breakdown(const struct side *a, const struct side *b, struct compare_table *ret)
{
	struct common of_a, of_b;
	*ret = (struct compare_table){0};
	struct gather gather = {.a = a, .b = b, .table = ret};
	add_groups(&gather);
	add_side(&gather, a, &of_a);
	add_side(&gather, b, &of_b);
	ret->host = of_a.host && of_b.host;
	if (of_a.device && of_b.device)
		ret->groups = of_a.devices < of_b.devices ? of_a.devices : of_b.devices;
	ret->recorded_a = of_a.host || of_a.device;
	ret->recorded_b = of_b.host || of_b.device;
	snprintf(ret->doubt, sizeof ret->doubt, "%s", of_a.doubt[0] ? of_a.doubt : of_b.doubt);
	round_all(&gather, a);
	round_all(&gather, b);
	drop_zero(ret);
	gather_test(&gather);
}
