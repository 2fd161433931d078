/* names.c - see names.h. No locks. */
#include "names.h"
#include "names_short.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds a text, unless it is there already, and returns its id. */
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

/* What the pass over the names needs. */
struct pass {
	struct store *store;
	void *reader; /* of the demangler; NULL: the names are readable */
	sqlite3_stmt *find, *insert, *row;
	int64_t next; /* id of the next new text */
	char text[STORE_NAME_BYTES];
};

static void add_name(struct pass *pass, int64_t id, const char *name)
{
	const struct store_demangler *demangler = pass->store->demangler;
	int64_t name_id = id, short_id = id;
	size_t n = strlen(name), at, length;
	const char *readable = NULL;
	if (!demangler)
		readable = name;
	else if (demangler->read(pass->reader, name, pass->text, &n))
		readable = pass->text;
	if (readable) {
		names_short(readable, n, &at, &length);
		if (readable != name)
			name_id = intern(pass->store, pass->find, pass->insert, readable, n, &pass->next);
		if (readable != name || length != n)
			short_id = intern(pass->store, pass->find, pass->insert, readable + at, length, &pass->next);
	}
	sqlite3_bind_int64(pass->row, 1, id);
	sqlite3_bind_int64(pass->row, 2, name_id);
	sqlite3_bind_int64(pass->row, 3, short_id);
	if (sqlite3_step(pass->row) != SQLITE_DONE)
		store_fail(pass->store, "writing");
	sqlite3_reset(pass->row);
}

static void add_all(struct pass *pass)
{
	struct store *store = pass->store;
	store_run(store, "CREATE TEMP TABLE texts (text TEXT PRIMARY KEY, id INTEGER NOT NULL)");
	pass->find = store_prepare(store, "SELECT id FROM temp.texts WHERE text = ?");
	pass->insert = store_prepare(store, "INSERT INTO temp.texts VALUES (?, ?)");
	pass->row = store_prepare(store, "INSERT OR IGNORE INTO kernel_names VALUES (?, ?, ?)");
	sqlite3_stmt *last = store_prepare(store, "SELECT coalesce(max(id), 0) + 1 FROM strings");
	sqlite3_stmt *names = store_prepare(store, "SELECT id, text FROM strings WHERE id IN (SELECT a FROM temp.sums "
						   "WHERE tab = 1)");
	pass->next = last && sqlite3_step(last) == SQLITE_ROW ? sqlite3_column_int64(last, 0) : 0;
	while (names && pass->next && !store->error && sqlite3_step(names) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(names, 1);
		if (name)
			add_name(pass, sqlite3_column_int64(names, 0), name);
	}
	sqlite3_finalize(pass->find);
	sqlite3_finalize(pass->insert);
	sqlite3_finalize(pass->row);
	sqlite3_finalize(last);
	sqlite3_finalize(names);
	store_run(store, "INSERT INTO strings SELECT id, text FROM temp.texts; DROP TABLE temp.texts");
}

static int out_of_memory(struct store *store)
{
	store->error = -ENOMEM;
	snprintf(store->sentence, sizeof store->sentence, "out of memory while names of kernels were read");
	return store->error;
}

int names_write(struct store *store, uint64_t *ret_refused)
{
	const struct store_demangler *demangler = store->demangler;
	struct pass *pass = malloc(sizeof *pass);
	*ret_refused = 0;
	store_doing(store, "reading the names of kernels");
	if (!pass)
		return out_of_memory(store);
	*pass = (struct pass){.store = store, .reader = demangler ? demangler->begin() : NULL};
	if (demangler && !pass->reader)
		out_of_memory(store);
	else
		add_all(pass);
	if (pass->reader)
		*ret_refused = demangler->end(pass->reader);
	free(pass);
	return store->error;
}
