/* descriptors.c - a stepping process that deals with descriptors as launchers, daemons and servers do, and looks after each step
 * whether its own files are as it left them.
 *
 *     descriptors --mode=M [--steps=N] [--step-ms=T] [--after=N] [--pause-ms=T] [--deny=range|table] [--second=LIBRARY]
 *                 [--how=dlopen|dlmopen]
 *
 * Steps N times, each with one range `step`. From step --after on it does M:
 *   close     closes all descriptors from 3 on, once, then opens files of its own
 *   loop      the same at every step
 *   unshare   a thread with a descriptor table of its own does both, and steps from then on
 *   exhaust   opens files, one every --pause-ms, until there are no more numbers, and counts them
 *   fork      forks a child, which reports what it has inherited
 *   clone     the same by raw clone
 *   nothing   nothing
 * --deny lets a seccomp filter refuse a descriptor table of its own to any thread: range, close_range() with CLOSE_RANGE_UNSHARE;
 * table, also unshare(). --second loads another copy of the agent, which steps as well. Prints one line of JSON: steps, what
 * was wrong with its files, how many descriptors it could open or had inherited. */
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define RANGE_UNSHARE 2
#define FILES 24

static int files[FILES];
static char pattern[FILES][512];
static long wrong, opened, rounds;
static double step_time, pause_time;
static char folder[] = "/tmp/profd-descriptors-XXXXXX";

static void open_files(void)
{
	for (int i = 0; i < FILES; i++) {
		char path[64];
		snprintf(path, sizeof path, "%s/%d", folder, i);
		files[i] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		memset(pattern[i], 'a' + i, sizeof pattern[i]);
		if (files[i] < 0 || write(files[i], pattern[i], sizeof pattern[i]) != (ssize_t)sizeof pattern[i])
			wrong++;
		lseek(files[i], 0, SEEK_SET);
	}
	rounds = 0;
}

/* Eight more bytes of each: a byte that somebody else has read or written, and a number that leads elsewhere, is seen. */
static void look_at_files(void)
{
	for (int i = 0; i < FILES; i++) {
		char found[8];
		struct stat is;
		if (read(files[i], found, sizeof found) != (ssize_t)sizeof found ||
		    memcmp(found, pattern[i], sizeof found) != 0 || fstat(files[i], &is) < 0 ||
		    is.st_size != (off_t)sizeof pattern[i])
			wrong++;
		if (++rounds % (FILES * 32) == 0)
			for (int j = 0; j < FILES; j++)
				lseek(files[j], 0, SEEK_SET);
	}
}

static void close_all(void)
{
	if (syscall(SYS_close_range, 3u, ~0u, 0u) < 0)
		for (int fd = 3; fd < 4096; fd++)
			close(fd);
}

static long count_open(void)
{
	long n = 0;
	for (int fd = 3; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void exhaust(void)
{
	struct rlimit limit = {64, 64};
	setrlimit(RLIMIT_NOFILE, &limit);
	close_all();
	open_files();
	int some[64];
	for (opened = 0; opened < 64 && (some[opened] = open("/dev/null", O_RDONLY)) >= 0; opened++)
		wait_until(seconds() + pause_time);
	wrong += opened < 64 && errno != EMFILE;
}

static long mapped_of_profd(void)
{
	char line[4352];
	long n = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof line, maps))
		n += strstr(line, "memfd:profd") != NULL;
	if (maps)
		fclose(maps);
	return n;
}

/* What the child finds of us goes into its exit status, so that a run with the agent must give the same. */
static void fork_child(int by_clone)
{
	int status = -1;
	pid_t pid = by_clone ? (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, 0UL) : fork();
	if (pid == 0) {
		long inherited = count_open() - FILES, mapped = mapped_of_profd();
		step();
		_exit((int)(inherited * 16 + mapped));
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	opened = status;
}

static int deny(const char *what)
{
	/* Returns EPERM, as a container's filter does. */
	uint32_t unshare = strcmp(what, "table") == 0 ? SYS_unshare : SYS_close_range;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RANGE_UNSHARE, 2, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, unshare, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void (*push)(const char *), (*pop)(void), (*second_step)(void);
static const char *mode;
static long after, steps;
static int done;

static void act(long n)
{
	int now = n == after;
	if (now && (strcmp(mode, "fork") == 0 || strcmp(mode, "clone") == 0)) {
		open_files();
		fork_child(mode[0] == 'c');
	}
	if (now && strcmp(mode, "exhaust") == 0)
		exhaust();
	if ((now && (strcmp(mode, "close") == 0 || strcmp(mode, "unshare") == 0)) ||
	    (n >= after && strcmp(mode, "loop") == 0)) {
		close_all();
		open_files();
	}
}

static void run(long from, long to)
{
	double next = seconds();
	for (long n = from; n < to || (to == steps && stays()); n++) {
		act(n);
		if (push)
			push("step");
		wait_until(next += step_time);
		if (pop)
			pop();
		step();
		if (second_step)
			second_step();
		if (n >= after && strcmp(mode, "nothing") != 0)
			look_at_files();
		done += n < steps;
	}
}

static void *thread_runs(void *unused)
{
	wrong += unshare(CLONE_FILES) < 0;
	run(after, steps);
	return unused;
}

int main(int argc, char **argv)
{
	(void)argc;
	const char *denied = argument(argv, "deny", ""), *second = argument(argv, "second", NULL);
	mode = argument(argv, "mode", "nothing");
	steps = (long)number(argv, "steps", 400);
	after = (long)number(argv, "after", 50);
	step_time = number(argv, "step-ms", 5) * 1e-3;
	pause_time = number(argv, "pause-ms", 0) * 1e-3;
	/* As a container does it: the filter is there before the program. */
	for (char **a = argv + 1; *denied && *a; a++) {
		if (strncmp(*a, "--deny=", 7) != 0)
			continue;
		static char already[] = "--denied";
		*a = already;
		if (deny(denied) != 0)
			return 1;
		execv("/proc/self/exe", argv);
		return 1;
	}
	if (!mkdtemp(folder))
		return 1;
	if (second) {
		void *library = strcmp(argument(argv, "how", "dlopen"), "dlmopen") == 0
					? dlmopen(LM_ID_NEWLM, second, RTLD_NOW)
					: dlopen(second, RTLD_NOW | RTLD_LOCAL);
		*(void **)&second_step = library ? dlsym(library, "profd_step") : NULL;
		if (!second_step) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
	}
	*(void **)&push = profd_function("profd_range_push");
	*(void **)&pop = profd_function("profd_range_pop");
	if (strcmp(mode, "unshare") == 0) {
		pthread_t thread;
		run(0, after);
		if (pthread_create(&thread, NULL, thread_runs, NULL) != 0)
			return 1;
		pthread_join(thread, NULL);
	} else {
		run(0, steps);
	}
	for (int i = 0; i < FILES; i++) {
		char path[64];
		snprintf(path, sizeof path, "%s/%d", folder, i);
		unlink(path);
	}
	rmdir(folder);
	printf("{\"mode\": \"%s\", \"steps\": %d, \"wrong\": %ld, \"opened\": %ld}\n", mode, done, wrong, opened);
	return wrong != 0;
}
