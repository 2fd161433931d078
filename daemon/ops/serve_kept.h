/* serve_kept.h - ops that change what is kept, or tell of what is kept no more: rm, pin, unpin, deleted. Loop's thread. */
#ifndef PROFD_DAEMON_OPS_SERVE_KEPT_H
#define PROFD_DAEMON_OPS_SERVE_KEPT_H

#include "daemon/core/server.h"
#include "daemon/catalogue/deleted.h"

/* rm, pin or unpin, by conn->request.op. */
void serve_change(struct conn *conn);
void serve_deleted(struct conn *conn);

/* "17 any more (deleted ...)": what is said of a capture that is not there. For the detail of NO_CAPTURE. */
void deleted_detail(const struct server *server, const struct deleted_facts *facts, char *to, size_t to_bytes);

#endif
