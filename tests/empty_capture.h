/* empty_capture.h - a capture file with all tables and no rows, as the store makes it: for tests that put rows into it by SQL.
 * The tables stand in one place so, store/. Its table `ingested` says that it is not finished. */
#ifndef PROFD_TESTS_EMPTY_CAPTURE_H
#define PROFD_TESTS_EMPTY_CAPTURE_H

#include "store/store.h"

#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

/* Small pages: most tests have few rows, and many files. */
static inline int empty_capture_shrink(const char *path)
{
	sqlite3 *db;
	int error = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL);
	if (!error)
		error = sqlite3_exec(db, "PRAGMA journal_mode = DELETE; PRAGMA page_size = 4096; VACUUM", NULL, NULL,
				     NULL);
	sqlite3_close(db);
	return error;
}

/* In place of what was there. 0, or another number after a sentence on standard error. */
static inline int empty_capture(const char *path)
{
	char partial[4096];
	unlink(path);
	snprintf(partial, sizeof partial, "%s.partial", path);
	struct store *store = store_new(NULL);
	if (!store || store_create_at(store, path)) {
		fprintf(stderr, "%s\n", store ? store_sentence(store) : "out of memory");
		store_free(store);
		return 1;
	}
	store_free(store);
	if (empty_capture_shrink(partial) || rename(partial, path)) {
		perror(path);
		return 1;
	}
	return 0;
}

#endif
