/* steps.h - what other collectors tell the step counter. Safe from any thread, inside or outside of a recording. */
#ifndef PROFD_AGENT_STEPS_STEPS_H
#define PROFD_AGENT_STEPS_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* torch: an Optimizer.step of an optimizer of this class (`bytes` long) begins in the calling thread. 1: it is the
 * outermost. */
int steps_optimizer_begin(const char *class, size_t bytes);
/* The Optimizer.step has ended at `now`; called for inner ones, too. `which`: the optimizer, 0 = not known. `sequence`:
 * autograd's number in this thread, if it has one. */
void steps_optimizer_end(uint64_t now, const char *class, size_t bytes, uint64_t which, uint64_t sequence,
			 int has_sequence);
/* An Optimizer.zero_grad begins. / A DataLoader's `__next__` begins. */
void steps_zero_grad(uint64_t sequence, int has_sequence);
void steps_loader_next(void);
/* A request for a batch, as the DataLoader's iterator describes it. */
struct steps_pass {
	bool is_known;			     /* everything else has been read */
	bool has_gradients;		     /* are gradients on in the thread? */
	uint64_t iterator, dataset, sampler; /* addresses of objects */
	uint64_t yielded;		     /* batches of this pass so far */
	uint64_t place;			     /* the place of the program that asks for it; 0: not known */
};
/* Are these descriptions wanted? */
int steps_wants_passes(void);
/* The `__next__` begins at `now`. `sequence`: autograd's number in this thread, if it has one; `pass`: NULL where none
 * is wanted. / The `__next__` has ended. */
void steps_batch_begin(uint64_t now, uint64_t sequence, int has_sequence, const struct steps_pass *pass);
void steps_batch_end(void);

/* A range named by the capture's step_range, or an operator named by its step_operator, has ended. The collector has
 * matched the name (glob.h). */
void steps_range_end(uint64_t now);
void steps_operator_end(uint64_t now);

#endif
