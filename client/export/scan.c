/* scan.c - see scan.h: the aggregate function hands each row on and adds nothing up. */
#include "scan.h"

#include <errno.h>

struct scan {
	scan_row row;
	void *user;
	int64_t left; /* rows that there can be */
	struct bounds *bounds;
	int error;
};

static void take(sqlite3_context *context, int count, sqlite3_value **values)
{
	(void)count;
	struct scan *scan = sqlite3_user_data(context);
	if (scan->left-- > 0) {
		scan->error = scan->row(scan->user, values);
	} else {
		bounds_exceed(scan->bounds);
		scan->error = -EIO;
	}
	if (scan->error)
		sqlite3_result_error_code(context, SQLITE_ABORT);
}

static void finish(sqlite3_context *context)
{
	sqlite3_result_null(context);
}

int scan_rows(const struct reader *r, const char *sql, int64_t first, int64_t last, scan_row row, void *user)
{
	struct scan scan = {.row = row, .user = user, .left = bounds_rows(r->bounds), .bounds = r->bounds};
	/* Only in a broken file two rows have the same number. */
	if (first >= 0 && last - first < scan.left)
		scan.left = last - first + 1;
	sqlite3_stmt *statement;
	/* The file's own views and triggers cannot call it. */
	if (sqlite3_create_function_v2(r->db, "profd_row", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, &scan, NULL, take,
				       finish, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(r->db, sql, -1, &statement, NULL) != SQLITE_OK)
		return -EIO;
	sqlite3_bind_int64(statement, 1, first);
	sqlite3_bind_int64(statement, 2, last);
	int result = sqlite3_step(statement);
	sqlite3_finalize(statement);
	return scan.error ? scan.error : result == SQLITE_ROW ? 0 : -EIO;
}
