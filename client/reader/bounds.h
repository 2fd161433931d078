/* bounds.h - how much work and memory a capture file may cost: in proportion to its size. A file that was made to be
 * endless is not read to its end. What is spent is counted over all connections to one file. */
#ifndef PROFD_CLIENT_READER_BOUNDS_H
#define PROFD_CLIENT_READER_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sqlite3 sqlite3;

struct bounds;

/* Of a file of so many bytes; NULL without memory. */
struct bounds *bounds_new(int64_t bytes);
void bounds_free(struct bounds *bounds);

/* Limits a connection, which must not outlive the bounds: what it does beyond them ends with SQLITE_INTERRUPT. */
void bounds_watch(struct bounds *bounds, sqlite3 *db);
/* Was anything interrupted, or refused? */
bool bounds_exceeded(const struct bounds *bounds);

/* Rows that the file can hold at the most. */
int64_t bounds_rows(const struct bounds *bounds);
/* Counts a row that is kept in memory; false where there are more than all tables can have. */
bool bounds_row(struct bounds *bounds);
/* Bytes of temporary files that sorting it may take. */
int64_t bounds_temporary(const struct bounds *bounds);
/* Notes that a bound was exceeded. */
void bounds_exceed(struct bounds *bounds);

#endif
