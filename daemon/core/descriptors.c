/* descriptors.c - see descriptors.h. Thread: the loop's; close_run has one of a pool. No locks. */
#include "descriptors.h"
#include "connection.h"
#include "server.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct closing {
	struct work work;
	struct quota_user *user;
	int fd;
};

/* Neither call touches the file itself. A file of a file system has a path. A memfd has one, too, but it also has
 * seals. */
static bool is_served(int fd)
{
	char path[40], text[2];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return fcntl(fd, F_GET_SEALS) < 0 && (readlink(path, text, 1) != 1 || *text == '/');
}

static int64_t close_run(struct work *work)
{
	close(((struct closing *)work)->fd);
	return WORK_DONE;
}

static void close_done(struct work *work)
{
	struct closing *closing = (struct closing *)work;
	closing->user->closing--;
	quota_user_unref(closing->user);
	free(closing);
}

static bool pool_there(struct server *server)
{
	if (server->closing_pool_runs || server->closing)
		return server->closing_pool_runs;
	server->closing_pool_runs = work_pool_init(&server->closing_pool, 1, WORK_NICE, &server->outbox) == 0;
	if (server->closing_pool_runs)
		work_pool_may_grow(&server->closing_pool);
	return server->closing_pool_runs;
}

static void give(struct conn *conn, int fd)
{
	struct closing *closing = pool_there(conn->server) ? calloc(1, sizeof *closing) : NULL;
	if (!closing) {
		close(fd);
		return;
	}
	*closing = (struct closing){.work = {.run = close_run, .done = close_done, .owner = conn->peer.uid},
				    .user = quota_user_ref(conn->user),
				    .fd = fd};
	conn->user->closing++;
	/* NOLINTNEXTLINE(-Wanalyzer-malloc-leak): the pool has it */
	work_submit(&conn->server->closing_pool, &closing->work);
}

void descriptors_sift(struct conn *conn, int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (!is_served(fds[i]))
			continue;
		give(conn, fds[i]);
		fds[i] = -1;
	}
}
