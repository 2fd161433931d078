/* test_agent_dict.c - dicts and ints of a hostile process that says that it runs Python: sizes that no dict has, digits that no int has.
 * tests/fuzz/fuzz_agent_dict.c looks for more. */
#include "proto/python/dict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define AT 4096
#define TYPE_FLAGS (256 + 168)
#define KEYS 640

static uint64_t memory[128];

static bool read_memory(void *context, uint64_t address, void *to, size_t bytes)
{
	(void)context;
	if (address < AT || address - AT > sizeof memory || bytes > sizeof memory - (address - AT))
		return false;
	memcpy(to, (const char *)memory + (address - AT), bytes);
	return true;
}

/* A dict of CPython 3.10 whose table of keys has so many places, one of which is taken. */
static bool opens(uint64_t places, struct python_items *ret)
{
	struct python python = {.memory = {.read = read_memory, .reads_left = 100}, .minor = 10};
	memset(memory, 0, sizeof memory);
	memory[PYTHON_OBJECT_TYPE / 8] = AT + 256;
	memory[TYPE_FLAGS / 8] = PYTHON_TYPE_IS_DICT;
	memory[32 / 8] = AT + KEYS;
	memory[(KEYS + 8) / 8] = places;
	memory[(KEYS + 32) / 8] = 1;
	return python_dict_open(&python, AT, ret);
}

static void test_places(void **state)
{
	(void)state;
	struct python_items items;
	assert_true(opens(8, &items));
	assert_int_equal(items.keys.entries, AT + KEYS + 40 + 8);
	assert_true(opens(1 << 20, &items));
	assert_int_equal(items.keys.entries, AT + KEYS + 40 + (4 << 20));
	assert_false(opens(0, &items));
	assert_false(opens(9, &items));
	/* Four bytes a place: this many have none. */
	assert_false(opens(1ull << 62, &items));
	assert_false(opens(1ull << 63, &items));
}

/* An int of CPython 3.13 with these two digits; returns whether it is one. */
static bool is_number(uint32_t low, uint32_t high, uint64_t *ret)
{
	struct python python = {.memory = {.read = read_memory, .reads_left = 100}, .minor = 13};
	const uint32_t digits[] = {low, high};
	memset(memory, 0, sizeof memory);
	memory[PYTHON_OBJECT_TYPE / 8] = AT + 256;
	memory[TYPE_FLAGS / 8] = PYTHON_TYPE_IS_INT;
	memory[16 / 8] = 2 << 3;
	memcpy(&memory[24 / 8], digits, sizeof digits);
	return python_number(&python, AT, ret);
}

static void test_digits(void **state)
{
	(void)state;
	const uint32_t most = (1u << 30) - 1;
	uint64_t number;
	assert_true(is_number(most, most, &number));
	assert_int_equal(number, (1ull << 60) - 1);
	assert_false(is_number(1u << 30, 0, &number));
	assert_false(is_number(0, UINT32_MAX, &number));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_places), cmocka_unit_test(test_digits)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
