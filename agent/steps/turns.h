/* turns.h - finds the ends of Optimizer.step that end an iteration, from one loop's optimizers as the step thread sees
 * them. It knows nothing of torch and of threads, so that it can be tested alone. */
#ifndef PROFD_AGENT_STEPS_TURNS_H
#define PROFD_AGENT_STEPS_TURNS_H

#include <stddef.h>
#include <stdint.h>

#define TURNS_CLASSES 16
#define TURNS_CLASS_BYTES 48
#define TURNS_KEYS 2048 /* optimizers of one loop that are told apart; a power of two */
#define TURNS_GROUPS 4
#define TURNS_MEMBERS 16

/* The end of an Optimizer.step that lies in no other. */
struct turn {
	uint64_t who;	   /* the optimizer, 0 = not known */
	const char *class; /* its class's name, class_bytes long */
	size_t class_bytes;
	uint64_t sequence; /* autograd's sequence number in this thread: it grows with each node of a forward pass */
	int has_sequence;  /* 0: this torch does not tell */
	int loaded;	   /* a DataLoader has been asked for a batch since the last one */
	int has_loader;	   /* a DataLoader is asked once an iteration, as far as is known */
	uint64_t now;
};

struct turns_key {
	uint64_t key;
	uint64_t votes;	  /* value of turns.votes when it came last; the oldest entry is replaced */
	uint32_t run;	  /* iterations that had ended when it came last */
	uint32_t in_run;  /* how often it has come since that many had ended */
	uint32_t between; /* iterations between its last two */
	uint32_t group;	  /* number of the group in which it came last */
};

/* What stepped in one iteration. */
struct turns_made {
	uint32_t optimizers; /* how many; where they cannot be told apart, ends of Optimizer.step */
	uint32_t classes;    /* a sum over their classes, for comparing */
	uint32_t of_class[TURNS_CLASSES];
};

struct turns {
	/* Groups: steps with no forward pass in between. */
	uint32_t position, expected, most, groups;
	uint32_t sizes[TURNS_GROUPS];
	uint64_t sequence, last_key, last_now;
	/* Turns. */
	uint64_t lead, votes;
	uint32_t lead_group;	   /* number of the group in which the leader came last */
	uint64_t gone, gone_since; /* the leader before, which counted as gone, and `votes` at that time; 0: none */
	uint32_t runs, since, gap, gap_before, keys, repeats, repeats_usual;
	int recurred;
	struct turns_key table[TURNS_KEYS];
	/* Skipped steps. */
	uint32_t zeros, regular, doubles, held;
	int doubled;
	uint64_t zero_sequence;
	/* What is told. */
	char classes[TURNS_CLASSES][TURNS_CLASS_BYTES];
	uint32_t class_count;
	uint64_t members[TURNS_MEMBERS];
	uint32_t member_count;
	struct turns_made made, before, told;
	uint32_t guesses; /* groups in a row of optimizers that are known by their class alone, without a DataLoader */
	uint32_t rare_until; /* the iterations are in doubt until so many have ended, because a rare optimizer steps
			      * regularly */
	int unclear;
	/* The optimizer each of whose steps ends an iteration and changes nothing else, 0 = none. usual_zeros: what
	 * `zeros` is before such a step. usual_count: how many such steps were counted since the last turns_step(). */
	uint64_t usual;
	uint64_t usual_delta; /* by how much `sequence` grew to the last step */
	uint32_t usual_zeros;
	/* So many more steps count as its own without a look at whose they are, if everything else is as before. */
	uint64_t usual_left;
	uint32_t usual_count;
};

/* An odd number, so that of two optimizers that take turns both are looked at. */
#define TURNS_UNSEEN 7

struct turns_answer {
	int ends;      /* an iteration ends here */
	int moves;     /* the iteration that was counted last ends only here */
	uint32_t more; /* so many iterations have ended before, and were not counted */
	uint32_t less; /* so many counted iterations were only parts of others: steps of the old leader within one
		       * iteration */
	uint64_t late; /* an iteration has ended at this earlier time, as is known only now; 0 = none */
	int news;      /* turns_tell() has something new to say */
};

void turns_init(struct turns *t);
/* Does this step end one more iteration, after a forward pass, and most likely by the same optimizer as before, as
 * nearly every step does? Then nobody need look whose step it is. Autograd must have made as many nodes since the last
 * step as before that one. A new optimizer of the same class mostly shows by their number, and else after TURNS_UNSEEN
 * steps. */
static inline int turns_is_usual(const struct turns *t, uint64_t sequence)
{
	return sequence - t->sequence == t->usual_delta && t->usual_left && t->zeros == t->usual_zeros;
}
/* Counts such a step: turns_step() need not be called. */
static inline void turns_count_usual(struct turns *t, uint64_t now)
{
	t->sequence += t->usual_delta;
	t->last_now = now;
	t->zeros = 0;
	t->usual_left--;
	t->usual_count++;
}
/* The same for a step whose optimizer is known: counts it, or returns 0. */
static inline int turns_usual(struct turns *t, uint64_t who, uint64_t sequence, uint64_t now)
{
	uint64_t delta = sequence - t->sequence;
	if (who != t->usual || !delta || t->zeros != t->usual_zeros)
		return 0;
	t->usual_delta = delta;
	t->usual_left = TURNS_UNSEEN;
	turns_count_usual(t, now);
	return 1;
}
/* Is this the first zero_grad since the last step, as nearly always? Then turns_zero() need not be called. */
static inline int turns_is_usual_zero(const struct turns *t)
{
	return !t->zeros && t->usual;
}
static inline void turns_count_zero(struct turns *t, uint64_t sequence)
{
	t->zeros = 1;
	t->zero_sequence = sequence;
}
/* An Optimizer.step has ended. */
void turns_step(struct turns *t, const struct turn *turn, struct turns_answer *ret);
/* An Optimizer.zero_grad outside of Optimizer.step begins. 1: the iteration that now ends has skipped its step. */
int turns_zero(struct turns *t, uint64_t sequence, int has_sequence);

/* How many optimizers step in one iteration (0: not known yet), their classes as "Muon, AdamW" or "SGD x 24" in `text`,
 * and whether the iterations are in doubt. */
uint32_t turns_tell(const struct turns *t, char *text, size_t bytes, int *ret_unclear);

#endif
