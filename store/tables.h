/* tables.h - the tables of events, by proto/events.def, and how records become rows. Many records enter at a time,
 * through a virtual table: 0.73 s for a million operators, against 1.5 s with one INSERT for each row. No locks. */
#ifndef PROFD_STORE_TABLES_H
#define PROFD_STORE_TABLES_H

#include "proto/events.h"

#include <sqlite3.h>

struct store;

/* Records of one kind that wait for store_put_batch. */
struct store_rows {
	void *rows; /* struct event_<name>[capacity] */
	size_t count, capacity;
};

struct store_batch {
	struct store_rows kinds[EVENT_KIND_COUNT];
};
/* Appends a record. 0, -ENOMEM, or -EPROTO: there is no such kind. */
int store_batch_add(struct store_batch *batch, const union event_any *event);
void store_batch_clear(struct store_batch *batch);
void store_batch_deinit(struct store_batch *batch);

/* Puts the records into their tables, in their order. In a transaction. */
int store_put_batch(struct store *store, const struct store_batch *batch);
/* The opposite: all rows of a kind, in the order in which they came. NULL on error; the caller finalizes it. */
sqlite3_stmt *store_select_events(struct store *store, unsigned kind);
/* Makes the row at which the statement stands the record that it was. Returns its rowid. */
uint64_t store_read_event(const struct store *store, sqlite3_stmt *statement, unsigned kind, union event_any *ret);
/* Rows in all event tables. */
uint64_t store_count_events(struct store *store);
/* Makes the tables and views that are missing, and writes the schema's version into the file. In a transaction. */
int store_make_tables(struct store *store);

#endif
