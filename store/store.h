/* store.h - one capture's SQLite file: made as <folder>/<number>.partial, filled by ingest, closed and renamed to
 * <folder>/<number>.db when finished. One thread at a time.
 *
 * While it is partial it has a rollback journal that is kept open (journal_mode=PERSIST) and exclusive locking: rows and
 * chunk numbers commit together as with a WAL, which survives the death of the daemon, but appended pages are written
 * once and not twice (measured: 0.73 s against 0.81 s for a million operators). Rows enter through a virtual table over
 * the batch (0.73 s against 1.5 s for one INSERT a row).
 *
 * Errors: 0 or a negative errno; store->sentence then says what happened, and everything after fails alike. */
#ifndef PROFD_STORE_STORE_H
#define PROFD_STORE_STORE_H

#include "base/facts.h"
#include "proto/events.h"

#include <sqlite3.h>
#include <stdatomic.h>

#define STORE_SENTENCE_BYTES REASON_BYTES

/* Parsed records of one kind, that wait for store_put_batch. */
struct store_rows {
	void *rows; /* struct event_<name>[capacity] */
	size_t count, capacity;
};

struct store_batch {
	struct store_rows kinds[EVENT_KIND_COUNT];
};
/* Appends a record; 0 or -ENOMEM. */
int store_batch_add(struct store_batch *batch, const union event_any *event);
void store_batch_clear(struct store_batch *batch);
void store_batch_deinit(struct store_batch *batch);

/* Asked every millisecond or so while work that may take long is under way. doing: what it is at, in words ("finding what
 * launched what"). 0: go on. -ETIME or -ECANCELED: it is enough, and the sentence says why. */
struct store_watch {
	int (*look)(void *context, const char *doing, char sentence[STORE_SENTENCE_BYTES]);
	void *context;
};

/* Makes mangled names of kernels readable; whoever has such names brings it along, since they may be hostile. */
#define STORE_NAME_BYTES 16384
struct store_demangler {
	/* For one capture, whose names then are read one by one. NULL: out of memory. */
	void *(*begin)(void);
	/* The readable form: text[0..*ret_n). false: `mangled` is no mangled name, or it was refused. */
	bool (*read)(void *names, const char *mangled, char text[STORE_NAME_BYTES], size_t *ret_n);
	/* How many were refused. Frees. */
	uint64_t (*end)(void *names);
};

struct store {
	sqlite3 *db;
	int folder;	/* descriptor of captures/, not owned */
	char path[512]; /* of the .partial file */
	char final_path[512];
	char final_name[40], partial_name[40];
	int schema;    /* of the file that store_open found; -1 = it does not say */
	bool reserved; /* <number>.reserve holds the room that ending the capture needs */
	uint64_t base; /* CLOCK_MONOTONIC ns that TIME columns count from */
	const struct store_batch *batch;
	sqlite3_stmt *insert[EVENT_KIND_COUNT]; /* NULL until the first row of the kind */
	sqlite3_stmt *insert_string, *insert_inputs, *insert_ingested, *find_ingested, *meta;
	const struct store_watch *watch; /* of the work that is under way; NULL = it may take as long as it likes */
	const char *doing;		 /* what that is at, for the watch */
	const struct store_demangler *demangler; /* NULL: names of kernels come readable */
	int error;
	char sentence[STORE_SENTENCE_BYTES];
};

/* What SQLite puts into files for the time being goes to this folder, not to /tmp. Once, before any thread. */
void store_temporary_folder(const char *folder_path);
/* From now on that stays in memory: the disk is full. */
int store_without_disk(struct store *store);
/* Makes a new partial file with the whole schema. `folder_path` is the path behind `folder`. */
int store_create(struct store *store, int folder, const char *folder_path, uint64_t number);
/* Opens a partial file that an earlier daemon left; one of an older schema is brought to this one's. -EPROTO where it is not one, or
 * of a newer schema. */
int store_open(struct store *store, int folder, const char *folder_path, uint64_t number);
/* Gives back the room that was kept for the end: now is the end. */
void store_release(struct store *store);
/* Gives back what is only cached: nothing comes for a while. */
void store_rest(struct store *store);
/* Closes without finishing: the file stays as it is. */
void store_deinit(struct store *store);

int store_begin(struct store *store);
int store_commit(struct store *store);
/* Undoes the open transaction; the rows of the pass are not in the file. */
void store_rollback(struct store *store);
int store_put_batch(struct store *store, const struct store_batch *batch);
int store_put_string(struct store *store, uint32_t id, const char *text, size_t n);
int store_put_inputs(struct store *store, uint32_t id, const char *dims, const char *types, const char *strides,
		     const char *concrete);
int store_put_ingested(struct store *store, uint32_t sequence);
int store_meta_text(struct store *store, const char *key, const char *value);
int store_meta_int(struct store *store, const char *key, int64_t value);
/* What tells whose capture it is; in the file from the start. */
int store_put_facts(struct store *store, const struct capture_facts *facts);
int store_get_facts(struct store *store, struct capture_facts *ret);
/* 0, or "", where the key is absent. */
int64_t store_get_int(struct store *store, const char *key);
void store_get_text(struct store *store, const char *key, char *to, size_t to_bytes);
bool store_has_ingested(struct store *store, uint32_t sequence);
/* Rows in all event tables. */
uint64_t store_count_events(struct store *store);

/* From now on `watch` is asked, on this thread, in whatever is done with the store. NULL: nobody is. */
void store_watch_begin(struct store *store, const struct store_watch *watch);
void store_watch_end(struct store *store);
/* Says what is being done from now on. */
void store_doing(struct store *store, const char *doing);
/* Has the watch had enough? The error stands in the store then. For loops that are not SQL's. */
bool store_over(struct store *store);

/* Runs SQL without parameters or results. */
int store_run(struct store *store, const char *sql);
/* Makes the tables and views that are missing, and says that the file is of this schema. In a transaction. */
int store_make_tables(struct store *store);
/* store_upgrade.c: a partial file of an older schema becomes one of this. */
int store_upgrade(struct store *store);
/* Prepares a statement; NULL on error. The caller finalizes it. */
sqlite3_stmt *store_prepare(struct store *store, const char *sql);
/* Keeps the error of the last call and its sentence; returns it. */
int store_fail(struct store *store, const char *doing);

/* Ends the partial life: no journal, all on disk, closed, renamed, the folder on disk. *ret_bytes: size of the file. warning:
 * what went wrong though the file is good; left alone where nothing did. */
int store_finish(struct store *store, uint64_t *ret_bytes, char warning[STORE_SENTENCE_BYTES]);
/* Closes and deletes the partial file. */
void store_discard(struct store *store);

#endif
