/* link.c - the agent's thread: the connection to one daemon, and the loop that everything else is driven from. It sleeps
 * without a timeout unless something is due. The connection itself is the keeper's (keeper.h): what touches it is a function
 * that runs there. */
#include "link.h"
#include "collectors.h"
#include "control.h"
#include "due.h"
#include "facts.h"
#include "core/filter.h"
#include "core/keeper.h"
#include "core/life.h"
#include "core/room.h"
#include "enter.h"
#include "agent/sink/sink.h"
#include "agent/sink/control.h"
#include "steps/counter.h"
#include "tick.h"
#include "torch/torch.h"

#include "../proto/errors.h"
#include "../proto/limits.h"
#include "../proto/socket.h"
#include "../proto/status.h"
#include "../proto/system.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <sys/socket.h>

#define MILLISECOND 1000000ull

static int daemon_fd = -1; /* the keeper's; touched only there */
static bool connected;
static struct message_hello told; /* last HELLO */
static bool welcome, refused;
static bool welcomed; /* by any daemon, ever */

/* The pause between two looks for a daemon is a quarter of the time without one, and a minute at most: so a daemon that
 * returns is found soon. A new step source or library is a reason to look, too. inotify could tell of a new socket, but
 * a user has only 128 instances of it, and the folder can be busy. */
#define LOOK_FIRST (20 * MILLISECOND)
#define LOOK_LAST (60000 * MILLISECOND)
static uint64_t alone_since;
static uint64_t retry_at = UINT64_MAX;

/* Once the import of torch has begun, the agent looks every 50 ms whether torch is ready, for a minute after its last
 * part was seen. */
#define TORCH_EVERY (50 * MILLISECOND)
#define TORCH_LOOKS 1200
static _Atomic unsigned torch_looks = TORCH_LOOKS;
static uint64_t torch_at;
static int torch_watched;

/* ---------------------------------------------------------------- the keeper's: the connection */

struct packet {
	const void *message;
	size_t bytes;
	int fd;
	bool with_namespace; /* sends a proof of our pid namespace, too */
};

static long send_packet(void *pointer)
{
	const struct packet *p = pointer;
	if (!keeper_has(daemon_fd))
		return -ENOTCONN;
	int fd = p->with_namespace ? system_pid_namespace() : p->fd;
	/* If the job has closed the segment's descriptor, the message goes without it: so the daemon knows that it gets
	 * no segment, and does not wait. */
	if (p->fd >= 0 && !keeper_has(fd))
		fd = -1;
	/* The daemon reads as fast as it can; a full queue means that it hangs, and a training job must not wait for it. */
	int r = socket_send(daemon_fd, p->message, p->bytes, &fd, fd >= 0);
	/* Too many descriptors are under way: sends it without. */
	if (r == -ETOOMANYREFS && p->with_namespace)
		r = socket_send(daemon_fd, p->message, p->bytes, NULL, 0);
	if (p->with_namespace && fd >= 0)
		system_close(fd);
	return r;
}

static long peek(void *pointer)
{
	struct message_finish *m = pointer;
	return keeper_has(daemon_fd) ? recv(daemon_fd, m, sizeof *m, MSG_PEEK | MSG_DONTWAIT) : -1;
}

static long disconnect(void *unused)
{
	(void)unused;
	keeper_watch(-1);
	keeper_close(daemon_fd);
	daemon_fd = -1;
	return 0;
}

/* Returns the socket that answered, NULL for none. */
static long connect_any(void *pointer)
{
	const char **answered = pointer, *path;
	*answered = NULL;
	for (unsigned i = 0; (path = facts_socket(i)); i++) {
		int r = socket_trusted(path);
		if (r == -EPERM)
			life_debug("not obeyed, others could write there", path);
		if (r < 0)
			continue;
		int fd = socket_connect(path);
		fd = fd < 0 ? fd : keeper_take(fd);
		if (fd < 0)
			continue;
		daemon_fd = fd;
		keeper_watch(fd);
		*answered = path;
		return 0;
	}
	return -ENOENT;
}

/* A packet, and what was made of its first descriptor. All other descriptors are closed. */
struct received {
	union message_any m;
	const char *why; /* why the packet was not understood */
	struct segment segment;
	int segment_error; /* a negative errno; -EBADF: the packet had no descriptor */
	struct status_page *status;
};

static void take_descriptor(struct received *r, int *fd)
{
	if (r->m.head.type == MESSAGE_WELCOME && status_map(*fd, &r->status) < 0)
		r->status = NULL;
	if (r->m.head.type != MESSAGE_ARM)
		return;
	bool first = r->m.arm.cycle == 0, followed = first && r->m.arm.repeat != 1;
	if (first)
		room_begin();
	/* If other cycles follow, this segment leaves as much room for the next one. */
	r->segment_error = segment_map(&r->segment, *fd, room_segments() / (followed ? 2 : 1));
	if (r->segment_error < 0)
		return;
	if (followed)
		room_spare(r->segment.map_bytes);
	room_count((int64_t)r->segment.map_bytes, 0);
	r->segment.fd = keeper_take(*fd);
	*fd = -1;
	if (r->segment.fd < 0) {
		r->segment_error = r->segment.fd;
		room_count(-(int64_t)r->segment.map_bytes, 0);
		segment_unmap(&r->segment);
	}
}

/* Returns 1 for a message, 0 for one that was not understood, or a negative errno: -EAGAIN where there is none. */
static long receive_packet(void *pointer)
{
	static unsigned char packet[4096];
	struct received *r = pointer;
	int fds[LIMIT_PACKET_FDS];
	unsigned nfds = LIMIT_PACKET_FDS;
	if (!keeper_has(daemon_fd))
		return -ENOTCONN;
	ssize_t n = socket_receive(daemon_fd, packet, sizeof packet, fds, &nfds, MSG_DONTWAIT);
	if (n == -EAGAIN || n == -EINTR) {
		keeper_watch(daemon_fd);
		return -EAGAIN;
	}
	if (n <= 0 && n != -EMSGSIZE)
		return -ECONNRESET;
	r->why = "it is longer than any message";
	r->status = NULL;
	r->segment = (struct segment){.fd = -1};
	r->segment_error = -EBADF;
	int known = n > 0 && message_check(packet, (size_t)n, 0, &r->m, &r->why) == 0;
	if (known && nfds)
		take_descriptor(r, &fds[0]);
	for (unsigned i = 0; i < nfds; i++)
		if (fds[i] >= 0)
			system_close(fds[i]);
	return known;
}

/* ---------------------------------------------------------------- the connection */

int link_send(const void *message, int fd)
{
	const struct message_head *head = message;
	return (int)keeper_run(send_packet, &(struct packet){message, head->size, fd, false});
}

int link_wait_for_room(uint64_t capture, uint64_t deadline)
{
	struct message_finish m;
	struct timespec nap = {0, 1000000};
	if (sink_now() >= deadline ||
	    (keeper_run(peek, &m) == (long)sizeof m && m.head.type == MESSAGE_FINISH && m.capture == capture))
		return 0;
	nanosleep(&nap, NULL);
	return 1;
}

static void hello(void)
{
	struct message_hello now;
	facts_hello(&now);
	if (!welcomed)
		now.entry |= ENTRY_NEW;
	if (welcome && !memcmp(&now, &told, sizeof now))
		return;
	told = now;
	keeper_run(send_packet, &(struct packet){&now, now.head.size, -1, !welcome});
}

static void connect_now(void)
{
	const char *path;
	keeper_run(connect_any, &path);
	if (!path)
		return;
	life_debug("connected", path);
	connected = true;
	retry_at = UINT64_MAX;
	welcome = false;
	hello();
}

static void retry_later(void)
{
	uint64_t now = sink_now(), pause = (now - alone_since) / 4;
	retry_at = now + (pause < LOOK_FIRST ? LOOK_FIRST : pause > LOOK_LAST ? LOOK_LAST : pause);
}

static void disconnected(void)
{
	keeper_run(disconnect, NULL);
	connected = welcome = false;
	life_debug("disconnected", "");
	control_daemon_lost();
	/* A daemon that has refused us would refuse us again, so the next look comes after LOOK_LAST. */
	alone_since = sink_now() - (refused ? 4 * LOOK_LAST : 0);
	refused = false;
	retry_later();
}

/* ---------------------------------------------------------------- messages */

/* Returns 0, or -ECONNRESET where the connection is to end. */
static int handle(const struct received *r)
{
	const union message_any *m = &r->m;
	switch (m->head.type) {
	case MESSAGE_WELCOME:
		if (r->status)
			steps_publish(r->status);
		welcome = welcomed = true;
		control_daemon_found();
		/* Tells what has been loaded since the first HELLO, torch for example: nothing else may be a reason to
		 * tell it. */
		told.entry &= ~(uint32_t)ENTRY_NEW;
		hello();
		return 0;
	case MESSAGE_REFUSE:
		life_debug("refused", m->refuse.sentence);
		/* The agent tries again later: a quota may have room then, or another release of the daemon may run. */
		refused = true;
		return -ECONNRESET;
	case MESSAGE_ARM:
		control_arm(&m->arm, &r->segment, r->segment_error);
		return 0;
	case MESSAGE_AT_STEP:
		control_at_step(&m->at_step);
		return 0;
	case MESSAGE_CANCEL:
		control_cancel(m->cancel.capture, m->cancel.reason);
		return 0;
	case MESSAGE_PROBE:
		collectors_probe();
		return 0;
	case MESSAGE_FINISH:
		control_finish(m->finish.capture);
		return 0;
	case MESSAGE_DETACH:
		control_leave();
		return 0;
	default:
		/* A message of a newer daemon. */
		return 0;
	}
}

static void receive(void)
{
	while (connected) {
		static struct received r;
		long n = keeper_run(receive_packet, &r);
		if (n == -EAGAIN)
			return;
		if (n == 0)
			life_debug("not understood", r.why);
		if (n < 0 || (n > 0 && handle(&r) < 0)) {
			disconnected();
			return;
		}
		/* The work that a message makes due is done before the next message is read. */
		due_work();
	}
}

/* ---------------------------------------------------------------- torch */

void link_torch_coming(void)
{
	atomic_store(&torch_looks, TORCH_LOOKS);
}

/* Looks for torch, and begins to count its steps as soon as it is loaded. Returns when to look again. */
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

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The job has installed a seccomp filter. A system call that it forbids could end the job. So this thread only waits
 * for a futex, which every program does. */
void link_stop(void)
{
	control_abandon();
	life_stop();
}

static uint64_t time_until(uint64_t due)
{
	uint64_t now = sink_now();
	return due == UINT64_MAX ? UINT64_MAX : due > now ? due - now : 0;
}

/* Everything is again as before the first start, because another start may follow. */
static void forget(void)
{
	keeper_run(disconnect, NULL);
	connected = welcome = welcomed = refused = false;
	retry_at = UINT64_MAX;
	atomic_store(&torch_looks, TORCH_LOOKS);
	torch_at = 0;
	torch_watched = 0;
}

void link_main(void)
{
	alone_since = sink_now();
	connect_now();
	if (!connected)
		retry_later();
	for (;;) {
		uint64_t now = sink_now();
		/* As long as no import of torch has begun, the agent does not look for torch. */
		uint64_t due = enter_ways() & ENTRY_TORCH ? torch_work(now) : UINT64_MAX;
		due = earlier(due, due_work());
		if (control_may_go(&due)) {
			torch_unwatch();
			control_forget();
			forget();
			return;
		}
		if (now >= retry_at) {
			connect_now();
			if (!connected)
				retry_later();
		}
		due = earlier(due, retry_at);
		uint32_t why = life_wait(time_until(due));
		if (filter_is_new_by(sink_now()))
			link_stop();
		if (why & WAKE_CALL) {
			/* Work first: a recording may wait for its collectors. */
			due_work();
			bool idle = atomic_load(&control_phase) == CONTROL_IDLE;
			if (idle && !connected)
				connect_now();
			else if (idle && welcome)
				hello();
		}
		if (why & WAKE_SOCKET)
			receive();
	}
}
