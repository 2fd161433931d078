/* list.h - ops that list rows of the catalogue, newest first: a page at a time, as the client reads. Loop's thread,
 * unless said otherwise. */
#ifndef PROFD_DAEMON_OPS_LIST_H
#define PROFD_DAEMON_OPS_LIST_H

#include "daemon/catalogue/captures.h"

#include <stddef.h>
#include <stdint.h>

struct catalogue;
struct conn;

struct list_kind {
	size_t row_bytes;
	unsigned page;	/* rows that the catalogue is asked for at a time */
	uint64_t usual; /* rows, where the request names no limit */
	/* Fills `question` (`question_bytes` of zeroes) with what `fetch` needs to know of the request. The page holds
	 * only rows below `before`. */
	size_t question_bytes;
	void (*ask)(struct conn *conn, uint64_t before, void *question);
	/* The catalogue's thread. Fills at most `room` rows; returns how many, or a negative errno. */
	int (*fetch)(struct catalogue *catalogue, const void *question, void *rows, unsigned room);
	/* Sends a row. Returns its position: the next page holds only rows below. */
	uint64_t (*send)(struct conn *conn, void *row);
	/* All rows are sent: ends the reply; NULL: conn_end does. */
	void (*end)(struct conn *conn);
};

/* Serves the client's request. `kind` is static. */
void list_serve(struct conn *conn, const struct list_kind *kind);

/* The filter that a request with "pid", "name", "job" and "label" asks for. */
void list_filter(struct conn *conn, uint64_t before, struct catalogue_filter *ret);

/* The sentence for a client whose request is refused because too many others already wait for the catalogue. */
#define LIST_SLOW_DISK "the daemon's disk does not keep up; try again in a moment"

#endif
