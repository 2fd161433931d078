/* file.h - the SQLite file behind a store: how it is opened, written, and given its name; errors as sentences.
 *
 * While the file is partial, its rollback journal is kept open (journal_mode=PERSIST) and locking is exclusive. Rows
 * and chunk numbers commit together and survive the death of the daemon, as with a WAL. But appended pages are
 * written once, not twice (measured: 0.73 s against 0.81 s for a million operators). No locks. */
#ifndef PROFD_STORE_FILE_H
#define PROFD_STORE_FILE_H

#include "device.h"
#include "store.h"
#include "tables.h"
#include "totals.h"

#include <limits.h>
#include <sqlite3.h>

/* No capture can have lost so many. Counts are cut to this, so that JSON can carry them. */
#define STORE_LOST_MOST (1ull << 53)

struct store {
	sqlite3 *db;
	int folder;	     /* descriptor of the folder in which the file lies */
	bool elsewhere;	     /* the file is not in the daemon's store, and file_leave() closes `folder` */
	char path[PATH_MAX]; /* of the partial file */
	char final_name[NAME_MAX + 1], partial_name[NAME_MAX + 1];
	int schema;    /* of the file that was opened; -1 = it does not say */
	bool reserved; /* <number>.reserve holds the room that ending the capture needs */
	uint64_t base; /* CLOCK_MONOTONIC ns that TIME columns count from */
	const struct store_batch *batch;
	sqlite3_stmt *insert[EVENT_KIND_COUNT]; /* NULL until the first row of the kind */
	sqlite3_stmt *insert_string, *insert_inputs, *insert_ingested, *find_ingested, *meta;
	const struct store_demangler *demangler; /* NULL: names of kernels are readable already */
	const struct store_watch
		*watch;	   /* of the work that is under way; NULL = the work may take as long as it likes */
	const char *doing; /* what the work does now, for the watch */
	int error;
	char sentence[STORE_SENTENCE_BYTES];

	/* What store.c keeps beside the file: records that wait to become rows, and what derive needs of all
	 * records. */
	struct memory *memory; /* not owned */
	struct store_batch waiting;
	size_t waiting_count;
	struct totals totals;
	struct device device;
	bool gathers; /* totals and device are there */
};

/* Makes the partial file with the whole schema: number of the daemon's store, or a path. */
int file_create(struct store *store, int folder, const char *folder_path, uint64_t number);
int file_create_at(struct store *store, const char *path);
int file_open(struct store *store, int folder, const char *folder_path, uint64_t number);
/* Closes the file as it is. */
void file_close(struct store *store);
/* Closes and deletes the file. */
void file_discard(struct store *store);
/* Closes the folder of a file at a path. Call it last. */
void file_leave(struct store *store);
/* Gives back the room that was kept for the end, when the end begins. */
void file_release(struct store *store);
/* From now on temporary data stays in memory: the disk is full. */
int file_without_disk(struct store *store);
/* Makes a partial file a finished one: no journal, all on disk, closed, renamed, the folder on disk. *ret_bytes: the
 * file's size. warning: what went wrong although the file is good; unchanged if nothing did. */
int file_publish(struct store *store, uint64_t *ret_bytes, char warning[STORE_SENTENCE_BYTES]);

/* store_rename_whole. */
int file_rename_whole(struct store *store, int folder, const char *folder_path, uint64_t number);

/* Runs SQL without parameters or results. */
int store_run(struct store *store, const char *sql);
/* Prepares a statement; NULL on error. The caller finalizes it. */
sqlite3_stmt *store_prepare(struct store *store, const char *sql);
/* Runs a statement that has no results, and resets it. */
int store_step(struct store *store, sqlite3_stmt *statement);
/* Keeps the error of the last call and its sentence; returns it. */
int store_fail(struct store *store, const char *doing);

/* From now on `watch` is asked, on this thread, during all work on the store. NULL: nobody is. */
void store_watch_begin(struct store *store, const struct store_watch *watch);
void store_watch_end(struct store *store);
/* Says what the work does from now on. */
void store_doing(struct store *store, const char *doing);
/* Has the watch had enough? Then the error is in the store. For loops outside of SQL. */
bool store_over(struct store *store);

#endif
