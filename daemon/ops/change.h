/* change.h - ops that change finished captures, each named by its id: rm, pin, unpin. Loop's thread, unless said
 * otherwise. */
#ifndef PROFD_DAEMON_OPS_CHANGE_H
#define PROFD_DAEMON_OPS_CHANGE_H

#include "proto/errors.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct catalogue;
struct conn;
struct server;

/* One capture of the request, and what came of it. */
struct change {
	uint64_t number;
	enum error error;
	/* Whose it is; (uid_t)-1: not known. */
	uid_t uid;
	pid_t pid;
	uint64_t bytes;
	bool was_pinned;
};

struct change_kind {
	const char *action; /* the op's word */
	const char *done;   /* the reply's row, and the audit log's outcome */
	const char *failed; /* as in "could not be deleted" */
	/* The catalogue's thread. `by` asks for it; `keep`: see op/rm.c. 0 or a negative errno. */
	int (*apply)(struct catalogue *catalogue, uint64_t number, uid_t by, bool keep);
	/* The change is done: counts it. */
	void (*count)(struct server *server, const struct change *change);
};

/* Serves the client's request. `kind` is static. */
void change_serve(struct conn *conn, const struct change_kind *kind);

#endif
