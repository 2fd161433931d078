/* test_agent_epochs.c - which requests for a batch begin an epoch: loops as the watched thread shows them, without torch. */
#include "agent/steps/epochs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct epochs epochs;
static uint64_t sequence, iterators;

static int begin(void **state)
{
	(void)state;
	epochs = (struct epochs){0};
	sequence = 7;
	iterators = 1000;
	return 0;
}

/* A loader; its dataset, its sampler and where it is asked are these numbers. */
struct loader {
	uint64_t dataset, sampler, place;
	bool without_gradients;
	struct steps_pass pass;
};

static bool ask(struct loader *l)
{
	l->pass.is_known = true;
	l->pass.has_gradients = !l->without_gradients;
	l->pass.dataset = l->dataset;
	l->pass.sampler = l->sampler;
	l->pass.place = l->place;
	bool ret = epochs_begins(&epochs, sequence, &l->pass);
	l->pass.yielded++;
	return ret;
}

static void pass(struct loader *l)
{
	l->pass.iterator = ++iterators;
	l->pass.yielded = 0;
}

/* One pass over the loader; returns how many epochs began, and fails where one did with another request than the first. */
static unsigned run(struct loader *l, unsigned batches, bool trains)
{
	unsigned count = 0;
	pass(l);
	for (unsigned i = 0; i <= batches; i++) {
		bool begins = ask(l);
		assert_true(!begins || !i);
		count += begins;
		sequence += trains && i < batches ? 5 : 0;
	}
	return count;
}

static void test_plain(void **state)
{
	struct loader training = {1, 2, 3, .without_gradients = false},
		      validation = {4, 5, 6, .without_gradients = true};
	(void)state;
	/* Until a batch has trained nobody knows which loader it is. */
	assert_int_equal(run(&training, 8, true), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(run(&validation, 3, false), 0);
		assert_int_equal(run(&training, 8, true), 1);
	}
}

static void test_what_lies_within(void **state)
{
	struct loader training = {1, 2, 3, .without_gradients = false}, again = {1, 2, 9, .without_gradients = true};
	struct loader other = {4, 5, 6, .without_gradients = false};
	(void)state;
	run(&training, 8, true);
	/* An evaluation of the training data; one of others, with gradients; training by another loader. */
	assert_int_equal(run(&again, 8, false) + run(&other, 3, false) + run(&other, 3, true), 0);
	/* One in the midst. */
	pass(&training);
	assert_true(ask(&training));
	sequence++;
	assert_int_equal(run(&other, 3, false), 0);
	assert_false(ask(&training));
}

static void test_which_one_trains(void **state)
{
	struct loader first = {1, 2, 3, .without_gradients = false}, second = {4, 5, 6, .without_gradients = false};
	(void)state;
	/* Only the validation is to be seen: training lies behind its end. */
	for (int i = 0; i < 5; i++) {
		assert_int_equal(run(&first, 3, false), 0);
		sequence++;
	}
	/* Each iteration takes a batch of both: the one that is asked last. */
	for (int epoch = 0; epoch < 3; epoch++) {
		pass(&first);
		pass(&second);
		for (int i = 0; i < 4; i++) {
			assert_false(ask(&first));
			assert_int_equal(ask(&second), epoch && !i);
			sequence++;
		}
	}
}

static void test_made_anew(void **state)
{
	struct loader training = {1, 2, 3, .without_gradients = false};
	(void)state;
	run(&training, 8, true);
	for (int i = 0; i < 3; i++) {
		training.sampler++;
		assert_int_equal(run(&training, 8, true), 1);
	}
	/* Another part of the same data, taken elsewhere. */
	struct loader part = {1, 99, 100, .without_gradients = false};
	assert_int_equal(run(&part, 8, true), 0);
}

static void test_one_batch(void **state)
{
	struct loader training = {1, 2, 3, .without_gradients = false};
	(void)state;
	run(&training, 2, true);
	/* Of each pass one batch is taken; the next iterator may lie where the last one lay. */
	for (int i = 0; i < 4; i++) {
		pass(&training);
		training.pass.iterator = 7;
		assert_true(ask(&training));
		sequence++;
	}
}

static void test_failed(void **state)
{
	struct loader training = {1, 2, 3, .without_gradients = false};
	(void)state;
	run(&training, 2, true);
	pass(&training);
	assert_true(ask(&training));
	/* It raised. */
	training.pass.yielded = 0;
	assert_false(ask(&training));
}

static void test_blind(void **state)
{
	struct steps_pass nothing = {0};
	struct loader training = {1, 2, 3, .without_gradients = false};
	(void)state;
	for (unsigned i = 0; i < EPOCHS_BLIND; i++) {
		assert_int_equal(epochs.blind, i);
		assert_false(epochs_begins(&epochs, sequence++, &nothing));
	}
	assert_int_equal(epochs.blind, EPOCHS_BLIND);
	run(&training, 2, true);
	assert_int_equal(epochs.blind, 0);
}

static void test_moves(void **state)
{
	struct loader training = {1, 2, 3, .without_gradients = false}, other = {4, 5, 6, .without_gradients = false};
	(void)state;
	/* Another thread has another number, which says nothing. */
	pass(&other);
	ask(&other);
	epochs_move(&epochs);
	sequence = 1000;
	ask(&other);
	assert_false(epochs.training.is_known);
	run(&training, 2, true);
	epochs_move(&epochs);
	sequence = 5;
	assert_int_equal(run(&training, 2, true), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_plain, begin),
		cmocka_unit_test_setup(test_what_lies_within, begin),
		cmocka_unit_test_setup(test_which_one_trains, begin),
		cmocka_unit_test_setup(test_made_anew, begin),
		cmocka_unit_test_setup(test_one_batch, begin),
		cmocka_unit_test_setup(test_failed, begin),
		cmocka_unit_test_setup(test_blind, begin),
		cmocka_unit_test_setup(test_moves, begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
