/* fuzz_client_reply.c - a hostile daemon: whatever it answers, each verb ends, and prints no more than it may keep.
 *
 * The first byte is the command line, the rest what the daemon sends: packets with a NUL between. One that begins with \x01
 * carries a descriptor, which is that of an empty file. The socket, waiting and the clock are played here.
 * wrap: socket_candidate socket_trusted socket_connect socket_send socket_receive poll ppoll nanosleep clock_gettime exit */
#include "client/verbs/arguments.h"
#include "proto/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);
int __wrap_socket_candidate(unsigned index, char ret[SOCKET_PATH_BYTES]);
int __wrap_socket_trusted(const char *path);
int __wrap_socket_connect(const char *path);
int __wrap_socket_send(int fd, const void *packet, size_t n, const int *fds, unsigned nfds);
ssize_t __wrap_socket_receive(int fd, void *packet, size_t size, int *fds, unsigned *nfds, int flags);
int __wrap_poll(struct pollfd *polled, nfds_t n, int timeout);
int __wrap_ppoll(struct pollfd *polled, nfds_t n, const struct timespec *timeout, const sigset_t *mask);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
_Noreturn void __wrap_exit(int code);

#define WORDS_MAX 8
static const char *const lines[][WORDS_MAX] = {
	{"ps", NULL},
	{"ps", "--format", "json", NULL},
	{"captures", NULL},
	{"captures", "--format", "csv", NULL},
	{"captures", "--deleted", NULL},
	{"status", NULL},
	{"status", "--format", "json", NULL},
	{"doctor", NULL},
	{"doctor", "--pid", "1", NULL},
	{"audit", NULL},
	{"audit", "--format", "json", NULL},
	{"cancel", "--all", NULL},
	{"cancel", "u1", NULL},
	{"set", "u1", "+stacks", NULL},
	{"metrics", NULL},
	{"show", NULL},
	{"export", "--output", "/dev/null", NULL},
	{"trigger", "--pid", "1", NULL},
	{"trigger", "--all", "--format", "json", NULL},
	{"trigger", "--all", "--no-wait", NULL},
	{"trigger", "--all", "--look", "1s", NULL},
	{"trigger", "--name", "*", "--output", "/dev/null/", NULL},
	{"history", NULL},
	{"history", "--any-label", "--format", "json", NULL},
	{"snapshot", "--all", "--keep", "1", NULL},
	{"snapshot", "--all", "--if-slower-than", "1.1", NULL},
	{"rm", "u1", NULL},
	{"pin", "u1", NULL},
};

static struct {
	const char *at;
	size_t left;
} answer;
static int64_t slept;
static unsigned looks;
static sigjmp_buf out;

static size_t packet_length(void)
{
	return strnlen(answer.at, answer.left);
}

int __wrap_socket_candidate(unsigned index, char ret[SOCKET_PATH_BYTES])
{
	memcpy(ret, "/dev/null", sizeof "/dev/null");
	return index ? -ENOENT : 0;
}

int __wrap_socket_trusted(const char *path)
{
	(void)path;
	return 0;
}

int __wrap_socket_connect(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int __wrap_socket_send(int fd, const void *packet, size_t n, const int *fds, unsigned nfds)
{
	(void)fd, (void)packet, (void)n, (void)fds, (void)nfds;
	return answer.left ? 0 : -EPIPE;
}

ssize_t __wrap_socket_receive(int fd, void *packet, size_t size, int *fds, unsigned *nfds, int flags)
{
	size_t n = packet_length(), skip = n && answer.at[0] == 1;
	(void)fd, (void)flags;
	if (nfds && *nfds && skip) {
		*fds = memfd_create("fuzz", MFD_CLOEXEC);
		*nfds = *fds >= 0;
	} else if (nfds) {
		*nfds = 0;
	}
	if (n - skip > size)
		return -EMSGSIZE;
	memcpy(packet, answer.at + skip, n - skip);
	answer.at += n;
	answer.left -= n;
	if (answer.left) {
		answer.at++;
		answer.left--;
	}
	return (ssize_t)(n - skip);
}

/* What the daemon has said is there; after that nothing comes, and time goes by. */
int __wrap_poll(struct pollfd *polled, nfds_t n, int timeout)
{
	/* Whoever asks for ever is told that the connection is closed. */
	bool ready = answer.left || timeout < 0 || ++looks > 1000;
	struct pollfd *one = NULL;
	for (nfds_t i = 0; i < n; i++) {
		polled[i].revents = 0;
		if (!one && polled[i].fd >= 0)
			one = &polled[i];
	}
	if (!ready || !one) {
		slept += (int64_t)(timeout < 0 ? 1000 : timeout) * 1000000;
		return 0;
	}
	one->revents = POLLIN;
	return 1;
}

int __wrap_ppoll(struct pollfd *polled, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	(void)mask;
	return __wrap_poll(polled, n, timeout ? (int)(timeout->tv_sec * 1000 + timeout->tv_nsec / 1000000 + 1) : -1);
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
	(void)left;
	slept += (int64_t)pause->tv_sec * 1000000000 + pause->tv_nsec;
	return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = __real_clock_gettime(clock, now);
	now->tv_sec += slept / 1000000000;
	now->tv_nsec += slept % 1000000000;
	now->tv_sec += now->tv_nsec / 1000000000;
	now->tv_nsec %= 1000000000;
	return result;
}

static bool running;
_Noreturn void __real_exit(int code);

/* What a verb does that can only give up. */
_Noreturn void __wrap_exit(int code)
{
	if (!running)
		__real_exit(code);
	siglongjmp(out, 1);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	/* libFuzzer has kept the real one. */
	stderr = stdout = fopen("/dev/null", "w");
	return !stdout || setenv("XDG_RUNTIME_DIR", "/nowhere", 1) ? 1 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *words[WORDS_MAX] = {NULL}, *text;
	struct arguments arguments;
	int count = 0;
	if (!n || !(text = malloc(n)))
		return 0;
	memcpy(text, data + 1, n - 1);
	answer.at = text;
	answer.left = n - 1;
	slept = looks = 0;
	const char *const *line = lines[data[0] % (sizeof lines / sizeof *lines)];
	for (; line[count + 1]; count++)
		words[count] = (char *)(uintptr_t)line[count + 1];
	const struct verb *verb = verb_find(line[0]);
	if (!verb || arguments_init(&arguments, verb, count, words) != ARGUMENTS_OK)
		abort();
	running = true;
	if (sigsetjmp(out, 0) == 0)
		verb->run(&arguments);
	running = false;
	fflush(stdout);
	arguments_deinit(&arguments);
	free(text);
	return 0;
}
