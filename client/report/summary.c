/* summary.c - see summary.h. */
#include "summary.h"

#include "client/ui/json.h"

#include <stdio.h>

static void set_whole(struct table *table, const cJSON *summary, const char *key)
{
	const cJSON *total = cJSON_GetObjectItemCaseSensitive(summary, key);

	if (cJSON_IsNumber(total) && total->valuedouble > 0 && total->valuedouble < 1e15)
		table_set_whole(table, (size_t)total->valuedouble);
}

/* A table of a summary's list `key`, which tells how many rows there are in all. If `whole` (ns) is known, the column
 * after `shared` has the share of `shared` in it. */
static struct table *list_table(const struct column *columns, size_t count, const cJSON *summary, const char *key,
				size_t shared, int64_t whole)
{
	struct table *table = table_new(columns, count);
	char total[32];
	const cJSON *row;

	cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(summary, key))
	{
		const cJSON *part = cJSON_GetObjectItemCaseSensitive(row, columns[shared].key);

		table_add(table);
		for (size_t c = 0; c < count; c++)
			table_set_member(table, c, row, columns[c].key);
		if (whole > 0 && cJSON_IsNumber(part))
			table_set_real(table, shared + 1, part->valuedouble * 100 / (double)whole);
	}
	snprintf(total, sizeof total, "%s_total", key);
	set_whole(table, summary, total);
	return table;
}

struct table *summary_steps(const cJSON *summary)
{
	enum { BUSY = 3, SHARE };
	static const struct column few[] = {
		{"step", "STEP", COLUMN_NUMBER, 0},
		{"number", "NUMBER", COLUMN_NUMBER, 0},
		{"wall_ns", "WALL", COLUMN_DURATION, 0},
		[BUSY] = {"device_busy_ns", "DEVICE BUSY", COLUMN_DURATION, COLUMN_OPTIONAL},
		[SHARE] = {"", "BUSY %", COLUMN_PERCENT, COLUMN_OPTIONAL | COLUMN_TABLE_ONLY},
		{"kernels", "KERNELS", COLUMN_COUNT, COLUMN_OPTIONAL},
		{"copies", "COPIES", COLUMN_COUNT, COLUMN_OPTIONAL},
		{"largest_gap_ns", "LARGEST GAP", COLUMN_DURATION, COLUMN_OPTIONAL},
	};
	struct table *table = table_new(COUNTED(few));
	const cJSON *row;

	cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(summary, "steps"))
	{
		double share = summary_busy_percent(summary, row);

		table_add(table);
		for (size_t c = 0; c < sizeof few / sizeof *few; c++)
			table_set_member(table, c, row, few[c].key);
		if (share >= 0)
			table_set_real(table, SHARE, share);
	}
	set_whole(table, summary, "steps_total");
	return table;
}

double summary_busy_percent(const cJSON *summary, const cJSON *only)
{
	const cJSON *devices = cJSON_GetObjectItemCaseSensitive(summary, "devices");
	double wall_total = 0, busy_total = 0;
	const cJSON *row;

	cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(summary, "steps"))
	{
		const cJSON *wall = cJSON_GetObjectItemCaseSensitive(row, "wall_ns");
		const cJSON *busy = cJSON_GetObjectItemCaseSensitive(row, "device_busy_ns");

		if ((only && row != only) || !cJSON_IsNumber(wall) || !cJSON_IsNumber(busy))
			continue;
		wall_total += wall->valuedouble;
		busy_total += busy->valuedouble;
	}
	if (cJSON_IsNumber(devices) && devices->valuedouble > 1)
		wall_total *= devices->valuedouble;
	return wall_total > 0 ? busy_total * 100 / wall_total : -1;
}

/* A daemon of an older release does not send it. */
int64_t summary_self_cpu(const cJSON *summary)
{
	return (int64_t)json_number(summary, "self_cpu_ns", -1);
}

struct table *summary_operators(const cJSON *summary)
{
	static const struct column few[] = {
		{"name", "OPERATOR", COLUMN_TEXT, COLUMN_NAME},
		{"calls", "CALLS", COLUMN_COUNT, 0},
		{"self_cpu_ns", "SELF CPU", COLUMN_DURATION, 0},
		{"", "SELF CPU %", COLUMN_PERCENT, COLUMN_OPTIONAL | COLUMN_TABLE_ONLY},
		{"cpu_ns", "CPU TOTAL", COLUMN_DURATION, 0},
		{"self_device_ns", "SELF DEVICE", COLUMN_DURATION, COLUMN_OPTIONAL},
		{"device_ns", "DEVICE TOTAL", COLUMN_DURATION, COLUMN_OPTIONAL},
	};

	return list_table(COUNTED(few), summary, "operators", 2, summary_self_cpu(summary));
}

struct table *summary_ranges(const cJSON *summary, int64_t wall)
{
	static const struct column few[] = {
		{"name", "RANGE", COLUMN_TEXT, COLUMN_NAME},
		{"calls", "CALLS", COLUMN_COUNT, 0},
		{"total_ns", "TOTAL", COLUMN_DURATION, 0},
		{"", "WALL %", COLUMN_PERCENT, COLUMN_OPTIONAL | COLUMN_TABLE_ONLY},
		{"self_ns", "SELF", COLUMN_DURATION, 0},
		{"self_device_ns", "SELF DEVICE", COLUMN_DURATION, COLUMN_OPTIONAL},
		{"device_ns", "DEVICE TOTAL", COLUMN_DURATION, COLUMN_OPTIONAL},
	};

	return list_table(COUNTED(few), summary, "ranges", 2, wall);
}

struct table *summary_kernels(const cJSON *summary)
{
	static const struct column few[] = {
		{"name", "KERNEL", COLUMN_TEXT, COLUMN_NAME},	  {"calls", "CALLS", COLUMN_COUNT, 0},
		{"total_ns", "TOTAL", COLUMN_DURATION, 0},	  {"average_ns", "AVG", COLUMN_DURATION, 0},
		{"min_ns", "MIN", COLUMN_DURATION, COLUMN_SPARE}, {"max_ns", "MAX", COLUMN_DURATION, COLUMN_SPARE},
	};

	return list_table(COUNTED(few), summary, "kernels", 2, 0);
}

enum { S_KIND, S_CALLS, S_BYTES, S_TOTAL, S_RATE };

static const struct column copy_columns[] = {
	[S_KIND] = {"kind", "COPY OR MEMSET", COLUMN_TEXT, 0},
	[S_CALLS] = {"calls", "CALLS", COLUMN_COUNT, 0},
	[S_BYTES] = {"bytes", "BYTES", COLUMN_BYTES, 0},
	[S_TOTAL] = {"total_ns", "TOTAL", COLUMN_DURATION, 0},
	[S_RATE] = {"", "BANDWIDTH", COLUMN_RATE, COLUMN_TABLE_ONLY},
};

static void add_summary(struct table *table, const cJSON *row, const char *name)
{
	const cJSON *bytes = cJSON_GetObjectItemCaseSensitive(row, copy_columns[S_BYTES].key);
	const cJSON *total = cJSON_GetObjectItemCaseSensitive(row, copy_columns[S_TOTAL].key);
	const cJSON *calls = cJSON_GetObjectItemCaseSensitive(row, copy_columns[S_CALLS].key);

	if (!cJSON_IsNumber(calls) || calls->valuedouble <= 0)
		return;
	table_add(table);
	for (size_t c = 0; c < S_RATE; c++)
		table_set_member(table, c, row, copy_columns[c].key);
	if (name)
		table_set_text(table, S_KIND, name);
	if (cJSON_IsNumber(bytes) && cJSON_IsNumber(total) && total->valuedouble > 0)
		table_set_real(table, S_RATE, bytes->valuedouble / total->valuedouble);
}

/* Memsets are one more row: a summary has only their sum. */
struct table *summary_copies(const cJSON *summary)
{
	struct table *table = table_new(COUNTED(copy_columns));
	const cJSON *row;

	cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(summary, "copies"))
	{
		add_summary(table, row, NULL);
	}
	add_summary(table, cJSON_GetObjectItemCaseSensitive(summary, "sets"), "Memset");
	return table;
}

struct table *summary_dropped(const cJSON *summary)
{
	static const struct column few[] = {
		{"kind", "KIND", COLUMN_TEXT, 0},
		{"count", "COUNT", COLUMN_COUNT, 0},
		{"is_loss", "DROPPED", COLUMN_FLAG, 0},
		{"sentence", "WHAT HAPPENED", COLUMN_TEXT, COLUMN_WRAP},
	};
	struct table *table = table_new(COUNTED(few));
	const cJSON *row;

	cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(summary, "losses"))
	{
		const cJSON *count = cJSON_GetObjectItemCaseSensitive(row, "count");

		if (!cJSON_IsNumber(count) || count->valuedouble <= 0)
			continue;
		table_add(table);
		for (size_t c = 0; c < sizeof few / sizeof *few; c++)
			table_set_member(table, c, row, few[c].key);
	}
	return table;
}
