/* batches.c - see batches.h. Autograd numbers the nodes that a forward pass makes. Under no_grad and inference_mode it
 * makes none. So if the number has not changed since the last batch, that batch has not trained. A validation without
 * them makes nodes, but the optimizer makes no step. Its batches do not train if more of them come in a row than the
 * loop has between two steps, and the functions that ask for them have a name that says so. The names also say what a
 * batch that does not train is for. They are read only now and then, because a loop mostly stays in one function. */
#include "batches.h"

#include "../stacks/caller.h"

#include <stdatomic.h>
#include <stdbool.h>

#define LOOK_NS 10000000ull

_Static_assert(PURPOSE_COUNT <= STATUS_PURPOSES, "each has its count on the page");
static _Atomic uint64_t counts[PURPOSE_COUNT];
static _Atomic uint32_t newest;
static _Atomic uintptr_t owner; /* the thread whose batches these are */
/* Batches that made nodes, since the last step of the optimizer. */
static struct {
	uint64_t steps;
	uint32_t now, usual; /* how many; and how many there were before the last step in training */
	bool has_usual;
	bool evaluates; /* there are more than the usual ones, and the functions say that they evaluate */
} unstepped;
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

/* Has the loop left out more steps than it does while it trains? */
static bool leaves_out_steps(bool mine, bool makes_nodes, uint64_t steps)
{
	bool stepped = steps != unstepped.steps;
	unstepped.steps = steps;
	if (!mine) {
		unstepped.now = 0;
		unstepped.has_usual = unstepped.evaluates = false;
	} else if (stepped) {
		if (!unstepped.evaluates) {
			unstepped.usual = unstepped.now;
			unstepped.has_usual = true;
		}
		unstepped.now = 0;
		unstepped.evaluates = false;
	} else if (makes_nodes && unstepped.now < UINT32_MAX) {
		unstepped.now++;
	}
	return unstepped.has_usual && unstepped.now > unstepped.usual;
}

enum purpose batches_next(uint64_t now, const struct batches_seen *seen, uintptr_t me, bool exactly,
			  struct status_page *page)
{
	bool mine = atomic_load_explicit(&owner, memory_order_relaxed) == me,
	     makes_nodes = seen->sequence != batch.sequence,
	     leaves_out = leaves_out_steps(mine, makes_nodes, seen->steps),
	     trains = makes_nodes && !(leaves_out && batch.purpose != PURPOSE_NONE);
	enum purpose ended = !mine ? PURPOSE_NONE : trains ? PURPOSE_TRAINING : batch.purpose;
	batch.sequence = seen->sequence;
	if (!mine || (trains && !leaves_out)) {
		/* Autograd's numbers of two threads cannot be compared. */
		atomic_store_explicit(&owner, me, memory_order_relaxed);
		batch.looked = 0;
		batch.purpose = PURPOSE_NONE;
	}
	batch.idle = mine && !trains ? batch.idle + 1 : 0;
	if (mine && (trains || batch.idle >= BATCHES_IDLE_LEAST))
		count(ended ? ended : PURPOSE_INFERENCE, page);
	if ((batch.idle || leaves_out) && (exactly || now >= batch.looked + LOOK_NS)) {
		batch.purpose = look();
		batch.looked = now;
		unstepped.evaluates |= leaves_out && batch.purpose != PURPOSE_NONE;
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
