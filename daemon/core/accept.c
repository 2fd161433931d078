/* accept.c - see accept.h. Thread: the loop's. No locks. */
#include "accept.h"
#include "proto/base/log.h"
#include "calls.h"
#include "connection.h"
#include "peer.h"
#include "proto/message.h"
#include "proto/socket.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The loop accepts this many connections before others have their turn. Each costs a few microseconds. */
#define ACCEPTS_MAX 64

/* Answers what the peer may have said already. The caller closes its connection then. */
static void refuse_now(int fd, const char *sentence)
{
	char packet[2048];
	ssize_t n = socket_receive(fd, packet, sizeof packet, NULL, NULL, MSG_DONTWAIT);
	if (n > 0 && *packet != '{') {
		struct message_refuse refusal = MESSAGE_INIT(REFUSE, refuse);
		refusal.error = ERROR_QUOTA;
		message_text(refusal.sentence, sizeof refusal.sentence, sentence);
		socket_send(fd, &refusal, sizeof refusal, NULL, 0);
		return;
	}
	/* A client, or a peer that has said nothing yet and may read this. */
	char text[QUOTA_SENTENCE_BYTES + 100];
	int length = snprintf(text, sizeof text, "{\"error\":{\"code\":\"%s\",\"message\":\"%s\"},\"end\":true}",
			      error_word(ERROR_QUOTA), sentence);
	socket_send(fd, text, (size_t)length, NULL, 0);
}

static void take(struct server *server, int fd)
{
	struct ucred peer;
	socklen_t n = sizeof peer;
	char sentence[QUOTA_SENTENCE_BYTES];
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n)) {
		close(fd);
		return;
	}
	struct quota_user *user = quota_user(server, peer.uid);
	if (!user) {
		close(fd);
		return;
	}
	bool admin = peer.uid == 0 || (!server->user && peer_of_group(fd, &peer, server->group));
	enum error error = quota_connect(server, user, sentence);
	if (error)
		server->calls->refused(server, &peer, user, error, sentence);
	if (error && !quota_refuse(server, user)) {
		refuse_now(fd, sentence);
		close(fd);
	} else if (!conn_new(server, fd, &peer, admin, user, error, sentence)) {
		if (error)
			quota_refused(server, user);
		else
			quota_disconnect(user);
	}
	quota_user_unref(user);
}

/* The daemon is out of descriptors. One is kept for this case, so that a peer that waits in the queue gets an
 * answer. */
static bool turn_away(struct server *server)
{
	if (server->spare_fd < 0)
		return false;
	close(server->spare_fd);
	int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		refuse_now(fd, "the daemon has no file descriptor left; try again in a moment, or ask an administrator "
			       "to raise its limit of open files");
		close(fd);
	}
	server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fd >= 0;
}

static void accept_ready(uv_poll_t *poll, int status, int events)
{
	struct server *server = poll->data;
	(void)status, (void)events;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			take(server, fd);
			continue;
		}
		if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
			return;
		if (errno == EMFILE && turn_away(server))
			continue;
		/* Without a pause this would spin. */
		log_line("cannot take a connection: %s; trying again in a moment", strerror(errno));
		uv_poll_stop(&server->listener);
		server->accept_paused = true;
		server_tick_adjust(server);
		return;
	}
}

void accept_start(struct server *server)
{
	server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	server->listener.data = server;
	uv_poll_start(&server->listener, UV_READABLE, accept_ready);
}

void accept_resume(struct server *server)
{
	if (!server->accept_paused)
		return;
	server->accept_paused = false;
	uv_poll_start(&server->listener, UV_READABLE, accept_ready);
}

void accept_stop(struct server *server)
{
	if (server->spare_fd >= 0)
		close(server->spare_fd);
	server->spare_fd = -1;
}
