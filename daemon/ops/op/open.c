/* open.c - op "open": hands out a finished capture's file.
 *
 * op "open"     {"capture_id"} -> {"row":"file","capture_id","bytes":N, CAPTURE fields} with one read-only descriptor
 *                attached, end. A running capture: error busy.
 */
#include "daemon/capture/capture.h"
#include "daemon/capture/row.h"
#include "daemon/catalogue/audit.h"
#include "daemon/core/connection.h"
#include "daemon/core/reply.h"
#include "daemon/core/server.h"
#include "daemon/ops/get.h"
#include "daemon/ops/ops.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

static void look(struct get *get)
{
	char name[40];
	struct stat facts;
	snprintf(name, sizeof name, "%" PRIu64 ".db", get->number);
	get->fd = openat(get->server->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (get->fd >= 0 && fstat(get->fd, &facts) == 0)
		get->bytes = (uint64_t)facts.st_size;
}

static void send_file(struct conn *conn, struct get *get)
{
	const struct capture_facts *facts = &get->facts;
	char id[ID_BYTES];
	capture_id_text(get->number, get->server->user, id);
	if (get->fd < 0) {
		char detail[SENTENCE_BYTES];
		snprintf(detail, sizeof detail, "capture %s has no file%s%s", id, *facts->reason ? ": " : "",
			 facts->reason);
		conn_error(conn, ERROR_FAILED, detail, 0);
		return;
	}
	cJSON *row = conn_row_new("file");
	capture_describe(conn->server, conn->pid_namespace, facts, row);
	cJSON_DeleteItemFromObject(row, "bytes");
	cJSON_AddNumberToObject(row, "bytes", (double)get->bytes);
	conn_row_with(conn, row, get->fd);
	audit_done(conn, "open", id, "opened", facts->who.pid, facts->who.uid);
	conn_end(conn, NULL);
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	static const struct get_kind kind = {"open", look, send_file};
	(void)request, (void)packet, (void)n;
	get_serve(conn, &kind);
}

const struct op op_open = {"open", "hands out a capture's file", get_parse, serve, NULL};
