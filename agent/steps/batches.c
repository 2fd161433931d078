/* batches.c - see batches.h. Autograd numbers the nodes that a forward pass makes. Without a later backward pass
 * (no_grad, inference_mode) it makes none. So if the number has not changed since the last batch, that batch has not
 * trained. The names of the functions that ask for such a batch say what it is for. They are read only now and then,
 * because a loop mostly stays in one function. */
#include "batches.h"

#include "../stacks/caller.h"

#include <stdatomic.h>
#include <stdbool.h>

#define LOOK_NS 10000000ull

_Static_assert(PURPOSE_COUNT <= STATUS_PURPOSES, "each has its count on the page");
static _Atomic uint64_t counts[PURPOSE_COUNT];
static _Atomic uint32_t newest;
static _Atomic uintptr_t owner; /* the thread whose batches these are */
/* The batch under way. */
static struct {
	uint64_t sequence, looked; /* autograd's number where it began; when the functions were last looked at */
	uint32_t idle;		   /* batches in a row, up to this one, that have not trained */
	enum purpose purpose;
} batch;

static enum purpose look(void)
{
	enum purpose purpose = caller_purpose();
	/* Its functions have the name of training, but it does not train. */
	return purpose == PURPOSE_TRAINING ? PURPOSE_NONE : purpose;
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
	if (!mine || trains) {
		/* Autograd's numbers of two threads cannot be compared. */
		atomic_store_explicit(&owner, me, memory_order_relaxed);
		batch.idle = 0;
		batch.looked = 0;
		batch.purpose = PURPOSE_NONE;
	} else {
		batch.idle++;
	}
	if (mine && (trains || batch.idle >= BATCHES_IDLE_LEAST))
		count(ended ? ended : PURPOSE_INFERENCE, page);
	if (batch.idle && (exactly || now >= batch.looked + LOOK_NS)) {
		batch.purpose = look();
		batch.looked = now;
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
}
