/* watched.c - see watched.h. */
#include "watched.h"
#include "batches.h"
#include "epochs.h"
#include "../../proto/events.h"
#include "../core/life.h"

#include <stdatomic.h>

static _Atomic uint32_t watched; /* a source that is counted only while armed */
static _Atomic uintptr_t watched_thread;
static _Atomic uint32_t watched_others; /* steps of this source on other threads, since the watched thread's last */
static _Atomic uint64_t watched_steps;

/* Which batches are steps (enum batches), and how often watched_begin() was called. */
static _Atomic uint32_t batches, watches;
/* The batch under way in the thread whose steps are watched. watch: `watches` where it began. */
static struct {
	uintptr_t thread;
	uint32_t watch, idle; /* batches in a row, up to this one, that have not trained */
} batch;

static struct {
	uintptr_t thread;
	uint32_t watch;
	struct epochs epochs;
} pass_under_way;
static _Atomic uint32_t blind;

int watched_is(uint32_t from)
{
	return atomic_load_explicit(&watched, memory_order_relaxed) == from;
}

void watched_begin(uint32_t from, uint32_t wanted)
{
	atomic_store_explicit(&batches, wanted, memory_order_relaxed);
	atomic_fetch_add_explicit(&watches, 1, memory_order_relaxed);
	atomic_store_explicit(&watched_thread, 0, memory_order_relaxed);
	atomic_store_explicit(&watched_others, 0, memory_order_relaxed);
	atomic_store_explicit(&watched_steps, 0, memory_order_relaxed);
	atomic_store_explicit(&blind, 0, memory_order_relaxed);
	atomic_store_explicit(&watched, from, memory_order_relaxed);
}

void watched_take_thread(uintptr_t me)
{
	if (atomic_load_explicit(&watched_thread, memory_order_relaxed) != me)
		atomic_store_explicit(&watched_thread, me, memory_order_relaxed);
}

/* Are this thread's steps the watched ones? Yes also if no thread's are yet, or if the watched thread has not stepped
 * for long. */
static int is_watched_thread(uintptr_t me)
{
	uintptr_t owner = 0;
	if (!atomic_compare_exchange_strong_explicit(&watched_thread, &owner, me, memory_order_acq_rel,
						     memory_order_relaxed) &&
	    owner != me) {
		if (atomic_fetch_add_explicit(&watched_others, 1, memory_order_relaxed) + 1 < STEPS_TAKEOVER)
			return 0;
		/* If several threads take over at once, one of them succeeds. */
		if (!atomic_compare_exchange_strong_explicit(&watched_thread, &owner, me, memory_order_acq_rel,
							     memory_order_relaxed))
			return 0;
	}
	atomic_store_explicit(&watched_others, 0, memory_order_relaxed);
	return 1;
}

static uint64_t watched_count(void)
{
	return atomic_fetch_add_explicit(&watched_steps, 1, memory_order_relaxed) + 1;
}

void watched_boundary(uint32_t from, uint64_t now, uintptr_t me, steps_tick *tick)
{
	if (watched_is(from) && tick && is_watched_thread(me))
		tick(from, now, watched_count());
}

int watched_by_purpose(void)
{
	return watched_is(STEP_SOURCE_BATCH) &&
	       atomic_load_explicit(&batches, memory_order_relaxed) >= BATCHES_VALIDATION;
}

/* Is a batch that does not train one of the wanted? A batch whose functions do not say what it is for always fits. */
static int fits(uint32_t wanted, enum purpose purpose)
{
	switch (purpose) {
	case PURPOSE_VALIDATION:
		return wanted == BATCHES_VALIDATION;
	case PURPOSE_TEST:
		return wanted == BATCHES_TEST;
	case PURPOSE_EVALUATION:
		return wanted != BATCHES_INFERENCE;
	case PURPOSE_INFERENCE:
		return wanted == BATCHES_INFERENCE;
	case PURPOSE_NONE:
	case PURPOSE_TRAINING:
	case PURPOSE_COUNT:
		break;
	}
	return 1;
}

void watched_batch(uint64_t now, enum purpose purpose, uintptr_t me, steps_tick *tick)
{
	if (!watched_is(STEP_SOURCE_BATCH) || !tick || !is_watched_thread(me))
		return;
	uint32_t wanted = atomic_load_explicit(&batches, memory_order_relaxed);
	uint32_t watch = atomic_load_explicit(&watches, memory_order_relaxed);
	int is_known = batch.watch == watch && batch.thread == me, trains = purpose == PURPOSE_TRAINING;
	batch.thread = me;
	batch.idle = is_known && !trains ? batch.idle + 1 : 0;
	batch.watch = watch;
	int is_idle = batch.idle >= BATCHES_IDLE_LEAST, is_fit = fits(wanted, purpose);
	if (wanted == BATCHES_ANY || (is_known && (wanted == BATCHES_TRAIN ? trains : is_idle && is_fit)))
		tick(STEP_SOURCE_BATCH, now, watched_count());
	else if (is_known && (wanted == BATCHES_TRAIN ? !trains : trains || is_idle))
		tick(STEP_SOURCE_BATCH, now, 0);
}

void watched_pass(uint64_t now, uint64_t sequence, const struct steps_pass *pass, uintptr_t me, steps_tick *tick)
{
	if (!watched_is(STEP_SOURCE_EPOCH) || !tick || !is_watched_thread(me))
		return;
	uint32_t watch = atomic_load_explicit(&watches, memory_order_relaxed);
	struct epochs *epochs = &pass_under_way.epochs;
	if (pass_under_way.watch != watch)
		*epochs = (struct epochs){0};
	else if (pass_under_way.thread != me)
		epochs_move(epochs);
	pass_under_way.watch = watch;
	pass_under_way.thread = me;
	tick(STEP_SOURCE_EPOCH, now, epochs_begins(epochs, sequence, pass) ? watched_count() : 0);
	if (epochs->blind == EPOCHS_BLIND) {
		atomic_store_explicit(&blind, 1, memory_order_relaxed);
		life_wake();
	}
}

int watched_is_blind(void)
{
	return atomic_load_explicit(&blind, memory_order_relaxed) &&
	       atomic_exchange_explicit(&blind, 0, memory_order_relaxed);
}
