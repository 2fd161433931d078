/* test_store_owner.c - whose code a file is: what Inductor has generated, wherever its folder is, and what only looks like it. */
#include "store/stack_owner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define REST "xwz3djhk4y5p6q7r2s3t4u5v6w7x2y3z4a5b6c7d2e3f4g5h" /* of a key, behind its first four letters */

/* Paths that torch 2.15 has made, but for the letters. */
static void test_inductor(void **state)
{
	(void)state;
	assert_int_equal(stack_owner("/tmp/torchinductor_root/ta/cta2" REST ".py"), OWNER_TORCH);
	assert_int_equal(stack_owner("/scratch/mine/ta/cta2" REST ".py"), OWNER_TORCH);
	assert_int_equal(stack_owner("ta/cta2" REST ".py"), OWNER_TORCH);
	assert_int_equal(stack_owner("/scratch/mine/7a/c7ab" REST ".py"), OWNER_TORCH);
}

static void test_not_inductor(void **state)
{
	(void)state;
	assert_int_equal(stack_owner("/scratch/mine/tb/cta2" REST ".py"), OWNER_USER);	/* another folder */
	assert_int_equal(stack_owner("/scratch/mine/xta/cta2" REST ".py"), OWNER_USER); /* a longer one */
	assert_int_equal(stack_owner("/scratch/mine/ta/cta2" REST "a.py"), OWNER_USER); /* a longer key */
	assert_int_equal(stack_owner("/scratch/mine/ta/cta1" REST ".py"), OWNER_USER);	/* 1 is no digit of base 32 */
	assert_int_equal(stack_owner("/scratch/mine/ta/fta2" REST ".py"), OWNER_USER);
	assert_int_equal(stack_owner("/scratch/mine/ta/ctaxi.py"), OWNER_USER);
	assert_int_equal(stack_owner("/home/me/train.py"), OWNER_USER);
	assert_int_equal(stack_owner(".py"), OWNER_USER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inductor),
		cmocka_unit_test(test_not_inductor),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
