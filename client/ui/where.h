/* where.h - --where: a condition on the columns of a table, such as `name~gemm and calls>10`.
 *
 *     condition := term { or term }           term := factor { and factor }          factor := [ not ] ( condition ) | test
 *     test := COLUMN operator VALUE           operator := = != < <= > >= ~ !~
 *
 * COLUMN is a key of the table's JSON, its unit may be left out (total for total_ns). VALUE is a number, with the unit of its
 * column (20us, 4MiB, 5%), or a text, in quotes where it has blanks. ~ finds a part of a text, whatever its case, or, with * and
 * ?, a pattern. A cell without a value meets no test but !=. */
#ifndef PROFD_CLIENT_UI_WHERE_H
#define PROFD_CLIENT_UI_WHERE_H

#include "table.h"

struct where;

/* Reads a condition; NULL with a sentence in `why`. To be freed. */
struct where *where_read(const char *text, char *why, size_t why_bytes);
void where_free(struct where *where);
/* Takes out the rows that do not meet the condition. False with a sentence in `why`: the table has no such column, or the value
 * does not suit it; then all rows stay. */
bool where_keep(struct where *where, struct table *table, char *why, size_t why_bytes);

#endif
