/* test_client_arguments.c - command lines: what the table of verbs makes of them, and what it refuses. */
#include "client/ui/failure.h"
#include "client/verbs/arguments.h"
#include "client/verbs/chosen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WORDS_MAX 16

static const char *line_words[WORDS_MAX + 1];

/* Reads "trigger --pid 1 ..."; words are split at blanks, "_" stands for an empty one. The texts live until the next. */
static int parse(struct arguments *arguments, const char *line)
{
	static char copy[512];
	int count = 0;
	char *rest = copy, *word;

	snprintf(copy, sizeof copy, "%s", line);
	while ((word = strsep(&rest, " ")) && count < WORDS_MAX)
		line_words[count++] = strcmp(word, "_") == 0 ? "" : word;
	line_words[count] = NULL;
	return arguments_init(arguments, verb_find(line_words[0]), count - 1, (char **)(void *)(line_words + 1));
}

static void test_values(void **state)
{
	struct arguments a;

	(void)state;
	assert_int_equal(parse(&a, "trigger --pid 5,6 --pid=7 -p6 -s 4 --duration 1m30s --max-bytes=64M --shapes -lx"),
			 ARGUMENTS_OK);
	assert_int_equal(a.pid_count, 3);
	assert_int_equal(a.pids[0], 5);
	assert_int_equal(a.pids[1], 6);
	assert_int_equal(a.pids[2], 7);
	assert_int_equal(arguments_number(&a, "steps", 3), 4);
	assert_int_equal(arguments_number(&a, "duration", 0), 90000000000);
	assert_int_equal(arguments_number(&a, "max-bytes", 0), 64 << 20);
	assert_int_equal(arguments_number(&a, "repeat", 1), 1);
	assert_true(arguments_has(&a, "shapes"));
	assert_false(arguments_has(&a, "all"));
	assert_string_equal(arguments_text(&a, "label", ""), "x");
	assert_null(arguments_text(&a, "output", NULL));
	assert_int_equal(arguments_format(&a), FORMAT_TABLE);
	arguments_deinit(&a);

	assert_int_equal(parse(&a, "trigger --steps 2 --steps 9 --format json --label _ --step-op --x"), ARGUMENTS_OK);
	assert_int_equal(arguments_number(&a, "steps", 3), 9);
	assert_int_equal(arguments_format(&a), FORMAT_JSON);
	assert_string_equal(arguments_text(&a, "label", "none"), "");
	assert_string_equal(arguments_text(&a, "step-op", ""), "--x");
	arguments_deinit(&a);
}

static void test_words(void **state)
{
	struct arguments a;

	(void)state;
	assert_int_equal(parse(&a, "rm 1 --format csv 2 -- --3 -"), ARGUMENTS_OK);
	assert_int_equal(a.word_count, 4);
	assert_string_equal(a.words[2], "--3");
	assert_string_equal(a.words[3], "-");
	assert_null(a.words[4]);
	arguments_deinit(&a);

	/* From the first word on the line is the command's own. */
	assert_int_equal(parse(&a, "run --name n python3 --name m --help"), ARGUMENTS_OK);
	assert_int_equal(a.word_count, 4);
	assert_string_equal(arguments_text(&a, "name", ""), "n");
	assert_string_equal(a.words[3], "--help");
	arguments_deinit(&a);

	assert_int_equal(parse(&a, "daemon --user --dir x"), ARGUMENTS_OK);
	assert_int_equal(a.word_count, 3);
	arguments_deinit(&a);
}

static void test_help(void **state)
{
	static const char *const lines[] = {"trigger --help", "trigger -h", "trigger --pid 1 --help",
					    "daemon --help",  "run --help", "show -bsteps -h"};
	struct arguments a;

	(void)state;
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		assert_int_equal(parse(&a, lines[i]), ARGUMENTS_HELP);
		arguments_deinit(&a);
	}
}

static void test_refused(void **state)
{
	static const char *const lines[] = {
		"trigger --pid x",
		"trigger --pid -1",
		"trigger --pid 0",
		"trigger --pid _",
		"trigger --pid 1,",
		"trigger --pid ,1",
		"trigger --pid 1,,2",
		"trigger --pid 1,2x",
		"trigger --pid 2147483648",
		"trigger --pid 99999999999999999999",
		"trigger --pid",
		"trigger --steps 0",
		"trigger --steps -1",
		"trigger --steps 3.5",
		"trigger --steps 99999999999",
		"trigger --steps=",
		"trigger --duration 2",
		"trigger --duration 10us",
		"trigger --duration 9999h",
		"trigger --duration 2s3",
		"trigger --max-bytes 1Q",
		"trigger --max-bytes 1",
		"trigger --max-bytes 9999T",
		"trigger --max-events 0",
		"trigger --shapes=yes",
		"trigger --format",
		"trigger --format xml",
		"trigger --format jso",
		"trigger --format _",
		"trigger --format table|json",
		"trigger --stepss 3",
		"trigger -z",
		"trigger 17",
		"show --sort-by speed",
		"rm",
		"run",
		"status now",
	};
	struct arguments a;
	int standard = dup(STDERR_FILENO), null;
	FILE *sink = tmpfile();

	(void)state;
	assert_non_null(sink);
	null = fileno(sink);
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		off_t before = lseek(null, 0, SEEK_CUR);
		int parsed;

		dup2(null, STDERR_FILENO);
		parsed = parse(&a, lines[i]);
		dup2(standard, STDERR_FILENO);
		if (parsed != ARGUMENTS_USAGE)
			print_error("taken: %s\n", lines[i]);
		assert_int_equal(parsed, ARGUMENTS_USAGE);
		/* Each says something. */
		assert_true(lseek(null, 0, SEEK_CUR) > before);
		arguments_deinit(&a);
	}
	fclose(sink);
	close(standard);
}

static void test_nearest(void **state)
{
	(void)state;
	assert_string_equal(verb_nearest("triger"), "trigger");
	assert_string_equal(verb_nearest("pss"), "ps");
	assert_string_equal(verb_nearest("captrues"), "captures");
	assert_null(verb_nearest("frobnicate"));
	assert_null(verb_find("triger"));
}

/* The table itself: what help, completion and the tests rely on. */
static void test_table(void **state)
{
	size_t count;
	const struct verb *verbs = verb_table(&count);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		assert_ptr_equal(verb_find(verbs[i].name), &verbs[i]);
		assert_non_null(verbs[i].run);
		assert_true(*verbs[i].summary && *verbs[i].description);
		for (const struct option_row *row = verbs[i].options; row->name; row++) {
			assert_true(row->argument || row->kind == OPTION_FLAG);
			assert_true(*row->help);
			assert_true(row->most == 0 || row->most >= row->least);
			for (const struct option_row *other = row + 1; other->name; other++) {
				assert_string_not_equal(row->name, other->name);
				assert_true(!row->letter || row->letter != other->letter);
			}
			assert_int_not_equal(row->letter, 'h');
		}
	}
}

/* Reads a line that ends with "--recipe", of a recipe with this text. */
static int parse_recipe(struct arguments *arguments, const char *line, const char *text, size_t bytes)
{
	static char path[] = "/tmp/profd-recipe-XXXXXX", whole[512];
	int fd, code;

	snprintf(path, sizeof path, "/tmp/profd-recipe-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, bytes), bytes);
	close(fd);
	snprintf(whole, sizeof whole, "%s %s", line, path);
	code = parse(arguments, whole);
	unlink(path);
	return code;
}

static void test_recipe(void **state)
{
	static const char text[] =
		"{\"wait\": 1, \"warmup\": 0, \"active\": 5, \"repeat\": 2, \"skip_first\": 4, \"record_shapes\": true,\n"
		"\"profile_memory\": false, \"with_stack\": true, \"with_modules\": true, \"activities\": [\"cpu\"],\n"
		"\"max_bytes\": \"64M\", \"label\": \"of the recipe\", \"pid\": 9, \"timeout\": \"9s\"}";
	struct arguments a;

	(void)state;
	assert_int_equal(
		parse_recipe(&a, "trigger --pid 5 --label mine --stacks --repeat 7 --recipe", text, strlen(text)),
		ARGUMENTS_OK);
	assert_int_equal(a.pid_count, 1);
	assert_int_equal(a.pids[0], 5);
	assert_int_equal(arguments_number(&a, "wait-steps", 9), 1);
	assert_int_equal(arguments_number(&a, "warmup", 9), 0);
	assert_int_equal(arguments_number(&a, "steps", 9), 5);
	assert_int_equal(arguments_number(&a, "repeat", 9), 7);
	assert_int_equal(arguments_number(&a, "skip-first", 9), 4);
	assert_int_equal(arguments_number(&a, "max-bytes", 0), 64 << 20);
	assert_int_equal(arguments_number(&a, "timeout", 0), 9000000000);
	assert_string_equal(arguments_text(&a, "label", ""), "mine");
	assert_true(arguments_has(&a, "shapes"));
	assert_true(arguments_has(&a, "modules"));
	assert_string_equal(arguments_text(&a, "activities", ""), "cpu");
	assert_false(arguments_has(&a, "memory"));
	/* --stacks of the command line is all of it. */
	assert_null(arguments_text(&a, "stacks", NULL));
	arguments_deinit(&a);

	assert_int_equal(parse_recipe(&a, "snapshot --recipe", "{\"all\": true, \"stacks\": true}", 29),
			 ARGUMENTS_USAGE);
	arguments_deinit(&a);
	assert_int_equal(parse_recipe(&a, "trigger --recipe", "{\"stacks\": \"operators\", \"pid\": 7}", 34),
			 ARGUMENTS_OK);
	assert_string_equal(arguments_text(&a, "stacks", ""), "operators");
	assert_int_equal(a.pids[0], 7);
	arguments_deinit(&a);
}

#define BIT(name) (1u << COLLECTOR_##name)

static uint32_t chosen(const char *line, const char *recipe)
{
	struct arguments a;
	uint32_t bits;

	assert_int_equal(parse_recipe(&a, line, recipe, strlen(recipe)), ARGUMENTS_OK);
	assert_int_equal(chosen_check(&a), EXIT_DONE);
	bits = chosen_collectors(&a);
	arguments_deinit(&a);
	return bits;
}

static void check_refused(const char *line, const char *recipe)
{
	struct arguments a;

	assert_int_equal(parse_recipe(&a, line, recipe, strlen(recipe)), ARGUMENTS_OK);
	assert_int_equal(chosen_check(&a), EXIT_USAGE);
	arguments_deinit(&a);
}

/* The command line goes before a recipe, and both before a preset. */
static void test_presets(void **state)
{
	const uint32_t light = BIT(STEPS) | BIT(NVTX) | BIT(CUPTI), usual = light | BIT(TORCH) | BIT(COMPILE);
	const uint32_t full = usual | BIT(SHAPES) | BIT(MEMORY) | BIT(ALLOCATIONS) | BIT(PYTHON) |
			      BIT(OPERATOR_STACKS) | BIT(MODULES);

	(void)state;
	assert_int_equal(chosen("trigger --recipe", "{}"), usual);
	assert_int_equal(chosen("trigger --preset default --recipe", "{}"), usual);
	assert_int_equal(chosen("trigger --preset light --recipe", "{}"), light);
	assert_int_equal(chosen("snapshot --preset light --recipe", "{}"), light);
	assert_int_equal(chosen("trigger --recipe", "{\"preset\": \"full\"}"), full);
	assert_int_equal(chosen("trigger --preset light --recipe", "{\"preset\": \"full\"}"), light);
	/* What needs torch's calls brings them. */
	assert_int_equal(chosen("trigger --preset light --shapes --recipe", "{}"), light | BIT(TORCH) | BIT(SHAPES));
	assert_int_equal(chosen("trigger --preset light --stacks --recipe", "{}"), light | BIT(PYTHON));
	assert_int_equal(chosen("trigger --preset full --stacks --recipe", "{}"), full & ~BIT(OPERATOR_STACKS));
	assert_int_equal(chosen("trigger --preset full --no-gpu --recipe", "{}"), full & ~(BIT(CUPTI) | BIT(MEMORY)));
	assert_int_equal(chosen("trigger --preset full --recipe", "{\"with_modules\": false, \"memory\": false}"),
			 full & ~(BIT(MODULES) | BIT(MEMORY) | BIT(ALLOCATIONS)));
	assert_int_equal(chosen("trigger --preset full --modules --recipe", "{\"with_modules\": false}"), full);
	assert_int_equal(chosen("trigger --recipe", "{\"with_flops\": false, \"record_shapes\": true}"),
			 usual | BIT(SHAPES));

	assert_int_equal(chosen("trigger --activities gpu --recipe", "{}"), BIT(STEPS) | BIT(CUPTI));
	assert_int_equal(chosen("trigger --recipe", "{\"activities\": [\"cuda\"]}"), BIT(STEPS) | BIT(CUPTI));
	assert_int_equal(chosen("trigger --recipe", "{\"activities\": \"gpu\"}"), BIT(STEPS) | BIT(CUPTI));
	assert_int_equal(chosen("trigger --activities cpu --recipe", "{\"activities\": [\"gpu\"]}"),
			 usual & ~BIT(CUPTI));
	assert_int_equal(chosen("trigger --preset light --activities cpu,gpu --recipe", "{}"), usual);
	assert_int_equal(chosen("trigger --preset full --activities gpu --recipe", "{}"),
			 BIT(STEPS) | BIT(CUPTI) | BIT(MEMORY));
	assert_int_equal(chosen("trigger --preset full --activities cpu --recipe", "{}"),
			 full & ~(BIT(CUPTI) | BIT(MEMORY)));
	assert_int_equal(chosen("trigger --activities gpu --graphs whole --recipe", "{}"), BIT(STEPS) | BIT(CUPTI));

	check_refused("trigger --activities gpu --shapes --recipe", "{}");
	check_refused("trigger --activities gpu --recipe", "{\"profile_memory\": true}");
	check_refused("trigger --activities gpu --api all --recipe", "{}");
	check_refused("trigger --activities gpu --no-gpu --recipe", "{}");
	check_refused("trigger --activities cpu --graphs whole --recipe", "{}");
	check_refused("trigger --no-gpu --api all --recipe", "{}");
	check_refused("snapshot --no-gpu --recipe", "{\"activities\": [\"cpu\", \"gpu\"]}");
}

static void test_recipe_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"{",
		"[]",
		"{} x",
		"{\"steps\": 3",
		"{\"steps\": \"3\"}",
		"{\"steps\": 3.5}",
		"{\"steps\": 0}",
		"{\"steps\": -1}",
		"{\"steps\": 1e300}",
		"{\"steps\": null}",
		"{\"steps\": {}}",
		"{\"steps\": 1, \"steps\": 2}",
		"{\"shapes\": 1}",
		"{\"shapes\": \"yes\"}",
		"{\"with_stack\": \"operators\"}",
		"{\"stacks\": \"all\"}",
		"{\"duration\": 2}",
		"{\"duration\": \"2\"}",
		"{\"graphs\": \"some\"}",
		"{\"graphs\": \"nodes|whole\"}",
		"{\"label\": 1}",
		"{\"pid\": 0}",
		"{\"recipe\": \"/dev/null\"}",
		"{\"stepz\": 1}",
		"{\"\": 1}",
		"{\"\\u0000\": 1}",
		"{\"activities\": []}",
		"{\"activities\": \"host\"}",
		"{\"preset\": \"heavy\"}",
		"{\"preset\": [\"light\"]}",
		"{\"activities\": [\"cpu\", \"xpu\"]}",
		"{\"activities\": [1]}",
	};
	struct arguments a;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(parse_recipe(&a, "trigger --pid 1 --recipe", bad[i], strlen(bad[i])), ARGUMENTS_USAGE);
		arguments_deinit(&a);
	}
	/* A mistake is told where the command line says otherwise, too. */
	assert_int_equal(parse_recipe(&a, "trigger --pid 1 --steps 2 --recipe", "{\"steps\": 0}", 12), ARGUMENTS_USAGE);
	arguments_deinit(&a);
	assert_int_equal(parse_recipe(&a, "trigger --pid 1 --recipe", "{}\0", 3), ARGUMENTS_OK);
	arguments_deinit(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),	cmocka_unit_test(test_words),	       cmocka_unit_test(test_help),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_nearest),	       cmocka_unit_test(test_table),
		cmocka_unit_test(test_recipe),	cmocka_unit_test(test_recipe_refused), cmocka_unit_test(test_presets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
