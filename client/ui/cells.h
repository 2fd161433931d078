/* cells.h - what a table consists of, for the files of this folder that print one. */
#ifndef PROFD_CLIENT_UI_CELLS_H
#define PROFD_CLIENT_UI_CELLS_H

#include "table.h"

enum cell_type { CELL_EMPTY, CELL_INTEGER, CELL_REAL, CELL_TEXT, CELL_ABSENT };

struct cell {
	enum cell_type type;
	union {
		int64_t integer;
		double real;
		char *text; /* as it came */
	};
};

struct table {
	const struct column *columns;
	size_t count;
	struct cell *cells; /* rows * count */
	bool *marked;
	size_t rows;
	size_t room;
	size_t whole; /* more than `rows` where the rest is elsewhere */
	char *notes;  /* lines; NULL: none */
};

/* How many rows are printed where `limit` are wanted (0 = all). */
static inline size_t table_shown(const struct table *table, size_t limit)
{
	return limit && limit < table->rows ? limit : table->rows;
}

#endif
