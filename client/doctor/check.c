/* check.c - see check.h. */
#include "check.h"

#include <string.h>

void doctor_check(struct table *table, const char *check, const char *result, const char *sentence)
{
	table_add(table);
	table_set_text(table, 0, check);
	table_set_text(table, 1, result);
	table_set_text(table, 2, sentence);
	if (strcmp(result, "ok") != 0)
		table_mark(table);
}
