/* flop_rows.h - operators whose floating point operations are known (store/flops.h): the parts of a WITH. */
#ifndef PROFD_CLIENT_REPORT_FLOP_ROWS_H
#define PROFD_CLIENT_REPORT_FLOP_ROWS_H

#include "client/reader/reader.h"

#include "store/fold_rule.h"

/* Adds the functions that these parts, and the queries after them, call. profd_has_formula(name).
 * profd_counted(name): does it add to a total? profd_inner(name): does its caller count it, if that has a formula?
 * profd_work(name): does it do the work for which its caller is counted? profd_flops(name, dims, concrete): of one
 * call; NULL: not known. */
void flop_functions(const struct reader *reader);

/* `few` are the operators that have a formula. Those that are also in `folded` are one call with their parent and
 * count with it, as in the table of operators. `some` are those of `few` of whose name the totals have fewer calls:
 * only they can be folded. `callers` are operators whose work is done by another operator of `few` that they call, at
 * any depth: the next one on their thread begins before they end. `more`: further columns of `few`, which files of
 * earlier releases may lack. */
#define FLOP_ROWS(more)                                                                                                          \
	"few AS MATERIALIZED (SELECT id, parent, self, thread, step, name, flags, inputs, start, duration" more                  \
	" FROM operators WHERE name IN (SELECT id FROM strings WHERE profd_has_formula(text))), some AS MATERIALIZED (SELECT * " \
	"FROM few WHERE name IN (SELECT f.name FROM (SELECT name, count(*) AS calls FROM few GROUP BY name) f LEFT JOIN "        \
	"(SELECT name, sum(calls) AS calls FROM operator_totals GROUP BY name) t ON t.name = f.name WHERE f.calls > "            \
	"coalesce(t.calls, 0))), " FOLD_SQL(                                                                                     \
		"some",                                                                                                          \
		"some") ", callers AS MATERIALIZED (SELECT id FROM (SELECT id, start + duration AS ends, lead(start) OVER "      \
			"(PARTITION BY thread ORDER BY start, id) AS next FROM few WHERE id IS NOT NULL AND id NOT IN "          \
			"(SELECT id FROM folded) AND name IN (SELECT id FROM strings WHERE profd_work(text))) WHERE "            \
			"next < ends)"
/* For a row of `few`: is it a call of its own, in the step, that its parent does not count? */
#define FLOP_CALL(row)                                                                                                 \
	"(?1 = 0 OR " row ".step = ?1) AND (" row ".id IS NULL OR " row                                                \
	".id NOT IN (SELECT id FROM folded)) AND (" row                                                                \
	".name NOT IN (SELECT id FROM strings WHERE profd_inner(text)) OR " row ".parent IS NULL OR " row              \
	".parent NOT IN (SELECT id FROM few WHERE id IS NOT NULL))"

/* For a row of `few` whose name counts: does the row itself count, and not an operator that it calls? */
#define FLOP_ALONE(row) "(" row ".id IS NULL OR " row ".id NOT IN (SELECT id FROM callers))"

#endif
