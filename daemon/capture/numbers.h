/* numbers.h - gives numbers to captures, none twice: not even if a daemon is killed before there is a note of the
 * capture, or the catalogue is lost. The store's file "numbers" says up to which number daemons may have given them.
 * Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_NUMBERS_H
#define PROFD_DAEMON_CAPTURE_NUMBERS_H

#include <stdint.h>

struct server;

/* Before the loop runs, with next_capture set from the catalogue and the files: goes on after the numbers that an
 * earlier daemon may have given. If the file cannot be made, the store is used without it. */
void numbers_begin(struct server *server);
uint64_t numbers_take(struct server *server);
/* The daemon ends in order: its next number is the next daemon's first. After the pools. */
void numbers_end(struct server *server);

#endif
