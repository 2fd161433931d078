/* one_store.h - a store in a folder of its own, for tests of what is done with rows: make() and unmake() go around a group of tests. */
#ifndef PROFD_TESTS_UNIT_ONE_STORE_H
#define PROFD_TESTS_UNIT_ONE_STORE_H

#include "store/file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static int folder_fd = -1;
static struct store *store;

static int64_t ask(const char *sql)
{
	sqlite3_stmt *statement = store_prepare(store, sql);
	assert_non_null(statement);
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	int64_t value = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return value;
}

static int make(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/profd_one_store.XXXXXX");
	if (!mkdtemp(folder) || (folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return -1;
	store = store_new(NULL);
	return store ? store_create(store, folder_fd, folder, 1) : -1;
}

static int unmake(void **state)
{
	(void)state;
	store_discard(store);
	store_free(store);
	close(folder_fd);
	return rmdir(folder);
}

#endif
