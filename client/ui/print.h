/* print.h - a table as text for people. */
#ifndef PROFD_CLIENT_UI_PRINT_H
#define PROFD_CLIENT_UI_PRINT_H

#include "screen.h"
#include "table.h"

/* At most `limit` rows (0 = all); says how many it left out. The notes stand below. */
void table_print(const struct table *table, const struct screen *screen, size_t limit);
/* Prints the notes of a table, or lines like them: each broken at the screen's width, what follows behind its own indent. */
void print_notes(const char *notes, const struct screen *screen);
/* Prints a sentence, broken at blanks where it would leave `room` columns; what follows begins in column `indent`. `begun`: columns
 * behind that which are used already. */
void print_wrapped(FILE *file, const char *text, size_t indent, size_t room, size_t begun);

#endif
