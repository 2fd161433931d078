/* operators.c - operators by name, as torch.profiler's key_averages() counts them: from the totals that derive made, or,
 * to tell input shapes apart, from the operators themselves, folded here by the rule that derive folds by
 * (daemon/fold.h): an operator whose only child has its own name is one call with it, of the outer one's inputs. */
#include "report.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

enum { O_NAME, O_SHAPES, O_CALLS, O_SELF, O_SELF_SHARE, O_TOTAL, O_TOTAL_SHARE, O_AVERAGE };

static const struct column columns[] = {
	[O_NAME] = {"name", "OPERATOR", COLUMN_TEXT, COLUMN_ELASTIC},
	[O_SHAPES] = {"input_shapes", "INPUT SHAPES", COLUMN_TEXT, COLUMN_ELASTIC},
	[O_CALLS] = {"calls", "CALLS", COLUMN_COUNT, 0},
	[O_SELF] = {"self_cpu_ns", "SELF CPU", COLUMN_DURATION, 0},
	[O_SELF_SHARE] = {"self_cpu_percent", "SELF %", COLUMN_PERCENT, 0},
	[O_TOTAL] = {"cpu_ns", "CPU TOTAL", COLUMN_DURATION, 0},
	[O_TOTAL_SHARE] = {"cpu_percent", "TOTAL %", COLUMN_PERCENT, 0},
	[O_AVERAGE] = {"cpu_average_ns", "CPU AVG", COLUMN_DURATION, 0},
};

/* Without the column of shapes. */
static const struct column columns_plain[] = {
	{"name", "OPERATOR", COLUMN_TEXT, COLUMN_ELASTIC}, {"calls", "CALLS", COLUMN_COUNT, 0},
	{"self_cpu_ns", "SELF CPU", COLUMN_DURATION, 0},   {"self_cpu_percent", "SELF %", COLUMN_PERCENT, 0},
	{"cpu_ns", "CPU TOTAL", COLUMN_DURATION, 0},	   {"cpu_percent", "TOTAL %", COLUMN_PERCENT, 0},
	{"cpu_average_ns", "CPU AVG", COLUMN_DURATION, 0},
};

#define SQL_PLAIN                                                                                                      \
	"WITH t AS (SELECT name, NULL AS dims, sum(calls) AS calls, sum(self) AS self, sum(total) AS total FROM "      \
	"operator_totals WHERE ?1 = 0 OR step = ?1 GROUP BY name) "
/* That a child is the only one is seen by its parent's self time: duration less that of direct children. The join finds a
 * parent by an index that SQLite makes for the query; "+" keeps it from looking for one on anything but the id. Flag 2 is
 * EVENT_FLAG_ASYNC. */
#define SQL_SHAPES                                                                                                     \
	"WITH RECURSIVE folded AS MATERIALIZED (SELECT c.id AS id, c.parent AS parent, c.self AS self FROM operators " \
	"c JOIN operators p ON p.id = c.parent WHERE p.name = +c.name AND p.thread = +c.thread AND p.duration - "      \
	"p.self = c.duration AND NOT (c.flags | p.flags) & 2), "                                                       \
	"path (head, id, self) AS (SELECT parent, id, self FROM folded WHERE parent NOT IN (SELECT id FROM folded) "   \
	"UNION ALL SELECT path.head, f.id, f.self FROM path JOIN folded f ON f.parent = path.id), "                    \
	"within AS MATERIALIZED (SELECT head, sum(self) AS self FROM path GROUP BY head), "                            \
	"t AS (SELECT o.name AS name, o.inputs AS dims, count(*) AS calls, sum(o.self + coalesce(i.self, 0)) AS "      \
	"self, sum(o.duration) AS total FROM operators o LEFT JOIN within i ON i.head = o.id WHERE (o.id IS NULL OR "  \
	"o.id NOT IN "                                                                                                 \
	"(SELECT id FROM folded)) AND (?1 = 0 OR o.step = ?1) GROUP BY o.name, o.inputs) "
#define SQL_ROWS                                                                                                       \
	"SELECT coalesce(s.text, '(nameless)'), %s, t.calls, t.self, t.self * 100.0 / w.self, t.total, "               \
	"t.total * 100.0 / w.self, t.total / t.calls FROM t LEFT JOIN strings s ON s.id = t.name %s "                  \
	"JOIN (SELECT max(sum(self), 1) AS self FROM t) w WHERE t.calls > 0 ORDER BY %s, s.text"

static const char *order(const char *key)
{
	static const char *const orders[][2] = {
		{"self_cpu_time_total", "t.self DESC"},
		{"cpu_time_total", "t.total DESC"},
		{"cpu_time", "t.total * 1.0 / t.calls DESC"},
		{"count", "t.calls DESC"},
		{"name", "s.text"},
	};

	for (size_t i = 0; key && i < sizeof orders / sizeof *orders; i++)
		if (strcmp(key, orders[i][0]) == 0)
			return orders[i][1];
	return orders[0][1];
}

struct table *report_operators(const struct reader *reader, const struct report_options *options)
{
	struct table *table = options->shapes ? table_new(columns, sizeof columns / sizeof *columns)
					      : table_new(columns_plain, sizeof columns_plain / sizeof *columns_plain);
	bool shapes_ran = options->shapes && report_ran(reader, "shapes");
	char sql[3072];
	sqlite3_stmt *statement;
	int n = snprintf(sql, sizeof sql, "%s", options->shapes ? SQL_SHAPES : SQL_PLAIN);

	snprintf(sql + n, sizeof sql - (size_t)n, SQL_ROWS, options->shapes ? "i.dims" : "NULL",
		 options->shapes ? "LEFT JOIN inputs i ON i.id = t.dims" : "", order(options->sort_by));
	statement = report_prepare(reader, sql);
	sqlite3_bind_int64(statement, 1, options->step);
	while (report_next(reader, statement)) {
		size_t at = 0;

		table_add(table);
		for (int c = O_NAME; c <= O_AVERAGE; c++) {
			if (c == O_SHAPES && !options->shapes)
				continue;
			if (c == O_SHAPES && !shapes_ran)
				table_set_absent(table, at);
			else if (c == O_SELF_SHARE || c == O_TOTAL_SHARE)
				table_set_real(table, at, sqlite3_column_double(statement, c));
			else
				report_cell(table, at, statement, c);
			at++;
		}
	}
	return table;
}

struct table *report_operators_summary(const cJSON *summary, int64_t wall)
{
	static const struct column few[] = {
		{"name", "OPERATOR", COLUMN_TEXT, COLUMN_ELASTIC}, {"calls", "CALLS", COLUMN_COUNT, 0},
		{"self_cpu_ns", "SELF CPU", COLUMN_DURATION, 0},   {"", "OF STEPS", COLUMN_PERCENT, COLUMN_TABLE_ONLY},
		{"cpu_ns", "CPU TOTAL", COLUMN_DURATION, 0},
	};
	struct table *table = table_new(few, sizeof few / sizeof *few);
	const cJSON *row;

	cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(summary, "operators"))
	{
		const cJSON *self = cJSON_GetObjectItemCaseSensitive(row, "self_cpu_ns");

		table_add(table);
		for (size_t c = 0; c < sizeof few / sizeof *few; c++) {
			const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, few[c].key);

			if (cJSON_IsString(item))
				table_set_text(table, c, item->valuestring);
			else if (cJSON_IsNumber(item))
				table_set(table, c, (int64_t)item->valuedouble);
		}
		if (wall > 0 && cJSON_IsNumber(self))
			table_set_real(table, 3, self->valuedouble * 100 / (double)wall);
	}
	report_whole(table, summary, "operators_total");
	return table;
}
