/* connection.h - talking to the daemons: the system's and the user's own, or only PROFD_SOCKET's. One request at a time
 * on a connection; blocking, with bounds. */
#ifndef PROFD_CLIENT_LINK_CONNECTION_H
#define PROFD_CLIENT_LINK_CONNECTION_H

#include "client/ui/failure.h"
#include "proto/socket.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#define DAEMONS_MAX 4

struct daemon {
	int fd;
	bool user; /* not the system's */
	char path[SOCKET_PATH_BYTES];
};

struct daemons {
	struct daemon list[DAEMONS_MAX];
	unsigned count;
	char tried[DAEMONS_MAX * (SOCKET_PATH_BYTES + 8)]; /* "A, B or C" */
	char distrusted[SOCKET_PATH_BYTES]; /* a socket that is there, but is not to be trusted; else "" */
};

/* Connects to every daemon that answers. `count` can be 0. daemons_deinit in every case. */
void daemons_open(struct daemons *daemons);
/* The same, but prints the sentence of no_daemon and returns EXIT_NO_DAEMON where none answers; else 0. */
int daemons_need(struct daemons *daemons);
void daemons_deinit(struct daemons *daemons);
/* Fills the failure of "none answers". */
void daemons_none(const struct daemons *daemons, struct failure *failure);

/* A new request, to be given to cJSON_Delete. */
cJSON *request_new(const char *op);
/* Adds the words of a bit set of collectors to a trigger. */
void request_collectors(cJSON *request, uint32_t collectors);

/* Sends a request. False with *failure filled where that did not work. */
bool daemon_send(struct daemon *daemon, const cJSON *request, struct failure *failure);

enum { RECEIVE_PACKET = 0, RECEIVE_TIMEOUT = 1, RECEIVE_BROKEN = 2, RECEIVE_CLOSED = 3 };
/* Takes the next packet: *ret (to be deleted; its texts are valid UTF-8) and, where ret_fd is not NULL, its descriptor
 * or -1. Waits at most timeout_ms (-1: for ever). On RECEIVE_BROKEN, and RECEIVE_CLOSED (the daemon has ended),
 * *failure says why. */
int daemon_receive(struct daemon *daemon, int timeout_ms, cJSON **ret, int *ret_fd, struct failure *failure);

/* Connects anew to the same daemon, or to the one that follows it. False where none answers now. */
bool daemon_reconnect(struct daemon *daemon);

/* Reads the error object of a packet. False where it has none. */
bool reply_error(const cJSON *packet, struct failure *failure);
bool reply_is_end(const cJSON *packet);
bool reply_is_row(const cJSON *packet, const char *row);

/* How much of a daemon's answer the client has kept. The bound is ten times what our daemon sends at the most: a broken
 * or hostile one would otherwise take all memory. */
struct kept {
	size_t rows, bytes;
};
/* Adds what a packet takes. False where it is too much, or there are more than `most` rows: *failure says so, and the
 * connection is of no use any more. */
bool reply_keep(struct kept *kept, size_t most, const cJSON *packet, struct daemon *daemon, struct failure *failure);

/* One row of a reply, which the callee may detach from its packet. `fd` is -1, or the callee's to close. */
typedef void (*row_handler)(struct daemon *daemon, const cJSON *row, int fd, void *context);
/* Sends the request and hands over each row, until the end or until there are too many. Returns true if the reply ended
 * without an error. If the daemon ends before it has answered, and a service manager starts the next one, that one is
 * asked again. */
bool daemon_query(struct daemon *daemon, const cJSON *request, row_handler handler, void *context,
		  struct failure *failure);
/* The same with every daemon. Returns how many answered without an error; *failure is the most telling error of the
 * others (ERROR_NONE where there was none). */
unsigned daemons_query(struct daemons *daemons, const cJSON *request, row_handler handler, void *context,
		       struct failure *failure);

#endif
