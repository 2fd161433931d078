/* test_client_table.c - one table in its three dresses: text for people, CSV, JSON. */
#include "client/ui/print.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NAME, CALLS, TIME, SHARE, FLAG, NOTE, DATA, COLUMNS };

static const struct column columns[] = {
	[NAME] = {"name", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},
	[CALLS] = {"calls", "CALLS", COLUMN_COUNT, 0},
	[TIME] = {"time_ns", "TIME", COLUMN_DURATION, 0},
	[SHARE] = {"", "SHARE", COLUMN_PERCENT, COLUMN_TABLE_ONLY},
	[FLAG] = {"lost", "LOST", COLUMN_FLAG, 0},
	[NOTE] = {"note", "NOTE", COLUMN_TEXT, COLUMN_OPTIONAL},
	[DATA] = {"data", "DATA", COLUMN_NUMBER, COLUMN_DATA_ONLY},
};

static struct table *filled(void)
{
	struct table *table = table_new(columns, COLUMNS);

	table_add(table);
	table_set_text(table, NAME, "first");
	table_set_text(table, NAME, "a \"b\",c");
	table_set(table, CALLS, 1234567);
	table_set(table, TIME, 12345);
	table_set_real(table, SHARE, 33.333);
	table_set(table, FLAG, 1);
	table_set(table, DATA, 42);
	table_add(table);
	table_set_text(table, NAME, "\xe6\xbc\xa2\xe5\xad\x97\x1b[m");
	table_set_absent(table, CALLS);
	table_set(table, TIME, 5);
	table_unset(table, TIME);
	table_mark(table);
	return table;
}

static char *printed(const struct table *table, unsigned width, size_t limit)
{
	char *text = NULL;
	size_t bytes;
	struct screen screen = {.file = open_memstream(&text, &bytes), .width = width};

	table_print(table, &screen, limit);
	fclose(screen.file);
	return text;
}

static void test_text(void **state)
{
	struct table *table = filled();
	char *text = printed(table, 0, 0);

	(void)state;
	assert_int_equal(table_rows(table), 2);
	assert_string_equal(text, "NAME            CALLS      TIME  SHARE  LOST\n"
				  "a \"b\",c     1,234,567  12.35 us  33.3%  yes\n"
				  "\xe6\xbc\xa2\xe5\xad\x97?[m  not recorded         -      -  -\n");
	free(text);
	text = printed(table, 0, 1);
	assert_non_null(strstr(text, "... and 1 more\n"));
	free(text);
	table_set_whole(table, 124);
	text = printed(table, 0, 0);
	assert_non_null(strstr(text, "... and 122 more\n"));
	free(text);
	table_free(table);
}

static void test_csv(void **state)
{
	struct table *table = filled();
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	(void)state;
	table_csv(table, file, 0);
	fclose(file);
	assert_string_equal(text, "name,calls,time_ns,lost,note,data\n"
				  "\"a \"\"b\"\",c\",1234567,12345,true,,42\n"
				  "\xe6\xbc\xa2\xe5\xad\x97?[m,,,,,\n");
	free(text);
	table_free(table);
}

static void test_json(void **state)
{
	struct table *table = filled();
	cJSON *rows = table_json(table, 0);
	char *text = cJSON_PrintUnformatted(rows);

	(void)state;
	assert_string_equal(text,
			    "[{\"name\":\"a \\\"b\\\",c\",\"calls\":1234567,\"time_ns\":12345,\"lost\":true,"
			    "\"note\":null,\"data\":42},{\"name\":\"\xe6\xbc\xa2\xe5\xad\x97\\u001b[m\",\"calls\":"
			    "null,\"time_ns\":null,\"lost\":null,\"note\":null,\"data\":null}]");
	free(text);
	cJSON_Delete(rows);
	rows = table_json(table, 1);
	assert_int_equal(cJSON_GetArraySize(rows), 1);
	cJSON_Delete(rows);
	table_free(table);
}

/* Every line fits, down to where nothing can give way any more; numbers are never cut. */
static void test_narrow(void **state)
{
	static const struct column two[] = {
		{"name", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},
		{"calls", "CALLS", COLUMN_COUNT, 0},
	};
	struct table *table = table_new(two, 2);

	(void)state;
	table_add(table);
	table_set_text(table, 0, "a_very_long_name_of_an_operator_with_a_tail");
	table_set(table, 1, 123456789);
	for (unsigned width = 25; width < 70; width++) {
		char *text = printed(table, width, 0), *line, *rest = text;

		while ((line = strsep(&rest, "\n")))
			assert_true(strlen(line) <= width);
		free(text);
		text = printed(table, width, 0);
		assert_non_null(strstr(text, "123,456,789"));
		assert_int_equal(strstr(text, "...") != NULL, width < 56);
		free(text);
	}
	table_free(table);
}

static void test_wrap(void **state)
{
	static const struct column two[] = {
		{"check", "CHECK", COLUMN_TEXT, 0},
		{"sentence", "WHAT", COLUMN_TEXT, COLUMN_WRAP},
	};
	struct table *table = table_new(two, 2);
	char *text;

	(void)state;
	table_add(table);
	table_set_text(table, 0, "agent");
	table_set_text(table, 1, "the agent is loaded but has not registered");
	text = printed(table, 32, 0);
	assert_string_equal(text, "CHECK  WHAT\n"
				  "agent  the agent is loaded but\n"
				  "       has not registered\n");
	free(text);
	/* Whole where it goes into a file. */
	text = printed(table, 0, 0);
	assert_string_equal(text, "CHECK  WHAT\nagent  the agent is loaded but has not registered\n");
	free(text);
	table_free(table);
}

static void test_empty(void **state)
{
	struct table *table = table_new(columns, COLUMNS);
	char *text = printed(table, 80, 0);
	cJSON *rows = table_json(table, 0);

	(void)state;
	assert_string_equal(text, "NAME  CALLS  TIME  SHARE  LOST\n");
	assert_int_equal(cJSON_GetArraySize(rows), 0);
	cJSON_Delete(rows);
	free(text);
	assert_null(table_free(table));
	assert_null(table_free(NULL));
}

static int setup(void **state)
{
	(void)state;
	return setlocale(LC_CTYPE, "C.UTF-8") ? 0 : -1;
}

enum { S_NAME, S_TIME, S_RATE, S_MIN, S_MAX, S_LIST, S_COUNT };

static const struct column spare_columns[] = {
	[S_NAME] = {"name", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},
	[S_TIME] = {"time_ns", "TIME", COLUMN_DURATION, 0},
	[S_RATE] = {"rate_gb_s", "RATE", COLUMN_RATE, 0},
	[S_MIN] = {"min_ns", "MIN", COLUMN_DURATION, COLUMN_SPARE},
	[S_MAX] = {"max_ns", "MAX", COLUMN_DURATION, COLUMN_SPARE},
	[S_LIST] = {"list", "LIST", COLUMN_LIST, COLUMN_SPARE},
};

static struct table *with_spare(const char *name)
{
	struct table *table = table_new(spare_columns, S_COUNT);

	table_add(table);
	table_set_text(table, S_NAME, name);
	table_set(table, S_TIME, 1);
	table_set_real(table, S_RATE, 1.5);
	table_set(table, S_MIN, 2);
	table_set(table, S_MAX, 3);
	table_set_text(table, S_LIST, "7,13");
	return table;
}

/* Spare columns go, the last one first, so that an elastic one keeps a fair width; they stay where there is room. */
static void test_spare(void **state)
{
	static const struct {
		const char *name;
		unsigned width;
		const char *text;
	} cases[] = {
		{"abc", 0, "NAME  TIME       RATE   MIN   MAX  LIST\nabc   1 ns  1.50 GB/s  2 ns  3 ns  7,13\n"},
		{"abc", 39, "NAME  TIME       RATE   MIN   MAX  LIST\nabc   1 ns  1.50 GB/s  2 ns  3 ns  7,13\n"},
		{"abc", 38, "NAME  TIME       RATE   MIN   MAX\nabc   1 ns  1.50 GB/s  2 ns  3 ns\n"},
		{"abc", 30, "NAME  TIME       RATE   MIN\nabc   1 ns  1.50 GB/s  2 ns\n"},
		{"abc", 20, "NAME  TIME       RATE\nabc   1 ns  1.50 GB/s\n"},
		{"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", 48,
		 "NAME                             TIME       RATE\nabcdefghijklmn...mnopqrstuvwxyz  1 ns  1.50 "
		 "GB/s\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct table *table = with_spare(cases[i].name);
		char *text = printed(table, cases[i].width, 0);

		assert_string_equal(text, cases[i].text);
		free(text);
		table_free(table);
	}
}

static void test_lists_and_rates(void **state)
{
	struct table *table = with_spare("abc");
	cJSON *rows = table_json(table, 0);
	const cJSON *list = cJSON_GetObjectItem(cJSON_GetArrayItem(rows, 0), "list");
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	(void)state;
	assert_int_equal(cJSON_GetArraySize(list), 2);
	assert_true(cJSON_GetArrayItem(list, 1)->valuedouble == 13);
	assert_true(cJSON_GetObjectItem(cJSON_GetArrayItem(rows, 0), "rate_gb_s")->valuedouble == 1.5);
	table_csv(table, file, 0);
	fclose(file);
	assert_string_equal(text, "name,time_ns,rate_gb_s,min_ns,max_ns,list\nabc,1,1.5,2,3,\"7,13\"\n");
	free(text);
	cJSON_Delete(rows);
	table_free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),  cmocka_unit_test(test_csv),
		cmocka_unit_test(test_json),  cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_wrap),  cmocka_unit_test(test_empty),
		cmocka_unit_test(test_spare), cmocka_unit_test(test_lists_and_rates),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
