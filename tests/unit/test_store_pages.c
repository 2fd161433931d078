/* test_store_pages.c - tables that pages.h reads, against the same tables from SQL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/breakdown/load.h"
#include "store/breakdown/pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS "e, rowid, a, d, b, later"
#define ROWS 20000

static char path[64];
static sqlite3 *db;
static const struct breakdown_watch *ours;

static void run(const char *sql)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

static void make(int page, const char *more)
{
	char sql[128];
	snprintf(path, sizeof path, "/tmp/profd_pages.XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	snprintf(sql, sizeof sql, "PRAGMA page_size = %d; PRAGMA cache_size = -64; PRAGMA synchronous = OFF; %s", page,
		 more);
	run(sql);
	run("CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER, d INTEGER, e INTEGER)");
}

static void unmake(void)
{
	sqlite3_close(db);
	unlink(path);
}

/* Numbers of any width, on either side of zero, and NULL. */
static void fill(int count)
{
	static const int64_t values[] = {0,	    1,	       -1,	     127,	-128,	   128,	      32767,
					 -32768,    32768,     8388607,	     -8388608,	8388608,   INT32_MAX, INT32_MIN,
					 1LL << 31, 1LL << 46, -(1LL << 47), 1LL << 47, INT64_MAX, INT64_MIN};
	sqlite3_stmt *insert;
	uint64_t seed = 1;
	assert_int_equal(
		sqlite3_prepare_v2(db, "INSERT INTO t (a, b, c, d, e) VALUES (?, ?, ?, ?, ?)", -1, &insert, NULL),
		SQLITE_OK);
	for (int i = 0; i < count; i++) {
		for (int column = 1; column <= 5; column++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			size_t which = (seed >> 33) % (sizeof values / sizeof *values + 1);
			if (which < sizeof values / sizeof *values)
				sqlite3_bind_int64(insert, column, values[which]);
			else
				sqlite3_bind_null(insert, column);
		}
		assert_int_equal(sqlite3_step(insert), SQLITE_DONE);
		sqlite3_reset(insert);
	}
	sqlite3_finalize(insert);
}

struct sum {
	uint64_t rows, hash;
};

static void take(void *context, const struct scan_row *row)
{
	struct sum *sum = context;
	sum->rows++;
	for (unsigned i = 0; i < 6; i++)
		sum->hash = (sum->hash ^ (uint64_t)row->values[i]) * 1099511628211u + null_at(row, i);
}

static bool take_on(void *context, const struct scan_row *row)
{
	take(context, row);
	return true;
}

static struct sum scanned(const struct breakdown_watch *watch)
{
	struct scan scan;
	struct sum sum = {0};
	scan_begin(&scan, db, watch);
	scan_columns(&scan, "t", COLUMNS, take, &sum);
	assert_int_equal(scan.error, SQLITE_OK);
	scan_end(&scan);
	return sum;
}

/* From the pages alone. */
static struct sum read_pages(bool *all, int64_t *next)
{
	struct pages pages;
	struct sum sum = {0};
	pages_begin(&pages, db);
	*all = pages_each(&pages, db, "t", COLUMNS, take_on, &sum, next);
	return sum;
}

static void check(bool all_expected, int64_t next_expected)
{
	bool all;
	int64_t next;
	struct sum sql = scanned(NULL), mixed = scanned(ours), pages = read_pages(&all, &next);
	assert_int_equal(sql.rows, mixed.rows);
	assert_int_equal(sql.hash, mixed.hash);
	assert_int_equal(all, all_expected);
	if (all)
		assert_int_equal(pages.hash, sql.hash);
	if (next_expected)
		assert_int_equal(next, next_expected);
}

static bool go_on(void *context)
{
	(void)context;
	return true;
}

static void pages_say_what_sql_says(void **state)
{
	static const int sizes[] = {512, 1024, 16384, 65536};
	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		make(sizes[i], "");
		run("BEGIN");
		fill(ROWS);
		run("ALTER TABLE t ADD COLUMN later INTEGER");
		check(true, ROWS + 1);
		run("COMMIT; BEGIN; DELETE FROM t WHERE rowid % 7 = 0 OR rowid BETWEEN 5000 AND 9000; UPDATE t SET later = a, b = rowid "
		    "WHERE rowid % 3 = 0");
		check(true, ROWS + 1);
		run("DELETE FROM t");
		check(true, 0);
		run("ROLLBACK");
		unmake();
	}
}

/* SQL reads from that row on. */
static void what_is_no_integer_is_left_to_sql(void **state)
{
	static const char *const odd[] = {"SET a = 'text'", "SET d = 0.5", "SET c = zeroblob(600)",
					  "SET e = 'text' || hex(zeroblob(2000))"};
	(void)state;
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		char sql[128];
		make(512, "");
		run("BEGIN");
		fill(1000);
		run("ALTER TABLE t ADD COLUMN later INTEGER");
		snprintf(sql, sizeof sql, "UPDATE t %s WHERE rowid = 500", odd[i]);
		run(sql);
		check(false, 500);
		run("COMMIT");
		unmake();
	}
	make(512, "");
	run("BEGIN");
	fill(100);
	run("ALTER TABLE t ADD COLUMN later INTEGER DEFAULT 7");
	check(false, INT64_MIN);
	run("COMMIT");
	unmake();
}

static void not_while_somebody_reads_or_nobody_writes(void **state)
{
	sqlite3_stmt *reads;
	bool all;
	int64_t next;
	(void)state;
	make(512, "");
	run("ALTER TABLE t ADD COLUMN later INTEGER");
	fill(1000);
	check(false, INT64_MIN);
	run("BEGIN; UPDATE t SET a = 3");
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM t", -1, &reads, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(reads), SQLITE_ROW);
	assert_int_equal(read_pages(&all, &next).rows, 0);
	assert_false(all);
	sqlite3_finalize(reads);
	check(true, 1001);
	run("COMMIT");
	unmake();
	make(512, "PRAGMA journal_mode = WAL");
	run("ALTER TABLE t ADD COLUMN later INTEGER");
	run("BEGIN");
	fill(1000);
	check(false, INT64_MIN);
	run("COMMIT");
	unmake();
}

static bool stop(void *context)
{
	return --*(int *)context > 0;
}

static void whoever_watches_ends_it(void **state)
{
	int left = 10;
	const struct breakdown_watch watch = {.row = stop, .context = &left, .own = true};
	struct scan scan;
	struct sum sum = {0};
	(void)state;
	make(512, "");
	run("ALTER TABLE t ADD COLUMN later INTEGER; BEGIN");
	fill(1000);
	scan_begin(&scan, db, &watch);
	scan_columns(&scan, "t", COLUMNS, take, &sum);
	scan_end(&scan);
	assert_int_equal(scan.error, SQLITE_CORRUPT);
	assert_int_equal(sum.rows, 9);
	run("COMMIT");
	unmake();
}

/* A file in memory. */
struct image {
	sqlite3_file file;
	const uint8_t *bytes;
	size_t size;
};

static int read_image(sqlite3_file *file, void *to, int count, sqlite3_int64 at)
{
	const struct image *image = (const struct image *)file;
	if (at < 0 || (size_t)at + (size_t)count > image->size)
		return SQLITE_IOERR_SHORT_READ;
	memcpy(to, image->bytes + at, (size_t)count);
	return SQLITE_OK;
}

static void damaged_pages_do_no_harm(void **state)
{
	static const sqlite3_io_methods methods = {.iVersion = 1, .xRead = read_image};
	uint64_t seed = 7;
	sqlite3_int64 size;
	(void)state;
	make(512, "");
	run("ALTER TABLE t ADD COLUMN later INTEGER; BEGIN");
	fill(3000);
	run("COMMIT");
	uint8_t *whole = sqlite3_serialize(db, "main", &size, 0), *bytes = malloc((size_t)size);
	assert_non_null(whole);
	assert_non_null(bytes);
	struct image image = {.file.pMethods = &methods, .bytes = bytes, .size = (size_t)size};
	const struct pages pages = {.file = &image.file, .page = 512, .usable = 512, .count = (uint64_t)size / 512};
	struct sum sum = {0};
	int64_t next;
	memcpy(bytes, whole, (size_t)size);
	assert_true(pages_each(&pages, db, "t", COLUMNS, take_on, &sum, &next));
	assert_int_equal(sum.rows, 3000);
	for (int i = 0; i < 3000; i++) {
		memcpy(bytes, whole, (size_t)size);
		for (int j = 0; j < 20; j++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			/* Every second one is in a page's header. */
			size_t at = (size_t)(seed >> 20) % (size_t)size;
			bytes[j % 2 ? at : at / 512 * 512 + at % 16] = (uint8_t)(seed >> 50);
		}
		sum.rows = 0;
		pages_each(&pages, db, "t", COLUMNS, take_on, &sum, &next);
		assert_in_range(sum.rows, 0, (uint64_t)size);
	}
	free(bytes);
	sqlite3_free(whole);
	unmake();
}

int main(void)
{
	const struct breakdown_watch watch = {.row = go_on, .own = true};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_say_what_sql_says),
		cmocka_unit_test(what_is_no_integer_is_left_to_sql),
		cmocka_unit_test(not_while_somebody_reads_or_nobody_writes),
		cmocka_unit_test(whoever_watches_ends_it),
		cmocka_unit_test(damaged_pages_do_no_harm),
	};
	ours = &watch;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
