/* announced.c - see announced.h. Thread: the loop's. No locks. */
#include "announced.h"
#include "daemon/core/connection.h"
#include "daemon/core/namespaces.h"
#include "daemon/core/server.h"
#include "live.h"
#include "process_stat.h"
#include "proto/base/clock.h"

/* If the process registers later than this, its attachment counts as one that nobody announced. */
#define ANNOUNCED_NS 600000000000ull

static bool counts(const struct announcement *row, uint64_t now)
{
	return row->pid && now < row->at + ANNOUNCED_NS;
}

/* Where the next announcement of this user goes: to a free place, else to the place of this user's oldest, else to the place of the oldest
 * of all. */
static struct announcement *place(struct announced *announced, uid_t uid, uint64_t now)
{
	struct announcement *free = NULL, *own = NULL, *oldest = &announced->rows[0];
	unsigned owned = 0;
	for (struct announcement *row = announced->rows; row < announced->rows + ANNOUNCED_MOST; row++) {
		if (!counts(row, now)) {
			free = row;
			continue;
		}
		if (row->at < oldest->at)
			oldest = row;
		if (row->by.uid != uid)
			continue;
		owned++;
		if (!own || row->at < own->at)
			own = row;
	}
	return own && (owned >= ANNOUNCED_USER_MOST || !free) ? own : free ? free : oldest;
}

void announced_put(struct conn *conn, pid_t pid)
{
	struct server *server = conn->server;
	uint64_t now = clock_monotonic();
	bool own = conn->pid_namespace == server->pid_namespace;
	*place(&live_of(server)->announced, conn->peer.uid, now) =
		(struct announcement){.by = conn->peer,
				      .admin = conn->admin,
				      .pid_namespace = conn->pid_namespace,
				      .pid = pid,
				      .start_time = own ? process_start_time(pid) : 0,
				      .at = now};
}

bool announced_take(struct server *server, const struct identity *who, struct ucred *by)
{
	struct announced *announced = &live_of(server)->announced;
	struct announcement *found = NULL;
	uint64_t now = clock_monotonic();
	for (struct announcement *row = announced->rows; row < announced->rows + ANNOUNCED_MOST; row++) {
		if (!counts(row, now) || namespace_pid(who, server->pid_namespace, row->pid_namespace) != row->pid)
			continue;
		/* The pid may belong to another process by now. An announcement about another user's process does not
		 * count. */
		if ((row->start_time && row->start_time != who->start_time) || (!row->admin && row->by.uid != who->uid))
			continue;
		if (!found || row->at > found->at)
			found = row;
	}
	if (!found)
		return false;
	*by = found->by;
	*found = (struct announcement){0};
	return true;
}
