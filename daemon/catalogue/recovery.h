/* recovery.h - at the start, makes the store's files and the catalogue's rows agree again, whatever ended the last
 * daemon. A file that may hold somebody's data is never deleted: it is moved into <store>/lost, and the log says so. */
#ifndef PROFD_DAEMON_CATALOGUE_RECOVERY_H
#define PROFD_DAEMON_CATALOGUE_RECOVERY_H

#include <stdint.h>

struct server;

/* With the catalogue open, before the loop runs and before orphans_scan, which sees to partial files. Returns the highest
 * number of a capture among the files. */
uint64_t recovery_run(struct server *server);

/* Moves captures/<name> to <store>/lost, under a name that is free there. *ret_path: where it is now. 0, or a negative
 * errno and the file stays where it is. `why` is for the log, which has a line in either case. */
#define RECOVERY_PATH_BYTES 600
int recovery_put_aside(struct server *server, const char *name, const char *why, char ret_path[RECOVERY_PATH_BYTES]);

#endif
