/* export_capture.h - a capture file in the making, for the tests of exports. Include it after cmocka.h. */
#ifndef PROFD_TESTS_UNIT_EXPORT_CAPTURE_H
#define PROFD_TESTS_UNIT_EXPORT_CAPTURE_H

#include "proto/version.h"
#include "tests/empty_capture.h"

#include <sqlite3.h>
#include <stdarg.h>

static char folder[] = "/tmp/profd-export-XXXXXX";
static char database[64];

static void run(sqlite3 *db, const char *sql)
{
	char *why = NULL;
	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		fail_msg("%s: %s", sql, why);
}

static void run_format(sqlite3 *db, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	char *sql = sqlite3_vmprintf(format, arguments);
	va_end(arguments);
	run(db, sql);
	sqlite3_free(sql);
}

/* An empty capture file; `ingested` is there, as long as it is not finished. */
static sqlite3 *begin_capture(void)
{
	sqlite3 *db;
	assert_int_equal(empty_capture(database), 0);
	assert_int_equal(sqlite3_open(database, &db), SQLITE_OK);
	/* Nobody needs it after a crash, and a disk that others use makes each of hundreds of statements wait. */
	run(db, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF");
	run_format(db,
		   "INSERT INTO meta VALUES ('schema', %d), ('pid', 100), ('base_realtime', 1767225600000000000), "
		   "('status', 'complete'), ('host', 'n')",
		   CAPTURE_SCHEMA_VERSION);
	return db;
}

static void end_capture(sqlite3 *db)
{
	run(db, "DROP TABLE ingested");
	sqlite3_close(db);
}

#endif
