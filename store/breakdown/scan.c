/* scan.c - see scan.h. */
#include "scan.h"

#include "load.h"

static bool enough(const struct scan *scan)
{
	return scan->watch && !scan->watch->row(scan->watch->context);
}

#define SCAN "struct scan"

/* profd_row(), the WHERE of scan_table(): is given the scan and the columns, and says that the row is not one of the result. */
static void take_row(sqlite3_context *context, int count, sqlite3_value **row)
{
	struct scan *scan = count ? sqlite3_value_pointer(row[0], SCAN) : NULL;
	if (!scan)
		return;
	if (!scan->error && enough(scan))
		scan->error = SQLITE_CORRUPT;
	if (!scan->error)
		scan->take(scan->context, row + 1);
	if (scan->error)
		sqlite3_result_error_code(context, scan->error);
	else
		sqlite3_result_int(context, 0);
}

void scan_begin(struct scan *scan, sqlite3 *db, const struct breakdown_watch *watch)
{
	*scan = (struct scan){.db = db, .watch = watch};
	scan->error = sqlite3_create_function(db, "profd_row", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, take_row,
					      NULL, NULL);
}

void scan_each(struct scan *scan, const char *sql, void (*take)(void *context, sqlite3_stmt *row), void *context)
{
	sqlite3_stmt *statement = NULL;
	if (scan->error)
		return;
	scan->error = sqlite3_prepare_v2(scan->db, sql, -1, &statement, NULL);
	while (!scan->error) {
		int result = sqlite3_step(statement);
		if (result == SQLITE_ROW && enough(scan))
			scan->error = SQLITE_CORRUPT;
		else if (result == SQLITE_ROW)
			take(context, statement);
		else if (result == SQLITE_DONE)
			break;
		else
			scan->error = result;
	}
	sqlite3_finalize(statement);
}

void scan_table(struct scan *scan, const char *sql, void (*take)(void *context, sqlite3_value **row), void *context)
{
	sqlite3_stmt *statement = NULL;
	if (scan->error)
		return;
	scan->take = take;
	scan->context = context;
	int result = sqlite3_prepare_v2(scan->db, sql, -1, &statement, NULL);
	if (!result)
		result = sqlite3_bind_pointer(statement, 1, scan, SCAN, NULL);
	if (!result)
		result = sqlite3_step(statement);
	if (result != SQLITE_DONE && !scan->error)
		scan->error = result;
	sqlite3_finalize(statement);
}

void scan_no_memory(struct scan *scan)
{
	if (!scan->error)
		scan->error = SQLITE_NOMEM;
}
