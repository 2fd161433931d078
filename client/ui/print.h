/* print.h - a table as text for people. */
#ifndef PROFD_CLIENT_UI_PRINT_H
#define PROFD_CLIENT_UI_PRINT_H

#include "screen.h"
#include "table.h"

/* At most `limit` rows (0 = all); says how many it left out. The notes stand below. */
void table_print(const struct table *table, const struct screen *screen, size_t limit);

#endif
