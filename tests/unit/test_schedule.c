/* test_schedule.c - schedule_state against torch.profiler.schedule(), whose Python body is repeated here statement for
 * statement, and the positions that the agent and the daemon plan with against the states themselves. */
#include "proto/limits.h"
#include "proto/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* torch/profiler/profiler.py, schedule_fn. */
static enum schedule_state torch_schedule(const struct schedule *s, uint64_t step)
{
	if (step < s->skip_first)
		return SCHEDULE_NONE;
	step -= s->skip_first;
	uint64_t num_steps = (uint64_t)s->wait + s->warmup + s->active;
	if (s->repeat > 0 && step / num_steps >= s->repeat)
		return SCHEDULE_NONE;
	uint64_t mod_step = step % num_steps;
	if (mod_step < s->wait)
		return SCHEDULE_NONE;
	if (mod_step < (uint64_t)s->wait + s->warmup)
		return SCHEDULE_WARMUP;
	return mod_step < num_steps - 1 ? SCHEDULE_RECORD : SCHEDULE_RECORD_AND_SAVE;
}

static void equals_torch(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < 4 * 4 * 4 * 4 * 4; n++) {
		struct schedule s = {n % 4, n / 4 % 4, n / 16 % 4, 1 + n / 64 % 4, n / 256};
		assert_null(schedule_check(&s));
		uint64_t saved = 0;
		uint64_t cycle_steps = (uint64_t)s.wait + s.warmup + s.active;
		for (uint64_t position = 0; position < 64; position++) {
			uint64_t cycle = 99;
			enum schedule_state now = schedule_state(&s, position, &cycle);
			assert_int_equal(now, torch_schedule(&s, position));
			assert_int_equal(now, schedule_state(&s, position, NULL));
			assert_int_equal(cycle, position < s.skip_first ? 0 : (position - s.skip_first) / cycle_steps);
			saved += now == SCHEDULE_RECORD_AND_SAVE;
			if (s.repeat && cycle >= s.repeat)
				continue;
			if (position == schedule_record_at(&s, cycle))
				assert_true(now == SCHEDULE_RECORD || now == SCHEDULE_RECORD_AND_SAVE);
			if (position == schedule_warmup_at(&s, cycle) && s.warmup)
				assert_int_equal(now, SCHEDULE_WARMUP);
			if (position < schedule_warmup_at(&s, cycle))
				assert_int_equal(now, SCHEDULE_NONE);
		}
		if (s.repeat)
			assert_int_equal(saved, s.repeat);
		else
			assert_true(saved > 3);
	}
}

/* The states of the documentation's own example, written down by hand. */
static void example(void **state)
{
	(void)state;
	struct schedule s = {.skip_first = 1, .wait = 1, .warmup = 1, .active = 2, .repeat = 1};
	static const enum schedule_state expected[] = {
		SCHEDULE_NONE, SCHEDULE_NONE, SCHEDULE_WARMUP, SCHEDULE_RECORD, SCHEDULE_RECORD_AND_SAVE,
		SCHEDULE_NONE, SCHEDULE_NONE};
	for (unsigned i = 0; i < sizeof expected / sizeof expected[0]; i++)
		assert_int_equal(schedule_state(&s, i, NULL), expected[i]);
	assert_int_equal(schedule_warmup_at(&s, 0), 2);
	assert_int_equal(schedule_record_at(&s, 0), 3);
	assert_string_equal(schedule_state_name(SCHEDULE_RECORD_AND_SAVE), "RECORD_AND_SAVE");
	assert_string_equal(schedule_state_name(SCHEDULE_NONE), "NONE");
	assert_string_equal(schedule_state_name(SCHEDULE_WARMUP), "WARMUP");
	assert_string_equal(schedule_state_name(SCHEDULE_RECORD), "RECORD");
}

static void large_numbers(void **state)
{
	(void)state;
	struct schedule s = {LIMIT_SCHEDULE_STEPS, LIMIT_SCHEDULE_STEPS, LIMIT_SCHEDULE_STEPS, LIMIT_STEPS,
			     LIMIT_SCHEDULE_STEPS};
	assert_null(schedule_check(&s));
	uint64_t at = schedule_record_at(&s, LIMIT_SCHEDULE_STEPS - 1u);
	uint64_t cycle = 0;
	assert_int_equal(schedule_state(&s, at, &cycle), SCHEDULE_RECORD);
	assert_int_equal(cycle, LIMIT_SCHEDULE_STEPS - 1u);
	assert_int_equal(schedule_state(&s, at - 1, NULL), SCHEDULE_WARMUP);
	assert_int_equal(schedule_state(&s, at + LIMIT_STEPS - 1, NULL), SCHEDULE_RECORD_AND_SAVE);
	assert_int_equal(schedule_state(&s, at + LIMIT_STEPS, NULL), SCHEDULE_NONE);
	assert_int_equal(schedule_state(&s, UINT64_MAX, NULL), SCHEDULE_NONE);
}

static void senseless(void **state)
{
	(void)state;
	struct schedule s = {.active = 0};
	assert_non_null(schedule_check(&s));
	assert_int_equal(schedule_state(&s, 0, NULL), SCHEDULE_NONE);
	s.active = LIMIT_STEPS + 1;
	assert_non_null(schedule_check(&s));
	s = (struct schedule){.active = 1, .wait = LIMIT_SCHEDULE_STEPS + 1};
	assert_non_null(schedule_check(&s));
	s = (struct schedule){.active = 1, .skip_first = LIMIT_SCHEDULE_STEPS + 1};
	assert_non_null(schedule_check(&s));
	s = (struct schedule){.active = 1, .warmup = LIMIT_SCHEDULE_STEPS + 1};
	assert_non_null(schedule_check(&s));
	s = (struct schedule){.active = 1, .repeat = LIMIT_SCHEDULE_STEPS + 1};
	assert_non_null(schedule_check(&s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_torch),
		cmocka_unit_test(example),
		cmocka_unit_test(large_numbers),
		cmocka_unit_test(senseless),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
