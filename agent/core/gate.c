/* gate.c - see gate.h. It has no lock, and its only memory is a table in the life page: a place for each thread that is
 * inside, or that forks. A thread takes a place first and then looks at the others. So where two threads come at once,
 * at least one sees the other.
 *
 * Forks may come from signal handlers, from inside the gate, from callbacks of the loader, and from several threads at
 * a time. In a callback of the loader the agent's thread may wait for the loader's lock; then the fork goes on after
 * SHORT_WAIT_NS. */
#include "gate.h"
#include "clock.h"
#include "life.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How long a fork waits for the threads inside. Their calls take microseconds, but on a busy machine a thread may wait
 * for a processor meanwhile. A child that is made too early may hang for ever. */
#define SHORT_WAIT_NS 500000000ull
/* How long it waits for calls that may take long. */
#define LONG_WAIT_NS 50000000ull

/* The bits of a place. A thread's number has 22 bits. */
#define FORKS 0x80000000u
#define OVERDUE 0x40000000u /* a fork has waited long enough for it; later forks do not wait for it */
#define LONG 0x20000000u    /* gate_enter_for_long() */
#define THREAD 0x1fffffffu

static struct gate *gate(void)
{
	return life_words ? &life_words->gate : NULL;
}

static void nap(void)
{
	struct timespec time = {0, 20000};
	nanosleep(&time, NULL);
}

/* A place for the thread, numbered from 1; 0 where all are taken. */
static unsigned take(struct gate *g, uint32_t word)
{
	for (unsigned i = 0; i < GATE_PLACES; i++) {
		uint32_t none = 0;
		if (!atomic_load_explicit(&g->places[i], memory_order_relaxed) &&
		    atomic_compare_exchange_strong(&g->places[i], &none, word))
			return i + 1;
	}
	return 0;
}

static int is_there(struct gate *g, uint32_t thread)
{
	for (unsigned i = 0; i < GATE_PLACES; i++)
		if ((atomic_load(&g->places[i]) & THREAD) == thread)
			return 1;
	return 0;
}

/* Is another thread forking? */
static int others_fork(struct gate *g, uint32_t thread)
{
	for (unsigned i = 0; i < GATE_PLACES; i++) {
		uint32_t word = atomic_load(&g->places[i]);
		if (word & FORKS && (word & THREAD) != thread)
			return 1;
	}
	return 0;
}

/* Is another thread inside that forks still wait for, and that has none of these marks? */
static int others_inside(struct gate *g, uint32_t thread, uint32_t marks)
{
	for (unsigned i = 0; i < GATE_PLACES; i++) {
		uint32_t word = atomic_load(&g->places[i]);
		if (word && !(word & (FORKS | OVERDUE | marks)) && (word & THREAD) != thread)
			return 1;
	}
	return 0;
}

static void overrun(struct gate *g, const char *what)
{
	atomic_fetch_add_explicit(&g->overruns, 1, memory_order_relaxed);
	life_debug(what, "");
}

static void wait_for_others(struct gate *g, uint32_t thread, uint32_t marks, uint64_t deadline)
{
	while (others_inside(g, thread, marks) && clock_now() < deadline)
		nap();
}

/* ---------------------------------------------------------------- forks */

static void before_fork(void)
{
	struct gate *g = gate();
	if (!g)
		return;
	int saved = errno;
	uint32_t self = (uint32_t)syscall(SYS_gettid);
	unsigned place = take(g, self | FORKS);
	uint64_t from = clock_now();
	wait_for_others(g, self, 0, from + LONG_WAIT_NS);
	wait_for_others(g, self, LONG, from + SHORT_WAIT_NS);
	int late = !place;
	for (unsigned i = 0; i < GATE_PLACES; i++) {
		uint32_t word = atomic_load(&g->places[i]);
		if (!word || word & FORKS || (word & THREAD) == self)
			continue;
		/* A thread that an earlier fork gave up is still inside, so this fork is late, too. */
		late |= word & OVERDUE || atomic_compare_exchange_strong(&g->places[i], &word, word | OVERDUE);
	}
	if (late)
		overrun(g, "a fork of the job did not wait longer for the agent");
	errno = saved;
}

static void after_fork(void)
{
	struct gate *g = gate();
	if (!g)
		return;
	uint32_t mine = (uint32_t)syscall(SYS_gettid) | FORKS;
	/* Each fork has one place, also where a signal handler of the job forks during a fork. */
	for (unsigned i = GATE_PLACES; i-- > 0;) {
		uint32_t word = mine;
		if (atomic_compare_exchange_strong(&g->places[i], &word, 0))
			return;
	}
}

/* glibc's pthread_atfork calls this function. The agent calls it directly, because pthread_atfork needs a symbol that
 * musl does not have. */
/* NOLINTNEXTLINE(bugprone-reserved-identifier, cert-dcl37-c, cert-dcl51-cpp): the C library gave it its name */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object)
	__attribute__((weak));

void gate_watch(void (*in_child)(void))
{
	static _Atomic uint32_t watched;
	if (atomic_exchange(&watched, 1))
		return;
	int (*posix)(void (*)(void), void (*)(void), void (*)(void)) = NULL;
	if (__register_atfork) {
		__register_atfork(before_fork, after_fork, in_child, NULL);
		return;
	}
	*(void **)&posix = dlsym(RTLD_DEFAULT, "pthread_atfork");
	if (posix)
		posix(before_fork, after_fork, in_child);
}

/* ---------------------------------------------------------------- inside */

/* The process is about to end: the thread sleeps until then. */
static void never_return(void)
{
	for (;;) {
		struct timespec time = {3600, 0};
		nanosleep(&time, NULL);
	}
}

static unsigned enter(uint32_t mark, uint64_t patience)
{
	struct gate *g = gate();
	uint32_t self = (uint32_t)syscall(SYS_gettid);
	if (!g || is_there(g, self))
		return 0;
	int saved = errno;
	uint64_t deadline = 0;
	for (;;) {
		unsigned place = take(g, self | mark);
		if (patience == GATE_OWN_NS && atomic_load(&g->shut)) {
			gate_leave(place);
			never_return();
		}
		if (place && !others_fork(g, self)) {
			errno = saved;
			return place;
		}
		uint64_t now = clock_now();
		if (!deadline)
			deadline = now + patience;
		if (now >= deadline) {
			overrun(g, "the agent did not wait longer for a fork of the job");
			errno = saved;
			return place;
		}
		gate_leave(place);
		nap();
	}
}

unsigned gate_enter(uint64_t patience)
{
	return enter(0, patience);
}

unsigned gate_enter_for_long(uint64_t patience)
{
	return enter(LONG, patience);
}

void gate_leave(unsigned place)
{
	struct gate *g = gate();
	if (g && place)
		atomic_store(&g->places[place - 1], 0);
}

int gate_iterate(int (*look)(struct dl_phdr_info *, size_t, void *), void *context, uint64_t patience)
{
	unsigned place = gate_enter(patience);
	int r = dl_iterate_phdr(look, context);
	gate_leave(place);
	return r;
}

void gate_shut(uint64_t deadline)
{
	struct gate *g = gate();
	if (!g)
		return;
	atomic_store(&g->shut, 1);
	/* A seccomp filter may allow few system calls, so none is made here without need. */
	if (others_inside(g, 0, 0))
		wait_for_others(g, (uint32_t)syscall(SYS_gettid), 0, deadline);
}

uint32_t gate_overruns(void)
{
	struct gate *g = gate();
	return g ? atomic_load_explicit(&g->overruns, memory_order_relaxed) : 0;
}
