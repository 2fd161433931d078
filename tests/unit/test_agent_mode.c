/* test_agent_mode.c - the modules that a frame names, in the memory of a CPython 3.12 that is made here: as it is, with words that lead anywhere, and while it
 * changes. */
#include "../../agent/stacks/mode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define AT 0x100000u
#define WORDS 2048u
#define READS 1024
#define MOST_AT_ONCE (PYTHON_BLOCK * 24)
#define IS_PYTHONS (1ull << 9)
#define OWNS_DICT (1ull << 4)

static uint64_t memory[WORDS], plain[WORDS];
static uint32_t used, reads, change_at;
static uint64_t change_to, *change;
static struct {
	uint64_t class, compiled, dict, text, frame, code, model, twin, wrapper, yes, no, training;
} made;

static bool read_memory(void *context, uint64_t address, void *to, size_t bytes)
{
	(void)context;
	assert_true(bytes <= MOST_AT_ONCE);
	if (++reads == change_at && change)
		*change = change_to;
	if (address < AT || address - AT > sizeof memory || bytes > sizeof memory - (address - AT))
		return false;
	memcpy(to, (const char *)memory + (address - AT), bytes);
	return true;
}

static uint64_t room(uint32_t words)
{
	uint64_t ret = AT + used * 8;
	used += words;
	assert_true(used <= WORDS);
	return ret;
}

static uint64_t *word(uint64_t address)
{
	return &memory[(address - AT) / 8];
}

static uint64_t type(uint64_t flags, const char *name)
{
	uint64_t ret = room(120), text = room(4);
	memcpy(word(text), name, strlen(name) + 1);
	*word(ret + 24) = text;
	*word(ret + PYTHON_TYPE_FLAGS) = flags;
	return ret;
}

static uint64_t text(const char *characters)
{
	uint64_t ret = room(8);
	*word(ret + 8) = made.text;
	*word(ret + 16) = strlen(characters);
	*word(ret + 32) = 1 << 2 | 1 << 5 | 1 << 6;
	memcpy((char *)word(ret) + 40, characters, strlen(characters) + 1);
	return ret;
}

/* `count` keys and their values. */
static uint64_t dict(uint32_t count, const uint64_t items[])
{
	uint64_t keys = room(4 + 2 + 2 * count), ret = room(6);
	unsigned char head[] = {4, 4, 1};
	*word(ret + 8) = made.dict;
	*word(ret + 32) = keys;
	memcpy((char *)word(keys) + 8, head, sizeof head);
	*word(keys + 24) = count;
	memcpy(word(keys + 32 + 16), items, 16 * count);
	return ret;
}

static uint64_t object(uint64_t class, uint64_t attributes)
{
	uint64_t ret = room(7) + 24;
	*word(ret - 24) = attributes;
	*word(ret + 8) = class;
	return ret;
}

static uint64_t names[6]; /* training, _parameters, _modules, _orig_mod, model, engine */

static uint64_t module(uint64_t class, uint64_t training, uint64_t inner)
{
	const uint64_t below[] = {names[3], inner};
	uint64_t items[] = {names[0], training, names[1], dict(0, NULL), names[2], dict(inner != 0, below)};
	/* What has `training` as a property has it not here. */
	return object(class, training ? dict(3, items) : dict(2, items + 2));
}

static const char *const words[] = {"training", "_parameters", "_modules", "_orig_mod", "model", "engine"};

/* A function with the variables engine and wrapper, which names `model`; that is an attribute of its first variable, and a global one. */
static void make(void)
{
	memset(memory, 0, sizeof memory);
	used = 8;
	made.text = type(PYTHON_TYPE_IS_STR, "str");
	made.dict = type(PYTHON_TYPE_IS_DICT, "dict");
	made.class = type(IS_PYTHONS | OWNS_DICT, "Linear");
	made.compiled = type(IS_PYTHONS | OWNS_DICT, "OptimizedModule");
	made.yes = room(4);
	made.no = room(4);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		names[i] = text(words[i]);
	made.model = module(made.class, made.no, 0);
	made.twin = module(made.class, made.yes, 0);
	made.wrapper = module(made.compiled, 0, made.twin);
	const uint64_t global[] = {names[4], made.model, names[5], made.wrapper};
	uint64_t globals = dict(2, global), engine = object(made.class, dict(1, global)), tuple = room(4);
	*word(tuple + 16) = 1;
	*word(tuple + 24) = names[4];
	made.code = room(16);
	*word(made.code + 32) = tuple;
	*word(made.code + 72) = 2;
	made.frame = room(16);
	*word(made.frame + 24) = globals;
	*word(made.frame + 72) = engine;
	*word(made.frame + 80) = made.wrapper;
	memcpy(plain, memory, sizeof plain);
}

static struct modes look(void)
{
	struct mode_reader reader = {
		.python = {.memory = {.read = read_memory},
			   .minor = 12,
			   .offsets = {.text_state = 32,
				       .text_ascii = 40,
				       .text_wide = 56,
				       .tuple_items = 24,
				       .code_line = 68,
				       .frame_locals = 72}},
		.yes = made.yes,
		.no = made.no,
		.cell = 1,
	};
	struct modes ret = {0};
	reads = 0;
	modes_of_frame(&reader, made.frame, made.code, READS, &ret);
	assert_true(reads <= READS && ret.count <= MODES_MOST);
	for (uint32_t i = 0; i < ret.count; i++)
		assert_true(ret.items[i].object && ret.items[i].type && ret.items[i].parameters);
	return ret;
}

static void test_named(void **state)
{
	(void)state;
	make();
	struct modes found = look();
	/* The variable first, as what it was compiled from; then the attribute, which is the global variable, too. */
	assert_int_equal(found.count, 2);
	assert_int_equal(found.items[0].object, made.twin);
	assert_true(found.items[0].training);
	assert_int_equal(found.items[1].object, made.model);
	assert_false(found.items[1].training);
	/* Not what it does not name. */
	*word(*word(made.code + 32) + 24) = names[3];
	assert_int_equal(look().count, 1);
}

static uint64_t *value_of_training(uint64_t module_)
{
	return word(*word(*word(module_ - 24) + 32) + 32 + 16 + 8);
}

static void test_what_is_not_sure_is_none(void **state)
{
	(void)state;
	const uint64_t others[] = {0, 1, UINT64_MAX, AT, AT + 8 * WORDS};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		make();
		*value_of_training(made.model) = others[i];
		assert_int_equal(look().count, 1);
	}
	/* Neither has `training`: one that was compiled from itself, and one from nothing. */
	make();
	made.wrapper = module(made.compiled, 0, 0);
	*word(made.frame + 80) = made.wrapper;
	assert_int_equal(look().count, 1);
	const uint64_t itself[] = {names[3], made.wrapper};
	const uint64_t below[] = {names[1], dict(0, NULL), names[2], dict(1, itself)};
	*word(made.wrapper - 24) = dict(2, below);
	assert_int_equal(look().count, 1);
}

/* Each word leads elsewhere: to nothing, itself, the end, or to any other place. */
static void test_words_that_lead_anywhere(void **state)
{
	(void)state;
	uint32_t found = 0;
	make();
	srand(1);
	for (uint32_t at = 0; at < used; at++) {
		const uint64_t itself = AT + at * 8, any = AT + (uint64_t)(rand() % (int)WORDS) * 8;
		const uint64_t others[] = {0,	1,	 UINT64_MAX,	     itself,	 itself - 24,
					   any, any + 1, AT + 8 * WORDS - 8, made.model, 1ull << 63 | any};
		for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
			memcpy(memory, plain, sizeof memory);
			memory[at] = others[i];
			found += look().count;
		}
	}
	assert_true(found > 0);
}

/* Another thread changes what is read, before each of the reads in turn. */
static void test_while_it_changes(void **state)
{
	(void)state;
	make();
	uint64_t attributes = *word(made.model - 24);
	uint64_t items[] = {names[0], made.yes, names[1], dict(0, NULL), names[2], dict(0, NULL)};
	uint64_t grown = *word(dict(3, items) + 32);
	const struct {
		uint64_t at, to;
	} changes[] = {{attributes + 32, grown},
		       {attributes + 32, AT - 8},
		       {made.model - 24, 0},
		       {made.model + 8, made.compiled},
		       {made.frame + 24, grown}};
	memcpy(plain, memory, sizeof plain);
	look();
	uint32_t all = reads;
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
		for (change_at = 1; change_at <= all; change_at++) {
			memcpy(memory, plain, sizeof memory);
			change = word(changes[i].at);
			change_to = changes[i].to;
			struct modes found = look();
			/* What nobody changes is there as ever. */
			assert_true(found.count >= 1 && found.items[0].object == made.twin && found.items[0].training);
			assert_true(found.count == 1 || found.items[1].object == made.model);
		}
	change = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_named),
		cmocka_unit_test(test_what_is_not_sure_is_none),
		cmocka_unit_test(test_words_that_lead_anywhere),
		cmocka_unit_test(test_while_it_changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
