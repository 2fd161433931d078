/* descriptor.h - a database on a descriptor: a small read-only VFS of SQLite. It reads with pread(2): no locks, no
 * journal, no mapping, so that a file that is cut under us is an error and never a SIGBUS. Temporary files are the
 * system's, in total as large as the bounds say. */
#ifndef PROFD_CLIENT_READER_DESCRIPTOR_H
#define PROFD_CLIENT_READER_DESCRIPTOR_H

#include "bounds.h"

struct descriptor;

/* The VFS for the connections to one file; NULL without memory. `bounds` outlives it. */
struct descriptor *descriptor_new(struct bounds *bounds);
/* After all connections are closed. */
void descriptor_free(struct descriptor *descriptor);
/* Opens a connection to the file `fd`, which stays the caller's. 0 or a negative errno. */
int descriptor_open(struct descriptor *descriptor, int fd, sqlite3 **ret_db);

#endif
