/* modules.c - time by nn.Module as a tree: each row has the time of the operators that were called in the module and in all that it
 * called. */
#include "module_paths.h"
#include "query.h"
#include "recorded.h"
#include "views.h"

#include <sqlite3.h>
#include <stdio.h>

enum { M_PATH, M_TREE, M_CLASS, M_DEPTH };

static const struct column columns[] = {
	[M_PATH] = {"path", "PATH", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[M_TREE] = {"", "MODULE", COLUMN_TEXT, COLUMN_TABLE_ONLY | COLUMN_ELASTIC},
	[M_CLASS] = {"class", "CLASS", COLUMN_TEXT, COLUMN_ELASTIC},
	[M_DEPTH] = {"depth", "DEPTH", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	{"calls", "CALLS", COLUMN_COUNT, COLUMN_OPTIONAL},
	{"operators", "OPERATORS", COLUMN_COUNT, COLUMN_SPARE},
	{"host_ns", "HOST", COLUMN_DURATION, 0},
	{"percent", "HOST %", COLUMN_PERCENT, COLUMN_BARRED},
	{"share", "SHARE", COLUMN_PERCENT, COLUMN_DATA_ONLY},
	{"forward_ns", "FORWARD", COLUMN_DURATION, 0},
	{"backward_ns", "BACKWARD", COLUMN_DURATION, 0},
	{"self_ns", "SELF", COLUMN_DURATION, COLUMN_DATA_ONLY},
	{"device_ns", "DEVICE", COLUMN_DURATION, COLUMN_OPTIONAL},
	{"device_forward_ns", "DEVICE FORWARD", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
	{"device_backward_ns", "DEVICE BACKWARD", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
	{"cpu_taken_bytes", "TAKEN", COLUMN_BYTES, COLUMN_OPTIONAL | COLUMN_SPARE},
	{"device_taken_bytes", "DEVICE TAKEN", COLUMN_BYTES, COLUMN_OPTIONAL | COLUMN_SPARE},
	{"cpu_peak_bytes", "AT PEAK", COLUMN_BYTES, COLUMN_OPTIONAL},
	{"device_peak_bytes", "AT DEVICE PEAK", COLUMN_BYTES, COLUMN_OPTIONAL},
};

/* `above`: each module with all that called it, itself included. Sums are real: those of a broken file may be larger than an integer. */
#define OWN                                                                                                            \
	"own AS MATERIALIZED (SELECT module, total(calls) AS calls, total(entered) AS entered, total(forward) AS "     \
	"forward, total(backward) AS backward, sum(device_forward * 1.0) AS device_forward, "                          \
	"sum(device_backward * 1.0) AS device_backward, total(cpu_taken) AS cpu_taken, total(device_taken) AS "        \
	"device_taken FROM module_totals WHERE" REPORT_STEP "GROUP BY module)"
#define HELD                                                                                                           \
	"held AS MATERIALIZED (SELECT s.module AS module, total(iif(h.device_type = 0, h.bytes, 0)) AS cpu, "          \
	"total(iif(h.device_type <> 0, h.bytes, 0)) AS device FROM memory_holders h JOIN stack_modules s ON s.stack "  \
	"= h.stack WHERE" REPORT_STEP "GROUP BY 1)"
#define ABOVE                                                                                                          \
	"above(module, id) AS (SELECT module, module FROM own UNION SELECT a.module, m.parent FROM above a JOIN "      \
	"nn_modules m ON m.id = a.id WHERE m.parent > 0 AND m.parent < m.id)"
#define SUMS                                                                                                           \
	"sums AS MATERIALIZED (SELECT a.id AS id, total(o.calls) AS calls, total(o.forward) AS forward, "              \
	"total(o.backward) AS backward, sum(o.device_forward) AS device_forward, sum(o.device_backward) AS "           \
	"device_backward, total(o.cpu_taken) AS cpu_taken, total(o.device_taken) AS device_taken, total(h.cpu) AS "    \
	"cpu_held, total(h.device) AS device_held FROM above a JOIN own o ON o.module = a.module LEFT JOIN held h ON " \
	"h.module = a.module GROUP BY a.id)"
#define WHOLE                                                                                                          \
	"(SELECT nullif(total(self), 0) AS host, EXISTS (SELECT 1 FROM module_totals WHERE entered > 0) AS counted, "  \
	"EXISTS (SELECT 1 FROM collectors WHERE collector = 'allocations' AND ran) AS memory, EXISTS (SELECT 1 FROM "  \
	"memory_steps WHERE device_type <> 0) AS devices FROM operators WHERE" REPORT_STEP ")"
#define SQL                                                                                                                                                     \
	"WITH RECURSIVE " OWN ", " HELD ", " ABOVE ", " SUMS ", " REPORT_MODULE_PATHS(                                                                          \
		"m.id IN (SELECT id FROM sums)") " SELECT " REPORT_MODULE_NAME                                                                                  \
						 ", printf('%*s', 2 * p.depth, '') || CASE p.depth WHEN 0 THEN m.class ELSE m.name END, m.class, p.depth, "     \
						 "CASE WHEN w.counted THEN min(coalesce(o.entered, 0), 9e18) END, s.calls, min(s.forward + s.backward, 9e18), " \
						 "(s.forward + s.backward) * 100.0 / w.host, (s.forward + s.backward) / w.host, min(s.forward, 9e18), "         \
						 "min(s.backward, 9e18), min(coalesce(o.forward + o.backward, 0), 9e18), min(s.device_forward + "               \
						 "s.device_backward, 9e18), min(s.device_forward, 9e18), min(s.device_backward, 9e18), CASE WHEN w.memory "     \
						 "THEN min(s.cpu_taken, 9e18) END, CASE WHEN w.devices THEN min(s.device_taken, 9e18) END, CASE WHEN w.memory " \
						 "THEN min(s.cpu_held, 9e18) END, CASE WHEN w.devices THEN min(s.device_held, 9e18) END FROM paths p JOIN "     \
						 "named m ON m.id = p.id JOIN sums s ON s.id = p.id LEFT JOIN own o ON o.module = p.id JOIN " WHOLE             \
						 " w WHERE true"

struct table *report_modules(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(columns), NULL, 0, "p.place", NULL, NULL};
	if (!report_ran(reader, "modules"))
		return table_new(shape.columns, shape.count);
	return report_query(reader, options, &shape, SQL);
}
