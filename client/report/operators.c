/* operators.c - operators by name, as torch.profiler's key_averages() counts them. They come from the totals that
 * derive made. To tell input shapes or Python stacks apart, they come from the operators themselves, folded by the
 * same rule (store/fold_rule.h): a call has the inputs and the stack of its outermost operator. */
#include "client/ui/text.h"
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "store/fold_rule.h"

#include <sqlite3.h>
#include <stdio.h>

#define NAME                                                                                                           \
	{                                                                                                              \
		"name", "OPERATOR", COLUMN_TEXT, COLUMN_NAME                                                           \
	}
/* Without a device its columns are empty, and the other columns get the room. */
#define FIGURES                                                                                                        \
	{"calls", "CALLS", COLUMN_COUNT, 0}, {"self_cpu_ns", "SELF CPU", COLUMN_DURATION, 0},                          \
		{"self_cpu_percent", "SELF CPU %", COLUMN_PERCENT, COLUMN_SPARE | COLUMN_BARRED},                      \
		{"cpu_ns", "CPU TOTAL", COLUMN_DURATION, COLUMN_SPARE},                                                \
		{"cpu_percent", "CPU TOTAL %", COLUMN_PERCENT, COLUMN_SPARE},                                          \
		{"cpu_average_ns", "CPU AVG", COLUMN_DURATION, COLUMN_SPARE},                                          \
		{"self_device_ns", "SELF DEVICE", COLUMN_DURATION, COLUMN_OPTIONAL},                                   \
		{"self_device_percent", "DEVICE %", COLUMN_PERCENT, COLUMN_OPTIONAL},                                  \
		{"device_ns", "DEVICE TOTAL", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},                        \
		{"device_percent", "DEVICE TOTAL %", COLUMN_PERCENT, COLUMN_OPTIONAL | COLUMN_SPARE},                  \
	{                                                                                                              \
		"device_average_ns", "DEVICE AVG", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE                     \
	}

static const struct column columns[] = {NAME, FIGURES};
static const struct column columns_shapes[] = {
	NAME, {"input_shapes", "INPUT SHAPES", COLUMN_TEXT, COLUMN_ELASTIC}, FIGURES};

static const struct column columns_stack[] = {NAME, {"stack", "STACK", COLUMN_TEXT, COLUMN_ELASTIC}, FIGURES};

/* %s: what is known about the device, or NULL. */
#define SQL_PLAIN                                                                                                      \
	"WITH t AS (SELECT name, sum(calls) AS calls, sum(self) AS self, sum(total) AS total, %s FROM "                \
	"operator_totals "                                                                                             \
	"WHERE" REPORT_STEP "GROUP BY name) "
#define PLAIN_DEVICE "sum(self_device) AS self_device, sum(device) AS device"
#define FOLDED FOLD_SQL("operators", "operators")
/* `raw` groups operators by a column of theirs, which becomes `dims`. */
#define SQL_APART                                                                                                      \
	"WITH RECURSIVE " FOLDED ", " FOLD_SQL_PATH ", %s "                                                            \
	"raw AS (SELECT o.name AS name, o.%s AS dims, count(*) AS calls, "                                             \
	"sum(o.self + coalesce(i.self, 0)) AS self, sum(o.duration) AS total, %s "                                     \
	"FROM operators o LEFT JOIN within i ON i.head = o.id %s "                                                     \
	"WHERE (o.id IS NULL OR o.id NOT IN (SELECT id FROM folded)) AND (?1 = 0 OR o.step = ?1) "                     \
	"GROUP BY o.name, o.%s) "
#define SQL_SUMS                                                                                                       \
	"sum(raw.calls) AS calls, sum(raw.self) AS self, sum(raw.total) AS total, sum(raw.self_device) AS "            \
	"self_device, sum(raw.device) AS device FROM raw "
/* The innermost frames of each stack as a text, as torch.profiler writes them: with the line of the function's
 * definition, and its name without its class. Stacks with the same text are one. */
#define SQL_LAST_NAME "replace(n.text, rtrim(n.text, replace(n.text, '.', '')), '')"
#define SQL_STACKS                                                                                                       \
	", frames AS MATERIALIZED (SELECT s.id AS id, s.parent AS parent, coalesce(f.text, '') || '(' || s.first_line "  \
	"|| '): ' || coalesce(" SQL_LAST_NAME ", '') AS label FROM stacks s LEFT JOIN strings f ON f.id = s.file "       \
	"LEFT JOIN strings n ON n.id = s.function), "                                                                    \
	"up(stack, caller, depth, text) AS (SELECT w.dims, f.parent, 1, f.label FROM (SELECT DISTINCT dims FROM raw) w " \
	"JOIN frames f ON f.id = w.dims UNION ALL SELECT up.stack, f.parent, up.depth + 1, up.text || '; ' || f.label "  \
	"FROM up JOIN frames f ON f.id = up.caller WHERE up.depth < %lld), "                                             \
	"texts AS MATERIALIZED (SELECT stack, text, max(depth) FROM up GROUP BY stack), "                                \
	"t AS (SELECT raw.name AS name, coalesce(x.text, '') AS dims, " SQL_SUMS                                         \
	"LEFT JOIN texts x ON x.stack = raw.dims "                                                                       \
	"GROUP BY 1, 2) "
/* Only the shapes of inputs: inputs with other types, strides or scalars are one, as in torch.profiler's
 * group_by_input_shape. */
#define SQL_SHAPES                                                                                                     \
	", t AS (SELECT raw.name AS name, i.dims AS dims, " SQL_SUMS                                                   \
	"LEFT JOIN inputs i ON i.id = raw.dims GROUP BY 1, 2) "
#define APART_WITHIN "within AS MATERIALIZED (SELECT head, sum(self) AS self FROM path GROUP BY head),"
#define APART_WITHIN_DEVICE                                                                                            \
	"within AS MATERIALIZED (SELECT path.head AS head, sum(path.self) AS self, sum(d.self) AS device FROM path "   \
	"LEFT JOIN range_devices d ON d.id = path.id GROUP BY path.head),"
#define APART_DEVICE                                                                                                   \
	"coalesce(sum(d.self), 0) + coalesce(sum(i.device), 0) AS self_device, coalesce(sum(d.total), 0) AS device"
#define NO_DEVICE "NULL AS self_device, NULL AS device"
/* %s: the column that tells rows apart; then the device's time in all. */
#define SQL_ROWS                                                                                                       \
	"SELECT coalesce(s.text, '(nameless)')%s, t.calls, t.self, t.self * 100.0 / w.self, t.total, t.total * "       \
	"100.0 / w.self, t.total / t.calls, t.self_device, t.self_device * 100.0 / w.device, t.device, t.device * "    \
	"100.0 / w.device, t.device / t.calls FROM t LEFT JOIN strings s ON s.id = t.name "                            \
	"JOIN (SELECT max(sum(self), 1) AS self, nullif(%s, 0) AS device FROM t) w WHERE t.calls > 0"

static const struct report_key keys[] = {
	{"self_cpu_time_total", "t.self DESC"},
	{"cpu_time_total", "t.total DESC"},
	{"cpu_time", "t.total * 1.0 / t.calls DESC"},
	{"self_device_time_total", "t.self_device DESC, t.self DESC"},
	{"device_time_total", "t.device DESC, t.total DESC"},
	{"device_time", "t.device * 1.0 / t.calls DESC, t.total DESC"},
	{"count", "t.calls DESC"},
	{"name", "s.text"},
};

/* --group-by-shapes or --group-by-stack was given, but the capture has none. */
static void lacks(struct table *table, sqlite3_stmt *row)
{
	(void)row;
	table_set_absent(table, 1);
}

/* The table `t` of operators, with the column that tells them apart. */
static void totals_sql(const struct report_options *options, bool gpu, char *sql, size_t bytes)
{
	const char *column = options->stack ? "stack" : "inputs";
	int n;

	if (!options->stack && !options->shapes) {
		snprintf(sql, bytes, SQL_PLAIN, gpu ? PLAIN_DEVICE : NO_DEVICE);
		return;
	}
	n = snprintf(sql, bytes, SQL_APART, gpu ? APART_WITHIN_DEVICE : APART_WITHIN, column,
		     gpu ? APART_DEVICE : NO_DEVICE, gpu ? "LEFT JOIN range_devices d ON d.id = o.id" : "", column);
	if (options->stack)
		snprintf(sql + n, bytes - (size_t)n, SQL_STACKS, (long long)options->stack);
	else
		snprintf(sql + n, bytes - (size_t)n, SQL_SHAPES);
}

static void apart(const struct reader *reader, const struct report_options *options, struct report_shape *shape)
{
	shape->columns = options->stack ? columns_stack : columns_shapes;
	shape->count = sizeof columns_shapes / sizeof *columns_shapes;
	shape->finish = report_ran(reader, options->stack ? "operator_stacks" : "shapes") ? NULL : lacks;
}

struct table *report_operators(const struct reader *reader, const struct report_options *options)
{
	bool gpu = report_attributed(reader);
	/* Files of earlier releases lack the column for stacks. */
	bool stackless = options->stack && !report_ran(reader, "operator_stacks");
	struct report_options own = *options;
	struct report_shape shape = {COUNTED(columns), COUNTED(keys), "s.text", NULL, NULL};
	char totals[4096], sql[8192], figure[TEXT_FIGURE_BYTES];

	own.stack = stackless ? 0 : options->stack;
	totals_sql(&own, gpu, totals, sizeof totals);
	if (options->shapes || options->stack)
		apart(reader, options, &shape);
	if (gpu && !own.sort_by)
		own.sort_by = "self_device_time_total";
	snprintf(sql, sizeof sql, "%s" SQL_ROWS, totals,
		 own.stack || options->shapes ? ", t.dims"
		 : stackless		      ? ", NULL"
					      : "",
		 gpu ? REPORT_DEVICE_TIME : "NULL");
	struct table *table = report_query(reader, &own, &shape, sql);
	table_note(table, "Self CPU time total: %s", text_duration(figure, report_self_cpu_total(reader, options)));
	report_note_unattributed(table, reader);
	report_note_device(table, reader, options);
	return table;
}
