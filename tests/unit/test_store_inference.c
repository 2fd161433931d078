/* test_store_inference.c - which operators without gradient are inference: made up loops of training, and what looks like it and is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/purpose.h"
#include "store/breakdown/names.h"
#include "store/breakdown/phases.h"

#include <stdlib.h>

#define MS INT64_C(1000000)

struct loop {
	struct phases phases;
	struct activity activity;
	struct breakdown breakdown;
	struct breakdown_step step;
	int64_t now, sequence;
	bool grad;
};

static void begin(struct loop *loop)
{
	*loop = (struct loop){.grad = true, .breakdown = {.step_thread = 1, .has_operators = true, .step_count = 1}};
	loop->phases.numbered = true;
	loop->breakdown.steps = &loop->step;
	loop->breakdown.activity = &loop->activity;
}

static void put(struct loop *loop, const char *name, int64_t sequence)
{
	bool backward = names_backward(name);
	phases_add(&loop->phases, &(struct phases_operator){.start = loop->now,
							    .end = loop->now + MS,
							    .sequence = phases_sequence(sequence),
							    .on_step_thread = !backward,
							    .backward = backward,
							    .takes_tensor = names_takes_tensor(name),
							    .network = (uint8_t)names_network(name)});
	loop->now += MS;
}

/* An operator that can be differentiated. */
static void run(struct loop *loop, const char *name)
{
	put(loop, name, loop->grad ? loop->sequence++ : -1);
}

static void model(struct loop *loop)
{
	run(loop, "aten::conv2d");
	run(loop, "aten::relu");
	run(loop, "aten::linear");
}

static void without_gradient(struct loop *loop, void (*what)(struct loop *loop))
{
	loop->grad = false;
	what(loop);
	loop->grad = true;
}

static void train(struct loop *loop)
{
	int64_t first = loop->sequence;
	model(loop);
	for (int64_t i = loop->sequence; i-- > first;)
		put(loop, "autograd::engine::evaluate_function: XBackward0", i);
	activity_mark(&loop->activity, 1, loop->now, loop->now + 3 * MS, PHASE_OPTIMIZER);
	without_gradient(loop, model); /* an optimizer may do what it likes */
	loop->now += MS;
}

static void check(struct loop *loop, int64_t forward, int64_t validation, int64_t inference)
{
	loop->step = (struct breakdown_step){.start = 0, .end = loop->now, .annotated = loop->now};
	assert_true(phases_mark(&loop->phases, &loop->breakdown, &loop->activity));
	assert_true(activity_build(&loop->activity));
	assert_true(breakdown_make(&loop->breakdown));
	assert_int_equal(loop->step.host[HOST_FORWARD] / MS, forward);
	assert_int_equal(loop->step.host[HOST_VALIDATION] / MS, validation);
	assert_int_equal(loop->step.host[HOST_TEST] + loop->step.host[HOST_EVALUATION], 0);
	assert_int_equal(loop->step.host[HOST_INFERENCE] / MS, inference);
	breakdown_free(&loop->breakdown);
	phases_free(&loop->phases);
	activity_free(&loop->activity);
}

#define TRAINED 3

static void metrics(struct loop *loop)
{
	run(loop, "aten::lerp_");
	run(loop, "aten::argmax");
	run(loop, "aten::mm");
	run(loop, "aten::conv2d"); /* SSIM, a blur */
}

static void test_training_is_none(void **state)
{
	struct loop loop;
	(void)state;
	begin(&loop);
	for (int i = 0; i < 3; i++) {
		train(&loop);
		put(&loop, "aten::randn", -1);
		without_gradient(&loop, metrics);
	}
	check(&loop, 3 * TRAINED, 0, 0);
}

static void test_evaluation(void **state)
{
	struct loop loop;
	(void)state;
	begin(&loop);
	train(&loop);
	put(&loop, "aten::randn", -1);
	for (int i = 0; i < 4; i++) {
		without_gradient(&loop, model);
		/* Of this batch, with gradient, where nothing is differentiated: the next training's first has the same number. */
		put(&loop, "aten::item", loop.sequence);
	}
	train(&loop);
	check(&loop, 2 * TRAINED + 1, 0, 4 * 3 + 3);
}

/* The loss is read behind the optimizer's step, and then the thread waits: what it reads has the number of what comes next. A part of the
 * network that is not trained has it, too, and is forward, also where the thread pauses. */
static void test_a_wait_is_no_forward(void **state)
{
	struct loop loop;
	(void)state;
	begin(&loop);
	for (int i = 0; i < 3; i++) {
		train(&loop);
		put(&loop, "aten::item", loop.sequence);
		loop.now += 20 * MS;
	}
	check(&loop, 3 * TRAINED, 0, 0);
	begin(&loop);
	for (int i = 0; i < 3; i++) {
		put(&loop, "aten::linear", loop.sequence);
		loop.now += MS;
		train(&loop);
	}
	check(&loop, 3 * (TRAINED + 2), 0, 0);
}

static void test_not_the_model(void **state)
{
	struct loop loop;
	(void)state;
	begin(&loop);
	train(&loop);
	without_gradient(&loop, metrics);
	run(&loop, "aten::linear"); /* not without gradient */
	without_gradient(&loop, metrics);
	train(&loop);
	check(&loop, 2 * TRAINED, 0, 0);
}

static void test_marked(void **state)
{
	struct loop loop;
	(void)state;
	begin(&loop);
	train(&loop);
	activity_mark(&loop.activity, 1, loop.now, loop.now + 3 * MS, names_phase("Validation"));
	/* Inside of it neither counts. */
	activity_mark(&loop.activity, 1, loop.now + MS, loop.now + 2 * MS, PHASE_FORWARD);
	without_gradient(&loop, model);
	int64_t start = loop.now;
	train(&loop);
	/* It is no evaluation where it trains. */
	activity_mark(&loop.activity, 1, start, loop.now, names_phase("test"));
	check(&loop, 2 * TRAINED, 3, 0);
}

static void test_server(void **state)
{
	struct loop loop;
	(void)state;
	begin(&loop);
	for (int i = 0; i < 3; i++) {
		without_gradient(&loop, model);
		loop.now += 20 * MS; /* until the next one asks */
	}
	check(&loop, 0, 0, 9);
	begin(&loop); /* with gradient switched on: nobody can say */
	model(&loop);
	check(&loop, 0, 0, 0);
	begin(&loop); /* nobody knows whether numbers were recorded */
	loop.phases.numbered = false;
	without_gradient(&loop, model);
	check(&loop, 0, 0, 0);
	begin(&loop); /* products are not only made by networks */
	without_gradient(&loop, metrics);
	loop.phases.count--;
	check(&loop, 0, 0, 0);
}

static void test_names(void **state)
{
	(void)state;
	assert_int_equal(names_phase("## eval ##"), PHASE_EVALUATION);
	assert_int_equal(names_phase("[pl][profile][Strategy]DDPStrategy.validation_step"), PHASE_VALIDATION);
	assert_int_equal(names_phase("[pl][profile][Strategy]DDPStrategy.test_step"), PHASE_TEST);
	assert_int_equal(names_phase("[pl][profile][Strategy]DDPStrategy.predict_step"), PHASE_INFERENCE);
	assert_int_equal(names_phase("[pl][profile][Strategy]DDPStrategy.training_step"), PHASE_NONE);
	assert_int_equal(names_phase("evaluate_later"), PHASE_NONE);
	assert_int_equal(purpose_of("MyTask.validate"), PURPOSE_VALIDATION);
	assert_int_equal(purpose_of("validate_email"), PURPOSE_NONE);
	assert_int_equal(purpose_within(purpose_of("Trainer.evaluation_loop"), purpose_of("Trainer.predict")),
			 PURPOSE_INFERENCE);
	assert_int_equal(purpose_within(PURPOSE_EVALUATION, PURPOSE_TRAINING), PURPOSE_EVALUATION);
	assert_int_equal(purpose_within(PURPOSE_TRAINING, PURPOSE_TEST), PURPOSE_TRAINING);
	assert_int_equal(names_network("aten::linear_backward"), 0);
	assert_false(names_takes_tensor("aten::zeros"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_training_is_none),
		cmocka_unit_test(test_evaluation),
		cmocka_unit_test(test_a_wait_is_no_forward),
		cmocka_unit_test(test_not_the_model),
		cmocka_unit_test(test_marked),
		cmocka_unit_test(test_server),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
