/* enter.c - see enter.h. Fork, exit, the agent's thread. */
#include "enter.h"
#include "claim.h"
#include "control.h"
#include "facts.h"
#include "core/copies.h"
#include "core/filter.h"
#include "core/keeper.h"
#include "core/life.h"
#include "steps/counter.h"
#include "core/sentence.h"
#include "nvtx/nvtx.h"
#include "agent/sink/control.h"
#include "link.h"
#include "core/thread.h"

#include "../proto/system.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

/* How long an exiting job waits for the agent at most, if a recording is under way. */
#define EXIT_WAIT_NS 200000000ull
/* The agent's thread calls into torch to add a callback; everything else needs a few KiB. This is address space, not
 * memory. */
#define STACK_BYTES (512u << 10)
/* How often to try to start a thread at most, while the kernel refuses one. */
#define TRIES 64

static _Atomic uint32_t entries; /* bit set of enum agent_entry */

unsigned enter_ways(void)
{
	return atomic_load_explicit(&entries, memory_order_relaxed);
}

static pthread_t keeper;
/* The keeper runs. A process at its limits may be able to start the first of the agent's threads now, and the other
 * later. */
static int kept;

/* What the agent's thread does last. From here on all calls find no agent, until profd_attach() is called again. */
static void leave(void)
{
	atomic_store(&life_words->loaded, 0);
	nvtx_release();
	keeper_end(keeper);
	kept = 0;
	steps_forget();
	atomic_store(&entries, 0);
	atomic_store(&life_words->alive, 0);
}

static void *thread_main(void *unused)
{
	(void)unused;
	thread_settle();
	/* `top -H` shows the job's owner by this name whose thread it is. */
	prctl(PR_SET_NAME, "profd");
	keeper_serve(link_stop);
	if (enter_ways() & ENTRY_ATTACH) {
		copies_find();
		nvtx_attached();
	}
	link_main();
	leave();
	return NULL;
}

static void in_child(void)
{
	/* The kernel has wiped the life page already, but an emulator may accept MADV_WIPEONFORK and do nothing
	 * (qemu-user). Inherited descriptors are closed: otherwise the daemon does not see when the parent ends. */
	memset(life_words, 0, sizeof *life_words);
	int saved = errno;
	keeper_close_in_child();
	control_in_child();
	errno = saved;
}

void enter_watch_forks(void)
{
	if (life_words && atomic_load_explicit(&life_words->loaded, memory_order_relaxed))
		gate_watch(in_child);
}

/* Starts the agent's threads and what they need. 0 or a negative errno. */
static int start(void)
{
	static int ready;
	if (filter_is_new())
		return -EPERM;
	if (!claim_process(enter_attached)) {
		life_debug("another copy of the agent works in this process already; this one stays out", "");
		return -EEXIST;
	}
	facts_read_environment();
	if (!ready) {
		int r = sink_init();
		if (r < 0)
			return r;
		ready = 1;
	}
	int r = kept ? 0 : thread_start(&keeper, keeper_main, NULL, STACK_BYTES);
	kept |= r == 0;
	return r < 0 ? r : thread_start(NULL, thread_main, NULL, STACK_BYTES);
}

void enter_process(unsigned entry)
{
	/* A fork child is not entered: its page is empty, `loaded` included. */
	if (!life_words || !atomic_load_explicit(&life_words->loaded, memory_order_relaxed))
		return;
	uint32_t had = atomic_fetch_or(&entries, entry);
	uint32_t dead = 0;
	if (!atomic_compare_exchange_strong(&life_words->alive, &dead, 1)) {
		/* The agent's thread may have to look for new libraries. */
		if (!(had & entry))
			life_wake();
		return;
	}
	static unsigned tries;
	int saved = errno;
	enter_watch_forks();
	unsigned place = gate_enter(GATE_JOB_NS);
	int r = start();
	gate_leave(place);
	if (r < 0) {
		/* A kernel before 4.14 has no private membarrier: the agent stays out. After -EAGAIN it may try again:
		 * a process at its limits, or a thread that may start no other (SCHED_DEADLINE), can perhaps start one
		 * later. */
		char number[24];
		sentence_decimal(number, (uint64_t)-r);
		if (r != -EAGAIN || ++tries == TRIES)
			atomic_store(&life_words->loaded, 0);
		atomic_store(&life_words->alive, 0);
		life_debug("the agent cannot run in this process; errno", number);
	}
	errno = saved;
}

void enter_library_seen(const char *name)
{
	if (!name || !life_words || !atomic_load_explicit(&life_words->loaded, memory_order_relaxed))
		return;
	/* Looks for more than "torch" in the path: environments have this name, too. */
	if (strstr(name, "/libtorch") || strstr(name, "/torch/_C")) {
		link_torch_coming();
		enter_process(ENTRY_TORCH);
		life_wake();
	} else if (strstr(name, "libcuda.so")) {
		if (!(enter_ways() & ENTRY_CUDA))
			enter_process(ENTRY_CUDA);
	}
}

/* Does NVTX's variable name this library, or another tool's? Only for `doctor`. */
static void look_at_nvtx(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	Dl_info own;
	const char *file = dladdr(&life_words, &own) && own.dli_fname ? strrchr(own.dli_fname, '/') : NULL;
	const char *other = path ? strrchr(path, '/') : NULL;
	nvtx_environment(path, file && other && !strcmp(file, other));
}

/* Under a glibc before 2.34 a program that is not linked with libpthread cannot start threads; see glibc_compat.h. */
static int threads_are_there(void)
{
	const uintptr_t needed[] = {
		(uintptr_t)&pthread_create,  (uintptr_t)&pthread_join, (uintptr_t)&pthread_attr_setstacksize,
		(uintptr_t)&pthread_sigmask, (uintptr_t)&dlsym,	       (uintptr_t)&dladdr,
	};
	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
		if (!needed[i])
			return 0;
	return 1;
}

static void __attribute__((destructor)) exiting(void)
{
	static _Atomic uint32_t once;
	/* Called several times where life_watch_exit was called. A vfork child has its parent's memory; if it calls
	 * exit(), its parent's recording does not end. */
	if (!life_alive() || life_words->process != getpid() || atomic_exchange(&once, 1))
		return;
	uint64_t deadline = sink_now() + EXIT_WAIT_NS;
	control_exit(EXIT_WAIT_NS);
	/* The exit handlers that run next take down the libraries that the agent's threads call. */
	gate_shut(deadline);
}

/* Was the library loaded by `profd attach`? Then other threads run, and may change the environment just now. */
static int comes_late(void)
{
	static const char way[] = "/proc/self/fd/";
	Dl_info own;
	return dladdr(&life_words, &own) && own.dli_fname && strncmp(own.dli_fname, way, sizeof way - 1) == 0;
}

static void __attribute__((constructor)) begin(void)
{
	if (life_words || !threads_are_there())
		return;
	int late = comes_late();
	if (!late)
		look_at_nvtx();
	life_begin(exiting, late ? NULL : getenv("PROFD_DEBUG"));
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return;
	if (madvise(page, 4096, MADV_WIPEONFORK) < 0) {
		munmap(page, 4096);
		life_debug("the kernel is too old for the agent: no MADV_WIPEONFORK", "");
		return;
	}
	life_words = page;
	life_words->process = getpid();
	atomic_store(&life_words->loaded, 1);
	thread_remember();
	filter_remember();
	/* enter_attached() comes next. */
	if (late)
		return;
	/* A program that is linked with torch or CUDA has them mapped before any constructor runs. */
	uint32_t libraries = facts_libraries();
	if (libraries & LIBRARY_TORCH)
		enter_process(ENTRY_TORCH | ENTRY_PRELOAD);
	else if (libraries & LIBRARY_CUDA)
		enter_process(ENTRY_CUDA | ENTRY_PRELOAD);
}

int enter_attached(const char *socket)
{
	/* In a forked child the page holds zeros. */
	if (life_alive() || !life_words || life_words->process != getpid())
		return life_alive();
	atomic_store(&life_words->loaded, 1);
	steps_forget();
	facts_attached(socket);
	uint32_t libraries = facts_libraries();
	enter_process(ENTRY_ATTACH | (libraries & LIBRARY_TORCH ? ENTRY_TORCH : 0) |
		      (libraries & LIBRARY_CUDA ? ENTRY_CUDA : 0));
	return life_alive();
}
