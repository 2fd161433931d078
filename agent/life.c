/* life.c - see life.h. Fork, exit, the agent's thread. */
#include "life.h"
#include "control.h"
#include "facts.h"
#include "nvtx/nvtx.h"
#include "sink_control.h"
#include "torch/torch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

/* What an exiting job waits for us, at most, with a recording under way. */
#define EXIT_WAIT_NS 200000000ull
/* The agent's thread calls into torch to add a callback; the rest needs a few KiB. Address space, not memory. */
#define STACK_BYTES (512u << 10)

struct life *life_words;
static _Atomic uint32_t entries;
static _Atomic int wake_fd = -1;
static char debug_path[256];

void life_debug(const char *what, const char *detail)
{
	char line[512] = "profd[";
	if (!debug_path[0])
		return;
	int saved = errno;
	size_t n = strlen(line);
	n += facts_decimal(line + n, (uint64_t)getpid());
	const char *parts[] = {"]: ", what, detail && *detail ? ": " : "", detail ? detail : ""};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		for (const char *p = parts[i]; *p && n < sizeof line - 1; p++)
			line[n++] = *p;
	line[n++] = '\n';
	int fd = open(debug_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
	if (fd >= 0) {
		ssize_t written = write(fd, line, n);
		(void)written;
		close(fd);
	}
	errno = saved;
}

unsigned life_entries(void)
{
	return atomic_load_explicit(&entries, memory_order_relaxed);
}

void life_wake(void)
{
	int saved = errno, fd = atomic_load_explicit(&wake_fd, memory_order_relaxed);
	uint64_t one = 1;
	if (fd >= 0) {
		ssize_t n = write(fd, &one, sizeof one);
		(void)n; /* EAGAIN: the counter is full, so it is awake */
	}
	errno = saved;
}

static void *thread_main(void *unused)
{
	(void)unused;
	/* So that `top -H` and the job's owner see whose it is. */
	prctl(PR_SET_NAME, "profd");
	link_main(atomic_load(&wake_fd));
	return NULL;
}

static void in_child(void)
{
	/* The life page is empty already, but for emulators that take MADV_WIPEONFORK and do nothing (qemu-user). What is left
	 * are descriptors: a daemon must see the parent's end when the parent ends. */
	memset(life_words, 0, sizeof *life_words);
	int saved = errno, fd = atomic_exchange(&wake_fd, -1);
	if (fd >= 0)
		close(fd);
	link_close_in_child();
	errno = saved;
}

/* By dlsym, because glibc's pthread_atfork refers to a symbol that musl does not have. */
static void watch_forks(void)
{
	int (*glibc)(void (*)(void), void (*)(void), void (*)(void), void *) = NULL;
	int (*posix)(void (*)(void), void (*)(void), void (*)(void)) = NULL;
	*(void **)&glibc = dlsym(RTLD_DEFAULT, "__register_atfork");
	if (glibc) {
		glibc(NULL, NULL, in_child, NULL);
		return;
	}
	*(void **)&posix = dlsym(RTLD_DEFAULT, "pthread_atfork");
	if (posix)
		posix(NULL, NULL, in_child);
}

void life_enter(unsigned entry)
{
	/* A fork child is not entered: its page is empty, `loaded` included. */
	if (!life_words || !atomic_load_explicit(&life_words->loaded, memory_order_relaxed))
		return;
	uint32_t had = atomic_fetch_or(&entries, entry);
	uint32_t dead = 0;
	if (!atomic_compare_exchange_strong(&life_words->alive, &dead, 1)) {
		/* The thread may have to look for what has come since. */
		if (!(had & entry))
			life_wake();
		return;
	}
	int saved = errno;
	facts_read_environment();
	int r = sink_init();
	if (r == 0) {
		int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		r = fd < 0 ? -errno : 0;
		atomic_store(&wake_fd, fd);
	}
	if (r == 0) {
		watch_forks();
		sigset_t all, before;
		pthread_t thread;
		pthread_attr_t attributes;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		pthread_attr_init(&attributes);
		pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
		pthread_attr_setstacksize(&attributes, STACK_BYTES);
		r = -pthread_create(&thread, &attributes, thread_main, NULL);
		pthread_attr_destroy(&attributes);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	if (r < 0) {
		/* A kernel before 4.14 has no private membarrier, a process at its limits no thread for us: stay out. */
		atomic_store(&life_words->alive, 0);
		atomic_store(&life_words->loaded, 0);
		life_debug("the agent cannot run in this process", strerror(-r));
	}
	errno = saved;
}

void life_library_seen(const char *name)
{
	if (!name || !life_words || !atomic_load_explicit(&life_words->loaded, memory_order_relaxed))
		return;
	/* Not any path with "torch" in it: people call their environments so. */
	if (strstr(name, "/libtorch") || strstr(name, "/torch/_C")) {
		link_torch_coming();
		life_enter(ENTRY_TORCH);
		life_wake();
	} else if (strstr(name, "libcuda.so")) {
		if (!(life_entries() & ENTRY_CUDA))
			life_enter(ENTRY_CUDA);
	}
}

/* Does NVTX's own variable lead to this library, or to somebody else's? Only `doctor` asks. */
static void look_at_nvtx(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	Dl_info own;
	const char *file = dladdr(&life_words, &own) && own.dli_fname ? strrchr(own.dli_fname, '/') : NULL;
	const char *other = path ? strrchr(path, '/') : NULL;
	nvtx_environment(path, file && other && !strcmp(file, other));
}

/* Under a glibc before 2.34 a program that was not linked with threads has none; see glibc_compat.h. */
static int threads_are_there(void)
{
	const uintptr_t needed[] = {
		(uintptr_t)&pthread_create,
		(uintptr_t)&pthread_join,
		(uintptr_t)&pthread_attr_setstacksize,
		(uintptr_t)&pthread_key_create,
		(uintptr_t)&pthread_setspecific,
		(uintptr_t)&pthread_sigmask,
		(uintptr_t)&dlsym,
		(uintptr_t)&dladdr,
	};
	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
		if (!needed[i])
			return 0;
	return 1;
}

static void __attribute__((constructor)) life_init(void)
{
	if (life_words || !threads_are_there())
		return;
	look_at_nvtx();
	const char *debug = getenv("PROFD_DEBUG");
	if (debug && strlen(debug) < sizeof debug_path)
		memcpy(debug_path, debug, strlen(debug) + 1);
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return;
	if (madvise(page, 4096, MADV_WIPEONFORK) < 0) {
		munmap(page, 4096);
		life_debug("the kernel is too old for the agent: no MADV_WIPEONFORK", "");
		return;
	}
	life_words = page;
	atomic_store(&life_words->loaded, 1);
	/* A program that is linked with torch or CUDA has them mapped before any constructor runs. */
	uint32_t libraries = facts_libraries();
	if (libraries & LIBRARY_TORCH)
		life_enter(ENTRY_TORCH | ENTRY_PRELOAD);
	else if (libraries & LIBRARY_CUDA)
		life_enter(ENTRY_CUDA | ENTRY_PRELOAD);
}

static void __attribute__((destructor)) life_exit(void)
{
	/* Comes twice where life_watch_exit was called; what the job waits is one and the same. */
	static uint64_t deadline;
	uint64_t now = sink_now();
	if (!deadline)
		deadline = now + EXIT_WAIT_NS;
	if (now < deadline)
		control_exit(deadline - now);
}

void life_watch_exit(void)
{
	static int watched;
	if (!watched)
		watched = atexit(life_exit) == 0;
}
