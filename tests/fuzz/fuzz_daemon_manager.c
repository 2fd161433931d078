/* fuzz_daemon_manager.c - what a service manager, or whoever else starts the daemon, puts into its environment: the descriptors that are
 * handed over, their names, and where to tell of them. The input has the variables' texts, and then the address of the socket (files.h).
 * wrap: getenv unsetenv fcntl close getsockopt getsockname socket sendto */
#include "daemon/core/manager.h"
#include "files.h"

#include <errno.h>
#include <fcntl.h>

#define MOST_HANDED 65536
#define NOTIFY_FD 70000 /* beyond all that can be handed over */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
char *__wrap_getenv(const char *name);
char *__real_getenv(const char *name);
int __wrap_unsetenv(const char *name);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_close(int fd);
int __real_close(int fd);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes);
int __wrap_socket(int domain, int type, int protocol);
ssize_t __wrap_sendto(int fd, const void *bytes, size_t n, int flags, const struct sockaddr *to, socklen_t to_bytes);

static const char *const names[] = {"LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_USEC"};
static char texts[sizeof names / sizeof *names][4096], own_pid[24];
static const uint8_t *address_bytes;
static size_t address_count;
static bool playing;

char *__wrap_getenv(const char *name)
{
	if (!playing)
		return __real_getenv(name);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i]) == 0)
			return texts[i];
	return strcmp(name, "LISTEN_PID") == 0 ? own_pid : NULL;
}

int __wrap_unsetenv(const char *name)
{
	(void)name;
	return 0;
}

int __wrap_fcntl(int fd, int command, ...)
{
	(void)command;
	if (playing && (fd < 3 || fd >= 3 + MOST_HANDED))
		abort();
	return 0;
}

int __wrap_close(int fd)
{
	return playing ? 0 : __real_close(fd);
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
	(void)fd, (void)level;
	int answer = option == SO_TYPE ? SOCK_SEQPACKET : 1;
	memcpy(value, &answer, sizeof answer);
	*bytes = sizeof answer;
	return 0;
}

/* As the kernel has it: no more than there is room for, and how long it is. */
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
	(void)fd;
	size_t path = address_count < sizeof((struct sockaddr_un *)0)->sun_path
			      ? address_count
			      : sizeof((struct sockaddr_un *)0)->sun_path;
	struct sockaddr_un whole = {.sun_family = AF_UNIX};
	memcpy(whole.sun_path, address_bytes, path);
	*bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path);
	memcpy(address, &whole, *bytes);
	return 0;
}

int __wrap_socket(int domain, int type, int protocol)
{
	(void)domain, (void)type, (void)protocol;
	return NOTIFY_FD;
}

ssize_t __wrap_sendto(int fd, const void *bytes, size_t n, int flags, const struct sockaddr *to, socklen_t to_bytes)
{
	(void)bytes, (void)flags, (void)to;
	if (fd != NOTIFY_FD || to_bytes > sizeof(struct sockaddr_un))
		abort();
	return (ssize_t)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct manager manager;
	char path[MANAGER_SENTENCE_BYTES] = "", sentence[MANAGER_SENTENCE_BYTES] = "";
	files_begin(data, n);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const uint8_t *bytes;
		size_t length = files_next(&bytes);
		length = length < sizeof texts[i] ? length : sizeof texts[i] - 1;
		memcpy(texts[i], bytes, length);
		texts[i][length] = 0;
	}
	address_count = files_next(&address_bytes);
	snprintf(own_pid, sizeof own_pid, "%d", (int)getpid());
	playing = true;
	int fd = manager_init(&manager, path, sentence);
	/* A socket has a path by which clients find it; without one there is a sentence, or nothing was handed over. */
	if (fd >= 0 ? *path != '/' || !manager.handed : fd != -ENOENT && !*sentence)
		abort();
	if (manager.kept_count > MOST_HANDED || manager.notify_length > sizeof manager.notify_address)
		abort();
	for (size_t i = 0; i < manager.kept_count && i < 64; i++)
		if (!manager.kept[i].capture || manager.kept[i].fd == fd)
			abort();
	uint64_t first = manager.kept_count ? manager.kept[0].capture : 1;
	int taken = manager_take(&manager, first);
	if ((taken >= 0) != (manager.kept_count > 0))
		abort();
	manager_release(&manager);
	manager_deinit(&manager);
	playing = false;
	return 0;
}
