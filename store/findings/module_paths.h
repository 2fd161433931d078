/* module_paths.h - the names and paths of nn.Modules, as parts of a WITH RECURSIVE. */
#ifndef PROFD_STORE_FINDINGS_MODULE_PATHS_H
#define PROFD_STORE_FINDINGS_MODULE_PATHS_H

/* named(id, parent, class, name): the modules for which the condition is true (m: nn_modules). It has to be true for
 * their callers, too. paths(id, path, depth, place): the path below the outermost module, whose own is ''; `place`
 * sorts modules in the order in which they were first called. Paths are no deeper than stacks, even in a hostile
 * file. */
#define MODULE_PATHS(condition)                                                                                        \
	"named AS MATERIALIZED (SELECT m.id AS id, m.parent AS parent, c.text AS class, coalesce(n.text, '(' || "      \
	"coalesce(c.text, '?') || ')') AS name FROM nn_modules m LEFT JOIN strings n ON n.id = m.name LEFT JOIN "      \
	"strings c ON c.id = m.class WHERE " condition "), "                                                           \
	"paths(id, path, depth, place) AS (SELECT id, '', 0, printf('%09d', id) FROM named WHERE parent = 0 UNION "    \
	"ALL SELECT m.id, p.path || CASE p.depth WHEN 0 THEN '' ELSE '.' END || m.name, p.depth + 1, p.place || "      \
	"printf('%09d', m.id) FROM paths p JOIN named m ON m.parent = p.id WHERE p.depth < 512 AND m.id > p.id)"

/* The name of a path: itself, or the class of an outermost module (p: paths, m: named). */
#define MODULE_NAME "CASE p.depth WHEN 0 THEN m.class ELSE p.path END"

#endif
