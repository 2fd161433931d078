/* keeper.c - see keeper.h. Raw system calls throughout: a library of the job that wraps close() keeps a list of the
 * job's numbers, and ours are of another table. */
#include "keeper.h"
#include "clock.h"
#include "filter.h"
#include "life.h"
#include "room.h"
#include "sentence.h"
#include "thread.h"

#include "../../proto/small_file.h"
#include "../../proto/system.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9 */
#endif
#define RANGE_UNSHARE 2u /* CLOSE_RANGE_UNSHARE */
#ifndef CLONE_FILES
#define CLONE_FILES 0x400
#endif

/* Wakes the keeper out of poll without a descriptor: a signal to this one thread, which blocks it and sees it by a
 * signalfd. The number is one that the C library keeps for itself: a program can neither handle, block, send nor wait
 * for it. So the job never gets our signal, and we never get one of the job's. No disposition is changed, and the
 * signal is never delivered. */
#define WAKE_SIGNAL 32

/* The connection, and segments: the recording's, the next cycle's, and those that wait for a daemon (orphan.c). */
#define KEPT 16
/* Our numbers in the job's table lie below this, so that the table does not grow because of them. */
#define HIGH 1024u

static struct kept {
	struct small_file file;
	bool used;
} kept[KEPT];
static bool shared; /* the keeper has no table of its own, but uses the job's */
static bool ending; /* the keeper's own */
static int watched = -1;
static int signals = -1;

static struct {
	_Atomic uint32_t asked;
	long (*work)(void *);
	void *argument;
	long result;
} call;
static _Atomic int keeper_tid;
static _Atomic bool stopped; /* for good, because of a filter (filter.h) */
static pthread_t agent_thread;
static void (*agent_stop)(void);
static _Atomic int served;

static uint64_t wake_set(void)
{
	return 1ull << (WAKE_SIGNAL - 1);
}

static void move_to(int *fd, int least)
{
	int moved = (int)syscall(SYS_fcntl, *fd, F_DUPFD_CLOEXEC, least);
	if (moved < 0)
		return;
	system_close(*fd);
	*fd = moved;
}

/* In the job's table: moves the descriptor away from the numbers that the job gets next. In a table of our own: away
 * from 0 to 2, where the C library writes its last message. */
static int move(int fd)
{
	struct rlimit limit;
	if (!shared) {
		if (fd < 3)
			move_to(&fd, 3);
	} else if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		rlim_t most = limit.rlim_cur < HIGH ? limit.rlim_cur : HIGH;
		if (most > (rlim_t)2 * KEPT)
			move_to(&fd, (int)most - 2 * KEPT);
	}
	return fd;
}

/* ---------------------------------------------------------------- what is ours */

static struct kept *find(int fd)
{
	for (size_t i = 0; i < KEPT; i++)
		if (kept[i].used && kept[i].file.fd == fd)
			return &kept[i];
	return NULL;
}

int keeper_take(int fd)
{
	struct small_file is;
	struct kept *k = NULL;
	fd = move(fd);
	for (size_t i = 0; i < KEPT && !k; i++)
		if (!kept[i].used)
			k = &kept[i];
	int error = k ? small_file_of(fd, &is) : -EMFILE;
	if (error) {
		system_close(fd);
		return error;
	}
	/* The job may have closed a descriptor of ours that had this number. */
	struct kept *stale = find(fd);
	*(stale ? stale : k) = (struct kept){is, true};
	return fd;
}

/* NULL where the descriptor is not ours, or the job has closed it. */
static struct kept *held(int fd)
{
	struct kept *k = fd < 0 ? NULL : find(fd);
	if (k && !small_file_is(&k->file)) {
		life_debug("a descriptor of the agent's was closed by the job", "");
		k->used = false;
		k = NULL;
	}
	return k;
}

int keeper_has(int fd)
{
	return held(fd) != NULL;
}

void keeper_close(int fd)
{
	struct kept *k = held(fd);
	if (!k)
		return;
	k->used = false;
	system_close(fd);
}

/* Closes our descriptors in the job's table. */
static void close_shared(void)
{
	char path[64] = "/proc/self/fd/", name[64];
	for (size_t i = 0; i < KEPT; i++)
		if (kept[i].used)
			keeper_close(kept[i].file.fd);
	/* All anonymous inodes have one inode number, so the signalfd is known by its name. */
	size_t n = strlen(path);
	sentence_decimal(path + n, (uint64_t)(signals < 0 ? 0 : signals));
	ssize_t bytes = signals < 0 ? -1 : readlink(path, name, sizeof name - 1);
	if (bytes > 0 && (name[bytes] = 0, strcmp(name, "anon_inode:[signalfd]") == 0))
		system_close(signals);
	signals = -1;
}

void keeper_close_in_child(void)
{
	if (shared)
		close_shared();
}

void keeper_watch(int fd)
{
	watched = fd;
}

/* ---------------------------------------------------------------- the table */

/* Closes the descriptors that the list names, except the list's own. Returns whether it closed any. */
static bool close_listed(int list)
{
	static char entries[4096] __attribute__((aligned(8)));
	bool any = false;
	syscall(SYS_lseek, list, 0, SEEK_SET);
	for (long n; (n = syscall(SYS_getdents64, list, entries, sizeof entries)) > 0;) {
		/* struct linux_dirent64: inode, offset, length of the record, type, name. */
		for (long at = 0; at < n;) {
			unsigned short length;
			int fd = 0;
			memcpy(&length, entries + at + 16, sizeof length);
			const char *name = entries + at + 19;
			for (; *name >= '0' && *name <= '9'; name++)
				fd = fd * 10 + (*name - '0');
			at += length;
			if (name[-1] < '0' || name[-1] > '9' || fd == list)
				continue;
			system_close(fd);
			any = true;
		}
	}
	return any;
}

/* For a kernel without close_range: makes a table of our own, and closes the job's descriptors in it, because the job's
 * files would stay open with us. */
static bool unshare_and_close(void)
{
	static const char path[] = "/proc/thread-self/fd";
	/* Without this list the descriptors could not be closed. */
	if (syscall(SYS_faccessat, AT_FDCWD, path, R_OK, 0) < 0 || syscall(SYS_unshare, CLONE_FILES) < 0)
		return false;
	/* Makes room for the list's descriptor: the copied table may be full. */
	system_close(0);
	int list = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	while (list >= 0 && close_listed(list))
		;
	system_close(list);
	return true;
}

static void table_of_its_own(void)
{
	shared = syscall(SYS_close_range, 0u, ~0u, RANGE_UNSHARE) < 0 && !unshare_and_close();
	if (shared)
		life_debug("the agent's descriptors are in the job's table", strerror(errno));
}

/* ---------------------------------------------------------------- the thread */

static long futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
}

static void answer(void)
{
	call.result = call.work(call.argument);
	atomic_store(&call.asked, 0);
	futex(&call.asked, FUTEX_WAKE, 1, NULL);
}

/* Returns whether a signal was pending. */
static bool take_signals(void)
{
	const struct timespec none = {0, 0};
	uint64_t set = wake_set();
	bool any = false;
	while (syscall(SYS_rt_sigtimedwait, &set, NULL, &none, sizeof set) == WAKE_SIGNAL)
		any = true;
	return any;
}

void *keeper_main(void *unused)
{
	uint64_t set = wake_set();
	thread_settle();
	prctl(PR_SET_NAME, "profd-keeper");
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, sizeof set);
	table_of_its_own();
	atomic_store(&keeper_tid, (int)syscall(SYS_gettid));
	for (;;) {
		if (atomic_load(&call.asked)) {
			answer();
			if (ending)
				return unused;
			continue;
		}
		if (signals < 0) {
			signals = (int)syscall(SYS_signalfd4, -1, &set, sizeof set, O_CLOEXEC | O_NONBLOCK);
			if (signals >= 0)
				signals = move(signals);
		}
		if (watched >= 0 && !keeper_has(watched)) {
			watched = -1;
			life_wake_for(WAKE_SOCKET);
		}
		struct pollfd fds[2] = {{signals, POLLIN, 0}, {watched, POLLIN, 0}};
		/* If the job has left us no descriptor for the signals, the keeper looks now and then. */
		int n = (int)syscall(SYS_ppoll, fds, 2, signals < 0 ? &(struct timespec){0, 50000000} : NULL, NULL, 0);
		if (filter_is_new_by(clock_now())) {
			atomic_store(&stopped, true);
			life_stop();
		}
		bool woken = take_signals();
		if (n <= 0)
			continue;
		/* The descriptor can be read, but no signal is pending: the number belongs to another file by now. */
		if (fds[0].revents && !woken)
			signals = -1;
		if (fds[1].revents) {
			watched = -1;
			life_wake_for(WAKE_SOCKET);
		}
	}
}

static long end_it(void *unused)
{
	(void)unused;
	/* If the keeper has a table of its own, the table ends with the thread. */
	if (shared)
		close_shared();
	ending = true;
	return 0;
}

void keeper_end(pthread_t thread)
{
	keeper_run(end_it, NULL);
	pthread_join(thread, NULL);
	/* Everything is again as before the first start, because another start may follow. */
	memset(kept, 0, sizeof kept);
	shared = ending = false;
	watched = signals = -1;
	atomic_store(&keeper_tid, 0);
	atomic_store(&served, 0);
}

void keeper_serve(void (*stop)(void))
{
	agent_thread = pthread_self();
	agent_stop = stop;
	atomic_store(&served, 1);
}

static bool from_agent_thread(void)
{
	/* In a fork child the agent is not alive, and a thread may have the pthread_t that the agent's thread has in
	 * the parent. */
	return life_alive() && atomic_load(&served) && pthread_equal(agent_thread, pthread_self());
}

long keeper_run(long (*work)(void *argument), void *argument)
{
	if (!from_agent_thread())
		return work(argument);
	call.work = work;
	call.argument = argument;
	atomic_store(&call.asked, 1);
	while (atomic_load(&call.asked)) {
		if (atomic_load(&stopped))
			agent_stop();
		/* A keeper whose tid is not known yet looks at call.asked before it sleeps. If the user's queue of
		 * signals is full, tgkill fails and is tried again after 1 ms. */
		int tid = atomic_load(&keeper_tid);
		bool told = !tid || syscall(SYS_tgkill, getpid(), tid, WAKE_SIGNAL) == 0;
		struct timespec time = {told, told ? 0 : 1000000};
		futex(&call.asked, FUTEX_WAIT, 1, &time);
	}
	return call.result;
}

/* ---------------------------------------------------------------- what several need */

struct file {
	const char *path;
	char *to;
	size_t bytes;
};

int keeper_open(const char *path)
{
	struct small_file file;
	return shared || small_file_open(&file, path, O_RDONLY) < 0 ? -EBADF : keeper_take(file.fd);
}

size_t keeper_read_again(int fd, char *to, size_t bytes)
{
	struct kept *k = held(fd);
	to[0] = 0;
	long n = k ? small_file_once(&k->file, to, bytes) : 0;
	return n < 0 ? 0 : (size_t)n;
}

static long read_file(void *pointer)
{
	const struct file *file = pointer;
	long n = small_file_read(file->path, file->to, file->bytes);
	return n < 0 ? 0 : n;
}

size_t keeper_read_file(const char *path, char *to, size_t bytes)
{
	struct file file = {path, to, bytes};
	return (size_t)keeper_run(read_file, &file);
}

static long close_segment(void *pointer)
{
	struct segment *segment = pointer;
	keeper_close(segment->fd);
	return 0;
}

void keeper_unmap(struct segment *segment)
{
	keeper_run(close_segment, segment);
	room_count(-(int64_t)segment->map_bytes, 0);
	segment_unmap(segment);
}

uint64_t keeper_cpu(void)
{
	struct timespec t = {0, 0};
	int tid = atomic_load(&keeper_tid);
	/* The number of a thread's CPU clock, as pthread_getcpuclockid computes it from the tid. */
	if (!tid || clock_gettime((clockid_t)(~(unsigned)tid << 3 | 6u), &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
