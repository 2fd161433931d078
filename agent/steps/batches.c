/* batches.c - see batches.h. Autograd numbers the nodes that a forward pass makes. Where there will be no backward pass (no_grad, inference_mode)
 * it makes none, so that a batch which has left its number as it was has not trained. What such a batch is for the functions say that ask for
 * it; these are looked at now and then, since a loop mostly stays where it is. Where no name says it the mode of the modules does that they name: what
 * has trained here, and is in evaluation mode now, is validated. */
#include "batches.h"

#include "../stacks/caller.h"

#include <stdatomic.h>
#include <stdbool.h>

#define LOOK_NS 10000000ull
#define TRAINED_MOST 32u /* a power of two */

_Static_assert(PURPOSE_COUNT <= STATUS_PURPOSES, "each has its count on the page");
static _Atomic uint64_t counts[PURPOSE_COUNT];
static _Atomic uint32_t newest;
static _Atomic uintptr_t owner; /* the thread whose batch it is */
/* The batch under way. */
static struct {
	uint64_t sequence, looked; /* where it began; when its functions were looked at, or those of one before */
	uint32_t idle;		   /* batches in a row, up to it, that have not trained */
	enum purpose purpose;
	bool learned;	    /* of batches that train: which modules they name */
	struct modes modes; /* when they were looked at */
} batch;

/* Modules that were in training mode in a batch that trained; the newest ones. The thread's whose batches are counted. */
static struct mode trained[TRAINED_MOST];
static uint32_t trained_count;

static bool has_trained(const struct mode *mode, bool same)
{
	for (uint32_t i = 0; i < trained_count && i < TRAINED_MOST; i++)
		if (trained[i].type == mode->type &&
		    (!same || (trained[i].object == mode->object && trained[i].parameters == mode->parameters)))
			return true;
	return false;
}

/* The batch that ends has trained. */
static void learn(void)
{
	for (uint32_t i = 0; i < batch.modes.count; i++) {
		const struct mode *mode = &batch.modes.items[i];
		if (mode->training && !has_trained(mode, true))
			trained[trained_count++ % TRAINED_MOST] = *mode;
	}
	batch.modes.count = 0;
}

/* What a batch is for that does not train. A copy of what trains here, which has its class, may be either, and says nothing. Nor do modules in
 * training mode, as long as the process trains. */
static enum purpose purpose_of_modes(const struct modes *modes)
{
	uint32_t evaluate = 0, copies = 0;
	for (uint32_t i = 0; i < modes->count; i++) {
		const struct mode *mode = &modes->items[i];
		if (mode->training)
			continue;
		if (has_trained(mode, true))
			return PURPOSE_VALIDATION;
		evaluate++;
		copies += has_trained(mode, false);
	}
	if (!evaluate)
		return PURPOSE_NONE;
	if (!atomic_load_explicit(&counts[PURPOSE_TRAINING], memory_order_relaxed))
		return PURPOSE_INFERENCE;
	return trained_count && evaluate == modes->count && !copies ? PURPOSE_INFERENCE : PURPOSE_NONE;
}

static enum purpose look(void)
{
	enum purpose purpose = caller_purpose(&batch.modes);
	/* What is called so and does not train. */
	if (purpose == PURPOSE_TRAINING)
		purpose = PURPOSE_NONE;
	return purpose ? purpose : purpose_of_modes(&batch.modes);
}

static void count(enum purpose purpose, struct status_page *page)
{
	uint64_t now = atomic_load_explicit(&counts[purpose], memory_order_relaxed) + 1;
	atomic_store_explicit(&counts[purpose], now, memory_order_relaxed);
	atomic_store_explicit(&page->batches[purpose], now, memory_order_relaxed);
	atomic_store_explicit(&newest, purpose, memory_order_relaxed);
	atomic_store_explicit(&page->batch_purpose, purpose, memory_order_relaxed);
}

enum purpose batches_next(uint64_t now, uint64_t sequence, uintptr_t me, bool exactly, struct status_page *page)
{
	bool mine = atomic_load_explicit(&owner, memory_order_relaxed) == me, trains = sequence != batch.sequence;
	enum purpose ended = !mine ? PURPOSE_NONE : trains ? PURPOSE_TRAINING : batch.purpose;
	batch.sequence = sequence;
	if (mine && trains && batch.modes.count)
		learn();
	if (!mine || trains) {
		/* Another thread has another number. */
		atomic_store_explicit(&owner, me, memory_order_relaxed);
		batch.idle = 0;
		batch.looked = 0;
		batch.purpose = PURPOSE_NONE;
		batch.learned = mine && batch.learned;
		batch.modes.count = 0;
	} else {
		batch.idle++;
		batch.learned = false;
	}
	if (mine && (trains || batch.idle >= BATCHES_IDLE_LEAST))
		count(ended ? ended : PURPOSE_INFERENCE, page);
	if (batch.idle && (exactly || now >= batch.looked + LOOK_NS)) {
		batch.purpose = look();
		batch.looked = now;
	} else if (mine && trains && !batch.learned) {
		/* Once of all that train in a row. */
		caller_purpose(&batch.modes);
		batch.learned = true;
	}
	return ended;
}

void batches_publish(struct status_page *fresh)
{
	for (unsigned i = 0; i < PURPOSE_COUNT; i++)
		atomic_store_explicit(&fresh->batches[i], atomic_load(&counts[i]), memory_order_relaxed);
	atomic_store_explicit(&fresh->batch_purpose, atomic_load(&newest), memory_order_relaxed);
}

void batches_forget(void)
{
	for (unsigned i = 0; i < PURPOSE_COUNT; i++)
		atomic_store(&counts[i], 0);
	atomic_store(&newest, PURPOSE_NONE);
	atomic_store(&owner, 0);
	trained_count = 0;
}
