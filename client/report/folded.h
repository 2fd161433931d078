/* folded.h - which operators are one call with their parent. */
#ifndef PROFD_CLIENT_REPORT_FOLDED_H
#define PROFD_CLIENT_REPORT_FOLDED_H

/* The operators that are one call with their parent, by the rule that derive folds by (store/fold.h): pairs of one name
 * on one thread, less those of parents that have another child, ranges included. `from`: a table of operators that has
 * all that matter. Flag 2 is EVENT_FLAG_ASYNC, source 2 a range on no stack; "+" keeps the search for a parent on its
 * id. */
#define REPORT_FOLDED(from)                                                                                            \
	"pair AS MATERIALIZED (SELECT c.id AS id, c.parent AS parent, c.self AS self, c.thread AS thread, c.step AS "  \
	"step FROM " from " c JOIN " from " p ON p.id = c.parent WHERE +p.name = +c.name AND +p.thread = +c.thread "   \
	"AND c.id IS NOT NULL AND NOT (c.flags | p.flags) & 2), "                                                      \
	"crowd AS MATERIALIZED (SELECT parent FROM (SELECT parent FROM operators WHERE parent IN (SELECT parent FROM " \
	"pair) AND NOT flags & 2 UNION ALL SELECT parent FROM ranges WHERE parent IN (SELECT parent FROM pair) AND "   \
	"NOT flags & 2 AND source <> 2) GROUP BY parent HAVING count(*) > 1), "                                        \
	"folded AS MATERIALIZED (SELECT id, parent, self, thread, step FROM pair WHERE parent NOT IN (SELECT parent "  \
	"FROM crowd))"

#endif
