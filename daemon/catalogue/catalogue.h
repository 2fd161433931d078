/* catalogue.h - catalogue.db: what captures, triggers, processes and audit lines there are. One thread of its own does all
 * of it, so that the loop never waits for a disk: pieces of work are run in order, as many as wait in one transaction, and
 * their `done` is called on the loop's thread after the commit.
 *
 * Functions below that take a struct catalogue and are not marked otherwise are for work running on that thread (or for
 * the start, before the thread exists). */
#ifndef PROFD_DAEMON_CATALOGUE_H
#define PROFD_DAEMON_CATALOGUE_H

#include "store/facts.h"
#include "tally.h"
#include "victims.h"
#include "daemon/core/work.h"

#include <sqlite3.h>
#include <sys/stat.h>

struct catalogue {
	sqlite3 *db;
	int folder; /* captures/ */
	char folder_path[480];
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct work *first, *last;
	unsigned waiting;
	bool stop;
	uint64_t audit_rows, history_rows; /* written since the start; its thread's */
	struct work_outbox *outbox;
	struct work_beat beat;
	int failed_code; /* what was last said, and when (CLOCK_MONOTONIC ns) */
	uint64_t failed_at;
	uint64_t deleted_at; /* CLOCK_REALTIME ns of the newest row of `deleted` */
};

/* Opens or makes it. 0, or a negative errno with a sentence. */
int catalogue_init(struct catalogue *catalogue, const char *directory, int folder, const char *folder_path,
		   char *sentence, size_t sentence_bytes);
int catalogue_start(struct catalogue *catalogue, struct work_outbox *outbox);
/* Does what still waits, then closes. */
void catalogue_deinit(struct catalogue *catalogue);
/* Loop's thread. Takes the work; false (work not taken) where more waits than can be sane. */
bool catalogue_submit(struct catalogue *catalogue, struct work *work);

/* Loop's thread: how many pieces wait. */
unsigned catalogue_waiting(const struct catalogue *catalogue);
/* Any thread: the release of SQLite. */
const char *catalogue_sqlite(void);

uint64_t catalogue_last_capture(struct catalogue *catalogue);
uint64_t catalogue_last_trigger(struct catalogue *catalogue);
/* Finished captures and their bytes, user by user. */
void catalogue_each_owner(struct catalogue *catalogue, void (*callback)(void *context, const struct tally_owner *owner),
			  void *context);
/* 0 or a negative errno. */
int catalogue_put_capture(struct catalogue *catalogue, const struct capture_facts *facts);
int catalogue_put_trigger(struct catalogue *catalogue, uint64_t number, uid_t uid, pid_t pid, const char *request);
int catalogue_put_process(struct catalogue *catalogue, const struct identity *who);
int catalogue_process_gone(struct catalogue *catalogue, pid_t pid, uint64_t start_time);
int catalogue_put_after(struct catalogue *catalogue, uint64_t number, uint64_t step_after);
/* 1 with *ret, 0 where there is none, or a negative errno. */
int catalogue_get(struct catalogue *catalogue, uint64_t number, struct capture_facts *ret);
/* The summary that stands in a finished capture's file (free() it), NULL where there is none. */
char *catalogue_read_summary(struct catalogue *catalogue, uint64_t number);
struct catalogue_filter {
	bool all; /* of every user */
	uid_t uid;
	pid_t pid;		/* 0 = any */
	bool own;		/* it is one of the daemon's own pid namespace */
	uint64_t pid_namespace; /* else of this one */
	char name[128], job[128], label[128];
	uint64_t before;  /* only numbers below */
	uint64_t trigger; /* 0 = any */
};
/* Fills at most `room` rows, newest first; returns how many, or a negative errno. */
int catalogue_list(struct catalogue *catalogue, const struct catalogue_filter *filter, struct capture_facts *rows,
		   unsigned room);

/* --- catalogue_repair.c: at the start --- */

/* What is done in between is one transaction. */
void catalogue_repair_begin(struct catalogue *catalogue);
void catalogue_repair_end(struct catalogue *catalogue);

struct catalogue_row {
	uint64_t number, bytes;
	bool finished;
	bool failed; /* it has no file */
	bool seen;   /* the caller's */
};
/* All captures by number; to be freed. 0 or a negative errno. */
int catalogue_rows(struct catalogue *catalogue, struct catalogue_row **ret, size_t *ret_count);
/* Is <number>.db a regular file, as long as its header says? A look at one block. 0 with its facts, or -EPROTO with `why`. */
int catalogue_check_file(const struct catalogue *catalogue, uint64_t number, struct stat *ret, char *why,
			 size_t why_bytes);
/* What a finished capture's file <number>.db says of itself, without reading its rows. -EPROTO with `why` where it is damaged or
 * no capture, -EOPNOTSUPP where a newer release wrote it. */
int catalogue_from_file(struct catalogue *catalogue, uint64_t number, struct capture_facts *ret, char *why,
			size_t why_bytes);
/* The row becomes one of a failed capture without a file. */
int catalogue_spoil(struct catalogue *catalogue, uint64_t number, const char *reason);
/* Captures that an earlier daemon left unfinished and of which no file is left become failed. */
int catalogue_close_lost(struct catalogue *catalogue, bool (*has_file)(void *context, uint64_t number), void *context);

/* --- catalogue_retention.c --- */

/* Every finished capture, oldest first; to be freed. */
int catalogue_kept(struct catalogue *catalogue, struct kept **ret, size_t *ret_count);
/* When the oldest capture that is not pinned was finished, CLOCK_REALTIME ns; 0 = there is none. */
uint64_t catalogue_oldest(struct catalogue *catalogue);
int catalogue_pin(struct catalogue *catalogue, uint64_t number, bool pinned);
/* Deletes the file, and makes of the row one of `deleted`. `by` NULL: the daemon does it. */
int catalogue_remove(struct catalogue *catalogue, uint64_t number, const uid_t *by, const char *reason);
/* The same where the file is gone already. */
int catalogue_forget(struct catalogue *catalogue, uint64_t number, const uid_t *by, const char *reason);
/* Only the newest `lines` of what was deleted stay known. */
int catalogue_trim_deleted(struct catalogue *catalogue, uint64_t lines);

struct deleted_facts {
	uint64_t number;
	uid_t uid, by;
	bool by_daemon; /* else by `by` */
	pid_t pid;
	int32_t rank; /* -1 = none */
	enum capture_status status;
	uint64_t started, finished, at; /* CLOCK_REALTIME ns */
	uint64_t bytes;
	char user[32], by_user[32];
	char pids[PIDS_BYTES]; /* as in struct identity */
	char host[64], name[64], job[128], label[LABEL_BYTES], reason[REASON_BYTES];
};
/* Newest deletion first, filter->before being a time (at); else as catalogue_list. */
int catalogue_list_deleted(struct catalogue *catalogue, const struct catalogue_filter *filter,
			   struct deleted_facts *rows, unsigned room);
/* As catalogue_get. */
int catalogue_get_deleted(struct catalogue *catalogue, uint64_t number, struct deleted_facts *ret);

#endif
