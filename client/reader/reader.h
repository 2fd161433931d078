/* reader.h - a finished capture file, opened read-only on a descriptor.
 *
 * The descriptor comes from the daemon: the file may belong to another uid, so SQLite cannot open it by a path
 * (descriptor.h). A file may also come from anybody: its schema must be ours (schema.h), and the cost of reading it has bounds
 * (bounds.h). One thread at a time may use a reader. */
#ifndef PROFD_CLIENT_READER_READER_H
#define PROFD_CLIENT_READER_READER_H

#include "descriptor.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sqlite3_stmt sqlite3_stmt;

struct reader {
	sqlite3 *db;
	int fd;
	struct reader_text *texts; /* answers of reader_meta_text, freed with the reader */
	/* Shared by the clones. */
	struct descriptor *file;
	struct bounds *bounds;
	bool owner;
};

/* Opens the capture file `fd`, which is taken over: closed by reader_close, or here on failure. Returns 0; -EINVAL
 * where it is no finished profd capture; -ENOTSUP where its schema is newer than this program; another negative errno.
 * On failure `why` has a sentence for the user and *r needs no close. */
int reader_open(struct reader *r, int fd, char *why, size_t why_bytes);
/* Opens the same file once more, for another thread, no longer than *r is open. 0 or a negative errno. */
int reader_clone(struct reader *ret_clone, const struct reader *r);
/* Why the last statement failed: a sentence for the user. */
void reader_why(const struct reader *r, char *why, size_t why_bytes);
/* Also for a zeroed struct; statements must have been finalized. */
void reader_close(struct reader *r);

/* Values of table `meta`. A missing key, or one that is NULL, gives `missing`, or NULL. Texts belong to the reader. */
int64_t reader_meta_int(const struct reader *r, const char *key, int64_t missing);
const char *reader_meta_text(struct reader *r, const char *key);

/* First column of the first row of a query, `missing` where there is none (or no such table). */
int64_t reader_count(const struct reader *r, const char *sql, int64_t missing);

#endif
