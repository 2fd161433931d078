/* columns.c - see columns.h. The columns come from events.def; schema.def has the other tables of a capture file. No
 * state. */
#include "columns.h"
#include "events.h"

/* The type of a column, by role. */
#define COLUMN_INTEGER(column) ", " column " INTEGER"
#define COLUMN_TIME COLUMN_INTEGER
#define COLUMN_TIME_OR_NONE COLUMN_INTEGER
#define COLUMN_SPAN COLUMN_INTEGER
#define COLUMN_SELF COLUMN_INTEGER
#define COLUMN_ID COLUMN_INTEGER
#define COLUMN_STRING COLUMN_INTEGER
#define COLUMN_INPUTS COLUMN_INTEGER
#define COLUMN_THREAD COLUMN_INTEGER
#define COLUMN_CORRELATION COLUMN_INTEGER
#define COLUMN_CORRELATION_OR_NONE COLUMN_INTEGER
#define COLUMN_BYTES COLUMN_INTEGER
#define COLUMN_INT COLUMN_INTEGER
#define COLUMN_MOST(most) COLUMN_INTEGER
#define COLUMN_BITS COLUMN_INTEGER
#define COLUMN_REAL(column) ", " column " REAL"
#define COLUMN_SKIP(column)

const char *event_create_table(unsigned kind)
{
	switch (kind) {
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	case number:                                                                                                   \
		return "CREATE TABLE " table " (step INTEGER, flags INTEGER NOT NULL"
#define FIELD(NAME, name, offset, type, member, role, column, description) COLUMN_##role(column)
#define END_EVENT(NAME, name, size) ")";
#include "events.def"
	default:
		return NULL;
	}
}
