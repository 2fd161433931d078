/* dtypes.c - operators by the types of their inputs. A test of the recipes: what a stranger writes with CONTRIBUTING.md alone. */
#include "query.h"
#include "views.h"

#include "store/fold_rule.h"

static const struct column columns[] = {
	{"name", "OPERATOR", COLUMN_TEXT, COLUMN_NAME},
	{"input_types", "INPUT TYPES", COLUMN_TEXT, COLUMN_ELASTIC},
	{"calls", "CALLS", COLUMN_COUNT, 0},
	{"cpu_ns", "CPU TOTAL", COLUMN_DURATION, 0},
};

struct table *report_dtypes(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(columns), NULL, 0, "3 DESC, 1, 2", NULL, NULL};

	return report_query(
		reader, options, &shape,
		"WITH " FOLD_SQL("operators", "operators") //
		" SELECT s.text, i.types, count(*), min(total(o.duration), 9e18) FROM operators o "
		"JOIN strings s ON s.id = o.name JOIN inputs i ON i.id = o.inputs WHERE (?1 = 0 OR o.step = ?1) "
		"AND (o.id IS NULL OR o.id NOT IN (SELECT id FROM folded)) GROUP BY 1, 2");
}
