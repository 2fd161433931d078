/* connection.c - see connection.h. */
#include "connection.h"

#include "client/ui/clock.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "presence.h"

#include "proto/collectors.h"
#include "proto/limits.h"
#include "proto/system.h"
#include "proto/version.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A daemon that is silent for this long in the middle of an answer is taken for stuck. */
#define ANSWER_TIMEOUT_MS 30000
/* A daemon may end before it has answered. For this long we wait for the next one: a service manager's restart takes
 * less than a second. */
#define FOLLOW_ON_MS 3000
/* Bounds of one answer. A row of a list takes 4 KB if its capture or process has long names. */
#define KEPT_ROWS 1000000
#define KEPT_BYTES ((size_t)1 << 30)
/* The daemon's queue of new connections may be full for a moment. We try again for this long. */
#define CONNECT_TRIES 100
#define CONNECT_PAUSE_NS 20000000

static bool known(const struct daemons *daemons, const char *path)
{
	struct stat one, other;

	if (stat(path, &one) < 0)
		return false;
	for (unsigned i = 0; i < daemons->count; i++)
		if (stat(daemons->list[i].path, &other) == 0 && one.st_ino == other.st_ino &&
		    one.st_dev == other.st_dev)
			return true;
	return false;
}

static int connect_patiently(const char *path)
{
	const struct timespec pause = {.tv_nsec = CONNECT_PAUSE_NS};
	int fd = socket_connect(path);

	for (int i = 0; fd == -EAGAIN && i < CONNECT_TRIES; i++) {
		nanosleep(&pause, NULL);
		fd = socket_connect(path);
	}
	return fd;
}

void daemons_open(struct daemons *daemons)
{
	char path[SOCKET_PATH_BYTES];
	size_t n = 0;
	int error;

	*daemons = (struct daemons){0};
	for (unsigned i = 0; (error = socket_candidate(i, path)) != -ENOENT && daemons->count < DAEMONS_MAX; i++) {
		struct daemon *daemon = &daemons->list[daemons->count];

		if (error)
			continue;
		n += (size_t)snprintf(daemons->tried + n, sizeof daemons->tried - n, "%s%s", n ? ", " : "", path);
		if (n >= sizeof daemons->tried)
			n = sizeof daemons->tried - 1;
		if (known(daemons, path))
			continue;
		error = socket_trusted(path);
		if (error == -EPERM)
			snprintf(daemons->distrusted, sizeof daemons->distrusted, "%s", path);
		if (error)
			continue;
		daemon->fd = connect_patiently(path);
		if (daemon->fd < 0)
			continue;
		memcpy(daemon->path, path, sizeof daemon->path);
		daemon->user = strcmp(path, SOCKET_SYSTEM) != 0;
		daemons->count++;
	}
}

void daemons_none(const struct daemons *daemons, struct failure *failure)
{
	failure_set(failure, ERROR_NO_DAEMON, daemons->tried);
	if (daemons->distrusted[0])
		snprintf(failure->message, sizeof failure->message,
			 "the socket %s is not to be trusted: it, or its folder, belongs to or can be written by "
			 "another user; "
			 "remove it, or name another daemon with PROFD_SOCKET",
			 daemons->distrusted);
}

int daemons_need(struct daemons *daemons)
{
	struct failure failure;

	daemons_open(daemons);
	if (daemons->count)
		return 0;
	daemons_none(daemons, &failure);
	return failure_print(&failure);
}

void daemons_deinit(struct daemons *daemons)
{
	for (unsigned i = 0; i < daemons->count; i++)
		close(daemons->list[i].fd);
	daemons->count = 0;
}

cJSON *request_new(const char *op)
{
	cJSON *request = need(cJSON_CreateObject());

	need(cJSON_AddStringToObject(request, "op", op));
	need(cJSON_AddNumberToObject(request, "major", PROTOCOL_MAJOR));
	need(cJSON_AddNumberToObject(request, "minor", PROTOCOL_MINOR));
	return request;
}

void request_collectors(cJSON *request, uint32_t collectors)
{
	cJSON *list = need(cJSON_AddArrayToObject(request, "collectors"));

	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++)
		if (collectors >> bit & 1 && collector_word(bit))
			cJSON_AddItemToArray(list, need(cJSON_CreateString(collector_word(bit))));
}

/* A peer's texts go to terminals and into JSON: they are made valid UTF-8 here, once. */
static void clean(cJSON *item)
{
	for (; item; item = item->next) {
		if (cJSON_IsString(item) && item->valuestring) {
			char *valid = text_utf8(item->valuestring);

			if (strcmp(valid, item->valuestring) != 0) {
				cJSON_free(item->valuestring);
				item->valuestring = need(cJSON_malloc(strlen(valid) + 1));
				memcpy(item->valuestring, valid, strlen(valid) + 1);
			}
			free(valid);
		}
		clean(item->child);
	}
}

/* Reads what a daemon said before it closed the connection: that it takes no more connections of this user. */
static bool last_words(struct daemon *daemon, struct failure *failure)
{
	char packet[1024];
	ssize_t n = socket_receive(daemon->fd, packet, sizeof packet, NULL, NULL, 0);
	cJSON *object;
	bool said;

	/* The first read gives the error of a connection that was closed with our bytes unread; the next one gives what
	 * it said. */
	if (n == -ECONNRESET)
		n = socket_receive(daemon->fd, packet, sizeof packet, NULL, NULL, 0);
	if (n <= 0)
		return false;
	object = cJSON_ParseWithLength(packet, (size_t)n);
	if (object)
		clean(object->child);
	said = reply_error(object, failure);
	cJSON_Delete(object);
	return said;
}

bool daemon_send(struct daemon *daemon, const cJSON *request, struct failure *failure)
{
	char *packet = need(cJSON_PrintUnformatted(request));
	size_t n = strlen(packet);
	char detail[SOCKET_PATH_BYTES + 160];
	/* The daemon needs it to translate pids between its namespace and ours. */
	int namespace = system_pid_namespace();
	int error = -EMSGSIZE;

	if (n <= LIMIT_PACKET_BYTES)
		error = socket_send(daemon->fd, packet, n, &namespace, namespace >= 0 ? 1 : 0);
	if (namespace >= 0)
		close(namespace);
	free(packet);
	if (error == 0)
		return true;
	if (error != -EMSGSIZE && last_words(daemon, failure))
		return false;
	if (error == -EMSGSIZE)
		snprintf(detail, sizeof detail, "the request is too long; name fewer targets or captures at once");
	else
		snprintf(detail, sizeof detail,
			 "the daemon at %s took no request: %s; `profd status` says whether it lives", daemon->path,
			 strerror(-error));
	failure_set(failure, ERROR_PROTOCOL, detail);
	return false;
}

static void broken(struct daemon *daemon, struct failure *failure, const char *what)
{
	char detail[SOCKET_PATH_BYTES + 320];

	snprintf(detail, sizeof detail,
		 "the daemon at %s %s; `profd status` says whether it lives, `profd captures` what it has",
		 daemon->path, what);
	failure_set(failure, ERROR_PROTOCOL, detail);
}

int daemon_receive(struct daemon *daemon, int timeout_ms, cJSON **ret, int *ret_fd, struct failure *failure)
{
	static char packet[LIMIT_PACKET_BYTES + 1];
	long long deadline = clock_now() / 1000000 + timeout_ms;
	int fds[LIMIT_PACKET_FDS];
	unsigned nfds = LIMIT_PACKET_FDS;
	ssize_t n;

	for (;;) {
		struct pollfd poller = {.fd = daemon->fd, .events = POLLIN};
		long long left = timeout_ms < 0 ? -1 : deadline - clock_now() / 1000000;
		int ready = poll(&poller, 1, timeout_ms >= 0 && left < 0 ? 0 : (int)left);

		if (ready == 0)
			return RECEIVE_TIMEOUT;
		if (ready > 0 || errno != EINTR)
			break;
	}
	n = socket_receive(daemon->fd, packet, LIMIT_PACKET_BYTES, fds, &nfds, 0);
	if (n == -ECONNRESET) {
		/* What it said before it closed stands behind the error. */
		nfds = LIMIT_PACKET_FDS;
		n = socket_receive(daemon->fd, packet, LIMIT_PACKET_BYTES, fds, &nfds, 0);
	}
	if (n == 0 || n == -ECONNRESET) {
		broken(daemon, failure, "closed the connection");
		return RECEIVE_CLOSED;
	}
	if (n < 0) {
		for (unsigned i = 0; i < nfds; i++)
			close(fds[i]);
		broken(daemon, failure, "sent something that cannot be read");
		return RECEIVE_BROKEN;
	}
	for (unsigned i = ret_fd ? 1 : 0; i < nfds; i++)
		close(fds[i]);
	if (ret_fd)
		*ret_fd = nfds ? fds[0] : -1;
	*ret = cJSON_ParseWithLength(packet, (size_t)n);
	if (!cJSON_IsObject(*ret)) {
		cJSON_Delete(*ret);
		*ret = NULL;
		if (ret_fd && *ret_fd >= 0)
			close(*ret_fd);
		broken(daemon, failure, "sent something that is no JSON object; is it a profd daemon of this release?");
		return RECEIVE_BROKEN;
	}
	clean((*ret)->child);
	return RECEIVE_PACKET;
}

bool reply_is_end(const cJSON *packet)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(packet, "end"));
}

bool reply_is_row(const cJSON *packet, const char *row)
{
	const char *word = json_text(packet, "row");

	return word && strcmp(word, row) == 0;
}

bool reply_error(const cJSON *packet, struct failure *failure)
{
	const cJSON *error = cJSON_GetObjectItemCaseSensitive(packet, "error");
	const char *word, *message;

	if (!cJSON_IsObject(error))
		return false;
	word = json_text(error, "code");
	message = json_text(error, "message");
	failure->error = error_from_word(word ? word : "");
	snprintf(failure->word, sizeof failure->word, "%s", word ? word : error_word(failure->error));
	snprintf(failure->message, sizeof failure->message, "%s",
		 message ? message : "the daemon refused and did not say why");
	failure->pid = (int64_t)json_number(error, "pid", 0);
	presence_explain(failure);
	return true;
}

/* Bytes that an object takes in memory, with those beside it and in it, and with what the allocator adds. */
static size_t weigh(const cJSON *item)
{
	const size_t allocation = 16;
	size_t bytes = 0;

	for (; item; item = item->next) {
		bytes += sizeof *item + allocation;
		bytes += item->string ? strlen(item->string) + allocation : 0;
		bytes += item->valuestring ? strlen(item->valuestring) + allocation : 0;
		bytes += weigh(item->child);
	}
	return bytes;
}

bool reply_keep(struct kept *kept, size_t most, const cJSON *packet, struct daemon *daemon, struct failure *failure)
{
	char what[160];

	kept->rows++;
	kept->bytes += weigh(packet);
	if (kept->rows <= most && kept->bytes <= KEPT_BYTES)
		return true;
	/* Nobody waits for what it still sends. */
	shutdown(daemon->fd, SHUT_RDWR);
	snprintf(what, sizeof what,
		 "sent a list without an end: %zu rows of %zu MiB, more than any may have; ask for less (--limit), or "
		 "restart it",
		 kept->rows, kept->bytes >> 20);
	broken(daemon, failure, what);
	return false;
}

bool daemon_reconnect(struct daemon *daemon)
{
	int fd = socket_trusted(daemon->path) == 0 ? socket_connect(daemon->path) : -1;

	if (fd < 0)
		return false;
	close(daemon->fd);
	daemon->fd = fd;
	return true;
}

/* Waits a moment for the next daemon. */
static bool follow_on(struct daemon *daemon, long long until)
{
	const struct timespec nap = {.tv_nsec = 50000000};

	while (!daemon_reconnect(daemon)) {
		if (clock_now() / 1000000 >= until)
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

bool daemon_query(struct daemon *daemon, const cJSON *request, row_handler handler, void *context,
		  struct failure *failure)
{
	long long until = clock_now() / 1000000 + FOLLOW_ON_MS;
	struct kept kept = {0};
	bool begun = false;

	if (!daemon_send(daemon, request, failure) &&
	    (!follow_on(daemon, until) || !daemon_send(daemon, request, failure)))
		return false;
	*failure = (struct failure){0};
	for (;;) {
		cJSON *packet;
		int fd;
		int received = daemon_receive(daemon, ANSWER_TIMEOUT_MS, &packet, &fd, failure);
		bool error, end;

		if (received == RECEIVE_TIMEOUT) {
			broken(daemon, failure, "did not answer in time");
			failure->error = ERROR_TIMEOUT;
		}
		if (received == RECEIVE_CLOSED && !begun && clock_now() / 1000000 < until && follow_on(daemon, until) &&
		    daemon_send(daemon, request, failure)) {
			*failure = (struct failure){0};
			continue;
		}
		if (received != RECEIVE_PACKET)
			return false;
		begun = true;
		if (!reply_keep(&kept, KEPT_ROWS, packet, daemon, failure)) {
			if (fd >= 0)
				close(fd);
			cJSON_Delete(packet);
			return false;
		}
		error = reply_error(packet, failure);
		end = reply_is_end(packet);
		if (!error && json_text(packet, "row"))
			handler(daemon, packet, fd, context);
		else if (fd >= 0)
			close(fd);
		cJSON_Delete(packet);
		if (error)
			return false;
		if (end)
			return true;
	}
}

unsigned daemons_query(struct daemons *daemons, const cJSON *request, row_handler handler, void *context,
		       struct failure *failure)
{
	unsigned answered = 0;

	*failure = (struct failure){0};
	for (unsigned i = 0; i < daemons->count; i++) {
		struct failure one;

		if (daemon_query(&daemons->list[i], request, handler, context, &one))
			answered++;
		else
			failure_merge(failure, &one);
	}
	return answered;
}
