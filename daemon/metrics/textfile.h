/* textfile.h - a file that node_exporter's textfile collector reads: whole at any time, also while somebody reads it or the daemon dies. Any thread
 * that may wait for a disk. */
#ifndef PROFD_DAEMON_METRICS_TEXTFILE_H
#define PROFD_DAEMON_METRICS_TEXTFILE_H

#include <stddef.h>

/* Replaces the file (0644) by way of one beside it whose name begins with a dot and does not end in .prom. A link at
 * either name is replaced, not followed. 0 or a negative errno; then the old file is not changed. */
int textfile_write(const char *path, const char *text, size_t n);
/* Deletes it: without a daemon there is nothing to tell. */
void textfile_remove(const char *path);

#endif
