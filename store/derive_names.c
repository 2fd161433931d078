/* derive_names.c - names_write: table kernel_names, see names.h. Thread: one of the finish pool. No locks. */
#include "names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Adds a text where it is not there yet, and returns its id. */
static int64_t intern(struct store *store, sqlite3_stmt *find, sqlite3_stmt *insert, const char *text, size_t n,
		      int64_t *next)
{
	int64_t id = 0;
	sqlite3_bind_text(find, 1, text, (int)n, SQLITE_STATIC);
	if (sqlite3_step(find) == SQLITE_ROW)
		id = sqlite3_column_int64(find, 0);
	sqlite3_reset(find);
	if (id || store->error)
		return id;
	id = (*next)++;
	sqlite3_bind_text(insert, 1, text, (int)n, SQLITE_STATIC);
	sqlite3_bind_int64(insert, 2, id);
	if (sqlite3_step(insert) != SQLITE_DONE)
		store_fail(store, "writing");
	sqlite3_reset(insert);
	return id;
}

int names_write(struct store *store, uint64_t *ret_refused)
{
	struct {
		struct names names;
		struct names_text text;
	} *scratch = malloc(sizeof *scratch);
	if (!scratch) {
		store->error = -ENOMEM;
		snprintf(store->sentence, sizeof store->sentence, "the daemon is out of memory");
		return store->error;
	}
	struct names *names = &scratch->names;
	struct names_text *text = &scratch->text;
	store_run(store, "CREATE TEMP TABLE texts (text TEXT PRIMARY KEY, id INTEGER NOT NULL)");
	sqlite3_stmt *find = store_prepare(store, "SELECT id FROM temp.texts WHERE text = ?");
	sqlite3_stmt *insert = store_prepare(store, "INSERT INTO temp.texts VALUES (?, ?)");
	sqlite3_stmt *mangled =
		store_prepare(store, "SELECT id, text FROM strings WHERE id IN (SELECT a FROM temp.sums "
				     "WHERE tab = 1)");
	sqlite3_stmt *last = store_prepare(store, "SELECT coalesce(max(id), 0) + 1 FROM strings");
	sqlite3_stmt *row = store_prepare(store, "INSERT OR IGNORE INTO kernel_names VALUES (?, ?, ?)");
	int64_t next = last && sqlite3_step(last) == SQLITE_ROW ? sqlite3_column_int64(last, 0) : 0;
	names_begin(names);
	while (mangled && next && !store->error && sqlite3_step(mangled) == SQLITE_ROW) {
		int64_t id = sqlite3_column_int64(mangled, 0), name_id = id, short_id = id;
		const char *from = (const char *)sqlite3_column_text(mangled, 1);
		if (!from)
			continue;
		if (names_demangle(names, from, text)) {
			size_t at, n;
			name_id = intern(store, find, insert, text->text, text->n, &next);
			names_short(text->text, text->n, &at, &n);
			short_id = intern(store, find, insert, text->text + at, n, &next);
		}
		sqlite3_bind_int64(row, 1, id);
		sqlite3_bind_int64(row, 2, name_id);
		sqlite3_bind_int64(row, 3, short_id);
		if (sqlite3_step(row) != SQLITE_DONE)
			store_fail(store, "writing");
		sqlite3_reset(row);
	}
	names_end(names);
	sqlite3_finalize(find);
	sqlite3_finalize(insert);
	sqlite3_finalize(mangled);
	sqlite3_finalize(last);
	sqlite3_finalize(row);
	*ret_refused = names->refused;
	free(scratch);
	return store_run(store, "INSERT INTO strings SELECT id, text FROM temp.texts; DROP TABLE temp.texts");
}
