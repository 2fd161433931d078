/* loop_floor.c - the floor of bench_scale.py: `loop_floor N SOCKET`. N processes, each with one SEQPACKET connection to an
 * otherwise empty libuv loop in this process. Says so in a line of JSON: its memory, its processor time over SECONDS idle
 * seconds, and how long a packet of the size of ARM with a descriptor takes to all of them and their answers back. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#define PACKET_BYTES 512
#define ANSWER_BYTES 24
#define SECONDS 5

struct peer {
	uv_poll_t poll;
	int fd;
};

static uv_loop_t loop;
static uv_poll_t listener;
static uv_timer_t timer;
static struct peer *peers;
static int wanted, accepted, answered, listen_fd;
static double sent_at, first, last;

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* An agent's share: an answer to every packet. */
static void serve_as_agent(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char packet[PACKET_BYTES];
	char control[CMSG_SPACE(sizeof(int))];
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	strncpy(address.sun_path, path, sizeof address.sun_path - 1);
	while (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		usleep(1000);
	for (;;) {
		struct iovec part = {packet, sizeof packet};
		struct msghdr message = {
			.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};

		if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) <= 0)
			_exit(0);
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		if (header) {
			int held;
			memcpy(&held, CMSG_DATA(header), sizeof held);
			close(held);
		}
		send(fd, packet, ANSWER_BYTES, MSG_NOSIGNAL);
	}
}

static void readable(uv_poll_t *poll, int status, int events)
{
	struct peer *peer = poll->data;
	char packet[PACKET_BYTES];

	(void)status, (void)events;
	if (recv(peer->fd, packet, sizeof packet, MSG_DONTWAIT) != ANSWER_BYTES)
		return;
	last = now(CLOCK_MONOTONIC) - sent_at;
	if (answered++ == 0)
		first = last;
	if (answered == wanted)
		uv_stop(&loop);
}

static void incoming(uv_poll_t *poll, int status, int events)
{
	(void)poll, (void)status, (void)events;
	for (int fd; accepted < wanted && (fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
		struct peer *peer = &peers[accepted++];

		peer->fd = fd;
		uv_poll_init(&loop, &peer->poll, fd);
		peer->poll.data = peer;
		uv_poll_start(&peer->poll, UV_READABLE, readable);
	}
	if (accepted == wanted)
		uv_stop(&loop);
}

static void over(uv_timer_t *handle)
{
	(void)handle;
	uv_stop(&loop);
}

static void send_all(void)
{
	char packet[PACKET_BYTES] = {0};
	char control[CMSG_SPACE(sizeof(int))] = {0};

	sent_at = now(CLOCK_MONOTONIC);
	for (int i = 0; i < wanted; i++) {
		struct iovec part = {packet, sizeof packet};
		struct msghdr message = {
			.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		int fd = memfd_create("floor", MFD_CLOEXEC);

		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &fd, sizeof fd);
		sendmsg(peers[i].fd, &message, MSG_NOSIGNAL);
		close(fd);
	}
}

static long pss_kb(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[200];
	long kb = -1;

	while (file && fgets(line, sizeof line, file))
		sscanf(line, "Pss: %ld", &kb);
	if (file)
		fclose(file);
	return kb;
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct rlimit limit;
	double cpu;

	if (argc != 3)
		return 2;
	wanted = (int)strtol(argv[1], NULL, 10);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	peers = calloc((size_t)wanted, sizeof *peers);
	strncpy(address.sun_path, argv[2], sizeof address.sun_path - 1);
	listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (bind(listen_fd, (struct sockaddr *)&address, sizeof address) || listen(listen_fd, 1024))
		return 1;
	for (int i = 0; i < wanted; i++)
		if (fork() == 0)
			serve_as_agent(argv[2]);
	uv_loop_init(&loop);
	uv_poll_init(&loop, &listener, listen_fd);
	uv_poll_start(&listener, UV_READABLE, incoming);
	uv_run(&loop, UV_RUN_DEFAULT);

	uv_timer_init(&loop, &timer);
	uv_timer_start(&timer, over, SECONDS * 1000, 0);
	cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	uv_run(&loop, UV_RUN_DEFAULT);
	cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	send_all();
	uv_run(&loop, UV_RUN_DEFAULT);
	printf("{\"pss_kb\": %ld, \"cpu_percent\": %.5f, \"first_ms\": %.3f, \"last_ms\": %.3f}\n", pss_kb(),
	       100 * cpu / SECONDS, first * 1e3, last * 1e3);
	fflush(stdout);
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	return 0;
}
