/* modules.c - time by nn.Module as a tree: each row has the time of the operators that were called in the module and in all that it
 * called. */
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
};

/* `above`: each module with all that called it, itself included. The order is that in which modules were first called; as deep as a stack is,
 * and no deeper in a file that somebody made. Sums are real: those of a broken file may be larger than an integer. */
#define SQL                                                                                                                                                                   \
	"WITH RECURSIVE own AS MATERIALIZED (SELECT module, total(calls) AS calls, total(entered) AS entered, "                                                               \
	"total(forward) AS forward, "                                                                                                                                         \
	"total(backward) AS backward, CASE WHEN count(device_forward) THEN total(device_forward) END AS "                                                                     \
	"device_forward, CASE WHEN count(device_backward) THEN total(device_backward) END AS device_backward FROM "                                                           \
	"module_totals WHERE" REPORT_STEP "GROUP BY module), "                                                                                                                \
	"above(module, id) AS (SELECT module, module FROM own UNION SELECT a.module, m.parent FROM above a JOIN "                                                             \
	"nn_modules m ON m.id = a.id WHERE m.parent > 0 AND m.parent < m.id), "                                                                                               \
	"sums AS MATERIALIZED (SELECT a.id AS id, total(o.calls) AS calls, total(o.forward) AS forward, "                                                                     \
	"total(o.backward) AS backward, sum(o.device_forward) AS device_forward, sum(o.device_backward) AS "                                                                  \
	"device_backward FROM above a JOIN own o ON o.module = a.module GROUP BY a.id), "                                                                                     \
	"named AS MATERIALIZED (SELECT m.id AS id, m.parent AS parent, c.text AS class, coalesce(n.text, '(' || "                                                             \
	"coalesce(c.text, '?') || ')') AS name FROM nn_modules m LEFT JOIN strings n ON n.id = m.name LEFT JOIN "                                                             \
	"strings c ON c.id = m.class WHERE m.id IN (SELECT id FROM sums)), "                                                                                                  \
	"paths(id, path, depth, place) AS (SELECT id, '', 0, printf('%09d', id) FROM named WHERE parent = 0 UNION "                                                           \
	"ALL SELECT m.id, p.path || CASE p.depth WHEN 0 THEN '' ELSE '.' END || m.name, p.depth + 1, p.place || "                                                             \
	"printf('%09d', m.id) FROM paths p JOIN named m ON m.parent = p.id WHERE p.depth < 512 AND m.id > p.id) "                                                             \
	"SELECT CASE p.depth WHEN 0 THEN m.class ELSE p.path END, printf('%*s', 2 * p.depth, '') || CASE p.depth "                                                            \
	"WHEN 0 THEN m.class ELSE m.name END, m.class, p.depth, CASE WHEN w.counted THEN min(coalesce(o.entered, 0), 9e18) END, s.calls, min(s.forward + s.backward, 9e18), " \
	"(s.forward + s.backward) * 100.0 / w.host, (s.forward + s.backward) / w.host, min(s.forward, 9e18), "                                                                \
	"min(s.backward, 9e18), min(coalesce(o.forward + o.backward, 0), 9e18), min(s.device_forward + "                                                                      \
	"s.device_backward, 9e18), min(s.device_forward, 9e18), min(s.device_backward, 9e18) FROM paths p JOIN named "                                                        \
	"m ON m.id = p.id JOIN sums s ON s.id = p.id LEFT JOIN own o ON o.module = p.id JOIN (SELECT "                                                                        \
	"nullif(total(self), 0) AS host, EXISTS (SELECT 1 FROM module_totals WHERE entered > 0) AS counted FROM "                                                             \
	"operators WHERE" REPORT_STEP ") w WHERE true"

struct table *report_modules(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(columns), NULL, 0, "p.place", NULL, NULL};
	if (!report_ran(reader, "modules"))
		return table_new(shape.columns, shape.count);
	return report_query(reader, options, &shape, SQL);
}
