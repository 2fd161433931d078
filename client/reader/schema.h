/* schema.h - is the schema of a capture file the one that profd gives it? */
#ifndef PROFD_CLIENT_READER_SCHEMA_H
#define PROFD_CLIENT_READER_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

typedef struct sqlite3 sqlite3;

/* Every table, view and index of the file has to be one that profd makes: a view over an endless query in the place of
 * a table would otherwise be read like the table. `version` is the file's: tables may end after fewer columns than
 * ours, and those of an older version may be any that compute nothing. 0; -EINVAL with a sentence in `why`; -EIO where
 * the schema cannot be read. */
int schema_check(sqlite3 *db, int64_t version, char *why, size_t why_bytes);

#endif
