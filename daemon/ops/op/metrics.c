/* metrics.c - op "metrics": what Prometheus reads.
 *
 * op "metrics"  -> {"row":"metrics","bytes":N} with one descriptor attached: N bytes of Prometheus' text format 0.0.4, end.
 *                Root, the group profd and the owner of a user's daemon; else error not_permitted.
 */
#include "daemon/metrics/metrics.h"
#include "daemon/catalogue/audit.h"
#include "daemon/core/connection.h"
#include "daemon/core/reply.h"
#include "daemon/core/server.h"
#include "daemon/ops/ops.h"
#include "proto/sealed.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void ready(void *context, const char *text, size_t n)
{
	struct conn *conn = context;
	/* The text is sent as a descriptor: with a thousand jobs it is larger than a packet, and than what may wait for
	 * a peer. */
	int fd = conn->closed || !text ? -1 : sealed_create("profd-metrics", n);
	if (conn->closed) {
		conn_unref(conn);
		return;
	}
	if (fd < 0 || pwrite(fd, text, n, 0) != (ssize_t)n) {
		conn_error(conn, ERROR_FAILED, "the daemon is out of memory, or going down", 0);
	} else {
		char row[64];
		snprintf(row, sizeof row, "{\"row\":\"metrics\",\"bytes\":%zu}", n);
		conn_send(conn, row, strlen(row), fd);
		conn_end(conn, NULL);
	}
	if (fd >= 0)
		close(fd);
	conn_unref(conn);
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	(void)request, (void)packet, (void)n;
	const struct server *server = conn->server;
	/* Names and step times of everybody's jobs, and how full the disk is, are not for other users. */
	if (!conn->admin && !(server->user && conn->peer.uid == getuid())) {
		audit_refused(conn, "metrics", "", ERROR_NOT_YOURS, 0, (uid_t)-1);
		conn_error(conn, ERROR_NOT_YOURS, "the daemon that these metrics are of", 0);
		return;
	}
	metrics_ask(conn->server, ready, conn_ref(conn));
}

const struct op op_metrics = {"metrics", "writes the metrics for Prometheus", NULL, serve, NULL};
