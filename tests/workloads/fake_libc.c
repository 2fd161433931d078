/* fake_libc.c - a process whose C library is its own: it has the functions that an attachment calls in a process, and they do something else,
 * to have the client (perhaps root's) write elsewhere, wait for ever or believe what is not so. Its file has to be called libc.so.6-fake.
 * It prints "ready" and waits for the end of its input; 1 where its wait ends before.
 *
 *   fake_libc shared FILE  the pages that the client writes into are those of a file that is not the process's to write
 *   fake_libc swap FILE    the descriptor of the new memory file leads to another file, in the moment after
 *   fake_libc slow         what is called sleeps again and again      naps   shortly      spin   it computes for ever
 *   fake_libc mmap         this function computes for ever; so for mprotect, syscall
 *   fake_libc early        it says that the call has come back, which goes on for ever
 *   fake_libc exec         another thread puts another program in the process's place meanwhile
 *   fake_libc exit         the process ends       stop   it stops       signals   it is sent signals all the time
 *   fake_libc says         it says that all has been done, and that the agent runs */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static const char *how;
static int file = -1;
static atomic_int called;

static long raw(long number, long a, long b, long c, long d, long e, long f)
{
	long result;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static int is(const char *word)
{
	return strcmp(how, word) == 0;
}

static void stay_in(const char *function)
{
	while (is(function))
		;
}

EXPORT void *fake_mmap(long at, long bytes, long protection, long flags, long fd, long offset) __asm__("mmap");
EXPORT long fake_mprotect(long at, long bytes, long protection) __asm__("mprotect");
EXPORT long fake_syscall(long number, long a, long b) __asm__("syscall");
EXPORT int fake_pthread_create(void *thread, void *attributes, void *start, void *page) __asm__("pthread_create");
EXPORT int fake_pthread_detach(void *thread) __asm__("pthread_detach");
EXPORT void *fake_dlopen(const char *path, int flags) __asm__("dlopen");
EXPORT void *fake_dlsym(void *handle, const char *name) __asm__("dlsym");
EXPORT int fake_close(int fd) __asm__("close");

void *fake_mmap(long at, long bytes, long protection, long flags, long fd, long offset)
{
	stay_in("mmap");
	if (is("shared"))
		return (void *)raw(SYS_mmap, 0, bytes, 1 /* PROT_READ */, 1 /* MAP_SHARED */, file, 0);
	return (void *)raw(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

long fake_mprotect(long at, long bytes, long protection)
{
	stay_in("mprotect");
	return raw(SYS_mprotect, at, bytes, protection, 0, 0, 0);
}

long fake_syscall(long number, long a, long b)
{
	stay_in("syscall");
	return raw(number, a, b, 0, 0, 0, 0);
}

int fake_pthread_create(void *thread, void *attributes, void *start, void *page)
{
	struct timespec nap = {0, is("naps") ? 1000000 : 300000000};

	(void)thread, (void)attributes, (void)start;
	called = 1;
	if (is("exit"))
		raw(SYS_exit_group, 0, 0, 0, 0, 0, 0);
	if (is("stop"))
		raw(SYS_kill, raw(SYS_getpid, 0, 0, 0, 0, 0, 0), SIGSTOP, 0, 0, 0, 0);
	if (is("early"))
		*((volatile uint32_t *)page + 504 / 4) = 1;
	while (is("spin") || is("exec") || is("early"))
		;
	while (is("slow") || is("naps"))
		raw(SYS_nanosleep, (long)&nap, 0, 0, 0, 0, 0);
	if (is("says"))
		memcpy(page, (uint32_t[]){1, 0, 1, 0, 0x41414141, 1, 1, 0}, 32);
	return 0;
}

int fake_pthread_detach(void *thread)
{
	return thread != NULL;
}

void *fake_dlopen(const char *path, int flags)
{
	(void)path, (void)flags;
	return NULL;
}

void *fake_dlsym(void *handle, const char *name)
{
	(void)handle, (void)name;
	return NULL;
}

int fake_close(int fd)
{
	return (int)raw(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* Beside the thread that stands. */
static int other_thread(void *unused)
{
	long pid = raw(SYS_getpid, 0, 0, 0, 0, 0, 0);

	(void)unused;
	for (;;) {
		if (is("swap"))
			for (int fd = file + 1; fd < file + 4; fd++)
				raw(SYS_dup3, file, fd, 0, 0, 0, 0);
		if (is("exec") && called)
			raw(SYS_execve, (long)"/bin/sleep", (long)(char *[]){"sleep", "20", NULL},
			    (long)(char *[]){NULL}, 0, 0, 0);
		if (is("signals"))
			raw(SYS_tgkill, pid, pid, SIGURG, 0, 0, 0);
	}
	return 0;
}

static char stack[65536] __attribute__((aligned(16)));

int main(int argc, char **argv)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};

	how = argc > 1 ? argv[1] : "honest";
	if (argc > 2)
		file = open(argv[2], O_RDONLY | O_CLOEXEC);
	/* A thread of the kernel's alone: the C library here has none. */
	if (is("swap") || is("exec") || is("signals"))
		clone(other_thread, stack + sizeof stack - 128, 0x50f00 /* VM FS FILES SIGHAND THREAD SYSVSEM */, NULL);
	puts("ready");
	fflush(stdout);
	return raw(SYS_poll, (long)&input, 1, -1, 0, 0, 0) != 1;
}
