/* sql.h - what the catalogue's files share. On its thread, or before it exists. */
#ifndef PROFD_DAEMON_CATALOGUE_SQL_H
#define PROFD_DAEMON_CATALOGUE_SQL_H

#include "catalogue.h"

/* Logs the last error; -ENOSPC where the disk is full, else -EIO. */
int catalogue_failed(struct catalogue *catalogue);
/* Runs statements without rows: 0 or a negative errno. */
int catalogue_run(struct catalogue *catalogue, const char *sql);
/* NULL where it cannot be prepared (logged). */
sqlite3_stmt *catalogue_prepare(struct catalogue *catalogue, const char *sql);
/* Steps a statement without rows and finalizes it: 0 or a negative errno. NULL is an error. */
int catalogue_finish(struct catalogue *catalogue, sqlite3_stmt *statement);
/* The first column of the first row, 0 where there is none. */
uint64_t catalogue_number(struct catalogue *catalogue, const char *sql);

/* An empty text, no rank (negative) and 0 stay NULL. */
void catalogue_bind_text(sqlite3_stmt *statement, int at, const char *text);
void catalogue_bind_rank(sqlite3_stmt *statement, int at, int32_t rank);
void catalogue_bind_known(sqlite3_stmt *statement, int at, uint64_t value);
void catalogue_column_text(sqlite3_stmt *s, int at, char *to, size_t to_bytes);
uint64_t catalogue_column_number(sqlite3_stmt *s, int at);
int32_t catalogue_column_rank(sqlite3_stmt *s, int at);
/* FAILED and NONE where the word (may be NULL) is none. */
enum capture_status catalogue_status_from_word(const char *word);
enum cancel_reason catalogue_reason_from_word(const char *word);

/* What of a filter `captures` and `deleted` have in common; ?7 is `before`, ?8 `room`, ?9 the trigger. */
#define CATALOGUE_FILTER                                                                                               \
	"(?1 OR uid = ?2) AND (?3 = 0 OR iif(?10 = '', pid = ?3, instr(pids, ?10))) AND (?4 = '' OR name GLOB ?4) "    \
	"AND (?5 = '' OR job GLOB ?5) AND (?6 = '' OR label GLOB ?6)"
void catalogue_bind_filter(sqlite3_stmt *s, const struct catalogue_filter *filter, unsigned room);

/* The columns of `captures` that catalogue_read_row reads. */
#define CATALOGUE_ROW                                                                                                  \
	"id, trigger, cycle, pid, start_time, uid, host, name, command, job, rank, world_size, label, status, "        \
	"reason, "                                                                                                     \
	"started, finished, steps_wanted, steps_recorded, events, lost, bytes, step_ns, step_after, simulated, "       \
	"reason_code, pids, pinned"
void catalogue_read_row(sqlite3_stmt *s, struct capture_facts *ret);

#endif
