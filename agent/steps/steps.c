/* steps.c - where a training iteration ends: the sources in their order of preference, the step thread, the ring of
 * step times.
 *
 * Only the step thread (the first thread to step) writes, with plain atomic stores, into a page. The page is private to
 * the process until a daemon sends one. All others only read. */
#include "steps.h"
#include "../../proto/events.h"
#include "../core/glob.h"
#include "../core/life.h"
#include "agent/sink/sink.h"
#include "batches.h"
#include "counter.h"
#include "usual.h"
#include "watched.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

/* After so many Optimizer.step calls in a row without a DataLoader's `__next__`, the loader is not asked once a step.
 * (A GAN has two optimizers, some models have a few more.) */
#define STEPS_OPTIMIZERS 4

/* A whole page, so that the daemon's page can be mapped over it and pointers stay valid. */
static union {
	struct status_page page;
	unsigned char bytes[STATUS_BYTES];
} own __attribute__((aligned(STATUS_BYTES)));
static struct status_page *const page = &own.page;

/* The true values. If the page is exchanged during a step, the new page is behind by one until the next step. */
static _Atomic uint32_t source;
static _Atomic uint64_t steps;
static _Atomic uint64_t last;
static _Atomic uint64_t others;
static _Atomic uintptr_t step_thread;  /* pthread_self() */
static _Atomic uint32_t others_since;  /* steps of other threads since the step thread's last */
static _Atomic(steps_tick *) follower; /* NULL: nobody */

struct turns steps_turns;
static struct nest_entry nobody;
struct nest_entry *_Atomic steps_usual = &nobody;

/* Called after a change: if the step thread sets steps_usual at the same time, it checks once more afterwards. */
static void forget_usual(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	atomic_store_explicit(&steps_usual, &nobody, memory_order_relaxed);
}

void steps_follow(steps_tick *tick)
{
	atomic_store_explicit(&follower, tick, memory_order_release);
}

static void take_over(uint32_t from, uintptr_t me)
{
	atomic_store_explicit(&step_thread, me, memory_order_relaxed);
	atomic_store_explicit(&last, 0, memory_order_relaxed);
	atomic_store_explicit(&source, from, memory_order_release);
	atomic_store_explicit(&page->source, from, memory_order_relaxed);
	forget_usual();
}

/* The step thread's step ends. */
static inline void count(uint32_t from, uint64_t now)
{
	uint64_t number = atomic_load_explicit(&steps, memory_order_relaxed) + 1;
	uint64_t before = atomic_load_explicit(&last, memory_order_relaxed);
	atomic_store_explicit(&page->ring[number % LIMIT_STATUS_RING], before && now > before ? now - before : 0,
			      memory_order_relaxed);
	atomic_store_explicit(&last, now, memory_order_relaxed);
	atomic_store_explicit(&page->last, now, memory_order_relaxed);
	atomic_store_explicit(&steps, number, memory_order_relaxed);
	atomic_store_explicit(&page->steps, number, memory_order_release);
	steps_tick *tick = atomic_load_explicit(&follower, memory_order_relaxed);
	if (__builtin_expect(tick != NULL, 0))
		tick(from, now, number);
}

static void boundary(uint32_t from, uint64_t now)
{
	if (!life_alive())
		return;
	uintptr_t me = (uintptr_t)pthread_self();
	uint32_t current = atomic_load_explicit(&source, memory_order_acquire);
	int is_new = from != current;
	if (is_new) {
		if (current != STEP_SOURCE_NONE && from > current) {
			watched_boundary(from, now, me, atomic_load_explicit(&follower, memory_order_relaxed));
			return;
		}
		uintptr_t no_thread = 0;
		if (current == STEP_SOURCE_NONE &&
		    !atomic_compare_exchange_strong_explicit(&step_thread, &no_thread, me, memory_order_acq_rel,
							     memory_order_relaxed) &&
		    no_thread != me) {
			atomic_fetch_add_explicit(&others, 1, memory_order_relaxed);
			return;
		}
		take_over(from, me);
	}
	if (__builtin_expect(atomic_load_explicit(&step_thread, memory_order_relaxed) != me, 0)) {
		uint64_t n = atomic_fetch_add_explicit(&others, 1, memory_order_relaxed) + 1;
		atomic_store_explicit(&page->other_thread_steps, n, memory_order_relaxed);
		if (atomic_fetch_add_explicit(&others_since, 1, memory_order_relaxed) + 1 < STEPS_TAKEOVER)
			return;
		take_over(from, me);
	}
	atomic_store_explicit(&others_since, 0, memory_order_relaxed);
	count(from, now);
	/* HELLO tells the new source. This comes after count(), so that a capture that is armed because of HELLO counts
	 * on from a step that has ended. */
	if (__builtin_expect(is_new, 0))
		life_wake();
}

/* Counts an iteration whose end was not seen. */
static void missed(void)
{
	uint64_t number = atomic_load_explicit(&steps, memory_order_relaxed) + 1;
	atomic_store_explicit(&page->ring[number % LIMIT_STATUS_RING], 0, memory_order_relaxed);
	atomic_store_explicit(&steps, number, memory_order_relaxed);
	atomic_store_explicit(&page->steps, number, memory_order_release);
}

static uint64_t owed; /* the step thread's: how many iterations were counted too many, and are to be taken back */

/* The count does not go back while a capture follows it. The ring is cleared, because its times no longer belong to
 * known steps. */
static void take_back(void)
{
	uint64_t number = atomic_load_explicit(&steps, memory_order_relaxed);
	if (owed >= number || atomic_load_explicit(&follower, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < LIMIT_STATUS_RING; i++)
		atomic_store_explicit(&page->ring[i], 0, memory_order_relaxed);
	atomic_store_explicit(&steps, number - owed, memory_order_relaxed);
	atomic_store_explicit(&page->steps, number - owed, memory_order_release);
	owed = 0;
}

/* The iteration that was counted last has ended only now. */
static void moved(uint64_t now)
{
	atomic_store_explicit(&last, now, memory_order_relaxed);
	atomic_store_explicit(&page->last, now, memory_order_relaxed);
}

void steps_program_step(void)
{
	boundary(STEP_SOURCE_PROFD_STEP, sink_now());
}

/* ---------------------------------------------------------------- torch: optimizers and loaders */

static _Atomic uint32_t loader_seen;   /* a DataLoader is asked once a step */
static _Atomic uint32_t loader_next;   /* `__next__` calls since the last step */
static _Atomic uint32_t optimizer_run; /* Optimizer.step calls since the last `__next__` */

static _Atomic uintptr_t turns_thread; /* the thread that steps_turns belongs to */

/* What the agent's thread reads of it. Two texts are written in turn; the one at told_last is complete. */
static struct {
	uint32_t optimizers, unclear;
	char text[128];
} told[2];
static _Atomic uint32_t told_last;

/* The optimizer that a capture names. Two texts are written in turn, always ended by a NUL. */
static char named[2][128];
static _Atomic(const char *) named_glob;

static void tell(void)
{
	uint32_t next = atomic_load_explicit(&told_last, memory_order_relaxed) ^ 1;
	int unclear;
	told[next].optimizers = turns_tell(&steps_turns, told[next].text, sizeof told[next].text, &unclear);
	told[next].unclear = (uint32_t)unclear;
	atomic_store_explicit(&told_last, next, memory_order_release);
	life_wake(); /* HELLO tells it */
}

uint32_t steps_optimizers(char *text, size_t bytes, uint32_t *ret_unclear)
{
	uint32_t slot = atomic_load_explicit(&told_last, memory_order_acquire);
	size_t n = strnlen(told[slot].text, sizeof told[slot].text - 1);
	n = n < bytes ? n : bytes - 1;
	memcpy(text, told[slot].text, n);
	text[n] = 0;
	*ret_unclear = told[slot].unclear;
	return told[slot].optimizers;
}

void steps_loader_next(void)
{
	atomic_store_explicit(&loader_seen, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&loader_next, 1, memory_order_relaxed);
	atomic_store_explicit(&optimizer_run, 0, memory_order_relaxed);
}

/* If another thread steps, this thread only fetches batches for it: its requests do not count. */
static int has_batches(uintptr_t me)
{
	uint32_t current = atomic_load_explicit(&source, memory_order_acquire);
	if (current == STEP_SOURCE_NONE)
		return 1;
	if (atomic_load_explicit(&step_thread, memory_order_relaxed) != me)
		return 0;
	/* Its steps have shown that the loop runs in this thread. */
	watched_take_thread(me);
	return 1;
}

int steps_wants_passes(void)
{
	return watched_is(STEP_SOURCE_EPOCH) && life_alive();
}

int steps_is_blind(void)
{
	return watched_is_blind();
}

void steps_batch_begin(uint64_t now, uint64_t sequence, int has_sequence, const struct steps_pass *pass)
{
	uintptr_t me = (uintptr_t)pthread_self();
	if (!nest_enter(NEST_LOADER) || !life_alive() || !has_batches(me))
		return;
	uint32_t current = atomic_load_explicit(&source, memory_order_acquire);
	/* Other steps, as a range that recurs, do not say that the batch has trained. */
	bool has_steps = current == STEP_SOURCE_PROFD_STEP || current == STEP_SOURCE_OPTIMIZER;
	struct batches_seen seen = {.sequence = sequence,
				    .steps = has_steps ? atomic_load_explicit(&steps, memory_order_relaxed) : 0};
	enum purpose purpose = has_sequence ? batches_next(now, &seen, me, watched_by_purpose(), page) : PURPOSE_NONE;
	steps_tick *tick = atomic_load_explicit(&follower, memory_order_relaxed);
	if (pass)
		watched_pass(now, sequence, pass, me, tick);
	else
		watched_batch(now, purpose, me, tick);
}

void steps_batch_end(void)
{
	nest_leave(NEST_LOADER);
}

/* Iterations are found only in the step thread; steps of other threads are only counted, as such. */
static int is_step_thread(void)
{
	uintptr_t me = (uintptr_t)pthread_self(), owner = atomic_load_explicit(&turns_thread, memory_order_relaxed);
	uint32_t current = atomic_load_explicit(&source, memory_order_acquire);
	if (current == STEP_SOURCE_OPTIMIZER ? atomic_load_explicit(&step_thread, memory_order_relaxed) != me
					     : owner && owner != me)
		return 0;
	if (owner != me) {
		forget_usual();
		turns_init(&steps_turns);
		atomic_store_explicit(&turns_thread, me, memory_order_relaxed);
	}
	return 1;
}

static int named_matches(const char *class, size_t bytes)
{
	const char *glob = atomic_load_explicit(&named_glob, memory_order_acquire);
	return glob && glob_match(glob, class, bytes);
}

int steps_optimizer_begin(const char *class, size_t bytes)
{
	if (__builtin_expect(named_matches(class, bytes), 0))
		nest_enter(NEST_NAMED);
	return nest_enter(NEST_OPTIMIZER);
}

/* Is a DataLoader asked once a step? *ret_loaded: it was asked since the last step. */
static inline int loader_asked(int *ret_loaded)
{
	*ret_loaded = 0;
	if (!atomic_load_explicit(&loader_seen, memory_order_relaxed))
		return 0;
	*ret_loaded = atomic_exchange_explicit(&loader_next, 0, memory_order_relaxed) != 0;
	if (atomic_fetch_add_explicit(&optimizer_run, 1, memory_order_relaxed) >= STEPS_OPTIMIZERS)
		atomic_store_explicit(&loader_seen, 0, memory_order_relaxed);
	return 1;
}

static int may_be_usual(uintptr_t me)
{
	return steps_turns.usual && !atomic_load_explicit(&named_glob, memory_order_relaxed) &&
	       atomic_load_explicit(&source, memory_order_relaxed) == STEP_SOURCE_OPTIMIZER &&
	       atomic_load_explicit(&step_thread, memory_order_relaxed) == me &&
	       atomic_load_explicit(&turns_thread, memory_order_relaxed) == me;
}

/* The step thread: decides whether its steps take the short way from here on (usual.h). */
static void set_usual(void)
{
	uintptr_t me = (uintptr_t)pthread_self();
	struct nest_entry *e = nest_own;
	if (!e || !may_be_usual(me)) {
		atomic_store_explicit(&steps_usual, &nobody, memory_order_relaxed);
	} else if (atomic_load_explicit(&steps_usual, memory_order_relaxed) != e) {
		atomic_store_explicit(&steps_usual, e, memory_order_relaxed);
		atomic_thread_fence(memory_order_seq_cst);
		if (!may_be_usual(me))
			atomic_store_explicit(&steps_usual, &nobody, memory_order_relaxed);
	}
}

static void optimizer_end(struct turn *turn)
{
	struct turns_answer answer;
	if (!is_step_thread()) {
		boundary(STEP_SOURCE_OPTIMIZER, turn->now);
		return;
	}
	turn->has_loader = loader_asked(&turn->loaded);
	turns_step(&steps_turns, turn, &answer);
	for (; answer.more; answer.more--)
		missed();
	if (answer.late)
		boundary(STEP_SOURCE_OPTIMIZER, answer.late);
	if (answer.ends)
		boundary(STEP_SOURCE_OPTIMIZER, turn->now);
	else if (answer.moves)
		moved(turn->now);
	owed += answer.less;
	if (owed)
		take_back();
	if (answer.news)
		tell();
	set_usual();
}

void steps_usual_count(uint64_t now)
{
	int loaded;
	loader_asked(&loaded);
	atomic_store_explicit(&others_since, 0, memory_order_relaxed);
	count(STEP_SOURCE_OPTIMIZER, now);
}

void steps_optimizer_end(uint64_t now, const char *class, size_t bytes, uint64_t which, uint64_t sequence,
			 int has_sequence)
{
	struct turn turn = {.who = which,
			    .class = class,
			    .class_bytes = bytes,
			    .sequence = sequence,
			    .has_sequence = has_sequence,
			    .now = now};
	if (__builtin_expect(named_matches(class, bytes), 0) && nest_leave(NEST_NAMED))
		boundary(STEP_SOURCE_NAMED, now);
	if (nest_leave(NEST_OPTIMIZER))
		optimizer_end(&turn);
}

void steps_zero_grad(uint64_t sequence, int has_sequence)
{
	if (atomic_load_explicit(&turns_thread, memory_order_relaxed) != (uintptr_t)pthread_self()) {
		/* Before the first step the step thread is not known: it is most likely the first thread that calls
		 * zero_grad. */
		uintptr_t no_thread = 0;
		if (atomic_load_explicit(&source, memory_order_relaxed) != STEP_SOURCE_NONE ||
		    !atomic_compare_exchange_strong_explicit(&turns_thread, &no_thread, (uintptr_t)pthread_self(),
							     memory_order_relaxed, memory_order_relaxed))
			return;
		forget_usual();
		turns_init(&steps_turns);
	}
	if (!nest_inside(NEST_OPTIMIZER) && turns_zero(&steps_turns, sequence, has_sequence))
		boundary(STEP_SOURCE_OPTIMIZER, sink_now());
}

/* ---------------------------------------------------------------- what recurs */

void steps_range_end(uint64_t now)
{
	boundary(STEP_SOURCE_RANGE, now);
}

void steps_operator_end(uint64_t now)
{
	boundary(STEP_SOURCE_OPERATOR, now);
}

/* ---------------------------------------------------------------- for the agent */

uint32_t steps_source(void)
{
	return atomic_load_explicit(&source, memory_order_acquire);
}

uint64_t steps_count(void)
{
	return atomic_load_explicit(&steps, memory_order_acquire);
}

uint64_t steps_other_threads(void)
{
	return atomic_load_explicit(&others, memory_order_relaxed);
}

static void name_optimizer(const char *glob)
{
	static unsigned slot;
	atomic_store_explicit(&named_glob, NULL, memory_order_release);
	if (!glob || !*glob)
		return;
	slot ^= 1;
	size_t n = strnlen(glob, sizeof named[slot] - 1);
	memcpy(named[slot], glob, n);
	named[slot][n] = 0;
	nest_forget(NEST_NAMED);
	atomic_store_explicit(&named_glob, named[slot], memory_order_release);
	forget_usual();
}

void steps_watch(uint32_t from, const char *optimizer, uint32_t wanted)
{
	name_optimizer(from == STEP_SOURCE_NAMED ? optimizer : NULL);
	nest_forget(NEST_LOADER);
	watched_begin(from, wanted);
	/* A process without steps of its own counts these as its steps; when they are no longer watched it has none
	 * again. */
	if (from == STEP_SOURCE_NONE && steps_source() > STEP_SOURCE_OPTIMIZER) {
		atomic_store_explicit(&step_thread, 0, memory_order_relaxed);
		atomic_store_explicit(&page->source, STEP_SOURCE_NONE, memory_order_relaxed);
		atomic_store_explicit(&source, STEP_SOURCE_NONE, memory_order_release);
	}
}

uint64_t steps_median(uint64_t upto, uint32_t most, uint32_t *ret_count)
{
	uint64_t sorted[LIMIT_STATUS_RING / 2], now = steps_count();
	uint32_t n = 0;
	if (most > sizeof sorted / sizeof *sorted)
		most = sizeof sorted / sizeof *sorted;
	/* Uses what the ring still holds, without the oldest entries, which the step thread may overwrite meanwhile. */
	for (uint64_t number = upto; number > 0 && n < most && now - number < LIMIT_STATUS_RING - 8; number--) {
		uint64_t value = atomic_load_explicit(&page->ring[number % LIMIT_STATUS_RING], memory_order_relaxed);
		if (!value)
			break;
		uint32_t at = n++;
		for (; at > 0 && sorted[at - 1] > value; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = value;
	}
	if (ret_count)
		*ret_count = n;
	return n ? sorted[n / 2] : 0;
}

void steps_publish(struct status_page *fresh)
{
	for (uint32_t i = 0; i < LIMIT_STATUS_RING; i++)
		atomic_store_explicit(&fresh->ring[i], atomic_load(&page->ring[i]), memory_order_relaxed);
	atomic_store(&fresh->source, steps_source());
	atomic_store(&fresh->last, atomic_load(&last));
	atomic_store(&fresh->other_thread_steps, steps_other_threads());
	atomic_store(&fresh->steps, steps_count());
	batches_publish(fresh);
	/* If it fails, the private page stays in place, and the daemon sees a process that does not step. */
	if (mremap(fresh, STATUS_BYTES, STATUS_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, &own) == MAP_FAILED)
		status_unmap(fresh);
	else
		madvise(&own, STATUS_BYTES, MADV_DONTFORK);
}

void steps_in_child(void)
{
	/* The daemon's page belongs to the parent, so a child does not inherit it. Then there is a hole in our data,
	 * which a new page fills. */
	if (madvise(&own, STATUS_BYTES, MADV_DOFORK) < 0)
		/* NOLINTNEXTLINE(bugprone-unused-return-value): a child can do no more */
		mmap(&own, STATUS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

void steps_forget(void)
{
	/* Replaces the daemon's page by a private one, in which a step that is being counted at this moment can be
	 * written. */
	/* NOLINTNEXTLINE(bugprone-unused-return-value): where it fails the page stays, and nobody reads it any more */
	mmap(&own, STATUS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	steps_follow(NULL);
	steps_watch(STEP_SOURCE_NONE, NULL, 0);
	forget_usual();
	atomic_store(&source, STEP_SOURCE_NONE);
	atomic_store(&steps, 0);
	atomic_store(&last, 0);
	atomic_store(&others, 0);
	atomic_store(&others_since, 0);
	atomic_store(&step_thread, 0);
	atomic_store(&turns_thread, 0);
	atomic_store(&loader_seen, 0);
	atomic_store(&loader_next, 0);
	atomic_store(&optimizer_run, 0);
	batches_forget();
	memset(told, 0, sizeof told);
}
