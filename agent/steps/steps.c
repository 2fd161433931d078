/* steps.c - where one training iteration ends: sources in their order of trust, the step thread, the ring of step times.
 *
 * Written by the step thread alone (the first thread to step), with plain atomic stores into a page that lies in this
 * process until a daemon brings its own. Everybody else only reads. */
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

/* Optimizer.step calls in a row without a DataLoader `__next__` between them, after which the loader evidently is not asked
 * once a step (a GAN has two optimizers, some have a few more). */
#define STEPS_OPTIMIZERS 4

/* A page of its own, so that the daemon's can be mapped over it without anybody's pointer changing. */
static union {
	struct status_page page;
	unsigned char bytes[STATUS_BYTES];
} own __attribute__((aligned(STATUS_BYTES)));
static struct status_page *const page = &own.page;

/* The true values. The page can be exchanged during a step; until the next step it is behind by one then. */
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

/* After what has changed: whoever sets it meanwhile looks at that once more. */
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
	/* HELLO tells the new source. Whoever is armed by that counts on from a step that has ended. */
	if (__builtin_expect(is_new, 0))
		life_wake();
}

/* Counts an iteration whose end nobody has seen. */
static void missed(void)
{
	uint64_t number = atomic_load_explicit(&steps, memory_order_relaxed) + 1;
	atomic_store_explicit(&page->ring[number % LIMIT_STATUS_RING], 0, memory_order_relaxed);
	atomic_store_explicit(&steps, number, memory_order_relaxed);
	atomic_store_explicit(&page->steps, number, memory_order_release);
}

static uint64_t owed; /* the step thread's: iterations too many that are to be taken back */

/* While a capture follows the count it does not go back. Whose step times these were is not known any more. */
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

/* The last iteration has ended only now. */
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

static _Atomic uint32_t loader_seen;   /* a DataLoader is asked about once a step */
static _Atomic uint32_t loader_next;   /* `__next__` calls since the last step */
static _Atomic uint32_t optimizer_run; /* Optimizer.step calls since the last `__next__` */

static _Atomic uintptr_t turns_thread; /* whose steps_turns is */

/* What the agent's thread reads of it: two texts in turn, the last one complete. */
static struct {
	uint32_t optimizers, unclear;
	char text[128];
} told[2];
static _Atomic uint32_t told_last;

/* The optimizer that a capture names; two in turn, always ended by a NUL. */
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

/* A thread that only fetches batches for the one that steps has none of its own. */
static int has_batches(uintptr_t me)
{
	uint32_t current = atomic_load_explicit(&source, memory_order_acquire);
	if (current == STEP_SOURCE_NONE)
		return 1;
	if (atomic_load_explicit(&step_thread, memory_order_relaxed) != me)
		return 0;
	/* Its steps have shown where the loop is. */
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
	enum purpose purpose =
		has_sequence ? batches_next(now, sequence, me, watched_by_purpose(), page) : PURPOSE_NONE;
	steps_tick *tick = atomic_load_explicit(&follower, memory_order_relaxed);
	if (pass)
		watched_pass(now, sequence, pass, me, tick);
	else
		watched_batch(now, sequence, purpose, me, tick);
}

void steps_batch_end(void)
{
	nest_leave(NEST_LOADER);
}

/* Iterations are found in the step thread; another one's steps are only counted, as steps of another thread. */
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

/* Is a DataLoader asked once a step, and has it been since the last one? */
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

/* The step thread: are its steps to go the short way from here on? */
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
		/* Before the first step the thread is not known: the one that steps first has most likely zeroed first. */
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
	/* A process without steps of its own counts these; when nobody looks for them any more it has none again. */
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
	/* What the ring still holds, less a margin for the step thread that writes on meanwhile. */
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
	/* The daemon's page is the parent's. Where it has not been inherited a hole is left in our data. */
	if (madvise(&own, STATUS_BYTES, MADV_DOFORK) < 0)
		/* NOLINTNEXTLINE(bugprone-unused-return-value): as much as a child can do */
		mmap(&own, STATUS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

void steps_forget(void)
{
	/* The daemon's page goes, and a step that is just being counted finds another in its place. */
	/* NOLINTNEXTLINE(bugprone-unused-return-value): where it fails the page stays, which nobody reads any more */
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
