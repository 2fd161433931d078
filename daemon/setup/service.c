/* service.c - see service.h. Thread: the loop's. No locks. */
#include "service.h"
#include "daemon/capture/capture.h"
#include "base/log.h"
#include "daemon/core/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first descriptor that is handed over. */
#define LISTEN_FIRST 3
/* More is not ours; the unit has FileDescriptorStoreMax=. */
#define HANDED_MOST 65536
/* Segments that the manager keeps are called so, with the capture's number behind it. */
#define KEPT_NAME "capture-"
/* Changes are told together: the manager logs nothing of them, but wakes for each. */
#define STATUS_MS 1000
/* A catalogue of millions of captures is migrated in minutes, and half a migration is worth nothing. */
#define STARTING_US 900000000ull

/* How long one piece of work may take on a thread that is watched. A pass of the ingest and a piece of the catalogue's work take
 * ms; on a processor that jobs keep busy, or behind a name service that does not answer, seconds. A thread that waits for a
 * disk is not counted (work_beat_hangs): a slow disk would only be slower after a restart.
 *
 * Threads of the finish pool are not watched. A derive may take its minutes; and what a hanging one works on would be taken up
 * by the next daemon and hang there again, while this one still serves all others. */
#define PIECE_NS 120000000000ull

static int say(char *sentence, int error, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence, SERVICE_SENTENCE_BYTES, format, arguments);
	va_end(arguments);
	return error;
}

/* A number of the environment; 0 where it is none. */
static uint64_t number_of(const char *variable)
{
	const char *text = getenv(variable);
	char *end = NULL;
	unsigned long long value = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
	return end && *end == 0 ? value : 0;
}

/* The number in a name that service_keep() has given; 0 where it is another's. */
static uint64_t kept_number(const char *name, size_t n)
{
	char text[64], *end = NULL;
	size_t prefix = strlen(KEPT_NAME);
	if (n >= sizeof text || n <= prefix || strncmp(name, KEPT_NAME, prefix) != 0)
		return 0;
	memcpy(text, name, n);
	text[n] = 0;
	unsigned long long number = strtoull(text + prefix, &end, 10);
	return *end ? 0 : number;
}

/* Tells kept segments from sockets, by their names. Returns how many sockets there are, with the last one's descriptor. */
static uint64_t sort_handed(struct service *service, uint64_t count, int *ret_fd)
{
	const char *names = getenv("LISTEN_FDNAMES");
	uint64_t sockets = 0;
	for (uint64_t i = 0; i < count; i++) {
		size_t n = names ? strcspn(names, ":") : 0;
		uint64_t number = n ? kept_number(names, n) : 0;
		int fd = LISTEN_FIRST + (int)i;
		names = names && names[n] ? names + n + 1 : NULL;
		struct service_kept *grown =
			number ? realloc(service->kept, (service->kept_count + 1) * sizeof *grown) : NULL;
		if (grown) {
			service->kept = grown;
			grown[service->kept_count++] = (struct service_kept){number, fd};
			fcntl(fd, F_SETFD, FD_CLOEXEC);
		} else if (number) {
			close(fd);
		} else {
			sockets++;
			*ret_fd = fd;
		}
	}
	return sockets;
}

static int take_socket(struct service *service, char *ret_path, char *sentence)
{
	uint64_t count = number_of("LISTEN_FDS");
	int fd = -1, type = 0, accepting = 0;
	if (!count || count > HANDED_MOST || number_of("LISTEN_PID") != (uint64_t)getpid())
		return -ENOENT;
	count = sort_handed(service, count, &fd);
	if (count == 0)
		return -ENOENT;
	if (count != 1)
		return say(
			sentence, -EINVAL,
			"the service manager has handed over %llu sockets, one is wanted: profd.socket must have one "
			"line ListenSequentialPacket= and no other Listen...=",
			(unsigned long long)count);
	socklen_t n = sizeof type;
	struct sockaddr_un address = {0};
	socklen_t length = sizeof address;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) || getsockname(fd, (struct sockaddr *)&address, &length))
		return say(sentence, -errno, "what the service manager has handed over as a socket is none: %s",
			   strerror(errno));
	n = sizeof accepting;
	getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepting, &n);
	if (address.sun_family != AF_UNIX || type != SOCK_SEQPACKET || !accepting)
		return say(sentence, -EPROTOTYPE,
			   "the service manager has handed over a socket of another kind: profd.socket must have "
			   "ListenSequentialPacket= with a path, and not Accept=yes");
	/* One without a name, or in the abstract name space, nobody would find. */
	if (length <= offsetof(struct sockaddr_un, sun_path) || address.sun_path[0] != '/')
		return say(sentence, -EINVAL,
			   "the service manager has handed over a socket without a path: ListenSequentialPacket= in "
			   "profd.socket must name one, such as " SOCKET_SYSTEM);
	snprintf(ret_path, SERVICE_SENTENCE_BYTES, "%.*s", (int)sizeof address.sun_path, address.sun_path);
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, O_NONBLOCK))
		return say(sentence, -errno, "the socket that was handed over cannot be used: %s", strerror(errno));
	service->handed = true;
	return fd;
}

static void find_notify(struct service *service)
{
	const char *path = getenv("NOTIFY_SOCKET");
	size_t n = path ? strlen(path) : 0;
	if (n < 2 || n >= sizeof service->notify_address.sun_path || (*path != '/' && *path != '@'))
		return;
	service->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (service->notify_fd < 0)
		return;
	service->notify_address.sun_family = AF_UNIX;
	memcpy(service->notify_address.sun_path, path, n);
	if (*path == '@')
		service->notify_address.sun_path[0] = 0;
	service->notify_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	uint64_t pid = number_of("WATCHDOG_PID");
	if (!pid || pid == (uint64_t)getpid())
		service->watchdog_ns = number_of("WATCHDOG_USEC") * 1000;
}

int service_init(struct service *service, char ret_path[SERVICE_SENTENCE_BYTES], char *sentence)
{
	static const char *const variables[] = {"LISTEN_FDS",	 "LISTEN_PID",	  "LISTEN_FDNAMES",
						"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"};
	*service = (struct service){.notify_fd = -1};
	int fd = take_socket(service, ret_path, sentence);
	find_notify(service);
	service->managed = service->handed || service->notify_fd >= 0;
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		unsetenv(variables[i]);
	return fd;
}

/* One message of lines NAME=VALUE. Who does not listen has lost it: the daemon goes on. */
static void tell(struct service *service, const char *format, ...)
{
	char text[1024];
	if (service->notify_fd < 0)
		return;
	va_list arguments;
	va_start(arguments, format);
	int n = vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (n >= (int)sizeof text)
		n = sizeof text - 1;
	ssize_t sent = sendto(service->notify_fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT,
			      (const struct sockaddr *)&service->notify_address, service->notify_length);
	(void)sent;
}

bool service_keep(struct service *service, uint64_t capture, int fd)
{
	char text[96];
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	/* A memfd is nothing that is polled; its name tells the next daemon which one it is. */
	int n = snprintf(text, sizeof text, "FDSTORE=1\nFDPOLL=0\nFDNAME=" KEPT_NAME "%llu",
			 (unsigned long long)capture);
	struct iovec part = {text, (size_t)n};
	struct msghdr message = {.msg_name = &service->notify_address,
				 .msg_namelen = service->notify_length,
				 .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof control.bytes};
	if (service->notify_fd < 0)
		return false;
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(head), &fd, sizeof fd);
	return sendmsg(service->notify_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

void service_unkeep(struct service *service, uint64_t capture)
{
	tell(service, "FDSTOREREMOVE=1\nFDNAME=" KEPT_NAME "%llu", (unsigned long long)capture);
}

int service_take(struct service *service, uint64_t capture)
{
	for (size_t i = 0; i < service->kept_count; i++)
		if (service->kept[i].capture == capture && service->kept[i].fd >= 0) {
			int fd = service->kept[i].fd;
			service->kept[i].fd = -1;
			return fd;
		}
	return -1;
}

void service_release(struct service *service)
{
	for (size_t i = 0; i < service->kept_count; i++)
		if (service->kept[i].fd >= 0) {
			close(service->kept[i].fd);
			service_unkeep(service, service->kept[i].capture);
		}
	free(service->kept);
	service->kept = NULL;
	service->kept_count = 0;
}

void service_starting(struct service *service, const char *what)
{
	tell(service, "STATUS=%s\nEXTEND_TIMEOUT_USEC=%llu", what, STARTING_US);
}

/* --- status --- */

static void write_status(const struct server *server, char *text, size_t bytes)
{
	const struct service *service = &server->service;
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	struct usage_owner stored = usage_sum(&server->usage, true, 0);
	double size = (double)stored.bytes;
	unsigned unit = 0;
	for (; size >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
		size /= 1024;
	int n = snprintf(text, bytes, "%s%u process%s, %u capture%s under way, %llu stored (%.*f %s)",
			 server->stopping ? "Ending: " : "", server->process_count,
			 server->process_count == 1 ? "" : "es", server->capture_count,
			 server->capture_count == 1 ? "" : "s", (unsigned long long)stored.captures, unit ? 1 : 0, size,
			 units[unit]);
	if (*service->refused && n > 0 && (size_t)n < bytes)
		snprintf(text + n, bytes - (size_t)n, "; settings refused, the old ones hold: %.400s",
			 service->refused);
}

static void tell_status(struct server *server)
{
	struct service *service = &server->service;
	char text[sizeof service->told];
	write_status(server, text, sizeof text);
	service->status_waits = false;
	service->processes = server->process_count;
	service->captures = server->capture_count;
	service->stored = usage_sum(&server->usage, true, 0).captures;
	if (strcmp(text, service->told) == 0)
		return;
	memcpy(service->told, text, sizeof text);
	tell(service, "STATUS=%s", text);
}

static void status_due(uv_timer_t *timer)
{
	tell_status(timer->data);
}

void service_changed(struct server *server)
{
	struct service *service = &server->service;
	if (service->notify_fd < 0 || !service->timers || service->status_waits ||
	    (service->processes == server->process_count && service->captures == server->capture_count &&
	     service->stored == usage_sum(&server->usage, true, 0).captures))
		return;
	service->status_waits = true;
	uv_timer_start(&service->status, status_due, STATUS_MS, 0);
}

/* --- watchdog --- */

static bool is_healthy(struct server *server, uint64_t now)
{
	return !work_pool_hangs(&server->ingest_pool, now, PIECE_NS) &&
	       !work_beat_hangs(&server->catalogue.beat, now, PIECE_NS);
}

/* That this runs at all says that the loop does. */
static void watchdog_due(uv_timer_t *timer)
{
	struct server *server = timer->data;
	struct service *service = &server->service;
	bool healthy = is_healthy(server, clock_monotonic());
	if (healthy)
		tell(service, "WATCHDOG=1");
	else if (!service->unhealthy)
		log_line("a thread behind the loop has not come on for %llu s: the service manager is told no longer "
			 "that all is well, and will start the daemon anew",
			 PIECE_NS / 1000000000ull);
	service->unhealthy = !healthy;
}

/* --- life --- */

void service_ready(struct server *server)
{
	struct service *service = &server->service;
	uv_timer_init(&server->loop, &service->status);
	uv_timer_init(&server->loop, &service->watchdog);
	service->status.data = service->watchdog.data = server;
	service->timers = true;
	if (service->watchdog_ns) {
		uint64_t ms = service->watchdog_ns / 2000000;
		uv_timer_start(&service->watchdog, watchdog_due, 0, ms ? ms : 1);
	}
	tell(service, "READY=1");
	tell_status(server);
}

struct waiting {
	char keys[256];
	size_t n;
};

static void needs_restart(void *context, const char *key)
{
	struct waiting *waiting = context;
	if (waiting->n < sizeof waiting->keys)
		waiting->n += (size_t)snprintf(waiting->keys + waiting->n, sizeof waiting->keys - waiting->n, "%s%s",
					       waiting->n ? ", " : "", key);
}

void service_reload(struct server *server)
{
	struct service *service = &server->service;
	struct config fresh;
	struct waiting waiting = {.n = 0};
	char sentence[CONFIG_SENTENCE_BYTES];
	tell(service, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)(clock_monotonic() / 1000));
	if (config_load(&fresh, server->user, server->config_file, sentence)) {
		text_copy(service->refused, sizeof service->refused, sentence);
		log_line("the settings are refused, the old ones hold: %s", sentence);
	} else {
		config_take(&server->config, &fresh, needs_restart, &waiting);
		metrics_reload(server);
		service->refused[0] = 0;
		log_is_verbose = server->verbose || server->config.verbose;
		log_line("settings read anew%s%s", waiting.n ? "; what takes a restart: " : "", waiting.keys);
		retention_look(server);
	}
	tell(service, "READY=1");
	tell_status(server);
}

void service_stopping(struct server *server, uint64_t most_ns)
{
	struct service *service = &server->service;
	tell(service, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu", (unsigned long long)(most_ns / 1000));
	tell_status(server);
}

void service_deinit(struct server *server)
{
	struct service *service = &server->service;
	if (service->timers) {
		uv_close((uv_handle_t *)&service->status, NULL);
		uv_close((uv_handle_t *)&service->watchdog, NULL);
	}
	service->timers = false;
	if (service->notify_fd >= 0)
		close(service->notify_fd);
	service->notify_fd = -1;
}
