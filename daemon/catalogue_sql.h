/* catalogue_sql.h - what the catalogue's files share. On its thread, or before it exists. */
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

#endif
