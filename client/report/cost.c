/* cost.c - what the capture itself cost the job, as measured in the job. */
#include "cost.h"

#include "client/ui/json.h"
#include "views.h"

enum { K_BEFORE, K_DURING, K_AFTER, K_ENABLE, K_DRAIN, K_CPU, K_BYTES, K_CLOCK, K_LATE, K_COUNT };

static const struct column columns[] = {
	[K_BEFORE] = {"step_before_ns", "STEP BEFORE", COLUMN_DURATION, 0},
	[K_DURING] = {"step_during_ns", "DURING", COLUMN_DURATION, 0},
	[K_AFTER] = {"step_after_ns", "AFTER", COLUMN_DURATION, COLUMN_OPTIONAL},
	[K_ENABLE] = {"enable_ns", "SWITCH ON", COLUMN_DURATION, 0},
	[K_DRAIN] = {"drain_ns", "DRAIN", COLUMN_DURATION, 0},
	[K_CPU] = {"agent_cpu_ns", "AGENT CPU", COLUMN_DURATION, 0},
	[K_BYTES] = {"agent_bytes", "AGENT MEMORY", COLUMN_BYTES, 0},
	[K_CLOCK] = {"clock_off_ns", "CLOCK OFF", COLUMN_DURATION, COLUMN_OPTIONAL},
	[K_LATE] = {"late_steps", "LATE STEPS", COLUMN_COUNT, 0},
};

/* Says why, if the warm-up took longer than asked. */
static void explain(struct table *table, int64_t late)
{
	if (late <= 0)
		return;
	table_note(table, "  late steps: the recording began %lld step%s later than asked,", (long long)late,
		   late == 1 ? "" : "s");
	table_note(table, "  because not all collectors were on in time");
}

struct table *report_cost_summary(const cJSON *summary)
{
	struct table *table = table_new(columns, K_COUNT);

	table_add(table);
	for (size_t c = 0; c < K_COUNT; c++)
		table_set_member(table, c, cJSON_GetObjectItemCaseSensitive(summary, "cost"), columns[c].key);
	explain(table, (int64_t)json_number(cJSON_GetObjectItemCaseSensitive(summary, "cost"), columns[K_LATE].key, 0));
	return table;
}

struct table *report_cost(const struct reader *reader, const struct report_options *options)
{
	static const char *const keys[K_COUNT] = {
		[K_BEFORE] = "step_before", [K_DURING] = "step_during", [K_AFTER] = "step_after",
		[K_ENABLE] = "enable",	    [K_DRAIN] = "drain",	[K_CPU] = "agent_cpu",
		[K_BYTES] = "agent_bytes",  [K_CLOCK] = "clock_off",	[K_LATE] = "late_steps",
	};
	struct table *table = table_new(columns, K_COUNT);

	table_add(table);
	for (size_t c = 0; c < K_COUNT; c++) {
		int64_t value = reader_meta_int(reader, keys[c], -1);

		/* A step time of 0 is not known. */
		if (value > 0 || (value == 0 && c > K_AFTER))
			table_set(table, c, value);
	}
	/* The file was finished before the steps after the capture were over; the summary has their time. */
	if (options->summary)
		table_set_member(table, K_AFTER, cJSON_GetObjectItemCaseSensitive(options->summary, "cost"),
				 columns[K_AFTER].key);
	explain(table, reader_meta_int(reader, keys[K_LATE], 0));
	return table;
}
