/* test_agent_turns.c - which ends of Optimizer.step end an iteration: loops as the counter sees them, without torch. */
#include "agent/steps/nest.h"
#include "agent/steps/turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct turns turns;
static uint64_t sequence, now, count, last_end;
static int loader, loaded;

static void begin(void)
{
	turns_init(&turns);
	sequence = 100;
	now = 1000;
	count = last_end = 0;
	loader = loaded = 0;
}

/* A forward pass that makes so many nodes. */
static void forward(unsigned nodes)
{
	sequence += nodes;
	now += 1000;
}

static void step(uint64_t who, const char *class)
{
	struct turns_answer answer;
	struct turn turn = {who, class, strlen(class), sequence, 1, loaded, loader, ++now};
	turns_step(&turns, &turn, &answer);
	loaded = 0;
	count += answer.more + (answer.late != 0) + (answer.ends != 0);
	count -= answer.less;
	if (answer.late)
		assert_true(answer.late > last_end && answer.late < now);
	if (answer.ends || answer.moves)
		last_end = now;
}

static void zero(void)
{
	count += (uint64_t)turns_zero(&turns, sequence, 1);
}

static void told(uint32_t wanted, const char *text)
{
	char said[128];
	int unclear;
	assert_int_equal(turns_tell(&turns, said, sizeof said, &unclear), wanted);
	assert_string_equal(said, text);
	assert_false(unclear);
}

static int is_unclear(void)
{
	char said[128];
	int unclear;
	turns_tell(&turns, said, sizeof said, &unclear);
	return unclear;
}

static void test_one(void **state)
{
	(void)state;
	for (int known = 0; known < 2; known++) {
		begin();
		for (uint64_t i = 1; i <= 50; i++) {
			forward(7);
			step(known ? 0x1000 : 0, "AdamW");
			assert_int_equal(count, i);
		}
		assert_int_equal(is_unclear(), !known);
		if (known)
			told(1, "AdamW");
	}
}

/* Nothing that autograd numbers: gradients from elsewhere. */
static void test_no_forward(void **state)
{
	(void)state;
	begin();
	for (uint64_t i = 1; i <= 50; i++) {
		now += 1000;
		step(0, "SGD");
		assert_int_equal(count, i);
	}
	/* A loop that had forward passes and has none any more goes on being counted. */
	begin();
	for (uint64_t i = 1; i <= 100; i++) {
		if (i < 50)
			forward(3);
		step(0x1000, "SGD");
	}
	assert_in_range(count, 98, 101);
}

static void test_side_by_side(void **state)
{
	(void)state;
	for (int known = 0; known < 2; known++) {
		begin();
		for (uint64_t i = 1; i <= 50; i++) {
			forward(9);
			step(known ? 0x1000 : 0, "Muon");
			step(known ? 0x2000 : 0, "AdamW");
			assert_int_equal(count, i);
			assert_int_equal(last_end, now);
		}
		told(2, "Muon, AdamW");
		begin();
		for (uint64_t i = 1; i <= 50; i++) {
			forward(9);
			step(known ? 0x1000 : 0, "AdamW");
			step(known ? 0x2000 : 0, "AdamW");
			assert_in_range(count, i, i + 1);
		}
		assert_int_equal(last_end, now);
		told(2, "AdamW x 2");
	}
}

static void test_turns(void **state)
{
	(void)state;
	begin();
	for (uint64_t i = 1; i <= 50; i++) {
		forward(20);
		step(0x1000, "Adam");
		forward(12);
		step(0x2000, "Adam");
		assert_int_equal(count, i);
		assert_int_equal(last_end, now);
	}
	told(2, "Adam x 2");
	/* Told apart by nothing but their batches. */
	begin();
	loader = 1;
	for (uint64_t i = 1; i <= 50; i++) {
		loaded = 1;
		forward(20);
		step(0, "Adam");
		forward(12);
		step(0, "Adam");
		assert_in_range(count, i, i + 1);
	}
	/* By nothing at all: it is said. Their forward passes may be alike, so that it could as well be one optimizer. */
	for (int unlike = 0; unlike < 2; unlike++) {
		begin();
		for (uint64_t i = 1; i <= 50; i++) {
			forward(20);
			step(0, "Adam");
			forward(unlike ? 12 : 20);
			step(0, "Adam");
		}
		assert_true(is_unclear());
	}
	/* And taken back where there are batches to go by. */
	loader = 1;
	for (uint64_t i = 1; i <= 50; i++) {
		loaded = 1;
		forward(20);
		step(0, "Adam");
	}
	assert_false(is_unclear());
	/* Different classes are told apart. */
	begin();
	for (uint64_t i = 1; i <= 50; i++) {
		forward(20);
		step(0, "Adam");
		forward(20);
		step(0, "SGD");
		assert_int_equal(count, i);
	}
	told(2, "Adam, SGD");
}

/* Five steps of one to one of the other: the rarer one leads, once that is a rule. */
static void test_rarer(void **state)
{
	(void)state;
	for (int often = 2; often <= 8; often++) {
		begin();
		for (uint64_t i = 1; i <= 50; i++) {
			for (int k = 0; k < often; k++) {
				forward(20);
				step(0x1000, "Adam");
			}
			forward(12);
			step(0x2000, "Adam");
			/* The second iteration makes it a rule, and takes back what was counted until then. */
			assert_int_equal(count, i == 1 ? (uint64_t)often : i);
			assert_true(i == 1 || last_end == now);
		}
	}
	/* What steps once in a while is beside the loop. */
	begin();
	for (uint64_t i = 1; i <= 200; i++) {
		forward(20);
		step(0x1000, "Adam");
		if (i % 50 == 0)
			step(0x2000, "SGD");
		assert_int_equal(count, i);
	}
}

/* A soft actor-critic loop as it is mostly written: two critics side by side in each iteration, the actor and its temperature twice in
 * every second one. Each iteration is one, after the first few. */
static void bunches(uint64_t every)
{
	begin();
	for (uint64_t i = 1; i <= 200; i++) {
		uint64_t before = count;
		forward(20);
		step(0x1000, "Adam");
		step(0x2000, "Adam");
		if (i > 2 * every)
			assert_true(count == before + 1 && last_end + 1 >= now);
		for (int k = 0; k < (i % every ? 0 : 2); k++) {
			forward(12);
			step(0x3000, "Adam");
			forward(1);
			step(0x4000, "Adam");
		}
		if (i > 2 * every)
			assert_int_equal(count, before + 1);
	}
	assert_in_range(count, 200, 200 + every);
}

static void test_bunches(void **state)
{
	(void)state;
	bunches(2);
	bunches(3);
}

/* More rarely than is believed, but as regularly: it is said, until it is one of those that are believed or comes no more. */
static void test_too_rare(void **state)
{
	(void)state;
	for (int ends = 0; ends < 2; ends++) {
		begin();
		for (int i = 0; i < 60; i++) {
			for (int k = 0; k < (i < 6 ? 40 : 5); k++) {
				forward(20);
				step(0x1000, "RMSprop");
			}
			/* Its second step says so; the second one that is believed takes it back. */
			assert_int_equal(is_unclear(), i >= 2 && i < (ends ? 30 : 8));
			forward(12);
			if (!ends || i < 6)
				step(0x2000, "RMSprop");
		}
		told(ends ? 1 : 2, ends ? "RMSprop" : "RMSprop x 2");
	}
}

/* One for each parameter, in the backward pass: known or not, in one thread with the forward pass or in another. */
static void test_hooks(void **state)
{
	(void)state;
	for (int known = 0; known < 2; known++) {
		for (int there = known ? 0 : 1; there < 2; there++) {
			begin();
			for (uint64_t i = 1; i <= 20; i++) {
				if (there)
					forward(300);
				for (uint64_t k = 1; k <= 300; k++)
					step(known ? k * 0x1000 : 0, "SGD");
				if (known)
					assert_int_equal(count, i);
				assert_int_equal(last_end, now);
			}
			told(300, "SGD x 300");
			uint64_t before = count;
			for (uint64_t i = 1; i <= 20; i++) {
				if (there)
					forward(300);
				for (uint64_t k = 1; k <= 300; k++)
					step(known ? k * 0x1000 : 0, "SGD");
				assert_int_equal(count, before + i);
			}
		}
	}
}

/* A loop that becomes another one is counted on, and no iteration is lost for long. */
static void test_changes(void **state)
{
	(void)state;
	static const struct {
		unsigned optimizers;
		uint64_t base;
		int forwards; /* one before each step, or one an iteration */
	} phases[] = {{1, 0x1000, 0},  {1, 0x2000, 0},	{2, 0x3000, 1},	  {1, 0x9000, 0}, {3, 0x10000, 0},
		      {3, 0x20000, 1}, {1, 0x30000, 0}, {40, 0x40000, 0}, {1, 0x1000, 0}, {2, 0x3000, 0}};
	begin();
	for (size_t p = 0; p < sizeof phases / sizeof *phases; p++) {
		uint64_t before = count;
		for (unsigned i = 0; i < 60; i++)
			for (unsigned k = 0; k < phases[p].optimizers; k++) {
				if (k == 0 || phases[p].forwards)
					forward(10);
				step(phases[p].base + k * 0x100, "Adam");
			}
		assert_in_range(count - before, 59, 62);
	}
}

/* A search: models one after the other, each for a few steps, whose optimizers lie in turn where an earlier one lay. Each step is an
 * iteration, and the count never goes back. */
static void test_one_after_the_other(void **state)
{
	(void)state;
	for (uint64_t places = 2; places <= 3; places++)
		for (unsigned steps = 2; steps <= 6; steps++) {
			begin();
			for (uint64_t i = 0; i < 30 * steps; i++) {
				uint64_t before = count;
				forward(7);
				step(0x1000 * (1 + i / steps % places), "AdamW");
				assert_true(count >= before);
			}
			/* The first of a model is told only with its second. */
			assert_in_range(count, 30 * steps - 2, 30 * steps);
		}
}

static void test_skipped(void **state)
{
	(void)state;
	begin();
	for (uint64_t i = 1; i <= 100; i++) {
		zero();
		forward(10);
		if (i > 3 && i % 7)
			step(0x1000, "AdamW");
		if (i > 10)
			assert_in_range(count, i - 1, i);
	}
	/* Two zero_grads a step are SAM's, and no skipped ones. */
	begin();
	for (uint64_t i = 1; i <= 100; i++) {
		forward(10);
		zero();
		forward(10);
		step(0x1000, "SGD");
		zero();
		assert_int_equal(count, i);
	}
	/* Two optimizers that take turns. */
	begin();
	for (uint64_t i = 1; i <= 100; i++) {
		zero();
		forward(10);
		step(0x1000, "Adam");
		zero();
		forward(10);
		step(0x2000, "Adam");
		assert_int_equal(count, i);
	}
}

/* The short way (usual.h) gives what the long one would have: random loops, the same for both. */
static void test_usual(void **state)
{
	static struct turns slow, fast;
	uint64_t seed = 1, short_ways = 0;
	(void)state;
	for (int loop = 0; loop < 300; loop++) {
		uint64_t counts[2] = {0, 0}, at = 100;
		unsigned second = 0, zeroes = 0, nodes = 10, every = 0;
		turns_init(&slow);
		turns_init(&fast);
		for (int i = 0; i < 400; i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			unsigned dice = (unsigned)(seed >> 40);
			/* Now and then the loop changes. */
			if (i % 100 == 0) {
				second = dice & 3;
				zeroes = dice >> 2 & 3;
				nodes = 10 + (dice >> 4 & 7);
				every = dice >> 8 & 1 ? 5 + (dice >> 9 & 3) : 0;
			}
			if (zeroes && dice % 64 != 1) {
				counts[0] += (uint64_t)turns_zero(&slow, at, 1);
				if (turns_is_usual_zero(&fast))
					turns_count_zero(&fast, at);
				else
					counts[1] += (uint64_t)turns_zero(&fast, at, 1);
			}
			if (dice % 32 != 7)
				at += nodes;
			/* A GradScaler skips a step. */
			if (dice % 50 == 9)
				continue;
			for (unsigned k = 0; k <= (unsigned)((every && i % (int)every == 0) + (second == 3)); k++) {
				struct turn turn = {0x1000 + k, "Adam", 4, at, 1, 0, 0, (uint64_t)i * 10 + k + 1};
				struct turns_answer answer;
				turns_step(&slow, &turn, &answer);
				counts[0] += answer.more + (answer.late != 0) + (answer.ends != 0);
				if (turns_usual(&fast, turn.who, at, turn.now)) {
					counts[1]++;
					short_ways++;
				} else {
					turns_step(&fast, &turn, &answer);
					counts[1] += answer.more + (answer.late != 0) + (answer.ends != 0);
				}
				assert_int_equal(counts[1], counts[0]);
				if (second == 2)
					at += nodes;
			}
		}
	}
	assert_true(short_ways > 20000);
}

/* Of a second optimizer that comes later nothing is taken for the first one's for long: each of the two is looked at in turn. */
static void test_usual_is_looked_at(void **state)
{
	(void)state;
	begin();
	for (int i = 0; i < 20; i++) {
		forward(10);
		step(0x1000, "Adam");
	}
	assert_int_equal(turns.usual, 0x1000);
	unsigned looked[2] = {0, 0};
	for (unsigned i = 0; i < 100; i++) {
		forward(10);
		if (turns_is_usual(&turns, sequence)) {
			turns_count_usual(&turns, ++now);
			continue;
		}
		looked[i & 1]++;
		assert_true(turns_usual(&turns, 0x1000, sequence, ++now));
	}
	assert_true(looked[0] >= 6 && looked[1] >= 6);
	/* More nodes, or fewer: looked at at once. */
	forward(11);
	assert_false(turns_is_usual(&turns, sequence));
}

static void test_nest(void **state)
{
	(void)state;
	assert_true(nest_enter(NEST_OPTIMIZER));
	assert_false(nest_enter(NEST_OPTIMIZER));
	assert_true(nest_inside(NEST_OPTIMIZER));
	assert_false(nest_inside(NEST_NAMED));
	assert_false(nest_leave(NEST_OPTIMIZER));
	assert_true(nest_leave(NEST_OPTIMIZER));
	assert_false(nest_inside(NEST_OPTIMIZER));
	/* One whose end is lost does not hide the others for ever. */
	nest_enter(NEST_OPTIMIZER);
	int seen = 0;
	for (int i = 0; i < 200; i++) {
		nest_enter(NEST_OPTIMIZER);
		seen += nest_leave(NEST_OPTIMIZER);
	}
	assert_true(seen > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one),	     cmocka_unit_test(test_no_forward),
		cmocka_unit_test(test_side_by_side), cmocka_unit_test(test_turns),
		cmocka_unit_test(test_rarer),	     cmocka_unit_test(test_bunches),
		cmocka_unit_test(test_too_rare),     cmocka_unit_test(test_hooks),
		cmocka_unit_test(test_changes),	     cmocka_unit_test(test_skipped),
		cmocka_unit_test(test_nest),	     cmocka_unit_test(test_one_after_the_other),
		cmocka_unit_test(test_usual),	     cmocka_unit_test(test_usual_is_looked_at),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
