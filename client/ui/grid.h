/* grid.h - a table as arrays, for a program that shows it to people: what its columns are called, and their kinds, once. */
#ifndef PROFD_CLIENT_UI_GRID_H
#define PROFD_CLIENT_UI_GRID_H

#include "table.h"

/* {"columns": [{"title", "kind"}], "rows": [[...]], "total", "notes": []}: at most `limit` rows (0 = all), and the columns that people
 * see of them. Kinds are text, number, count, duration (ns), bytes, percent, flag, rate (bytes a ns), speed (floating point operations
 * a ns), list. To be deleted. */
cJSON *table_grid(const struct table *table, size_t limit);

#endif
