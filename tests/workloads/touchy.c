/* touchy.c - a process that notices whether it has been stopped: by EINTR, where signal(7) says so, or by worse. It prints "ready", goes on
 * until its input ends, and prints what it has seen; 1 where that is anything.
 *
 *   touchy box        a thread with a filter of system calls of its own, which kills for memfd_create; the main thread polls
 *   touchy epoll      its thread waits in epoll_wait         sigwait, semop, recv, read, all, lowat   in such a call: a socket with a timeout,
 *                     one whose call waits for all bytes
 *   touchy plain      in recv of a socket without a timeout: this one goes on by itself
 *   touchy poll       in poll, for 600 s at most; so for cond, select, constant (ppoll, whose timeout cannot be written)
 *   touchy nap        15 s in nanosleep
 *   touchy nomem      its limit of memory leaves room for a few pages, and for no thread
 *   touchy full       eight threads compute, the main thread polls, and starts threads at the end
 *   touchy deep       its main thread is at the deepest place of its stack; tight: that can grow by one page more */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define LONG_S 600

static const char *how;
static int seen;

static int is(const char *word)
{
	return strcmp(how, word) == 0;
}

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void saw(const char *what, long result)
{
	printf("%s: %ld, %s\n", what, result, strerror(errno));
	seen = 1;
}

static void *box(void *unused)
{
	struct sock_filter rows[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof rows / sizeof *rows, rows};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		abort();
	ready();
	poll(NULL, 0, -1);
	return unused;
}

static int pair[2], queue;

/* A child's: wakes the call up once the input has ended. The process itself has one thread. */
static void wake(void)
{
	struct sembuf up = {0, 1, 0};
	char byte;

	while (read(0, &byte, 1) > 0)
		;
	if (is("semop"))
		semop(queue, &up, 1);
	else if (is("sigwait"))
		kill(getppid(), SIGUSR1);
	else if (write(pair[1], "12345678", 8) != 8)
		abort();
	_exit(0);
}

static long call(int events, const sigset_t *set)
{
	struct epoll_event event;
	struct sembuf down = {0, -1, 0};
	char bytes[8];

	if (is("epoll"))
		return epoll_wait(events, &event, 1, -1);
	if (is("sigwait"))
		return sigwaitinfo(set, NULL);
	if (is("semop"))
		return semop(queue, &down, 1);
	if (is("read"))
		return read(pair[0], bytes, 8);
	return recv(pair[0], bytes, 8, is("all") ? MSG_WAITALL : 0);
}

static void await(void)
{
	const struct timeval long_time = {LONG_S, 0};
	const int eight = 8;
	struct epoll_event event = {.events = EPOLLIN};
	int events = epoll_create1(0);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	queue = semget(IPC_PRIVATE, 1, 0600);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
	    epoll_ctl(events, EPOLL_CTL_ADD, is("epoll") ? 0 : pair[0], &event))
		abort();
	if (is("recv") || is("read"))
		setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &long_time, sizeof long_time);
	if (is("lowat"))
		setsockopt(pair[0], SOL_SOCKET, SO_RCVLOWAT, &eight, sizeof eight);
	if (!is("epoll") && fork() == 0)
		wake();
	ready();
	long result = call(events, &set);
	if (result != (is("epoll") ? 1 : is("sigwait") ? SIGUSR1 : is("semop") ? 0 : 8))
		saw(how, result);
	semctl(queue, 0, IPC_RMID);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
static volatile int is_over;

static void *end_wait(void *unused)
{
	char byte;

	while (read(0, &byte, 1) > 0)
		;
	pthread_mutex_lock(&lock);
	is_over = 1;
	pthread_cond_signal(&over);
	pthread_mutex_unlock(&lock);
	return unused;
}

static int wait_for_condition(void)
{
	struct timespec end;
	pthread_t thread;
	int error = 0;

	pthread_create(&thread, NULL, end_wait, NULL);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += LONG_S;
	pthread_mutex_lock(&lock);
	while (!is_over && !error)
		error = pthread_cond_timedwait(&over, &lock, &end);
	pthread_mutex_unlock(&lock);
	return error;
}

static int wait_with_an_end(void)
{
	static const struct timespec constant = {LONG_S, 0};
	struct timespec nap = {15, 0};
	struct timeval span = {LONG_S, 0};
	struct pollfd input = {.fd = 0, .events = POLLIN};
	fd_set set;

	if (is("poll"))
		return poll(&input, 1, LONG_S * 1000) != 1;
	if (is("nap"))
		return nanosleep(&nap, NULL);
	if (is("cond"))
		return wait_for_condition();
	/* Without the C library, which copies it. */
	if (is("constant"))
		return syscall(SYS_ppoll, &input, 1, &constant, NULL, 8) != 1;
	FD_ZERO(&set);
	FD_SET(0, &set);
	return select(1, &set, NULL, NULL, &span) != 1;
}

static void *spin(void *unused)
{
	for (volatile unsigned long i = 0; !is_over; i++)
		;
	return unused;
}

/* What is torn out of pthread_create may hold what the next one waits for. */
static void start_threads(void)
{
	pthread_t thread;

	for (int i = 0; i < 20; i++)
		if (pthread_create(&thread, NULL, spin, NULL) || pthread_join(thread, NULL))
			abort();
}

/* The stack pointer is where the kernel has not let the stack grow below yet. */
static __attribute__((noinline)) int deep(size_t bytes)
{
	volatile char *room = __builtin_alloca(bytes);
	struct pollfd input = {.fd = 0, .events = POLLIN};

	room[0] = 1;
	ready();
	return poll(&input, 1, -1) != 1 || room[0] != 1;
}

static void limit_memory(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages;

	if (!file || fscanf(file, "%ld", &pages) != 1)
		abort();
	fclose(file);
	const struct rlimit few = {(rlim_t)(pages + 256) * 4096, (rlim_t)(pages + 256) * 4096};
	setrlimit(RLIMIT_AS, &few);
}

/* How many descriptors there are. */
static int opened(void)
{
	int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

int main(int argc, char **argv)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};

	pthread_t thread;

	how = argc > 1 ? argv[1] : "box";
	if (is("box")) {
		pthread_create(&thread, NULL, box, NULL);
		if (poll(&input, 1, -1) != 1)
			saw("poll", -1);
	} else if (is("nomem")) {
		limit_memory();
		ready();
		seen = poll(&input, 1, -1) != 1 || opened() != 3;
	} else if (is("full")) {
		for (int i = 0; i < 8; i++)
			pthread_create(&thread, NULL, spin, NULL);
		ready();
		if (poll(&input, 1, -1) != 1)
			saw("poll", -1);
		is_over = 1;
		start_threads();
	} else if (is("deep") || is("tight")) {
		const struct rlimit few = {(1 << 20) + 24576, RLIM_INFINITY};

		if (is("tight") && setrlimit(RLIMIT_STACK, &few))
			abort();
		seen = deep(1 << 20);
	} else if (is("poll") || is("nap") || is("cond") || is("constant") || is("select")) {
		ready();
		if (wait_with_an_end())
			saw(how, -1);
	} else {
		await();
	}
	puts(seen ? "touched" : "the end");
	return seen;
}
