/* turns.c - which ends of Optimizer.step end an iteration.
 *
 * A loop may have several optimizers: side by side (Muon for matrices and AdamW for everything else, or one for each
 * parameter in hooks of the backward pass), or taking turns (a GAN's two). The caller leaves out steps inside of
 * another step (SAM, ZeRO's wrapper). Two rules decide about the other steps, in some ns for each, and without looking
 * ahead:
 *
 * 1. Groups. Steps with no forward pass in between belong to one iteration. Autograd numbers the nodes of a forward
 *    pass, so an unchanged number says that there was none. Where optimizers cannot be told apart (rule 2) and a
 *    DataLoader is in use, its batches are the better sign. A group ends after as many steps as the smallest of the
 *    last few groups had. If it has fewer, because the loop has changed, its last step has ended the iteration; that is
 *    known only when the next group begins. If it has more, the iteration was counted a few steps early. The count
 *    waits in neither case.
 *
 * 2. Turns. Of the optimizers that end groups, one leads: its steps end iterations. Of the optimizers that take turns
 *    regularly, the one that steps most rarely leads; of several such, the last one of the first iteration. Before this
 *    is known, another's steps are counted, and the surplus is taken back later. A group's end counts for its
 *    optimizer: the object where the caller knows it, else the class. If another optimizer comes clearly more often
 *    than usual without a step of the leader, the leader is gone: the loop has changed, and the optimizer that steps
 *    now leads. Iterations that were not counted meanwhile are added. If an optimizer that has lost the lead in this
 *    way soon steps again, among others, it was not gone: optimizers here step in bunches (an actor that catches up on
 *    steps), and the new leader stays.
 *
 * A GradScaler that finds an overflow skips the step. If every step had one zero_grad with a forward pass after it, a
 * second zero_grad after another forward pass and without a step shows a skipped step; it counts as an iteration.
 *
 * Iterations are told to be in doubt in two cases: optimizers are known by their class alone, and no DataLoader's
 * batches count; or an optimizer steps regularly, but more rarely than a part of an iteration should (a WGAN's
 * generator in its first iterations). */
#include "turns.h"

#include <string.h>

/* An optimizer that steps once in more than so many iterations does not end them (a temperature that is tuned now and
 * then). */
#define RAREST 8
/* An optimizer that steps even more rarely causes no doubt about the iterations. */
#define RARE_MOST 128
#define PROBES 4
/* An optimizer that counted as gone is back if it steps within so many ends of groups. */
#define BACK_SOON 4
/* So many steps in a row make a rule. */
#define REGULAR 4
#define DOUBLES 3
/* So many groups in a row make a doubt. */
#define GUESSES 12

void turns_init(struct turns *t)
{
	memset(t, 0, sizeof *t);
	t->expected = 1;
	t->gap_before = 1;
}

/* ---------------------------------------------------------------- rule 2: turns */

/* The entry of a key; a new one has in_run 0. */
static struct turns_key *key_of(struct turns *t, uint64_t key)
{
	struct turns_key *oldest = NULL;
	uint64_t at = key * 0x9e3779b97f4a7c15ull >> 40;
	for (uint32_t i = 0; i < PROBES; i++) {
		struct turns_key *e = &t->table[(at + i) & (TURNS_KEYS - 1)];
		if (e->key == key)
			return e;
		if (!oldest || e->votes < oldest->votes)
			oldest = e;
	}
	*oldest = (struct turns_key){.key = key, .run = t->runs};
	return oldest;
}

static void run_ends(struct turns *t)
{
	t->gap_before = t->gap;
	t->gap = t->since;
	t->repeats_usual = t->repeats > t->repeats_usual ? t->repeats : t->repeats_usual;
	t->since = t->repeats = 0;
	t->runs++;
}

/* The leader is gone. */
static void take_over(struct turns *t, uint64_t key, struct turns_answer *ret)
{
	t->gone = t->lead;
	t->gone_since = t->votes;
	t->lead = key;
	t->rare_until = 0;
	/* How regularly other optimizers come is measured anew, by the steps of the new leader. */
	for (uint32_t i = 0; i < TURNS_KEYS; i++)
		t->table[i].between = 0;
	ret->more += t->repeats;
	run_ends(t);
	t->repeats_usual = 0;
	t->gap = t->gap_before = 1;
	ret->ends = 1;
}

/* `key` has ended a group: does that end the iteration? */
static void vote(struct turns *t, uint64_t key, struct turns_answer *ret)
{
	t->votes++;
	t->since++;
	if (key == t->lead) {
		t->recurred = 1;
		run_ends(t);
		ret->ends = 1;
		return;
	}
	struct turns_key *e = key_of(t, key);
	uint32_t usual = t->gap > t->gap_before ? t->gap : t->gap_before;
	int is_new = !e->votes;
	int among_others = t->votes - e->votes > 1;
	e->votes = t->votes;
	if (!t->recurred && is_new) {
		/* In the first iteration: it ends with the last of its optimizers. */
		ret->ends = !t->lead;
		ret->moves = !ret->ends;
		t->runs = 1;
		t->gap = ++t->keys;
		t->since = 0;
		t->lead = key;
		e->run = t->runs;
		return;
	}
	t->recurred = 1;
	uint32_t between = t->runs - e->run, at_a_time = e->in_run;
	e->in_run = between ? 1 : e->in_run + 1;
	e->run = t->runs;
	/* Before the first step of this optimizer so many iterations passed. */
	if (is_new)
		e->between = t->runs;
	else if (between > RAREST && between <= RARE_MOST && between == e->between)
		t->rare_until = t->runs + 3 * between;
	if (!is_new && at_a_time == 1 && between >= 2 && between <= RAREST && between == e->between) {
		/* It steps more rarely than the leader, and regularly: it leads now, and the iteration that has just
		 * been counted ends here. */
		t->lead = key;
		t->rare_until = 0;
		t->gap = t->gap_before = between * usual + 1;
		t->repeats_usual = between * (t->repeats_usual ? t->repeats_usual : 1);
		t->since = t->repeats = 0;
		ret->moves = 1;
		/* Its last two iterations were counted by the old leader's steps. */
		ret->less = 2 * (between - 1);
	} else if (key == t->gone && t->votes - t->gone_since <= BACK_SOON && e->in_run == 2 && among_others) {
		t->repeats_usual = t->repeats_usual > 2 ? t->repeats_usual : 2;
		t->gap = t->gap_before = t->since > usual ? t->since : usual;
	} else if (e->in_run > t->repeats_usual + 1 || t->since > 2 * usual + 2) {
		take_over(t, key, ret);
	}
	if (between)
		e->between = between;
	if (!ret->ends && e->in_run > t->repeats)
		t->repeats = e->in_run;
}

/* ---------------------------------------------------------------- rule 1: groups */

static void group_ends(struct turns *t)
{
	uint32_t known;
	int alike = t->groups && t->position == t->expected && t->position == t->most;
	t->sizes[t->groups % TURNS_GROUPS] = t->position;
	known = ++t->groups < TURNS_GROUPS ? t->groups : TURNS_GROUPS;
	if (alike) {
		t->position = 0;
		return;
	}
	t->expected = t->most = t->sizes[0];
	for (uint32_t i = 1; i < known; i++) {
		t->expected = t->sizes[i] < t->expected ? t->sizes[i] : t->expected;
		t->most = t->sizes[i] > t->most ? t->sizes[i] : t->most;
	}
	t->position = 0;
}

/* Is there a forward pass between the last step and this one? */
static int has_worked(const struct turns *t, const struct turn *turn)
{
	if (turn->has_loader && !turn->who)
		return turn->loaded;
	return !turn->has_sequence || turn->sequence != t->sequence;
}

/* ---------------------------------------------------------------- what is told */

static uint32_t class_of(struct turns *t, const struct turn *turn)
{
	size_t bytes = turn->class_bytes < TURNS_CLASS_BYTES - 1 ? turn->class_bytes : TURNS_CLASS_BYTES - 1;
	uint32_t i = 0;
	for (; i < t->class_count; i++)
		if (!memcmp(t->classes[i], turn->class, bytes) && !t->classes[i][bytes])
			return i;
	if (i == TURNS_CLASSES)
		return i - 1;
	memcpy(t->classes[i], turn->class, bytes);
	t->classes[i][bytes] = 0;
	return t->class_count++;
}

static void member(struct turns *t, const struct turn *turn, uint32_t class)
{
	/* If more optimizers step than the table holds, every further step counts as another optimizer. */
	for (uint32_t i = 0; turn->who && i < t->member_count; i++)
		if (t->members[i] == turn->who)
			return;
	if (turn->who && t->member_count < TURNS_MEMBERS)
		t->members[t->member_count++] = turn->who;
	t->made.optimizers++;
	t->made.of_class[class]++;
	t->made.classes += (class + 1) * 0x9e3779b9u;
}

static int is_same(const struct turns_made *a, const struct turns_made *b)
{
	return a->optimizers == b->optimizers && a->classes == b->classes;
}

/* An iteration has ended. The optimizers that stepped in it are told if two iterations in a row had the same. */
static int tell_later(struct turns *t)
{
	int news = is_same(&t->made, &t->before) && !is_same(&t->made, &t->told);
	if (news)
		t->told = t->made;
	if (!is_same(&t->made, &t->before))
		t->before = t->made;
	t->member_count = t->made.optimizers = t->made.classes = 0;
	for (uint32_t i = 0; i < t->class_count; i++)
		t->made.of_class[i] = 0;
	return news;
}

/* Has it changed whether the iterations are in doubt? */
static int doubt(struct turns *t, const struct turn *turn)
{
	t->guesses = turn->who || turn->has_loader ? 0 : t->guesses + (t->guesses < GUESSES);
	int unclear = (t->guesses >= GUESSES && t->told.optimizers <= 1) || t->runs < t->rare_until;
	if (unclear == t->unclear)
		return 0;
	t->unclear = unclear;
	return 1;
}

/* ---------------------------------------------------------------- steps and zero_grads */

/* Has every step one zero_grad with a forward pass after it? Returns how many skipped steps were seen before this was
 * known. */
static uint32_t zeros_before_step(struct turns *t)
{
	uint32_t held = 0;
	t->doubles = t->doubled ? t->doubles + 1 : 0;
	if (t->doubles >= DOUBLES || !t->zeros || t->expected > 1 || t->told.optimizers > 1)
		t->regular = t->held = 0;
	else if (!t->doubled)
		t->regular++;
	if (t->regular >= REGULAR) {
		held = t->held;
		t->held = 0;
	}
	t->doubled = 0;
	t->zeros = 0;
	return held;
}

/* Adds the steps that turns_usual() has counted: turns_step() would have changed only these counts. */
static void catch_up(struct turns *t)
{
	uint32_t n = t->usual_count;
	t->usual_count = 0;
	t->groups += n;
	t->runs += n;
	t->votes += n;
	if (n)
		t->lead_group = t->groups + 1;
}

/* Is the loop at rest: would a step like this one, and a zero_grad before it where there was one, change nothing but the counts of
 * catch_up()? */
static int is_at_rest(const struct turns *t, const struct turn *turn)
{
	for (uint32_t i = 0; i < TURNS_GROUPS; i++)
		if (t->sizes[i] != 1)
			return 0;
	int zeros = t->regular >= REGULAR || (!t->regular && !t->usual_zeros);
	return zeros && !t->held && !t->doubles && !t->doubled && turn->who == t->lead && turn->has_sequence &&
	       !t->unclear && t->recurred && t->position == 1 && t->expected == 1 && t->most == 1 && t->gap == 1 &&
	       t->gap_before == 1 && !t->since && !t->repeats && t->told.optimizers == 1 && !t->made.optimizers &&
	       is_same(&t->before, &t->told);
}

static void step(struct turns *t, const struct turn *turn, struct turns_answer *ret)
{
	uint32_t class = class_of(t, turn);
	uint64_t key = turn->who ? turn->who : class + 1;
	if (has_worked(t, turn) && t->position) {
		if (t->position < t->expected) {
			vote(t, t->last_key, ret);
			ret->late = ret->ends ? t->last_now : 0;
			if (ret->ends)
				ret->news = tell_later(t);
			ret->ends = ret->moves = 0;
		}
		group_ends(t);
	}
	t->position++;
	t->sequence = turn->sequence;
	t->last_key = key;
	t->last_now = turn->now;
	member(t, turn, class);
	if (t->position == 1)
		ret->news |= doubt(t, turn);
	ret->more += zeros_before_step(t);
	/* More steps of the group follow; or groups have been this large before, and this one has been counted. */
	if (t->position < t->expected || (t->position > t->expected && t->position <= t->most))
		return;
	/* A group that is larger than all before goes on as long as it brings new optimizers. If an optimizer comes
	 * again, the loop may have no forward passes any more, and the group ends. */
	uint32_t *last_group = key == t->lead ? &t->lead_group : &key_of(t, key)->group;
	int again = *last_group == t->groups + 1;
	*last_group = t->groups + 1;
	if (t->groups && t->position > t->expected && !again)
		return;
	vote(t, key, ret);
	if (ret->ends)
		ret->news |= tell_later(t);
}

void turns_step(struct turns *t, const struct turn *turn, struct turns_answer *ret)
{
	memset(ret, 0, sizeof *ret);
	catch_up(t);
	t->usual_zeros = t->zeros;
	t->usual_delta = turn->sequence - t->sequence;
	step(t, turn, ret);
	t->usual = is_at_rest(t, turn) ? turn->who : 0;
	t->usual_left = t->usual && t->usual_delta ? TURNS_UNSEEN - 1 : 0;
}

int turns_zero(struct turns *t, uint64_t sequence, int has_sequence)
{
	int skipped = 0;
	if (!has_sequence)
		return 0;
	if (t->zeros && sequence != t->zero_sequence) {
		t->doubled = 1;
		t->usual = t->usual_left = 0;
		if (t->regular >= REGULAR && t->told.optimizers == 1)
			skipped = 1;
		else
			t->held++;
	}
	t->zeros = 1;
	t->zero_sequence = sequence;
	return skipped;
}

/* ---------------------------------------------------------------- for people */

static void add(char *text, size_t bytes, size_t *used, const char *more)
{
	while (*more && *used + 1 < bytes)
		text[(*used)++] = *more++;
	text[*used] = 0;
}

uint32_t turns_tell(const struct turns *t, char *text, size_t bytes, int *ret_unclear)
{
	size_t used = 0;
	text[0] = 0;
	for (uint32_t i = 0; i < t->class_count; i++) {
		char digits[12], *digit = digits + sizeof digits - 1;
		uint32_t n = t->told.of_class[i];
		if (!n)
			continue;
		add(text, bytes, &used, used ? ", " : "");
		add(text, bytes, &used, t->classes[i]);
		if (n == 1)
			continue;
		*digit = 0;
		do
			*--digit = (char)('0' + n % 10);
		while (n /= 10);
		add(text, bytes, &used, " x ");
		add(text, bytes, &used, digit);
	}
	*ret_unclear = t->unclear;
	return t->told.optimizers;
}
