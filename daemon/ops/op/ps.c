/* ps.c - op "ps": the processes that carry an agent.
 *
 * op "ps"       -> {"row":"process", PROCESS}*, end. With {"pid":N} only that one (NO_PROCESS / NO_AGENT / NOT_YOURS
 *                   when there is none; NO_TARGET in another pid namespace than the daemon's).
 */
#include "daemon/capture/live.h"
#include "daemon/capture/registry.h"
#include "daemon/core/connection.h"
#include "daemon/core/reply.h"
#include "daemon/ops/clients.h"
#include "daemon/ops/named.h"
#include "daemon/ops/ops.h"
#include "daemon/ops/parse.h"

/* Rows at a time. */
#define ROWS 32

/* Processes in the order of their registration, a few at a time; cursor is the serial of the last. */
static void produce(struct conn *conn)
{
	struct client *client = client_of(conn);
	for (unsigned i = 0; i < ROWS && conn->queued < CONN_QUEUE_LOW; i++) {
		const struct process *next = NULL;
		for (const struct process *process = live_of(conn->server)->processes; process; process = process->next)
			if (process->serial > client->cursor && conn_may(conn, process->who.uid) &&
			    (!next || process->serial < next->serial))
				next = process;
		if (!next) {
			conn_end(conn, NULL);
			return;
		}
		client->cursor = next->serial;
		process_row(conn, next);
	}
	/* If the queue is empty, nobody calls `produce` again. */
	if (!conn->first && !conn->closed && conn->produce)
		produce(conn);
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	(void)packet, (void)n;
	if (request->pid) {
		const struct process *process = named_process(conn, "ps");
		if (!process)
			return;
		process_row(conn, process);
		conn_end(conn, NULL);
		return;
	}
	client_of(conn)->cursor = 0;
	conn->produce = produce;
	produce(conn);
}

const struct op op_ps = {"ps", "lists processes that can be recorded", parse_request_pid, serve, NULL};
