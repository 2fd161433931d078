/* link.c - the agent's thread: the connection to one daemon, and the loop that everything else is driven from. It sleeps in
 * poll without a timeout unless something is due. */
#include "control.h"
#include "facts.h"
#include "life.h"
#include "sink.h"
#include "sink_control.h"
#include "steps/counter.h"
#include "torch/torch.h"

#include "../proto/errors.h"
#include "../proto/limits.h"
#include "../proto/socket.h"
#include "../proto/system.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#define MILLISECOND 1000000ull

static _Atomic int daemon_fd = -1;
static _Atomic int folder_fd = -1; /* inotify */
static struct message_hello told;  /* last HELLO */
static int welcome;

/* After a loss, and after a socket has appeared that did not answer yet, in ms; then only inotify tells. */
static const unsigned retries[] = {20, 100, 500, 2000, 10000, 60000};
#define RETRIES (sizeof retries / sizeof *retries)
static unsigned retry;
static uint64_t retry_at = UINT64_MAX;

/* Until torch, whose import has begun, stands ready: every 50 ms, for a minute after the last part of it was seen. */
#define TORCH_EVERY (50 * MILLISECOND)
#define TORCH_LOOKS 1200
static _Atomic unsigned torch_looks = TORCH_LOOKS;
static uint64_t torch_at;
static int torch_watched;

void link_close_in_child(void)
{
	int fd = atomic_exchange(&daemon_fd, -1);
	if (fd >= 0)
		close(fd);
	fd = atomic_exchange(&folder_fd, -1);
	if (fd >= 0)
		close(fd);
}

int link_send(const void *message, int fd)
{
	const struct message_head *head = message;
	int to = atomic_load(&daemon_fd);
	if (to < 0)
		return -ENOTCONN;
	/* The daemon reads as fast as it can; a full queue means that it hangs, and a training job must not wait for it. */
	return socket_send(to, message, head->size, &fd, fd >= 0);
}

int link_has_finish(uint64_t capture)
{
	struct message_finish m;
	int from = atomic_load(&daemon_fd);
	return from >= 0 && recv(from, &m, sizeof m, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)sizeof m &&
	       m.head.type == MESSAGE_FINISH && m.capture == capture;
}

/* ---------------------------------------------------------------- finding a daemon */

/* Watches the folders in which a socket can appear, or the folder above where that does not exist yet. /tmp is too busy to
 * be watched for a folder that may never come: `profd run` makes it beforehand. */
static void folders_watch(void)
{
	if (atomic_load(&folder_fd) >= 0)
		return;
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd < 0)
		return;
	const char *path;
	for (unsigned i = 0; (path = facts_socket(i)); i++) {
		char folder[SOCKET_PATH_BYTES];
		memcpy(folder, path, sizeof folder);
		for (int up = 0; up < 2; up++) {
			char *slash = strrchr(folder, '/');
			if (!slash || slash == folder)
				break;
			*slash = 0;
			if (up && !strcmp(folder, "/tmp"))
				break;
			if (inotify_add_watch(fd, folder, IN_CREATE | IN_MOVED_TO | IN_ONLYDIR) >= 0)
				break;
		}
	}
	atomic_store(&folder_fd, fd);
}

static void folders_unwatch(void)
{
	int fd = atomic_exchange(&folder_fd, -1);
	if (fd >= 0)
		close(fd);
}

static void hello(void)
{
	struct message_hello now;
	facts_hello(&now);
	if (welcome && !memcmp(&now, &told, sizeof now))
		return;
	told = now;
	/* The first time with a proof of the namespace that the pid is of. Too many descriptors under way: then without. */
	int namespace = welcome ? -1 : system_pid_namespace();
	if (link_send(&now, namespace) == -ETOOMANYREFS)
		link_send(&now, -1);
	if (namespace >= 0)
		close(namespace);
}

static void retry_later(void)
{
	retry_at = retry < RETRIES ? sink_now() + retries[retry++] * MILLISECOND : UINT64_MAX;
}

static void connect_now(void)
{
	const char *path;
	int refused = 0;
	/* Watch first, then look: a socket that appears in between is seen. */
	folders_watch();
	retry_at = UINT64_MAX;
	for (unsigned i = 0; (path = facts_socket(i)); i++) {
		int r = socket_trusted(path);
		if (r == -EPERM)
			life_debug("not obeyed, others could write there", path);
		if (r < 0)
			continue;
		int fd = socket_connect(path);
		if (fd < 0) {
			refused = 1;
			continue;
		}
		life_debug("connected", path);
		atomic_store(&daemon_fd, fd);
		folders_unwatch();
		welcome = 0;
		hello();
		return;
	}
	if (refused)
		retry_later();
}

static void disconnected(void)
{
	int fd = atomic_exchange(&daemon_fd, -1);
	if (fd >= 0)
		close(fd);
	welcome = 0;
	life_debug("disconnected", "");
	control_daemon_lost();
	folders_watch();
	retry_later();
}

/* ---------------------------------------------------------------- messages */

/* Returns 0, or -ECONNRESET where this daemon is not to be talked to any more. */
static int handle(union message_any *m, int *fds, unsigned nfds)
{
	int status;
	switch (m->head.type) {
	case MESSAGE_WELCOME:
		status = nfds ? fds[0] : -1;
		if (status >= 0) {
			steps_publish(status);
			close(status);
			fds[0] = -1;
		}
		welcome = 1;
		retry = 0;
		control_daemon_found();
		return 0;
	case MESSAGE_REFUSE:
		life_debug("refused", m->refuse.sentence);
		/* A quota has room again some time; all else stays as it is. */
		retry = m->refuse.error == ERROR_QUOTA ? RETRIES - 1 : RETRIES;
		return -ECONNRESET;
	case MESSAGE_ARM:
		if (nfds) {
			int segment = fds[0];
			fds[0] = -1;
			control_arm(&m->arm, segment);
		}
		return 0;
	case MESSAGE_CANCEL:
		control_cancel(m->cancel.capture, m->cancel.reason);
		return 0;
	case MESSAGE_PROBE:
		control_probe();
		return 0;
	case MESSAGE_FINISH:
		control_finish(m->finish.capture);
		return 0;
	default:
		/* A newer daemon's. */
		return 0;
	}
}

static void receive(void)
{
	static unsigned char packet[4096];
	for (;;) {
		int fds[LIMIT_PACKET_FDS], fd = atomic_load(&daemon_fd);
		unsigned nfds = LIMIT_PACKET_FDS;
		union message_any m;
		const char *why = "";
		if (fd < 0)
			return;
		ssize_t n = socket_receive(fd, packet, sizeof packet, fds, &nfds, MSG_DONTWAIT);
		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n == -EMSGSIZE)
			continue;
		int r = n > 0 ? 0 : -ECONNRESET;
		if (r == 0 && message_check(packet, (size_t)n, 0, &m, &why) == 0)
			r = handle(&m, fds, nfds);
		else if (r == 0)
			life_debug("not understood", why);
		for (unsigned i = 0; n > 0 && i < nfds; i++)
			if (fds[i] >= 0)
				close(fds[i]);
		if (r < 0) {
			disconnected();
			return;
		}
		/* What a message has begun is done before the next one is read. */
		control_work();
	}
}

/* ---------------------------------------------------------------- torch */

void link_torch_coming(void)
{
	atomic_store(&torch_looks, TORCH_LOOKS);
}

/* Torch is watched for its steps from when it is there. Returns when to look again. */
static uint64_t torch_work(uint64_t now)
{
	if (torch_watched || !torch_looks)
		return UINT64_MAX;
	if (now < torch_at)
		return torch_at;
	atomic_fetch_sub(&torch_looks, 1);
	torch_at = now + TORCH_EVERY;
	if (torch_find() == 1) {
		int r = torch_watch();
		torch_watched = 1;
		if (r < 0)
			life_debug("torch is there but cannot be watched", "");
		if (welcome)
			hello();
		return UINT64_MAX;
	}
	return torch_at;
}

/* ---------------------------------------------------------------- the loop */

static int timeout_of(uint64_t due)
{
	if (due == UINT64_MAX)
		return -1;
	uint64_t now = sink_now();
	if (due <= now)
		return 0;
	uint64_t ms = (due - now + MILLISECOND - 1) / MILLISECOND;
	return ms > 3600000 ? 3600000 : (int)ms;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void link_main(int wake_fd)
{
	connect_now();
	for (;;) {
		uint64_t now = sink_now();
		/* A process that torch has not begun to enter is not looked at again and again. */
		uint64_t due = life_entries() & ENTRY_TORCH ? torch_work(now) : UINT64_MAX;
		due = earlier(due, control_work());
		if (now >= retry_at)
			connect_now();
		due = earlier(due, retry_at);
		struct pollfd fds[3] = {{wake_fd, POLLIN, 0},
					{atomic_load(&daemon_fd), POLLIN, 0},
					{atomic_load(&folder_fd), POLLIN, 0}};
		int n = poll(fds, 3, timeout_of(due));
		if (n <= 0)
			continue;
		if (fds[0].revents) {
			uint64_t count;
			if (read(wake_fd, &count, sizeof count) < 0 && errno != EAGAIN)
				life_debug("eventfd", "");
			/* Work first: a recording may wait for its collectors. */
			control_work();
			if (welcome && atomic_load(&control_phase) == CONTROL_IDLE)
				hello();
		}
		if (fds[1].revents)
			receive();
		if (fds[2].revents) {
			unsigned char events[4096];
			while (read(fds[2].fd, events, sizeof events) > 0)
				;
			/* A folder may have come, and has to be watched itself. */
			folders_unwatch();
			retry = 0;
			connect_now();
		}
	}
}
