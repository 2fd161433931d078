/* epochs.c - see epochs.h. A loader is known by its dataset and its sampler. A loader that is made anew for each epoch
 * has another sampler, but the same place of the program asks it. An evaluation of the training data asks without
 * gradients. */
#include "epochs.h"

static bool is_same_loader(const struct steps_pass *a, const struct steps_pass *b)
{
	return a->dataset == b->dataset && (a->sampler == b->sampler || a->place == b->place);
}

static bool is_training(const struct epochs *e, const struct steps_pass *pass)
{
	return e->training.is_known && is_same_loader(&e->training, pass) &&
	       (pass->has_gradients || !e->training.has_gradients);
}

/* `perhaps` is the training loader if its pass goes on after a batch that has trained. The last request to a loader
 * gets no batch, so training after it proves nothing. */
static void find(struct epochs *e, const struct steps_pass *pass)
{
	const struct steps_pass *perhaps = &e->perhaps;
	if (perhaps->is_known && !e->training.is_known && perhaps->iterator == pass->iterator &&
	    pass->yielded == perhaps->yielded + 1)
		e->training = *perhaps;
}

/* Something has trained after the request `last`. */
static void learn(struct epochs *e, const struct steps_pass *last)
{
	if (!e->training.is_known)
		e->perhaps = *last;
	else if (is_training(e, last))
		e->training = *last;
}

bool epochs_begins(struct epochs *e, uint64_t sequence, const struct steps_pass *pass)
{
	struct steps_pass last = e->last;
	bool trained = last.is_known && sequence != e->sequence;
	e->sequence = sequence;
	e->last = *pass;
	if (!pass->is_known) {
		e->blind++;
		return false;
	}
	e->blind = 0;
	find(e, pass);
	if (trained)
		learn(e, &last);
	find(e, pass);
	if (pass->yielded || !is_training(e, pass))
		return false;
	/* The first request has failed, and is made once more. */
	return trained || !last.is_known || last.iterator != pass->iterator || last.yielded;
}

void epochs_move(struct epochs *e)
{
	e->last.is_known = false;
}
