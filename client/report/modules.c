/* modules.c - time by nn.Module as a tree: each row has the time of the operators that were called in the module and
 * in all modules that it called. */
#include "flop_rows.h"
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "store/findings/module_paths.h"

#include <sqlite3.h>
#include <stdio.h>

enum { M_PATH, M_TREE, M_CLASS, M_DEPTH };

static const struct column columns[] = {
	[M_PATH] = {"path", "PATH", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[M_TREE] = {"", "MODULE", COLUMN_TEXT, COLUMN_TABLE_ONLY | COLUMN_ELASTIC},
	[M_CLASS] = {"class", "CLASS", COLUMN_TEXT, COLUMN_ELASTIC},
	[M_DEPTH] = {"depth", "DEPTH", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	{"calls", "CALLS", COLUMN_COUNT, COLUMN_OPTIONAL},
	{"flops", "FLOP", COLUMN_COUNT, COLUMN_OPTIONAL},
	{"forward_flops", "FORWARD FLOP", COLUMN_COUNT, COLUMN_DATA_ONLY},
	{"backward_flops", "BACKWARD FLOP", COLUMN_COUNT, COLUMN_DATA_ONLY},
	{"gflop_per_s", "SPEED", COLUMN_SPEED, COLUMN_OPTIONAL | COLUMN_SPARE},
	{"operators", "OPERATORS", COLUMN_COUNT, COLUMN_SPARE},
	{"host_ns", "HOST", COLUMN_DURATION, 0},
	{"percent", "HOST %", COLUMN_PERCENT, COLUMN_BARRED},
	{"share", "SHARE", COLUMN_PERCENT, COLUMN_DATA_ONLY},
	{"forward_ns", "FORWARD", COLUMN_DURATION, 0},
	{"backward_ns", "BACKWARD", COLUMN_DURATION, 0},
	{"self_ns", "SELF", COLUMN_DURATION, COLUMN_DATA_ONLY},
	{"device_ns", "DEVICE", COLUMN_DURATION, COLUMN_OPTIONAL},
	{"self_device_ns", "SELF DEVICE", COLUMN_DURATION, COLUMN_DATA_ONLY},
	{"device_forward_ns", "DEVICE FORWARD", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
	{"device_backward_ns", "DEVICE BACKWARD", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
	{"cpu_taken_bytes", "TAKEN", COLUMN_BYTES, COLUMN_OPTIONAL | COLUMN_SPARE},
	{"device_taken_bytes", "DEVICE TAKEN", COLUMN_BYTES, COLUMN_OPTIONAL | COLUMN_SPARE},
	{"cpu_peak_bytes", "AT PEAK", COLUMN_BYTES, COLUMN_OPTIONAL},
	{"device_peak_bytes", "AT DEVICE PEAK", COLUMN_BYTES, COLUMN_OPTIONAL},
};

/* Floating point operations by module, of the operators that add to a total, as in their table (flops.c). known: the
 * number of rows in which they are known. */
#define FLOPS                                                                                                                       \
	FLOP_ROWS(", stack, backward")                                                                                              \
	", shaped AS MATERIALIZED (SELECT s.module AS module, o.name AS name, o.inputs AS inputs, o.backward IS NULL AS "           \
	"forward, count(*) AS calls FROM few o JOIN stack_modules s ON s.stack = o.stack WHERE " FLOP_CALL("o") " AND " FLOP_ALONE( \
		"o") " GROUP BY 1, 2, 3, 4), "                                                                                      \
		     "priced AS MATERIALIZED (SELECT h.module AS module, h.forward AS forward, h.calls AS calls, "                  \
		     "profd_flops(s.text, i.dims, i.concrete) AS flops FROM shaped h JOIN strings s ON s.id = h.name "              \
		     "LEFT JOIN inputs i ON i.id = h.inputs WHERE profd_counted(s.text)), "                                         \
		     "computed AS MATERIALIZED (SELECT module, total(flops * 1.0 * calls * forward) AS forward, "                   \
		     "total(flops * 1.0 * calls * (NOT forward)) AS backward, count(flops) AS known FROM priced GROUP "             \
		     "BY module), shapes(recorded) AS (SELECT 1)"
#define NO_FLOPS                                                                                                       \
	"computed(module, forward, backward, known) AS (SELECT NULL, NULL, NULL, NULL WHERE 0), shapes(recorded) AS "  \
	"(SELECT 0)"
/* `above`: each module, with itself and all modules that called it. Sums are real: those of a hostile file may be
 * larger than an integer. */
#define OWN(forward, backward)                                                                                         \
	"own AS MATERIALIZED (SELECT module, total(calls) AS calls, total(entered) AS entered, total(forward) AS "     \
	"forward, total(backward) AS backward, " forward " AS device_forward, " backward " AS device_backward, "       \
	"total(cpu_taken) AS cpu_taken, total(device_taken) AS device_taken FROM module_totals WHERE" REPORT_STEP      \
	"GROUP BY module)"
/* If the calls were not recorded, it is not known what launched the work. */
#define ATTRIBUTED OWN("sum(device_forward * 1.0)", "sum(device_backward * 1.0)")
#define NOT_ATTRIBUTED OWN("NULL", "NULL")
#define HELD                                                                                                           \
	"held AS MATERIALIZED (SELECT s.module AS module, total(iif(h.device_type = 0, h.bytes, 0)) AS cpu, "          \
	"total(iif(h.device_type <> 0, h.bytes, 0)) AS device FROM memory_holders h JOIN stack_modules s ON s.stack "  \
	"= h.stack WHERE" REPORT_STEP "GROUP BY 1)"
#define ABOVE                                                                                                          \
	"above(module, id) AS (SELECT module, module FROM own UNION SELECT a.module, m.parent FROM above a JOIN "      \
	"nn_modules m ON m.id = a.id WHERE m.parent > 0 AND m.parent < m.id)"
#define SUMS                                                                                                            \
	"sums AS MATERIALIZED (SELECT a.id AS id, total(o.calls) AS calls, total(o.forward) AS forward, "               \
	"total(o.backward) AS backward, sum(o.device_forward) AS device_forward, sum(o.device_backward) AS "            \
	"device_backward, total(o.cpu_taken) AS cpu_taken, total(o.device_taken) AS device_taken, total(h.cpu) AS "     \
	"cpu_held, total(h.device) AS device_held, total(f.forward) AS forward_flops, "                                 \
	"total(f.backward) AS backward_flops, count(f.module) AS computing, total(f.known) AS known FROM above a JOIN " \
	"own o ON o.module = a.module LEFT JOIN held h ON h.module = a.module LEFT JOIN computed f ON f.module = "      \
	"a.module GROUP BY a.id)"
#define WHOLE                                                                                                          \
	"(SELECT nullif(total(self), 0) AS host, EXISTS (SELECT 1 FROM module_totals WHERE entered > 0) AS counted, "  \
	"EXISTS (SELECT 1 FROM collectors WHERE collector = 'allocations' AND ran) AS memory, EXISTS (SELECT 1 FROM "  \
	"memory_steps WHERE device_type <> 0) AS devices FROM operators WHERE" REPORT_STEP ")"
/* If a module has operators with a formula, but none of them has the inputs that it needs, the module's FLOP are not
 * known. */
#define FLOPS_KNOWN "CASE WHEN h.recorded AND (s.known > 0 OR NOT s.computing) THEN "
#define FLOP_COLUMNS                                                                                                   \
	FLOPS_KNOWN "min(s.forward_flops + s.backward_flops, 9e18) END, " FLOPS_KNOWN                                  \
		    "min(s.forward_flops, 9e18) END, " FLOPS_KNOWN "min(s.backward_flops, 9e18) END, " FLOPS_KNOWN     \
		    "(s.forward_flops + s.backward_flops) / nullif(s.device_forward + s.device_backward, 0) END, "
#define COLUMNS                                                                                                                  \
	MODULE_NAME                                                                                                              \
	", printf('%*s', 2 * p.depth, '') || CASE p.depth WHEN 0 THEN m.class ELSE m.name END, m.class, p.depth, "               \
	"CASE WHEN w.counted THEN min(coalesce(o.entered, 0), 9e18) END, " FLOP_COLUMNS                                          \
	"s.calls, min(s.forward + s.backward, 9e18), (s.forward + s.backward) * 100.0 / w.host, (s.forward + "                   \
	"s.backward) / w.host, min(s.forward, 9e18), min(s.backward, 9e18), min(coalesce(o.forward + o.backward, 0), "           \
	"9e18), min(s.device_forward + s.device_backward, 9e18), CASE WHEN s.device_forward IS NOT NULL THEN "                   \
	"min(coalesce(o.device_forward + o.device_backward, 0), 9e18) END, min(s.device_forward, 9e18), min(s.device_backward, " \
	"9e18), CASE WHEN w.memory THEN min(s.cpu_taken, 9e18) END, CASE WHEN w.devices THEN min(s.device_taken, 9e18) "         \
	"END, CASE WHEN w.memory THEN min(s.cpu_held, 9e18) END, CASE WHEN w.devices THEN min(s.device_held, 9e18) END"
#define PATHS MODULE_PATHS("m.id IN (SELECT id FROM sums)")
#define SQL(flops, own)                                                                                                \
	"WITH RECURSIVE " flops ", " own ", " HELD ", " ABOVE ", " SUMS ", " PATHS " SELECT " COLUMNS                  \
	" FROM paths p JOIN named m ON m.id = p.id JOIN sums s ON s.id = p.id LEFT JOIN own o ON o.module = p.id "     \
	"JOIN shapes h JOIN " WHOLE " w WHERE true"

struct table *report_modules(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(columns), NULL, 0, "p.place", NULL, NULL};
	if (!report_ran(reader, "modules"))
		return table_new(shape.columns, shape.count);
	bool attributed = report_attributed(reader);
	if (!report_ran(reader, "shapes"))
		return report_query(reader, options, &shape,
				    attributed ? SQL(NO_FLOPS, ATTRIBUTED) : SQL(NO_FLOPS, NOT_ATTRIBUTED));
	flop_functions(reader);
	return report_query(reader, options, &shape, attributed ? SQL(FLOPS, ATTRIBUTED) : SQL(FLOPS, NOT_ATTRIBUTED));
}
