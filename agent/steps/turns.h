/* turns.h - of all ends of Optimizer.step, those that end an iteration. Knows no torch and no threads, so that it can be
 * tested alone: one loop's optimizers, as the step thread sees them. */
#ifndef PROFD_AGENT_STEPS_TURNS_H
#define PROFD_AGENT_STEPS_TURNS_H

#include <stddef.h>
#include <stdint.h>

#define TURNS_CLASSES 16
#define TURNS_CLASS_BYTES 48
#define TURNS_KEYS 2048 /* optimizers of one loop that are told apart; a power of two */
#define TURNS_GROUPS 4
#define TURNS_MEMBERS 16

/* One end of an Optimizer.step that lies in no other. */
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
	uint64_t votes;	  /* when it came last: the oldest gives way */
	uint32_t run;	  /* iterations that had ended then */
	uint32_t in_run;  /* how often it has come since then */
	uint32_t between; /* iterations between its last two */
	uint32_t group;	  /* number of the group in which it came last */
};

/* What stepped in one iteration. */
struct turns_made {
	uint32_t optimizers; /* told apart; where they are not, ends of Optimizer.step */
	uint32_t classes;    /* a sum over them, to compare by */
	uint32_t of_class[TURNS_CLASSES];
};

struct turns {
	/* Groups: steps with no forward pass in between. */
	uint32_t position, expected, most, groups;
	uint32_t sizes[TURNS_GROUPS];
	uint64_t sequence, last_key, last_now;
	/* Turns. */
	uint64_t lead, votes;
	uint32_t lead_group;	   /* number of the group in which it came last */
	uint64_t gone, gone_since; /* the one that led before and was taken to be gone, and `votes` then; 0: none was */
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
	uint32_t rare_until; /* so many iterations have ended when a rare optimizer is not waited for any more */
	int unclear;
	/* The optimizer whose steps end an iteration each and change nothing else, 0 = none; what `zeros` is before them; how many
	 * have been since the last one that was looked at. */
	uint64_t usual;
	uint64_t usual_delta; /* by how much `sequence` grew to the last step */
	uint32_t usual_zeros;
	/* So many steps more are taken for its own where all else is as it was, before that is looked at; 0 where there is none. */
	uint64_t usual_left;
	uint32_t usual_count;
};

/* Odd, so that of two optimizers that take turns each is met. */
#define TURNS_UNSEEN 7

struct turns_answer {
	int ends;      /* an iteration ends here */
	int moves;     /* the iteration that was said to have ended ends only here */
	uint32_t more; /* and so many have ended before that were not seen to */
	uint32_t
		less; /* so many of those that were said to have ended were parts of others: the leader's steps of one iteration */
	uint64_t late; /* one that had ended at this time is known to have only now; 0 = none */
	int news;      /* turns_tell() has something new to say */
};

void turns_init(struct turns *t);
/* Has what nearly every Optimizer.step is ended here: one iteration more, after a forward pass, and most likely by the same optimizer
 * as before? As many nodes were made since the last step as before that one. Another optimizer of the same class that comes
 * later shows by these, or else after TURNS_UNSEEN steps. Then it need not be looked at whose it is. */
static inline int turns_is_usual(const struct turns *t, uint64_t sequence)
{
	return sequence - t->sequence == t->usual_delta && t->usual_left && t->zeros == t->usual_zeros;
}
/* It is counted: turns_step() need not be called. */
static inline void turns_count_usual(struct turns *t, uint64_t now)
{
	t->sequence += t->usual_delta;
	t->last_now = now;
	t->zeros = 0;
	t->usual_left--;
	t->usual_count++;
}
/* The same where it was looked at whose it is: counts it, or returns 0. */
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
