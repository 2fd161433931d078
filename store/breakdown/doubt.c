/* doubt.c - see doubt.h. */
#include "doubt.h"

#include "proto/events.h"

#include <stdio.h>
#include <string.h>

static void doubt(struct breakdown_capture *capture, const char *what, int64_t count)
{
	if (!capture->doubt[0])
		snprintf(capture->doubt, sizeof capture->doubt, "%lld %s", (long long)count, what);
}

static void take_loss(void *capture, sqlite3_stmt *row)
{
	if (row_int(row, 0) > 0)
		doubt(capture, "events of the devices, or calls, were dropped", row_int(row, 0));
}

/* Each launch of a graph has as many operations as the graph has nodes. But a launch before the recording may be
 * recorded only at its end, and the last launch only at its beginning. */
static void take_graphs(void *capture, sqlite3_stmt *row)
{
	if (row_int(row, 0) > 0)
		doubt(capture, "CUDA graphs have launches with fewer operations than others of the same graph",
		      row_int(row, 0));
}

/* A cause is what the host did at the time. Clocks may differ by about as much as an operation takes on its way to an
 * idle device. */
#define CLOCKS_NS 10000
/* One operation, and one in so many more, may lie before its call: these are wrong times, not a wrong clock. */
#define EARLY_ONE_IN 64

/* The clock error is the largest of the recording. If nothing happened to the clock, that is one reading that was
 * interrupted. */
static void take_clock(struct breakdown_capture *capture, int64_t options, int64_t error)
{
	if (error <= CLOCKS_NS || !(options & (SESSION_CLOCK_STEPPED | SESSION_CLOCK_SILENT)))
		return;
	doubt(capture,
	      options & SESSION_CLOCK_STEPPED
		      ? "us is how far times of the devices may be off, since CUPTI's clock jumped or changed its rate"
		      : "us is how far times of the devices may be off, since CUPTI's clock ceased to answer",
	      error / 1000);
}

/* Nothing begins before it is launched. If operations do, the times of the devices are too early. */
static void look_at_clocks(struct breakdown_capture *capture)
{
	const struct breakdown *breakdown = &capture->breakdown;
	int64_t launched = 0, early = 0;
	for (size_t i = 0; i < breakdown->operation_count; i++) {
		const struct breakdown_operation *operation = &breakdown->operations[i];
		if (operation->call >= breakdown->call_count)
			continue;
		launched++;
		early += breakdown->calls[operation->call].start - operation->start > CLOCKS_NS;
	}
	if (early > 1 + launched / EARLY_ONE_IN)
		doubt(capture,
		      "operations began before the calls that launched them: the clocks of devices and host disagree",
		      early);
}

/* Columns are found by name: files of an older schema lack some. */
static void take_session(void *capture, sqlite3_stmt *row)
{
	int64_t options = 0, error = 0;
	for (int i = 0; i < sqlite3_column_count(row); i++) {
		const char *name = sqlite3_column_name(row, i);
		if (sqlite3_column_type(row, i) == SQLITE_NULL)
			continue;
		if (strcmp(name, "missing_from") == 0)
			doubt(capture, "us after the beginning records of the devices become incomplete",
			      row_int(row, i) / 1000);
		else if (strcmp(name, "options") == 0)
			options = row_int(row, i);
		else if (strcmp(name, "clock_error") == 0)
			error = row_int(row, i);
	}
	take_clock(capture, options, error);
}

static void look_for_doubt(struct scan *scan, struct breakdown_capture *capture, const struct device_evidence *evidence)
{
	if (capture->timeless)
		doubt(capture, "operations came without times", (int64_t)capture->timeless);
	/* A few such calls are no reason for doubt: a device may not have begun the last kernels before the recording
	 * ended. */
	if (evidence->bare_calls * 2 > evidence->kernel_calls)
		doubt(capture, "calls launched kernels that were not recorded", evidence->bare_calls);
	scan_each(scan,
		  "SELECT sum(count) FROM losses WHERE is_loss AND kind IN ('kernel', 'copy', 'set', 'graph_launch', "
		  "'api_call')",
		  take_loss, capture);
	scan_each(scan, "SELECT * FROM sessions", take_session, capture);
	look_at_clocks(capture);
	if (!evidence->graphs)
		return;
	scan_each(
		scan,
		"SELECT count(*) FROM (SELECT 1 FROM (SELECT graph, correlation, count(*) AS operations FROM (SELECT graph, "
		"correlation FROM kernel_records WHERE graph <> 0 UNION ALL SELECT graph, correlation FROM copy_records WHERE "
		"graph <> 0 UNION ALL SELECT graph, correlation FROM set_records WHERE graph <> 0) GROUP BY graph, correlation) g "
		"JOIN launches l ON l.correlation = g.correlation WHERE l.api IS NOT NULL AND g.correlation IS NOT (SELECT "
		"correlation FROM (SELECT correlation, max(start) FROM kernel_records WHERE graph <> 0)) GROUP BY graph HAVING "
		"min(g.operations) < max(g.operations))",
		take_graphs, capture);
}

/* Idle time stays what it is; its causes are not known. */
static void withdraw_causes(struct breakdown *breakdown)
{
	for (size_t d = 0; d < breakdown->device_count; d++) {
		for (size_t i = 0; i < breakdown->step_count; i++) {
			struct breakdown_device_step *step = &breakdown->devices[d].steps[i];
			memset(step->idle, 0, sizeof step->idle);
			step->idle[IDLE_UNKNOWN] = step->rows[DEVICE_IDLE];
			step->after_sync = 0;
		}
		struct breakdown_device *device = &breakdown->devices[d];
		for (size_t i = 0; i < device->stretch_count; i++)
			if (device->stretches[i].row == DEVICE_IDLE)
				device->stretches[i].cause = IDLE_UNKNOWN;
		for (size_t i = 0; i < device->idle_count; i++)
			device->idles[i].after_sync = false;
	}
}

void breakdown_doubt(struct scan *scan, struct breakdown_capture *capture, const struct device_evidence *evidence)
{
	look_for_doubt(scan, capture, evidence);
	if (!scan->error && capture->doubt[0])
		withdraw_causes(&capture->breakdown);
}
